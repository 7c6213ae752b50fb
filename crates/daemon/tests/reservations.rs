//! Promises that the kernel keeps by SCHED_DEADLINE, on a simulated host.

use daemon::Explanation;
use daemon::dispatch::{KernelKept, PromiseRequest, Promises, Refusal, scan};
use daemon::kernel::Kernel;
use daemon::restore::restore;
use daemon::table::{Reserved, Table};
use sched::{CpuId, CpuSet, EntityId, Limit, Nanos, Reservation};
use sim::Workload;
use simhost::{Caller, Fault, Memory, Settings, SimulatedKernel};
use std::sync::Arc;
use sys::attributes::{Attributes, Policy};
use sys::thread::Owner;
use trace::Event;

const ROOT: Owner = Owner { real: 0, effective: 0 };
const USER: Owner = Owner { real: 1000, effective: 1000 };
/// The attributes of a client, which the kernel does not give to the children of a reserved thread.
const WAS: Policy = Policy::Batch { nice: 7 };

/// A host with hogs and a daemon.
struct Scene {
    host: SimulatedKernel,
    daemon: Caller,
    memory: Memory,
    table: Arc<Table>,
    kept: KernelKept<Caller>,
    warnings: Vec<Explanation>,
}

impl Scene {
    fn new(cpus: usize) -> Scene {
        let linux = policies::find("linux").expect("it is registered");
        let host = SimulatedKernel::new(&Settings::new(linux, cpus)).expect("linux works everywhere");
        for _ in 0..=cpus {
            host.world_mut().start("hog", USER, Workload::Hog).expect("numbers are free");
        }
        let daemon = host.begin("daemon", ROOT);
        let me = daemon.identity(&daemon.open(daemon.pid()).unwrap());
        let memory = Memory::new(Table::words(16));
        let table = Arc::new(Table::create(Box::new(daemon.map(&memory)), "boot", me));
        let policy = policies::find(daemon::terms::DEADLINE_POLICY).expect("it is registered");
        let mut knobs = policy.defaults();
        knobs.set_word("placement", "global").unwrap();
        let kept = KernelKept::new(daemon.clone(), Arc::clone(&table), policy, &knobs, cpus, daemon.now(), Nanos::ZERO)
            .unwrap();
        Scene { host, daemon, memory, table, kept, warnings: Vec::new() }
    }

    /// Starts a process that is always busy.
    fn client(&self) -> u32 {
        let client = self.host.world_mut().start("client", USER, Workload::Hog).expect("numbers are free");
        self.host.world_mut().reschedule(client, Attributes::of(WAS));
        client
    }

    fn admit(&mut self, request: &PromiseRequest, pid: u32) -> Result<Vec<EntityId>, Refusal> {
        let would = self.kept.would_admit(request, pid, &[self.daemon.pid()], None);
        let did = self.kept.admit(request, pid, &[self.daemon.pid()], None);
        // The kernel may refuse what fits, or the host may stop the daemon.
        let agree = if would.is_ok() { !matches!(did, Err(Refusal::NoRoom(_))) } else { did.is_err() };
        assert!(agree, "{request:?}: {would:?}, and then {did:?}");
        did
    }

