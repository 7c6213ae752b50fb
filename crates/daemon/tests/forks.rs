//! Tests of forks that begin before the forking thread is restored and end afterwards, on a simulated host.

use daemon::dispatch::{
    Dispatcher, Enclosure, KeptBy, PromiseRequest, RaiseBy, Refusal, Signals, THREADS_MOST, enclose, find,
    release_groups, scan, scan_beating,
};
use daemon::kernel::{Kernel, priority};
use daemon::restore::{PATIENCE, Restored, Restoring, restore, restore_beating};
use daemon::table::{Entry, Original, Table};
use sched::{CpuId, CpuSet, Instant, Nanos, Reservation};
use sim::{Periodic, Workload};
use simhost::{Caller, Kind, Memory, Setting, Settings, SimulatedKernel};
use std::cell::Cell;
use std::sync::Arc;
use sys::attributes::{Attributes, Policy};
use sys::thread::Owner;

const ROOT: Owner = Owner { real: 0, effective: 0 };
const USER: Owner = Owner { real: 1000, effective: 1000 };
const CPU: CpuId = CpuId::new(0);
const WAS: Policy = Policy::Other { nice: 5 };

/// A host with two CPUs and four hogs, and a daemon with a table.
struct Scene {
    host: SimulatedKernel,
    daemon: Caller,
    table: Arc<Table>,
}

impl Scene {
    fn new() -> Scene {
        let linux = policies::find("linux").expect("it is registered");
        let settings = Settings { numbers: 2 * THREADS_MOST as u32, ..Settings::new(linux, 2) };
        let host = SimulatedKernel::new(&settings).expect("linux works everywhere");
        for _ in 0..4 {
            host.world_mut().start("hog", USER, Workload::Hog).expect("numbers are free");
        }
        let daemon = host.begin("daemon", ROOT);
        let me = daemon.identity(&daemon.open(daemon.pid()).unwrap());
        let table = Table::create(Box::new(daemon.map(&Memory::new(Table::words(THREADS_MOST)))), "boot", me);
        Scene { host, daemon, table: Arc::new(table) }
    }

    fn pass(&self, time: Nanos) {
        let end = self.host.world().now() + time;
        assert_eq!(self.host.run_until(end), None, "no actor has a turn");
    }

    fn begin(&self, policy: Policy, workload: Workload) -> u32 {
        let client = self.host.world_mut().start("client", USER, workload).expect("numbers are free");
        self.host.world_mut().reschedule(client, Attributes::of(policy));
        client
    }

    /// Starts a client, records it in the table, raises it and confines it to one CPU. Returns its pid.
    fn raised(&self, policy: Policy, workload: Workload) -> u32 {
        let client = self.begin(policy, workload);
        let held = self.daemon.open(client).unwrap();
        let (thread, confined) = (self.daemon.identity(&held), CpuSet::one(CPU));
        let original = Original {
            attributes: Some(self.daemon.attributes(&held).unwrap()),
            affinity: self.daemon.affinity(&held).unwrap(),
            follows_cpuset: true,
        };
        self.table.record(&Entry { thread, leader: thread, original, confined, reserved: None }).unwrap();
        self.daemon.set_affinity(&held, &confined).unwrap();
        self.daemon.schedule(&held, Attributes::raised(priority::RAISED)).unwrap();
        self.pass(Nanos::us(100));
        client
    }

    /// Returns a dispatcher, and a request for a tenth of a CPU.
    fn dispatcher(&self) -> (Dispatcher<Caller>, PromiseRequest) {
        let policy = policies::find(daemon::terms::POLICY).expect("it is registered");
        let table = Arc::clone(&self.table);
        let dispatcher = Dispatcher::new(self.daemon.clone(), table, policy, &daemon::terms::knobs(policy), 2).unwrap();
        let reservation = Reservation::new(Nanos::ms(1), Nanos::ms(10));
        (dispatcher, PromiseRequest { affinity: CpuSet::one(CPU), ..PromiseRequest::new("client", reservation) })
    }

    fn fork(&self, parent: u32, kind: Kind, takes: Nanos) {
        self.host.world_mut().begin_birth(parent, kind, Workload::Hog, takes);
    }

    fn restore(&self) -> Restored {
        restore(&self.daemon, &self.table, |rest| self.pass(rest))
    }

    /// Returns whether every thread has the values of a run without Tactus.
    fn is_as_before(&self) -> bool {
        self.host.world().differences().is_empty()
    }
}

