//! Earliest deadline first, over reservations of a slice in every period.
//!
//! Among entities with a remaining slice, the one whose period ends first runs. A used-up slice is replenished when the
//! next period begins. Until then the entity competes for unreserved time (soft), or is held (hard). Entities without a
//! reservation run round robin in the remaining time.
//!
//! ```text
//! (period 20, slice 5) = a, (50, 20) = b, one CPU, hard      0    5              20   25   30        40   45
//!                                                            aaaaabbbbbbbbbbbbbbbaaaaabbbbb          aaaaa
//! ```
//!
//! Periods follow one another from the `start` of the reservation. Without a `start`, they begin when the entity first
//! wakes, and anew when it wakes after sleeping past the end of a period. An entity may wake within a period that it
//! has used in part. It then keeps its remaining slice less the time it was blocked, but at least its share of the rest
//! of the period (docs/decisions/0010). With `rest = renew`, it begins a new period if it has more than that share, so
//! its periods follow its own wake-ups; the daemon uses this setting.
//!
//! With this rule, on one CPU with Σ slice/period ≤ 1, no slice of an entity that is runnable through its period is
//! late. This holds however the others sleep and wake. The policy admits no more than that, less a reserve. (An entity
//! that is attached, detached or changed gets its new slice at once: another entity's slice may be late in the first
//! period after that.) `placement = partitioned` gives the same guarantee on several CPUs: each entity is assigned a
//! CPU, first fit. `placement = global` runs the earliest deadlines of the whole machine, with one decision for all
//! CPUs at once. It admits more, and bounds tardiness instead of excluding it (Devi and Anderson 2005).
//!
//! At one instant, the set of entities to run is determined first. Then entities that run already keep their CPU. The
//! others are placed in order of (deadline, index): on their last CPU if it is free, else on the lowest free one.
//!
//! Differences from VSched (S1 §3), the source of the rule: this policy knows whether an entity is blocked. So only CPU
//! time is charged, a blocked entity frees its CPU, and periods begin anew after a sleep. `charge = wall` restores
//! VSched's core, which cannot know this. A yield declares the job complete: it gives up the rest of the slice, as in
//! SCHED_DEADLINE. `enforce = none` schedules jobs instead of slices: a job runs until it blocks or yields, a late job
//! keeps its deadline, and no reservation is refused. The deadline of a job is its release plus the period.
//!
//! Source: VSched (Lin and Dinda, SC'05) §3; Liu and Layland 1973.

mod account;
mod global;
mod partitioned;
#[cfg(test)]
mod tests;
mod wall;

pub(crate) use partitioned::Partitioned;

use crate::admission::Admission;
use account::{Account, Enforce, Late, Rest, Standing};
use sched::queue::{Heaps, Lists};
use sched::{
    Alarm, AlarmKind, AlarmOwner, AlarmSlots, Conserving, CpuId, CpuSet, Cx, Decision, Descriptor, EntityId,
    Guarantees, Instant, Knob, Knobs, LoadBounds, Nanos, Params, Policy, PromiseState, Refused, Reservation, Running,
    StopReason, Topology,
};

pub(crate) const LATE: Knob =
    Knob::choice("late", &["renew", "carry"], "undelivered time is lost (renew) or added to the next slice (carry)")
        .from("S1 §3.2 (renew)");
pub(crate) const GRAIN: Knob = Knob::time(
    "grain",
    Nanos::ZERO,
    (Nanos::ZERO, Nanos::s(1)),
    "the grain of timers: they go off at multiples of this; 0: exactly",
)
.from("S1 §3.3: 10 ms on Linux 2.4, 1 ms on 2.6");
pub(crate) const RESERVE: Knob =
    Knob::percent("reserve", [10, 0, 100], "the part of each CPU that is never reserved").from("S1 §3.1");
