//! Budgets of capped domains: a pool that is filled every quota period, the quotas of the members, and parking.

use super::Credit2;
use super::domain::Domain;
use crate::credit::domains::DomainId;
use sched::{Alarm, AlarmOwner, CpuId, Cx, EntityId, GroupId, Held, Instant, Nanos, State};

const fn filling(g: GroupId) -> Alarm {
    Alarm { owner: AlarmOwner::Group(g), slot: 0 }
}

impl Credit2 {
    pub(super) fn make_domain(&mut self, domain: DomainId) {
        if self.domains.len() <= domain.index() {
            let empty = Domain { weight: 1, cap: None, members: 0, pool: 0, next_fill: Instant::ZERO };
            self.domains.resize(domain.index() + 1, empty);
            self.parked.reserve_trees(domain.index() + 1);
        }
    }

    /// Returns the budget of a domain per quota period.
    fn per_period(&self, domain: DomainId) -> Nanos {
        let percent = self.domains[domain.index()].cap.unwrap_or(0);
        self.settings.cap_period.scale(u64::from(percent), 100)
    }

    /// Returns the maximum quota that a member takes from the pool at once.
    fn quota(&self, domain: DomainId) -> Nanos {
        let members = self.domains[domain.index()].members.max(1);
        self.per_period(domain).scale(1, members).max(self.settings.min_timer).min(self.settings.cap_period)
    }

    pub(super) fn is_capped(&self, e: EntityId) -> bool {
        self.domains[self.vcpus[e.index()].domain.index()].cap.is_some()
    }

    /// Returns whether `e` may run. If its quota is used up, `e` takes another quota or is parked.
    pub(super) fn has_budget(&mut self, e: EntityId, cx: &mut Cx<'_>) -> bool {
        if !self.is_capped(e) || self.vcpus[e.index()].budget > 0 {
            return true;
        }
        let domain = self.vcpus[e.index()].domain;
        let quota = self.quota(domain).as_ns().cast_signed();
        let record = &mut self.domains[domain.index()];
        // The overrun is charged to the pool.
        record.pool += self.vcpus[e.index()].budget;
        let taken = record.pool.clamp(0, quota);
        record.pool -= taken;
        self.vcpus[e.index()].budget = taken;
        if taken == 0 {
            self.park(e, cx);
        }
        taken > 0
    }

    fn park(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.waiting.remove(e);
        self.count_load(e, -1, cx);
        let last_first = u64::MAX - self.arrive();
        let vcpu = self.vcpu(e);
        vcpu.parked = true;
        let domain = vcpu.domain.index();
        self.parked.push(domain, last_first, e);
        cx.hold(e, Held::Parked);
    }

    /// Unparks all members of a domain.
    fn unpark_all(&mut self, domain: DomainId, cx: &mut Cx<'_>) {
        while let Some((_, e)) = self.parked.pop(domain.index()) {
            self.vcpu(e).parked = false;
            cx.release(e, Held::Parked);
            if cx.state(e) == State::Waiting {
                self.count_load(e, 1, cx);
                self.enqueue(e, cx);
            }
        }
    }

    /// Returns the rest of the quota of `e`, which has stopped, to the pool. If the pool then has budget, unparks all
    /// members.
    pub(super) fn return_budget(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Some(left) = self.is_capped(e).then(|| self.vcpus[e.index()].budget).filter(|&left| left > 0) else {
            return;
        };
        let domain = self.vcpus[e.index()].domain;
        self.vcpu(e).budget = 0;
        self.domains[domain.index()].pool += left;
        if self.domains[domain.index()].pool > 0 {
            self.unpark_all(domain, cx);
        }
    }

    /// Fills the pool of a group, once for each quota period that has passed.
    pub(super) fn fill(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        let domain = DomainId::of_group(g);
        let (now, period) = (cx.now(), self.settings.cap_period);
        let amount = self.per_period(domain).as_ns().cast_signed();
        let record = &mut self.domains[domain.index()];
        if record.cap.is_none() {
            return;
        }
        while record.next_fill <= now {
            record.next_fill += period;
            record.pool = (record.pool + amount).min(amount);
        }
        let (next, pool) = (record.next_fill, record.pool);
        if pool > 0 {
            self.unpark_all(domain, cx);
        }
        cx.set_alarm(filling(g), CpuId::default(), next);
    }

    /// Creates or updates the domain of a group. The running entities have just been charged.
    pub(super) fn change_domain(&mut self, g: GroupId, cx: &mut Cx<'_>) {
        let domain = DomainId::of_group(g);
        self.make_domain(domain);
        let params = *cx.group_params(g);
        let weight = u64::from(params.weight.as_linux());
        let record = &mut self.domains[domain.index()];
        let old = core::mem::replace(&mut record.cap, params.cap_percent);
        record.weight = weight;
        let amount = self.per_period(domain).as_ns().cast_signed();
        let members: Vec<EntityId> = cx.members(g).collect();
        for &e in &members {
            self.vcpu(e).weight = weight;
            self.vcpu(e).residual = 0;
        }
        for queue in 0..self.queues.len() {
            self.find_heaviest(queue);
        }
        match (old, params.cap_percent) {
            (None, Some(_)) => {
                let next = cx.now() + self.settings.cap_period;
                let record = &mut self.domains[domain.index()];
                (record.pool, record.next_fill) = (amount, next);
                cx.set_alarm(filling(g), CpuId::default(), next);
                for &e in &members {
                    self.vcpu(e).budget = 0;
                    self.check_budget(e, cx);
                }
            }
            (Some(_), Some(_)) => {
                let record = &mut self.domains[domain.index()];
                record.pool = record.pool.min(amount);
            }
            (Some(_), None) => {
                cx.clear_alarm(filling(g));
                self.unpark_all(domain, cx);
            }
            (None, None) => {}
        }
    }

    /// Kicks the CPU of `e` if `e` runs without budget.
    pub(super) fn check_budget(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if let State::Running(cpu) = cx.state(e)
            && self.is_capped(e)
            && self.vcpus[e.index()].budget <= 0
        {
            self.call(cpu, cx);
        }
    }

    /// Removes `e` from its domain, and adds its remaining quota or its debt to the pool. Returns whether `e` was
    /// parked.
    pub(super) fn leave_domain(&mut self, e: EntityId, cx: &mut Cx<'_>) -> bool {
        let was_parked = self.parked.remove(e);
        if core::mem::take(&mut self.vcpu(e).parked) {
            cx.release(e, Held::Parked);
        }
        let domain = self.vcpus[e.index()].domain;
        if self.is_capped(e) {
            let left = core::mem::take(&mut self.vcpu(e).budget);
            self.domains[domain.index()].pool += left;
            if left > 0 && self.domains[domain.index()].pool > 0 {
                self.unpark_all(domain, cx);
            }
        }
        self.domains[domain.index()].members -= 1;
        was_parked
    }
}
