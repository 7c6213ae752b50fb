//! Credit: shares by weight, accounted in credits every 30 ms, and a boost for vCPUs that wake.
//!
//! Credit was Xen's default scheduler from 2006 to 2018. Running costs 10 credits per millisecond. Every 30 ms the
//! credits that all CPUs can burn in that time are distributed to the active domains by weight. Each domain divides its
//! credits equally among its active members. An entity with credit is UNDER; an entity that has overspent is OVER. In
//! the run queue of each CPU, UNDER entities precede OVER entities. Entities of the same priority run in FIFO order,
//! with time slices of 30 ms. An entity that wakes UNDER becomes BOOST: it runs before UNDER and OVER entities until a
//! tick (every 10 ms) finds it running. The next accounting also ends the boost of an active entity.
//!
//! ```text
//! one CPU, a weighs 512, b 256       0     30    60    90    120   150   180
//! both are hogs                      aaaaaabbbbbbaaaaaaaaaaaabbbbbbaaaaaa
//! ```
//!
//! **Domains.** A group is a domain. Only its *active* members share its weight, and its cap limits their total CPU
//! time. An entity in no group is a domain of its own, with its own weight and no cap. A nested group is a domain of
//! its own, independent of its parent: Xen has no nested domains.
//!
//! **Active.** A tick that finds an inactive entity running puts the entity at the head of its domain's active list. An
//! accounting that finds an entity with more than 300 credits removes it from the list and sets its credits to zero.
//! Only active entities earn credits. An entity that always blocks before the tick is never on the list, never OVER,
//! and is boosted at every wake-up.
//!
//! **Accounting** gives a domain `⌈T·w/W⌉` credits. T is the number of credits to distribute, w is the domain's weight,
//! and W is the weight of all active domains. Two limits apply: the credits that its active members burn if all of them
//! run throughout the period, and its cap. Credits beyond these limits are distributed to the domains after it on the
//! list. If a domain before it could have used these credits, the limited domain moves to the head of the list. If the
//! sum of all active accounts was negative after the last accounting, this debt is added to T. The first limit then
//! grows by w/W of the debt. An entity with less than 0 credits is OVER. In a domain with a cap of c credits per period
//! and n active members, an entity is parked if its credit is below −c/n. At 0 credits or more, the entity is UNDER
//! again and unparked, without a boost. An accounting raises an account below −300 to −300.
//!
//! An account above 300 is emptied, and its owner earns nothing until a tick finds it running. A heavy entity therefore
//! receives less than its share if it earns more than 300 credits while it waits for other entities. For example, hogs
//! with the weights 1:2:4 on one CPU deviate from their shares by at most 1.3 percentage points. The error is larger
//! for the weights 1:2:4:4. Instead of 9.1, 18.2, 36.4 and 36.4 %, the shares are 14.9, 22.2, 31.5 and 31.5 %.
//!
//! **Run queues.** Accounting changes priorities, but not positions in a queue: each CPU sorts its queue at its next
//! tick. Until then, UNDER entities can be behind OVER entities, and insertion and stealing process the entities in
//! that order.
//!
//! **Several CPUs.** A wake-up kicks the CPU whose queue the entity joins, if that CPU idles or runs a less urgent
//! entity. If that CPU does not idle, the wake-up also kicks every idle CPU in the entity's affinity. If its queue
//! begins with an OVER entity, a CPU searches the queues of the other busy CPUs for a more urgent entity. If its queue
//! is empty, the CPU takes any entity that may run on it. The search begins at the next higher CPU number. At a tick,
//! an active entity moves to an idle CPU with more idle neighbours than its own CPU. Neighbours share a cache or,
//! within one cache, a core. The move boosts an UNDER entity.
//!
//! **Versions.** The text above describes 4.0.1. `version` selects another version, and each difference has a knob of
//! its own:
//! - *3.0.3*, the Credit of summer 2006 that Cherkasova et al. 2007 measured. A tick charges a whole tick period to the
//!   running entity (`charging`), so an entity that avoids ticks runs for free. A credit is a millisecond
//!   (`credits-per-ms`). There is no boost (`boost`): UNDER never preempts UNDER. A new entity earns from the start
//!   (`begins`). An entity under a cap is parked at any debt, but only when it next stops (`parking`). An entity that
//!   waits in a queue at the accounting first runs for another time slice. No CPU is kicked for an unparked entity,
//!   which waits until its CPU picks again; an idle CPU picks every 30 ms (`unparking`). An account that overflows is
//!   emptied after the balance is computed (`overflow`). CPUs also steal from the queues of idle CPUs (`steal`), and
//!   ticks migrate no entity (`relocate`).
//! - *4.23*, the current version. The weight of a domain applies to each active member, not to all together
//!   (`weight-per`). An account that overflows is halved (`overflow`). The periods of ticks and of accounting are
//!   derived from the time slice (`tick-from`), and charges are rounded down (`charging`). An entity that has run for
//!   less than 1 ms is not preempted (`ratelimit`). If idle CPUs are in the affinity of a woken entity, the wake-up
//!   kicks only one of them and preempts no entity. Otherwise a preempted entity moves to an idle CPU in its own
//!   affinity, if there is one (`tickle`). A yield lets one less urgent entity run first (`yield`). A CPU attempts to
//!   steal at most once per millisecond (`steal-limit`), first from CPUs that share its cache (`steal`). An entity that
//!   only migrates is not boosted (`boost-migrated`).
//!
//! **Order within one instant.** Ticks precede the accounting. Both precede the requeue of the stopped entity: in Xen,
//! too, timers run before `schedule()`.
//!
//! Differences from Xen 4.0.1:
//! - *Hand-off*. In Xen, an entity can wait indefinitely while a CPU idles. For example, an entity that is pinned to a
//!   busy CPU wakes and preempts an entity that could run elsewhere. No other CPU is kicked for the preempted entity.
//!   Likewise, two wake-ups on one idle CPU kick only that CPU. Here, an entity that a decision leaves waiting is moved
//!   to an idle CPU in its affinity (`hand-off = off`: as in Xen). An idle CPU also takes an entity that waits for its
//!   last time slice before parking; in 3.0.3, CPUs steal no PARKED vCPU.
//! - The accounting timer stops while all CPUs idle and no entity is active. This changes no decision, because no
//!   entity would receive credits. The next dispatch sets the timer again, for the next multiple of its period.
//! - A new entity begins on the allowed CPU with the fewest entities; in Xen, the domain builder chooses the CPU.
//! - A tick moves an entity only to a CPU in the entity's affinity. In 4.0.1, the choice among the idle neighbours of a
//!   CPU ignores the affinity.
//! - Late ticks are merged into one tick, and ticks stay at multiples of 10 ms. Xen aligns the ticks of a CPU only when
//!   the CPU stops idling.
//! - 32-bit sums that overflow in Xen do not overflow here.
//! - With `version = 4.23`, there are no soft affinities, because no parameter requests them; cache domains stand for
//!   NUMA nodes. The remainder of a time slice under the rate limit is at least 100 µs, as a comment in Xen states.
//!   Xen's code ensures this minimum only for an entity that has run for less than 100 µs. A preempted entity is moved
//!   if an idle CPU is in its affinity. Since 4.13, Xen's code tests the affinity of the woken entity, which contains
//!   no idle CPU at that point.
//!
//! Source: `xen/common/sched_credit.c`, Xen 4.0.1 and 3.0.3; `xen/common/sched/credit.c`, 4.23-dev.

