//! Timers of tasks: resolution and slack.

use crate::town::{Log, application, at, forever, guest, host, run, sleep, task, vcpus};
use sched::{Class, CpuId, CpuSet, GroupId, Input, Instant, Nanos, Params, Reservation, RtPriority};
use sim::program::TaskSpec;
use sim::{Costs, Guest, Periodic, Workload, World};
use trace::Event;

const SLACK: Costs = Costs { timer_slack: Nanos::us(50), ..Costs::NONE };

/// Returns a task on `cpu` that starts at 0 and sleeps for `us` once.
fn sleeper(cpu: usize, us: u64, params: Params) -> TaskSpec {
    let affinity = CpuSet::one(CpuId::new(cpu));
    TaskSpec { params: Params { affinity, ..params }, ..task("sleeper", vec![sleep(Nanos::us(us)), run(Nanos::us(1))]) }
}

/// Returns when each task wakes from its sleep on a host with two CPUs. Unit: µs.
fn woken(policy: &str, costs: Costs, tasks: Vec<TaskSpec>) -> Vec<u64> {
    let mut log = Log::default();
    let mut world = World::new(1);
    let machine = host(&mut world, policy, 2, costs);
    world.watch_all(&mut log);
    let (_, entities) = world.start(machine, &application(&[], tasks), GroupId::ROOT).expect("there is room");
    world.finish(at(100)).expect("no task waits for ever");
    drop(world);
    let wakes = log.of(machine);
    let last = |entity| {
        let wake = |(at, event): &(Instant, Event)| match event {
            Event::Input(Input::Wake { entity: woken, .. }) if *woken == entity => Some(at.as_ns() / 1000),
            _ => None,
        };
        wakes.iter().filter_map(wake).next_back().expect("it wakes")
    };
    entities.into_iter().map(last).collect()
}

fn normal(us: u64) -> TaskSpec {
    sleeper(0, us, Params::default())
}

#[test]
fn a_timer_alone_fires_when_its_slack_has_passed() {
    assert_eq!(woken("round-robin", SLACK, vec![normal(1_013)]), [1_063]);
    assert_eq!(woken("round-robin", Costs::NONE, vec![normal(1_013)]), [1_013]);
}

#[test]
fn a_timer_fires_with_another_timer_of_its_cpu_once_it_has_expired() {
    // The second timer has expired when the first fires, but the third has not. The fourth is on another CPU.
    let other = sleeper(1, 1_020, Params::default());
    let tasks = vec![normal(1_000), normal(1_049), normal(1_051), other];
    assert_eq!(woken("round-robin", SLACK, tasks), [1_050, 1_050, 1_101, 1_070]);
}

fn urgent() -> Params {
    Params { class: Class::Fifo(RtPriority::new(50).expect("it is a priority")), ..Params::default() }
}

#[test]
fn timers_of_real_time_tasks_and_reservations_have_no_slack() {
    let reservation = Some(Reservation::new(Nanos::ms(1), Nanos::ms(10)));
    let tasks = vec![sleeper(0, 5_013, urgent()), sleeper(0, 7_013, Params::default())];
    assert_eq!(woken("rt", SLACK, tasks), [5_013, 7_063]);
    let reserved = TaskSpec {
        params: Params { reservation, ..Params::default() },
        ..task("reserved", vec![sleep(Nanos::us(5_013)), run(Nanos::us(1))])
    };
    assert_eq!(woken("linux", SLACK, vec![reserved]), [5_013]);
}

/// The kernel keeps timers in the order of the ends of their windows and stops at the first that has not expired.
#[test]
fn an_expired_timer_waits_behind_one_that_has_not_expired() {
    // At 1010, the window of the last task is open, but it ends after the timer of 1020.
    let tasks = vec![sleeper(0, 1_010, urgent()), sleeper(0, 1_020, urgent()), normal(1_005)];
    assert_eq!(woken("rt", SLACK, tasks), [1_010, 1_020, 1_020]);
}

