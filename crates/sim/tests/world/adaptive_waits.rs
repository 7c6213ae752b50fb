//! Waits that spin for a limited time and then sleep.

use crate::town::{FIRST, Log, application, at, forever, guest, host, run, sleep, task, vcpus};
use sched::{CpuId, CpuSet, EntityId, GroupId, Input, Instant, Nanos, Params};
use sim::program::{Step, TaskSpec};
use sim::{Costs, Guest, Object, World};
use trace::Event;

fn us(us: u64) -> Nanos {
    Nanos::us(us)
}

fn on(cpu: usize, name: &str, steps: Vec<Step>) -> TaskSpec {
    let params = Params { affinity: CpuSet::one(CpuId::new(cpu)), ..Params::default() };
    TaskSpec { params, ..task(name, steps) }
}

/// What happened to the tasks of an application on a host with two CPUs and the policy `round-robin`.
struct Run {
    log: Vec<(Instant, Event)>,
    tasks: Vec<EntityId>,
    spun: Vec<Nanos>,
}

impl Run {
    fn of(objects: &[(&str, Object)], tasks: Vec<TaskSpec>) -> Run {
        let mut log = Log::default();
        let mut world = World::new(1);
        let machine = host(&mut world, "round-robin", 2, Costs::NONE);
        world.watch_all(&mut log);
        let (_, tasks) = world.start(machine, &application(objects, tasks), GroupId::ROOT).expect("there is room");
        world.run_until(at(100)).expect("no task waits for ever");
        let spun = tasks.iter().map(|&task| world.machine(machine).spun(task)).collect();
        drop(world);
        Run { log: log.of(machine), tasks, spun }
    }

    /// Returns when the first task blocks, wakes or completes a job, in µs.
    fn times(&self, is: impl Fn(&Event) -> bool) -> Vec<u64> {
        self.log.iter().filter(|(_, event)| is(event)).map(|(at, _)| at.as_ns() / 1000).collect()
    }

    fn blocks(&self, cpu: usize) -> Vec<u64> {
        self.times(|event| matches!(event, Event::Input(Input::Block { cpu: on }) if *on == CpuId::new(cpu)))
    }

    fn completions(&self, task: usize) -> Vec<u64> {
        self.times(|event| matches!(event, Event::Complete { entity } if *entity == self.tasks[task]))
    }
}

fn job(mut steps: Vec<Step>) -> Vec<Step> {
    steps.insert(0, Step::JobBegins { deadline: None });
    // The tasks stay, so that their spin times can be read.
    steps.extend([Step::JobEnds, sleep(Nanos::s(1))]);
    steps
}

const BARRIER: Object = Object::AdaptiveBarrier { parties: 2, spin: Nanos::ms(3) };

#[test]
fn a_wait_that_ends_during_the_spin_does_not_sleep() {
    let early = on(0, "early", job(vec![run(us(100)), Step::Barrier(FIRST), run(us(10))]));
    let late = on(1, "late", job(vec![run(us(300)), Step::Barrier(FIRST), run(us(10))]));
    let run = Run::of(&[("barrier", BARRIER)], vec![early, late]);
    assert_eq!((run.completions(0), run.completions(1)), (vec![310], vec![310]));
    // Both tasks block once, in the sleep at their end.
    assert_eq!((run.blocks(0), run.blocks(1)), (vec![310], vec![310]));
    assert_eq!(run.spun, [us(200), Nanos::ZERO]);
}

#[test]
fn a_wait_spins_for_its_limit_and_then_sleeps() {
    let early = on(0, "early", job(vec![run(us(100)), Step::Barrier(FIRST), run(us(10))]));
    let late = on(1, "late", job(vec![sleep(us(20_000)), run(us(300)), Step::Barrier(FIRST), run(us(10))]));
    let run = Run::of(&[("barrier", BARRIER)], vec![early, late]);
    assert_eq!((run.completions(0), run.completions(1)), (vec![20_310], vec![20_310]));
    assert_eq!(run.blocks(0), [3_100, 20_310]);
    assert_eq!(run.spun, [Nanos::ms(3), Nanos::ZERO]);
}

/// A slice of `round-robin` lasts 10 ms.
#[test]
fn the_limit_of_a_spin_counts_cpu_time() {
    let early = on(0, "early", job(vec![Step::Barrier(FIRST), run(us(10))]));
    let hog = on(0, "hog", vec![forever(vec![run(Nanos::s(1))])]);
    let late = on(1, "late", job(vec![sleep(us(50_000)), Step::Barrier(FIRST)]));
    let barrier = Object::AdaptiveBarrier { parties: 2, spin: Nanos::ms(15) };
    let run = Run::of(&[("barrier", barrier)], vec![early, hog, late]);
    // The task spins until 10 and from 20 to 25 ms.
    assert_eq!(run.blocks(0)[0], 25_000);
    assert_eq!(run.spun[0], Nanos::ms(15));
}

