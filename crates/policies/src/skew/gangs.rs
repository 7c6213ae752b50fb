//! [`Gangs`]: the vCPUs of each VM, and the skew between them.
//!
//! Skews are updated when the state of a vCPU changes. Between two changes, skews are linear in time, so the next
//! crossing of a threshold is known in advance.

use sched::{CpuId, EntityId, GroupId, Instant, Nanos};

/// The definition of skew, and the reaction to skew at the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// A vCPU that waits while a sibling makes progress lags. At the threshold, all vCPUs stop, and later start
    /// together (ESX 2).
    All,
    /// A vCPU that waits while a sibling makes progress lags. At the threshold, all vCPUs stop, but only lagging vCPUs
    /// must start at the same instant (ESX 3).
    Lagging,
    /// A vCPU leads if it has made more progress than the slowest vCPU. At the threshold, only the leading vCPU stops
    /// (ESX 4 and later).
    Leader,
}

/// The state of a vCPU, as observed by its siblings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// The guest has no work for the vCPU. An idle vCPU counts as making progress.
    Idle,
    /// The vCPU is runnable and waits for a CPU, or is co-stopped.
    Waits,
    Runs,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Vcpu {
    pub(super) doing: Doing,
    pub(super) vm: Option<GroupId>,
    /// Whether the vCPU is co-stopped.
    pub(super) held: bool,
    /// Lag of the vCPU; under [`Rule::Leader`], lead of the vCPU.
    pub(super) skew: Nanos,
    /// Whether the vCPU lagged by half the threshold or more when its VM was last stopped.
    pub(super) lags: bool,
    /// CPU that is reserved for the vCPU, if its VM has just been started.
    pub(super) seat: Option<CpuId>,
}

const FRESH: Vcpu = Vcpu { doing: Doing::Idle, vm: None, held: false, skew: Nanos::ZERO, lags: false, seat: None };

impl Vcpu {
    fn makes_progress(&self) -> bool {
        self.doing != Doing::Waits
    }

    /// Returns whether the vCPU waits and no CPU is reserved for it. A co-stopped vCPU does not wait.
    fn loses(&self) -> bool {
        self.doing == Doing::Waits && !self.held && self.seat.is_none()
    }
}

/// The state of one VM.
#[derive(Clone, Debug)]
struct Vm {
    members: Vec<EntityId>,
    /// Whether the VM is co-stopped as a whole.
    stopped: bool,
    /// Instant of the last update of the skews.
    as_of: Instant,
}

/// The gangs; see the module documentation.
#[derive(Debug)]
pub(super) struct Gangs {
    pub(super) rule: Rule,
    /// Skew at which a VM or its leading vCPU is stopped.
    pub(super) threshold: Nanos,
    /// Lead at which a stopped leader resumes.
    pub(super) resume: Nanos,
    /// State of each vCPU, by entity index.
    vcpus: Vec<Vcpu>,
    /// State of each VM, by group index; unused unless the group is a gang.
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
        // If `e` was the slowest vCPU, the skews of the others change.
        self.advance(g, now);
    }

    /// Updates the skews of `g` up to `now`.
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

    fn any_progresses(&self, members: &[EntityId]) -> bool {
        members.iter().any(|e| self.vcpus[e.index()].makes_progress())
    }

    fn count_lags(&mut self, members: &[EntityId], passed: Nanos) {
        let progress = self.any_progresses(members);
        for e in members {
            let vcpu = &mut self.vcpus[e.index()];
            if vcpu.makes_progress() {
                vcpu.skew = vcpu.skew.saturating_sub(passed);
            } else if vcpu.loses() && progress {
                vcpu.skew = vcpu.skew.saturating_add(passed);
            }
        }
    }

    /// Updates the leads. The lead of the slowest vCPU is zero. The lead of each other vCPU is its progress beyond that
    /// of the slowest vCPU. Idling raises a lead at most to `resume`, because no sibling could catch up with a vCPU
    /// that idles for long.
    fn count_leads(&mut self, members: &[EntityId], passed: Nanos) {
        let moved = |vcpu: &Vcpu| if vcpu.makes_progress() { vcpu.skew.saturating_add(passed) } else { vcpu.skew };
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

    /// Returns the next instant at which a vCPU in `g` crosses a threshold, if no state changes. The skews must be up
    /// to date.
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
        if !self.any_progresses(members) {
            return None;
        }
        let losing = members.iter().map(|&e| self.of(e)).filter(Vcpu::loses);
        losing.map(|vcpu| self.threshold.saturating_sub(vcpu.skew)).min()
    }

    fn next_lead(&self, members: &[EntityId]) -> Option<Nanos> {
        let slowest = |makes_progress| {
            let those = members.iter().map(|&e| self.of(e)).filter(move |vcpu| vcpu.makes_progress() == makes_progress);
            those.map(|vcpu| vcpu.skew).min()
        };
        let (moving, standing) = (slowest(true), slowest(false));
        let crossing = |vcpu: Vcpu| match vcpu.doing {
            // The lead of this vCPU grows if the slowest vCPU makes no progress.
            Doing::Runs if !vcpu.held => {
                standing.map(|standing| (standing.saturating_add(self.threshold)).saturating_sub(vcpu.skew))
            }
            // The lead of this vCPU shrinks if the slowest vCPU makes progress.
            Doing::Waits if vcpu.held => {
                let wanted = vcpu.skew.saturating_sub(self.resume);
                let reachable = standing.is_none_or(|standing| standing >= wanted);
                reachable.then(|| moving.map_or(Nanos::ZERO, |moving| wanted.saturating_sub(moving)))
            }
            _ => None,
        };
        members.iter().filter_map(|&e| crossing(self.of(e))).min()
    }

    /// Returns whether the lag of a waiting vCPU in `g` has reached the threshold. The skews must be up to date.
    pub(super) fn lags(&self, g: GroupId) -> bool {
        self.members(g).iter().map(|&e| self.of(e)).any(|vcpu| vcpu.loses() && vcpu.skew >= self.threshold)
    }

    /// Returns the vCPUs that must run at the instant at which the stopped `g` is started.
    pub(super) fn must_start(&self, g: GroupId) -> impl Iterator<Item = EntityId> + '_ {
        let must = |vcpu: Vcpu| vcpu.doing != Doing::Idle && (self.rule == Rule::All || vcpu.lags);
        self.members(g).iter().copied().filter(move |&e| must(self.of(e)))
    }
}