#[test]
fn a_child_whose_fork_outlasts_restoring_gets_the_values_it_would_have_inherited() {
    for kind in [Kind::Process, Kind::Thread] {
        for patient in [false, true] {
            let scene = Scene::new();
            let client = scene.raised(WAS, Workload::Hog);
            scene.fork(client, kind, Nanos::ms(3));
            let mut first = Restoring::begin(&scene.daemon, &scene.table, |_| true);
            first.look(&scene.daemon, &scene.table);
            assert!(first.pause().is_some() && !first.is_over() && scene.is_as_before());
            assert!(scene.host.world().is_forking(client));
            let restored = if patient { scene.restore() } else { first.end() };
            scene.pass(Nanos::ms(300));
            assert!(!scene.host.world().is_forking(client) && restored.is_settled());
            // Without waiting, the restoration finds only the parent. The outcome reports the parent as unsure, and the
            // child is not restored.
            assert_eq!((restored.threads.len(), restored.unsure.len()), if patient { (2, 0) } else { (1, 1) });
            assert_eq!((scene.is_as_before(), restored.doubt().is_none()), (patient, patient), "{restored}");
        }
    }
}

#[test]
fn a_newborn_that_is_forking_itself_is_waited_for() {
    let scene = Scene::new();
    let client = scene.raised(WAS, Workload::Hog);
    scene.host.world_mut().fork(client, Workload::Hog).unwrap();
    let child = scene.host.world().children_of(client)[0];
    let held = scene.daemon.open(client).unwrap();
    scene.daemon.schedule(&held, Attributes::of(WAS)).unwrap();
    while !scene.host.world().is_runnable(child) || scene.host.world().running(CPU) != Some(child) {
        scene.pass(Nanos::us(500));
    }
    scene.fork(child, Kind::Process, Nanos::ms(4));
    let restored = scene.restore();
    assert_eq!((restored.threads.len(), restored.unsure.len()), (3, 0), "{restored}");
    assert!(scene.is_as_before());
}

#[test]
fn a_sleeping_or_stopped_thread_is_in_no_fork_and_is_not_waited_for() {
    let scene = Scene::new();
    let [_, stopped] = [scene.raised(WAS, Workload::Scripted), scene.raised(WAS, Workload::Hog)];
    scene.host.world_mut().stop(stopped);
    let pause = |_| panic!("restoring must not wait");
    let restored = restore(&scene.daemon, &scene.table, pause);
    // The thread stays stopped, because another process has stopped it.
    assert_eq!((restored.threads.len(), restored.unsure.len()), (2, 0));
    assert!(restored.is_settled() && scene.is_as_before());
}

#[test]
fn a_thread_in_uninterruptible_sleep_may_be_in_a_fork() {
    let scene = Scene::new();
    let job = Periodic::new(Nanos::ms(20), Nanos::ms(1));
    let client = scene.raised(WAS, Workload::Periodic(job));
    scene.fork(client, Kind::Process, Nanos::us(1_500));
    while scene.host.world().is_runnable(client) {
        scene.pass(Nanos::us(100));
    }
    let held = scene.daemon.open(client).unwrap();
    assert_eq!(scene.daemon.status(&held).unwrap().state, sys::thread::State::Uninterruptible);
    let restored = scene.restore();
    assert_eq!((restored.threads.len(), restored.unsure.len()), (2, 0), "{restored}");
    assert!(scene.is_as_before());
}

#[test]
fn a_thread_without_a_cpu_is_waited_for_up_to_a_limit_and_counts_as_no_failure() {
    let scene = Scene::new();
    let client = scene.raised(Policy::Idle, Workload::Hog);
    scene.fork(client, Kind::Process, Nanos::ms(5));
    let begin = scene.host.world().now();
    let restored = scene.restore();
    let took = scene.host.world().now().since(begin);
    assert!(took >= PATIENCE && took < PATIENCE + Nanos::ms(5), "{took}");
    assert_eq!(restored.unsure.iter().map(|it| it.tid).collect::<Vec<u32>>(), [client]);
    assert!(restored.is_settled() && scene.is_as_before());
    assert!(restored.to_string().ends_with("1 thread had no CPU time to finish a fork"), "{restored}");
}

