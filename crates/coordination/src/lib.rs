//! Guest/host coordination: a guest's scheduler reports urgent vCPUs to its host, and the host boosts these vCPUs for a
//! limited time. Each protocol and each rule names its source.
//!
//! ```text
//! guest: detector ──▶ urgent tasks ──▶ protocol ──▶ request ──▶ host: coordinator ──▶ adjust of the vCPU's entity
//!        (its kernel's data)            (hints, calls)               (budget, limits)
//! ```
//!
//! This crate has only data and pure logic. The simulator passes the events of simulated kernels to it, and carries out its
//! decisions.
//! **Boosted time** is CPU time that a vCPU receives while it is boosted. Other entities lose this time.

mod booster;
mod clock_offset;
mod coordinator;
mod detector;
mod ewma;
mod guest_agent;
mod inbox;
mod kernel;
mod lavd;
mod protocol;
mod source;
mod stream;
mod traced_kernel;
mod ule;
mod wake_up;
pub mod wire;

pub use booster::{Booster, EXPIRY, LEAD};
pub use clock_offset::ClockOffset;
pub use coordinator::Coordinator;
pub use detector::{Detector, Note};
pub use guest_agent::GuestAgent;
pub use inbox::Inbox;
pub use kernel::Kernel;
pub use protocol::{BoostRequest, GuestChoice, GuestReport, ProtocolState};
pub use stream::Stream;
pub use traced_kernel::{Traced, TracedKernel};
pub use wake_up::{TaskName, WakeUp};

use sched::{Class, Nanos, Params, Position, RtPriority, Weight};

/// The protocol by which a guest informs its host, and the host's reaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// The guest makes a hypercall when one of two predicates changes: an urgent task runs or waits on the vCPU; an
    /// urgent task that last ran on the vCPU sleeps. While the first predicate holds, the vCPU is boosted. While only
    /// the second holds, an interrupt for the vCPU boosts the vCPU until the guest's next report. Source:
    /// coordinated-2015 section VI. The boost at interrupts is assumed.
    S0,
    /// The guest reports the class and priority of the running task by a hypercall at every change. The guest also
    /// calls after every handled interrupt for which the host had raised the vCPU. Source: J. Kiszka, Towards Linux as
    /// a Real-Time Hypervisor (RTLWS11); the calls are assumed.
    Kiszka,
    /// The guest writes requests for boosts to shared memory, which the host reads at the next exit. The guest ends a
    /// boost by a hypercall. Source: Dynamic vcpu priority management in kvm, LKML 2023-12-14.
    RfcV1,
    /// The guest only describes its running task in shared memory. A host driver decides on boosts at exits, interrupts
    /// and halts of the vCPU. The guest forces an exit by a hypercall if the description requests less than before and
    /// the host shows a boost. Source: Paravirt Scheduling, LKML 2024-04-03. The guest's side is missing in this
    /// version. It is taken from the third version by the same authors (Documentation of pvsched,
    /// `PVSCHED_HINT_KICK_DEBOOST`, 2026).
    RfcV2,
}

impl Protocol {
    /// All protocols, with their names in scenarios.
    pub const ALL: [(&'static str, Protocol); 4] =
        [("s0", Protocol::S0), ("kiszka", Protocol::Kiszka), ("rfc-v1", Protocol::RfcV1), ("rfc-v2", Protocol::RfcV2)];
}

/// The rule by which a guest detects interactive tasks, which are urgent. Tasks of a real-time class or the stop class,
/// and tasks with a reservation, are always urgent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// No task is interactive. Only the tasks that are always urgent are urgent.
    Class,
    /// The task was far behind the running task at its wake-up, or far behind its queue (CFS). Source:
    /// `wakeup_preempt_entity`, kernel/sched/fair.c, v5.13; the distance to the queue is assumed.
    Cfs,
    /// The task has earned a boost (BMQ's own knob `interactive-boost`, assumed).
    Bmq,
    /// At the wake-up of the task, its deadline had passed or was less than a slice ahead (BFS, assumed).
    Bfs,
    /// The score that FreeBSD's ULE computes from the task's sleeps and runs is below a threshold. Source:
    /// sys/kern/sched_ule.c.
    Ule,
    /// The criticality of the task exceeds the average (LAVD). Source: scx_lavd, src/bpf/lat_cri.bpf.c.
    Lavd,
    /// The mean burst of the task is short, and its mean sleep is long compared with the burst. The rule is ours.
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

    /// Returns the name of the data that the rule needs but a guest's policy lacks. `position`: the answer of this
    /// policy for a task. `None`: the policy has all data.
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
        round_robin: bool,
        /// Priority in the class.
        priority: RtPriority,
    },
    /// A weight.
    Weight(Weight),
}

