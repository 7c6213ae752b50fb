//! [`Run::auditor`]: the auditor of a scenario's run, with the promises of its policy.

use crate::changes::boot_order;
use crate::choose::Choice;
use crate::run::Run;
use coordination::Boost;
use input::problem::Problems;
use scenario::{EntitySpec, Group, Scenario, Workload};
use sched::{Class, Instant, LoadBounds, Topology, Weight};
use sim::Costs;
use sim::auditor::{Delays, Promises, WorldAuditor};

impl Run {
    /// Returns an independent auditor of this run. The caller passes the auditor to the run as a
    /// [`WorldSink`](trace::WorldSink), then reads its findings. In guests, the auditor checks only laws that do not
    /// depend on the CPU time that the guests receive from their host.
    ///
    /// # Errors
    /// A guest's policy does not exist, lacks a knob that the scenario sets, or refuses the value of a knob.
    pub fn auditor(&self) -> Result<WorldAuditor, Problems> {
        let costs = self.scenario.costs;
        let choice = &self.choice;
        let late = costs.kick;
        let turn = costs.tick + costs.context_switch + costs.cache_refill + costs.exit + late;
        let of_host = |host: usize| {
            let mut own = Promises::of(&*choice.policy, &load(&self.scenario, host, choice), Delays { late, turn });
            let applications = self.scenario.applications.iter().any(|it| it.host == host);
            if applications || !self.scenario.host_threads(host).is_empty() {
                // A bound on starvation does not cover tasks of applications and device drivers, which start and end
                // during the run.
                own.starvation = None;
            }
            own
        };
        let mut auditor = WorldAuditor::new();
        let mut guests = boot_order(&self.scenario).into_iter().map(|guest| &self.scenario.guests[guest]);
        for (index, machine) in self.header()?.machines.into_iter().enumerate() {
            let is_host = index < self.scenario.hosts;
            let promised = if is_host { of_host(index) } else { Promises::NONE };
            let host = if is_host { self.scenario.host } else { Topology::new(machine.header.cpus) };
            // On the machine outside, scheduling has no cost.
            let costs = if machine.host.is_some() || is_host { costs } else { Costs::NONE };
            auditor.add(host, promised, &costs);
            let guest = machine.host.and_then(|_| guests.next());
            if let Some(coordination) = guest.and_then(|guest| guest.guest.coordination) {
                auditor.coordinates(coordination);
            }
        }
        Ok(auditor)
    }
}

/// Returns the load of host number `host`, such as its number of entities and its range of weights.
fn load<'a>(scenario: &'a Scenario, host: usize, choice: &'a Choice) -> LoadBounds<'a> {
    let on_it = || scenario.entities.iter().filter(move |it| it.host == host);
    let any = |is: fn(&EntitySpec) -> bool| on_it().any(is);
    let groups = || scenario.groups.iter().filter(move |it| it.host == host);
    let guests = || (0..scenario.guests.len()).filter(move |&it| scenario.host_of(it) == host);
    let threads = scenario.host_threads(host).len();
    let boosts = || guests().map(|it| &scenario.guests[it]).filter_map(|guest| Some(guest.guest.coordination?.boost));
    let limited = |group: &Group| group.params.cap_percent.is_some() || group.params.quota.is_some();
    let weights = || {
        let entities = on_it().map(|entity| entity.params.weight);
        let boosts = boosts().filter_map(|it| if let Boost::Weight(weight) = it { Some(weight) } else { None });
        let groups = groups().map(|group| group.params.weight);
        let threads = (0..threads).map(|_| Weight::default());
        entities.chain(groups).chain(boosts).chain(threads).map(|weight| weight.as_linux().into())
    };
    let depth = |mut group: Option<usize>| {
        let mut depth = 0;
        while let Some(at) = group {
            depth += 1;
            group = scenario.groups[at].parent;
        }
        depth
    };
    LoadBounds {
        host: &scenario.host,
        knobs: &choice.knobs,
        entities: (on_it().count() + threads) as u64,
        weight_least: weights().min().unwrap_or(1),
        weight_most: weights().max().unwrap_or(1),
        group_depth: on_it().map(|entity| depth(entity.group)).max().unwrap_or(0),
        has_gangs: groups().any(|group| group.params.gang),
        has_rt: any(|entity| entity.params.class.rt_priority().is_some() || entity.params.class == Class::Stop)
            || boosts().any(|boost| matches!(boost, Boost::Class { .. })),
        has_reservations: any(|entity| entity.params.reservation.is_some()),
        has_limits: groups().any(limited),
        has_changes: any(|entity| {
            entity.arrival > Instant::ZERO || entity.leaves.is_some() || !entity.changes.is_empty()
        }) || boosts().next().is_some(),
        has_sleepers: any(|entity| entity.workload != Workload::Hog)
            || scenario.applications.iter().any(|it| it.host == host)
            || threads > 0,
        has_affinity: on_it().any(|it| !scenario.host.all().minus(&it.params.affinity).is_empty()),
        warp_most: on_it().filter_map(|it| it.params.warp).map(|warp| warp.by).max().unwrap_or_default(),
    }
}
