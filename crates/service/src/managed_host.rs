//! [`ManagedHost`]: the host behind the REST interface.

use crate::caller::Caller;
use api::{
    Cpus, Demand, Desired, History, Host, Measured, Observation, Problem, Process, ThreadUsages, Timeline, Usages, Vm,
};
use sched::{EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

/// The measurements of each entity of a promise.
pub type PerCpu = BTreeMap<EntityId, Measured>;

/// A requested change of a desired state.
#[derive(Clone, Debug)]
pub struct ChangeRequest {
    /// Id, name or `pid:NUMBER` of the VM.
    pub vm: String,
    /// Generation that the VM must have.
    pub generation: Option<u64>,
    /// The desired state after the change.
    pub desired: Desired,
    /// The client.
    pub by: Caller,
    /// Reason for the audit log.
    pub why: Option<String>,
    /// Key of the client for this change. A repeated request with the same key changes nothing.
    pub key: Option<String>,
}

/// A host whose VMs clients list, observe and change. One thread makes all calls, and no call waits for long: a long
/// reading is a [`Reading`], which the caller awaits elsewhere.
pub trait ManagedHost {
    /// Lets the host work: it follows what has happened until `now` of the monotonic clock. Returns the pause until the
    /// next call. Requests are answered between two calls.
    fn look(&mut self, now: Instant) -> Nanos;

    /// Returns the host.
    fn host(&self) -> Host;

    /// Returns all VMs, by name.
    fn list(&self) -> Vec<Vm>;

    /// Returns the VM with this id or name, or the process `pid:NUMBER`.
    ///
    /// # Errors
    /// There is no such VM, or several VMs have the name.
    fn show(&mut self, vm: &str) -> Result<Vm, Problem>;

    /// Returns the CPUs, and what is promised of each.
    fn cpus(&self) -> Cpus;

    /// Returns the measurements of the promises since `since_ms`. Unit: ms since 1970-01-01 00:00 UTC.
    fn history(&self, since_ms: u64) -> History;

    /// Returns the measurements of the promise to the VM with this id, for each of its CPUs.
    fn per_cpu(&mut self, id: &str) -> PerCpu;

    /// Changes the desired states of VMs, one request after another. Returns the VMs, each as it was after its change.
    ///
    /// # Errors
    /// The request is invalid, not permitted, out of date or refused. It has changed nothing.
    fn set(&mut self, requests: &[ChangeRequest]) -> Vec<Result<Vm, Problem>>;

    /// Returns the VM as it would be after [`set`](ManagedHost::set), without changing it.
    ///
    /// # Errors
    /// The request would be refused.
    fn would_set(&mut self, request: &ChangeRequest) -> Result<Vm, Problem>;

    /// Returns the CPU time of all VMs that run.
    fn usages(&mut self) -> Reading<Usages>;

    /// Returns the CPU time of each thread of `vm`.
    fn usage_of_threads(&mut self, vm: Vm) -> Reading<ThreadUsages>;

    /// Observes the threads of `vm`, whose process is `process`, for `length` of the host's time. The measurements of the
    /// promise are left empty.
    fn observe(&mut self, vm: Vm, process: Process, length: Nanos) -> Reading<Observation>;

    /// Returns the bursts of the threads of all VMs, observed for `length` of the host's time.
    fn demand(&mut self, length: Nanos) -> Reading<Demand>;

    /// Returns which thread runs on each CPU for `length` of the host's time.
    fn timeline(&mut self, length: Nanos) -> Reading<Timeline>;
}

/// A reading that another thread, or a later call of [`ManagedHost::look`], completes.
pub struct Reading<T>(Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>);

impl<T: Send + 'static> Reading<T> {
    /// Returns a reading that is complete.
    #[must_use]
    pub fn done(content: T) -> Reading<T> {
        Reading(Box::pin(std::future::ready(Ok(content))))
    }

    /// Returns a reading that `reading` completes.
    pub fn later(reading: impl Future<Output = Result<T, Problem>> + Send + 'static) -> Reading<T> {
        Reading(Box::pin(reading))
    }

    /// Returns a reading that a thread for blocking calls makes, such as one of /proc: many VMs take long.
    pub(crate) fn blocking(read: impl FnOnce() -> T + Send + 'static) -> Reading<T> {
        let failed = |_| Problem::new(500, "Internal Server Error", "a reading has failed", "report this");
        Reading::later(async move { tokio::task::spawn_blocking(read).await.map_err(failed) })
    }

    /// Waits for the reading.
    ///
    /// # Errors
    /// The reading has failed, or the host ends.
    pub async fn wait(self) -> Result<T, Problem> {
        self.0.await
    }
}

impl<T> fmt::Debug for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}
