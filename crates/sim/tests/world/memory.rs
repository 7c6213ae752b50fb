//! The memory that each task of a world takes.

use crate::town::{at, forever, guest, host, run, task, vcpus};
use measure::Meter;
use sched::Nanos;
use sim::program::{Step, TimerMode};
use sim::{Application, Costs, Guest, TaskSpec, World};

/// Runs a guest with `tasks` tasks, which all wake, run and sleep. Returns the number of bytes that are allocated at
/// the end of the run.
fn held(tasks: usize, watched: bool) -> i64 {
    let mut held = 0;
    let mut meter = Meter::new();
    let info = allocation_counter::measure(|| {
        let mut world = World::new(1);
        let under = host(&mut world, "credit", 4, Costs::NONE);
        let all = vcpus(&mut world, under, "vm", 4, false);
        let vm = guest(&mut world, under, "cfs", &all, Guest::default(), Costs::NONE);
        if watched {
            world.watch(vm, &mut meter);
        }
        let mut application = Application::default();
        for number in 0..tasks {
            let beat = Step::Timer { timer: 0, period: Nanos::ms(20), mode: TimerMode::Skipping };
            let steps = vec![forever(vec![beat, run(Nanos::us(5))])];
            let delay = Nanos::us(7 * number as u64).into();
            application.tasks.push(TaskSpec { delay, ..task(&format!("task{number}"), steps) });
        }
        world.start(vm, &application, sched::GroupId::ROOT).expect("there is room");
        drop(application);
        world.run_until(at(60)).expect("they only sleep");
        held = 1;
        // The world is leaked, so that its memory is still allocated at the end of the measurement.
        std::mem::forget(world);
    });
    assert_eq!(held, 1);
    info.bytes_current
}

#[test]
fn an_entity_of_a_world_takes_less_than_1280_bytes() {
    for watched in [false, true] {
        let (few, many) = (held(2_000, watched), held(4_000, watched));
        let each = (many - few) / 2_000;
        println!("{each} bytes for each task, {}", if watched { "watched by a meter" } else { "unwatched" });
        if !watched {
            assert!((1..1280).contains(&each), "{each} bytes for each task");
        }
    }
}
