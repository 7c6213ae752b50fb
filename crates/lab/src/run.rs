//! [`run`]: a scenario under a policy, from the first arrival to a [`Report`].

use crate::problem::{Problems, Wrong};
use crate::report::Report;
use crate::scenario::{EntitySpec, Scenario};
use crate::source::Span;
use sched::{Descriptor, EntityId, GroupId, Instant, Knobs, Nanos, Params, Refused};
use sim::meter::Meter;
use trace::Sink;

/// Somebody comes or goes. At one moment, whoever goes makes room for whoever comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Change {
    Leaves,
    Comes,
}

/// What a policy says it promised an entity, when it came. By entity of the scenario; `None` if it promises nothing.
type Grants = Vec<Option<Grant>>;

/// A slice in every period, as a policy shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// So much CPU time.
    pub slice: Nanos,
    /// In every period of this length. Above zero.
    pub period: Nanos,
}

/// Runs `scenario` under `policy` for its length, and shows everything that happens to `sinks`. `seed` is the run's
/// name among its like: equal seeds give equal runs.
///
/// # Errors
/// The policy does not work with these knobs on this machine, or refuses what somebody asks for; where the scenario
/// asks for it, as far as it came from a file.
pub fn run(
    scenario: &Scenario,
    policy: &'static Descriptor,
    knobs: &Knobs,
    seed: u64,
    sinks: &mut [&mut dyn Sink],
) -> Result<Report, Problems> {
    scenario.only_entities("a simulation of one level")?;
    let mut meter = Meter::new();
    let mut grants = vec![None; scenario.entities.len()];
    play(scenario, policy, knobs, &mut meter, sinks, &mut grants)?;
    Ok(Report::new(scenario, policy, knobs, seed, &meter, &grants))
}

fn play(
    scenario: &Scenario,
    policy: &Descriptor,
    knobs: &Knobs,
    meter: &mut Meter,
    sinks: &mut [&mut dyn Sink],
    grants: &mut Grants,
) -> Result<(), Problems> {
    let host = sim::Host::new(policy, scenario.host, knobs, scenario.costs);
    let mut host = host.map_err(|why| refused_policy(scenario, policy, &why))?;
    host.watch(meter);
    for sink in sinks.iter_mut() {
        host.watch(&mut **sink);
    }
    let groups = create_groups(scenario, &mut host)?;
    let end = Instant::ZERO + scenario.length;
    let mut ids: Vec<Option<EntityId>> = vec![None; scenario.entities.len()];
    for (at, change, index) in changes(&scenario.entities, end) {
        host.run_until(at);
        let asking = &scenario.entities[index];
        match change {
            Change::Leaves => host.detach(ids[index].expect("nobody leaves before coming")),
            Change::Comes => {
                let group = asking.group.map_or(GroupId::ROOT, |group| groups[group]);
                let params = Params { group, ..asking.params };
                let attached = host.attach(&asking.name, params, asking.workload);
                let id = attached.map_err(|why| scenario.refused(index, &why))?;
                ids[index] = Some(id);
                grants[index] = granted(&host, id);
            }
        }
    }
    host.finish(end);
    Ok(())
}

fn granted(host: &sim::Host<'_>, entity: EntityId) -> Option<Grant> {
    let shown = |name| Some(Nanos::ns(u64::try_from(host.machine().inspect(entity, name)?).ok()?));
    let grant = Grant { slice: shown("slice")?, period: shown("period")? };
    (!grant.period.is_zero()).then_some(grant)
}

fn create_groups(scenario: &Scenario, host: &mut sim::Host<'_>) -> Result<Vec<GroupId>, Problems> {
    let mut ids: Vec<GroupId> = Vec::with_capacity(scenario.groups.len());
    for group in &scenario.groups {
        let parent = group.parent.map_or(GroupId::ROOT, |parent| ids[parent]);
        let id = host.create_group(&group.name, group.params, parent).map_err(|why| {
            let place = (group.place != Span::default()).then_some(group.place);
            Wrong::from(&why).said_of(&group.name).anywhere(place).within(&scenario.source)
        })?;
        ids.push(id);
    }
    Ok(ids)
}

/// Who comes and goes before `end`, in the order in which it happens.
fn changes(entities: &[EntitySpec], end: Instant) -> Vec<(Instant, Change, usize)> {
    let mut changes = Vec::with_capacity(entities.len());
    for (index, entity) in entities.iter().enumerate() {
        if entity.arrival < end {
            changes.push((entity.arrival, Change::Comes, index));
        }
        if let Some(leaves) = entity.leaves.filter(|&leaves| leaves < end) {
            changes.push((leaves, Change::Leaves, index));
        }
    }
    changes.sort_unstable();
    changes
}

/// The policy cannot be had like this on this machine.
fn refused_policy(scenario: &Scenario, policy: &Descriptor, why: &Refused) -> Problems {
    let chosen = scenario.policy.as_ref().filter(|chosen| chosen.name == policy.name);
    let place = chosen.map(|chosen| chosen.place).filter(|&place| place != Span::default());
    let problem = Wrong::from(why).said_of(policy.name).anywhere(place);
    if place.is_some() { problem.within(&scenario.source).into() } else { problem.into() }
}
