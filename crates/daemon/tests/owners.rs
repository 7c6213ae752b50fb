//! A process of another user is neither served nor restored, even if the kernel would permit its changes.

use daemon::dispatch::{Dispatcher, PromiseRequest, Refusal};
use daemon::kernel::Kernel;
use daemon::restore::{End, restore_at_once};
use daemon::table::{Entry, Original, Table};
use daemon::terms;
use sched::{CpuId, CpuSet, Nanos, Reservation};
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
    let policy = policies::find(daemon::terms::POLICY).expect("it is registered");
    let cpus = host.world().cpus().len();
    let made = Dispatcher::new(daemon.clone(), table, policy, &terms::knobs(policy), cpus);
    let reservation = Reservation::new(Nanos::ms(1), Nanos::ms(10));
    let request = PromiseRequest::new("client", reservation);
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

#[test]
fn a_restore_of_a_user_changes_no_thread_of_another_user() {
    let host = SimulatedKernel::new(&Settings::new(policies::find("linux").expect("it is registered"), 2)).unwrap();
    let start = |id| host.world_mut().start("process", user(id), Workload::Hog).unwrap();
    let [own, listed, leader] = [1000, 0, 0].map(start);
    let (root, other) = (host.begin("root", user(0)), host.begin("daemon", user(1000)));
    // File capabilities permit changes of all processes.
    host.world_mut().give_to(other.pid(), user(1000), true);
    let confined = CpuSet::one(CpuId::new(0));
    for tid in [own, listed, leader] {
        root.set_affinity(&root.open(tid).unwrap(), &confined).unwrap();
    }
    let memory = Memory::new(Table::words(8));
    let me = Identity { tid: other.pid(), start_time: 0 };
    let table = Table::create(Box::new(other.map(&memory)), "boot", me);
    let identity = |tid| root.identity(&root.open(tid).unwrap());
    let original = Original { attributes: None, affinity: CpuSet::first_n(2), follows_cpuset: false };
    // The second row names the process of the root user as the process of the user's thread.
    for (thread, process) in [(listed, listed), (own, leader)] {
        let entry = Entry { thread: identity(thread), leader: identity(process), original, confined, reserved: None };
        table.record(&entry).unwrap();
    }
    let restored = restore_at_once(&other, &table);
    let affinity = |tid| root.affinity(&root.open(tid).unwrap()).unwrap();
    assert_eq!([own, listed, leader].map(affinity), [CpuSet::first_n(2), confined, confined], "{restored}");
    assert_eq!((restored.count(End::Failed), restored.is_settled()), (2, false));
    let why = restored.threads[0].failures().next().unwrap().to_string();
    assert!(why.contains(&format!("thread {listed} belongs to user 0, and the table to user 1000")), "{why}");
    assert_eq!(restore_at_once(&root, &table).count(End::Failed), 0);
    assert_eq!([own, listed, leader].map(affinity), [CpuSet::first_n(2); 3]);
}
