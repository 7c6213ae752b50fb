//! Runs of the workloads cyclictest, hackbench, startup, fork-join and periodic jobs, and of rt-app files, on a host.
//! Some also run in a guest beside hogs.

use measure::Meter;
use scenario::rtapp::RtApp;
use sched::{EntityId, GroupId, Instant, Nanos, Params, Topology};
use sim::program::Length;
use sim::{Application, Costs, Guest, Workload, World};
use std::collections::BTreeMap;
use std::path::Path;
use trace::{Event, Sink};
use workloads::{ApplicationWorkload, Channel, Cyclictest, ForkJoin, Hackbench, Periodic, Phase, Startup, Waits};

fn us(n: u64) -> Length {
    Length::Fixed(Nanos::us(n))
}

/// The jobs and wake-ups of a run, from its trace.
#[derive(Default, Debug)]
struct Record {
    names: BTreeMap<EntityId, String>,
    begun: BTreeMap<EntityId, Instant>,
    /// Duration of each job, by name.
    jobs: BTreeMap<String, Vec<Nanos>>,
    /// Lateness of each wake-up, by name.
    late: BTreeMap<String, Vec<Nanos>>,
    gone: Vec<String>,
    /// Departure of the last entity.
    ended: Instant,
}

impl Sink for Record {
    fn record(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Attach { entity, name, .. } => {
                self.names.insert(*entity, name.clone());
            }
            Event::Release { entity, .. } => {
                self.begun.insert(*entity, at);
            }
            Event::Complete { entity } => {
                let name = self.names[entity].clone();
                self.jobs.entry(name).or_default().push(at.saturating_since(self.begun[entity]));
            }
            Event::Woke { entity, late } => self.late.entry(self.names[entity].clone()).or_default().push(*late),
            Event::Detach { entity } => {
                self.gone.push(self.names[entity].clone());
                self.ended = at;
            }
            _ => {}
        }
    }
}

/// Runs `application` for `length` beside `hogs` hogs, under `cfs` on a host with `cpus` CPUs on which scheduling takes
/// no time.
fn on_host(application: &Application, cpus: usize, hogs: usize, length: Nanos) -> Record {
    let mut record = Record::default();
    let policy = policies::find("cfs").expect("there is cfs");
    let mut world = World::new(7);
    let host = world.add_host("host", policy, Topology::new(cpus), &policy.defaults(), Costs::NONE).expect("it works");
    world.watch(host, &mut record);
    for hog in 0..hogs {
        world.attach(host, &format!("hog-{hog}"), Params::default(), Workload::Hog).expect("there is room");
    }
    world.start(host, application, GroupId::ROOT).expect("there is room");
    world.finish(Instant::ZERO + length).unwrap_or_else(|stuck| panic!("{stuck}"));
    drop(world);
    record
}

fn application(workload: &dyn ApplicationWorkload) -> Application {
    workload.plan(Params::default()).application
}

#[test]
fn hackbench_ends_when_all_its_messages_have_come() {
    for channel in [Channel::Sockets, Channel::Pipes] {
        let bench = Hackbench { groups: 2, fds: 5, loops: 20, channel, ..Hackbench::default() };
        let record = on_host(&application(&bench), 2, 0, Nanos::s(1));
        // On two CPUs, 1000 messages are sent and received. Each of these operations takes a microsecond.
        let took = record.jobs["hackbench"].as_slice();
        assert!(matches!(took, [total] if (Nanos::us(1000)..Nanos::us(1100)).contains(total)), "{channel:?}: {took:?}");
        assert_eq!(record.gone.len(), 21, "all have ended");
    }
}

