//! A refused promise names the nearest promises that fit. Each of them is admitted, and one unit more is refused.

use daemon::dispatch::{Dispatcher, NoRoom, PromiseRequest, Refusal, SLICE_LEAST};
use daemon::interfering::{Demand, InterferingThread};
use daemon::table::Table;
use daemon::terms;
use sched::{CpuId, CpuSet, EntityId, Nanos, Reservation};
use sim::Workload;
use simhost::{Caller, Dice, Memory, Settings, SimulatedKernel};
use std::sync::Arc;
use sys::thread::{Identity, Owner};

const ROOT: Owner = Owner { real: 0, effective: 0 };

/// A daemon on a simulated host.
struct Scene {
    host: SimulatedKernel,
    daemon: Caller,
    dispatcher: Dispatcher<Caller>,
}

impl Scene {
    fn new(cpus: usize) -> Scene {
        let linux = policies::find("linux").expect("it is registered");
        let host = SimulatedKernel::new(&Settings::new(linux, cpus)).unwrap();
        let daemon = host.begin("daemon", ROOT);
        let memory = Memory::new(Table::words(256));
        let me = Identity { tid: daemon.pid(), start_time: 0 };
        let table = Arc::new(Table::create(Box::new(daemon.map(&memory)), "boot", me));
        let policy = policies::find(daemon::terms::POLICY).expect("it is registered");
        let knobs = terms::knobs(policy);
        let dispatcher = Dispatcher::new(daemon.clone(), table, policy, &knobs, cpus).unwrap();
        Scene { host, daemon, dispatcher }
    }

    fn client(&self) -> u32 {
        self.host.world_mut().start("client", ROOT, Workload::Hog).unwrap()
    }

    /// Requests a promise to a new process, after a question whether it would be made.
    fn admit(&mut self, request: &PromiseRequest) -> Result<Vec<EntityId>, Refusal> {
        let pid = self.client();
        let would = self.dispatcher.would_admit(request, pid, &[self.daemon.pid()], None);
        let did = self.dispatcher.admit(request, pid, &[self.daemon.pid()]).map(|(entities, _)| entities);
        assert_eq!(would.is_ok(), did.is_ok(), "{request:?}: {would:?}, and then {did:?}");
        did
    }

    /// Changes a promise, after a question whether it would be changed.
    fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let would = self.dispatcher.would_adjust(e, slice, period);
        let (did, _) = self.dispatcher.adjust(e, slice, period);
        assert_eq!(would.is_ok(), did.is_ok(), "{slice} in {period}: {would:?}, and then {did:?}");
        did
    }

    /// Asserts that a request is admitted, and ends the promise.
    fn assert_fits(&mut self, request: &PromiseRequest) {
        let entities = self.admit(request).unwrap_or_else(|refused| panic!("{request:?}: {refused}"));
        self.dismiss(&entities);
    }

    fn dismiss(&mut self, entities: &[EntityId]) {
        for &e in entities {
            self.dispatcher.dismiss(e);
        }
    }

    fn assert_does_not_fit(&mut self, request: &PromiseRequest) {
        let outcome = self.admit(request);
        let too_large = matches!(&outcome, Err(Refusal::NoRoom(_) | Refusal::Promise(_) | Refusal::TooShort { .. }));
        assert!(too_large, "{request:?}: {outcome:?}");
    }
}

fn request(name: &str, slice: Nanos, period: Nanos, cpus: usize, affinity: CpuSet) -> PromiseRequest {
    let reservation = Reservation::new(slice, period);
    PromiseRequest { cpus, affinity, ..PromiseRequest::new(name, reservation) }
}

fn no_room(outcome: Result<Vec<EntityId>, Refusal>) -> Box<NoRoom> {
    match outcome {
        Err(Refusal::NoRoom(room)) => room,
        other => panic!("it is not refused for lack of room: {other:?}"),
    }
}

