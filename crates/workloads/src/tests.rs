use super::{Channel, Cyclictest, ForkJoin, Hackbench, Periodic, Phase, Startup, Waits, parts};
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Object, Step, TaskSpec};

fn us(n: u64) -> Length {
    Length::Fixed(Nanos::us(n))
}

/// Calls `each` with every step of a task, its loops and its children, and with the number of executions of the step.
/// Endless loops count once.
fn walk(steps: &[Step], times: u64, each: &mut impl FnMut(&Step, u64)) {
    for step in steps {
        each(step, times);
        match step {
            Step::Repeat { times: rounds, body } => walk(body, times * rounds.unwrap_or(1), each),
            Step::Fork(child) => walk(&child.steps, times, each),
            _ => {}
        }
    }
}

fn total(tasks: &[TaskSpec], mut count: impl FnMut(&Step) -> u64) -> u64 {
    let mut sum = 0;
    for task in tasks {
        walk(&task.steps, 1, &mut |step, times| sum += times * count(step));
    }
    sum
}

#[test]
fn the_messages_of_hackbench_are_sent_and_received() {
    let bench = Hackbench { groups: 3, fds: 4, loops: 5, ..Hackbench::default() };
    let Application { objects, tasks, .. } = bench.application(Params::default());
    let bytes = |is: fn(&Step) -> u64| total(&tasks, is);
    let messages = 3 * 4 * 4 * 5;
    assert_eq!(bytes(|step| if let Step::Send { bytes, .. } = step { *bytes } else { 0 }), 100 * messages);
    assert_eq!(bytes(|step| if let Step::Receive { bytes, .. } = step { *bytes } else { 0 }), 100 * messages);
    assert_eq!(total(&tasks, |step| u64::from(matches!(step, Step::Fork(_)))), 24);
    assert_eq!((bench.tasks(), tasks.len()), (25, 1));
    // Every child posts once. The children and the parent each wait once at the barrier.
    let posts = total(&tasks, |step| u64::from(matches!(step, Step::Post(_))));
    let takes = total(&tasks, |step| u64::from(matches!(step, Step::Take(_))));
    let comers = total(&tasks, |step| u64::from(matches!(step, Step::Barrier(_))));
    assert_eq!((posts, takes, comers), (24, 24, 25));
    assert!(objects.contains(&("start".to_string(), Object::Barrier { parties: 25 })));
    let pipes = objects.iter().filter(|(_, object)| matches!(object, Object::Pipe { .. })).count();
    assert_eq!(pipes, 12, "one for each receiver");
}

#[test]
fn a_channel_holds_every_message_it_can_be_asked_to() {
    for channel in [Channel::Pipes, Channel::Sockets] {
        for datasize in [1, 100, 4095, 4096, 4097, 65_535, Hackbench::DATASIZE_MAX] {
            let bench = Hackbench { groups: 1, fds: 1, datasize, channel, ..Hackbench::default() };
            let objects = bench.application(Params::default()).objects;
            let Some((_, Object::Pipe { capacity })) = objects.last() else { panic!("a pipe") };
            assert!(*capacity >= datasize, "{channel:?} {datasize}: {capacity}");
        }
    }
    let capacity = |channel| {
        let bench = Hackbench { groups: 1, fds: 1, channel, ..Hackbench::default() };
        bench.application(Params::default()).objects.last().cloned().unwrap().1
    };
    assert_eq!(capacity(Channel::Pipes), Object::Pipe { capacity: 64_000 }, "40 of 100 bytes in each of 16 pages");
    assert_eq!(capacity(Channel::Sockets), Object::Pipe { capacity: 27_700 }, "277 of 768 bytes");
}

