//! [`Gangs`]: which vCPUs belong together, and how far they have drifted apart.
//!
//! All is counted when somebody's state changes, and between two changes everything is linear: so it is known when a
//! threshold will be crossed.

use sched::{CpuId, EntityId, GroupId, Instant, Nanos};

/// What drifting apart is, and what is done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Who waits while a sibling gets on falls behind; then all stop, and start together (ESX 2).
    All,
    /// The same, but only who has fallen behind must be started at one time (ESX 3).
    Lagging,
    /// Who is ahead of the slowest stops by itself (ESX 4 and later).
    Leader,
}

/// What a vCPU does, as far as its siblings are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// Its guest has nothing for it to do: that is as good as running.
    Idle,
    /// It is kept from running, by others or by being stopped.
    Waits,
    Runs,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Vcpu {
    pub(super) doing: Doing,
    pub(super) vm: Option<GroupId>,
    /// Whether it is co-stopped.
    pub(super) held: bool,
    /// How far it lags, or for [`Rule::Leader`] leads.
    pub(super) skew: Nanos,
    /// Whether it lagged by half the threshold or more when its VM was stopped.
    pub(super) lags: bool,
    /// The CPU that is called for it, where its VM has just been started.
    pub(super) seat: Option<CpuId>,
}

const FRESH: Vcpu = Vcpu { doing: Doing::Idle, vm: None, held: false, skew: Nanos::ZERO, lags: false, seat: None };

impl Vcpu {
    fn gets_on(&self) -> bool {
        self.doing != Doing::Waits
    }

    /// Whether it loses time to somebody outside its VM.
    fn loses(&self) -> bool {
        self.doing == Doing::Waits && !self.held && self.seat.is_none()
    }
}

/// What is known of one VM.
#[derive(Clone, Debug)]
struct Vm {
    members: Vec<EntityId>,
    /// Whether it is co-stopped as a whole.
    stopped: bool,
    /// Until when the skews are counted.
    as_of: Instant,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Gangs {
    pub(super) rule: Rule,
    /// The skew at which something is done.
    pub(super) threshold: Nanos,
    /// The lead at which a stopped leader goes on.
    pub(super) resume: Nanos,
    /// By entity.
    vcpus: Vec<Vcpu>,
    /// By group; of use only while it is a gang.
    vms: Vec<Vm>,
}

impl Gangs {
    pub(super) fn new(rule: Rule, threshold: Nanos, resume: Nanos) -> Gangs {
        Gangs { rule, threshold, resume, vcpus: Vec::new(), vms: Vec::new() }
    }

    pub(super) fn reserve(&mut self, e: EntityId) {
        if self.vcpus.len() <= e.index() {
            self.vcpus.resize(e.index() + 1, FRESH);
        }
        self.vcpus[e.index()] = FRESH;
    }

    pub(super) fn reserve_vm(&mut self, g: GroupId) {
        let fresh = Vm { members: Vec::new(), stopped: false, as_of: Instant::ZERO };
        if self.vms.len() <= g.index() {
            self.vms.resize(g.index() + 1, fresh.clone());
        }
        self.vms[g.index()] = fresh;
    }

    pub(super) fn of(&self, e: EntityId) -> Vcpu {
        self.vcpus[e.index()]
    }

    pub(super) fn vcpu(&mut self, e: EntityId) -> &mut Vcpu {
        &mut self.vcpus[e.index()]
    }

    pub(super) fn members(&self, g: GroupId) -> &[EntityId] {
        &self.vms[g.index()].members
    }

    pub(super) fn is_stopped(&self, g: GroupId) -> bool {
        self.vms[g.index()].stopped
    }

    pub(super) fn set_stopped(&mut self, g: GroupId, stopped: bool) {
        self.vms[g.index()].stopped = stopped;
    }

    pub(super) fn join(&mut self, e: EntityId, g: GroupId, now: Instant) {
        self.advance(g, now);
        self.vms[g.index()].members.push(e);
        let vcpu = self.vcpu(e);
        (vcpu.vm, vcpu.skew, vcpu.lags) = (Some(g), Nanos::ZERO, false);
    }

    pub(super) fn leave(&mut self, e: EntityId, g: GroupId, now: Instant) {
        self.advance(g, now);
        self.vms[g.index()].members.retain(|&other| other != e);
        let vcpu = self.vcpu(e);
        (vcpu.vm, vcpu.skew, vcpu.lags) = (None, Nanos::ZERO, false);
        // It may have been the slowest.
        self.advance(g, now);
    }

