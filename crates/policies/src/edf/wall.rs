//! `charge = wall`: VSched's own core (VSched §3.2), which cannot detect that an entity blocks.
//!
//! The core makes a choice at the end of a period, at the end of a slice and when the set of entities changes. Among
//! the entities with a remaining slice, the core *chooses* the entity with the earliest deadline, runnable or not. The
//! time until the next choice is charged to that entity. While the chosen entity is blocked, all runnable entities run
//! round robin, as SCHED_OTHER processes would. Each choice costs the core the CPU time of the knob `decision`. During
//! that time, the process of the core runs on the CPU: no entity of this CPU runs or is charged. Events during a
//! decision are handled afterwards.

use super::account::BudgetState;
use super::state::Edf;
use sched::{
    Alarm, AlarmOwner, CpuId, Cx, Decision, EntityId, Held, Instant, Nanos, Params, Policy, PromiseState, Refused,
    State, StopReason, Stopped, Wake,
};

pub(super) struct Wall {
    /// Queues: `ready` holds all entities with a remaining slice, blocked or not; `background` holds all waiting
    /// entities.
    edf: Edf,
    chosen: Vec<Option<EntityId>>,
    /// Instant up to which the chosen entity of each CPU has been charged.
    since: Vec<Instant>,
    /// Duration of a decision.
    decision: Nanos,
    /// Whether a choice is due on each CPU.
    due: Vec<bool>,
    /// End of the current or last decision of each CPU.
    decided: Vec<Instant>,
}

/// Returns the alarm at the end of a decision.
const fn decision_end(cpu: CpuId) -> Alarm {
    Alarm { owner: AlarmOwner::Cpu(cpu), slot: 0 }
}

impl Wall {
    pub(super) fn new(edf: Edf, decision: Nanos, cpus: usize) -> Wall {
        Wall {
            edf,
            chosen: vec![None; cpus],
            since: vec![Instant::ZERO; cpus],
            decision,
            due: vec![false; cpus],
            decided: vec![Instant::ZERO; cpus],
        }
    }

    /// Returns whether the core is deciding on `cpu`. If a choice is due, starts a decision and sets an alarm for its
    /// end.
    fn decides(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> bool {
        let (at, now) = (cpu.index(), cx.now());
        if self.decision.is_zero() {
            return false;
        }
        if now >= self.decided[at] {
            if !std::mem::take(&mut self.due[at]) {
                return false;
            }
            self.decided[at] = now + self.decision;
            cx.set_alarm(decision_end(cpu), cpu, self.decided[at]);
        }
        true
    }

    /// Charges the chosen entity of `cpu` for the time since it was last charged or chosen.
    fn elapse(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let since = std::mem::replace(&mut self.since[cpu.index()], cx.now());
        let Some(e) = self.chosen[cpu.index()] else { return };
        let account = self.edf.account_mut(e);
        account.charge(cx.now().since(since));
        if account.state == BudgetState::Reserved && account.balance <= 0 {
            account.deplete();
            self.due[cpu.index()] = true;
            self.edf.ready.remove(e);
            self.hold_if_depleted(e, cx);
        }
    }

    fn hold_if_depleted(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.edf.account(e).state == BudgetState::Depleted && cx.state(e) != State::Blocked {
            self.edf.background.remove(e);
            cx.hold(e, Held::Depleted);
        }
    }

    /// Enqueues `e`, which is runnable, or holds `e` if it is depleted. If `e` is the chosen entity of its CPU, that
    /// CPU picks again. Otherwise an idle CPU picks, if any.
    fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if self.edf.account(e).state == BudgetState::Depleted {
            cx.hold(e, Held::Depleted);
            return;
        }
        self.edf.enqueue_background(e);
        match self.edf.account(e).cpu {
            Some(cpu) if self.chosen[cpu.index()] == Some(e) => cx.kick(cpu),
            _ => {
                if let Some(cpu) = cx.idle_cpu_for(e) {
                    cx.kick(cpu);
                }
            }
        }
    }

