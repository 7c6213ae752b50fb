//! Policies that each break one law or another obligation of a policy, on purpose. They are not in the registry; tests
//! use them to show that each check detects its violation.

use sched::queue::Lists;
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Build, Conserving, CpuId, Cx, Decision, Descriptor, EntityId, Guarantees,
    Held, Nanos, Params, Policy, Refused, StopReason, Stopped, Wake,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The canaries, in alphabetical order of name.
pub const CANARIES: &[&Descriptor] = &[
    &canary("canary-allocates", |_, _| Ok(boxed(Cheat::Allocates))),
    &canary("canary-forgets", |_, _| Ok(boxed(Cheat::Forgets))),
    &canary("canary-hurries", |_, _| Ok(boxed(Cheat::Hurries))),
    &canary("canary-idles", |_, _| Ok(boxed(Cheat::Idles))),
    &canary("canary-kicks", |_, _| Ok(boxed(Cheat::Kicks))),
    &canary("canary-past", |_, _| Ok(boxed(Cheat::Past))),
    &canary("canary-picks-blocked", |_, _| Ok(boxed(Cheat::PicksBlocked))),
    &canary("canary-picks-held", |_, _| Ok(boxed(Cheat::PicksHeld))),
    &canary("canary-refuses", |_, _| Ok(boxed(Cheat::Refuses))),
    &canary("canary-remembers", |_, _| Ok(boxed(Cheat::Remembers))),
    &canary("canary-rings", |_, _| Ok(boxed(Cheat::Rings))),
    &canary("canary-starves", |_, _| Ok(boxed(Cheat::Starves))),
    &canary("canary-strays", |_, _| Ok(boxed(Cheat::Strays))),
    &canary("canary-wavers", |_, _| Ok(boxed(Cheat::Wavers))),
];

const QUANTUM: Nanos = Nanos::ms(1);
const QUEUE: usize = 0;
const ALARM: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };

const fn canary(name: &'static str, build: Build) -> Descriptor {
    Descriptor {
        name,
        title: "a policy that breaks a law",
        source: "ours",
        good_for: "showing that the checks detect violations",
        bad_at: "everything else",
        text: include_str!("canary.rs"),
        conserving: |_| Conserving::Global { slack: Nanos::ms(1) },
        guarantees: Guarantees::NOTHING,
        starvation: |load| Some(QUANTUM.saturating_mul(load.entities)),
        alarms: AlarmSlots { policy: &[AlarmKind::Timer], ..AlarmSlots::NONE },
        knobs: &[],
        build,
    }
}

fn boxed(cheat: Cheat) -> Box<dyn Policy> {
    Box::new(Canary { cheat, queue: Lists::new(1), picks: 0, asleep: None, gone: None, wishes: 0 })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cheat {
    /// Law 9: allocates during a pick.
    Allocates,
    /// Law 4: does not enqueue some of the woken entities, and so never picks them.
    Forgets,
    /// Sets an alarm one nanosecond ahead, repeatedly.
    Hurries,
    /// Law 11: leaves the CPU idle at some picks, although an entity waits.
    Idles,
    /// Kicks its own CPU at every pick, so that the CPU never stops picking.
    Kicks,
    /// Law 1: returns a time slice that ends at once.
    Past,
    /// Law 2: picks a blocked entity.
    PicksBlocked,
    /// Law 2: picks a held entity.
    PicksHeld,
    /// Refuses a change, but records the change.
    Refuses,
    /// Law 8: queries a detached entity.
    Remembers,
    /// Law 7: sets an alarm to the current instant.
    Rings,
    /// Law 12: runs the entity of index 0 only when no other entity waits.
    Starves,
    /// Law 2: picks the first entity of the queue, regardless of its affinity.
    Strays,
    /// Law 10: bases decisions on data other than its inputs.
    Wavers,
}

/// Data that is not an input of the policy.
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);

struct Canary {
    cheat: Cheat,
    queue: Lists,
    picks: u64,
    /// Entity that blocked last.
    asleep: Option<EntityId>,
    /// Entity that was detached last.
    gone: Option<EntityId>,
    /// Number of requested changes.
    wishes: i64,
}

impl Canary {
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queue.push_back(QUEUE, e);
        for cpu in cx.topology().iter().collect::<sched::CpuSet>().iter() {
            if cx.running(cpu) == sched::Running::Idle && cx.may_run(e, cpu) {
                cx.kick(cpu);
            }
        }
    }

    fn choose(&mut self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        let mut waiting = self.queue.iter(QUEUE).filter(|&e| cx.may_run(e, cpu));
        match self.cheat {
            Cheat::Starves => {
                let mut others = self.queue.iter(QUEUE).filter(|&e| cx.may_run(e, cpu) && e.index() != 0);
                others.next().or_else(|| waiting.next())
            }
            Cheat::Strays => self.queue.first(QUEUE),
            Cheat::Wavers if ELSEWHERE.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) => waiting.last(),
            _ => waiting.next(),
        }
    }
}

impl Policy for Canary {
    fn attach(&mut self, e: EntityId, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.queue.reserve(e);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.gone = Some(e);
        self.asleep = self.asleep.filter(|&asleep| asleep != e);
    }

    fn adjust(&mut self, _e: EntityId, _old: &Params, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.wishes += 1;
        if self.cheat == Cheat::Refuses {
            Err(Refused::Unsupported { reason: "this policy refuses everything", remedy: "" })
        } else {
            Ok(())
        }
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.picks += 1;
        if self.cheat == Cheat::Forgets && self.picks.is_multiple_of(8) {
            return;
        }
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.queue.remove(e);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        if self.cheat == Cheat::Hurries {
            cx.set_alarm(alarm, cx.here(), cx.now() + Nanos::ns(1));
        }
    }

    fn put(&mut self, _cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        match prev.why {
            StopReason::Blocked => self.asleep = Some(prev.entity),
            StopReason::Yielded | StopReason::Expired | StopReason::Kicked => self.enqueue(prev.entity, cx),
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        self.picks += 1;
        if self.cheat == Cheat::Idles && self.picks.is_multiple_of(3) {
            return Decision::IDLE;
        }
        if let Some(e) = self.asleep.filter(|_| self.cheat == Cheat::PicksBlocked) {
            return Decision::until(e, cx.now() + QUANTUM);
        }
        let Some(e) = self.choose(cpu, cx) else { return Decision::IDLE };
        self.queue.remove(e);
        match (self.cheat, self.gone) {
            (Cheat::Kicks, _) => cx.kick(cpu),
            (Cheat::PicksHeld, _) => cx.hold(e, Held::Parked),
            (Cheat::Remembers, Some(gone)) => assert!(!cx.is_held(gone), "this canary holds no entity"),
            (Cheat::Hurries, _) => cx.set_alarm(ALARM, cpu, cx.now() + Nanos::ns(1)),
            (Cheat::Rings, _) => cx.set_alarm(ALARM, cpu, cx.now()),
            _ => {}
        }
        match self.cheat {
            Cheat::Past => Decision::until(e, cx.now()),
            Cheat::Allocates => Decision::until(e, cx.now() + *std::hint::black_box(Box::new(QUANTUM))),
            _ => Decision::until(e, cx.now() + QUANTUM),
        }
    }

    fn inspect(&self, _e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        show("wishes", self.wishes);
    }
}
