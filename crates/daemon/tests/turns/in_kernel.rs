//! A scheduler in the kernel dispatches clients. The simulated host has none, so clients in the kernel only have their share.

use super::scene::{CPU, Scene};
use daemon::dispatch::{KernelPeriods, Level, PromiseRequest, RaiseBy};
use daemon::kernel::Kernel;
use orders::Order;
use sched::{CpuId, CpuSet, EntityId, Nanos, Reservation};
use sim::Workload;
use trace::Event;

const HOG: &[(&str, Workload)] = &[("hog", Workload::Hog)];
const PERIOD: Nanos = Nanos::ms(10);

/// Returns the orders since the last call.
fn orders(scene: &mut Scene) -> Vec<Order> {
    let (orders, _) = scene.dispatcher.kernel_orders();
    scene.ring();
    orders
}

/// Returns the CPU time of a thread in the next second.
fn in_a_second(scene: &mut Scene, tid: u32) -> Nanos {
    let before = scene.usage(&[tid])[0].ran;
    scene.pass(Nanos::s(1));
    scene.usage(&[tid])[0].ran - before
}

fn begin(promise: i32, cpu: CpuId, slice: Nanos) -> Order {
    Order::begin(promise, cpu, Reservation::new(slice, PERIOD))
}

fn join(promise: i32, tid: u32, is_helper: bool) -> Order {
    Order::Join { promise, tid, is_helper }
}

/// Makes a promise of `slice` in 10 ms to a process with these threads.
fn promise(scene: &mut Scene, slice: Nanos, threads: &[(&str, Workload)]) -> (EntityId, Vec<u32>) {
    let request = PromiseRequest::new("client", Reservation::new(slice, PERIOD));
    let (entities, tids) = scene.admit(&request, threads);
    (entities.expect("there is room")[0], tids)
}

#[test]
fn the_kernel_dispatches_a_client_until_its_scheduler_ends() {
    for by in [RaiseBy::Inheritance, RaiseBy::Attributes] {
        let mut scene = Scene::new(by, 1);
        let (e, tids) = promise(&mut scene, Nanos::ms(6), HOG);
        assert!(in_a_second(&mut scene, tids[0]) >= Nanos::ms(595));
        assert_eq!(orders(&mut scene), [], "no scheduler is loaded");
        scene.dispatcher.begin_in_kernel();
        assert_eq!(orders(&mut scene), [begin(1, CPU, Nanos::ms(6)), join(1, tids[0], false)]);
        assert!(scene.dispatcher.is_in_kernel(e));
        assert_eq!(scene.dispatcher.level(e), Some(Level::Original));
        let (turns, had) = (scene.turns, in_a_second(&mut scene, tids[0]));
        assert!(had <= Nanos::ms(360), "{by:?}: it has a third of its CPU: {had}");
        assert!(scene.turns <= turns + 5, "{by:?}: {} turns", scene.turns - turns);
        assert_eq!(orders(&mut scene), []);
        let call = scene.dispatcher.end_in_kernel();
        assert!(call.contains(CPU) && !scene.dispatcher.is_in_kernel(e));
        scene.ring();
        let had = in_a_second(&mut scene, tids[0]);
        assert!(had >= Nanos::ms(590), "{by:?}: {had}");
        assert_eq!(orders(&mut scene), []);
    }
}

#[test]
fn orders_follow_the_promises_and_the_threads() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    scene.dispatcher.begin_in_kernel();
    let (e, tids) = promise(&mut scene, Nanos::ms(2), &[("qemu", Workload::Hog), ("CPU 0/KVM", Workload::Hog)]);
    let begun = [begin(1, CPU, Nanos::ms(2)), join(1, tids[0], true), join(1, tids[1], false)];
    assert_eq!(orders(&mut scene), begun);
    let new = scene.clone_thread(tids[0], Workload::Hog);
    assert_eq!(orders(&mut scene), [join(1, new, true)]);
    scene.dispatcher.adjust(e, Nanos::ms(3), PERIOD).0.expect("there is room");
    let change = Order::Change { promise: 1, slice_ns: 3_000_000, period_ns: 10_000_000 };
    assert_eq!(orders(&mut scene), [change]);
    scene.host.world_mut().exit(new);
    scene.pass(Nanos::ms(10));
    let _ = scene.dispatcher.look_in_kernel();
    assert_eq!(orders(&mut scene), [Order::Leave { tid: new }]);
    // A suspended service dispatches nothing.
    let _ = scene.dispatcher.suspend();
    assert_eq!(orders(&mut scene), [Order::End { promise: 1 }]);
    let _ = scene.dispatcher.resume();
    let begun = [begin(2, CPU, Nanos::ms(3)), join(2, tids[0], true), join(2, tids[1], false)];
    assert_eq!(orders(&mut scene), begun);
    let _ = scene.dispatcher.dismiss(e);
    assert_eq!(orders(&mut scene), [Order::End { promise: 2 }]);
}