pub(crate) const QUANTUM: Knob =
    Knob::time("quantum", Nanos::ms(10), (Nanos::us(10), Nanos::s(1)), "the time slice in unreserved time")
        .from("ours: S1 leaves that time to the host's own scheduler");

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "edf",
    title: "earliest deadline first, over reservations of a slice in every period",
    source: "VSched (Lin and Dinda, SC'05) §3; Liu and Layland 1973",
    good_for: "timing guarantees: a VM that needs 2 ms in every 10 ms gets them, whatever else runs",
    bad_at: "fairness among entities without a reservation: they run round robin in the remaining time",
    text: include_str!("mod.rs"),
    conserving,
    starvation: |_| None,
    guarantees: Guarantees { reservations, ..Guarantees::NOTHING },
    alarms: AlarmSlots { entity: &[AlarmKind::Timer], cpu: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[
        Knob::choice("enforce", &["soft", "hard", "none"], "what happens at the end of a slice")
            .from("S1 §3.2 (soft, hard); none: jobs run to completion"),
        Knob::choice("placement", &["global", "partitioned"], "one queue for all CPUs, or each entity assigned to a CPU")
            .from("S1 has one CPU, so it is partitioned"),
        LATE,
        Knob::choice("charge", &["cpu", "wall"], "a slice is charged by CPU time, or by the time since the entity was chosen")
            .from("S1 §3.2 (wall): its core cannot see an entity block"),
        Knob::choice(
            "rest",
            &["keep", "renew"],
            "an entity that wakes within a period continues it with its remaining slice, or begins a new one (unless its reservation names a start)",
        )
        .from("ours (keep); CBS, Abeni and Buttazzo 1998 (renew)"),
        GRAIN,
        Knob::time(
            "decision",
            Nanos::ZERO,
            (Nanos::ZERO, Nanos::ms(100)),
            "the CPU time of each decision of the core of `charge = wall`",
        )
        .from("S1 §4.3: more than 1.25 % of a period of 16 ms on a Pentium 4 of 2 GHz, so 200 us there"),
        RESERVE,
        QUANTUM,
    ],
    build,
};

fn conserving(load: &LoadBounds<'_>) -> Conserving {
    let slack = Nanos::ZERO;
    let partitioned = load.knobs.word("placement") == "partitioned";
    match (load.knobs.word("charge"), partitioned) {
        ("wall", _) if !load.knobs.time("decision").is_zero() => Conserving::Never,
        ("wall", _) => Conserving::PerCpu { slack },
        (_, true) => Conserving::PerCpu { slack },
        (_, false) => Conserving::Global { slack },
    }
}

/// On one CPU per entity: every slice in every period, to the nanosecond. An entity that is attached, detached or
/// changed gets its slice at once, while the slice that its predecessor has used is still owed to others.
fn reservations(load: &LoadBounds<'_>) -> Option<Nanos> {
    if load.has_changes {
        return None;
    }
    let knobs = load.knobs;
    // With periods that begin anew at wake-ups, an observer cannot tell which periods were guaranteed.
    let told = knobs.word("rest") == "keep";
    let exact =
        told && knobs.word("enforce") != "none" && knobs.word("charge") == "cpu" && knobs.time("grain").is_zero();
    (exact && (knobs.word("placement") == "partitioned" || load.host.cpus == 1)).then_some(Nanos::ZERO)
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    let partitioned = knobs.word("placement") == "partitioned";
    let edf = Edf::new(host, knobs, partitioned).resting(knobs);
    match (knobs.word("charge"), partitioned || host.cpus == 1, edf.enforce) {
        ("wall", _, Enforce::None) => Err(Refused::Unsupported {
            reason: "edf: charge = wall ends slices by the clock, enforce = none never ends them",
            remedy: "use enforce = soft or hard",
        }),
        ("wall", false, _) => Err(Refused::Unsupported {
            reason: "edf: charge = wall follows one chosen entity per CPU",
            remedy: "use placement = partitioned as well",
        }),
        ("wall", true, _) => {
            let decision = knobs.time("decision");
            Ok(Box::new(wall::Wall::new(Edf::new(host, knobs, true), decision, host.cpus)))
        }
        (_, _, _) if !knobs.time("decision").is_zero() => Err(Refused::Unsupported {
            reason: "edf: decision is the time of a core that is a process",
            remedy: "use charge = wall as well",
        }),
        (_, _, _) if partitioned => Ok(Box::new(partitioned::Partitioned(edf))),
        _ => Ok(Box::new(global::Global::new(edf, host.cpus))),
    }
}

/// The reservation of an entity, and the CPUs that its gang members have.
struct Terms {
    asked: Option<Reservation>,
    taken: CpuSet,
}

/// The alarm at the end of an entity's period.
const fn period_end(e: EntityId) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(e), slot: 0 }
}