#[test]
fn a_dismissed_client_stays_in_the_table_until_it_cannot_be_in_a_fork() {
    let scene = Scene::new();
    let policy = policies::find(daemon::terms::POLICY).expect("it is registered");
    let mut knobs = policy.defaults();
    for (name, value) in daemon::terms::WORDS {
        knobs.set_word(name, value).unwrap();
    }
    let table = Arc::clone(&scene.table);
    let mut dispatcher = Dispatcher::new(scene.daemon.clone(), table, policy, &knobs, 2).unwrap();
    let client = scene.begin(WAS, Workload::Hog);
    let before: Setting = scene.host.world().setting(client).unwrap();
    let reservation = Reservation::new(Nanos::ms(2), Nanos::ms(10));
    let by = KeptBy::Dispatcher(RaiseBy::Attributes);
    let request = PromiseRequest { by, affinity: CpuSet::one(CPU), ..PromiseRequest::new("client", reservation) };
    let (entities, _) = dispatcher.admit(&request, client, &[scene.daemon.pid()]).unwrap();
    let _ = dispatcher.turn(CPU, Signals::default());
    while scene.host.world().running(CPU) != Some(client) {
        scene.pass(Nanos::us(100));
    }
    assert!(!dispatcher.has_leaving() && !dispatcher.is_leaving(client));
    scene.fork(client, Kind::Process, Nanos::ms(3));
    let _ = dispatcher.dismiss(entities[0]);
    assert!(scene.is_as_before() && scene.table.entries().len() == 1);
    assert!(dispatcher.has_leaving() && dispatcher.is_leaving(client) && !dispatcher.is_leaving(scene.daemon.pid()));
    let begin: Instant = scene.host.world().now();
    while dispatcher.has_leaving() {
        let mut leaving = dispatcher.take_leaving();
        assert_eq!((leaving.len(), dispatcher.take_leaving().len(), dispatcher.is_leaving(client)), (1, 0, true));
        leaving.iter_mut().for_each(|(_, restoring)| restoring.look(&scene.daemon, &scene.table));
        if let Some(rest) = dispatcher.keep_leaving(leaving) {
            scene.pass(rest);
        }
    }
    assert!(scene.host.world().now() < begin + PATIENCE);
    assert!(scene.table.entries().is_empty() && !dispatcher.is_leaving(client));
    let child = scene.host.world().children_of(client)[0];
    assert_eq!(scene.host.world().setting(child), Some(before));
    assert!(scene.is_as_before());
}

#[test]
fn a_promise_is_made_to_the_processes_of_an_earlier_scan() {
    let scene = Scene::new();
    let ours = [scene.daemon.pid()];
    let client = scene.begin(WAS, Workload::Hog);
    let scanned = scan(&scene.daemon, client);
    assert!(scanned.is_some() && scan(&scene.daemon, 1_999).is_none());
    let child = scene.host.world_mut().fork(client, Workload::Hog).expect("numbers are free");
    let (mut dispatcher, request) = scene.dispatcher();
    let admission = dispatcher.admit_scanned(&request, client, &ours, scanned, Enclosure::none()).unwrap();
    assert!(dispatcher.known().is_empty(), "the keeper scans once the threads of the earlier scan are adopted");
    while dispatcher.adopt_further(admission.tree, 1).unwrap().is_some() {}
    let threads = || scene.table.entries().iter().map(|(_, entry)| entry.thread.tid).collect::<Vec<u32>>();
    assert_eq!(threads(), [client]);
    // The keeper finds the child.
    let known = dispatcher.known().remove(0);
    dispatcher.adopt(known.tree, find(&scene.daemon, &known)).unwrap();
    assert_eq!(threads(), [client, child]);

    // The result of a scan of another process is ignored.
    let scene = Scene::new();
    let other = scene.begin(WAS, Workload::Hog);
    let client = scene.begin(WAS, Workload::Hog);
    let (mut dispatcher, request) = scene.dispatcher();
    dispatcher.admit_scanned(&request, client, &ours, scan(&scene.daemon, other), Enclosure::none()).unwrap();
    assert_eq!(scene.table.entries()[0].1.thread.tid, client);
}

/// Calls `act` with a beat. Returns the number of beats.
fn beats_during(act: impl FnOnce(&dyn Fn())) -> usize {
    let beats = Cell::new(0);
    act(&|| beats.set(beats.get() + 1));
    beats.get()
}