    /// Changes a promise, after a question whether it would be changed.
    fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let would = self.kept.would_adjust(e, slice, period);
        let (did, _) = self.kept.adjust(e, slice, period);
        let agree = if would.is_ok() { !matches!(did, Err(Refusal::NoRoom(_))) } else { did.is_err() };
        assert!(agree, "{slice} in {period}: {would:?}, and then {did:?}");
        did
    }

    /// Asserts that a request is refused with `words`, and that nothing has changed.
    fn assert_refused(&mut self, request: &PromiseRequest, pid: u32, words: &[&str]) {
        let refused = self.admit(request, pid).unwrap_err().to_string();
        assert!(words.iter().all(|word| refused.contains(word)), "{words:?} are not in {refused:?}");
        assert!(self.table.entries().is_empty() && self.host.world().differences().is_empty(), "{refused}");
    }

    /// Lets time pass, and observes the threads as the keeper does.
    fn pass(&mut self, time: Nanos) {
        let end = self.host.world().now() + time;
        while self.host.world().now() < end {
            for (promise, root) in self.kept.trees() {
                let scanned = scan(&self.daemon, root);
                scanned.iter().for_each(|scanned| self.kept.adopt(promise, scanned));
            }
            let (next, warnings) = self.kept.observe();
            self.warnings.extend(warnings);
            let step = next.min(end).max(self.host.world().now() + Nanos::us(1));
            assert_eq!(self.host.run_until(step), None, "no actor has a turn");
        }
    }

    /// Returns the CPU time of thread `tid` in the next `time`.
    fn ran(&mut self, tid: u32, time: Nanos) -> Nanos {
        let before = self.host.world().had(tid).0;
        self.pass(time);
        self.host.world().had(tid).0 - before
    }

    fn policy(&self, tid: u32) -> Policy {
        self.host.world().setting(tid).unwrap().attributes.policy
    }

    fn is_as_before(&self) -> bool {
        self.host.world().differences().is_empty()
    }

    /// Continues the restorations of dismissed clients until they are over.
    fn finish_dismissals(&mut self) {
        for _ in 0..100 {
            let mut leaving = self.kept.take_leaving();
            leaving.iter_mut().for_each(|(_, restoring)| restoring.look(&self.daemon, &self.table));
            if self.kept.keep_leaving(leaving).is_none() {
                break;
            }
            self.pass(Nanos::ms(10));
        }
        assert!(!self.kept.has_leaving() && self.table.entries().is_empty());
    }

    /// Restores all threads from the table as a guardian does. Returns whether all threads are as without Tactus.
    fn restore_as_guardian(&self) -> bool {
        let guardian = self.host.begin("guardian", ROOT);
        let table = Table::open(Box::new(guardian.map(&self.memory))).unwrap();
        let restored = restore(&guardian, &table, |rest| {
            let end = self.host.world().now() + rest;
            assert_eq!(self.host.run_until(end), None);
        });
        restored.is_settled() && self.is_as_before()
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        assert_eq!(self.kept.read_journal(&mut events), 0);
        events.into_iter().map(|(_, event)| event).collect()
    }
}

fn request(slice_ms: u64, period_ms: u64) -> PromiseRequest {
    let reservation = Reservation::new(Nanos::ms(slice_ms), Nanos::ms(period_ms));
    PromiseRequest::new("client", reservation)
}

#[test]
fn a_reserved_thread_receives_its_slice_beside_hogs_and_is_restored() {
    let mut scene = Scene::new(2);
    let client = scene.client();
    scene.host.world_mut().set_slack(client, Nanos::us(7));
    let entity = scene.admit(&request(2, 10), client).unwrap()[0];
    let row = scene.table.entries()[0].1;
    let wanted = Reserved { slice: Nanos::ms(2), period: Nanos::ms(10), slack: Nanos::us(7) };
    assert_eq!(row.reserved, Some(wanted));
    assert!(row.confined.is_empty() && row.original.attributes == Some(Attributes::of(WAS)));
    let ran = scene.ran(client, Nanos::s(2));
    assert!((Nanos::ms(380)..=Nanos::ms(420)).contains(&ran), "a fifth of two seconds, within 2 points: {ran}");
    scene.kept.dismiss(entity);
    assert_eq!((scene.policy(client), scene.host.world().slack(client)), (WAS, Some(Nanos::us(7))));
    scene.finish_dismissals();
    assert!(scene.is_as_before());
    let events = scene.events();
    let judged = |event: &&Event| matches!(event, Event::Period { throughout: true, .. });
    let missed =
        |event: &&Event| matches!(event, Event::Period { due, delivered, throughout: true, .. } if delivered < due);
    let (judged, missed) = (events.iter().filter(judged).count(), events.iter().filter(missed).count());
    assert!(judged > 180 && missed == 0, "{missed} of {judged} periods are missed");
    let time: Nanos = events.iter().fold(Nanos::ZERO, |sum, event| match event {
        Event::Background { time, .. } => sum + *time,
        _ => sum,
    });
    assert_eq!(time, ran, "the events have all CPU time");
}