impl Boost {
    /// Returns `params` with the boost, which never lowers a parameter.
    #[must_use]
    pub fn over(self, params: Params) -> Params {
        let urgency = match params.class {
            Class::Stop => u8::MAX,
            class => class.rt_priority().map_or(0, RtPriority::number),
        };
        match self {
            Boost::Weight(weight) => Params { weight: params.weight.max(weight), ..params },
            Boost::Class { priority, .. } if params.reservation.is_some() || urgency >= priority.number() => params,
            Boost::Class { round_robin: true, priority } => Params { class: Class::RoundRobin(priority), ..params },
            Boost::Class { round_robin: false, priority } => Params { class: Class::Fifo(priority), ..params },
        }
    }

    /// Returns the boost that equals `class`. `None`: `class` is not a real-time class.
    #[must_use]
    pub fn like(class: Class) -> Option<Boost> {
        match class {
            Class::RoundRobin(priority) => Some(Boost::Class { round_robin: true, priority }),
            Class::Fifo(priority) => Some(Boost::Class { round_robin: false, priority }),
            _ => None,
        }
    }

    /// Returns the boost, limited to `most`. A boost of the other kind is replaced by `most`.
    #[must_use]
    pub fn within(self, most: Boost) -> Boost {
        match (self, most) {
            (Boost::Class { round_robin, priority }, Boost::Class { priority: highest, .. }) => {
                Boost::Class { round_robin, priority: priority.min(highest) }
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
    /// Boost of a vCPU. For protocols that report classes and priorities, the maximum boost. Default: SCHED_RR 8, as in
    /// RFC v1.
    pub boost: Boost,
    /// Boost while an interrupt is being handled (Kiszka). Range: up to `boost`. Default: `boost`.
    pub interrupt: Boost,
    /// Maximum boosted time per window, summed over all vCPUs of the VM. Range: 1 us … `window`. Default: 20 ms (ours).
    pub budget: Nanos,
    /// Length of a window. The first window begins when the guest boots. Range: 1 us …. Default: 100 ms (ours).
    pub window: Nanos,
    /// Maximum boosted time of a vCPU since its boost began or since the vCPU last slept. The boost ends at the limit.
    /// The vCPU then receives no further boost before the vCPU sleeps or its request ends. Range: 1 us …. Default: 10
    /// ms (ours).
    pub limit: Nanos,
    /// Like `limit`, for a boost whose only reason is that the guest must not be preempted. Range: 1 us …. Default: 3
    /// ms, as in RFC v1.
    pub preempt_limit: Nanos,
    /// Period of the tick of both kernels. At each tick, a running boosted vCPU exits, and its guest reviews the
    /// running task. Range: 1 us …. Default: 1 ms.
    pub tick: Nanos,
}

impl Coordination {
    /// Returns the settings for `protocol`, with default values for the other fields.
    #[must_use]
    pub fn new(protocol: Protocol) -> Coordination {
        let boost = Boost::Class { round_robin: true, priority: RtPriority::new(8).expect("it is in range") };
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
    /// CPU time of the guest for its hypercalls.
    pub cost: Nanos,
    /// Number of boosts of vCPUs.
    pub boosts: u64,
    /// Boosted time, over all vCPUs.
    pub boosted: Nanos,
    /// Number of boosts that were denied or ended because the budget was used up.
    pub over_budget: u64,
    /// Number of boosts that ended at a limit.
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
        Boost::Class { round_robin: true, priority: RtPriority::new(priority).unwrap() }
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