/// Checks every alternative of a refusal. `dispatched` are the promises by name, with their entities.
fn check(
    scene: &mut Scene,
    refused: &PromiseRequest,
    room: &NoRoom,
    dispatched: &mut [(PromiseRequest, Vec<EntityId>)],
) {
    let ways = room.alternatives();
    let Reservation { slice, period, .. } = refused.reservation;
    let with = |slice, period| PromiseRequest { reservation: Reservation::new(slice, period), ..refused.clone() };
    let one = Nanos::ns(1);
    match ways.slice {
        Some(longest) => {
            assert!(longest < slice);
            scene.assert_fits(&with(longest, period));
            scene.assert_does_not_fit(&with(longest + one, period));
        }
        None => scene.assert_does_not_fit(&with(SLICE_LEAST.saturating_mul(refused.cpus as u64), period)),
    }
    if let Some(shortest) = ways.period {
        assert!(shortest > period);
        scene.assert_fits(&with(slice, shortest));
        scene.assert_does_not_fit(&with(slice, shortest - one));
    }
    match ways.cpus {
        Some(cpus) => {
            scene.assert_fits(&PromiseRequest { cpus, ..refused.clone() });
            scene.assert_does_not_fit(&PromiseRequest { cpus: cpus - 1, ..refused.clone() });
        }
        None => {
            for cpus in refused.cpus + 1..=refused.affinity.len() {
                scene.assert_does_not_fit(&PromiseRequest { cpus, ..refused.clone() });
            }
        }
    }
    if let Some(affinity) = ways.affinity {
        assert!(affinity.and(&refused.affinity).is_empty());
        scene.assert_fits(&PromiseRequest { affinity, ..refused.clone() });
    }
    for at in 0..room.interfering().len() {
        let mut others = room.interfering().to_vec();
        let thread = others.remove(at);
        scene.dispatcher.set_interfering(others);
        if ways.threads.contains(&thread) {
            scene.assert_fits(refused);
        } else {
            scene.assert_does_not_fit(refused);
        }
    }
    scene.dispatcher.set_interfering(room.interfering().to_vec());
    for (other, entities) in dispatched {
        let instead = entities.first().copied();
        let would = scene.dispatcher.would_admit(refused, scene.client(), &[scene.daemon.pid()], instead);
        assert_eq!(would.is_ok(), ways.ends.contains(&other.name), "{refused:?} instead of {}: {would:?}", other.name);
        scene.dismiss(entities);
        if ways.ends.contains(&other.name) {
            scene.assert_fits(refused);
        } else {
            scene.assert_does_not_fit(refused);
        }
        // The promise is made again, on the same CPUs as before.
        let held: Vec<CpuId> =
            room.held().iter().filter(|held| is_of(&held.name, &other.name)).filter_map(|held| held.cpu).collect();
        let again = PromiseRequest { affinity: held.into_iter().collect(), ..other.clone() };
        *entities = scene.admit(&again).expect("it was there before");
    }
}

fn is_of(entity: &str, promise: &str) -> bool {
    entity == promise || entity.rsplit_once('/').is_some_and(|(name, _)| name == promise)
}

/// Returns up to two threads of other programs on a host with this number of CPUs.
fn interfering(number: &mut dyn FnMut(u64) -> u64, cpus: usize) -> Vec<InterferingThread> {
    let count = number(3);
    let thread = |nth| {
        let period = Nanos::us(100 + number(20_000));
        let runtime = period.scale(1 + number(300), 1_000);
        let demand = match number(2) {
            0 => Demand::Reserved { runtime, period, overrun: Nanos::ZERO },
            _ => Demand::Observed { priority: 99, ppm: number(300_000) },
        };
        let cpus = if number(2) == 0 { CpuSet::ALL } else { CpuSet::one(CpuId::new(number(cpus as u64) as usize)) };
        InterferingThread { tid: nth as u32, name: format!("thread {nth}"), demand, cpus }
    };
    (0..count).map(thread).collect()
}

#[test]
fn every_alternative_of_a_refusal_is_admitted_and_one_unit_more_is_not() {
    let found = alternatives(0..150, false);
    assert!(found.iter().all(|&count| count >= 10), "each alternative occurs: {found:?}");
}

