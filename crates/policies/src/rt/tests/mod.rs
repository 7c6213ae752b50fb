//! The real-time classes alone on a machine.

mod churn;
mod lists;
mod throttling;

use super::{ALARMS, KNOBS, Rt};
use sched::{
    Class, Conserving, CpuId, CpuSet, Descriptor, EntityId, Instant, Keeps, Knob, Nanos, Params, Policy, Refused,
    RtPriority, State, Wake,
};
use sim::{Costs, Host, Workload};

const ALONE: Descriptor = Descriptor {
    name: "rt",
    title: "the real-time classes alone",
    source: "sched(7)",
    good_for: "tests",
    bad_at: "anything else",
    text: "",
    conserving: |_| Conserving::Global { slack: Nanos::ZERO },
    starvation: |_| None,
    keeps: Keeps::NOTHING,
    alarms: ALARMS,
    knobs: &ALL_KNOBS,
    build: |host, knobs| Ok(Box::new(Rt::new(host, knobs)) as Box<dyn Policy>),
};

const ALL_KNOBS: [Knob; 5] = [KNOBS[0], KNOBS[1], KNOBS[2], KNOBS[3], TICK];

const TICK: Knob = Knob::time("tick", Nanos::ms(1), (Nanos::us(100), Nanos::ms(100)), "the time between two ticks");

const CPU: CpuId = CpuId::new(0);
const OTHER: CpuId = CpuId::new(1);

fn host_with<'a>(cpus: usize, knobs: &[(&str, i64)]) -> Host<'a> {
    let mut values = ALONE.defaults();
    for &(name, value) in knobs {
        values.set(name, value).expect("a knob of rt");
    }
    Host::new(&ALONE, sched::Host::new(cpus), &values, Costs::NONE).expect("rt works everywhere")
}

/// Without throttling.
fn host<'a>(cpus: usize) -> Host<'a> {
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

fn hog(host: &mut Host<'_>, params: Params) -> EntityId {
    host.attach("hog", params, Workload::Hog).expect("accepted")
}

fn scripted(host: &mut Host<'_>, params: Params) -> EntityId {
    host.attach("scripted", params, Workload::Scripted).expect("accepted")
}

/// Lets everything up to `ms` happen, and what is at `ms` or now, too.
fn run_through(host: &mut Host<'_>, ms: u64) {
    host.run_until(at(ms).max(host.now()) + Nanos::ns(1));
}

fn running(host: &Host<'_>, cpu: CpuId) -> Option<EntityId> {
    host.machine().running(cpu)
}

fn used(host: &mut Host<'_>, e: EntityId) -> Nanos {
    if matches!(host.machine().state(e), State::Running(_)) {
        // A change of nothing charges who runs.
        let params = *host.machine().params(e);
        host.adjust(e, params).expect("nothing changes");
    }
    host.machine().charged(e)
}

fn wake(host: &mut Host<'_>, e: EntityId) {
    host.wake(e, Wake::Interrupt);
}

#[test]
fn only_real_time_entities_are_taken_and_the_refusal_says_so() {
    let mut host = host(1);
    let refused = host.attach("fair", Params::default(), Workload::Hog).expect_err("it is not real-time");
    assert!(matches!(refused, Refused::Unsupported(reason) if reason.contains("fifo or rr")));
    let e = hog(&mut host, fifo(1));
    assert!(host.adjust(e, Params::default()).is_err(), "nor may it stop being so");
    run_through(&mut host, 5);
    assert_eq!((running(&host, CPU), host.machine().inspect(e, "rt-priority")), (Some(e), Some(1)));
}
