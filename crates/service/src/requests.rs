//! [`Requests`]: the way from the REST interface to the reconciler, which works on a thread of its own.

use crate::observation::PerCpu;
use crate::reconciler::{ChangeRequest, Reconciler};
use api::{Cpus, History, Host, Problem, Vm};
use sched::Nanos;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use sys::clock;
use tokio::sync::oneshot;

/// Interval between two looks at the host and the core.
const LOOK: Nanos = Nanos::ms(50);
/// Maximum number of waiting changes that are written to the disk together.
const TOGETHER_MOST: usize = 8;
/// Number of requests that wait for the reconciler. Further requests are refused.
const WAITING_MOST: usize = 1_024;

/// A request to the reconciler, with the way of its reply.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A question whether the reconciler works.
    Beat(oneshot::Sender<()>),
    Host(oneshot::Sender<Host>),
    List(oneshot::Sender<Vec<Vm>>),
    Show(String, oneshot::Sender<Result<Vm, Problem>>),
    Cpus(oneshot::Sender<Cpus>),
    /// The measurements since a time in ms.
    History(u64, oneshot::Sender<History>),
    /// The measurements of the promise to the VM with an id, for each of its CPUs.
    PerCpu(String, oneshot::Sender<PerCpu>),
    Set(Box<ChangeRequest>, oneshot::Sender<Result<Vm, Problem>>),
    WouldSet(Box<ChangeRequest>, oneshot::Sender<Result<Vm, Problem>>),
}

/// The way to the reconciler.
#[derive(Clone, Debug)]
pub(crate) struct Requests(SyncSender<Ask>);

/// Returns the way to a reconciler, and its other end for [`serve`].
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

/// Answers requests, and looks at the host and the core from time to time, until no request can come any more.
pub(crate) fn serve(reconciler: &mut Reconciler, requests: &Receiver<Ask>) {
    let (mut next, mut waiting) = (clock::now(), None);
    loop {
        let left = next.saturating_since(clock::now());
        let first = waiting.take().map_or_else(|| requests.recv_timeout(Duration::from_nanos(left.as_ns())), Ok);
        match first {
            Ok(ask) => waiting = answer(reconciler, ask, requests),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock::now();
        if next <= now {
            reconciler.look(now);
            next = clock::now().saturating_add(LOOK);
        }
    }
}

/// The way of the reply to a change.
type Reply = oneshot::Sender<Result<Vm, Problem>>;

/// Makes the change of `request`, and those of the requests that wait behind it. Returns the next request of another kind,
/// if it was met.
fn change(
    reconciler: &mut Reconciler,
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
    for (reply, outcome) in replies.into_iter().zip(reconciler.set(&requests)) {
        // A client that has left needs no reply.
        let _ = reply.send(outcome);
    }
    other
}

/// Answers a request. Returns a later one that was taken from those that wait.
fn answer(reconciler: &mut Reconciler, ask: Ask, waiting: &Receiver<Ask>) -> Option<Ask> {
    // A client that has left needs no reply.
    match ask {
        Ask::Beat(reply) => drop(reply.send(())),
        Ask::Host(reply) => drop(reply.send(reconciler.host())),
        Ask::List(reply) => drop(reply.send(reconciler.list())),
        Ask::Show(vm, reply) => drop(reply.send(reconciler.show(&vm))),
        Ask::Cpus(reply) => drop(reply.send(reconciler.cpus())),
        Ask::History(since_ms, reply) => drop(reply.send(reconciler.history(since_ms))),
        Ask::PerCpu(id, reply) => drop(reply.send(reconciler.per_cpu(&id))),
        Ask::Set(request, reply) => return change(reconciler, (*request, reply), waiting),
        Ask::WouldSet(request, reply) => drop(reply.send(reconciler.would_set(&request))),
    }
    None
}
