//! Tests of the simulated host with a clock that the test advances.

use crate::{SimulatedHost, Speed};
use api::{Desired, Happened, Limit, Mechanism, Phase, Problem, Promise, Source, Vm};
use run::Run;
use scenario::Scenario;
use sched::{Instant, Nanos};
use service::{Caller, ChangeRequest, Events, ManagedHost};
use std::sync::Arc;

/// One CPU, and three VMs that reserve 40, 10 and 30 % of it.
const THREE: &str = include_str!("../../../scenarios/three-vms.toml");

/// A simulated host, and the time of its real clock.
struct Test {
    host: SimulatedHost,
    events: Arc<Events>,
    first_event: u64,
    now: Instant,
}

impl Test {
    fn new(scenario: &str, policy: Option<&str>, speed: Speed) -> Test {
        let scenario = Scenario::from_bytes("test.toml", scenario.as_bytes().to_vec()).unwrap();
        let names: Vec<String> = policy.map(str::to_string).into_iter().collect();
        let choice = run::choose(&scenario, &names, &[]).unwrap().remove(0);
        let events = Arc::new(Events::new());
        let first_event = *events.watch().borrow();
        let host = SimulatedHost::new(&Run::new(scenario, choice), speed, Arc::clone(&events)).unwrap();
        let mut test = Test { host, events, first_event, now: Instant::ZERO + Nanos::s(1_000) };
        test.host.look(test.now);
        test
    }

    fn three() -> Test {
        let mut test = Test::new(THREE, None, Speed::REAL);
        test.pass(Nanos::ms(100));
        test
    }

    /// Lets `time` of the real clock pass.
    fn pass(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            let pause = self.host.look(self.now).min(end.since(self.now));
            self.now = self.now.saturating_add(pause);
        }
        while self.host.look(self.now).is_zero() {}
    }

    /// Returns the simulated time so far.
    fn time(&self) -> Nanos {
        self.host.now().since(Instant::ZERO)
    }

    fn set(&mut self, request: ChangeRequest) -> Result<Vm, Problem> {
        self.host.set(&[request]).remove(0)
    }

    fn vm(&mut self, name: &str) -> Vm {
        self.host.show(name).unwrap()
    }

    fn happened(&self, name: &str) -> Vec<Happened> {
        let service::After::All(events) = self.events.after(self.first_event) else { panic!("all are kept") };
        events.into_iter().map(|event| event.happened).filter(|happened| happened.name() == name).collect()
    }
}

fn promise(slice_ms: u64, period_ms: u64, cpus: u16) -> Desired {
    let (slice_ns, period_ns) = (slice_ms * 1_000_000, period_ms * 1_000_000);
    let promise = Promise { slice_ns, period_ns, cpus, gang: false, limit: Limit::Soft, mechanism: Mechanism::Auto };
    Desired { promise: Some(promise), ..Desired::default() }
}

fn request(vm: &str, desired: Desired) -> ChangeRequest {
    let by = Caller::Local(sys::privileges::user());
    ChangeRequest { vm: vm.to_string(), generation: None, desired, by, why: None, key: None }
}

#[test]
fn simulated_time_passes_with_the_real_time_at_the_requested_speed() {
    for (speed, passed) in [("1", Nanos::ms(5_000)), ("0.5", Nanos::ms(2_500)), ("20", Nanos::s(100))] {
        let mut test = Test::new(THREE, None, speed.parse().unwrap());
        test.pass(Nanos::s(5));
        // The scenario has a length of 2 s, and the run goes on beyond it.
        assert_eq!(test.time(), passed, "{speed}");
        assert!(test.host.host().simulated);
    }
}

#[test]
fn a_vm_that_arrives_at_the_first_instant_is_there_before_the_first_look() {
    let scenario = Scenario::from_bytes("test.toml", THREE.as_bytes().to_vec()).unwrap();
    let choice = run::choose(&scenario, &[], &[]).unwrap().remove(0);
    let events = Arc::new(Events::new());
    let mut host = SimulatedHost::new(&Run::new(scenario, choice), Speed::REAL, Arc::clone(&events)).unwrap();
    let names: Vec<String> = host.list().into_iter().map(|vm| vm.name).collect();
    assert_eq!((names, host.show("b").is_err()), (vec!["a".to_string()], true));
    let changed = host.set(&[request("a", promise(10, 50, 1))]).remove(0).unwrap();
    assert_eq!(changed.desired, promise(10, 50, 1));
}