/// Timers that expire 20 µs before each millisecond fire at the millisecond if a slice ends or a tick comes then, and
/// otherwise when their slack has passed.
#[test]
fn a_slice_that_ends_or_a_tick_fires_expired_timers() {
    let hog = |name| TaskSpec {
        params: Params { affinity: CpuSet::one(CpuId::new(0)), ..Params::default() },
        ..task(name, vec![forever(vec![run(Nanos::s(1))])])
    };
    let fired = |policy| {
        let fired =
            |ms: u64| woken(policy, SLACK, vec![normal(1_000 * ms - 20), hog("first"), hog("second")])[0] % 1_000;
        (1..60).map(fired).collect::<Vec<u64>>()
    };
    // A slice of `round-robin` lasts 10 ms, and the tick of `cfs` comes every millisecond.
    let slices = fired("round-robin");
    assert_eq!(slices.iter().filter(|&&us| us == 0).count(), 5, "{slices:?}");
    assert_eq!(slices.iter().filter(|&&us| us == 30).count(), slices.len() - 5, "{slices:?}");
    assert!(fired("cfs").iter().all(|&us| us == 0), "{:?}", fired("cfs"));
}

#[test]
fn timers_of_a_kernel_without_slack_expire_at_its_resolution() {
    let jiffies = Costs { timer_resolution: Nanos::ms(10), ..Costs::NONE };
    assert_eq!(woken("round-robin", jiffies, vec![normal(1_013), normal(20_000)]), [10_000, 20_000]);
    let both = Costs { timer_resolution: Nanos::ms(1), ..SLACK };
    assert_eq!(woken("round-robin", both, vec![normal(1_013), normal(3_000)]), [2_050, 3_050]);
}

#[test]
fn releases_of_jobs_have_slack_but_their_deadlines_do_not() {
    let mut log = Log::default();
    let mut world = World::new(1);
    let machine = host(&mut world, "round-robin", 1, SLACK);
    world.watch_all(&mut log);
    let jobs = Periodic { phase: Nanos::us(7), ..Periodic::new(Nanos::ms(1), Nanos::us(10)) };
    world.attach(machine, "jobs", Params::default(), Workload::Periodic(jobs)).expect("there is room");
    world.finish(at(4)).expect("no task waits for ever");
    drop(world);
    let release = |(at, event): (Instant, Event)| match event {
        Event::Release { deadline, .. } => Some((at.as_ns() / 1000, deadline.as_ns() / 1000)),
        _ => None,
    };
    let releases: Vec<_> = log.of(machine).into_iter().filter_map(release).collect();
    // The start has no slack.
    assert_eq!(releases, [(7, 1_007), (1_057, 2_007), (2_057, 3_007), (3_057, 4_007)]);
}

/// A timer of a guest that is due while its vCPU has no CPU fires when the vCPU returns, together with the timers that
/// have expired by then.
#[test]
fn timers_of_an_absent_vcpu_fire_together_when_it_returns() {
    let mut log = Log::default();
    let mut world = World::new(1);
    let below = host(&mut world, "round-robin", 1, Costs::NONE);
    let all = vcpus(&mut world, below, "vm", 1, true);
    let above = guest(&mut world, below, "round-robin", &all, Guest::default(), SLACK);
    world.watch_all(&mut log);
    let (_, entities) = world
        .start(above, &application(&[], vec![normal(1_000), normal(1_045)]), GroupId::ROOT)
        .expect("there is room");
    world.run_until(Instant::ZERO + Nanos::us(900)).expect("no task waits for ever");
    // A task of the host has the CPU from 900 to 1080.
    let hog = task("hog", vec![run(Nanos::us(180)), sleep(Nanos::s(1))]);
    world.start(below, &application(&[], vec![hog]), GroupId::ROOT).expect("there is room");
    world.finish(at(100)).expect("no task waits for ever");
    drop(world);
    let wakes: Vec<_> = log.of(above).into_iter().filter(|(at, _)| at.as_ns() > 0).collect();
    let woken = entities.iter().map(|&entity| {
        let wake = |(_, event): &&(Instant, Event)| {
            matches!(event, Event::Input(Input::Wake { entity: woken, .. }) if *woken == entity)
        };
        wakes.iter().find(wake).expect("it wakes").0.as_ns() / 1000
    });
    assert_eq!(woken.collect::<Vec<_>>(), [1_080, 1_080]);
}
