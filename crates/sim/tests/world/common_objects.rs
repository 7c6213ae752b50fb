//! Shared objects of tasks, for example locks, barriers and pipes. Further tests cover forked children, the effect of
//! preemption on spin locks, and the end of a run that cannot continue.

use crate::town::{FIRST, Log, SECOND, application, at, forever, guest, hog, host, run, sleep, task, vcpus};
use sched::{GroupId, Input, Nanos};
use sim::guest::{PauseLoop, Spinning};
use sim::program::{Object, ObjectId, Step};
use sim::{Application, Costs, Guest, Stuck, TaskSpec, World};
use trace::Event;

/// Runs an application on a host of four CPUs, on which all its tasks run at once.
fn play(application: &Application, ms: u64) -> (Log, Result<(), Box<Stuck>>) {
    let mut log = Log::default();
    let mut world = World::new(1);
    let machine = host(&mut world, "cfs", 4, Costs::NONE);
    world.watch_all(&mut log);
    world.start(machine, application, GroupId::ROOT).expect("there is room");
    let end = world.finish(at(ms));
    drop(world);
    (log, end)
}

/// Returns the instants of job completions, in microseconds.
fn completions(log: &Log) -> Vec<u64> {
    let done = log.events.iter().filter(|(_, _, event)| matches!(event, Event::Complete { .. }));
    done.map(|(_, at, _)| at.as_ns() / 1000).collect()
}

fn job(steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![Step::JobBegins { deadline: None }];
    all.extend(steps);
    all.push(Step::JobEnds);
    all
}

fn us(us: u64) -> Step {
    run(Nanos::us(us))
}

#[test]
fn a_mutex_is_handed_on_in_the_order_of_arrival() {
    let worker = |number: u64| {
        let steps = vec![us(number + 1), Step::Lock(FIRST), us(100), Step::Unlock(FIRST)];
        task(&format!("w{number}"), job(steps))
    };
    let (log, end) = play(&application(&[("m", Object::Mutex)], (0..4).map(worker).collect()), 10);
    assert_eq!((completions(&log), end), (vec![101, 201, 301, 401], Ok(())));
}

#[test]
fn a_barrier_lets_all_go_when_the_last_one_comes() {
    for object in [Object::Barrier { parties: 3 }, Object::SpinBarrier { parties: 3 }] {
        let worker = |number: u64| task("w", job(vec![us(100 * (number + 1)), Step::Barrier(FIRST), us(10)]));
        let (log, end) = play(&application(&[("b", object)], (0..3).map(worker).collect()), 10);
        assert_eq!((completions(&log), end), (vec![310; 3], Ok(())), "{object:?}");
    }
}

#[test]
fn a_pipe_holds_what_it_holds_and_no_more() {
    // Ten messages of 100 bytes pass through a pipe of 300 bytes, so the writer is at most three messages ahead.
    let writer = task(
        "writer",
        job(vec![Step::Repeat { times: Some(10), body: vec![us(1), Step::Send { pipe: FIRST, bytes: 100 }] }]),
    );
    let reader = task(
        "reader",
        job(vec![Step::Repeat { times: Some(10), body: vec![Step::Receive { pipe: FIRST, bytes: 100 }, us(10)] }]),
    );
    let (log, end) = play(&application(&[("p", Object::Pipe { capacity: 300 })], vec![writer, reader]), 10);
    // The reader begins after 1 us and reads a message every 10 us. The writer's tenth message enters when the seventh
    // has been read.
    assert_eq!((completions(&log), end), (vec![61, 101], Ok(())));
}

#[test]
fn conditions_and_semaphores_wake_the_longest_waiter() {
    let waiter = |number: u64| {
        let wait = Step::Wait { condition: SECOND, mutex: FIRST };
        task("waiter", job(vec![us(1 + number), Step::Lock(FIRST), wait, us(10), Step::Unlock(FIRST)]))
    };
    let signaller =
        task("s", vec![us(100), Step::Signal(SECOND), us(100), Step::Broadcast(SECOND), Step::Post(ObjectId(2))]);
    let taker = task("taker", job(vec![Step::Take(ObjectId(2)), us(5)]));
    let mut tasks: Vec<TaskSpec> = (0..3).map(waiter).collect();
    tasks.extend([signaller, taker]);
    let objects = [("m", Object::Mutex), ("c", Object::Condition), ("s", Object::Semaphore { most: 1 })];
    let mut log = Log::default();
    let mut world = World::new(1);
    let machine = host(&mut world, "cfs", 5, Costs::NONE);
    world.watch_all(&mut log);
    world.start(machine, &application(&objects, tasks), GroupId::ROOT).expect("there is room");
    world.finish(at(10)).expect("all go on");
    drop(world);
    // One task is signalled at 100 us. The two others are signalled at 200 us and hold the mutex one after the other.
    assert_eq!(completions(&log), vec![110, 205, 210, 220]);
}

#[test]
fn a_parent_waits_for_the_children_it_has_forked() {
    let child = std::sync::Arc::new(task("child", vec![us(30)]));
    let fork = Step::Repeat { times: Some(3), body: vec![us(10), Step::Fork(child)] };
    let parent = task("parent", job(vec![fork, Step::Join, us(1)]));
    let (log, end) = play(&application(&[], vec![parent]), 10);
    assert_eq!((completions(&log), end), (vec![61], Ok(())));
    let forked = log.events.iter().filter(|(_, _, event)| {
        matches!(event, Event::Input(Input::Wake { why: sched::Wake::New { parent: Some(_) }, .. }))
    });
    assert_eq!(forked.count(), 3);
}

