//! The loans of a VM: a donor for each vCPU, and for each thread on the way of interrupts.

use super::loan_guardian::LoanGuardian;
use crate::guardian::urgently;
use sched::{Instant, Nanos};
use std::path::Path;
use std::sync::Arc;
use sys::clock::Timer;
use sys::event::Bell;
use sys::inheritance::Donor;
use sys::thread::{Identity, Thread};
use sys::usage::Meter;
use sys::{Error, Result};

/// The threads of a VM.
#[derive(Clone, Debug)]
pub struct VmThreads {
    /// The threads of the vCPUs, in the order of the guest's CPUs.
    pub vcpus: Vec<Identity>,
    /// The threads on the way of interrupts to the vCPUs: the main loop, and those of vhost. They are boosted with any vCPU, one priority
    /// above it: the interrupt that wakes an urgent task comes from them.
    pub carriers: Vec<Identity>,
}

/// A thread of a VM with its donor.
pub(super) struct Lent {
    donor: Donor,
    meter: Meter,
    /// CPU time at the last call of [`used`](Lent::used).
    counted: Nanos,
}

impl Lent {
    fn begin(identity: Identity, ended: &Arc<Bell>) -> Result<Lent> {
        let donor = Donor::start(Arc::clone(ended))?;
        donor.lend_to(identity.tid)?;
        // The tid may have been reused before the loan began.
        let thread = Thread::open_as(identity)?;
        Ok(Lent { donor, meter: thread.meter()?, counted: Nanos::ZERO })
    }

    /// Lends a priority. A thread that has ended gets none.
    pub(super) fn set(&self, priority: Option<u32>) -> Result<()> {
        match self.donor.set(priority) {
            Err(Error::Gone(_)) => Ok(()),
            result => result,
        }
    }

    /// Returns the CPU time since the last call, which a caller may only want to begin anew.
    pub(super) fn used(&mut self) -> Nanos {
        let ran = self.meter.read().map_or(self.counted, |usage| usage.ran);
        let used = ran.saturating_sub(self.counted);
        self.counted = ran;
        used
    }
}

/// The loans of a VM, with their guardian.
pub(super) struct Loans {
    pub(super) vcpus: Vec<Lent>,
    pub(super) carriers: Vec<Lent>,
    /// Rings when a loan ends: its thread has ended, or this process was stopped.
    pub(super) ended: Arc<Bell>,
    /// Goes off when the loans lapse.
    alarm: Timer,
    /// Ends after the donors.
    pub(super) guardian: LoanGuardian,
}

impl Loans {
    /// Begins loans to `threads`, which lend nothing yet. `program` is this program, and `priority` that of the guardian.
    ///
    /// # Errors
    /// A vCPU has ended (`Gone`) or is no thread of a VM, or the guardian does not start.
    pub(super) fn begin(threads: &VmThreads, program: &Path, priority: u32) -> Result<Loans> {
        // On a busy host, donors and guardian start late otherwise.
        urgently(|| {
            let ended = Arc::new(Bell::new()?);
            let vcpus: Vec<Lent> =
                threads.vcpus.iter().map(|&vcpu| Lent::begin(vcpu, &ended)).collect::<Result<Vec<Lent>>>()?;
            let mut carriers = Vec::new();
            for &carrier in &threads.carriers {
                match Lent::begin(carrier, &ended) {
                    // A VM ends and starts such threads with its devices.
                    Err(Error::Gone(_)) => {}
                    begun => carriers.push(begun?),
                }
            }
            let donor = |lent: &Lent| Ok(Thread::open(lent.donor.tid())?.identity());
            let donors = vcpus.iter().chain(&carriers).map(donor).collect::<Result<Vec<Identity>>>()?;
            let alarm = Timer::new()?;
            let guardian = LoanGuardian::start(program, &alarm, &donors, priority)?;
            Ok(Loans { vcpus, carriers, ended, alarm, guardian })
        })
    }

    /// Has the guardian end all loans at `at`, unless this function is called again before. [`Instant::NEVER`]: nothing is lent.
    pub(super) fn lapse_at(&self, at: Instant) -> Result<()> {
        self.alarm.set(at)
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        // The guardian must not lower a donor that has ended: another thread may have its tid.
        let _ = self.alarm.set(Instant::NEVER);
        // A donor that has ended lends nothing.
        self.vcpus.iter().chain(&self.carriers).for_each(|lent| drop(lent.set(None)));
    }
}