#[test]
fn scans_moves_to_a_group_and_restorations_beat_at_each_process() {
    const PROCESSES: usize = 20;
    let scene = Scene::new();
    let parent = scene.raised(WAS, Workload::Hog);
    for _ in 1..PROCESSES {
        scene.host.world_mut().fork(parent, Workload::Hog).expect("numbers are free");
    }
    let mut rows = Vec::new();
    let scanning = beats_during(|beat| drop(scan_beating(&scene.daemon, parent, beat)));
    let enclosing = beats_during(|beat| {
        rows = enclose(&scene.daemon, &scene.table, parent, beat).expect("it can be frozen").rows()
    });
    let releasing = beats_during(|beat| release_groups(&scene.daemon, &scene.table, &rows, beat));
    let restoring = beats_during(|beat| {
        let restored = restore_beating(&scene.daemon, &scene.table, |rest| scene.pass(rest), beat);
        assert!(restored.is_settled(), "{restored}");
    });
    for (beats, what) in [(scanning, "scan"), (enclosing, "enclose"), (restoring, "restore")] {
        assert!(beats >= PROCESSES, "{what}: {beats}");
    }
    assert!(releasing > 0 && scene.is_as_before());
}

#[test]
fn the_threads_of_an_admission_are_adopted_even_if_one_of_its_clients_is_dismissed_between_two_steps() {
    const THREADS: usize = 6;
    for dismissed in [&[0_usize][..], &[1], &[0, 1]] {
        let scene = Scene::new();
        let client = scene.begin(WAS, Workload::Hog);
        for _ in 1..THREADS {
            scene.host.world_mut().clone_thread(client, Workload::Hog).expect("numbers are free");
        }
        let (mut dispatcher, request) = scene.dispatcher();
        let request = PromiseRequest { affinity: CpuSet::ALL, cpus: 2, ..request };
        let ours = [scene.daemon.pid()];
        let scanned = scan(&scene.daemon, client);
        let admission = dispatcher.admit_scanned(&request, client, &ours, scanned, Enclosure::none()).unwrap();
        assert_eq!(admission.entities.len(), 2);
        dispatcher.adopt_further(admission.tree, 1).unwrap().expect("threads are left");
        for &nth in dismissed {
            let _: CpuSet = dispatcher.dismiss(admission.entities[nth]);
        }
        while dispatcher.adopt_further(admission.tree, 1).unwrap().is_some() {}
        let goes_on = dismissed.len() < admission.entities.len();
        assert_eq!(dispatcher.known().len(), usize::from(goes_on));
        // A thread that the dismissed client had is not adopted again.
        let adopted = dispatcher.known().first().map_or(0, |known| known.threads.len());
        assert!(if goes_on { adopted >= THREADS - 1 } else { adopted == 0 }, "{dismissed:?}: {adopted}");
    }
}

#[test]
fn a_process_with_too_many_threads_is_refused_and_a_client_that_gets_too_many_is_dismissed() {
    let scene = Scene::new();
    let ours = [scene.daemon.pid()];
    let client = scene.begin(WAS, Workload::Scripted);
    let begin = |count: usize| {
        for _ in 0..count {
            scene.host.world_mut().clone_thread(client, Workload::Scripted).expect("numbers are free");
        }
    };
    begin(THREADS_MOST);
    let (mut dispatcher, request) = scene.dispatcher();
    let refused = dispatcher.admit(&request, client, &ours);
    assert!(matches!(refused, Err(Refusal::TooManyThreads { most: THREADS_MOST })), "{refused:?}");
    assert!(scene.table.entries().is_empty() && scene.is_as_before());

    let last = scene.host.world().threads_of(client)[THREADS_MOST];
    scene.host.world_mut().exit(last);
    dispatcher.admit(&request, client, &ours).expect("it is the largest number of threads");
    assert_eq!(scene.table.entries().len(), THREADS_MOST);
    begin(1);
    let known = dispatcher.known().remove(0);
    let refused = dispatcher.adopt(known.tree, find(&scene.daemon, &known));
    assert!(matches!(refused, Err(Refusal::TooManyThreads { .. })), "{refused:?}");
    let _ = dispatcher.turn(CPU, Signals::default());
    let dismissed = dispatcher.take_dismissed();
    let reason = dismissed[0].trouble.as_ref().expect("it has a reason").reason.clone();
    assert_eq!(reason, "the process and its descendants have more than 1024 threads");
    // The thread that was not adopted is found by its parent.
    let mut leaving = dispatcher.take_leaving();
    leaving.iter_mut().for_each(|(_, restoring)| restoring.look(&scene.daemon, &scene.table));
    dispatcher.keep_leaving(leaving);
    assert!(scene.is_as_before());
}
