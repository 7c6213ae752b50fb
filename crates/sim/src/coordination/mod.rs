//! Guest/host coordination: a guest's scheduler reports to its host when a vCPU matters, and the host boosts the vCPU
//! for a while. Source: policies.md 11 and 12.
//!
//! ```text
//! guest: detector ──▶ urgent tasks ──▶ protocol ──▶ wish ──▶ host: coordinator ──▶ adjust of the vCPU's entity
//!        (its kernel's data)            (hints, calls)            (budget, limits)
//! ```
//!
//! This module has only data and pure logic. `world` passes events to it and carries out its decisions. **Boosted
//! time** is CPU time that a vCPU gets while it is boosted. Other entities lose this time.

mod coordinator;
mod detector;
mod ewma;
mod lavd;
mod protocol;
mod ule;

pub(crate) use coordinator::Coordinator;
pub(crate) use detector::{Detector, Note};
pub(crate) use protocol::{Seat, Sight, Wish};

use sched::{Class, Nanos, Params, Position, RtPriority, Weight};

/// The way in which a guest informs its host, and the host's reaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// One hypercall whenever "an interactive task runs or waits here" or "one sleeps here" becomes true or false. The
    /// first boosts the vCPU. The second boosts it when the host has an interrupt for it, until the guest reports the
    /// result. Source: coordinated-2015 section VI; policies.md 11.1, which leaves wake-ups to boosts by the host.
    S0,
    /// A hypercall with class and priority of the running task, at every change and after every handled interrupt for
    /// which the host had raised the vCPU. Source: J. Kiszka, Towards Linux as a Real-Time Hypervisor (RTLWS11);
    /// policies.md 11.2.
    Kiszka,
    /// Requests for boosts are in shared memory, which the host reads at the next exit. A hypercall ends a boost.
    /// Source: Dynamic vcpu priority management in kvm, LKML 2023-12-14; policies.md 11.3.
    RfcV1,
    /// The guest only describes the running task in shared memory; a driver in the host acts at events. If the
    /// description asks for less than before and the host shows a boost, the guest forces such an event by a hypercall.
    /// Source: Paravirt Scheduling, LKML 2024-04-03; policies.md 11.4. Source of the guest's side, which that version
    /// lacks: the third version of its authors (Documentation of pvsched, `PVSCHED_HINT_KICK_DEBOOST`, 2026).
    RfcV2,
}

impl Protocol {
    /// All protocols, with their names in scenarios.
    pub const ALL: [(&'static str, Protocol); 4] =
        [("s0", Protocol::S0), ("kiszka", Protocol::Kiszka), ("rfc-v1", Protocol::RfcV1), ("rfc-v2", Protocol::RfcV2)];
}

/// The rule by which a guest detects interactive tasks. Tasks of a real-time class, and tasks with a reservation, are
/// always urgent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Only tasks of a real-time class and tasks with a reservation are interactive.
    Class,
    /// The task was far behind the running task at its wake-up, or far behind its queue (CFS). Source: policies.md
    /// 12.1.
    Cfs,
    /// The task has earned a boost (BMQ's own knob `interactive-boost`). Source: policies.md 12.2.
    Bmq,
    /// The deadline of the task was near or past at its wake-up (BFS). Source: policies.md 12.3.
    Bfs,
    /// The score of the task by its sleeps and runs (FreeBSD's ULE). Source: policies.md 12.4.
    Ule,
    /// The task is more critical than the average (LAVD). Source: policies.md 12.5.
    Lavd,
    /// Smoothed bursts and sleeps of the task. Source: policies.md 12.6.
    Ewma,
}

impl Rule {
    /// All rules, with their names in scenarios.
    pub const ALL: [(&'static str, Rule); 7] = [
        ("class", Rule::Class),
        ("cfs", Rule::Cfs),
        ("bmq", Rule::Bmq),
        ("bfs", Rule::Bfs),
        ("ule", Rule::Ule),
        ("lavd", Rule::Lavd),
        ("ewma", Rule::Ewma),
    ];

    /// Returns the data that the rule needs and a guest's policy lacks, if the policy answers `position` for a task.
    /// `None`: the policy has all data.
    #[must_use]
    pub const fn lacks(self, position: Option<Position>) -> Option<&'static str> {
        match (self, position) {
            (Rule::Cfs, Some(Position::Fair(_)))
            | (Rule::Bmq, Some(Position::Boost(_)))
            | (Rule::Bfs, Some(Position::Deadline { .. }))
            | (Rule::Class | Rule::Ule | Rule::Lavd | Rule::Ewma, _) => None,
            (Rule::Cfs, _) => Some("virtual run time of a fair queue"),
            (Rule::Bmq, _) => Some("boost"),
            (Rule::Bfs, _) => Some("virtual deadline"),
        }
    }
}

/// The boost of a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boost {
    /// A real-time class, if the host's policy has classes.
    Class {
        /// Whether the class is SCHED_RR rather than SCHED_FIFO.
        takes_turns: bool,
        /// Priority in the class.
        priority: RtPriority,
    },
    /// A weight.
    Weight(Weight),
}