mod accounting;
mod bounds;
pub(crate) mod cursor;
pub(crate) mod domains;
mod laxity;
pub(crate) mod placement;
pub(crate) mod runqueue;
mod settings;
#[cfg(test)]
mod tests;
mod ticks;

use accounting::Account;
use cursor::Commit;
use domains::{DomainId, Domains};
use runqueue::{Priority, RunQueues};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, CpuSet, Cx, Decision, Descriptor, EntityId, GroupChange, GroupId,
    Guarantees, Held, Instant, Knobs, Nanos, Params, Policy, Refused, State, StopReason, Stopped, Topology, Wake,
};
use settings::Settings;
pub(crate) use settings::{KNOBS, check};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "credit",
    title: "shares by weight in credits, with caps, and a boost for vCPUs that wake (Xen 4.0.1, 3.0.3, 4.23)",
    source: "xen/common/sched_credit.c, Xen 4.0.1, and as knobs 3.0.3 and 4.23; Cherkasova, Gupta and Vahdat 2007 §4",
    good_for: "long-run shares of whole VMs on several CPUs, with caps and short I/O latency",
    bad_at: "exact shares below a second, and latency for VMs that are both interactive and busy",
    text: include_str!("mod.rs"),
    conserving: bounds::conserving,
    starvation: bounds::starvation,
    guarantees: Guarantees { cap: bounds::cap, ..Guarantees::NOTHING },
    alarms: AlarmSlots { policy: &[AlarmKind::Timer], cpu: &[AlarmKind::Tick, AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: KNOBS,
    build,
};

const ACCOUNTING: Alarm = Alarm { owner: AlarmOwner::Policy, slot: 0 };
/// The CPU on which the accounting timer fires.
const MASTER: CpuId = CpuId::new(0);

const fn ticker(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

/// Returns the alarm at the end of a time slice of the idle vCPU, in versions that limit this slice.
const fn idle_turn(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 1 }
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    check(knobs)?;
    Ok(Box::new(Credit::new(host, knobs)))
}

/// The state of an entity.
#[derive(Clone, Copy, Debug)]
struct Vcpu {
    account: Account,
    domain: DomainId,
    /// CPU on which the entity runs, is queued or would be queued.
    home: CpuId,
    /// Instant at which the entity last stopped running.
    stopped: Option<Instant>,
    parked: bool,
    /// Whether the entity chooses its home again when it stops, because a tick or a wake-up found a better CPU.
    migrating: bool,
    /// Whether the entity has yielded and has not run since.
    yielded: bool,
    /// Instant at which the entity's current run on a CPU began.
    begun: Instant,
}

/// The state of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Number of entities whose home is this CPU.
    homes: u32,
    /// Value of `epoch` when the queue was last sorted.
    sorted: u64,
    /// Idle neighbour of this CPU that `pick_cpu` chose last.
    cursor: Option<CpuId>,
    /// Entity that stopped on this CPU at this instant without blocking, and is not queued yet.
    stopped: Option<EntityId>,
    /// Whether entities may wait in the queue of this CPU although no other CPU was kicked for them. The reason is that
    /// an entity was queued while this CPU idled, or that this CPU stole an entity.
    queued_while_idle: bool,
    /// Instant at which the CPU last found no entity to run.
    idles_since: Instant,
    /// Instant at which the CPU last tried to steal.
    tried_to_steal: Option<Instant>,
    /// Idle CPU that `tickle_one_of` last kicked from this CPU.
    called: CpuId,
    /// CPU of this cache domain from which an entity was last stolen. Stored in the record of the domain's first CPU
    /// only.
    stolen_from: CpuId,
}

