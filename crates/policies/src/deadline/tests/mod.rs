//! Tests of the deadline class without other classes.

mod admission;
mod churn;
mod reclaiming;
mod rules;
mod theorems;

use super::POLICY;
use crate::fixture::{
    self, CPU, OTHER, at_ms as at, hog, host_with, pinned_to as pinned, run_through_ms as run_through, running,
};
use sched::{CpuSet, EntityId, Instant, Limit, Nanos, Params, Refused, Reservation, State, Wake};
use sim::{Costs, Driver, Workload};

/// Choice knobs with their words, and other knobs with their values.
type Settings<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, i64)]);

/// Plain CBS: no reclaiming, and every CPU may be reserved in full.
const PLAIN: Settings<'static> = (&[("reclaim", "off")], &[("rt-bandwidth", 100)]);

fn knobs((words, values): Settings<'_>) -> sched::Knobs {
    fixture::knobs(&POLICY, words, values)
}

fn host<'a>(cpus: usize, settings: Settings<'_>) -> Driver<'a> {
    host_with(&POLICY, sched::Topology::new(cpus), &knobs(settings))
}

/// Returns a hard reservation of `slice` in `period`, in milliseconds.
fn promise(slice: u64, period: u64) -> Reservation {
    Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::ms(slice), Nanos::ms(period)) }
}

fn due(slice: u64, deadline: u64, period: u64) -> Reservation {
    Reservation { deadline: Some(Nanos::ms(deadline)), ..promise(slice, period) }
}

fn with(reservation: Reservation) -> Params {
    Params { reservation: Some(reservation), ..Params::default() }
}

fn scripted(host: &mut Driver<'_>, reservation: Reservation) -> EntityId {
    fixture::scripted(host, with(reservation))
}

fn wake(host: &mut Driver<'_>, e: EntityId) {
    host.wake(e, Wake::Timer);
}

/// Returns the remaining slice and the deadline, in milliseconds.
fn account(host: &Driver<'_>, e: EntityId) -> (i64, i64) {
    let show = |name| host.machine().inspect(e, name).expect("it is shown") / 1_000_000;
    (show("remaining"), show("deadline"))
}

/// Returns the tasks on CPU 0, one letter for each millisecond from now on. A dot stands for another task or no task.
fn gantt(host: &mut Driver<'_>, names: &[(EntityId, char)], ms: u64) -> String {
    let mut letters = String::new();
    for _ in 0..ms {
        let middle = host.now() + Nanos::us(500);
        host.run_until(middle);
        let runs = running(host, CPU);
        letters.push(names.iter().find(|&&(e, _)| runs == Some(e)).map_or('.', |&(_, name)| name));
        let next = host.now() + Nanos::us(500);
        host.run_until(next);
    }
    letters
}
