//! Tests of the bridge with the events of a kernel.

use super::*;
use sched::{Kicks, Topology};

const ABOUT: About = About { nice: 0, policy: 0, mask: CpuSet::ALL };

/// A bridge, and the threads that a kernel would run.
struct Scene {
    bridge: Bridge,
    now: Instant,
}

impl Scene {
    fn new(policy: &str, cpus: usize) -> Scene {
        Scene::with(policy, cpus, BTreeMap::new())
    }

    fn with(policy: &str, cpus: usize, promises: BTreeMap<i32, Reservation>) -> Scene {
        let policy = policies::find(policy).unwrap();
        let machine = Machine::build(policy, Topology::new(cpus), &policy.defaults(), Kicks::Immediate);
        Scene::of(machine.unwrap(), Mode::All, promises)
    }

    fn of(machine: Machine, mode: Mode, promises: BTreeMap<i32, Reservation>) -> Scene {
        Scene { bridge: Bridge::new(machine, mode, CpuSet::ALL, promises), now: Instant::at_ns(1_000_000_000) }
    }

    /// Applies events now, and returns the commands.
    fn turn(&mut self, events: &[(i32, Kind)]) -> Vec<Command> {
        let events: Vec<Event> = events.iter().cloned().map(|(tid, kind)| Event { at: self.now, tid, kind }).collect();
        self.bridge.apply(self.now, &events);
        self.bridge.settle(self.now).to_vec()
    }

    fn pass(&mut self, time: Nanos) {
        self.now = self.now.saturating_add(time);
    }
}

fn attach(tid: i32) -> (i32, Kind) {
    (tid, Kind::Attach { parent: 0, about: Box::new(ABOUT) })
}

fn wake(tid: i32) -> (i32, Kind) {
    (tid, Kind::Wake { waker: 0 })
}

fn run(cpu: usize, tid: impl Into<Option<i32>>) -> Command {
    Command::Run { cpu: CpuId::new(cpu), tid: tid.into() }
}

const CPU: CpuId = CpuId::new(0);

#[test]
fn a_thread_runs_after_its_wake_up_and_the_next_one_after_its_sleep() {
    let mut scene = Scene::new("round-robin", 1);
    assert_eq!(scene.turn(&[attach(7), attach(8)]), []);
    assert_eq!(scene.turn(&[wake(7), wake(8)]), [run(0, 7)]);
    scene.pass(Nanos::us(300));
    assert_eq!(scene.turn(&[(7, Kind::Run { cpu: CPU })]), []);
    scene.pass(Nanos::ms(1));
    assert_eq!(scene.turn(&[(7, Kind::Sleep)]), [run(0, 8)]);
    let entity = scene.bridge.threads[&7].entity;
    assert_eq!(scene.bridge.machine().charged(entity), Nanos::ms(1), "the way to the CPU is not charged");
    // The kernel tells of events that change nothing for the machine.
    assert_eq!(scene.turn(&[(7, Kind::Sleep), wake(8), (99, Kind::Sleep), (99, Kind::Detach)]), []);
    assert_eq!(scene.turn(&[(8, Kind::Detach)]), [run(0, None)]);
    assert_eq!(scene.bridge.threads(), 1);
}

#[test]
fn a_choice_of_the_kernel_is_a_turn_of_its_own_and_is_corrected_if_a_batch_has_crossed_it() {
    let mut scene = Scene::new("round-robin", 1);
    scene.turn(&[attach(7), attach(8)]);
    let begin = scene.now;
    let event = |at: u64, tid, kind| Event { at: begin.saturating_add(Nanos::us(at)), tid, kind };
    let chosen = |batches| Kind::Choice { cpu: CPU, batches };
    let woke = Kind::Wake { waker: 0 };
    let mut events = vec![event(100, 7, woke.clone()), event(110, 7, chosen(0)), event(300, 8, woke)];
    events.extend([event(410, 7, Kind::Sleep), event(420, 8, chosen(0))]);
    scene.pass(Nanos::us(500));
    scene.bridge.apply(scene.now, &events);
    assert_eq!(scene.bridge.settle(scene.now), [], "the kernel has chosen as the policy has");
    let charged = |scene: &Scene, tid| scene.bridge.machine().charged(scene.bridge.threads[&tid].entity);
    assert_eq!((charged(&scene, 7), charged(&scene, 8)), (Nanos::us(300), Nanos::us(80)));
    scene.bridge.applied(1);
    assert_eq!(scene.turn(&[(8, chosen(1))]), []);
    assert_eq!(scene.turn(&[(8, chosen(0))]), [run(0, 8)], "the batch came later, and may have replaced the choice");
}