    fn dequeue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.edf.background.remove(e);
        if cx.is_held(e) {
            cx.release(e, Held::Depleted);
        }
    }

    /// Adds `e` to the candidates if `e` has a remaining slice, and makes its CPU choose again.
    fn add_candidate(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.edf.arm(e, cx);
        let account = *self.edf.account(e);
        if let Some(cpu) = account.cpu {
            self.due[cpu.index()] = true;
        }
        if let (BudgetState::Reserved, Some(cpu)) = (account.state, account.cpu) {
            self.edf.ready.push(cpu.index(), account.deadline, e);
            cx.kick(cpu);
        }
    }

    /// Removes `e` from the candidates.
    fn remove_candidate(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if let Some(cpu) = self.edf.account(e).cpu
            && self.chosen[cpu.index()] == Some(e)
        {
            self.elapse(cpu, cx);
            self.chosen[cpu.index()] = None;
            cx.kick(cpu);
        }
        self.edf.ready.remove(e);
    }
}

impl Policy for Wall {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.edf.attach(e, cx)?;
        self.add_candidate(e, cx);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.remove_candidate(e, cx);
        self.edf.detach(e, cx);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let was_on = self.edf.account(e).cpu;
        // A refusal changes nothing, so the entity is not charged before.
        self.edf.renegotiate(e, old, cx)?;
        if let Some(cpu) = was_on.filter(|cpu| self.chosen[cpu.index()] == Some(e)) {
            if old.reservation == cx.params(e).reservation {
                self.elapse(cpu, cx);
            } else {
                // The time until now belongs to the old reservation.
                self.since[cpu.index()] = cx.now();
            }
            self.chosen[cpu.index()] = None;
            cx.kick(cpu);
        }
        self.edf.ready.remove(e);
        self.add_candidate(e, cx);
        match cx.state(e) {
            State::Blocked => {}
            State::Running(cpu) => {
                // The entity may be held since its old slice ended. `put` holds an entity whose slice is used up.
                self.dequeue(e, cx);
                cx.kick(cpu);
            }
            State::Waiting => {
                self.dequeue(e, cx);
                self.enqueue(e, cx);
            }
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.enqueue(e, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.dequeue(e, cx);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let e = match alarm.owner {
            AlarmOwner::Entity(e) => e,
            AlarmOwner::Cpu(cpu) => return cx.kick(cpu),
            _ => unreachable!("only entities and CPUs have alarms here"),
        };
        self.remove_candidate(e, cx);
        let (late, now) = (self.edf.late, cx.now());
        // This core cannot detect that an entity was blocked.
        self.edf.account_mut(e).slept = false;
        self.edf.account_mut(e).renew(late, now);
        if cx.is_held(e) && self.edf.account(e).state != BudgetState::Depleted {
            self.dequeue(e, cx);
            if cx.state(e) == State::Waiting {
                self.enqueue(e, cx);
            }
        }
        self.add_candidate(e, cx);
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        // While a decision is in progress, no CPU is kicked for waiting entities.
        if self.decided.iter().all(|&at| at <= now) {
            self.edf.call_for_background(cx);
        }
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        self.elapse(cpu, cx);
        if prev.why != StopReason::Blocked {
            self.enqueue(prev.entity, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        self.elapse(cpu, cx);
        if self.decides(cpu, cx) {
            self.chosen[cpu.index()] = None;
            return Decision::IDLE;
        }
        let now = cx.now();
        let chosen = self.edf.ready.first(cpu.index()).map(|(_, e)| e);
        self.chosen[cpu.index()] = chosen;
        let Some(chosen) = chosen else {
            return match self.edf.pop_background(cpu, cx) {
                Some(e) => self.edf.background_slice(e, now),
                None => Decision::IDLE,
            };
        };
        let until = self.edf.account(chosen).slice_end(now, self.edf.grain);
        if self.edf.background.remove(chosen) {
            return Decision::until(chosen, until);
        }
        match self.edf.pop_background(cpu, cx) {
            Some(e) => Decision::until(e, until.min(self.edf.background_slice(e, now).until)),
            None => Decision::IDLE,
        }
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.edf.promise_state(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.edf.inspect(e, show);
    }
}