/// The Credit scheduler. Policies built over `Credit` can access its queues, priorities and accounts.
#[derive(Debug)]
pub(crate) struct Credit {
    settings: Settings,
    pub(crate) queues: RunQueues,
    domains: Domains,
    vcpus: Vec<Vcpu>,
    cpus: Vec<Cpu>,
    /// CPUs that found no entity to run, except the CPUs in `called`.
    idlers: CpuSet,
    /// Idle CPUs that were kicked, in versions where a wake-up kicks one CPU only.
    called: CpuSet,
    /// Sum of all active accounts after the last accounting.
    balance: i64,
    /// Number of accountings so far.
    epoch: u64,
    /// Expected run time of each entity ahead of a woken entity; `None`: the position does not depend on the tolerable
    /// delay. See `laxity`.
    by_laxity: Option<Nanos>,
    /// Whether accounting also sets the priority of entities to which a policy built over Credit gave the highest
    /// priority.
    pub(crate) lowers_real_time: bool,
}

impl Credit {
    /// Creates a scheduler of `host` without entities.
    pub(crate) fn new(host: &Topology, knobs: &Knobs) -> Credit {
        let settings = Settings::read(knobs);
        let cpu = |n| Cpu { stolen_from: CpuId::new(n), ..Cpu::default() };
        Credit {
            settings,
            queues: RunQueues::new(host.cpus),
            domains: Domains::new(settings.weight_per_member),
            vcpus: Vec::new(),
            cpus: (0..host.cpus).map(cpu).collect(),
            idlers: host.all(),
            called: CpuSet::EMPTY,
            balance: 0,
            epoch: 0,
            by_laxity: None,
            lowers_real_time: false,
        }
    }

