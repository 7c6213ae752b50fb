//! [`CarrierWatch`]: tells that an interrupt is on its way to a VM, because a carrier of its interrupts wakes.
//!
//! The main loop wakes for a timer, a disk or another device, and vhost for the network. A wake-up by a vCPU does not count: the guest has requested
//! something.

use super::loans::VmThreads;
use sched::{Instant, Nanos};
use std::os::fd::{AsFd, BorrowedFd};
use sys::event::Waiting;
use sys::scheduler_trace::{Event, Record, SchedulerTrace, Waker};
use sys::{Error, Result, cpus, kernel, thread};

/// Least time between two looks that have found something.
const APART: Nanos = Nanos::us(200);
/// The pause after a look, as a multiple of the time that the begin of the boosts has taken. Their end takes as long: a VM whose carriers wake all the
/// time takes a quarter of a CPU at most.
const RESTS: u64 = 8;
/// Maximum number of vCPUs of a VM that is boosted at interrupts: boosts of more would not begin in time.
const VCPUS_MOST: usize = 64;

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
    carriers: Vec<u32>,
    vcpus: Vec<u32>,
    /// Whether timers of ordinary threads expire in soft interrupts (PREEMPT_RT).
    is_realtime: bool,
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
    /// The caller lacks the privilege, the kernel is locked down or has no tracepoints, or the VM has too many vCPUs.
    pub fn begin(threads: &VmThreads) -> Result<CarrierWatch> {
        if threads.vcpus.len() > VCPUS_MOST {
            return Err(Error::Absent {
                what: "boosts at interrupts".to_string(),
                why: format!("the VM has more than {VCPUS_MOST} vCPUs"),
                remedy: "use the agent in the guest, whose hints name the vCPU",
            });
        }
        let tids = |all: &[thread::Identity]| all.iter().map(|identity| identity.tid).collect::<Vec<u32>>();
        let (carriers, vcpus) = (tids(&threads.carriers), tids(&threads.vcpus));
        let cpus: Vec<_> = cpus::online()?.iter().collect();
        let trace = SchedulerTrace::of_wake_ups(&cpus, &carriers, &vcpus)?;
        let descriptors = Waiting::new()?;
        trace.descriptors().try_for_each(|descriptor| descriptors.add(descriptor, 0))?;
        let is_realtime = kernel::is_realtime();
        Ok(CarrierWatch {
            trace,
            descriptors,
            carriers,
            vcpus,
            is_realtime,
            records: Vec::new(),
            resumes: Instant::ZERO,
        })
    }

    /// Returns the instant from which the next look is due.
    pub(super) fn resumes(&self) -> Instant {
        self.resumes
    }

    /// Returns whether a carrier has woken since the last look.
    pub(super) fn look(&mut self, now: Instant) -> Option<Woken> {
        self.records.clear();
        let is_incomplete = self.trace.read(&mut self.records).is_some();
        let (mut has_woken, mut is_by_device) = (is_incomplete, is_incomplete);
        for record in &self.records {
            if let Event::Waking { tid, by, .. } = record.event
                && self.carriers.contains(&tid)
                && !matches!(by, Waker::Thread(by) if self.vcpus.contains(&by))
            {
                has_woken = true;
                is_by_device |= self.is_device(by);
            }
        }
        if has_woken {
            self.resumes = now.saturating_add(APART);
        }
        has_woken.then_some(Woken { is_by_device })
    }

    /// Whether a device wakes a carrier, rather than a timer. A timer does so in the handler of its interrupt; a disk or a network mostly in a soft
    /// interrupt or a thread.
    fn is_device(&self, by: Waker) -> bool {
        match by {
            Waker::Interrupt => false,
            Waker::SoftInterrupt => !self.is_realtime,
            Waker::Thread(_) => true,
        }
    }

    /// Pauses after boosts whose begin has taken this time, up to `now`.
    pub(super) fn rest(&mut self, took: Nanos, now: Instant) {
        self.resumes = self.resumes.max(now.saturating_add(took.saturating_mul(RESTS)));
    }
}
