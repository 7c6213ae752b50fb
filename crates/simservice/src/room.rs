//! Requests on a trial of the host: whether they fit, and what else would.

use crate::vms::ManagedVm;
use api::{Alternatives, Problem};
use daemon::dispatch::{PERIOD_LONGEST, SLICE_LEAST};
use run::{Run, Trial};
use sched::{GroupParams, LoadBounds, Nanos, Params, Quota, Refused, Reservation};

/// How the policy of the host limits the CPU time of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CapRule {
    /// By the cap of the group.
    Cap,
    /// By the quota of the group.
    Quota,
    /// Not at all.
    Nothing,
}

impl CapRule {
    pub(crate) fn of(run: &Run) -> CapRule {
        let (host, knobs) = (&run.scenario.host, &run.choice.knobs);
        let load = LoadBounds { has_limits: true, group_depth: 1, ..LoadBounds::of_hogs(host, knobs, 1) };
        let guarantees = run.choice.policy.guarantees();
        if (guarantees.cap)(&load).is_some() {
            CapRule::Cap
        } else if (guarantees.quota)(&load).is_some() {
            CapRule::Quota
        } else {
            CapRule::Nothing
        }
    }

    /// Returns `group` with another cap, in percent of a CPU; `None`: the policy has no caps.
    pub(crate) fn with(self, group: GroupParams, percent: Option<u32>) -> Option<GroupParams> {
        let Some(percent) = percent else { return Some(GroupParams { cap_percent: None, quota: None, ..group }) };
        match self {
            CapRule::Cap => Some(GroupParams { cap_percent: Some(percent), ..group }),
            CapRule::Quota => {
                // As the service of a real host: a quota has at least 1 ms.
                let period = if percent < 10 { Nanos::ms(100) } else { Nanos::ms(10) };
                let quota = Quota::new(period.scale(percent.into(), 100), period).expect("the values were checked");
                Some(GroupParams { quota: Some(quota), ..group })
            }
            CapRule::Nothing => None,
        }
    }
}

/// Makes all of `wanted` on the trial, or nothing.
pub(crate) fn adjust(trial: &mut Trial, wanted: &[(usize, Params)]) -> Result<(), Refused> {
    let before: Vec<(usize, Params)> = wanted.iter().filter_map(|&(at, _)| Some((at, trial.params(at)?))).collect();
    for (nth, &(member, params)) in wanted.iter().enumerate() {
        if let Err(refused) = trial.adjust(member, params) {
            before[..nth].iter().rev().for_each(|&(member, params)| restore(trial, member, params));
            return Err(refused);
        }
    }
    Ok(())
}

fn restore(trial: &mut Trial, member: usize, params: Params) {
    // What was admitted before has room again.
    let _ = trial.adjust(member, params);
}

/// Returns whether `wanted` fits. The trial stays as it is.
fn fits(trial: &mut Trial, wanted: &[(usize, Params)]) -> bool {
    let before: Vec<(usize, Params)> = wanted.iter().filter_map(|&(at, _)| Some((at, trial.params(at)?))).collect();
    let fits = adjust(trial, wanted).is_ok();
    if fits {
        before.into_iter().rev().for_each(|(member, params)| restore(trial, member, params));
    }
    fits
}

/// Returns `wanted` with another slice and period for each entity.
fn with(wanted: &[(usize, Params)], slice: Nanos, period: Nanos) -> Vec<(usize, Params)> {
    let other = |&(member, params): &(usize, Params)| {
        let reservation = params.reservation.map(|it| Reservation { slice, period, deadline: None, ..it });
        (member, Params { reservation, ..params })
    };
    wanted.iter().map(other).collect()
}

/// Returns a number in `good..bad`, or in `bad..good`, that is good, and whose neighbour towards `bad` is not.
fn border(mut good: u64, mut bad: u64, mut is_good: impl FnMut(u64) -> bool) -> u64 {
    while good.abs_diff(bad) > 1 {
        let middle = good.midpoint(bad);
        *(if is_good(middle) { &mut good } else { &mut bad }) = middle;
    }
    good
}

/// Returns what makes room for `wanted`, the equal reservations of all CPUs of VM number `of`, which the trial refuses.
pub(crate) fn alternatives(
    trial: &mut Trial,
    wanted: &[(usize, Params)],
    of: usize,
    vms: &[ManagedVm],
) -> Alternatives {
    let Some(Reservation { slice, period, .. }) = wanted.first().and_then(|(_, params)| params.reservation) else {
        return Alternatives { slice_ns: None, period_ns: None, end_of: Vec::new() };
    };
    let slices = (SLICE_LEAST < slice && fits(trial, &with(wanted, SLICE_LEAST, period))).then(|| {
        let fits = |ns| fits(trial, &with(wanted, Nanos::ns(ns), period));
        border(SLICE_LEAST.as_ns(), slice.as_ns(), fits)
    });
    let periods = (period < PERIOD_LONGEST && fits(trial, &with(wanted, slice, PERIOD_LONGEST))).then(|| {
        let fits = |ns| fits(trial, &with(wanted, slice, Nanos::ns(ns)));
        border(PERIOD_LONGEST.as_ns(), period.as_ns(), fits)
    });
    let mut end_of = Vec::new();
    for (_, other) in vms.iter().enumerate().filter(|(index, other)| *index != of && other.is_present) {
        let present = other.members.iter().filter_map(|&member| Some((member, trial.params(member)?)));
        let before: Vec<(usize, Params)> = present.filter(|(_, params)| params.reservation.is_some()).collect();
        let ended = |&(member, params): &(usize, Params)| (member, Params { reservation: None, ..params });
        let without: Vec<(usize, Params)> = before.iter().map(ended).collect();
        if without.is_empty() || adjust(trial, &without).is_err() {
            continue;
        }
        if fits(trial, wanted) {
            end_of.push(other.name.clone());
        }
        before.into_iter().for_each(|(member, params)| restore(trial, member, params));
    }
    let cpus = wanted.len() as u64;
    Alternatives { slice_ns: slices.map(|ns| ns * cpus), period_ns: periods, end_of }
}

/// Returns the refusal of a policy as a problem, with what makes room.
pub(crate) fn problem(refused: &Refused, room: Option<Alternatives>) -> Problem {
    let why = refused.explain();
    let is_full = matches!(refused, Refused::Utilisation { .. });
    let Some(room) = room.filter(|_| is_full) else {
        let (status, title) = match refused {
            Refused::Unsupported { .. } | Refused::Utilisation { .. } => (409, "Conflict"),
            _ => (422, "Unprocessable Content"),
        };
        return Problem::new(status, title, why.reason, why.remedy);
    };
    let slice = room.slice_ns.map(|ns| format!("a slice of at most {}", Nanos::ns(ns)));
    let period = room.period_ns.map(|ns| format!("a period of at least {}", Nanos::ns(ns)));
    let uses: Vec<String> = slice.into_iter().chain(period).collect();
    let mut ways: Vec<String> = Vec::new();
    if !uses.is_empty() {
        ways.push(format!("use {}", uses.join(" or ")));
    }
    if !room.end_of.is_empty() {
        ways.push(format!("end the promise to {}", room.end_of.join(" or ")));
    }
    if ways.is_empty() {
        ways.push("wait until other promises end".to_string());
    }
    Problem { alternatives: Some(Box::new(room)), ..Problem::new(409, "Conflict", why.reason, ways.join("; or ")) }
}