impl Boost {
    /// Returns `params` with the boost: never less than without it.
    #[must_use]
    pub fn over(self, params: Params) -> Params {
        let urgency = match params.class {
            Class::Stop => u8::MAX,
            class => class.rt_priority().map_or(0, RtPriority::number),
        };
        match self {
            Boost::Weight(weight) => Params { weight: params.weight.max(weight), ..params },
            Boost::Class { priority, .. } if params.reservation.is_some() || urgency >= priority.number() => params,
            Boost::Class { takes_turns: true, priority } => Params { class: Class::RoundRobin(priority), ..params },
            Boost::Class { takes_turns: false, priority } => Params { class: Class::Fifo(priority), ..params },
        }
    }

    /// Returns the boost that equals `class`. `None`: `class` is no real-time class.
    #[must_use]
    pub fn like(class: Class) -> Option<Boost> {
        match class {
            Class::RoundRobin(priority) => Some(Boost::Class { takes_turns: true, priority }),
            Class::Fifo(priority) => Some(Boost::Class { takes_turns: false, priority }),
            _ => None,
        }
    }

    /// Returns the boost, limited to `most`.
    #[must_use]
    pub fn within(self, most: Boost) -> Boost {
        match (self, most) {
            (Boost::Class { takes_turns, priority }, Boost::Class { priority: highest, .. }) => {
                Boost::Class { takes_turns, priority: priority.min(highest) }
            }
            (Boost::Weight(weight), Boost::Weight(heaviest)) => Boost::Weight(weight.min(heaviest)),
            _ => most,
        }
    }
}

/// The settings of a guest's coordination with its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coordination {
    /// The protocol between guest and host.
    pub protocol: Protocol,
    /// Rule by which the guest detects interactive tasks.
    pub detector: Rule,
    /// The boost of a vCPU, and its maximum for protocols that name classes and priorities. Default: SCHED_RR 8, as in
    /// RFC v1.
    pub boost: Boost,
    /// The boost while an interrupt is under way (Kiszka), limited to `boost`. Default: `boost`.
    pub interrupt: Boost,
    /// Boosted time of all vCPUs of the VM together in a window. Range: 1 us … `window`. Default: 20 ms (ours).
    pub budget: Nanos,
    /// Length of a window. The first window begins when the guest boots. Range: 1 us …. Default: 100 ms (ours).
    pub window: Nanos,
    /// Maximum boosted time of a vCPU between sleeps or ends of its boost. At the limit the boost ends; the vCPU gets
    /// no other before it sleeps or needs none. Range: 1 us …. Default: 10 ms (ours).
    pub limit: Nanos,
    /// Limit like `limit` for a boost whose only reason is that the guest must not be preempted. Range: 1 us …. Default: 3
    /// ms, as in RFC v1.
    pub preempt_limit: Nanos,
    /// Period of the tick of both kernels: a running boosted vCPU exits, and its guest reviews the running task. Range:
    /// 1 us …. Default: 1 ms.
    pub tick: Nanos,
}

