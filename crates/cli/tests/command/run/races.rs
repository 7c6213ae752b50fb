//! Races at the service: clients that change one VM at the same time, and VMs that end during a change.

use super::service::Service;
use super::{HOG, chance, soon, turn};
use daemon::directory::Directory;
use sched::Nanos;
use serde_json::Value;
use sys::child::{Child, Work};
use sys::clock;
use sys::process::Process;

/// Number of changes of each client.
const CHANGES: u64 = 15;

#[test]
fn two_clients_that_change_one_vm_lose_no_change() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let vm = format!("pid:{}", child.pid());
    let service = Service::begin();
    let set = service.json(&["set", &vm, "--slice", "1ms", "--period", "100ms"]);
    assert_eq!(set["generation"], 1);
    // Each client adds 10 us to the slice that it has read, unless the other one was faster.
    let client = || {
        let (mut done, mut late) = (0, 0);
        while done < CHANGES {
            let read = service.json(&["show", &vm]);
            let slice = read["desired"]["promise"]["slice_ns"].as_u64().unwrap() / 1_000 + 10;
            let (slice, generation) = (format!("{slice}us"), read["generation"].to_string());
            let changed = service.client(&["set", &vm, "--slice", &slice, "--if-generation", &generation]);
            match changed.code {
                Some(0) => done += 1,
                _ => {
                    assert!(changed.stderr.contains("another client has changed it"), "{}", changed.stderr);
                    late += 1;
                }
            }
        }
        late
    };
    let late: u64 = std::thread::scope(|scope| {
        let both = [scope.spawn(client), scope.spawn(client)];
        both.into_iter().map(|client| client.join().unwrap()).sum()
    });
    eprintln!("{late} changes came too late");
    let shown = service.json(&["show", &vm]);
    assert_eq!(shown["desired"]["promise"]["slice_ns"], 1_000_000 + 2 * CHANGES * 10_000);
    assert_eq!(shown["generation"], 1 + 2 * CHANGES);
    service.end();
}

#[test]
fn a_process_that_is_killed_during_its_change_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let service = Service::begin();
    let mut below = chance();
    let mut refused = 0;
    for mechanism in ["inherit", "fifo", "deadline"].into_iter().cycle().take(30) {
        let child = Child::start(HOG).unwrap();
        let (vm, process) = (format!("pid:{}", child.pid()), Process::open(child.pid()).unwrap());
        // A command takes some 10 ms.
        let pause = Nanos::us(below(20_000));
        let promise = ["set", &vm, "--slice", "1ms", "--period", "20ms", "--mechanism", mechanism];
        let changed = std::thread::scope(|scope| {
            scope.spawn(|| {
                clock::sleep(pause);
                process.kill().unwrap();
            });
            service.client(&promise)
        });
        refused += u32::from(changed.code != Some(0));
        soon("the service forgets the process", || {
            let listed = service.json(&["list"]);
            listed["vms"].as_array().unwrap().iter().all(|it: &Value| it["id"] != vm.as_str())
        });
    }
    eprintln!("{refused} of 30 changes were refused");
    let table = Directory::at(service.place.0.path().join("live")).open_table().unwrap().unwrap();
    soon("no row is left", || table.entries().is_empty());
    // The time of the ended processes is free again.
    let child = Child::start(Work::Sleep).unwrap();
    service.json(&["set", &format!("pid:{}", child.pid()), "--slice", "80ms", "--period", "100ms"]);
    service.end();
}
