//! The port on a host of the simulator.

use crate::program::{Program, Rival};
use measure::Meter;
use port::PortSource;
use sched::{Instant, Knobs, Nanos, Params, Reservation, Topology};
use sim::{Costs, Driver, Periodic, Workload};

const RIVAL: Rival = Rival {
    name: "a new period does not preempt",
    file: "periods.h",
    from: "	if (has_moved)\n		scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);\n",
    to: "	if (has_moved)\n		;\n",
};

/// Runs three promised threads beside hogs on two CPUs. Returns the judged and the missed periods of the first one.
fn run(program: &Program) -> (u64, u64) {
    let source = PortSource::new(&port::EDF, program.path().to_owned());
    let mut meter = Meter::new();
    let mut host = Driver::new(&source, Topology::new(2), &Knobs::default(), Costs::NONE).unwrap();
    host.watch(&mut meter);
    let mut attach = |name: &str, promise: Option<(u64, u64)>, workload: Workload| {
        let reservation = promise.map(|(slice, period)| Reservation::new(Nanos::ms(slice), Nanos::ms(period)));
        // The hogs come first: a port takes promises until its first decision.
        host.attach(name, Params { reservation, ..Params::default() }, workload).unwrap();
    };
    attach("hog", None, Workload::Hog);
    attach("promised", Some((3, 10)), Workload::Hog);
    attach("other", Some((20, 50)), Workload::Hog);
    attach("jobs", Some((2, 7)), Workload::Periodic(Periodic::new(Nanos::ms(7), Nanos::ms(1))));
    attach("hog", None, Workload::Hog);
    attach("hog", None, Workload::Hog);
    host.finish(Instant::ZERO + Nanos::s(2));
    drop(host);
    let promise = &meter.members()[1].got.promise;
    (promise.judged, promise.misses)
}

#[test]
fn a_simulated_host_keeps_promises_by_the_port() {
    let Some(program) = Program::edf(None) else { return };
    assert_eq!(run(&program), (200, 0));
    let Some(rival) = Program::edf(Some(&RIVAL)) else { return };
    let (judged, missed) = run(&rival);
    assert!(judged > 100 && missed > 0, "the rival keeps its promise: {missed} of {judged} missed");
}
