//! The requests of threads to the scheduler, at their start and at the start of each phase.

use super::json::Json;
use super::object::{Object, integer, micros, mistyped, switch, text};
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::{Placed, Span};
use sched::id::CPUS_MAX;
use sched::{Class, CpuId, CpuSet, Limit, Nanos, Params, Reservation, RtPriority, Topology, Weight};

/// Properties that are requests to the scheduler.
pub(super) const ASKING: &[&str] = &[
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "dl-reclaim",
    "cpus",
    "nodes_membind",
    "membind_nodes",
    "util_min",
    "util_max",
    "taskgroup",
];

/// A scheduling policy of Linux that rt-app supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    Other,
    Idle,
    Fifo,
    RoundRobin,
    Deadline,
}

const POLICIES: [(&str, Policy); 5] = [
    ("SCHED_OTHER", Policy::Other),
    ("SCHED_IDLE", Policy::Idle),
    ("SCHED_RR", Policy::RoundRobin),
    ("SCHED_FIFO", Policy::Fifo),
    ("SCHED_DEADLINE", Policy::Deadline),
];

/// The requests of an object. `None`: the object omits the property.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Asked {
    policy: Option<Placed<Policy>>,
    priority: Option<Placed<i64>>,
    runtime: Option<Placed<Nanos>>,
    period: Option<Placed<Nanos>>,
    deadline: Option<Placed<Nanos>>,
    reclaim: Option<bool>,
    pub(super) cpus: Option<CpuSet>,
    pub(super) at: Span,
}

/// Reads the name of a policy.
pub(super) fn policy(key: &'static str, value: &Json<'_>) -> Result<Policy, Wrong> {
    let names = POLICIES.map(|(name, _)| name);
    let typed = text(key, value, &format!("one of {}", names.join(", ")))?;
    let found = POLICIES.iter().find(|(name, _)| *name == typed).map(|&(_, policy)| policy);
    found.ok_or_else(|| {
        let message = format!("there is no policy {}", quoted(typed));
        Wrong::new(message, "unknown policy", right_instead(typed, &names))
    })
}

impl Asked {
    /// Reads the requests of a thread or phase.
    pub(super) fn read(object: &Object<'_, '_>, findings: &mut Findings) -> Asked {
        no_effect(object, findings);
        Asked {
            policy: object.read("policy", policy, findings),
            priority: object.read(
                "priority",
                |key, value| {
                    integer(
                        key,
                        value,
                        (-20, 99),
                        "a whole number: -20 to 19 as nice, or 1 to 99 for SCHED_FIFO and SCHED_RR",
                    )
                },
                findings,
            ),
            runtime: object.read("dl-runtime", micros, findings),
            period: object.read("dl-period", micros, findings),
            deadline: object.read("dl-deadline", micros, findings),
            reclaim: object.read("dl-reclaim", switch, findings).map(|placed| placed.value),
            cpus: object.read("cpus", cpus, findings).map(|placed| placed.value),
            at: object.at,
        }
    }

    /// Reads the requests of a thread. Under SCHED_DEADLINE, the property names of older versions of rt-app are also
    /// accepted.
    pub(super) fn of_thread(object: &Object<'_, '_>, default: Policy, findings: &mut Findings) -> Asked {
        let mut asked = Asked::read(object, findings);
        if asked.policy.map_or(default, |policy| policy.value) == Policy::Deadline {
            asked.runtime = asked.runtime.or_else(|| object.read("runtime", micros, findings));
            asked.period = asked.period.or_else(|| object.read("period", micros, findings));
            asked.deadline = asked.deadline.or_else(|| object.read("deadline", micros, findings));
        }
        asked
    }

    /// Returns whether the object requests nothing except CPUs.
    fn is_silent(&self) -> bool {
        self.policy.is_none()
            && self.priority.is_none()
            && self.runtime.is_none()
            && self.period.is_none()
            && self.deadline.is_none()
            && self.reclaim.is_none()
    }
}

/// Reads the properties that have no effect in a simulation, to reject the values that rt-app rejects.
fn no_effect(object: &Object<'_, '_>, findings: &mut Findings) {
    for key in ["util_min", "util_max"] {
        object.read(key, |key, value| integer(key, value, (-1, 1024), "a whole number from 0 to 1024"), findings);
    }
    for key in ["nodes_membind", "membind_nodes"] {
        object.read(key, |key, value| numbers(key, value, i64::from(u16::MAX), "nodes").map(drop), findings);
    }
}

fn numbers(key: &str, value: &Json<'_>, most: i64, what: &str) -> Result<Vec<i64>, Wrong> {
    let right = format!("an array of {what}, such as [0, 2], each from 0 to {most}");
    let Json::Array(values) = value else { return Err(mistyped(key, value, &right)) };
    let numbers = values
        .iter()
        .map(|number| integer(key, &number.value, (0, most), &right).map_err(|wrong| wrong.part(number.at)));
    numbers.collect()
}

