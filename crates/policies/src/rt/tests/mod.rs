//! The real-time classes alone on a machine.

mod churn;
mod lists;
mod throttling;

use super::POLICY;
use sched::{Class, CpuId, CpuSet, EntityId, Instant, Nanos, Params, RtPriority, State, Wake};
use sim::{Costs, Driver, Workload};

const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

fn host_with<'a>(cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    let mut values = POLICY.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of rt");
    }
    Driver::new(&POLICY, sched::Topology::new(cpus), &values, Costs::NONE).expect("rt works everywhere")
}

/// Without throttling.
fn host<'a>(cpus: usize) -> Driver<'a> {
    host_with(cpus, &[("rt-throttling", 0)])
}

fn at(ms: u64) -> Instant {
    Instant::at_ns(Nanos::ms(ms).as_ns())
}

fn number(priority: u8) -> RtPriority {
    RtPriority::new(priority).expect("1 to 99")
}

fn fifo(priority: u8) -> Params {
    Params { class: Class::Fifo(number(priority)), ..Params::default() }
}

fn round_robin(priority: u8) -> Params {
    Params { class: Class::RoundRobin(number(priority)), ..Params::default() }
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

#[test]
fn who_has_no_priority_takes_turns_below() {
    let mut host = host(1);
    let turns = [(), (), ()].map(|()| hog(&mut host, Params::default()));
    host.run_until(at(300));
    assert_eq!(turns.map(|e| used(&mut host, e)), [Nanos::ms(100); 3]);
    let urgent = hog(&mut host, fifo(1));
    run_through(&mut host, 400);
    assert_eq!((running(&host, CPU), host.machine().inspect(urgent, "rt-priority")), (Some(urgent), Some(1)));
    // And who ceases to have one goes on below.
    host.adjust(urgent, Params::default()).expect("accepted");
    host.run_until(at(800));
    assert_eq!(turns.map(|e| used(&mut host, e)), [Nanos::ms(200); 3]);
}

#[test]
fn turns_below_can_be_tuned() {
    let mut host = host_with(1, &[("quantum", 30_000_000)]);
    let [a, b] = [(), ()].map(|()| hog(&mut host, Params::default()));
    run_through(&mut host, 29);
    assert_eq!(running(&host, CPU), Some(a));
    run_through(&mut host, 30);
    assert_eq!(running(&host, CPU), Some(b));
}
