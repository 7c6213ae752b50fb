//! [`CarrierWatch`]: tells that an interrupt is on its way to a VM, because a carrier of its interrupts wakes.
//!
//! The main loop wakes for a timer, a disk or another device, and vhost for the network. A wake-up by a vCPU does not count: the guest has requested
//! something.

use super::loans::VmThreads;
use sched::{Instant, Nanos};
use std::os::fd::{AsFd, BorrowedFd};
use sys::event::Waiting;
use sys::scheduler_trace::{Event, Record, SchedulerTrace, Waker};
use sys::{Result, cpus, thread};

/// Least time between two looks: a VM whose carriers wake all the time takes no more of the host.
const APART: Nanos = Nanos::us(200);

/// A carrier has woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Woken {
    /// Whether a device has woken it, rather than a timer.
    pub(super) is_by_device: bool,
}

/// A watch over the carriers of a VM, by tracepoints.
#[derive(Debug)]
pub struct CarrierWatch {
    trace: SchedulerTrace,
    /// The descriptors of the trace.
    descriptors: Waiting,
    records: Vec<Record>,
    resumes: Instant,
}

impl AsFd for CarrierWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptors.as_fd()
    }
}

impl CarrierWatch {
    /// Watches the carriers of a VM on all CPUs, from now on.
    ///
    /// # Errors
    /// The caller lacks the privilege, or the kernel is locked down or has no tracepoints.
    pub fn begin(threads: &VmThreads) -> Result<CarrierWatch> {
        let tids = |all: &[thread::Identity]| all.iter().map(|identity| identity.tid).collect::<Vec<u32>>();
        let cpus: Vec<_> = cpus::online()?.iter().collect();
        let trace = SchedulerTrace::of_wake_ups(&cpus, &tids(&threads.carriers), &tids(&threads.vcpus))?;
        let descriptors = Waiting::new()?;
        trace.descriptors().try_for_each(|descriptor| descriptors.add(descriptor, 0))?;
        Ok(CarrierWatch { trace, descriptors, records: Vec::new(), resumes: Instant::ZERO })
    }

    /// Returns the instant from which the next look is due.
    pub(super) fn resumes(&self) -> Instant {
        self.resumes
    }

    /// Returns whether a carrier has woken since the last look, and whether a device of the host has woken it: a timer does so in the handler of its
    /// interrupt, and a disk or a network in a soft interrupt or a thread.
    pub(super) fn look(&mut self, now: Instant) -> Option<Woken> {
        self.resumes = now.saturating_add(APART);
        self.records.clear();
        let is_incomplete = self.trace.read(&mut self.records).is_some();
        let is_timer = |record: &Record| matches!(record.event, Event::Waking { by: Waker::Interrupt, .. });
        let is_by_device = self.records.iter().any(|record| !is_timer(record));
        (is_incomplete || !self.records.is_empty()).then_some(Woken { is_by_device })
    }
}
