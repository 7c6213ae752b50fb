//! Checks that the policies of the host and of a guest support the guest's coordination. The checks run the policies on
//! a small machine, so this module needs no list of suitable policies.

use crate::choose::Choice;
use coordination::{Boost, Coordination, Rule};
use input::problem::{Problems, Wrong, quoted};
use scenario::{GuestSpec, Scenario};
use sched::{Class, CpuId, Input, Instant, Kicks, Knobs, Machine, Params, PolicySource, Topology, Wake};

/// Checks that the host's policy applies the boosts of `guest`, and that the guest's policy maintains the data that the
/// guest's detector needs.
///
/// # Errors
/// One of the policies does not support the coordination. The problem has the location of the setting and a remedy.
pub(crate) fn coordination(
    scenario: &Scenario,
    guest: &GuestSpec,
    host: &Choice,
    within: &Choice,
) -> Result<(), Problems> {
    let Some(Coordination { boost, detector, .. }) = guest.guest.coordination else { return Ok(()) };
    let at = guest.coordination_places;
    let wrong = if !takes(&*host.policy, &host.knobs, boost) {
        let message = format!("the host's policy, {}, has no real-time classes", quoted(host.name()));
        let help =
            "use a boost of weight, such as \"nice:-20\", or a host under a policy with classes, such as `linux`";
        Some((Wrong::new(message, "no such class there", help), at.boost))
    } else {
        let cpus = Topology::new(guest.vcpus.len());
        missing(within, cpus, detector).map(|missing| {
            let message = format!("the guest's policy, {}, keeps no {missing}", quoted(within.name()));
            let own = Rule::ALL.iter().find(|(_, rule)| *rule == detector).map_or("", |(name, _)| name);
            let help = format!(
                "use a guest under a policy that does, such as `{own}`, or a detector that needs nothing of its \
                 policy, such as \"ewma\""
            );
            (Wrong::new(message, "needs a guest's policy that keeps it", help), at.detector)
        })
    };
    match wrong {
        None => Ok(()),
        Some((wrong, at)) => Err(wrong.said_of(&guest.name).anywhere(at.known()).within(&scenario.source).into()),
    }
}

/// Returns the data that `detector` needs and the guest's policy lacks.
fn missing(choice: &Choice, cpus: Topology, detector: Rule) -> Option<&'static str> {
    // If the policy rejects its knobs or the machine, the boot of the guest reports the error.
    let mut machine = Machine::build(&*choice.policy, cpus, &choice.knobs, Kicks::Immediate).ok()?;
    let task = machine.attach(Instant::ZERO, Params::default()).ok()?;
    detector.lacks(machine.position(task))
}

/// Returns whether this boost lets a waiting entity take the CPU from an ordinary entity under `policy`, and keep the
/// CPU. Also returns true for boosts of weight, and for policies that cannot be tested.
fn takes(policy: &dyn PolicySource, knobs: &Knobs, boost: Boost) -> bool {
    matches!(boost, Boost::Weight(_)) || gets_the_cpu(policy, knobs, boost.over(Params::default())).unwrap_or(true)
}

/// Returns whether a waiting entity that changes to `params` takes the CPU from an ordinary entity. The waiting entity
/// must also keep the CPU after the ordinary entity changes to SCHED_BATCH. `None`: the policy cannot be tested.
fn gets_the_cpu(policy: &dyn PolicySource, knobs: &Knobs, params: Params) -> Option<bool> {
    let (cpu, now) = (CpuId::new(0), Instant::ZERO);
    let mut machine = Machine::build(policy, Topology::new(1), knobs, Kicks::Immediate).ok()?;
    let [first, second] = [(); 2].map(|()| machine.attach(now, Params::default()));
    let (first, second) = (first.ok()?, second.ok()?);
    for entity in [first, second] {
        machine.input(now, Input::Wake { entity, why: Wake::New { parent: None } });
        machine.settle(now);
    }
    let ran = machine.running(cpu)?;
    let waits = if ran == first { second } else { first };
    let ordinary = Params { class: Class::Batch, ..Params::default() };
    for (entity, params) in [(waits, params), (ran, ordinary)] {
        let granted = machine.adjust(now, entity, params).is_ok();
        machine.settle(now);
        if machine.running(cpu) != Some(waits) || (entity == waits && !granted) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::RtPriority;

    #[test]
    fn policies_with_real_time_classes_are_told_from_those_without() {
        let boost = Boost::Class { round_robin: true, priority: RtPriority::new(8).unwrap() };
        let taking: Vec<&str> = policies::ALL
            .iter()
            .filter(|policy| takes(**policy, &policy.defaults(), boost))
            .map(|policy| policy.name)
            .collect();
        assert_eq!(taking, ["bfs", "bmq", "linux", "muqss", "pds", "rt"]);
    }
}