#[test]
fn every_alternative_beside_interfering_threads_is_admitted_and_one_unit_more_is_not() {
    let found = alternatives(0..150, true);
    assert!(found.iter().all(|&count| count >= 10), "each alternative occurs: {found:?}");
}

/// Makes promises on hosts with random numbers of CPUs, and checks the alternatives of each refusal. Returns how often each
/// of them occurred.
fn alternatives(seeds: std::ops::Range<u64>, beside_threads: bool) -> Vec<u32> {
    let (mut refusals, mut gangs, mut slices, mut periods, mut cpus_more, mut elsewhere, mut ends, mut threads) =
        (0, 0, 0, 0, 0, 0, 0, 0);
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let mut number = |most: u64| dice.below(most);
        let cpus = 1 + usize::try_from(number(3)).unwrap();
        let mut scene = Scene::new(cpus);
        if beside_threads {
            scene.dispatcher.set_interfering(interfering(&mut number, cpus));
        }
        let mut promises: Vec<(PromiseRequest, Vec<EntityId>)> = Vec::new();
        let mut next = |nth: usize| {
            let period = Nanos::us(200 + number(400_000));
            let wanted = 1 + usize::try_from(number(cpus as u64)).unwrap();
            let slice = period.scale((50 + number(850)) * wanted as u64, 1_000) + Nanos::ns(number(50_000));
            let first = usize::try_from(number(cpus as u64)).unwrap();
            let affinity = if number(2) == 0 { CpuSet::ALL } else { (first..cpus).map(CpuId::new).collect() };
            let affinity = affinity.and(&CpuSet::first_n(cpus));
            let wanted = wanted.min(affinity.len());
            let gang = wanted > 1 && number(2) == 0;
            PromiseRequest { gang, ..request(&format!("p{nth}"), slice, period, wanted, affinity) }
        };
        for nth in 0..8 {
            let request = next(nth);
            match scene.admit(&request) {
                Ok(entities) => promises.push((request, entities)),
                Err(Refusal::NoRoom(room)) => {
                    let ways = room.alternatives();
                    refusals += 1;
                    gangs += u32::from(request.gang);
                    slices += u32::from(ways.slice.is_some());
                    periods += u32::from(ways.period.is_some());
                    cpus_more += u32::from(ways.cpus.is_some());
                    elsewhere += u32::from(ways.affinity.is_some());
                    ends += ways.ends.len();
                    threads += ways.threads.len();
                    check(&mut scene, &request, &room, &mut promises);
                }
                // A slice longer than the period on this number of CPUs is invalid.
                Err(Refusal::Promise(_)) => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
    }
    let mut found = vec![refusals, gangs, slices, periods, cpus_more, elsewhere, ends as u32];
    found.extend(beside_threads.then_some(threads as u32));
    eprintln!("refusals, of gangs, slices, periods, more CPUs, other CPUs, ends, threads: {found:?}");
    found
}

#[test]
fn a_refusal_names_the_threads_above_all_clients() {
    let mut scene = Scene::new(2);
    let jack = InterferingThread {
        tid: 4711,
        name: "jackd".to_string(),
        demand: Demand::Reserved { runtime: Nanos::ms(2), period: Nanos::ms(20), overrun: Nanos::ZERO },
        cpus: CpuSet::ALL,
    };
    let cluster = InterferingThread {
        tid: 4712,
        name: "corosync".to_string(),
        demand: Demand::Observed { priority: 99, ppm: 250_000 },
        cpus: CpuSet::one(CpuId::new(1)),
    };
    scene.dispatcher.set_interfering(vec![jack, cluster]);
    // jackd takes at most 1 ms + 2 ms (2 - 0.1) of 10 ms, and corosync 2.5 ms.
    let first = CpuSet::one(CpuId::new(0));
    let why = Refusal::NoRoom(no_room(scene.admit(&request("new", Nanos::ms(5), Nanos::ms(10), 1, first)))).reason();
    assert_eq!(
        why.reason,
        "5ms every 10ms is 50.00 % of a CPU, but only 42.00 % can still be promised (on CPU 0); threads above all clients \
         may take 4.8ms of 10ms: jackd (thread 4711, SCHED_DEADLINE, 2ms every 20ms)"
    );
    assert_eq!(
        why.remedy,
        "use at most 4.2ms every 10ms or a period of at least 11.000002ms; or end thread 4711 (jackd)"
    );
    let second = CpuSet::one(CpuId::new(1));
    let why = Refusal::NoRoom(no_room(scene.admit(&request("new", Nanos::ms(2), Nanos::ms(10), 1, second)))).reason();
    assert!(why.reason.contains("7.3ms of 10ms: jackd"), "{why}");
    assert!(why.reason.ends_with("and corosync (thread 4712, real-time priority 99, 25.00 % of a CPU)"), "{why}");
    assert!(why.remedy.ends_with("end thread 4711 (jackd) or thread 4712 (corosync)"), "{why}");
    // Without clients, nothing is withheld, so the threads prevent no promise with a longer period.
    scene.assert_fits(&request("new", Nanos::ms(60), Nanos::ms(100), 1, first));
    // A shorter period leaves no time at all.
    scene.assert_does_not_fit(&request("new", Nanos::us(100), Nanos::ms(1), 1, first));
}

#[test]
fn a_promise_that_is_changed_moved_or_ended_leaves_the_right_time_beside_interfering_threads() {
    let mut scene = Scene::new(1);
    let demand = Demand::Reserved { runtime: Nanos::ms(1), period: Nanos::ms(10), overrun: Nanos::ZERO };
    let threads = vec![InterferingThread { tid: 1, name: "one".to_string(), demand, cpus: CpuSet::ALL }];
    scene.dispatcher.set_interfering(threads.clone());
    let all = CpuSet::first_n(1);
    let long = scene.admit(&request("long", Nanos::ms(50), Nanos::ms(100), 1, all)).unwrap();
    // A second client with a shorter period needs more time for the thread: 2.9 ms of 10 ms instead of 11.9 ms of 100 ms.
    scene.assert_fits(&request("new", Nanos::ms(1), Nanos::ms(10), 1, all));
    scene.assert_does_not_fit(&request("new", Nanos::us(1_200), Nanos::ms(10), 1, all));
    assert!(scene.adjust(long[0], Nanos::ms(7), Nanos::ms(10)).is_err());
    assert!(scene.adjust(long[0], Nanos::ms(6), Nanos::ms(10)).is_ok());
    scene.assert_does_not_fit(&request("new", Nanos::ms(2), Nanos::ms(100), 1, all));
    assert!(scene.adjust(long[0], Nanos::ms(50), Nanos::ms(100)).is_ok());
    scene.assert_fits(&request("new", Nanos::ms(20), Nanos::ms(100), 1, all));
    // More threads than there is time for: the promise stays, and no further one is made until they have ended.
    let many = (1..20).map(|tid| InterferingThread { tid, ..threads[0].clone() });
    scene.dispatcher.set_interfering(many.collect());
    scene.assert_does_not_fit(&request("new", Nanos::us(10), Nanos::ms(100), 1, all));
    assert!(scene.adjust(long[0], Nanos::ms(51), Nanos::ms(100)).is_err());
    assert!(scene.adjust(long[0], Nanos::ms(49), Nanos::ms(100)).is_ok(), "a smaller promise fits");
    assert!(scene.adjust(long[0], Nanos::ms(50), Nanos::ms(100)).is_err());
    scene.dispatcher.set_interfering(Vec::new());
    assert!(scene.adjust(long[0], Nanos::ms(50), Nanos::ms(100)).is_ok());
    scene.assert_fits(&request("new", Nanos::ms(40), Nanos::ms(100), 1, all));
    scene.dismiss(&long);
    scene.dispatcher.set_interfering(threads);
    scene.assert_fits(&request("new", Nanos::us(6_100), Nanos::ms(10), 1, all));
    scene.assert_does_not_fit(&request("new", Nanos::us(6_101), Nanos::ms(10), 1, all));
}

#[test]
fn a_refusal_names_the_holders_of_the_cpu_and_all_ways_out() {
    let mut scene = Scene::new(2);
    let both = CpuSet::first_n(2);
    let first = CpuSet::one(CpuId::new(0));
    for (name, slice, affinity) in [("web", 5, first), ("db", 1, first), ("batch", 2, CpuSet::one(CpuId::new(1)))] {
        scene.admit(&request(name, Nanos::ms(slice), Nanos::ms(10), 1, affinity)).unwrap();
    }
    let refused = request("new", Nanos::ms(6), Nanos::ms(10), 1, first);
    let said = no_room(scene.admit(&refused));
    let why = Refusal::NoRoom(said).reason();
    assert_eq!(
        why.reason,
        "6ms every 10ms is 60.00 % of a CPU, but only 30.00 % can still be promised (on CPU 0); this CPU is promised to web \
         50.00 % and db 10.00 %"
    );
    assert_eq!(
        why.remedy,
        "use at most 3ms every 10ms, a period of at least 20ms or affinity 1; or end the promise to web"
    );
    let refused = request("new", Nanos::us(7_500), Nanos::ms(10), 1, both);
    let why = Refusal::NoRoom(no_room(scene.admit(&refused))).reason();
    assert_eq!(
        why.remedy,
        "use at most 7ms every 10ms or a period of at least 10.714286ms; or end the promise to web or batch"
    );
    let why = Scene::new(2).admit(&request("new", Nanos::us(9_500), Nanos::ms(10), 1, both)).unwrap_err().reason();
    assert_eq!(why.remedy, "use at most 9ms every 10ms, a period of at least 10.555556ms or 2 CPUs (--cpus 2)");
    // A promise on several CPUs has one name.
    scene.admit(&request("wide", Nanos::ms(2), Nanos::ms(10), 2, both)).unwrap();
    let ways = no_room(scene.admit(&request("new", Nanos::ms(14), Nanos::ms(10), 2, both))).alternatives();
    assert_eq!((ways.slice, ways.cpus, ways.ends), (Some(Nanos::ms(4)), None, Vec::<String>::new()));
    let ways = no_room(scene.admit(&request("new", Nanos::ms(5), Nanos::ms(10), 2, both))).alternatives();
    assert_eq!(ways.ends, ["web", "db", "wide"]);
}

#[test]
fn reserved_threads_without_room_beside_the_clients_are_refused_and_change_nothing() {
    let mut scene = Scene::new(2);
    let second = CpuSet::one(CpuId::new(1));
    scene.admit(&request("web", Nanos::ms(7), Nanos::ms(10), 1, second)).unwrap();
    let thread = |runtime| InterferingThread {
        tid: 1,
        name: "vm".to_string(),
        demand: Demand::Reserved { runtime, period: Nanos::ms(10), overrun: Nanos::ZERO },
        cpus: CpuSet::ALL,
    };
    // The thread takes up to u + u (2 - u / 10) ms of 10 ms, and 2 ms are left.
    let refused = scene.dispatcher.admit_interfering(vec![thread(Nanos::ms(1))]).unwrap_err().reason();
    assert!(refused.reason.contains("those of CPU 1 (web) leave too little time"), "{refused}");
    scene.assert_fits(&request("new", Nanos::ms(2), Nanos::ms(10), 1, second));
    assert!(scene.dispatcher.admit_interfering(vec![thread(Nanos::us(600))]).is_ok());
    scene.assert_does_not_fit(&request("new", Nanos::ms(1), Nanos::ms(10), 1, second));
}

#[test]
fn a_process_that_may_use_too_few_cpus_is_refused_with_their_number() {
    let mut scene = Scene::new(2);
    let narrow = request("new", Nanos::ms(2), Nanos::ms(10), 2, CpuSet::one(CpuId::new(1)));
    let refused = scene.admit(&narrow).unwrap_err();
    assert!(matches!(refused, Refusal::TooFewCpus { asked: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("may use only CPUs 1 for it; use at most 1 CPUs"), "{refused}");
    let nowhere = scene.admit(&request("new", Nanos::ms(2), Nanos::ms(10), 1, CpuSet::one(CpuId::new(7)))).unwrap_err();
    assert!(nowhere.to_string().contains("may use none of the CPUs"), "{nowhere}");
}