#[test]
fn a_time_slice_ends_and_a_preemption_by_a_real_time_thread_is_not_charged() {
    let mut scene = Scene::new("round-robin", 1);
    scene.turn(&[attach(7), attach(8), wake(7), wake(8), (7, Kind::Run { cpu: CPU })]);
    let end = scene.bridge.next();
    assert!(end > scene.now && end != Instant::NEVER);
    scene.pass(Nanos::ms(1));
    scene.turn(&[(7, Kind::Stop)]);
    scene.pass(Nanos::ms(1));
    scene.turn(&[(7, Kind::Run { cpu: CPU })]);
    scene.now = end;
    assert_eq!(scene.turn(&[]), [run(0, 8)]);
    let entity = scene.bridge.threads[&7].entity;
    let length = end.since(Instant::at_ns(1_000_000_000));
    assert_eq!(scene.bridge.machine().charged(entity), length.saturating_sub(Nanos::ms(1)));
}

#[test]
fn what_a_policy_refuses_is_released() {
    let promise = |slice| Reservation::new(Nanos::ms(slice), Nanos::ms(10));
    let mut scene = Scene::with("edf", 1, BTreeMap::from([(7, promise(8)), (8, promise(8))]));
    assert_eq!(scene.turn(&[attach(7), attach(8), wake(7), wake(8)]), [run(0, 7), Command::Release { tid: 8 }]);
    let refusals = scene.bridge.take_refusals();
    assert!(refusals.len() == 1 && refusals[0].tid == 8, "{refusals:?}");
    assert_eq!(scene.turn(&[]), [], "a thread is released once");
}

#[test]
fn periods_are_judged_by_the_events_of_the_kernel() {
    let promise = Reservation::new(Nanos::ms(2), Nanos::ms(10));
    let mut scene = Scene::with("edf", 1, BTreeMap::from([(7, promise)]));
    assert_eq!(scene.turn(&[attach(7), wake(7)]), [run(0, 7)]);
    // The kernel runs the thread for 3 ms of the first period, and for 1 ms of the second.
    scene.turn(&[(7, Kind::Run { cpu: CPU })]);
    scene.pass(Nanos::ms(3));
    scene.turn(&[(7, Kind::Stop)]);
    scene.pass(Nanos::ms(9));
    scene.turn(&[(7, Kind::Run { cpu: CPU })]);
    scene.pass(Nanos::ms(1));
    scene.turn(&[(7, Kind::Stop)]);
    scene.pass(Nanos::ms(8));
    scene.turn(&[]);
    let received = scene.bridge.received()[&7];
    assert_eq!((received.judged, received.missed, received.delivered_ns), (2, 1, 3_000_000));
}

#[test]
fn a_thread_is_ahead_of_others_while_its_promise_has_cpu_time_left() {
    let promise = Reservation::new(Nanos::ms(2), Nanos::ms(10));
    let edf = policies::find("edf").unwrap();
    let machine = Machine::build(edf, Topology::new(1), &edf.defaults(), Kicks::Immediate).unwrap();
    let mut scene = Scene::of(machine, Mode::Promised, BTreeMap::from([(7, promise)]));
    assert_eq!(scene.turn(&[attach(7), attach(8), wake(8)]), [], "a thread without a promise competes");
    assert_eq!(scene.turn(&[wake(7), (7, Kind::Run { cpu: CPU })]), [run(0, 7)]);
    scene.pass(Nanos::ms(2));
    assert_eq!(scene.turn(&[]), [run(0, None)]);
    scene.pass(Nanos::ms(7));
    assert_eq!(scene.turn(&[]), []);
    scene.pass(Nanos::ms(1));
    assert_eq!(scene.turn(&[]), [run(0, 7)]);
}

#[test]
fn a_thread_whose_changed_mask_does_not_fit_is_released() {
    let promise = Reservation::new(Nanos::ms(8), Nanos::ms(10));
    let edf = policies::find("edf").unwrap();
    let knobs = input::knobs::apply_knobs(edf, &["placement=partitioned".parse().unwrap()]).unwrap();
    let machine = Machine::build(edf, Topology::new(2), &knobs, Kicks::Immediate).unwrap();
    let mut scene = Scene::of(machine, Mode::All, BTreeMap::from([(7, promise), (8, promise)]));
    scene.turn(&[attach(7), attach(8), wake(7), wake(8)]);
    let about = About { mask: CpuSet::one(CpuId::new(0)), ..ABOUT };
    let commands = scene.turn(&[(8, Kind::Change(Box::new(about)))]);
    assert_eq!(commands, [run(1, None), Command::Release { tid: 8 }]);
}

#[test]
fn a_changed_mask_moves_a_thread() {
    let mut scene = Scene::new("round-robin", 2);
    assert_eq!(scene.turn(&[attach(7), wake(7)]), [run(0, 7)]);
    let about = About { mask: CpuSet::one(CpuId::new(1)), ..ABOUT };
    let commands = scene.turn(&[(7, Kind::Change(Box::new(about)))]);
    assert_eq!(commands, [run(0, None), run(1, 7)]);
}