#[test]
fn a_dead_daemon_leaves_a_table_from_which_the_thread_is_restored() {
    let mut scene = Scene::new(1);
    let client = scene.client();
    scene.host.world_mut().set_slack(client, Nanos::us(7));
    scene.admit(&request(5, 10), client).unwrap();
    assert_eq!(scene.host.world().slack(client), Some(Nanos::ZERO));
    scene.host.world_mut().fork(client, Workload::Hog).unwrap();
    scene.host.world_mut().kill(scene.daemon.pid());
    let guardian = scene.host.begin("guardian", ROOT);
    let restored = restore(&guardian, &scene.table, |rest| {
        let end = scene.host.world().now() + rest;
        assert_eq!(scene.host.run_until(end), None);
    });
    assert!(restored.is_settled() && restored.threads.len() == 2, "the thread and its child: {restored}");
    assert_eq!(scene.host.world().slack(client), Some(Nanos::us(7)));
    assert!(scene.is_as_before());
}

/// A daemon that admits, changes, suspends and ends a promise crashes at each of its acts in turn.
#[test]
fn a_crash_in_place_of_any_act_leaves_no_reservation_behind() {
    let mut crashes = 0;
    for act in 0.. {
        let mut scene = Scene::new(1);
        let client = scene.client();
        scene.host.world_mut().set_slack(client, Nanos::us(7));
        let first = scene.daemon.acts();
        scene.daemon.fails_at(first + act, Fault::Crash);
        if let Ok(entities) = scene.admit(&request(2, 10), client) {
            scene.pass(Nanos::ms(30));
            scene.host.world_mut().fork(client, Workload::Hog).unwrap();
            scene.pass(Nanos::ms(10));
            let _ = scene.kept.adjust(entities[0], Nanos::ms(4), Nanos::ms(20));
            scene.kept.suspend();
            scene.kept.resume();
            scene.pass(Nanos::ms(30));
            scene.kept.dismiss_all();
        }
        let has_failed = scene.daemon.fault().is_some();
        scene.host.world_mut().apply_faults();
        assert!(scene.restore_as_guardian(), "act {act}: {:?}", scene.host.world().differences());
        assert_eq!(scene.host.world().slack(client), Some(Nanos::us(7)), "act {act}");
        if !has_failed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 100, "the daemon crashed {crashes} times");
}

#[test]
fn a_request_that_the_kernel_cannot_keep_is_refused_with_the_remedy() {
    let mut scene = Scene::new(2);
    let client = scene.client();
    // A thread runs on one CPU at a time, although two CPUs are free.
    scene.assert_refused(
        &request(95, 100),
        client,
        &["95.00 % of a CPU, but only 90.00 %", "at most 90ms every 100ms"],
    );
    let hard = Reservation { limit: Limit::Hard, ..request(2, 10).reservation };
    scene.assert_refused(
        &PromiseRequest { reservation: hard, ..request(2, 10) },
        client,
        &["limits the reserved threads only", "leave out `--hard`, or use `--mechanism inherit`"],
    );
    scene.assert_refused(&request(1, 5_000), client, &["the period (5s) is too long", "at most 4.194304s"]);
    let first = CpuSet::one(CpuId::new(0));
    scene.assert_refused(
        &PromiseRequest { affinity: first, ..request(2, 10) },
        client,
        &["excludes CPUs 1", "leave out `--affinity`"],
    );
    scene.assert_refused(
        &PromiseRequest { cpus: 2, ..request(2, 10) },
        client,
        &["one thread, which runs on one CPU at a time", "leave out `--cpus`"],
    );
    scene.host.world_mut().move_to(client, &first);
    scene.assert_refused(&request(2, 10), client, &["may run on CPUs 0 only", "taskset --cpu-list --pid 0-1"]);
    let threaded = scene.client();
    scene.host.world_mut().clone_thread(threaded, Workload::Hog).unwrap();
    scene.assert_refused(&request(2, 10), threaded, &["have 2 threads", "--mechanism inherit"]);
}

