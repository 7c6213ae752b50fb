//! [`partition`]: assigns a CPU to each task of a task set, by first fit in order of decreasing utilisation.

use crate::choose::Choice;
use input::problem::Problems;
use scenario::Scenario;
use sched::{Instant, Kicks, Machine, Nanos};
use std::cmp::Reverse;

/// Returns `scenario` with each entity pinned to the first CPU on which the policy admits it. Entities are placed in
/// order of decreasing utilisation. Of entities with equal utilisation, the earlier entity in the scenario is placed
/// first. The entities of the result have the same order as in `scenario`, because this order breaks ties between
/// deadlines.
///
/// # Errors
/// The policy does not admit an entity on any CPU.
pub fn partition(scenario: &Scenario, choice: &Choice) -> Result<Scenario, Problems> {
    let mut placed = scenario.clone();
    // If the policy rejects its knobs or the machine, the run reports a more detailed error.
    let Ok(mut machine) = Machine::build(&*choice.policy, scenario.host, &choice.knobs, Kicks::Immediate) else {
        return Ok(placed);
    };
    for index in by_utilisation(scenario) {
        let params = scenario.entities[index].params;
        let entity = machine.attach(Instant::ZERO, params).map_err(|why| scenario.refused(index, &why))?;
        placed.entities[index].params.affinity = machine.allowed(entity);
    }
    Ok(placed)
}

/// Returns the indices of the entities in order of decreasing utilisation. Entities with equal utilisation keep their
/// order. Entities without a reservation are last.
fn by_utilisation(scenario: &Scenario) -> Vec<usize> {
    let reserved = |index: usize| {
        let reservation = scenario.entities[index].params.reservation;
        reservation.map_or((Nanos::ZERO, Nanos::ns(1)), |reservation| (reservation.slice, reservation.period))
    };
    let mut order: Vec<usize> = (0..scenario.entities.len()).collect();
    // Compares a/b with c/d in integers: a·d with c·b.
    let product = |a: Nanos, b: Nanos| u128::from(a.as_ns()) * u128::from(b.as_ns());
    order.sort_by(|&a, &b| {
        let ((slice_a, period_a), (slice_b, period_b)) = (reserved(a), reserved(b));
        Reverse(product(slice_a, period_b)).cmp(&Reverse(product(slice_b, period_a))).then(a.cmp(&b))
    });
    order
}