#[test]
fn cyclictest_measures_every_beat() {
    let test = Cyclictest { threads: 2, loops: Some(50), ..Cyclictest::default() };
    let alone = on_host(&application(&test), 1, 0, Nanos::s(1));
    for thread in ["thread-0", "thread-1"] {
        let late = &alone.late[thread];
        assert!(late.len() == 50 && late.iter().all(|&late| late <= Nanos::us(1)), "{thread}: {late:?}");
    }
    // A thread that works for 2.5 intervals skips two wake-ups.
    let slow = Cyclictest { work: us(2500), loops: Some(10), ..Cyclictest::default() };
    let record = on_host(&application(&slow), 1, 0, Nanos::s(1));
    assert_eq!(record.late["thread-0"], [Nanos::ZERO; 10], "it waits for the third");
}

#[test]
fn launches_take_their_work_and_their_waits() {
    let startup = Startup { launches: Some(5), waits: 3, wait: us(500), pause: us(1000), ..Startup::new(us(4000)) };
    let record = on_host(&application(&startup), 1, 0, Nanos::s(1));
    assert_eq!(record.jobs["launcher"], [Nanos::us(5500); 5]);
    let beside = on_host(&application(&startup), 1, 3, Nanos::s(1));
    assert!(beside.jobs["launcher"].iter().all(|&took| took > Nanos::us(5500)), "{:?}", beside.jobs["launcher"]);
}

#[test]
fn a_team_is_as_fast_as_its_slowest() {
    for waits in [Waits::Sleeping, Waits::Spinning, Waits::SpinThenSleep { spin: Nanos::us(300) }] {
        let team = ForkJoin { threads: 3, rounds: Some(4), waits, serial: us(50), ..ForkJoin::new(us(1000)) };
        let enough = on_host(&application(&team), 3, 0, Nanos::s(1));
        assert_eq!(enough.jobs["thread-0"], [Nanos::ms(1); 4], "{waits:?}: each has a CPU");
        let few = on_host(&application(&team), 1, 0, Nanos::s(5));
        assert_eq!(few.gone.len(), 3, "{waits:?}");
        let least = Instant::ZERO + Nanos::us(4 * 3 * 1000 + 4 * 50);
        assert!(few.ended >= least, "{waits:?}: no thread computes for nothing, until {}", few.ended);
    }
    // In every round, each of three threads holds the lock ten times.
    let locks = ForkJoin { threads: 3, rounds: Some(2), locks: 10, hold: us(100), ..ForkJoin::new(us(11)) };
    let record = on_host(&application(&locks), 3, 0, Nanos::s(1));
    assert!(record.jobs["thread-0"].iter().all(|&took| took >= Nanos::ms(3)), "{:?}", record.jobs["thread-0"]);
}

#[test]
fn random_jobs_keep_their_period() {
    let work = Length::Uniform { least: Nanos::ms(1), most: Nanos::ms(3) };
    let period = Nanos::ms(10);
    let jobs = Periodic { period, work, phase: Phase::Random, deadline: period };
    let record = on_host(&application(&jobs), 1, 0, Nanos::s(10));
    let took = &record.jobs["periodic"];
    assert!((999..=1000).contains(&took.len()), "{}", took.len());
    let mean = took.iter().map(|took| took.as_ns()).sum::<u64>() / took.len() as u64;
    assert!((1_950_000..=2_050_000).contains(&mean), "{mean}");
    assert!(record.late["periodic"].iter().all(|late| late.is_zero()));
}

#[test]
fn every_event_of_rt_app_is_done() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rt-app/every-event.json");
    let app = RtApp::from_bytes("every-event.json", std::fs::read(path).expect("it is in the tree"))
        .unwrap_or_else(|problems| panic!("{problems}"));
    for cpus in [1, 2, 4] {
        let record = on_host(&app.application, cpus, 0, app.duration.expect("it has one"));
        let children = record.gone.iter().filter(|name| *name == "child").count();
        assert_eq!(
            (children, record.gone.len()),
            (6, 7),
            "six children and their parent have ended: {:?}",
            record.gone
        );
    }
}