fn cpus(key: &'static str, value: &Json<'_>) -> Result<CpuSet, Wrong> {
    let most = i64::try_from(CPUS_MAX - 1).unwrap_or(i64::MAX);
    let cpus = numbers(key, value, most, "CPUs")?;
    if cpus.is_empty() {
        return Err(Wrong::new("`cpus` names no CPU", "empty", "use at least one CPU, such as [0]"));
    }
    Ok(cpus.into_iter().map(|cpu| CpuId::new(usize::try_from(cpu).unwrap_or(0))).collect())
}

/// The requests of a thread that apply at one point of its program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    policy: Policy,
    asked: Asked,
    cpus: Option<CpuSet>,
}

impl Standing {
    /// Returns the requests of a thread at its start.
    pub(super) fn new(default: Policy, asked: Asked) -> Standing {
        Standing { policy: asked.policy.map_or(default, |policy| policy.value), asked, cpus: asked.cpus }
    }

    /// Returns the requests at the start of a phase with the requests `phase`. Properties that the phase omits keep
    /// their values, unless the phase requests a policy. A policy resets them. If the phase omits `cpus`, the CPUs of
    /// the thread apply.
    pub(super) fn next(&self, thread: &Asked, phase: &Asked) -> Standing {
        let cpus = phase.cpus.or(thread.cpus);
        if phase.is_silent() {
            return Standing { cpus, ..*self };
        }
        let before = if phase.policy.is_some() { Asked::default() } else { self.asked };
        let asked = Asked {
            policy: phase.policy.or(before.policy),
            priority: phase.priority.or(before.priority),
            runtime: phase.runtime.or(before.runtime),
            period: phase.period.or(before.period),
            deadline: phase.deadline.or(before.deadline),
            reclaim: phase.reclaim.or(before.reclaim),
            cpus: None,
            at: phase.at,
        };
        Standing { policy: phase.policy.map_or(self.policy, |policy| policy.value), asked, cpus }
    }

    /// Returns the requests as parameters of an entity.
    ///
    /// # Errors
    /// The policy does not support the requested priority, or the runtime, period and deadline of SCHED_DEADLINE are
    /// incomplete or invalid.
    pub(super) fn params(&self) -> Result<Params, Problem> {
        let Asked { priority, runtime, .. } = self.asked;
        let mut params = Params::default();
        if let Some(cpus) = self.cpus {
            params.affinity = cpus;
        }
        match self.policy {
            Policy::Other | Policy::Idle => {
                let nice = priority.map_or(0, |priority| priority.value);
                let weight = i32::try_from(nice).ok().and_then(Weight::nice);
                params.weight = weight.ok_or_else(|| self.no_priority("-20 (the most) to 19"))?;
                params.class = if self.policy == Policy::Idle { Class::Idle } else { Class::Normal };
                // Since Linux 6.12, sched_setattr(2) uses the runtime of an ordinary thread as its EEVDF slice.
                params.latency = runtime.map(|runtime| runtime.value).filter(|runtime| !runtime.is_zero());
            }
            Policy::Fifo | Policy::RoundRobin => {
                // rt-app's default for both policies is 10.
                let number = priority.map_or(10, |priority| priority.value);
                let priority = u8::try_from(number).ok().and_then(RtPriority::new);
                let priority = priority.ok_or_else(|| self.no_priority("1 to 99 (the most urgent)"))?;
                params.class =
                    if self.policy == Policy::Fifo { Class::Fifo(priority) } else { Class::RoundRobin(priority) };
            }
            Policy::Deadline => params.reservation = Some(self.reservation()?),
        }
        Ok(params)
    }

    fn no_priority(&self, right: &str) -> Problem {
        let (name, _) = POLICIES.iter().find(|(_, policy)| *policy == self.policy).expect("every policy has a name");
        let at = self.asked.priority.map_or(self.asked.at, |priority| priority.at);
        let problem = Problem::new(format!("{name} has no such priority")).at(at, "out of range");
        problem.help(format!("use a priority of {right}"))
    }

    fn reservation(&self) -> Result<Reservation, Problem> {
        let Asked { runtime, period, deadline, reclaim, at, .. } = self.asked;
        let Some(runtime) = runtime else {
            let problem = Problem::new("SCHED_DEADLINE without a runtime").at(at, "no `dl-runtime`");
            return Err(problem.help("use \"dl-runtime\" : 10000 and \"dl-period\" : 100000, in microseconds"));
        };
        let period = period.unwrap_or(runtime);
        let reservation = Reservation {
            slice: runtime.value,
            period: period.value,
            deadline: deadline.map(|deadline| deadline.value),
            start: None,
            limit: if reclaim == Some(true) { Limit::Soft } else { Limit::Hard },
        };
        let params = Params { reservation: Some(reservation), ..Params::default() };
        params.check(&Topology::new(1)).map_err(|refused| {
            let at = deadline
                .filter(|_| matches!(refused, sched::Refused::OutOfRange { .. }))
                .map_or(runtime.at, |it| it.at);
            Wrong::from(&refused).at(at)
        })?;
        Ok(reservation)
    }
}
