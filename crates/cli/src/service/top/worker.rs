//! [`Worker`]: the threads that wait for the service, so that the keyboard never waits for it.

use super::requests::{Change, Outcome, Reply, Request, Trouble};
use super::sample::Service;
use api::{Error, Vm};
use sched::Nanos;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use sys::clock;

/// Longest time between two readings of a service that does not reply.
const RETRY: Nanos = Nanos::s(1);

/// The threads that wait for the service: one reads samples, the other one makes requests of the user.
#[derive(Debug)]
pub(super) struct Worker {
    requests: Sender<Request>,
    /// The replies, in the order of their arrival.
    pub(super) replies: Receiver<Reply>,
    threads: [JoinHandle<()>; 2],
}

impl Worker {
    /// Begins to read a sample in every `interval`. The threads end after this value is dropped, with their next reply.
    pub(super) fn start<S: Service + Clone + Send + 'static>(service: S, interval: Nanos) -> Worker {
        let (requests, asked) = mpsc::channel();
        let (reply, replies) = mpsc::channel();
        let (reader, sampled) = (service.clone(), reply.clone());
        let reading = thread::spawn(move || read(&reader, interval, &sampled));
        let answering = thread::spawn(move || answer(&service, &asked, &reply));
        Worker { requests, replies, threads: [reading, answering] }
    }

    /// Whether a thread has panicked. Its panic has restored the terminal.
    pub(super) fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    pub(super) fn ask(&self, request: Request) {
        // The thread ends only by a panic, which `has_failed` reports.
        let _ = self.requests.send(request);
    }
}

fn read(service: &impl Service, interval: Nanos, replies: &Sender<Reply>) {
    let mut pause = interval;
    loop {
        clock::sleep(pause);
        let sample = service.sample();
        pause = if sample.is_ok() { interval } else { interval.min(RETRY) };
        let sample = sample.map(Box::new).map_err(|error| error.to_string());
        if replies.send(Reply::Sample(sample)).is_err() {
            return;
        }
    }
}

fn answer(service: &impl Service, requests: &Receiver<Request>, replies: &Sender<Reply>) {
    while let Ok(first) = requests.recv() {
        let waiting: Vec<Request> = std::iter::once(first).chain(requests.try_iter()).collect();
        for request in latest(waiting) {
            if replies.send(reply(service, request)).is_err() {
                return;
            }
        }
    }
}

/// Removes the checks that a later request replaces.
fn latest(requests: Vec<Request>) -> Vec<Request> {
    let last = requests.len().saturating_sub(1);
    let kept = requests.into_iter().enumerate().filter(|(at, it)| *at == last || matches!(it, Request::Apply { .. }));
    kept.map(|(_, request)| request).collect()
}

fn reply(service: &impl Service, request: Request) -> Reply {
    let outcomes = |changes: Vec<Change>, make: &dyn Fn(&Change) -> Result<Vm, Error>| -> Vec<Outcome> {
        let outcome = |change: Change| {
            let trouble = |error| Trouble::new(error, || service.show(&change.id).ok());
            Outcome { result: make(&change).map(Box::new).map_err(trouble), change }
        };
        changes.into_iter().map(outcome).collect()
    };
    match request {
        Request::Check { number, changes } => {
            let check = |change: &Change| service.would_set(&change.id, change.generation, &change.desired);
            Reply::Checked { number, outcomes: outcomes(changes, &check) }
        }
        Request::Apply { number, action, changes } => {
            let apply = |change: &Change| service.set(&change.id, change.generation, &change.desired);
            Reply::Applied { number, action, outcomes: outcomes(changes, &apply) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Action;
    use super::*;

    #[test]
    fn a_check_that_a_later_request_replaces_is_not_made() {
        let check = |number| Request::Check { number, changes: Vec::new() };
        let apply = |number| Request::Apply { number, action: Action::Edit, changes: Vec::new() };
        let kept = latest(vec![check(1), apply(2), check(3), check(4)]);
        let numbers = kept.iter().map(|it| match it {
            Request::Check { number, .. } | Request::Apply { number, .. } => *number,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 4]);
        assert!(latest(Vec::new()).is_empty());
    }
}
