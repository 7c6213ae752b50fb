//! Ticks, which charge the running entity and may move it, and the accounting, which distributes credits and parks
//! entities.

use super::accounting::{Grant, Round};
use super::cursor::Commit;
use super::runqueue::Priority;
use super::settings::{Charging, Overflow, Parking};
use super::{ACCOUNTING, Credit, MASTER, idle_turn, ticker};
use sched::{CpuId, Cx, EntityId, Held, Nanos, Running, State};

impl Credit {
    /// Sets the ticker of `cpu`, on which an entity runs, and the accounting timer, unless they are set already.
    pub(super) fn start_timers(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        if cx.alarm_at(ticker(cpu)).is_none() {
            let stagger = self.settings.tick_stagger.saturating_mul(cpu.index() as u64);
            let phase = Nanos::ns(stagger.as_ns() % self.settings.tick.as_ns());
            cx.set_alarm(ticker(cpu), cpu, cx.now().next_tick(self.settings.tick, phase));
        }
        if cx.alarm_at(ACCOUNTING).is_none() {
            self.set_accounting(cx);
        }
    }

    fn set_accounting(&mut self, cx: &mut Cx<'_>) {
        cx.set_alarm(ACCOUNTING, MASTER, cx.now().next_tick(self.settings.period, Nanos::ZERO));
    }

    /// Handles a tick of `cpu`: charges and activates the entity that runs on `cpu` or stopped there at this instant,
    /// and sorts the queue.
    pub(super) fn tick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        let running = match cx.running(cpu) {
            Running::Mine { entity, .. } => Some(entity),
            Running::Idle => self.cpus[cpu.index()].stopped,
            Running::Above | Running::Below => None,
        };
        if let Some(e) = running {
            if self.queues.priority(e) == Priority::Boost {
                self.queues.set_priority(e, Priority::Under);
            }
            let settings = self.settings;
            if settings.charging == Charging::Sampled {
                self.vcpu(e).account.credit -= settings.credits_in(settings.tick);
            } else if let Some((ran_by, ran)) = cx.take_ran(cpu) {
                self.vcpu(ran_by).account.burn(ran, &settings);
            }
            if !self.domains.is_active(e) {
                self.domains.activate(e, self.vcpus[e.index()].domain);
            } else if settings.relocate && self.pick_cpu(e, Commit::No, cx) != cpu {
                self.vcpu(e).migrating = true;
                cx.kick(cpu);
            }
            self.start_timers(cpu, cx);
        }
        if self.cpus[cpu.index()].sorted != self.epoch {
            self.cpus[cpu.index()].sorted = self.epoch;
            self.queues.sort(cpu);
        }
        if self.settings.hand_off && self.settings.passes_over() {
            self.hand_off_queue(cpu, cx);
        }
    }

    /// Distributes credits and decides which entities are UNDER, OVER, parked and active.
    pub(super) fn account(&mut self, cx: &mut Cx<'_>) {
        for cpu in 0..self.cpus.len() {
            let due = ticker(CpuId::new(cpu));
            if cx.alarm_at(due).is_some_and(|at| at <= cx.now()) {
                cx.clear_alarm(due);
                self.tick(CpuId::new(cpu), cx);
            }
        }
        let weight = self.domains.active_weight();
        if weight == 0 {
            self.balance = 0;
            if self.idlers.len() < self.cpus.len() {
                self.set_accounting(cx);
            }
            return;
        }
        let per_cpu = self.settings.credits_per_period();
        let mut round = Round::new(self.cpus.len(), per_cpu, self.balance, weight);
        self.balance = 0;
        let mut next = self.domains.first();
        while let Some(domain) = next {
            next = self.domains.next(domain);
            let grant = round.grant(self.domains.get(domain));
            if grant.to_head {
                self.domains.move_to_head(domain);
            }
            let mut next_member = self.domains.first_member(domain);
            while let Some(e) = next_member {
                next_member = self.domains.next_member(e);
                self.balance += self.pay(e, grant, per_cpu, cx);
            }
        }
        self.epoch += 1;
        self.set_accounting(cx);
    }

    /// Adds `grant` to the account of `e`, which is active, and updates the state of `e`. Returns the credits of `e`
    /// that count in the balance.
    fn pay(&mut self, e: EntityId, grant: Grant, most: i64, cx: &mut Cx<'_>) -> i64 {
        let vcpu = &mut self.vcpus[e.index()];
        vcpu.account.credit += grant.each;
        let credit = vcpu.account.credit;
        if credit < 0 {
            vcpu.account.credit = credit.max(-most);
            self.settle_priority(e, Priority::Over);
            let least = match self.settings.parking {
                Parking::BelowCap => grant.park_below,
                Parking::InDebt => grant.park_below.map(|_| 0),
            };
            if least.is_some_and(|least| credit < least) && !self.vcpu(e).parked {
                self.park(e, cx);
            }
        } else {
            self.settle_priority(e, Priority::Under);
            if core::mem::take(&mut self.vcpu(e).parked) {
                self.unpark(e, cx);
            }
            if credit > most {
                self.vcpu(e).account.credit = match self.settings.overflow {
                    Overflow::Empty | Overflow::EmptyLate => 0,
                    Overflow::Halve => credit / 2,
                };
                self.domains.deactivate(e, self.vcpus[e.index()].domain);
                if self.settings.overflow == Overflow::EmptyLate {
                    return credit;
                }
            }
        }
        self.vcpus[e.index()].account.credit
    }

    /// Sets the priority of `e` to `to`, which follows from its account. A real-time entity keeps its priority, unless
    /// `lowers_real_time` is set.
    fn settle_priority(&mut self, e: EntityId, to: Priority) {
        if self.lowers_real_time || self.queues.priority(e) != Priority::RealTime {
            self.queues.set_priority(e, to);
        }
    }

    /// Parks `e` at once or at its next stop, as the setting `parking` states.
    fn park(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.vcpu(e).parked = true;
        self.queues.set_priority(e, Priority::Over);
        let at_once = self.settings.parking == Parking::BelowCap;
        // In 3.0.3, PARKED is a priority, and queue positions do not change: an entity that is queued ahead of the idle
        // vCPU still runs.
        if at_once || !(matches!(cx.state(e), State::Running(_)) || self.queues.queue_of(e).is_some()) {
            self.queues.remove(e);
            cx.hold(e, Held::Parked);
        }
    }

    /// Unparks `e` without a boost.
    fn unpark(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        cx.release(e, Held::Parked);
        let waits = cx.state(e) == State::Waiting && !self.is_about_to_be_queued(e);
        if !waits || self.queues.queue_of(e).is_some() {
            return;
        }
        if !self.settings.unparked_waits {
            return self.enqueue(e, cx);
        }
        let home = self.vcpus[e.index()].home;
        self.queues.insert(home, e);
        if self.idles(home) {
            self.cpus[home.index()].queued_while_idle = true;
        }
        // In 3.0.3, the idle vCPU has time slices, too, and a CPU searches for work at the end of each slice.
        let slice = self.settings.slice;
        let idlers = self.idlers.and(&cx.allowed(e));
        for cpu in idlers.iter() {
            if cx.alarm_at(idle_turn(cpu)).is_some() {
                continue;
            }
            let since = self.cpus[cpu.index()].idles_since;
            let turns = cx.now().since(since).as_ns() / slice.as_ns() + 1;
            cx.set_alarm(idle_turn(cpu), cpu, since + slice.saturating_mul(turns));
        }
    }
}