#[test]
fn the_agents_dispatch_the_cpus_of_a_gang() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 3);
    scene.dispatcher.begin_in_kernel();
    let (single, tids) = promise(&mut scene, Nanos::ms(1), HOG);
    assert_eq!(orders(&mut scene).len(), 2);
    let cpu = scene.dispatcher.machine().allowed(single).first().expect("it has a CPU");
    let gang =
        PromiseRequest { cpus: 3, gang: true, ..PromiseRequest::new("gang", Reservation::new(Nanos::ms(6), PERIOD)) };
    let (entities, _) = scene.admit(&gang, &[HOG[0], HOG[0], HOG[0]]);
    let entities = entities.expect("there is room");
    assert_eq!(orders(&mut scene), [Order::End { promise: 1 }], "the gang is on {cpu}, too");
    assert!(entities.iter().chain([&single]).all(|&e| !scene.dispatcher.is_in_kernel(e)));
    let had = in_a_second(&mut scene, tids[0]);
    assert!(had >= Nanos::ms(95), "its agent dispatches it: {had}");
    let _ = scene.dispatcher.dismiss(entities[0]);
    let _ = scene.dispatcher.dismiss(entities[1]);
    let _ = scene.dispatcher.dismiss(entities[2]);
    assert_eq!(orders(&mut scene), [begin(2, cpu, Nanos::ms(1)), join(2, tids[0], false)]);
}

#[test]
fn a_thread_leaves_one_part_of_a_promise_before_it_joins_another() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 2);
    scene.dispatcher.begin_in_kernel();
    let request = PromiseRequest { cpus: 2, ..PromiseRequest::new("client", Reservation::new(Nanos::ms(4), PERIOD)) };
    let (entities, _) = scene.admit(&request, &[HOG[0], HOG[0], HOG[0], HOG[0]]);
    let machine = scene.dispatcher.machine();
    let cpus: Vec<CpuId> =
        entities.expect("there is room").iter().filter_map(|&e| machine.allowed(e).first()).collect();
    orders(&mut scene);
    // A thread of the later CPU moves to the earlier one, whose orders come first.
    let (first, last) = (*cpus.iter().min().unwrap(), *cpus.iter().max().unwrap());
    let (thread, _) = *scene.dispatcher.confined().iter().find(|(_, cpu)| *cpu == last).expect("it has threads");
    let handle = scene.daemon.open(thread.tid).unwrap();
    scene.daemon.set_affinity(&handle, &CpuSet::one(first)).unwrap();
    let _ = scene.dispatcher.follow(&[thread]);
    let moved = orders(&mut scene);
    let is_join = |order: &Order| matches!(order, Order::Join { tid, .. } if *tid == thread.tid);
    let left = moved.iter().position(|order| *order == Order::Leave { tid: thread.tid }).expect("it leaves");
    assert!(left < moved.iter().position(is_join).expect("it joins"), "{moved:?}");
}

#[test]
fn periods_in_the_kernel_are_judged_as_those_of_agents_are() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 1);
    scene.dispatcher.begin_in_kernel();
    let (e, _) = promise(&mut scene, Nanos::ms(2), HOG);
    assert_eq!(orders(&mut scene).len(), 2);
    scene.dispatcher.read_journal(&mut Vec::new());
    let (due, throughout) = (Nanos::ms(2), true);
    let mut note = |promise, delivered, count| {
        scene.dispatcher.note_in_kernel(KernelPeriods { promise, due, delivered, throughout, count });
    };
    note(1, due, 100);
    note(1, Nanos::ms(1), 60);
    note(7, Nanos::ZERO, 1_000);
    let mut events = Vec::new();
    scene.dispatcher.read_journal(&mut events);
    let missed =
        |event: &Event| matches!(event, Event::Period { entity, delivered, .. } if *entity == e && *delivered < due);
    assert_eq!(events.iter().filter(|(_, event)| missed(event)).count(), 60);
    assert!(events.iter().any(|(_, event)| matches!(event, Event::Kept { kept: false, .. })), "{events:?}");
}
