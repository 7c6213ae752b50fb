//! Tests of freezer groups on a simulated host.

use daemon::dispatch::{Enclosure, enclose, release_groups};
use daemon::kernel::Kernel;
use daemon::restore::restore;
use daemon::table::Table;
use sched::Nanos;
use sim::Workload;
use simhost::{Caller, Memory, Refuses, Settings, SimulatedKernel};
use sys::thread::Owner;

const ROOT: Owner = Owner { real: 0, effective: 0 };

/// A host with a daemon, its table, and a process.
struct Scene {
    host: SimulatedKernel,
    daemon: Caller,
    table: Table,
    pid: u32,
}

impl Scene {
    fn new() -> Scene {
        let linux = policies::find("linux").expect("it is registered");
        let host = SimulatedKernel::new(&Settings::new(linux, 2)).expect("linux works everywhere");
        let pid = host.world_mut().start("process", ROOT, Workload::Hog).expect("numbers are free");
        let daemon = host.begin("daemon", ROOT);
        let me = daemon.identity(&daemon.open(daemon.pid()).unwrap());
        let table = Table::create(Box::new(daemon.map(&Memory::new(Table::words(8)))), "boot", me);
        Scene { host, daemon, table, pid }
    }

    fn enclose(&self) -> Enclosure<Caller> {
        enclose(&self.daemon, &self.table, self.pid, &|| {}).unwrap()
    }

    fn freeze(&self, enclosure: &mut Enclosure<Caller>) {
        enclosure.set_frozen(true, &self.daemon, &self.table).unwrap();
    }

    /// Returns whether nothing of Tactus is left.
    fn is_as_before(&self) -> bool {
        let world = self.host.world();
        world.differences().is_empty() && world.groups_of_tactus().is_empty()
    }

    fn restore(&self) -> bool {
        let pass = |rest: Nanos| {
            let end = self.host.world().now() + rest;
            assert_eq!(self.host.run_until(end), None, "no actor has a turn");
        };
        restore(&self.daemon, &self.table, pass).is_settled()
    }
}

#[test]
fn a_frozen_orphan_without_a_row_is_thawed_and_moved_back() {
    let scene = Scene::new();
    let mut enclosure = scene.enclose();
    let child = scene.host.world_mut().fork(scene.pid, Workload::Hog).unwrap();
    scene.host.world_mut().kill(scene.pid);
    scene.freeze(&mut enclosure);
    assert!(scene.host.world().is_frozen(child) && !scene.host.world().is_alive(scene.pid));
    assert!(scene.table.entries().is_empty() && scene.restore());
    assert!(!scene.host.world().is_frozen(child) && scene.is_as_before());
}

#[test]
fn a_released_enclosure_leaves_no_row_and_no_group_but_the_frozen_one_of_the_daemon() {
    let scene = Scene::new();
    let child = scene.host.world_mut().fork(scene.pid, Workload::Hog).unwrap();
    let mut enclosure = scene.enclose();
    let (rows, groups) = (enclosure.rows(), scene.host.world().groups_of_tactus().len());
    assert_eq!((rows.len(), groups), (1, 2), "one group for both processes, and one of the daemon");
    scene.freeze(&mut enclosure);
    assert!(scene.host.world().is_frozen(child));
    release_groups(&scene.daemon, &scene.table, &rows, &|| {});
    assert_eq!((scene.table.groups().len(), scene.host.world().groups_of_tactus().len()), (1, 1));
    assert!(scene.host.world().differences().is_empty());
    // The next client needs no second group of the daemon.
    let rows = scene.enclose().rows();
    assert_eq!(scene.table.groups().len(), 2);
    release_groups(&scene.daemon, &scene.table, &rows, &|| {});
    assert!(scene.restore() && scene.is_as_before());
}

#[test]
fn processes_of_several_groups_return_each_to_its_own() {
    let scene = Scene::new();
    let container = scene.host.world_mut().create_group_of_others("container");
    let child = scene.host.world_mut().fork(scene.pid, Workload::Hog).unwrap();
    scene.host.world_mut().move_to_group(child, container);
    let mut enclosure = scene.enclose();
    assert_eq!(enclosure.rows().len(), 2);
    scene.freeze(&mut enclosure);
    assert!([scene.pid, child].iter().all(|&pid| scene.host.world().is_frozen(pid)));
    // A freeze by another program lasts.
    scene.host.world_mut().freeze_by_others(container, true);
    assert!(scene.restore() && scene.is_as_before());
    assert!(scene.host.world().is_frozen(child) && !scene.host.world().is_frozen(scene.pid));
}

#[test]
fn a_process_that_cannot_be_moved_is_refused_and_nothing_is_left() {
    let scene = Scene::new();
    let child = scene.host.world_mut().fork(scene.pid, Workload::Hog).unwrap();
    scene.host.world_mut().protect(child, Refuses { all: true, ..Refuses::default() });
    let refused = enclose(&scene.daemon, &scene.table, scene.pid, &|| {}).unwrap_err();
    assert!(refused.to_string().starts_with(&format!("cannot move process {child}")), "{refused}");
    assert!(scene.table.groups().is_empty() && scene.is_as_before());
}

#[test]
fn groups_inside_each_other_are_removed_from_the_inside_out() {
    let scene = Scene::new();
    let child = scene.host.world_mut().fork(scene.pid, Workload::Hog).unwrap();
    let inner = enclose(&scene.daemon, &scene.table, child, &|| {}).unwrap();
    let outer = scene.enclose();
    assert!(!inner.rows().is_empty() && !outer.rows().is_empty());
    assert!(scene.restore() && scene.is_as_before());
}
