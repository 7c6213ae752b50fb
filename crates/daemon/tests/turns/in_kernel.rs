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
    Order::begin(promise, cpu, Reservation::new(slice, PERIOD), None)
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
    let change = Order::Change { promise: 1, slice_ns: 3_000_000, period_ns: 10_000_000, gang: None };
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

/// Admits a gang of 6 ms in 10 ms on three CPUs.
fn gang(scene: &mut Scene) -> Vec<EntityId> {
    let reservation = Reservation::new(Nanos::ms(6), PERIOD);
    let request = PromiseRequest { cpus: 3, gang: true, ..PromiseRequest::new("gang", reservation) };
    let (entities, _) = scene.admit(&request, &[HOG[0], HOG[0], HOG[0]]);
    entities.expect("there is room")
}

/// Returns the numbers of the gangs in the orders of this kind.
fn gangs(orders: &[Order]) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
    let begun = orders.iter().filter_map(|order| match order {
        Order::Begin { gang, .. } => Some(*gang),
        _ => None,
    });
    let changed = orders.iter().filter_map(|order| match order {
        Order::Change { gang, .. } => Some(*gang),
        _ => None,
    });
    (begun.collect(), changed.collect())
}

#[test]
fn the_promises_of_a_gang_begin_and_change_as_a_gang_in_the_kernel() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 3);
    scene.dispatcher.begin_in_kernel();
    let (single, _) = promise(&mut scene, Nanos::ms(1), HOG);
    let entities = gang(&mut scene);
    let begun = orders(&mut scene);
    assert!(entities.iter().chain([&single]).all(|&e| scene.dispatcher.is_in_kernel(e)));
    let (mut of_gang, changed) = gangs(&begun);
    of_gang.sort_unstable();
    let [None, Some(first), Some(second), Some(third)] = of_gang[..] else { panic!("{begun:?}") };
    assert!(first == second && second == third && changed.is_empty(), "{begun:?}");
    let (changed, _) = scene.dispatcher.adjust(entities[1], Nanos::ms(3), PERIOD);
    changed.expect("it is smaller");
    let changed = orders(&mut scene);
    let (begun, of_change) = gangs(&changed);
    assert!(begun.is_empty() && of_change.len() == 3 && changed.len() == 3, "{changed:?}");
    assert!(of_change.iter().all(|gang| gang.is_some() && *gang == of_change[0]), "{changed:?}");
    for e in entities {
        let _ = scene.dispatcher.dismiss(e);
    }
    let ended = orders(&mut scene);
    assert!(ended.len() == 3 && ended.iter().all(|order| matches!(order, Order::End { .. })), "{ended:?}");
}

#[test]
fn the_agents_dispatch_all_of_a_gang_with_a_client_that_does_not_suit_the_kernel() {
    let mut scene = Scene::new(RaiseBy::Inheritance, 3);
    scene.dispatcher.begin_in_kernel();
    let entities = gang(&mut scene);
    let (single, _) = promise(&mut scene, Nanos::ms(1), HOG);
    assert_eq!(orders(&mut scene).len(), 8, "four promises with a thread each");
    // Its period is too long for the kernel, so the agent of its CPU dispatches all clients there.
    let long = PromiseRequest::new("long", Reservation::new(Nanos::ms(50), Nanos::s(5)));
    let (long, _) = scene.admit(&long, HOG);
    let long = long.expect("there is room")[0];
    let ended = orders(&mut scene);
    assert!(ended.iter().all(|order| matches!(order, Order::End { .. })), "{ended:?}");
    assert!(ended.len() >= 3, "{ended:?}");
    assert!(entities.iter().chain([&long]).all(|&e| !scene.dispatcher.is_in_kernel(e)));
    assert!(!scene.dispatcher.is_in_kernel(single), "it is on a CPU of the gang");
    let _ = scene.dispatcher.dismiss(long);
    orders(&mut scene);
    assert!(entities.iter().all(|&e| scene.dispatcher.is_in_kernel(e)));
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