#[test]
fn the_vms_of_the_scenario_arrive_with_their_promises_and_are_measured() {
    let mut test = Test::new(THREE, None, Speed::REAL);
    test.pass(Nanos::ms(40));
    let names: Vec<String> = test.host.list().into_iter().map(|vm| vm.name).collect();
    assert_eq!(names, ["a", "b"], "c arrives at 60 ms");
    test.pass(Nanos::s(10));
    let vm = test.vm("a");
    assert_eq!((vm.desired.clone(), vm.source), (promise(20, 50, 1), Some(Source::Scenario)));
    assert_eq!((vm.state.phase, vm.state.mechanism.as_deref(), vm.generation), (Phase::Kept, Some("edf"), 0));
    let measured = vm.measured;
    assert_eq!((measured.periods, measured.judged, measured.missed), (200, 200, 0));
    assert_eq!((measured.due_ns, measured.delivered_ns, measured.short_ns), (4_000_000_000, 4_000_000_000, 0));
    let usages = test.host.usages_view();
    let ran: Vec<u64> = usages.vms.iter().map(|usage| usage.of_vcpus.ran_ns / 1_000_000).collect();
    assert_eq!((usages.at_ns, ran), (10_040_000_000, vec![4_020, 1_010, 3_000]));
    let cpus = test.host.cpus();
    assert_eq!(cpus.anywhere.iter().chain(&cpus.cpus[0].promises).map(|part| part.ppm).sum::<u64>(), 800_000);
    assert_eq!(test.happened("appeared").len(), 3);
}

#[test]
fn a_promise_that_does_not_fit_is_refused_with_the_nearest_ones_and_changes_nothing() {
    let mut test = Test::three();
    let before = test.vm("b");
    let problem = test.set(request("b", promise(40, 100, 1))).unwrap_err();
    let room = problem.alternatives.clone().unwrap();
    assert_eq!((problem.status, room.slice_ns, room.period_ns), (409, Some(20_000_000), Some(200_000_000)));
    assert_eq!(room.end_of, ["a", "c"]);
    assert!(problem.detail.contains("40.00 %") && problem.remedy.is_some(), "{problem:?}");
    assert_eq!(test.vm("b").desired, before.desired);
    assert_eq!(test.happened("changed"), []);
    // What was named fits, and not a nanosecond more.
    let with = |slice_ns: u64| {
        let mut desired = promise(1, 100, 1);
        desired.promise.as_mut().unwrap().slice_ns = slice_ns;
        request("b", desired)
    };
    assert_eq!(test.set(with(20_000_001)).map_err(|problem| problem.status), Err(409));
    let vm = test.set(with(20_000_000)).unwrap();
    assert_eq!((vm.generation, vm.source, vm.measured.periods), (1, Some(Source::Client), 0));
    // On a full host, only a period of hours would fit: it is not proposed.
    let problem = test.set(request("b", promise(50, 100, 1))).unwrap_err();
    let room = problem.alternatives.unwrap();
    assert_eq!((room.slice_ns, room.period_ns), (Some(20_000_000), Some(250_000_000)));
    let full = test.set(request("b", promise(20_000, 59_000, 1))).unwrap_err().alternatives.unwrap();
    assert_eq!(full.period_ns, None);
    test.set(request("c", Desired::default())).unwrap();
    assert_eq!(test.set(request("b", promise(50, 100, 1))).unwrap().generation, 3);
    test.pass(Nanos::s(2));
    let vm = test.vm("b");
    assert_eq!((vm.state.phase, vm.measured.missed), (Phase::Kept, 0));
    assert!(vm.measured.delivered_ns >= 900_000_000, "{vm:?}");
    let ended = test.vm("c");
    assert_eq!((ended.state.phase, ended.source, ended.generation), (Phase::None, None, 0));
}

#[test]
fn a_dry_run_answers_like_the_change_and_changes_nothing() {
    let [mut tried, mut other] = [Test::three(), Test::three()];
    for (desired, status) in
        [(promise(40, 100, 1), Some(409)), (promise(15, 100, 1), None), (promise(15, 100, 2), Some(422))]
    {
        let would = tried.host.would_set(&request("b", desired.clone()));
        assert_eq!(would.as_ref().err().map(|problem| problem.status), status, "{would:?}");
        if let Ok(vm) = would {
            assert_eq!((vm.desired, vm.generation), (desired, 0));
        }
    }
    tried.pass(Nanos::s(3));
    other.pass(Nanos::s(3));
    assert_eq!(tried.host.list(), other.host.list());
    assert_eq!(tried.happened("changed"), []);
}

#[test]
fn the_second_of_two_clients_with_one_generation_is_refused_and_a_key_is_used_once() {
    let mut test = Test::three();
    let with = |generation: u64, slice: u64, key: Option<&str>| {
        let (generation, key) = (Some(generation), key.map(str::to_string));
        ChangeRequest { generation, key, ..request("b", promise(slice, 100, 1)) }
    };
    assert_eq!(test.set(with(0, 11, Some("k"))).unwrap().generation, 1);
    assert_eq!(test.set(with(0, 12, None)).unwrap_err().status, 412);
    assert_eq!(test.set(with(0, 11, Some("k"))).unwrap().generation, 1, "the request is repeated");
    assert_eq!(test.set(with(1, 12, Some("k"))).unwrap_err().status, 422);
    let [Happened::Changed { by, desired, before, generation: 1 }] = &test.happened("changed")[..] else {
        panic!("there is one change")
    };
    assert_eq!((desired, before), (&promise(11, 100, 1), &promise(10, 100, 1)));
    assert!(by.starts_with("uid:"), "{by}");
    let other = ChangeRequest { by: Caller::Local(u32::MAX), ..with(1, 12, None) };
    assert_eq!(test.set(other).unwrap_err().status, 403);
}

