//! [`Requests`]: the way from the REST interface to the managed host, which works on a thread of its own.

use crate::managed_host::{ChangeRequest, ManagedHost, PerCpu, Reading};
use api::{Cpus, Demand, History, Host, Observation, Problem, Process, ThreadUsages, Timeline, Usages, Vm};
use sched::Nanos;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use sys::clock;
use tokio::sync::oneshot;

/// Maximum number of waiting changes that are written to the disk together.
const TOGETHER_MOST: usize = 8;
/// Number of requests that wait for the managed host. Further requests are refused.
const WAITING_MOST: usize = 1_024;

/// A request to the managed host, with the way of its reply.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A question whether the managed host answers.
    Beat(oneshot::Sender<()>),
    Host(oneshot::Sender<Host>),
    List(oneshot::Sender<Vec<Vm>>),
    Show(String, oneshot::Sender<Result<Vm, Problem>>),
    Cpus(oneshot::Sender<Cpus>),
    /// The measurements since a time in ms.
    History(u64, oneshot::Sender<History>),
    /// The measurements of the promise to the VM with an id, for each of its CPUs.
    PerCpu(String, oneshot::Sender<PerCpu>),
    /// The CPU time of all VMs that run.
    Usages(oneshot::Sender<Reading<Usages>>),
    /// The CPU time of each thread of a VM.
    ThreadUsages(Box<Vm>, oneshot::Sender<Reading<ThreadUsages>>),
    /// What the threads of a VM, which has this process, do for some time.
    Observe(Box<Vm>, Process, Nanos, oneshot::Sender<Reading<Observation>>),
    /// Which thread runs on each CPU for some time.
    Demand(Nanos, oneshot::Sender<Reading<Demand>>),
    Timeline(Nanos, oneshot::Sender<Reading<Timeline>>),
    Set(Box<ChangeRequest>, oneshot::Sender<Result<Vm, Problem>>),
    WouldSet(Box<ChangeRequest>, oneshot::Sender<Result<Vm, Problem>>),
}

/// The way to the managed host.
#[derive(Clone, Debug)]
pub(crate) struct Requests(SyncSender<Ask>);

/// Returns the way to a managed host, and its other end for [`serve`].
pub(crate) fn channel() -> (Requests, Receiver<Ask>) {
    let (sender, receiver) = sync_channel(WAITING_MOST);
    (Requests(sender), receiver)
}

impl Requests {
    /// Sends a request, and waits for the reply.
    ///
    /// # Errors
    /// Too many requests wait, or the service ends.
    pub(crate) async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        let ends = || Problem::new(503, "Service Unavailable", "the service ends", "start it again");
        self.0.try_send(ask(reply)).map_err(|error| match error {
            TrySendError::Full(_) => {
                Problem::new(503, "Service Unavailable", "too many requests wait", "repeat the request later")
            }
            TrySendError::Disconnected(_) => ends(),
        })?;
        answer.await.map_err(|_| ends())
    }
}

/// Answers requests, and lets the host work from time to time, until no request can come any more.
pub(crate) fn serve(host: &mut impl ManagedHost, requests: &Receiver<Ask>) {
    // The host knows its VMs before the first request.
    let begin = clock::now();
    let (mut next, mut waiting) = (begin.saturating_add(host.look(begin)), None);
    loop {
        let left = next.saturating_since(clock::now());
        let first = waiting.take().map_or_else(|| requests.recv_timeout(Duration::from_nanos(left.as_ns())), Ok);
        match first {
            Ok(ask) => waiting = answer(host, ask, requests),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock::now();
        if next <= now {
            let pause = host.look(now);
            next = clock::now().saturating_add(pause);
        }
    }
}

/// The way of the reply to a change.
type Reply = oneshot::Sender<Result<Vm, Problem>>;

/// Makes the change of `request`, and those of the requests that wait behind it. Returns the next request of another kind,
/// if it was met.
fn change(
    host: &mut impl ManagedHost,
    (request, reply): (ChangeRequest, Reply),
    waiting: &Receiver<Ask>,
) -> Option<Ask> {
    let (mut requests, mut replies, mut other) = (vec![request], vec![reply], None);
    while requests.len() < TOGETHER_MOST && other.is_none() {
        match waiting.try_recv() {
            Ok(Ask::Set(request, reply)) => {
                requests.push(*request);
                replies.push(reply);
            }
            Ok(ask) => other = Some(ask),
            Err(_) => break,
        }
    }
    for (reply, outcome) in replies.into_iter().zip(host.set(&requests)) {
        // A client that has left needs no reply.
        let _ = reply.send(outcome);
    }
    other
}

/// Answers a request. Returns a later one that was taken from those that wait.
fn answer(host: &mut impl ManagedHost, ask: Ask, waiting: &Receiver<Ask>) -> Option<Ask> {
    // A client that has left needs no reply.
    match ask {
        Ask::Beat(reply) => drop(reply.send(())),
        Ask::Host(reply) => drop(reply.send(host.host())),
        Ask::List(reply) => drop(reply.send(host.list())),
        Ask::Show(vm, reply) => drop(reply.send(host.show(&vm))),
        Ask::Cpus(reply) => drop(reply.send(host.cpus())),
        Ask::History(since_ms, reply) => drop(reply.send(host.history(since_ms))),
        Ask::PerCpu(id, reply) => drop(reply.send(host.per_cpu(&id))),
        Ask::Usages(reply) => drop(reply.send(host.usages())),
        Ask::ThreadUsages(vm, reply) => drop(reply.send(host.usage_of_threads(*vm))),
        Ask::Observe(vm, process, length, reply) => drop(reply.send(host.observe(*vm, process, length))),
        Ask::Demand(length, reply) => drop(reply.send(host.demand(length))),
        Ask::Timeline(length, reply) => drop(reply.send(host.timeline(length))),
        Ask::Set(request, reply) => return change(host, (*request, reply), waiting),
        Ask::WouldSet(request, reply) => drop(reply.send(host.would_set(&request))),
    }
    None
}