const MUTEX: Object = Object::AdaptiveMutex { spin: Nanos::ms(3) };

/// Returns the steps of a job that takes the lock for a while.
fn locks(before: Nanos, holds: Nanos) -> Vec<Step> {
    job(vec![run(before), Step::Lock(FIRST), run(holds), Step::Unlock(FIRST)])
}

#[test]
fn a_released_lock_goes_to_a_spinning_waiter_before_a_sleeping_waiter() {
    // The owner holds the lock until 5000. The first waiter waits since 100, and sleeps since 3100.
    let owner = on(1, "owner", locks(us(1), us(4_999)));
    let sleeper = on(0, "sleeper", locks(us(100), us(50)));
    let late = [sleep(us(4_000)), run(us(100)), Step::Lock(FIRST), run(us(50)), Step::Unlock(FIRST)];
    let spinner = on(0, "spinner", job(late.to_vec()));
    let run = Run::of(&[("lock", MUTEX)], vec![owner, spinner, sleeper]);
    assert_eq!((run.completions(1), run.completions(2)), (vec![5_050], vec![5_100]));
    assert_eq!(run.spun[1..], [us(900), Nanos::ms(3)]);
}

/// A preempted waiter does not delay a task that runs.
#[test]
fn a_lock_stays_free_while_its_waiters_are_preempted_and_is_taken_on_their_return() {
    let owner = on(1, "owner", locks(us(1), us(14_999)));
    let long = Object::AdaptiveMutex { spin: Nanos::ms(50) };
    // The waiter spins until 10000. The hog has its CPU until 20000.
    let waiter = on(0, "waiter", locks(us(100), us(50)));
    let hog = on(0, "hog", vec![forever(vec![run(Nanos::s(1))])]);
    let late = [sleep(us(16_000)), Step::Lock(FIRST), run(us(50)), Step::Unlock(FIRST)];
    let other = on(1, "other", job(late.to_vec()));
    let run = Run::of(&[("lock", long)], vec![other, owner, waiter, hog]);
    assert_eq!((run.completions(1), run.completions(0)), (vec![15_000], vec![16_050]));
    assert_eq!(run.completions(2), [20_050]);
}

/// The vCPU of the second thread has no CPU for 30 ms. The vCPU of the first thread halts after the spin.
#[test]
fn a_vcpu_halts_when_its_thread_has_spun_for_a_preempted_sibling() {
    let blocked = |barrier| {
        let mut log = Log::default();
        let mut world = World::new(1);
        let below = host(&mut world, "round-robin", 2, Costs::NONE);
        let all = vcpus(&mut world, below, "vm", 2, true);
        let above = guest(&mut world, below, "round-robin", &all, Guest::default(), Costs::NONE);
        world.watch_all(&mut log);
        let hog = on(1, "hog", vec![run(us(30_000)), sleep(Nanos::s(1))]);
        let params = Params { class: sched::Class::default(), ..hog.params };
        world.start(below, &application(&[], vec![TaskSpec { params, ..hog }]), GroupId::ROOT).expect("there is room");
        let first = on(0, "first", vec![run(us(100)), Step::Barrier(FIRST), sleep(Nanos::s(1))]);
        let second = on(1, "second", vec![run(us(5_000)), Step::Barrier(FIRST), sleep(Nanos::s(1))]);
        let tasks = application(&[("barrier", barrier)], vec![first, second]);
        world.start(above, &tasks, GroupId::ROOT).expect("there is room");
        world.run_until(at(100)).expect("no task waits for ever");
        drop(world);
        let blocks = log
            .of(below)
            .into_iter()
            .filter(|(_, event)| matches!(event, Event::Input(Input::Block { cpu }) if *cpu == CpuId::new(0)));
        blocks.map(|(at, _)| at.as_ns() / 1000).collect::<Vec<u64>>()
    };
    assert_eq!(blocked(BARRIER)[0], 3_100);
    assert_eq!(blocked(Object::Barrier { parties: 2 })[0], 100);
    assert_eq!(blocked(Object::SpinBarrier { parties: 2 })[0], 15_000, "the hog leaves the CPU after its first slice");
}