#[test]
fn a_promise_is_kept_then_not_kept_then_kept_again() {
    // An interrupt for a preemption takes 3 ms. While another VM is there, it arrives too late for the slice.
    let scenario = r#"
        name = "late preemption"
        length = "30s"
        cpus = 1
        policy = "edf"
        [costs]
        kick = "3ms"
        [[vm]]
        name = "promised"
        slice = "8ms"
        period = "10ms"
        workload = "hog"
        [[vm]]
        name = "other"
        workload = "hog"
        arrival = "5s"
        leaves = "10s"
    "#;
    let mut test = Test::new(scenario, None, Speed::REAL);
    let mut phases = Vec::new();
    for _ in 0..3 {
        test.pass(Nanos::s(5) - Nanos::ms(100));
        phases.push(test.vm("promised").state.phase);
        test.pass(Nanos::ms(100));
    }
    assert_eq!(phases, [Phase::Kept, Phase::NotKept, Phase::Kept]);
    let states = test.happened("state");
    let reported = states.iter().map(|it| if let Happened::State(state) = it { state.phase } else { Phase::Absent });
    assert_eq!(reported.collect::<Vec<_>>(), [Phase::Kept, Phase::None, Phase::NotKept, Phase::Kept]);
    assert_eq!(test.happened("ended"), [Happened::Ended]);
}

#[test]
fn equal_requests_at_equal_instants_give_equal_measurements() {
    let run = || {
        let mut test = Test::three();
        for (vm, slice) in [("a", 10), ("b", 30), ("c", 5)] {
            test.set(request(vm, promise(slice, 70, 1))).unwrap();
            test.pass(Nanos::ms(1_234));
        }
        (test.host.list(), test.host.usages_view(), test.host.timeline_view(Nanos::ms(500)))
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.0.iter().all(|vm| vm.measured.periods > 10), "{:?}", first.0);
    assert_eq!((first.2.cpus.len(), first.2.length_ns), (1, 500_000_000));
    assert!(first.2.cpus[0].stretches.len() > 5);
}

#[test]
fn a_guest_is_one_vm_with_all_its_vcpus_and_a_task_is_a_process() {
    let scenario = r#"
        name = "two levels"
        length = "1s"
        cpus = 2
        policy = "edf"
        [[task]]
        name = "background"
        workload = "hog"
        [[vm]]
        name = "web"
        vcpus = 2
        slice = "30ms"
        period = "100ms"
        [[vm.task]]
        name = "one"
        workload = "hog"
        [[vm.task]]
        name = "two"
        workload = "hog"
    "#;
    let mut test = Test::new(scenario, None, Speed::REAL);
    test.pass(Nanos::s(5));
    let vms = test.host.list();
    let shown: Vec<(&str, &str, usize)> =
        vms.iter().map(|vm| (vm.name.as_str(), vm.kind.word(), vm.vcpus.len())).collect();
    assert_eq!(shown, [("background", "process", 0), ("web", "simulated", 2)]);
    assert!(vms[0].id.starts_with("pid:"), "{}", vms[0].id);
    assert_eq!(vms[1].desired, promise(60, 100, 2));
    assert_eq!((vms[1].state.phase, vms[1].measured.missed), (Phase::Kept, 0));
    assert!(vms[1].measured.judged > 90, "{:?}", vms[1].measured);
    assert_eq!(test.host.threads_of(1).len(), 1);
    let set = test.set(request(&vms[0].id, promise(10, 100, 1))).unwrap();
    assert_eq!(set.state.phase, Phase::Kept);
}

#[test]
fn a_policy_without_reservations_refuses_promises_and_takes_weights() {
    let mut test = Test::new(THREE, Some("cfs"), Speed::REAL);
    test.pass(Nanos::ms(500));
    let vm = test.vm("a");
    assert_eq!(vm.state.phase, Phase::Refused);
    assert!(vm.state.reason.is_some_and(|reason| reason.contains("cfs")));
    assert_eq!(test.set(request("a", promise(10, 50, 1))).unwrap_err().status, 409);
    let weight = Desired { weight: Some(300), ..Desired::default() };
    let vm = test.set(request("a", weight)).unwrap();
    assert_eq!(vm.state.phase, Phase::Kept);
    let ran = |test: &Test| -> Vec<u64> { test.host.usages_view().vms.iter().map(|it| it.of_vcpus.ran_ns).collect() };
    let before = ran(&test);
    test.pass(Nanos::s(5));
    let gained: Vec<u64> = ran(&test).iter().zip(before).map(|(now, before)| (now - before) / 100_000_000).collect();
    // Weights of 3, 1 and 1: 3 s, 1 s and 1 s of 5 s.
    assert!((29..=30).contains(&gained[0]) && (9..=10).contains(&gained[1]), "{gained:?}");
    let capped = Desired { cap_percent: Some(20), ..Desired::default() };
    test.set(request("a", capped)).unwrap();
    let before = ran(&test)[0];
    test.pass(Nanos::s(5));
    assert!((900..=1_100).contains(&((ran(&test)[0] - before) / 1_000_000)), "20 % of 5 s");
}
