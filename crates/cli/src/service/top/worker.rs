//! [`Worker`]: the threads that wait for the service and for the terminal, so that neither waits for the other.

use super::requests::{Change, Outcome, Reply, Request, Trouble};
use super::sample::Service;
use super::screen::Report;
use api::{Error, Vm};
use sched::Nanos;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use sys::clock;

/// Longest time between two readings of a service that does not reply.
const RETRY: Nanos = Nanos::s(1);

/// What a thread reports.
#[derive(Debug)]
pub(super) enum News {
    /// The terminal reports something, or cannot be read.
    Report(io::Result<Report>),
    Reply(Reply),
}

/// The threads that wait: for samples, for the replies to requests of the user, and for the terminal.
///
/// The terminal has a thread of its own because crossterm 0.29 does not return from a read of a terminal that has hung up.
#[derive(Debug)]
pub(super) struct Worker {
    requests: Sender<Request>,
    /// The news, in the order of their arrival.
    pub(super) news: Receiver<News>,
    threads: [JoinHandle<()>; 3],
}

impl Worker {
    /// Begins to read the terminal by `report`, and a sample in every `interval`. The threads end after this value is dropped,
    /// with their next news.
    pub(super) fn start<S: Service + Clone + Send + 'static>(
        service: S,
        interval: Nanos,
        report: impl Fn() -> io::Result<Report> + Send + 'static,
    ) -> Worker {
        let (requests, asked) = mpsc::channel();
        let (to, news) = mpsc::channel();
        let (reader, samples, reports) = (service.clone(), to.clone(), to.clone());
        let threads = [
            thread::spawn(move || read(&reader, interval, &samples)),
            thread::spawn(move || answer(&service, &asked, &to)),
            thread::spawn(move || {
                // A terminal that cannot be read ends the program.
                while reports.send(News::Report(report())).is_ok() {}
            }),
        ];
        Worker { requests, news, threads }
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

fn read(service: &impl Service, interval: Nanos, to: &Sender<News>) {
    let mut pause = interval;
    loop {
        clock::sleep(pause);
        let sample = service.sample();
        pause = if sample.is_ok() { interval } else { interval.min(RETRY) };
        let sample = sample.map(Box::new).map_err(|error| error.to_string());
        if to.send(News::Reply(Reply::Sample(sample))).is_err() {
            return;
        }
    }
}

fn answer(service: &impl Service, requests: &Receiver<Request>, to: &Sender<News>) {
    while let Ok(first) = requests.recv() {
        let waiting: Vec<Request> = std::iter::once(first).chain(requests.try_iter()).collect();
        for request in latest(waiting) {
            if to.send(News::Reply(reply(service, request))).is_err() {
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

/// Makes a request, and returns the reply.
pub(super) fn reply(service: &impl Service, request: Request) -> Reply {
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
