//! Credit2: the entity with the most credit runs, and a reset gives every entity the same amount of credit again.
//!
//! Credit2 has been Xen's default scheduler since 4.12. Every entity begins with 10 ms of credit, and running burns
//! credit. The heaviest entity of a run queue burns one nanosecond of credit per nanosecond of CPU time; an entity of
//! half its weight burns two. The entity with the most credit runs first, so a woken entity runs before an entity that
//! has just run. There are no priorities and no boost. When neither the next entity nor any waiting entity of a run
//! queue has credit left, every entity of the queue receives 10 ms more. If the next entity has the minimum credit, −10
//! ms, every entity receives 20 ms. An entity keeps at most half a millisecond of credit beyond 10 ms. Between two such
//! resets, each entity can run in proportion to its weight.
//!
//! ```text
//! one CPU, a weighs 256, b 512       0         10        20        30        40
//! both are hogs                      abbbbbbbbbbaaaaabbbbbbbbbbaaaaabbbbbbbbbbaaaa
//! ```
//!
//! **Time slices.** A time slice ends when the entity would have no credit left, or no more credit than the first
//! entity in the queue. A time slice lasts at least 0.5 ms and at most 10 ms. It also lasts at least for the rest of
//! the rate limit (`ratelimit`). An entity that has run for less than 1 ms is not preempted, unless it yields. Equal
//! credit does not preempt. After a yield, the CPU runs the first entity in the queue that may run on it, whatever its
//! credit. An entity of another CPU must still exceed the migration resistance.
//!
//! **Run queues.** The CPUs that share a cache also share a run queue, at most 16 CPUs per queue (`runqueue`,
//! `runqueue-cpus`). An entity that last ran on another CPU of the queue must migrate. Such an entity is picked only if
//! it has at least half a millisecond more credit than the entity that this CPU ran until now. The migrated entity
//! receives 50 µs of credit.
//!
//! **Wake-ups.** A wake-up kicks at most one CPU. Idle CPUs have precedence: the entity's last CPU if its whole core
//! idles, then any CPU with an idle core, then any idle CPU. If no CPU idles, the last CPU is kicked, if its running
//! entity has less credit than the woken entity. Otherwise the wake-up kicks the CPU with the largest positive score.
//! The score is the woken entity's credit, less the credit of the running entity and the migration resistance. An
//! entity that has just begun to run is not preempted. Until a kicked CPU has decided, no other wake-up kicks it, and
//! no other CPU picks the entity for which it was kicked.
//!
//! **Several run queues.** Each queue keeps an average of the number of runnable entities over about the last second.
//! Each entity keeps the average of its own runnable time. A new entity is assigned to the queue with the least
//! expected load. At a reset, a queue selects the queue whose load differs most from its own. The queue balances only
//! if the difference is at least one entity. If the higher load is at least the number of CPUs of the larger queue, an
//! eighth of an entity is enough. The queue pushes one entity, pulls one entity, or swaps two entities. It selects the
//! move that leaves the smallest difference.
//!
//! **Domains and caps.** A group is a domain, as in `credit`. Its weight applies to *each* member, and its cap bounds
//! all members together. An entity in no group has its own weight and no cap. Every 10 ms, the pool of a capped domain
//! receives the cap's part of that time, and then holds at most this amount. A member that is picked without quota
//! takes a quota from the pool. The quota is this amount divided by the number of members, at least half a millisecond,
//! and at most what the pool holds. The member runs on this quota, and returns the remainder when it stops. A member
//! that finds the pool empty is parked until another member returns a remainder or the pool is filled. A member that
//! has overrun its quota leaves a debt in the pool.
//!
//! Differences from Xen:
//! - With `hand-off`, no CPU idles while an entity that may run on it waits in its run queue. In Xen, an idle CPU does
//!   not pick an entity of another CPU with less than −9.5 ms of credit. The CPU also stops its search after the first
//!   entity that it must park. If a kicked CPU picks an entity other than the one for which it was kicked, no idle CPU
//!   is kicked for the entity that still waits.
//! - In load balancing, the imbalance of the other run queue is computed from the load of that queue. Xen uses the load
//!   of the last queue in the list.
//! - There are no soft affinities, no NUMA nodes and no power saving, because no parameter requests them.
//! - The quota of a member changes with the number of members, and is at most one quota period. In Xen the quota is
//!   fixed when the cap is set, and a cap above 100 % per member is refused.
//! - A CPU that is making a decision is not kicked.
//!
//! Source: `xen/common/sched/credit2.c`, Xen 4.23-dev.

mod balance;
mod bounds;
mod budget;
mod decide;
mod domain;
mod runqueue;
mod settings;
#[cfg(test)]
mod tests;