#[test]
fn a_refusal_of_the_kernel_changes_nothing() {
    let mut scene = Scene::new(1);
    let (other, client) = (scene.client(), scene.client());
    scene.host.world_mut().reschedule(other, Attributes::reserved(Nanos::ms(60), Nanos::ms(100)));
    scene.assert_refused(&request(4, 10), client, &["SCHED_DEADLINE has reserved too much already"]);
    scene.assert_refused(&request(1, 10), other, &["has a reservation already", "chrt --other"]);
    let entity = scene.admit(&request(3, 10), client).unwrap()[0];
    let answer = scene.adjust(entity, Nanos::ms(4), Nanos::ms(10));
    assert!(answer.unwrap_err().to_string().contains("has reserved too much already"));
    assert!(scene.table.entries().len() == 1 && scene.adjust(entity, Nanos::ms(2), Nanos::ms(10)).is_ok());
}

#[test]
fn the_promises_share_all_cpus_and_a_refusal_names_them() {
    let mut scene = Scene::new(2);
    let clients = [scene.client(), scene.client(), scene.client()];
    let named = |name: &str, slice| PromiseRequest { name: name.into(), ..request(slice, 10) };
    scene.admit(&named("web", 8), clients[0]).unwrap();
    scene.admit(&named("db", 6), clients[1]).unwrap();
    let why = scene.admit(&named("new", 5), clients[2]).unwrap_err().reason();
    assert_eq!(
        why.reason,
        "5ms every 10ms is 50.00 % of a CPU, but only 40.00 % can still be promised; the CPUs are promised to web 80.00 % \
         and db 60.00 %"
    );
    assert_eq!(
        why.remedy,
        "use at most 4ms every 10ms or a period of at least 12.5ms; or end the promise to web or db"
    );
    assert_eq!(scene.table.entries().len(), 2);
    scene.admit(&named("new", 4), clients[2]).unwrap();
    for (client, slice) in clients.into_iter().zip([8, 6, 4]) {
        let had = scene.host.world().had(client).0;
        scene.pass(Nanos::s(1));
        let ran = scene.host.world().had(client).0 - had;
        assert!(ran >= Nanos::ms(slice * 100 - 20), "{slice} ms in every 10 ms, and not {ran} in a second");
    }
}

#[test]
fn the_values_of_another_process_end_the_promise_and_stay() {
    let mut scene = Scene::new(1);
    let client = scene.client();
    scene.admit(&request(2, 10), client).unwrap();
    scene.pass(Nanos::ms(100));
    scene.host.world_mut().reschedule(client, Attributes::of(Policy::RoundRobin { priority: 3 }));
    scene.pass(Nanos::ms(100));
    let left = scene.kept.take_dismissed();
    let why = left[0].trouble.as_ref().unwrap();
    assert!(why.reason.contains(&format!("another process has made thread {client} SCHED_RR 3")), "{why}");
    assert!(scene.table.entries().is_empty() && !scene.kept.has_leaving());
    assert_eq!(scene.policy(client), Policy::RoundRobin { priority: 3 });
    assert!(scene.is_as_before());
}