    fn vcpu(&mut self, e: EntityId) -> &mut Vcpu {
        &mut self.vcpus[e.index()]
    }

    /// Makes `cpu` the home of `e`.
    fn set_home(&mut self, e: EntityId, cpu: CpuId) {
        let old = core::mem::replace(&mut self.vcpus[e.index()].home, cpu);
        self.cpus[old.index()].homes -= 1;
        self.cpus[cpu.index()].homes += 1;
    }

    /// Follows a change of the affinity of `e`. If the affinity excludes the home of `e`, `e` migrates, unless it runs
    /// or is about to be queued. With hand-off, a queued `e` also moves to an idle CPU in its affinity.
    pub(crate) fn follow_affinity(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let queued = self.queues.queue_of(e);
        if cx.may_run(e, self.vcpu(e).home) {
            // A wider affinity may contain an idle CPU.
            if queued.is_some() && self.settings.hand_off {
                self.hand_off(e, cx);
            }
        } else if queued.is_some() {
            self.queues.remove(e);
            self.migrate(e, cx);
            self.enqueue_migrated(e, cx);
            let idles = self.idles(self.vcpus[e.index()].home);
            if self.settings.hand_off && self.settings.passes_over() && !idles {
                // The idle CPUs may skip `e`. It depended on the ticks of its old CPU, which no longer offer it.
                self.hand_off(e, cx);
            }
        } else if !matches!(cx.state(e), State::Running(_)) && !self.is_about_to_be_queued(e) {
            self.migrate(e, cx);
        }
    }

    // ---- Queueing ----

    /// Enqueues the waiting `e` on its home and kicks CPUs for `e`. In versions with a boost, an UNDER entity becomes
    /// BOOST.
    pub(crate) fn enqueue_woken(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.settings.boost && self.queues.priority(e) == Priority::Under {
            self.queues.set_priority(e, Priority::Boost);
        }
        self.enqueue(e, cx);
    }

    /// Enqueues `e`, which has just moved to another home.
    fn enqueue_migrated(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.settings.boost_migrated { self.enqueue_woken(e, cx) } else { self.enqueue(e, cx) }
    }

