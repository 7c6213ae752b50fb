//! Traces of a world preserve its events in three formats: text that reads back, intervals in which both levels agree,
//! and files for viewers.

use crate::town::{application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use sched::{CpuId, GroupId, Instant, Nanos};
use sim::{Costs, Guest, World};
use trace::{
    Header, MachineHeader, MachineId, WorldChromeWriter, WorldHeader, WorldTextWriter, WorldTimeline, WorldTrace, text,
};

/// Returns the trace of two guests on a host of two CPUs. Each guest has two vCPUs. Each guest runs a hog and two tasks
/// that sleep.
fn town() -> WorldTrace {
    let machine = |name: &str, policy: &str, host| MachineHeader {
        name: name.to_string(),
        header: Header { policy: policy.to_string(), cpus: 2, seed: 3 },
        host,
    };
    let (host_id, policy) = (MachineId(0), "round-robin");
    let machines =
        vec![machine("host", policy, None), machine("a", "eevdf", Some(host_id)), machine("b", "cfs", Some(host_id))];
    let mut trace = WorldTrace::new(WorldHeader { machines });
    let mut world = World::new(3);
    world.watch_all(&mut trace);
    let costs = Costs { context_switch: Nanos::us(2), kick: Nanos::us(1), exit: Nanos::us(1), ..Costs::NONE };
    assert_eq!(host(&mut world, policy, 2, costs), host_id);
    for name in ["eevdf", "cfs"] {
        let vcpus = vcpus(&mut world, host_id, name, 2, false);
        let id = guest(&mut world, host_id, name, &vcpus, Guest::default(), costs);
        hog(&mut world, id, "hog");
        let steps = |work, rest| vec![forever(vec![run(Nanos::us(work)), sleep(Nanos::us(rest))])];
        let tasks = vec![task("shell", steps(300, 4_000)), task("scan", steps(2_500, 700))];
        world.start(id, &application(&[], tasks), GroupId::ROOT).expect("there is room");
    }
    world.finish(at(200)).expect("no task is stuck");
    drop(world);
    trace
}

#[test]
fn what_a_world_tells_reads_back_and_both_levels_agree() {
    let trace = town();
    let mut writer = WorldTextWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    let bytes = writer.finish().expect("memory takes it");
    assert_eq!(text::read_world(bytes.as_slice()).expect("it is as it was written"), trace);

    let world = WorldTimeline::of(&trace).expect("it does not contradict itself");
    let (mut ran, mut stolen) = (Nanos::ZERO, Nanos::ZERO);
    for (id, timeline) in world.header.ids().zip(&world.machines).skip(1) {
        for (cpu, runs) in timeline.cpus.iter().enumerate() {
            let vcpu = world.links.entity(id, CpuId::new(cpu)).expect("every CPU of a guest is an entity");
            let vcpu = world.machines[0].row(vcpu).expect("it was attached");
            let length = |from: Instant, to: Instant| to.since(from);
            for run in runs {
                assert_eq!(vcpu.ran_in(run.from, run.to), length(run.from, run.to), "{id} CPU {cpu}: {run:?}");
                ran += length(run.from, run.to);
            }
            for run in &timeline.stolen[cpu] {
                stolen += length(run.from, run.to);
            }
        }
    }
    assert!(ran > Nanos::ms(200) && stolen > Nanos::ms(20), "{ran} run, {stolen} stolen");

    let mut writer = WorldChromeWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    let file: serde_json::Value = serde_json::from_slice(&writer.finish().expect("memory takes it")).expect("JSON");
    let within: f64 = file["traceEvents"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|event| event["cat"] == "guest")
        .map(|event| event["dur"].as_f64().expect("a slice lasts"))
        .sum();
    // Unit: microseconds. Every nanosecond of a run in a guest is shown below a CPU of the host.
    assert!((within - ran.as_ns() as f64 / 1000.0).abs() < 1.0, "{within} us of {ran}");
}
