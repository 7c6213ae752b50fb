//! [`auditor`]: the judge of a scenario's run, told what its policy promises.

use crate::choose::Choice;
use crate::scenario::{EntitySpec, Group, Scenario, Workload};
use sched::{Instant, Load};
use sim::{Auditor, Expected};

/// An independent judge of `scenario`'s run under `choice`: show it the run as a [`Sink`](trace::Sink), then ask for its
/// findings.
#[must_use]
pub fn auditor(scenario: &Scenario, choice: &Choice) -> Auditor {
    let load = load(scenario, choice);
    // A CPU may be called, find its work taken, and another be called.
    let late = scenario.costs.kick.saturating_mul(4);
    let all_default = choice.knobs.iter().all(|(knob, value)| knob.default == value);
    let starvation = (choice.policy.starvation)(&load);
    // A tick's and a switch's costs lengthen every turn of everybody.
    let costs = scenario.costs.tick + scenario.costs.context_switch + scenario.costs.cache_refill + late;
    let expected = Expected {
        conserving: (choice.policy.conserving)(&load),
        starvation: starvation.map(|bound| bound.saturating_add(costs.saturating_mul(4 * load.entities))),
        // How far an account may lag behind is known for the defaults.
        quotas: matches!(choice.policy.name, "cfs" | "linux") && all_default,
        caps: choice.policy.name == "credit" && all_default,
        late,
    };
    Auditor::new(scenario.host, expected)
}

fn load<'a>(scenario: &'a Scenario, choice: &'a Choice) -> Load<'a> {
    let any = |is: fn(&EntitySpec) -> bool| scenario.entities.iter().any(is);
    let limited = |group: &Group| group.params.cap_percent.is_some() || group.params.quota.is_some();
    let weights = || {
        let entities = scenario.entities.iter().map(|entity| entity.params.weight);
        entities.chain(scenario.groups.iter().map(|group| group.params.weight)).map(|weight| weight.as_linux().into())
    };
    let depth = |mut group: Option<usize>| {
        let mut depth = 0;
        while let Some(at) = group {
            depth += 1;
            group = scenario.groups[at].parent;
        }
        depth
    };
    Load {
        host: &scenario.host,
        knobs: &choice.knobs,
        entities: scenario.entities.len() as u64,
        weight_least: weights().min().unwrap_or(1),
        weight_most: weights().max().unwrap_or(1),
        group_depth: scenario.entities.iter().map(|entity| depth(entity.group)).max().unwrap_or(0),
        has_rt: any(|entity| entity.params.class.rt_priority().is_some()),
        has_limits: scenario.groups.iter().any(limited),
        has_changes: any(|entity| entity.arrival > Instant::ZERO || entity.leaves.is_some()),
        has_sleepers: any(|entity| entity.workload != Workload::Hog),
        has_affinity: scenario.entities.iter().any(|it| !scenario.host.all().minus(&it.params.affinity).is_empty()),
    }
}