/// The state that the placements and `gang_edf` share: accounts, admission control, and the two kinds of queues.
pub(crate) struct Edf {
    enforce: Enforce,
    late: Late,
    rest: Rest,
    grain: Nanos,
    quantum: Nanos,
    partitioned: bool,
    /// Whether the members of a gang are bound to each other: see `gang_edf`.
    gangs: bool,
    /// By entity index; accounts of detached entities are not `open`.
    accounts: Vec<Account>,
    members: usize,
    admission: Admission,
    /// The waiting entities with a remaining slice: one queue per CPU when partitioned, else one.
    ready: Heaps<Instant>,
    /// The entities that wait for unreserved time: one list per CPU for those assigned to it, and a last one for all
    /// others.
    background: Lists,
    /// Orders the heads of two background lists.
    arrivals: u64,
    arrived: Vec<u64>,
    cpus: usize,
}

impl Edf {
    pub(crate) fn new(host: &Topology, knobs: &Knobs, partitioned: bool) -> Edf {
        let enforce = match knobs.word("enforce") {
            "soft" => Enforce::Soft,
            "hard" => Enforce::Hard,
            _ => Enforce::None,
        };
        let late = if knobs.word("late") == "carry" { Late::Carry } else { Late::Renew };
        let reserve = if enforce == Enforce::None { 0 } else { knobs.get("reserve").unsigned_abs() };
        Edf {
            enforce,
            late,
            rest: Rest::Keep,
            grain: knobs.time("grain"),
            quantum: knobs.time("quantum"),
            partitioned,
            gangs: false,
            accounts: Vec::new(),
            members: 0,
            admission: Admission::new(host.cpus, reserve, partitioned),
            ready: Heaps::new(if partitioned { host.cpus } else { 1 }),
            background: Lists::new(host.cpus + 1),
            arrivals: 0,
            arrived: Vec::new(),
            cpus: host.cpus,
        }
    }

    /// Applies the knob `rest`.
    fn resting(mut self, knobs: &Knobs) -> Edf {
        self.rest = if knobs.word("rest") == "renew" { Rest::Renew } else { Rest::Keep };
        self
    }

    fn account(&self, e: EntityId) -> &Account {
        &self.accounts[e.index()]
    }

    fn account_mut(&mut self, e: EntityId) -> &mut Account {
        &mut self.accounts[e.index()]
    }

