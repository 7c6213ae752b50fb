//! Steps that work until an instant, skip late work, or end a whole application.

use crate::town::{FIRST, Log, application, at, guest, hog, host, run, task, vcpus};
use sched::{GroupId, Nanos};
use sim::program::{Object, Step, TimerMode};
use sim::{Application, Costs, Guest, World};
use trace::Event;

/// Runs an application beside `hogs` hogs on a host with `cpus` CPUs.
fn play(application: &Application, cpus: usize, hogs: usize, ms: u64) -> Log {
    let mut log = Log::default();
    let mut world = World::new(1);
    let machine = host(&mut world, "round-robin", cpus, Costs::NONE);
    world.watch_all(&mut log);
    for number in 0..hogs {
        hog(&mut world, machine, &format!("hog-{number}"));
    }
    world.start(machine, application, GroupId::ROOT).expect("there is room");
    world.finish(at(ms)).unwrap_or_else(|stuck| panic!("{stuck}"));
    drop(world);
    log
}

/// Returns the instants of the events that `is` selects, in milliseconds.
fn when(log: &Log, is: fn(&Event) -> bool) -> Vec<u64> {
    let those = log.events.iter().filter(|(_, _, event)| is(event));
    those.map(|(_, at, _)| at.as_ns() / 1_000_000).collect()
}

fn job(body: Vec<Step>) -> Vec<Step> {
    [vec![Step::JobBegins { deadline: None }], body, vec![Step::JobEnds]].concat()
}

fn completed(event: &Event) -> bool {
    matches!(event, Event::Complete { .. })
}

#[test]
fn work_until_an_instant_ends_there_however_little_cpu_time_it_got() {
    let grain = Nanos::ms(1);
    let works = Step::RunUntil { timer: 0, period: Nanos::ms(30), grain };
    let rests = Step::Timer { timer: 0, period: Nanos::ms(20), mode: TimerMode::Absolute };
    let twice = vec![Step::Repeat { times: Some(2), body: [job(vec![works]), vec![rests]].concat() }];
    let worker = application(&[], vec![task("worker", twice)]);
    assert_eq!(when(&play(&worker, 1, 0, 200), completed), [30, 80]);
    // Beside a hog, the task detects the end late, by at most one time slice of the hog. The delays do not add up,
    // because the timer is absolute.
    let beside = when(&play(&worker, 1, 1, 400), completed);
    assert!(matches!(beside.as_slice(), [30..=41, 80..=91]), "{beside:?}");
}

#[test]
fn rounds_whose_beats_are_long_over_are_left_out_and_the_others_are_not() {
    let (period, late) = (Nanos::ms(10), Nanos::ms(5));
    let play = |works: Vec<u64>, times| {
        // Work before the first round delays the rounds. Each round works for a millisecond.
        let first = vec![run(Nanos::ms(works[0]))];
        let drop = Step::DropLate { timer: 0, period, late };
        let beat = Step::Timer { timer: 0, period, mode: TimerMode::Absolute };
        let body = [vec![drop], job(vec![run(Nanos::ms(1)), beat])].concat();
        let steps = [first, vec![Step::Repeat { times: Some(times), body }]].concat();
        let log = play(&application(&[], vec![task("player", steps)]), 1, 0, 500);
        let skipped: Vec<u64> = log
            .events
            .iter()
            .filter_map(|(_, _, event)| if let Event::Skipped { beats, .. } = event { Some(*beats) } else { None })
            .collect();
        (when(&log, completed), skipped)
    };
    assert_eq!(play(vec![0], 4), (vec![10, 20, 30, 40], vec![]), "on time");
    // The first beat is at 10 ms. Its round is skipped if the beat is more than 5 ms ago.
    assert_eq!(play(vec![15], 4), (vec![16, 20, 30, 40], vec![]));
    assert_eq!(play(vec![16], 4), (vec![20, 30, 40], vec![1]));
    assert_eq!(play(vec![36], 4), (vec![40], vec![3]));
    // No round is left. Beats after the last round are not counted as skipped.
    assert_eq!(play(vec![46], 4), (vec![], vec![4]));
    assert_eq!(play(vec![300], 4), (vec![], vec![4]));
}

#[test]
fn a_task_that_quits_ends_every_task_of_its_application() {
    let forever = |body| vec![Step::Repeat { times: None, body }];
    let tasks = || {
        vec![
            task("main", vec![run(Nanos::ms(7)), Step::Quit, run(Nanos::ms(1))]),
            task("runs", forever(vec![run(Nanos::ms(1))])),
            task("sleeps", forever(vec![Step::Sleep(Nanos::ms(50).into())])),
            task("waits", forever(vec![Step::Barrier(FIRST)])),
            task("holds", vec![Step::Lock(sim::program::ObjectId(1)), run(Nanos::s(1))]),
        ]
    };
    let objects = [("b", Object::Barrier { parties: 2 }), ("m", Object::Mutex)];
    let mut log = play(&application(&objects, tasks()), 4, 0, 50);
    assert_eq!(when(&log, |event| matches!(event, Event::Detach { .. })), [7; 5]);
    // In a guest whose two vCPUs share one CPU with a hog, all tasks end, too. A task on an absent CPU ends when the
    // CPU returns.
    log = Log::default();
    let mut world = World::new(1);
    let outer = host(&mut world, "credit", 1, Costs::NONE);
    let cpus = vcpus(&mut world, outer, "vm", 2, false);
    hog(&mut world, outer, "hog");
    world.watch_all(&mut log);
    let inner = guest(&mut world, outer, "cfs", &cpus, Guest::default(), Costs::NONE);
    world.start(inner, &application(&objects, tasks()), GroupId::ROOT).expect("there is room");
    world.finish(at(1000)).unwrap_or_else(|stuck| panic!("{stuck}"));
    drop(world);
    let gone = log.of(inner).into_iter().filter(|(_, event)| matches!(event, Event::Detach { .. })).count();
    assert_eq!(gone, 5);
}