use crate::credit::domains::DomainId;
use domain::Domain;
use runqueue::{Load, RunQueue};
use sched::queue::{Lists, Trees};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, CpuId, CpuSet, Cx, Decision, Descriptor, EntityId, GroupChange, GroupId,
    Guarantees, Instant, Knobs, Nanos, Params, Policy, Refused, State, StopReason, Stopped, Topology, Wake,
};
use settings::Settings;

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "credit2",
    title: "the vCPU with the most credit runs first; a reset gives every vCPU the same credit; with caps (Xen 4.23)",
    source: "xen/common/sched/credit2.c, Xen 4.23-dev",
    good_for: "shares of VMs within tens of milliseconds, short latency for vCPUs that slept, and exact caps",
    bad_at: "very different weights, because a minimum time slice costs more than the maximum debt of a light entity; deadlines",
    text: include_str!("mod.rs"),
    conserving: bounds::conserving,
    starvation: bounds::starvation,
    guarantees: Guarantees { shares: bounds::shares, cap: bounds::cap, ..Guarantees::NOTHING },
    alarms: AlarmSlots { group: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: settings::KNOBS,
    build,
};

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Credit2::new(host, knobs)))
}

/// The state of an entity. Credits and budgets are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Vcpu {
    credit: i64,
    /// Remainder of the last division into credits.
    residual: u64,
    weight: u64,
    domain: DomainId,
    /// CPU on which the entity runs or last ran, or to which the entity was assigned.
    home: CpuId,
    /// Quota that the entity has taken from its domain's pool; negative after an overrun.
    budget: i64,
    parked: bool,
    /// CPU that was last kicked for the entity.
    tickled: Option<CpuId>,
    /// Instant at which the entity's current run began.
    begun: Instant,
    /// Run queue to which the entity moves when it stops.
    migrate_to: Option<usize>,
    yielded: bool,
    load: Load,
}

/// The state of a CPU.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    queue: usize,
    /// Hardware threads of the CPU's core that share its run queue.
    siblings: CpuSet,
    /// Entity that stopped on this CPU at this instant without blocking, and is not queued yet.
    stopped: Option<EntityId>,
}

/// The order of a run queue: most credit first, then order of arrival.
type Key = (core::cmp::Reverse<i64>, u64);

/// The state of the scheduler.
#[derive(Debug)]
pub(crate) struct Credit2 {
    settings: Settings,
    queues: Vec<RunQueue>,
    /// Waiting entities, by run queue.
    waiting: Trees<Key>,
    /// Entities assigned to each run queue.
    members: Lists,
    vcpus: Vec<Vcpu>,
    cpus: Vec<Cpu>,
    domains: Vec<Domain>,
    /// Parked entities, by domain, the most recently parked entity first.
    parked: Trees<u64>,
    arrivals: u64,
    /// Buffer for rebuilding a queue at a reset.
    scratch: Vec<EntityId>,
}

impl Credit2 {
    fn new(host: &Topology, knobs: &Knobs) -> Credit2 {
        let settings = Settings::read(knobs);
        let queues = runqueue::partition(host, &settings);
        let cpu = |cpu| {
            let queue = queues.iter().position(|queue| queue.cpus.contains(cpu)).expect("every CPU is in one");
            Cpu { queue, siblings: runqueue::siblings(host, cpu).and(&queues[queue].cpus), stopped: None }
        };
        Credit2 {
            settings,
            waiting: Trees::new(queues.len()),
            members: Lists::new(queues.len()),
            vcpus: Vec::new(),
            cpus: host.iter().map(cpu).collect(),
            queues,
            domains: Vec::new(),
            parked: Trees::new(0),
            arrivals: 0,
            scratch: Vec::new(),
        }
    }

    fn vcpu(&mut self, e: EntityId) -> &mut Vcpu {
        &mut self.vcpus[e.index()]
    }

    /// Returns the run queue to which `e` is assigned.
    fn queue_of(&self, e: EntityId) -> usize {
        self.cpus[self.vcpus[e.index()].home.index()].queue
    }

    fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Inserts `e`, which waits, into its run queue.
    fn queue(&mut self, e: EntityId) {
        let key = (core::cmp::Reverse(self.vcpus[e.index()].credit), self.arrive());
        self.waiting.push(self.queue_of(e), key, e);
    }