    // ---- Membership ----

    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let terms = self.terms(e, cx)?;
        let mut account = Account::open(terms.asked.as_ref(), self.enforce, cx.now());
        self.promise(e, &mut account, None, &terms, cx)?;
        if self.accounts.len() <= e.index() {
            self.accounts.resize(e.index() + 1, account);
            self.arrived.resize(e.index() + 1, 0);
        }
        self.accounts[e.index()] = account;
        self.members += 1;
        self.background.reserve(e);
        self.make_room(e);
        Ok(())
    }

    /// Makes room in the queues: any attached entity may come to wait in the queue of its CPU.
    fn make_room(&mut self, e: EntityId) {
        let queue = self.queue(e);
        self.ready.reserve(e, queue, self.members);
    }

    /// The reservation of `e`. In a gang, it must be the same as that of the siblings, with a common start, on a CPU
    /// that no sibling has.
    fn terms(&self, e: EntityId, cx: &Cx<'_>) -> Result<Terms, Refused> {
        let params = cx.params(e);
        let mut terms = Terms { asked: params.reservation, taken: CpuSet::EMPTY };
        let Some(asked) = terms.asked.as_mut() else { return Ok(terms) };
        if self.enforce != Enforce::None && asked.relative_deadline() < asked.period {
            return Err(Refused::Unsupported {
                reason: "slices are due at the end of the period here",
                remedy: "leave the deadline out, or use the policy `deadline`",
            });
        }
        if !self.gangs || !cx.group_params(params.group).gang {
            return Ok(terms);
        }
        let now = cx.now();
        let mut start = asked.start.unwrap_or(now).max(now);
        for sibling in cx.members(params.group).filter(|&sibling| sibling != e) {
            let Some(account) = self.accounts.get(sibling.index()).filter(|a| a.open && a.is_reserved()) else {
                continue;
            };
            if (account.slice, account.period) != (asked.slice, asked.period) {
                return Err(Refused::Unsupported {
                    reason: "the members of a gang have one slice and one period",
                    remedy: "use the siblings' slice and period, or another group",
                });
            }
            start = account.period_from(now);
            if let Some(cpu) = account.cpu {
                terms.taken.insert(cpu);
            }
        }
        asked.start = Some(start);
        Ok(terms)
    }

    /// Admits the reservation of `account` and confines `e` to the CPU it is admitted on.
    fn promise(
        &mut self,
        e: EntityId,
        account: &mut Account,
        first: Option<CpuId>,
        terms: &Terms,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refused> {
        account.cpu = None;
        let Some(asked) = terms.asked else {
            cx.confine(e, &CpuSet::ALL);
            return Ok(());
        };
        if self.enforce == Enforce::None && !self.partitioned {
            return Ok(());
        }
        let allowed = cx.params(e).affinity.and(&cx.topology().all()).minus(&terms.taken);
        if allowed.is_empty() {
            return Err(Refused::Unsupported {
                reason: "every CPU this member of the gang may run on has a sibling",
                remedy: "use fewer members, or more CPUs",
            });
        }
        let accounts = &self.accounts;
        let others = |cpu: Option<CpuId>| {
            let others = accounts.iter().enumerate().filter(move |&(index, _)| index != e.index());
            let here = others.filter(move |(_, other)| other.open && other.is_reserved() && other.cpu == cpu);
            here.map(|(_, other)| &other.utilisation)
        };
        let admitted = self.admission.admit(account.utilisation, first, &allowed, others);
        account.cpu = admitted.map_err(|full| Refused::Utilisation { asked, free_ppm: full.free_ppm, on: full.on })?;
        if let Some(cpu) = account.cpu {
            cx.confine(e, &CpuSet::one(cpu));
        }
        Ok(())
    }

    fn withdraw(&mut self, account: &Account) {
        let counted = self.enforce != Enforce::None || self.partitioned;
        if account.is_reserved() && counted {
            self.admission.release(account.utilisation, account.cpu);
        }
    }

    fn detach(&mut self, e: EntityId) {
        let account = *self.account(e);
        self.withdraw(&account);
        self.account_mut(e).open = false;
        self.members -= 1;
    }

    /// Replaces the reservation of `e`, which is in no queue; its first period begins now. If the reservation did not
    /// change, the period goes on. If it is refused, nothing changes.
    fn renegotiate(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let before = *self.account(e);
        let terms = self.terms(e, cx)?;
        let moved = self.gangs && old.group != cx.params(e).group;
        let same = old.reservation == cx.params(e).reservation && !moved;
        let mut account = if same { before } else { Account::open(terms.asked.as_ref(), self.enforce, cx.now()) };
        self.withdraw(&before);
        let answer = self.promise(e, &mut account, before.cpu, &terms, cx);
        if answer.is_err() {
            // The accounts have room for what was in them.
            if before.is_reserved() && (self.enforce != Enforce::None || self.partitioned) {
                self.admission.restore(before.utilisation, before.cpu);
            }
            return answer;
        }
        account.restricted = before.restricted;
        self.accounts[e.index()] = account;
        self.make_room(e);
        Ok(())
    }

    // ---- Queues ----

    fn queue(&self, e: EntityId) -> usize {
        self.account(e).cpu.map_or(0, CpuId::index)
    }

    /// Queues `e`, which is runnable, according to its state.
    #[inline]
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let account = &self.accounts[e.index()];
        match account.standing {
            Standing::Reserved => self.ready.push(account.cpu.map_or(0, CpuId::index), account.deadline, e),
            Standing::Background => self.enqueue_background(e),
            Standing::Depleted => cx.hold(e, sched::Held::Depleted),
        }
    }

    fn enqueue_background(&mut self, e: EntityId) {
        self.arrivals += 1;
        self.arrived[e.index()] = self.arrivals;
        self.background.push_back(self.account(e).cpu.map_or(self.cpus, CpuId::index), e);
    }

    /// Removes `e` from its queue or hold.
    fn dequeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !self.ready.remove(e) {
            self.background.remove(e);
        }
        if cx.is_held(e) {
            cx.release(e, sched::Held::Depleted);
        }
    }

    /// Takes the background entity that has waited longest among those that may run on `cpu`.
    fn pop_background(&mut self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        let here = self.background.first(cpu.index());
        let anywhere = self.background.iter(self.cpus).find(|&e| cx.may_run(e, cpu));
        let first = match (here, anywhere) {
            (Some(a), Some(b)) => Some(if self.arrived[a.index()] < self.arrived[b.index()] { a } else { b }),
            (one, other) => one.or(other),
        }?;
        self.background.remove(first);
        Some(first)
    }

    /// Kicks every idle CPU that could run an entity on unreserved time: the CPU kicked at its wake-up may run a
    /// reserved entity now.
    #[inline]
    fn call_for_background(&self, cx: &mut Cx<'_>) {
        if !self.background.all_empty() {
            self.call_idle_cpus(cx);
        }
    }

    #[cold]
    fn call_idle_cpus(&self, cx: &mut Cx<'_>) {
        for cpu in cx.topology().iter() {
            let idle = cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
            let has_work = || {
                let mut anywhere = self.background.iter(self.cpus);
                !self.background.is_empty(cpu.index()) || anywhere.any(|e| cx.may_run(e, cpu))
            };
            if idle && has_work() {
                cx.kick(cpu);
            }
        }
    }

    /// Runs `e` on reserved time until that is used up; without enforcement, until it stops.
    fn reserved_slice(&self, e: EntityId, now: Instant) -> Decision {
        match self.enforce {
            Enforce::None => Decision::forever(e),
            _ => Decision::until(e, self.account(e).slice_end(now, self.grain)),
        }
    }

    fn background_slice(&self, e: EntityId, now: Instant) -> Decision {
        Decision::until(e, now.saturating_add(self.quantum).round_up(self.grain))
    }

    // ---- Periods ----

    /// `e` wakes: a job, or a period of demand, begins now.
    #[inline]
    fn begin(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let (now, enforce, late, rest) = (cx.now(), self.enforce, self.late, self.rest);
        let account = self.account_mut(e);
        if !account.is_reserved() {
            return;
        }
        if enforce == Enforce::None {
            account.standing = Standing::Reserved;
            if now >= account.deadline {
                account.deadline = now.saturating_add(account.period);
            }
            return;
        }
        account.wake(late, rest, now);
        self.arm(e, cx);
    }

    /// Sets the alarm at the end of `e`'s period, if it has one.
    fn arm(&self, e: EntityId, cx: &mut Cx<'_>) {
        if self.enforce == Enforce::None {
            return;
        }
        let at = self.account(e).deadline.round_up(self.grain);
        if self.account(e).is_reserved() && at != Instant::NEVER {
            // A period may have ended already, if its alarm comes late.
            let on = self.account(e).cpu.unwrap_or_else(|| cx.last_cpu(e));
            let soonest = cx.now() + Nanos::ns(1);
            cx.set_alarm(period_end(e), on, at.max(soonest));
        } else {
            cx.clear_alarm(period_end(e));
        }
    }

    /// `e` stops because its slice is used up, its job is done, or it is preempted: updates its state.
    #[inline]
    fn judge(&mut self, e: EntityId, why: StopReason) {
        let none = self.enforce == Enforce::None;
        let account = self.account_mut(e);
        if !account.is_reserved() || account.standing != Standing::Reserved {
            return;
        }
        match (why, none) {
            (StopReason::Yielded, true) => account.deadline = account.deadline.saturating_add(account.period),
            (_, true) => {}
            (StopReason::Yielded, false) => account.deplete(),
            (_, false) if account.balance <= 0 => account.deplete(),
            (_, false) => {}
        }
    }

    /// `e` blocks: no undelivered time of this period is carried over, and no alarm is needed until it wakes.
    fn rest(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.enforce != Enforce::None && self.account(e).is_reserved() {
            let now = cx.now();
            let account = self.account_mut(e);
            (account.slept, account.blocked) = (true, now);
            cx.clear_alarm(period_end(e));
        }
    }

    /// The current period of `e`, if it has a reservation.
    fn promise_state(&self, e: EntityId) -> Option<PromiseState> {
        let Account { slice, period, deadline, balance, .. } = *self.account(e);
        (!period.is_zero()).then_some(PromiseState { slice, period, deadline, remaining: balance })
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let account = self.account(e);
        show("deadline", account.deadline.as_ns().min(i64::MAX.unsigned_abs()).cast_signed());
        show("remaining", account.balance);
        show("slice", account.slice.as_ns().cast_signed());
        show("period", account.period.as_ns().cast_signed());
        show("reserved", i64::from(account.standing == Standing::Reserved));
    }
}