    /// Counts what has been so in `g` until now.
    pub(super) fn advance(&mut self, g: GroupId, now: Instant) {
        let vm = &mut self.vms[g.index()];
        let passed = now.saturating_since(vm.as_of);
        vm.as_of = now;
        let members = core::mem::take(&mut vm.members);
        match self.rule {
            Rule::All | Rule::Lagging => self.count_lags(&members, passed),
            Rule::Leader => self.count_leads(&members, passed),
        }
        self.vms[g.index()].members = members;
    }

    fn somebody_gets_on(&self, members: &[EntityId]) -> bool {
        members.iter().any(|e| self.vcpus[e.index()].gets_on())
    }

    fn count_lags(&mut self, members: &[EntityId], passed: Nanos) {
        let somebody = self.somebody_gets_on(members);
        for e in members {
            let vcpu = &mut self.vcpus[e.index()];
            if vcpu.gets_on() {
                vcpu.skew = vcpu.skew.saturating_sub(passed);
            } else if vcpu.loses() && somebody {
                vcpu.skew = vcpu.skew.saturating_add(passed);
            }
        }
    }

    /// The slowest leads by nothing; everybody else by what it has got on further. Who idles gets no further ahead than would let it
    /// go on: nobody can catch up with an idle one that its guest leaves alone for long.
    fn count_leads(&mut self, members: &[EntityId], passed: Nanos) {
        let moved = |vcpu: &Vcpu| if vcpu.gets_on() { vcpu.skew.saturating_add(passed) } else { vcpu.skew };
        let slowest = members.iter().map(|e| moved(&self.vcpus[e.index()])).min().unwrap_or_default();
        for e in members {
            let vcpu = &mut self.vcpus[e.index()];
            let mut to = moved(vcpu);
            if vcpu.doing == Doing::Idle {
                to = to.min(vcpu.skew.max(slowest.saturating_add(self.resume)));
            }
            vcpu.skew = to.saturating_sub(slowest);
        }
    }

    /// When somebody in `g` crosses a threshold next, if all goes on as it is. Skews are counted until now.
    pub(super) fn next_crossing(&self, g: GroupId) -> Option<Instant> {
        let Vm { members, stopped, as_of } = &self.vms[g.index()];
        if *stopped {
            return None;
        }
        let ahead = match self.rule {
            Rule::All | Rule::Lagging => self.next_lag(members),
            Rule::Leader => self.next_lead(members),
        }?;
        Some(as_of.saturating_add(ahead.max(Nanos::ns(1))))
    }

    fn next_lag(&self, members: &[EntityId]) -> Option<Nanos> {
        if !self.somebody_gets_on(members) {
            return None;
        }
        let losing = members.iter().map(|&e| self.of(e)).filter(Vcpu::loses);
        losing.map(|vcpu| self.threshold.saturating_sub(vcpu.skew)).min()
    }

    fn next_lead(&self, members: &[EntityId]) -> Option<Nanos> {
        let slowest = |gets_on| {
            let those = members.iter().map(|&e| self.of(e)).filter(move |vcpu| vcpu.gets_on() == gets_on);
            those.map(|vcpu| vcpu.skew).min()
        };
        let (moving, standing) = (slowest(true), slowest(false));
        let crossing = |vcpu: Vcpu| match vcpu.doing {
            // It moves away from the slowest that stands.
            Doing::Runs if !vcpu.held => {
                standing.map(|standing| (standing.saturating_add(self.threshold)).saturating_sub(vcpu.skew))
            }
            // The slowest comes nearer, if it moves.
            Doing::Waits if vcpu.held => {
                let wanted = vcpu.skew.saturating_sub(self.resume);
                let reachable = standing.is_none_or(|standing| standing >= wanted);
                reachable.then(|| moving.map_or(Nanos::ZERO, |moving| wanted.saturating_sub(moving)))
            }
            _ => None,
        };
        members.iter().filter_map(|&e| crossing(self.of(e))).min()
    }

    /// Whether somebody in `g` lags too far. Skews are counted until now.
    pub(super) fn lags(&self, g: GroupId) -> bool {
        self.members(g).iter().map(|&e| self.of(e)).any(|vcpu| vcpu.loses() && vcpu.skew >= self.threshold)
    }

    /// Who must run at the moment at which `g`, which is stopped, is started.
    pub(super) fn must_start(&self, g: GroupId) -> impl Iterator<Item = EntityId> + '_ {
        let must = |vcpu: Vcpu| vcpu.doing != Doing::Idle && (self.rule == Rule::All || vcpu.lags);
        self.members(g).iter().copied().filter(move |&e| must(self.of(e)))
    }
}