/// Three busy threads share a CPU. The CPU is divided between their groups, and the share of each group between its
/// threads. The cases: two threads in one group and one in another group; all threads in one group; one thread that
/// moves to the root group.
#[test]
fn threads_of_rt_app_share_by_task_group() {
    let thread = |name: &str, phases: &str| format!("\"{name}\" : {{ \"phases\" : {{ {phases} }} }}");
    let busy = |group: &str| format!("\"p\" : {{ \"loop\" : -1, \"run\" : 1000, \"taskgroup\" : \"{group}\" }}");
    let shares = |last: &str| {
        let threads = [thread("a", &busy("/x/y")), thread("b", &busy("/x/y")), thread("c", last)];
        let text = format!("{{ \"tasks\" : {{ {} }} }}", threads.join(", "));
        let app = RtApp::from_bytes("x.json", text.into()).unwrap_or_else(|problems| panic!("{problems}"));
        let mut meter = Meter::from(Instant::ZERO);
        let policy = policies::find("cfs").expect("there is cfs");
        let mut world = World::new(7);
        let host = world.add_host("host", policy, Topology::new(1), &policy.defaults(), Costs::NONE).expect("it works");
        world.watch(host, &mut meter);
        world.start(host, &app.application, GroupId::ROOT).expect("there is room");
        world.finish(Instant::ZERO + Nanos::s(10)).unwrap_or_else(|stuck| panic!("{stuck}"));
        drop(world);
        let percent = |member: &measure::Member| member.got.delivered.as_ns().div_ceil(50_000_000) / 2;
        meter.members().iter().map(percent).collect::<Vec<u64>>()
    };
    assert_eq!(shares(&busy("/z")), [25, 25, 50]);
    assert_eq!(shares(&busy("/x/y")), [33, 33, 33]);
    // In its second phase, the task is in the group of the application, and competes with group x.
    let leaves = "\"p\" : { \"run\" : 1000, \"taskgroup\" : \"/x/y\" }, \"q\" : { \"loop\" : -1, \"run\" : 1000, \"taskgroup\" : \"/\" }";
    assert_eq!(shares(leaves), [25, 25, 50]);
}

#[test]
fn applications_are_done_in_a_guest_beside_hogs() {
    let policy = policies::find("cfs").expect("there is cfs");
    let team = ForkJoin { threads: 3, rounds: Some(3), waits: Waits::Spinning, locks: 3, ..ForkJoin::new(us(500)) };
    let all: [(Box<dyn ApplicationWorkload>, u64); 4] = [
        (Box::new(Cyclictest { loops: Some(20), ..Cyclictest::default() }), 1),
        (Box::new(Hackbench { groups: 1, fds: 3, loops: 10, ..Hackbench::default() }), 7),
        (Box::new(Startup { launches: Some(2), pause: us(100), ..Startup::new(us(500)) }), 3),
        (Box::new(team), 3),
    ];
    for (workload, tasks) in all {
        let mut record = Record::default();
        let mut world = World::new(3);
        let host = world.add_host("host", policy, Topology::new(2), &policy.defaults(), Costs::NONE).expect("it works");
        let vcpus: Vec<EntityId> = (0..2)
            .map(|i| world.attach(host, &format!("vm/{i}"), Params::default(), Workload::Vcpu).expect("there is room"))
            .collect();
        world.attach(host, "hog", Params::default(), Workload::Hog).expect("there is room");
        let (cpus, kind) = (Topology::new(2), Guest::default());
        let guest = world.add_guest(host, "vm", &vcpus, policy, cpus, &policy.defaults(), kind, Costs::NONE);
        let guest = guest.expect("it works");
        world.watch(guest, &mut record);
        world.attach(guest, "inner", Params::default(), Workload::Hog).expect("there is room");
        world.start(guest, &application(&*workload), GroupId::ROOT).expect("there is room");
        world.finish(Instant::ZERO + Nanos::s(5)).unwrap_or_else(|stuck| panic!("{workload:?}: {stuck}"));
        drop(world);
        assert_eq!(record.gone.len() as u64, tasks, "{workload:?}: {:?}", record.gone);
    }
}
