//! The terms of a core, and the request for a desired promise on these terms.

use api::{CAP_MOST, HostPolicy, Limit, Mechanism, Problem, Promise, WEIGHT_MOST};
use daemon::dispatch::{KeptBy, Others, PERIOD_LEAST, PromiseRequest, RaiseBy, SLICE_LEAST};
use daemon::kernel::CpuShare;
use daemon::live::{AdmissionPolicy, Setup};
use sched::{CpuSet, Knobs, Nanos, Reservation};

/// Checks the values of a desired state that no core needs to see.
///
/// # Errors
/// The first wrong value, with the right ones.
pub fn check(desired: &api::Desired) -> Result<(), Problem> {
    let wrong = |what: &str, right: &str| Err(Problem::new(422, "Unprocessable Content", what, right));
    if let Some(Promise { slice_ns, period_ns, cpus, gang, .. }) = &desired.promise {
        if *period_ns < PERIOD_LEAST.as_ns() || *period_ns > sched::time::SPAN_MAX.as_ns() {
            return wrong(
                &format!("the period of {period_ns} ns is out of range"),
                &format!("use at least {PERIOD_LEAST}"),
            );
        }
        if *slice_ns < SLICE_LEAST.as_ns() {
            return wrong(&format!("the slice of {slice_ns} ns is too short"), &format!("use at least {SLICE_LEAST}"));
        }
        if *cpus == 0 || *gang && *cpus < 2 {
            return wrong(
                &format!("a promise on {cpus} CPUs{} is none", if *gang { " in a gang" } else { "" }),
                "use at least 1 CPU, or 2 for a gang",
            );
        }
        if *slice_ns > period_ns.saturating_mul(u64::from(*cpus)) {
            let what = format!("the slice of {} exceeds the time of {cpus} CPUs in the period", Nanos::ns(*slice_ns));
            return wrong(&what, &format!("use a slice of at most {}", Nanos::ns(period_ns * u64::from(*cpus))));
        }
    }
    if desired.weight.is_some_and(|weight| weight == 0 || weight > WEIGHT_MOST) {
        return wrong("the weight is out of range", &format!("use 1 to {WEIGHT_MOST}; an ordinary group has 100"));
    }
    if desired.cap_percent.is_some_and(|cap| cap == 0 || cap > CAP_MOST) {
        let right = format!("use 1 to {CAP_MOST} percent of a CPU; pausing does not stop a VM");
        return wrong("the cap is out of range", &right);
    }
    Ok(())
}

/// Returns what keeps a promise by `mechanism`, on the terms of a core.
fn kept_by(mechanism: Mechanism, setup: &Setup) -> KeptBy {
    match mechanism {
        Mechanism::Auto => setup.usual,
        Mechanism::Inherit => KeptBy::Dispatcher(RaiseBy::Inheritance),
        Mechanism::Fifo => KeptBy::Dispatcher(RaiseBy::Attributes),
        Mechanism::Deadline => KeptBy::Kernel,
    }
}

/// Returns the request for `promise` to the VM `name`.
pub(crate) fn request(name: &str, vcpus: &[u32], promise: &Promise, setup: &Setup) -> PromiseRequest {
    let limit = match promise.limit {
        Limit::Soft => sched::Limit::Soft,
        Limit::Hard => sched::Limit::Hard,
    };
    let reservation =
        Reservation { limit, ..Reservation::new(Nanos::ns(promise.slice_ns), Nanos::ns(promise.period_ns)) };
    PromiseRequest {
        by: kept_by(promise.mechanism, setup),
        cpus: usize::from(promise.cpus),
        gang: promise.gang,
        others: Others::None,
        affinity: CpuSet::ALL,
        vcpus: vcpus.to_vec(),
        ..PromiseRequest::new(name, reservation)
    }
}

/// Returns whether the promise of one request becomes that of the other by a change of slice and period.
pub(crate) fn differ_in_times_only(one: &PromiseRequest, other: &PromiseRequest) -> bool {
    let reservation =
        Reservation { slice: other.reservation.slice, period: other.reservation.period, ..one.reservation };
    let adjusted = PromiseRequest { name: other.name.clone(), reservation, ..one.clone() };
    adjusted == *other
}

/// The mechanism of a promise that a scheduler in the kernel dispatches, as text.
pub(crate) const IN_KERNEL: &str = "sched_ext";

/// Returns the mechanism as text.
pub(crate) fn word(by: KeptBy) -> &'static str {
    match by {
        KeptBy::Dispatcher(RaiseBy::Inheritance) => "inherit",
        KeptBy::Dispatcher(RaiseBy::Attributes) => "fifo",
        KeptBy::Kernel => "deadline",
    }
}