/// Returns the CPU time spun, and the number of finished rounds, of four tasks with a shared spin lock. The tasks run
/// on four vCPUs, on a host with two CPUs and two hogs.
fn contended(kind: Guest) -> (Nanos, usize) {
    let mut log = Log::default();
    let mut world = World::new(3);
    let under = host(&mut world, "cfs", 2, Costs::NONE);
    for name in ["h1", "h2"] {
        hog(&mut world, under, name);
    }
    let all = vcpus(&mut world, under, "vm", 4, false);
    let vm = guest(&mut world, under, "cfs", &all, kind, Costs::NONE);
    world.watch_all(&mut log);
    let round =
        vec![Step::JobBegins { deadline: None }, us(20), Step::Lock(FIRST), us(20), Step::Unlock(FIRST), Step::JobEnds];
    let workers = (0..4).map(|n| task(&format!("w{n}"), vec![forever(round.clone())])).collect();
    let (_, tasks) =
        world.start(vm, &application(&[("lock", Object::Spin)], workers), GroupId::ROOT).expect("there is room");
    world.finish(at(2000)).expect("the lock goes round");
    let spun = tasks.iter().map(|&task| world.machine(vm).spun(task)).sum();
    drop(world);
    (spun, completions(&log).len())
}

#[test]
fn preempted_lock_holders_and_waiters_cost_less_where_the_guest_or_its_host_minds() {
    let (ticket, slow) = contended(Guest::default());
    let (unfair, fair) = contended(Guest { spinning: Spinning::Unfair, ..Guest::default() });
    let (paravirt, halting) =
        contended(Guest { spinning: Spinning::Paravirt { limit: Nanos::us(20) }, ..Guest::default() });
    let (exits, yielding) =
        contended(Guest { pause_loop: Some(PauseLoop { window: Nanos::us(10) }), ..Guest::default() });
    let all = format!("spun {ticket} {unfair} {paravirt} {exits}, rounds {slow} {fair} {halting} {yielding}");
    // A ticket lock waits for a preempted waiter just as for a preempted holder.
    assert!(ticket > Nanos::ms(500), "{all}");
    assert!(unfair < ticket && fair > 2 * slow, "{all}");
    assert!(paravirt.saturating_mul(2) < ticket && halting > slow, "{all}");
    assert!(exits < ticket && yielding > slow, "{all}");
}

fn stuck(application: &Application) -> String {
    let (_, end) = play(application, 100);
    end.expect_err("it cannot go on").to_string()
}

#[test]
fn a_cycle_of_locks_ends_the_run_and_is_reported() {
    let both = |name: &str, first, second| {
        let steps = vec![Step::Lock(first), us(100), Step::Lock(second), Step::Unlock(second), Step::Unlock(first)];
        task(name, steps)
    };
    let tasks = vec![both("left", FIRST, SECOND), both("right", SECOND, FIRST)];
    let told = stuck(&application(&[("a", Object::Mutex), ("b", Object::Spin)], tasks));
    expect_test::expect![[r#"
        at 100us on host: right waits for left, which waits for right; help: take the locks in the same order in all tasks
          left waits for spin lock `b` since 100us, which right holds
          right waits for mutex `a` since 100us, which left holds"#]]
    .assert_eq(&told);
}

#[test]
fn kept_locks_stray_unlocks_endless_waits_and_empty_loops_are_reported() {
    let keeps = task("keeps", vec![Step::Lock(FIRST), us(10)]);
    let told = stuck(&application(&[("m", Object::Mutex)], vec![keeps]));
    assert!(told.contains("keeps ends while it holds mutex `m`; help: put an unlock before its end"), "{told}");
    let gives = task("gives", vec![us(10), Step::Unlock(FIRST)]);
    let told = stuck(&application(&[("m", Object::Mutex)], vec![gives]));
    assert!(told.contains("gives unlocks mutex `m`, but no task holds it; help: lock before"), "{told}");
    let waits = task("waits", vec![us(10), Step::Barrier(FIRST)]);
    let told = stuck(&application(&[("b", Object::Barrier { parties: 2 })], vec![waits]));
    assert!(told.contains("waits for barrier `b` since 10us"), "{told}");
    let circles = task("circles", vec![forever(vec![Step::Repeat { times: Some(2), body: vec![] }])]);
    let told = stuck(&application(&[], vec![circles]));
    assert!(told.contains("circles loops without using any time"), "{told}");
    let yields = task("yields", vec![forever(vec![Step::Yield])]);
    let told = stuck(&application(&[], vec![yields]));
    assert!(told.contains("yields and others wake each other without using any time"), "{told}");
}

#[test]
fn a_wait_for_a_sleeping_task_is_no_deadlock() {
    let waits = task("waits", job(vec![Step::Take(FIRST)]));
    let wakes = task("wakes", vec![sleep(Nanos::ms(5)), Step::Post(FIRST)]);
    let (log, end) = play(&application(&[("s", Object::Semaphore { most: 1 })], vec![waits, wakes]), 100);
    assert_eq!((completions(&log), end), (vec![5000], Ok(())));
}