    /// Enqueues the waiting `e` on its home and kicks CPUs for `e`.
    pub(crate) fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let home = self.vcpus[e.index()].home;
        self.queues.insert(home, e);
        self.tickle(e, home, cx);
    }

    /// Makes the best CPU for `e` its home. `e` neither runs nor is queued.
    fn migrate(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.vcpu(e).migrating = false;
        let best = self.pick_cpu(e, Commit::Yes, cx);
        self.set_home(e, best);
    }

    /// Returns whether `e` has to leave its home.
    fn must_migrate(&self, e: EntityId, cx: &Cx<'_>) -> bool {
        let vcpu = &self.vcpus[e.index()];
        vcpu.migrating || !cx.may_run(e, vcpu.home)
    }

    /// Returns whether `e` stopped at this instant without blocking, and is not queued yet.
    fn is_about_to_be_queued(&self, e: EntityId) -> bool {
        let home = self.vcpus[e.index()].home;
        self.cpus[home.index()].stopped == Some(e)
    }

    /// Enqueues the entity that has just stopped on `cpu`. Returns the entity if it is queued on `cpu`.
    pub(crate) fn requeue_stopped(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Option<EntityId> {
        let e = self.cpus[cpu.index()].stopped.take()?;
        if self.must_migrate(e, cx) {
            self.migrate(e, cx);
            if !self.vcpu(e).parked {
                self.enqueue_migrated(e, cx);
            }
            return None;
        }
        let vcpu = &self.vcpus[e.index()];
        if vcpu.parked {
            return None;
        }
        if vcpu.yielded && self.settings.yield_behind {
            self.queues.insert_behind_one(cpu, e);
        } else {
            self.queues.insert(cpu, e);
        }
        Some(e)
    }

    /// Returns the entity that has just stopped on `cpu`, if the rate limit lets the entity continue. Also returns the
    /// time for which the limit still protects the entity.
    pub(crate) fn continues(&self, cpu: CpuId, cx: &Cx<'_>) -> Option<(EntityId, Nanos)> {
        let e = self.cpus[cpu.index()].stopped?;
        let vcpu = &self.vcpus[e.index()];
        let more = self.settings.left_running(cx.now().since(vcpu.begun))?;
        (!vcpu.yielded && !vcpu.parked && !self.must_migrate(e, cx)).then_some((e, more))
    }

    /// Continues to run the entity that `continues` returns, if any.
    pub(crate) fn continue_stopped(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Option<Decision> {
        let (e, more) = self.continues(cpu, cx)?;
        self.cpus[cpu.index()].stopped = None;
        self.hand_off_left(cpu, None, cx);
        Some(Decision::until(e, cx.now() + more))
    }

    /// Returns the longest time slice.
    pub(crate) fn time_slice(&self) -> Nanos {
        self.settings.slice
    }

    /// Sets the longest time slice.
    pub(crate) fn set_time_slice(&mut self, slice: Nanos) {
        self.settings.slice = slice;
    }

    /// Dispatches `e`, which is queued, on `cpu`. `stopped`: the entity that has just been queued on `cpu` again.
    pub(crate) fn begin(&mut self, e: EntityId, cpu: CpuId, stopped: Option<EntityId>, cx: &mut Cx<'_>) {
        self.queues.remove(e);
        self.set_home(e, cpu);
        self.idlers.remove(cpu);
        cx.clear_alarm(idle_turn(cpu));
        let now = cx.now();
        let vcpu = self.vcpu(e);
        vcpu.yielded = false;
        if stopped != Some(e) {
            vcpu.begun = now;
        }
        self.start_timers(cpu, cx);
        self.hand_off_left(cpu, stopped, cx);
        if self.called.remove(cpu) {
            self.offer_all(cx);
        }
    }

    /// Hands off the entities that a decision for `cpu` left waiting, if other CPUs idle.
    fn hand_off_left(&mut self, cpu: CpuId, stopped: Option<EntityId>, cx: &mut Cx<'_>) {
        let queued_while_idle = core::mem::take(&mut self.cpus[cpu.index()].queued_while_idle);
        if !self.settings.hand_off || !self.any_idles() {
            return;
        }
        if queued_while_idle {
            self.hand_off_queue(cpu, cx);
        } else if let Some(e) = stopped
            && self.queues.queue_of(e) == Some(cpu)
        {
            self.hand_off(e, cx);
        }
    }
}

impl Policy for Credit {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        self.queues.reserve(e);
        self.domains.reserve(e, &params);
        let home = cx.allowed(e).iter().min_by_key(|cpu| self.cpus[cpu.index()].homes);
        let vcpu = Vcpu {
            account: Account::default(),
            domain: DomainId::of(e, &params),
            home: home.expect("an affinity contains a CPU"),
            stopped: None,
            parked: false,
            migrating: false,
            yielded: false,
            begun: cx.now(),
        };
        self.cpus[vcpu.home.index()].homes += 1;
        if self.vcpus.len() <= e.index() {
            self.vcpus.resize(e.index() + 1, vcpu);
        }
        self.vcpus[e.index()] = vcpu;
        if self.settings.begins_active {
            self.domains.activate(e, vcpu.domain);
        }
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        let Vcpu { domain, home, .. } = self.vcpus[e.index()];
        self.domains.deactivate(e, domain);
        self.cpus[home.index()].homes -= 1;
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let domain = DomainId::of(e, &params);
        let old = core::mem::replace(&mut self.vcpu(e).domain, domain);
        let moves = old != domain && self.domains.deactivate(e, old);
        self.domains.update_solo(e, &params);
        if moves {
            self.domains.activate(e, domain);
        }
        self.follow_affinity(e, cx);
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        match change {
            GroupChange::Created { .. } | GroupChange::Params { .. } if g != GroupId::ROOT => {
                self.domains.update_group(g, cx.group_params(g));
            }
            _ => {}
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        // The entity may have blocked before it could migrate.
        if !cx.may_run(e, self.vcpu(e).home) {
            self.migrate(e, cx);
        }
        if self.vcpu(e).parked {
            return cx.hold(e, Held::Parked);
        }
        match cx.params(e).latency {
            Some(laxity) if self.by_laxity.is_some() && self.queues.priority(e) == Priority::Under => {
                self.enqueue_by_laxity(e, laxity, cx);
            }
            _ => self.enqueue_woken(e, cx),
        }
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        if !self.queues.remove(e) && self.is_about_to_be_queued(e) {
            let home = self.vcpu(e).home;
            self.cpus[home.index()].stopped = None;
        }
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        let settings = self.settings;
        self.vcpu(e).account.burn(ran, &settings);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        match alarm.owner {
            AlarmOwner::Cpu(cpu) if alarm == idle_turn(cpu) => cx.kick(cpu),
            AlarmOwner::Cpu(cpu) => self.tick(cpu, cx),
            _ => self.account(cx),
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let vcpu = self.vcpu(prev.entity);
        vcpu.stopped = Some(cx.now());
        vcpu.yielded = prev.why == StopReason::Yielded;
        if vcpu.parked {
            cx.hold(prev.entity, Held::Parked);
        }
        if prev.why != StopReason::Blocked {
            self.cpus[cpu.index()].stopped = Some(prev.entity);
        } else if self.must_migrate(prev.entity, cx) {
            self.migrate(prev.entity, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        if let Some(slice) = self.continue_stopped(cpu, cx) {
            return slice;
        }
        let stopped = self.requeue_stopped(cpu, cx);
        let Some(e) = self.choose(cpu, &|_, _| false, cx) else {
            self.cpus[cpu.index()].idles_since = cx.now();
            return Decision::IDLE;
        };
        self.begin(e, cpu, stopped, cx);
        Decision::until(e, cx.now() + self.settings.slice)
    }

    fn credit(&self, e: EntityId) -> Option<i64> {
        Some(self.vcpus[e.index()].account.credit)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let vcpu = &self.vcpus[e.index()];
        show("credit", vcpu.account.credit);
        show("priority", self.queues.priority(e).number());
        show("active", i64::from(self.domains.is_active(e)));
        show("parked", i64::from(vcpu.parked));
    }
}
