//! [`partition`]: assigns a CPU to each task of a task set, first fit by decreasing utilisation.

use crate::choose::Choice;
use input::problem::Problems;
use scenario::Scenario;
use sched::{Instant, Kicks, Machine, Nanos};
use std::cmp::Reverse;

/// Returns `scenario` with each entity pinned to the first CPU on which the policy admits it. Entities are tried by
/// decreasing utilisation; of equal entities, the earlier entity is tried first. The result keeps the order of the
/// entities, which breaks ties between deadlines.
///
/// # Errors
/// The policy admits an entity on no CPU.
pub fn partition(scenario: &Scenario, choice: &Choice) -> Result<Scenario, Problems> {
    let mut placed = scenario.clone();
    // A run reports the reason why a policy does not work with these knobs in more detail.
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

/// Returns the entities by decreasing utilisation; of equal entities, the earlier entity first. Entities without a
/// reservation are last.
fn by_utilisation(scenario: &Scenario) -> Vec<usize> {
    let reserved = |index: usize| {
        let reservation = scenario.entities[index].params.reservation;
        reservation.map_or((Nanos::ZERO, Nanos::ns(1)), |reservation| (reservation.slice, reservation.period))
    };
    let mut order: Vec<usize> = (0..scenario.entities.len()).collect();
    // Compares a/b > c/d in whole numbers.
    let product = |a: Nanos, b: Nanos| u128::from(a.as_ns()) * u128::from(b.as_ns());
    order.sort_by(|&a, &b| {
        let ((slice_a, period_a), (slice_b, period_b)) = (reserved(a), reserved(b));
        Reverse(product(slice_a, period_b)).cmp(&Reverse(product(slice_b, period_a))).then(a.cmp(&b))
    });
    order
}
