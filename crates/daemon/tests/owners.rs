//! A process of another user is refused, even if the kernel would permit its changes.

use daemon::dispatch::{Dispatcher, PromiseRequest, RaiseBy, Refusal};
use daemon::table::Table;
use daemon::terms;
use sched::{CpuSet, Nanos, Reservation};
use sim::Workload;
use simhost::{Caller, Memory, Settings, SimulatedKernel};
use std::sync::Arc;
use sys::thread::{Identity, Owner};

/// Returns a user ID for both IDs of an owner.
fn user(id: u32) -> Owner {
    Owner { real: id, effective: id }
}

fn admit(host: &SimulatedKernel, daemon: &Caller, pid: u32) -> Result<(), Refusal> {
    let memory = Memory::new(Table::words(8));
    let me = Identity { tid: daemon.pid(), start_time: 0 };
    let table = Arc::new(Table::create(Box::new(daemon.map(&memory)), "boot", me));
    let edf = policies::find("edf").expect("it is registered");
    let cpus = host.world().cpus().len();
    let made = Dispatcher::new(daemon.clone(), table, edf, &terms::knobs(edf), cpus, RaiseBy::Inheritance);
    let reservation = Reservation::new(Nanos::ms(1), Nanos::ms(10));
    let request = PromiseRequest { name: "client".into(), reservation, cpus: 1, affinity: CpuSet::ALL };
    made.unwrap().admit(&request, pid, &[daemon.pid()]).map(drop)
}

#[test]
fn a_privileged_daemon_of_a_user_serves_only_processes_of_this_user() {
    let host = SimulatedKernel::new(&Settings::new(policies::find("linux").expect("it is registered"), 1)).unwrap();
    let start = |id| host.world_mut().start("process", user(id), Workload::Hog).unwrap();
    let [own, other, of_root] = [1000, 1001, 0].map(start);
    let daemon = host.begin("daemon", user(1000));
    // File capabilities permit changes of all processes.
    host.world_mut().give_to(daemon.pid(), user(1000), true);
    assert!(admit(&host, &daemon, own).is_ok());
    for (pid, id) in [(other, 1001), (of_root, 0)] {
        let refused = admit(&host, &daemon, pid).unwrap_err();
        assert!(matches!(refused, Refusal::Foreign { user, .. } if user == id), "{refused}");
        assert!(refused.to_string().ends_with("; run tactus as that user, or as root"), "{refused}");
        assert!(host.world().differences().is_empty());
    }
    let root = host.begin("daemon", user(0));
    assert!(admit(&host, &root, other).is_ok());
}