impl Coordination {
    /// Returns a coordination by this protocol, with defaults otherwise.
    #[must_use]
    pub fn new(protocol: Protocol) -> Coordination {
        let boost = Boost::Class { takes_turns: true, priority: RtPriority::new(8).expect("it is in range") };
        Coordination {
            protocol,
            detector: Rule::Ewma,
            boost,
            interrupt: boost,
            budget: Nanos::ms(20),
            window: Nanos::ms(100),
            limit: Nanos::ms(10),
            preempt_limit: Nanos::ms(3),
            tick: Nanos::ms(1),
        }
    }
}

/// Totals of a VM's coordination.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coordinated {
    /// Number of changes that the guest reported to its host, by any means.
    pub hints: u64,
    /// Number of changes that the guest reported by a hypercall.
    pub hypercalls: u64,
    /// CPU time of the guest for the reports.
    pub cost: Nanos,
    /// Number of boosts of vCPUs.
    pub boosts: u64,
    /// Boosted time, over all vCPUs.
    pub boosted: Nanos,
    /// Number of boosts that were denied or ended because the budget was used up.
    pub over_budget: u64,
    /// Number of boosts that ended because they lasted too long.
    pub over_limit: u64,
    /// Number of boosts that the host's policy refused.
    pub refused: u64,
}

impl Coordinated {
    /// Returns the totals since `before`.
    #[must_use]
    pub fn since(&self, before: &Coordinated) -> Coordinated {
        Coordinated {
            hints: self.hints - before.hints,
            hypercalls: self.hypercalls - before.hypercalls,
            cost: self.cost - before.cost,
            boosts: self.boosts - before.boosts,
            boosted: self.boosted - before.boosted,
            over_budget: self.over_budget - before.over_budget,
            over_limit: self.over_limit - before.over_limit,
            refused: self.refused - before.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rr(priority: u8) -> Boost {
        Boost::Class { takes_turns: true, priority: RtPriority::new(priority).unwrap() }
    }

    #[test]
    fn a_boost_never_takes_anything_away() {
        let class = |class| Params { class, ..Params::default() };
        let at = |priority| RtPriority::new(priority).unwrap();
        assert_eq!(rr(8).over(Params::default()).class, Class::RoundRobin(at(8)));
        assert_eq!(rr(8).over(class(Class::Fifo(at(7)))).class, Class::RoundRobin(at(8)));
        assert_eq!(rr(8).over(class(Class::Fifo(at(8)))).class, Class::Fifo(at(8)));
        assert_eq!(rr(99).over(class(Class::Stop)).class, Class::Stop);
        let heavy = Params { weight: Weight::nice(-15).unwrap(), ..Params::default() };
        assert_eq!(Boost::Weight(Weight::nice(-10).unwrap()).over(heavy), heavy);
        assert_eq!(Boost::Weight(Weight::nice(-20).unwrap()).over(heavy).weight, Weight::nice(-20).unwrap());
    }

    #[test]
    fn what_a_guest_reports_counts_up_to_the_most_its_vm_may_have() {
        let fifo = |priority| Boost::like(Class::Fifo(RtPriority::new(priority).unwrap())).unwrap();
        assert_eq!(fifo(5).within(rr(8)), fifo(5));
        assert_eq!(fifo(50).within(rr(8)), fifo(8));
        let nice = Boost::Weight(Weight::nice(-5).unwrap());
        assert_eq!((fifo(50).within(nice), nice.within(rr(8))), (nice, rr(8)));
        assert_eq!(Boost::like(Class::Batch), None);
    }
}
