//! `placement = partitioned`: at admission, every entity with a reservation is assigned to the first CPU on which it
//! fits. Each CPU runs the entity with the earliest deadline among its own entities with a remaining slice.

use super::account::BudgetState;
use super::state::Edf;
use sched::{
    Alarm, AlarmOwner, CpuId, Cx, Decision, EntityId, GroupChange, GroupId, Nanos, Params, Policy, PromiseState,
    Refused, Running, State, StopReason, Stopped, Wake,
};

pub(crate) struct Partitioned(pub(super) Edf);

impl Partitioned {
    /// Returns the placement for gangs. The members of a gang must have equal reservations. Their periods are aligned,
    /// and each member is assigned a different CPU.
    pub(crate) fn with_gangs(mut edf: Edf) -> Partitioned {
        edf.gangs = true;
        Partitioned(edf)
    }
}

impl Partitioned {
    /// Kicks the CPU that should now run `e`, if any. `e` has just been queued.
    fn call_for(&self, e: EntityId, cx: &mut Cx<'_>) {
        let account = self.0.account(e);
        let (BudgetState::Reserved, Some(cpu)) = (account.state, account.cpu) else {
            if let Some(cpu) = cx.idle_cpu_for(e) {
                cx.kick(cpu);
            }
            return;
        };
        let preempts = match cx.running(cpu) {
            Running::Idle | Running::Below => true,
            Running::Above => false,
            Running::Mine { entity, .. } => {
                let running = self.0.account(entity);
                running.state != BudgetState::Reserved || running.key(entity) > account.key(e)
            }
        };
        if preempts {
            cx.kick(cpu);
        }
    }
}

impl Policy for Partitioned {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.0.attach(e, cx)
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.0.detach(e, cx);
    }

    fn adjust(&mut self, e: EntityId, old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.0.renegotiate(e, old, cx)?;
        match cx.state(e) {
            State::Blocked => return Ok(()),
            State::Running(cpu) => cx.kick(cpu),
            State::Waiting => {
                self.0.dequeue(e, cx);
                self.0.enqueue(e, cx);
                self.call_for(e, cx);
            }
        }
        self.0.arm(e, cx);
        Ok(())
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let begins = matches!(change, GroupChange::Params { old } if !old.gang && cx.group_params(g).gang);
        if self.0.gangs && begins && cx.members(g).any(|e| self.0.account(e).is_reserved()) {
            return Err(Refused::Unsupported {
                reason: "the group has members with reservations of their own",
                remedy: "make the group a gang before its members are attached",
            });
        }
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.0.begin(e, cx);
        self.0.enqueue(e, cx);
        self.call_for(e, cx);
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.0.dequeue(e, cx);
        self.0.rest(e, cx);
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, _cx: &mut Cx<'_>) {
        self.0.account_mut(e).charge(ran);
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let AlarmOwner::Entity(e) = alarm.owner else { unreachable!("only entities have alarms here") };
        let waiting = cx.state(e) == State::Waiting;
        if let State::Running(cpu) = cx.state(e) {
            if let Some((e, ran)) = cx.take_ran(cpu) {
                self.0.account_mut(e).charge(ran);
            }
            cx.kick(cpu);
        }
        if waiting {
            self.0.dequeue(e, cx);
        }
        let (late, now) = (self.0.late, cx.now());
        self.0.account_mut(e).renew(late, now);
        self.0.arm(e, cx);
        if waiting {
            self.0.enqueue(e, cx);
            self.call_for(e, cx);
        }
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        self.0.call_for_background(cx);
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let e = prev.entity;
        if prev.why == StopReason::Blocked {
            self.0.rest(e, cx);
            return;
        }
        self.0.judge(e, prev.why);
        self.0.enqueue(e, cx);
        // The entity's own CPU is about to pick: with another kick, the CPU would never reach a decision.
        if self.0.account(e).state != BudgetState::Reserved || self.0.account(e).cpu != Some(cpu) {
            self.call_for(e, cx);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        if let Some((_, e)) = self.0.ready.pop(cpu.index()) {
            return self.0.reserved_slice(e, cx.now());
        }
        match self.0.pop_background(cpu, cx) {
            Some(e) => self.0.background_slice(e, cx.now()),
            None => Decision::IDLE,
        }
    }

    fn promise(&self, e: EntityId) -> Option<PromiseState> {
        self.0.promise_state(e)
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.0.inspect(e, show);
    }
}
