//! [`Promises`]: what every mechanism offers for the promises that it keeps.

use super::dispatcher::{Dismissed, Dispatcher};
use super::refusal::Refusal;
use crate::kernel::Kernel;
use crate::restore::Restoring;
use sched::{CpuId, CpuSet, EntityId, Instant, Nanos, PromiseState};
use sys::thread::Identity;
use trace::Event;

/// The promises that one mechanism keeps. [`Dispatcher`] keeps them by turns of agents, and
/// [`KernelKept`](super::KernelKept) by reservations of the kernel.
pub trait Promises {
    /// Changes the promise that `e` is part of to `slice` in every `period`. Also returns the CPUs whose agents must be
    /// woken, even after a refusal.
    ///
    /// # Errors
    /// The change is refused, and the promise stays.
    fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> (Result<(), Refusal>, CpuSet);

    /// Ends the promise to `e` and restores its threads. Returns the CPUs whose agents must be woken.
    fn dismiss(&mut self, e: EntityId) -> CpuSet;

    /// Ends all promises.
    fn dismiss_all(&mut self);

    /// Restores all threads, because no guardian is alive. Returns the CPUs whose agents must be woken.
    fn suspend(&mut self) -> CpuSet;

    /// Serves all clients again. Returns the CPUs whose agents must be woken.
    fn resume(&mut self) -> CpuSet;

    /// Returns the clients that were dismissed since the last call.
    fn take_dismissed(&mut self) -> Vec<Dismissed>;

    /// Replaces the content of `events` with the events since the last call. Returns the number of lost events.
    fn read_journal(&mut self, events: &mut Vec<(Instant, Event)>) -> u64;

    /// Returns whether this host reports wake-ups of `e`, or the mechanism does not need them.
    fn reports_wakeups(&self, e: EntityId) -> bool;

    /// Returns whether the promise to `e` counts as kept; `None` if `e` has no promise.
    fn is_kept(&self, e: EntityId) -> Option<bool>;

    /// Returns the promise state of `e`; `None` if Tactus does not count the slice of `e`.
    fn promise(&self, e: EntityId) -> Option<PromiseState>;

    /// Returns the CPU on which `e` has its turns; `None` if `e` has no promise, or the kernel chooses the CPU.
    fn cpu(&self, e: EntityId) -> Option<CpuId>;

    /// Returns the name of the client that `thread` belongs to.
    fn name_of_holder(&self, thread: &Identity) -> Option<String>;

    /// Takes the unfinished restorations of dismissed clients. The caller continues them with [`Restoring::look`]
    /// without holding the promises, and then [returns](Promises::keep_leaving) them.
    fn take_leaving(&mut self) -> Vec<(usize, Restoring)>;

    /// Takes back restorations after a scan. Returns the pause until the next scan, if a scan is needed.
    fn keep_leaving(&mut self, looked_at: Vec<(usize, Restoring)>) -> Option<Nanos>;

    /// Returns whether a dismissed client may still have threads inside a fork.
    fn has_leaving(&self) -> bool;

    /// Returns whether process `pid` is an ancestor or descendant of such a client.
    fn is_leaving(&self, pid: u32) -> bool;
}

impl<K: Kernel> Promises for Dispatcher<K> {
    fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> (Result<(), Refusal>, CpuSet) {
        Dispatcher::adjust(self, e, slice, period)
    }

    fn dismiss(&mut self, e: EntityId) -> CpuSet {
        Dispatcher::dismiss(self, e)
    }

    fn dismiss_all(&mut self) {
        Dispatcher::dismiss_all(self);
    }

    fn suspend(&mut self) -> CpuSet {
        Dispatcher::suspend(self)
    }

    fn resume(&mut self) -> CpuSet {
        Dispatcher::resume(self)
    }

    fn take_dismissed(&mut self) -> Vec<Dismissed> {
        Dispatcher::take_dismissed(self)
    }

    fn read_journal(&mut self, events: &mut Vec<(Instant, Event)>) -> u64 {
        Dispatcher::read_journal(self, events)
    }

    fn reports_wakeups(&self, e: EntityId) -> bool {
        Dispatcher::reports_wakeups(self, e)
    }

    fn is_kept(&self, e: EntityId) -> Option<bool> {
        self.is_client_kept(e)
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.client_promise(e)
    }

    fn cpu(&self, e: EntityId) -> Option<CpuId> {
        self.client_cpu(e)
    }

    fn name_of_holder(&self, thread: &Identity) -> Option<String> {
        self.holder(*thread).map(str::to_string)
    }

    fn take_leaving(&mut self) -> Vec<(usize, Restoring)> {
        Dispatcher::take_leaving(self)
    }

    fn keep_leaving(&mut self, looked_at: Vec<(usize, Restoring)>) -> Option<Nanos> {
        Dispatcher::keep_leaving(self, looked_at)
    }

    fn has_leaving(&self) -> bool {
        Dispatcher::has_leaving(self)
    }

    fn is_leaving(&self, pid: u32) -> bool {
        Dispatcher::is_leaving(self, pid)
    }
}
