//! [`Examination`]: the results of the doctor on a machine.

use super::measured::MeasuredMechanisms;
use daemon::doctor::{Finding, Mechanism};
use daemon::host_profile::{HostProfile, Warning};
use daemon::lateness::Measured;
use sched::Nanos;

/// Interval between two expiries of the timer under test.
pub(super) const INTERVAL: Nanos = Nanos::ms(1);
/// All results.
pub(super) struct Examination {
    pub(super) host: HostProfile,
    pub(super) findings: Vec<Finding>,
    pub(super) measured: Measured,
    pub(super) length: Nanos,
    /// Steal time during the measurement of timers. Unit: parts per million of the time of all CPUs.
    pub(super) stolen_ppm: Option<u64>,
    /// Measurements of the mechanisms, if they were requested.
    pub(super) mechanisms: Option<MeasuredMechanisms>,
    /// Warnings that the guardian cannot leave the control groups of the daemon, and of interfering threads.
    pub(super) tried: Vec<Warning>,
}

impl Examination {
    /// Returns the mechanisms that can keep promises on this machine, each with the maximum promised share of each CPU
    /// in parts per million.
    pub(super) fn promisable(&self) -> impl Iterator<Item = (Mechanism, u64)> {
        let working = self.findings.iter().filter(|finding| finding.verdict.is_ok());
        let shares = working.filter_map(|finding| Some((finding.mechanism, self.promisable_by(finding)?)));
        shares.filter(|&(_, ppm)| ppm > 0)
    }

    /// Returns the maximum share of each CPU, in parts per million, that can be promised with the mechanism of
    /// `finding`; `None`: the mechanism does not work, or cannot keep promises.
    pub(super) fn promisable_by(&self, finding: &Finding) -> Option<u64> {
        // A scheduler in the kernel dispatches promises that another mechanism can keep, too (`--sched-ext`).
        let ours = finding.mechanism != Mechanism::SchedExt;
        self.host.promisable_ppm(finding.mechanism).filter(|_| ours && finding.verdict.is_ok())
    }

    /// Returns the properties of this machine that endanger promises.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let mut all = self.host.warnings();
        all.extend(self.tried.iter().cloned());
        all
    }

    /// Returns whether a mechanism can keep promises on this machine.
    pub(super) fn keeps_promises(&self) -> bool {
        self.promisable().next().is_some()
    }
}