    /// Inserts `e` into its run queue, and kicks a CPU for `e`.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.queue(e);
        self.tickle(e, cx);
    }

    /// Returns whether `e` stopped at this instant without blocking, and is not queued yet.
    fn is_about_to_be_queued(&self, e: EntityId) -> bool {
        self.cpus[self.vcpus[e.index()].home.index()].stopped == Some(e)
    }

    /// Returns whether `e` has to leave its home.
    fn must_migrate(&self, e: EntityId, cx: &Cx<'_>) -> bool {
        let vcpu = &self.vcpus[e.index()];
        vcpu.migrate_to.is_some() || !cx.may_run(e, vcpu.home)
    }

    /// Subtracts the credit for a run of `ran` from `e`, and keeps the remainder of the division. Also subtracts `ran`
    /// from the quota of a capped `e`.
    fn burn(&mut self, e: EntityId, ran: Nanos) {
        let heaviest = self.queues[self.queue_of(e)].max_weight;
        let vcpu = &mut self.vcpus[e.index()];
        let cost = u128::from(ran.as_ns()) * u128::from(heaviest) + u128::from(vcpu.residual);
        let weight = u128::from(vcpu.weight);
        vcpu.residual = u64::try_from(cost % weight).expect("less than a weight");
        let burnt = i64::try_from(cost / weight).unwrap_or(i64::MAX);
        vcpu.credit = vcpu.credit.saturating_sub(burnt).max(-self.settings.credit);
        if self.domains[vcpu.domain.index()].cap.is_some() {
            vcpu.budget = vcpu.budget.saturating_sub_unsigned(ran.as_ns());
        }
    }

    /// Charges the running entity of `cpu` up to now.
    fn burn_running(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if let Some((e, ran)) = cx.take_ran(cpu) {
            self.burn(e, ran);
        }
    }

    /// Sets the weight and the domain of `e`, which is in no domain.
    fn join_domain(&mut self, e: EntityId, params: &Params) {
        let domain = DomainId::of(e, params);
        self.make_domain(domain);
        if params.group == GroupId::ROOT {
            self.domains[domain.index()].weight = u64::from(params.weight.as_linux());
        }
        self.domains[domain.index()].members += 1;
        let weight = self.domains[domain.index()].weight;
        let vcpu = self.vcpu(e);
        (vcpu.domain, vcpu.weight, vcpu.budget, vcpu.residual) = (domain, weight, 0, 0);
    }
}

impl Policy for Credit2 {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let vcpu = Vcpu {
            credit: self.settings.credit,
            residual: 0,
            weight: 1,
            domain: DomainId::of(e, &params),
            home: CpuId::default(),
            budget: 0,
            parked: false,
            tickled: None,
            begun: cx.now(),
            migrate_to: None,
            yielded: false,
            load: Load::of_newcomer(runqueue::clock(cx), &self.settings),
        };
        if self.vcpus.len() <= e.index() {
            self.vcpus.resize(e.index() + 1, vcpu);
        }
        self.vcpus[e.index()] = vcpu;
        self.waiting.reserve(e, (core::cmp::Reverse(0), 0));
        self.parked.reserve(e, 0);
        self.members.reserve(e);
        self.scratch.reserve(self.vcpus.len());
        self.join_domain(e, &params);
        let home = self.pick_home(e, None, cx);
        self.assign(e, home);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.leave_domain(e, cx);
        self.deassign(e);
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let params = *cx.params(e);
        let (domain, queue) = (DomainId::of(e, &params), self.queue_of(e));
        if domain != self.vcpu(e).domain {
            let was_parked = self.leave_domain(e, cx);
            self.join_domain(e, &params);
            if was_parked && cx.state(e) == State::Waiting {
                self.count_load(e, 1, cx);
                self.enqueue(e, cx);
            }
            self.check_budget(e, cx);
        } else if params.group == GroupId::ROOT {
            let weight = u64::from(params.weight.as_linux());
            self.domains[domain.index()].weight = weight;
            self.vcpu(e).weight = weight;
        }
        self.find_heaviest(queue);
        self.follow_affinity(e, cx);
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if g != GroupId::ROOT {
            match change {
                GroupChange::Created { .. } | GroupChange::Params { .. } => self.change_domain(g, cx),
                GroupChange::Removed => self.domains[DomainId::of_group(g).index()].cap = None,
            }
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        // The entity may have blocked before it could migrate.
        if self.must_migrate(e, cx) {
            self.move_home(e, cx);
        }
        if !self.vcpu(e).parked {
            self.count_load(e, 1, cx);
            self.enqueue(e, cx);
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.waiting.remove(e) {
            self.count_load(e, -1, cx);
        } else if self.is_about_to_be_queued(e) {
            let home = self.vcpu(e).home;
            self.cpus[home.index()].stopped = None;
            self.count_load(e, -1, cx);
            self.return_budget(e, cx);
        }
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.burn(e, ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        if let AlarmOwner::Group(g) = alarm.owner {
            self.fill(g, cx);
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        self.vcpu(e).yielded = prev.why == StopReason::Yielded;
        if prev.why != StopReason::Blocked {
            self.cpus[cpu.index()].stopped = Some(e);
            return;
        }
        self.count_load(e, -1, cx);
        self.return_budget(e, cx);
        if self.must_migrate(e, cx) {
            self.move_home(e, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        self.decide(cpu, cx)
    }

    fn credit(&self, e: EntityId) -> Option<i64> {
        Some(self.vcpus[e.index()].credit)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let vcpu = &self.vcpus[e.index()];
        show("credit", vcpu.credit);
        show("budget", vcpu.budget);
        show("parked", i64::from(vcpu.parked));
        show("runqueue", i64::try_from(self.queue_of(e)).expect("few"));
        show("load", vcpu.load.average);
    }
}