#[test]
fn a_changed_promise_takes_effect_in_place() {
    let mut scene = Scene::new(1);
    let client = scene.client();
    let entity = scene.admit(&request(2, 10), client).unwrap()[0];
    scene.pass(Nanos::ms(100));
    assert!(scene.adjust(entity, Nanos::ms(10), Nanos::ms(20)).is_ok());
    assert_eq!(
        scene.host.world().setting(client).unwrap().attributes,
        Attributes::reserved(Nanos::ms(10), Nanos::ms(20))
    );
    let ran = scene.ran(client, Nanos::s(1));
    assert!((Nanos::ms(480)..=Nanos::ms(520)).contains(&ran), "{ran}");
    let answer = scene.adjust(entity, Nanos::ms(19), Nanos::ms(20));
    let refused = answer.unwrap_err().to_string();
    assert!(refused.contains("use at most 18ms every 20ms"), "its own part counts as free: {refused}");
    let row = scene.table.entries();
    assert_eq!((row.len(), row[0].1.reserved.unwrap().slice), (1, Nanos::ms(10)));
    scene.kept.dismiss_all();
    scene.finish_dismissals();
    assert!(scene.is_as_before());
}

#[test]
fn children_have_the_attributes_that_they_would_have_inherited() {
    let mut scene = Scene::new(1);
    let client = scene.client();
    scene.admit(&request(2, 10), client).unwrap();
    let child = scene.host.world_mut().fork(client, Workload::Hog).unwrap();
    assert_eq!(scene.policy(child), Policy::Other { nice: 0 }, "the kernel resets it");
    scene.pass(Nanos::ms(50));
    assert_eq!(scene.policy(child), WAS);
    assert_eq!(scene.warnings.len(), 1);
    assert!(scene.warnings[0].reason.contains(&format!("client has started thread {child}")), "{:?}", scene.warnings);
    // A child that started just before the end of the promise is found afterwards.
    scene.host.world_mut().fork(client, Workload::Hog).unwrap();
    scene.kept.dismiss_all();
    scene.finish_dismissals();
    assert!(scene.is_as_before());
}

#[test]
fn the_vcpus_of_a_vm_are_reserved_and_its_other_threads_are_not() {
    let mut scene = Scene::new(2);
    let vm = scene.client();
    let vcpus = [0, 1].map(|nth| {
        let tid = scene.host.world_mut().clone_thread(vm, Workload::Hog).unwrap();
        scene.host.world_mut().rename(tid, &format!("CPU {nth}/KVM"));
        tid
    });
    scene.assert_refused(&request(4, 10), vm, &["has 2 vCPUs, and the promise is for 1 CPUs", "`--cpus 2`"]);
    let entities = scene.admit(&PromiseRequest { cpus: 2, ..request(10, 10) }, vm).unwrap();
    assert_eq!((entities.len(), scene.policy(vm)), (2, WAS));
    for vcpu in vcpus {
        assert_eq!(
            scene.host.world().setting(vcpu).unwrap().attributes,
            Attributes::reserved(Nanos::ms(5), Nanos::ms(10))
        );
    }
    scene.kept.dismiss_all();
    scene.finish_dismissals();
    assert!(scene.is_as_before());
}

#[test]
fn without_a_guardian_no_thread_is_reserved() {
    let mut scene = Scene::new(1);
    let client = scene.client();
    scene.admit(&request(2, 10), client).unwrap();
    scene.kept.suspend();
    let later = scene.client();
    scene.admit(&request(3, 10), later).unwrap();
    scene.pass(Nanos::ms(50));
    assert!(scene.is_as_before() && scene.table.entries().len() == 2);
    scene.kept.resume();
    assert_eq!(
        scene.host.world().setting(later).unwrap().attributes,
        Attributes::reserved(Nanos::ms(3), Nanos::ms(10))
    );
    scene.pass(Nanos::ms(50));
    assert_eq!(
        scene.host.world().setting(client).unwrap().attributes,
        Attributes::reserved(Nanos::ms(2), Nanos::ms(10))
    );
    scene.host.world_mut().kill(client);
    scene.pass(Nanos::ms(50));
    assert_eq!(scene.kept.take_dismissed().iter().map(|it| it.trouble.clone()).collect::<Vec<_>>(), [None]);
    assert_eq!(scene.table.entries().len(), 1);
}
