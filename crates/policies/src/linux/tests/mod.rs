//! The composition: who is asked first, and who goes from one class to the other.

mod churn;
mod classes;
mod deadlines;
mod servers;

use super::POLICY;
use sched::{
    Class, CpuId, CpuSet, EntityId, GroupId, GroupParams, Instant, Limit, Nanos, Params, Quota, Refused, Reservation,
    RtPriority, State, Wake, Weight,
};
use sim::{Costs, Driver, Periodic, Workload};

const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

fn host_with<'a>(cpus: usize, knobs: &[(&str, i64)], costs: Costs) -> Driver<'a> {
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of linux");
    }
    Driver::new(&POLICY, sched::Topology::new(cpus), &values, costs).expect("linux works everywhere")
}

fn host<'a>(cpus: usize) -> Driver<'a> {
    host_with(cpus, &[], Costs::NONE)
}

fn at(ms: u64) -> Instant {
    Instant::at_ns(Nanos::ms(ms).as_ns())
}

fn of(class: Class) -> Params {
    Params { class, ..Params::default() }
}

fn number(priority: u8) -> RtPriority {
    RtPriority::new(priority).expect("1 to 99")
}

fn fifo(priority: u8) -> Params {
    of(Class::Fifo(number(priority)))
}

fn round_robin(priority: u8) -> Params {
    of(Class::RoundRobin(number(priority)))
}

/// A hard reservation, in milliseconds.
fn reserved(slice: u64, period: u64) -> Params {
    let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::ms(slice), Nanos::ms(period)) };
    Params { reservation: Some(reservation), ..Params::default() }
}

fn nice(nice: i32) -> Params {
    Params { weight: Weight::nice(nice).expect("-20 to 19"), ..Params::default() }
}

fn pinned(params: Params, cpu: CpuId) -> Params {
    Params { affinity: CpuSet::one(cpu), ..params }
}

fn hog(host: &mut Driver<'_>, params: Params) -> EntityId {
    host.attach("hog", params, Workload::Hog).expect("accepted")
}

fn scripted(host: &mut Driver<'_>, params: Params) -> EntityId {
    host.attach("scripted", params, Workload::Scripted).expect("accepted")
}

fn periodic(host: &mut Driver<'_>, params: Params, period: Nanos, work: Nanos) -> EntityId {
    host.attach("periodic", params, Workload::Periodic(Periodic::new(period, work))).expect("accepted")
}

/// Lets everything up to `ms` happen, and what is at `ms` or now, too.
fn run_through(host: &mut Driver<'_>, ms: u64) {
    host.run_until(at(ms).max(host.now()) + Nanos::ns(1));
}

fn running(host: &Driver<'_>, cpu: CpuId) -> Option<EntityId> {
    host.machine().running(cpu)
}

fn used(host: &mut Driver<'_>, e: EntityId) -> Nanos {
    if matches!(host.machine().state(e), State::Running(_)) {
        // A change of nothing charges who runs.
        let params = *host.machine().params(e);
        host.adjust(e, params).expect("nothing changes");
    }
    host.machine().charged(e)
}

fn wake(host: &mut Driver<'_>, e: EntityId) {
    host.wake(e, Wake::Interrupt);
}

fn assert_near(got: Nanos, due: Nanos, bound: Nanos) {
    let off = got.saturating_sub(due).max(due.saturating_sub(got));
    assert!(off <= bound, "{got} of {due}, off by {off}");
}