/// Returns the share of the CPUs that is desired; `None`: no weight and no cap.
pub(crate) fn share(desired: &api::Desired) -> Option<CpuShare> {
    let api::Desired { weight, cap_percent, .. } = *desired;
    (weight.is_some() || cap_percent.is_some()).then_some(CpuShare { weight, cap_percent })
}

/// Returns the part of each CPU that a core may promise. Unit: percent.
pub(crate) fn promisable_percent(setup: &Setup) -> Option<u32> {
    let admission = setup.turns.as_ref().or(setup.reservations.as_ref())?;
    u32::try_from(100 - admission.knobs.get("reserve")).ok()
}

/// Returns the policy of a core.
pub(crate) fn policy(setup: &Setup) -> Option<HostPolicy> {
    let AdmissionPolicy { policy, knobs } = setup.turns.as_ref().or(setup.reservations.as_ref())?;
    Some(host_policy(policy.name, knobs))
}

/// Returns a policy as the interface has it.
#[must_use]
pub fn host_policy(name: &str, knobs: &Knobs) -> HostPolicy {
    let knobs = knobs.iter().map(|(knob, value)| (knob.name.to_string(), knob.show(value))).collect();
    HostPolicy { name: name.to_string(), knobs }
}

/// Returns the mechanisms of a core as text.
pub(crate) fn mechanisms(setup: &Setup) -> Vec<String> {
    let turns = setup.turns.as_ref().map(|_| ["inherit", "fifo"]);
    let all = turns.into_iter().flatten().chain(setup.reservations.as_ref().map(|_| "deadline"));
    all.map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Desired;

    fn promise(slice_ns: u64, period_ns: u64, cpus: u16) -> Promise {
        Promise { slice_ns, period_ns, cpus, gang: false, limit: Limit::Soft, mechanism: Mechanism::Inherit }
    }

    #[test]
    fn wrong_values_are_refused_with_the_right_ones() {
        let of = |promise: Promise| check(&Desired { promise: Some(promise), ..Desired::default() });
        assert_eq!(of(promise(2_000_000, 10_000_000, 1)), Ok(()));
        assert_eq!(of(promise(20_000_000, 10_000_000, 2)), Ok(()));
        for (wrong, words) in [
            (of(promise(1_000, 10_000_000, 1)), "the slice of 1000 ns is too short"),
            (of(promise(10_000, 99_999, 1)), "out of range"),
            (of(promise(10_000, u64::MAX, 1)), "out of range"),
            (of(promise(20_000_001, 10_000_000, 2)), "exceeds the time of 2 CPUs"),
            (of(promise(1_000_000, 10_000_000, 0)), "0 CPUs"),
            (of(Promise { gang: true, ..promise(1_000_000, 10_000_000, 1) }), "in a gang"),
            (check(&Desired { weight: Some(0), ..Desired::default() }), "the weight"),
            (check(&Desired { weight: Some(10_001), ..Desired::default() }), "the weight"),
            (check(&Desired { cap_percent: Some(0), ..Desired::default() }), "the cap"),
            (check(&Desired { cap_percent: Some(102_401), ..Desired::default() }), "the cap"),
        ] {
            let problem = wrong.unwrap_err();
            assert!(problem.detail.contains(words) && problem.remedy.is_some(), "{problem:?}");
            assert_eq!(problem.status, 422);
        }
    }

    #[test]
    fn slice_and_period_change_in_place_and_nothing_else_does() {
        let policy = policies::find(daemon::terms::POLICY).expect("it is registered");
        let setup = Setup {
            directory: daemon::directory::Directory::at("/nowhere"),
            executable: "/nowhere".into(),
            turns: Some(daemon::live::AdmissionPolicy { policy, knobs: daemon::terms::knobs(policy) }),
            reservations: None,
            usual: KeptBy::Dispatcher(RaiseBy::Inheritance),
            scheduler: None,
            fault: None,
        };
        let of = |promise: &Promise| request("vm", &[], promise, &setup);
        let one = promise(2_000_000, 10_000_000, 1);
        let auto = Promise { mechanism: Mechanism::Auto, ..one.clone() };
        assert!(differ_in_times_only(&of(&one), &of(&promise(3_000_000, 20_000_000, 1))));
        assert!(differ_in_times_only(&of(&one), &of(&auto)));
        for other in [
            promise(2_000_000, 10_000_000, 2),
            Promise { limit: Limit::Hard, ..one.clone() },
            Promise { mechanism: Mechanism::Fifo, ..one.clone() },
        ] {
            assert!(!differ_in_times_only(&of(&one), &of(&other)), "{other:?}");
        }
        assert_eq!((promisable_percent(&setup), mechanisms(&setup)), (Some(90), vec!["inherit".into(), "fifo".into()]));
    }
}