#[test]
fn cyclictest_has_an_interval_for_each_thread() {
    let test = Cyclictest { threads: 3, loops: Some(7), ..Cyclictest::default() };
    let tasks = test.application(Params::default()).tasks;
    let periods: Vec<Nanos> = tasks
        .iter()
        .map(|task| match task.steps.as_slice() {
            [Step::Repeat { times: Some(7), body }] => match body.as_slice() {
                [Step::Timer { timer: 0, period, mode: TimerMode::Skipping }, Step::Woke, Step::Run(_)] => *period,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(periods, [Nanos::us(1000), Nanos::us(1500), Nanos::us(2000)]);
}

#[test]
fn what_passes_before_the_clock_is_read_is_part_of_a_cyclictests_lateness() {
    let tasks = Cyclictest { overhead: us(30), ..Cyclictest::default() }.application(Params::default()).tasks;
    let [Step::Repeat { body, .. }] = tasks[0].steps.as_slice() else { panic!("{:?}", tasks[0].steps) };
    assert_eq!(body[1..], [Step::Run(us(30)), Step::Woke, Step::Run(us(1))]);
}

#[test]
fn a_launch_is_one_job_from_the_fork_to_the_end() {
    let startup = Startup { waits: 2, wait: us(500), ..Startup::new(us(100)) };
    let tasks = startup.application(Params::default()).tasks;
    let [Step::Repeat { times: Some(100), body }] = tasks[0].steps.as_slice() else { panic!("{:?}", tasks[0].steps) };
    let [Step::Sleep(pause), Step::JobBegins { deadline: None }, Step::Fork(launched), Step::Join, Step::JobEnds] =
        body.as_slice()
    else {
        panic!("{body:?}")
    };
    assert_eq!(*pause, Length::Fixed(Nanos::s(1)));
    let third = |ns| Step::Run(Length::Fixed(Nanos::ns(ns)));
    let wait = Step::Sleep(us(500));
    assert_eq!(launched.steps, [third(33_334), wait.clone(), third(33_333), wait, third(33_333)]);
}

#[test]
fn a_team_meets_after_each_round() {
    let team = ForkJoin { threads: 2, locks: 1, waits: Waits::Spinning, serial: us(5), ..ForkJoin::new(us(10)) };
    let Application { objects, tasks, .. } = team.application(Params::default());
    let spins = Object::SpinBarrier { parties: 2 };
    let kinds: Vec<Object> = objects.iter().map(|&(_, object)| object).collect();
    assert_eq!(kinds, [spins, spins, Object::Spin]);
    let length = |task: &TaskSpec| match task.steps.as_slice() {
        [Step::Repeat { times: None, body }] => body.len(),
        other => panic!("{other:?}"),
    };
    // Two parts with a lock of three steps between them, and two barriers. The first thread also has the start and the
    // end of a job, and the serial work.
    assert_eq!((length(&tasks[0]), length(&tasks[1])), (10, 7));
    let alone = ForkJoin { serial: us(0), ..team }.application(Params::default());
    assert_eq!(alone.objects.len(), 2, "one barrier will do");
}

#[test]
fn a_random_phase_is_within_the_period() {
    let jobs = Periodic { period: Nanos::us(10), work: us(1), phase: Phase::Random, deadline: Nanos::us(10) };
    let tasks = jobs.application(Params::default()).tasks;
    assert_eq!(tasks[0].delay, Length::Uniform { least: Nanos::ZERO, most: Nanos::ns(9_999) });
}

#[test]
fn parts_make_up_the_whole() {
    for (ns, count) in [(100, 3), (7, 7), (2, 5), (0, 1)] {
        let all: Vec<Length> = parts(Length::Fixed(Nanos::ns(ns)), count).collect();
        let sum: u64 = all.iter().map(|part| if let Length::Fixed(time) = part { time.as_ns() } else { 0 }).sum();
        assert_eq!((all.len(), sum), (count as usize, ns));
    }
}

#[test]
fn tasks_have_the_name_of_their_application() {
    let bench = Hackbench { groups: 1, fds: 1, ..Hackbench::default() }.application(Params::default());
    let renamed = super::called("t", &bench);
    let mut forked = Vec::new();
    walk(&renamed.tasks[0].steps, 1, &mut |step, _| {
        if let Step::Fork(child) = step {
            forked.push(child.name.clone());
        }
    });
    assert_eq!(renamed.tasks[0].name, "t");
    assert_eq!(forked, ["t/group-0-receiver-0", "t/group-0-sender"]);
    let threads =
        super::called("t", &Cyclictest { threads: 2, ..Cyclictest::default() }.application(Params::default()));
    let names: Vec<&str> = threads.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["t/thread-0", "t/thread-1"]);
}
