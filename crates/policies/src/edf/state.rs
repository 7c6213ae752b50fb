//! [`Edf`]: the accounts, admission control and queues of all entities, shared by the placements.

use super::account::{Account, BudgetState, Enforce, Late, Rest};
use super::change::{ActiveUtilisations, Change};
use crate::admission::Admission;
use sched::queue::{Heaps, Lists};
use sched::{
    Alarm, AlarmOwner, CpuId, CpuSet, Cx, Decision, EntityId, Held, Instant, Knobs, Nanos, Params, PromiseState,
    Refused, Reservation, Running, StopReason, Topology,
};

/// The reservation of an entity, and the CPUs to which the other members of its gang are assigned.
struct Terms {
    asked: Option<Reservation>,
    taken: CpuSet,
}

/// Returns the alarm at the end of an entity's period.
const fn period_end(e: EntityId) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(e), slot: 0 }
}

/// The state that the placements and `gang_edf` share: accounts, admission control, and the queues for reserved and for
/// unreserved time.
pub(crate) struct Edf {
    pub(super) enforce: Enforce,
    pub(super) late: Late,
    pub(super) rest: Rest,
    change: Change,
    pub(super) grain: Nanos,
    pub(super) quantum: Nanos,
    pub(super) partitioned: bool,
    /// Whether the members of a gang must have equal, aligned reservations on different CPUs: see `gang_edf`.
    pub(super) gangs: bool,
    /// Account of each entity, by index; accounts of detached entities are not `open`.
    pub(super) accounts: Vec<Account>,
    pub(super) members: usize,
    pub(super) admission: Admission,
    active: ActiveUtilisations,
    /// Waiting entities with a remaining slice: one queue per CPU if placement is partitioned, else one queue.
    pub(super) ready: Heaps<Instant>,
    /// Entities that wait for unreserved time: one list per CPU for the entities assigned to the CPU, and a last list
    /// for all others.
    pub(super) background: Lists,
    /// Counter of arrivals in background lists. The counter orders entities of different lists.
    pub(super) arrivals: u64,
    pub(super) arrived: Vec<u64>,
    pub(super) cpus: usize,
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
            rest: if knobs.word("rest") == "renew" { Rest::Renew } else { Rest::Keep },
            change: if knobs.word("change") == "due" && enforce != Enforce::None { Change::Due } else { Change::Now },
            grain: knobs.time("grain"),
            quantum: knobs.time("quantum"),
            partitioned,
            gangs: false,
            accounts: Vec::new(),
            members: 0,
            admission: Admission::new(host.cpus, reserve, partitioned),
            active: ActiveUtilisations::default(),
            ready: Heaps::new(if partitioned { host.cpus } else { 1 }),
            background: Lists::new(host.cpus + 1),
            arrivals: 0,
            arrived: Vec::new(),
            cpus: host.cpus,
        }
    }

    pub(super) fn account(&self, e: EntityId) -> &Account {
        &self.accounts[e.index()]
    }

    pub(super) fn account_mut(&mut self, e: EntityId) -> &mut Account {
        &mut self.accounts[e.index()]
    }

    // ---- Membership ----

    pub(super) fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let terms = self.terms(e, cx)?;
        let mut account = Account::open(terms.asked.as_ref(), self.enforce, cx.now());
        self.promise(e, &mut account, None, &terms, cx)?;
        self.postpone(e, &mut account, cx.now());
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

    /// Reserves memory in the queues, because any attached entity may wait in the queue of its CPU.
    fn make_room(&mut self, e: EntityId) {
        let queue = self.queue(e);
        self.ready.reserve(e, queue, self.members);
    }

    /// Returns the reservation of `e`. In a gang, the slice and the period must equal those of the siblings. The
    /// reservation then starts at the beginning of a period of the siblings, the first at or after its own start, and the
    /// CPUs of the siblings are excluded.
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
        let asks = asked.start.unwrap_or(cx.now()).max(cx.now());
        let mut start = asks;
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
            start = account.period_from(asks);
            if let Some(cpu) = account.cpu {
                terms.taken.insert(cpu);
            }
        }
        asked.start = Some(start);
        Ok(terms)
    }

    /// Admits the reservation of `account`. If placement is partitioned, confines `e` to the CPU on which it is
    /// admitted.
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
        let above = self.admission.above_one_cpu(account.utilisation, || others(None)).filter(|_| !self.partitioned);
        let admitted = above.map_or_else(|| self.admission.admit(account.utilisation, first, &allowed, others), Err);
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

    /// Records the part of its slice that `e` has used in advance of a constant rate, before its reservation changes.
    fn keep_active(&mut self, e: EntityId, account: &Account, now: Instant) {
        if self.change == Change::Due
            && let Some(until) = account.used_until()
        {
            self.active.add(e, account.cpu, account.utilisation.units_up(), until, now);
        }
    }

    /// Postpones the first period of `account`, which was just admitted, until its utilisation is free.
    fn postpone(&self, e: EntityId, account: &mut Account, now: Instant) {
        if self.change == Change::Now || !account.is_reserved() {
            return;
        }
        let on = account.cpu;
        let admitted = |other: EntityId| {
            let other = self.account(other);
            if other.is_reserved() && other.cpu == on { other.utilisation.units() } else { 0 }
        };
        account.postpone(self.active.earliest(e, on, self.admission.spare(on), now, admitted), now);
    }

    pub(super) fn detach(&mut self, e: EntityId, cx: &Cx<'_>) {
        let account = *self.account(e);
        self.withdraw(&account);
        self.keep_active(e, &account, cx.now());
        self.active.detach(e);
        self.account_mut(e).open = false;
        self.members -= 1;
    }

    /// Replaces the reservation of `e`. If `e` waits, the caller then enqueues `e` again. The first period begins now,
    /// at the `start` of the reservation, or when the knob `change` permits, whichever is latest. If the reservation
    /// did not change, the period continues; with `change = due`, only if `e` stays on its CPU as well. A refused
    /// reservation changes nothing.
    pub(super) fn renegotiate(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let (before, now) = (*self.account(e), cx.now());
        let mut terms = self.terms(e, cx)?;
        let is_gang = |group| self.gangs && cx.group_params(group).gang;
        let group = cx.params(e).group;
        let has_moved = old.group != group && (is_gang(old.group) || is_gang(group));
        let is_same = old.reservation == cx.params(e).reservation && !has_moved;
        let mut account = if is_same { before } else { Account::open(terms.asked.as_ref(), self.enforce, now) };
        self.withdraw(&before);
        let answer = self.promise(e, &mut account, before.cpu, &terms, cx);
        if answer.is_err() {
            // This allocates no memory, because admission control held the same reservation before.
            if before.is_reserved() && (self.enforce != Enforce::None || self.partitioned) {
                self.admission.restore(before.utilisation, before.cpu);
            }
            return answer;
        }
        let is_moved = self.change == Change::Due && account.cpu != before.cpu;
        if is_same
            && is_moved
            && let Some(asked) = terms.asked.as_mut()
        {
            // On another CPU, the remaining slice could take time from others.
            asked.start = asked.start.map(|_| before.period_from(now));
            account = Account { cpu: account.cpu, ..Account::open(Some(asked), self.enforce, now) };
        }
        if !is_same || is_moved {
            self.keep_active(e, &before, now);
            self.accounts[e.index()] = account;
            self.postpone(e, &mut account, now);
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

    /// Enqueues `e`, which is runnable, according to its state.
    #[inline]
    pub(super) fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let account = &self.accounts[e.index()];
        match account.state {
            BudgetState::Reserved => self.ready.push(account.cpu.map_or(0, CpuId::index), account.deadline, e),
            BudgetState::Background => self.enqueue_background(e),
            BudgetState::Depleted => cx.hold(e, Held::Depleted),
        }
    }

    pub(super) fn enqueue_background(&mut self, e: EntityId) {
        self.arrivals += 1;
        self.arrived[e.index()] = self.arrivals;
        self.background.push_back(self.account(e).cpu.map_or(self.cpus, CpuId::index), e);
    }

    /// Removes `e` from its queue, or releases its hold.
    pub(super) fn dequeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !self.ready.remove(e) {
            self.background.remove(e);
        }
        if cx.is_held(e) {
            cx.release(e, Held::Depleted);
        }
    }

    /// Removes and returns the background entity that has waited longest, among the entities that may run on `cpu`.
    pub(super) fn pop_background(&mut self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        let here = self.background.first(cpu.index());
        let anywhere = self.background.iter(self.cpus).find(|&e| cx.may_run(e, cpu));
        let first = match (here, anywhere) {
            (Some(a), Some(b)) => Some(if self.arrived[a.index()] < self.arrived[b.index()] { a } else { b }),
            (one, other) => one.or(other),
        }?;
        self.background.remove(first);
        Some(first)
    }

    /// Kicks every idle CPU on which an entity of a background list may run. The CPU that was kicked when the entity
    /// woke may run a reserved entity now.
    #[inline]
    pub(super) fn call_for_background(&self, cx: &mut Cx<'_>) {
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

    /// Returns the decision to run `e` until its slice is used up; without enforcement, until `e` stops.
    pub(super) fn reserved_slice(&self, e: EntityId, now: Instant) -> Decision {
        match self.enforce {
            Enforce::None => Decision::forever(e),
            _ => Decision::until(e, self.account(e).slice_end(now, self.grain)),
        }
    }

    pub(super) fn background_slice(&self, e: EntityId, now: Instant) -> Decision {
        Decision::until(e, now.saturating_add(self.quantum).round_up(self.grain))
    }

    // ---- Periods ----

    /// Handles the wake-up of `e`, if `e` has a reservation. If slices are enforced, applies the wake-up rule.
    /// Otherwise, starts a job if the last deadline has passed. The first job of a reservation with a start keeps its
    /// deadline, even if this deadline has passed.
    #[inline]
    pub(super) fn begin(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let (now, enforce, late, rest) = (cx.now(), self.enforce, self.late, self.rest);
        let account = self.account_mut(e);
        if !account.is_reserved() {
            return;
        }
        if enforce == Enforce::None {
            account.state = BudgetState::Reserved;
            let is_first = !std::mem::replace(&mut account.has_begun, true);
            if now >= account.deadline && !(is_first && account.fixed) {
                account.deadline = now.saturating_add(account.period);
            }
            return;
        }
        account.wake(late, rest, now);
        self.arm(e, cx);
    }

    /// Sets the alarm at the end of the period of `e`, if `e` has a period.
    pub(super) fn arm(&self, e: EntityId, cx: &mut Cx<'_>) {
        if self.enforce == Enforce::None {
            return;
        }
        let at = self.account(e).deadline.round_up(self.grain);
        if self.account(e).is_reserved() && at != Instant::NEVER {
            // A period may have ended already, if its alarm is late.
            let on = self.account(e).cpu.unwrap_or_else(|| cx.last_cpu(e));
            let soonest = cx.now() + Nanos::ns(1);
            cx.set_alarm(period_end(e), on, at.max(soonest));
        } else {
            cx.clear_alarm(period_end(e));
        }
    }

    /// Updates the state of `e` at a stop. `e` stops because its slice is used up, its job is complete, or it is
    /// preempted.
    #[inline]
    pub(super) fn judge(&mut self, e: EntityId, why: StopReason) {
        let none = self.enforce == Enforce::None;
        let account = self.account_mut(e);
        if !account.is_reserved() || account.state != BudgetState::Reserved {
            return;
        }
        match (why, none) {
            (StopReason::Yielded, true) => account.deadline = account.deadline.saturating_add(account.period),
            (_, true) => {}
            (StopReason::Yielded, false) => {
                // The rest of the slice is given up, not undelivered.
                account.slept = true;
                account.deplete();
            }
            (_, false) if account.balance <= 0 => account.deplete(),
            (_, false) => {}
        }
    }

    /// Records a block of `e`: no undelivered time of this period is carried over, and no alarm is needed until its
    /// wake-up.
    pub(super) fn rest(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.enforce != Enforce::None && self.account(e).is_reserved() {
            let now = cx.now();
            let account = self.account_mut(e);
            (account.slept, account.blocked) = (true, now);
            cx.clear_alarm(period_end(e));
        }
    }

    /// Returns the state of the reservation of `e`; `None` if `e` has no reservation.
    pub(super) fn promise_state(&self, e: EntityId) -> Option<PromiseState> {
        let Account { slice, period, deadline, balance, .. } = *self.account(e);
        (!period.is_zero()).then_some(PromiseState { slice, period, deadline, remaining: balance })
    }

    pub(super) fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        let account = self.account(e);
        show("deadline", account.deadline.as_ns().min(i64::MAX.unsigned_abs()).cast_signed());
        show("remaining", account.balance);
        show("slice", account.slice.as_ns().cast_signed());
        show("period", account.period.as_ns().cast_signed());
        show("reserved", i64::from(account.state == BudgetState::Reserved));
    }
}
