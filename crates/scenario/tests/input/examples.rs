//! Tests that valid input has the meaning that the manual documents.

use input::files::{Files, Unreadable};
use scenario::{Costs, JobEnd, Periodic, Real, Scenario, Workload};
use sched::{Class, CpuId, CpuSet, Instant, Limit, Nanos, Quota, Reservation, RtPriority, Topology, Weight};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of the source tree, for examples that refer to files.
struct Tree;

impl Files for Tree {
    fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable> {
        std::fs::read(name).map_err(|why| Unreadable::Missing(why.to_string()))
    }
}

fn read(path: &Path) -> Scenario {
    let bytes = std::fs::read(path).expect("it is in the tree");
    let scenario = Scenario::with_files(&path.display().to_string(), bytes, Arc::new(Tree));
    scenario.unwrap_or_else(|problems| panic!("{problems}"))
}

fn example(name: &str) -> Scenario {
    read(&root().join("scenarios").join(name))
}

fn parse(text: &str) -> Scenario {
    Scenario::from_bytes("x", text.into()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::ms(n)
}

#[test]
fn every_scenario_in_the_manual_is_right() {
    let manual = std::fs::read_to_string(root().join("docs/scenarios.md")).unwrap();
    let blocks: Vec<&str> = manual.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 16);
    for block in blocks {
        let start = if block.starts_with("name") { "" } else { "name = \"x\"\ncpus = 4\nlength = \"1s\"\n" };
        parse(&format!("{start}{block}"));
    }
}

#[test]
fn every_scenario_that_comes_with_tactus_is_right() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let scenario = read(&path);
            assert!(scenario.policy.is_some(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 3);
}

#[test]
fn three_vms_arrive_one_after_the_other() {
    let scenario = example("three-vms.toml");
    assert_eq!(scenario.host, Topology::new(1));
    assert_eq!(scenario.policy.as_ref().unwrap().name, "edf");
    let promised = |slice, period| Some(Reservation::new(Nanos::ms(slice), Nanos::ms(period)));
    let read: Vec<_> = scenario.entities.iter().map(|e| (e.name.as_str(), e.arrival, e.params.reservation)).collect();
    let right = [("a", ms(0), promised(20, 50)), ("b", ms(30), promised(10, 100)), ("c", ms(60), promised(300, 1000))];
    assert_eq!(read, right);
    assert!(scenario.entities.iter().all(|e| e.workload == Workload::Hog && e.leaves.is_none()));
}

#[test]
fn in_the_demo_an_equal_share_is_too_little() {
    let scenario = example("demo.toml");
    let hogs = scenario.entities.iter().filter(|e| e.workload == Workload::Hog).count();
    assert_eq!((scenario.host.cpus, scenario.entities.len(), hogs), (2, 14, 12));
    for entity in &scenario.entities[..2] {
        let Workload::Periodic(jobs) = entity.workload else { panic!("{} has jobs", entity.name) };
        let reservation = entity.params.reservation.unwrap();
        assert_eq!((jobs.work, jobs.period), (reservation.slice, reservation.period));
        let (needed, share) = (jobs.work.as_ns() * 14, jobs.period.as_ns() * 2);
        assert!(needed > share, "{} is content with an equal share", entity.name);
    }
}

#[test]
fn weights_are_one_to_two_to_four() {
    let scenario = example("weights.toml");
    let read: Vec<_> = scenario.groups.iter().map(|g| (g.params.weight.as_xen(), g.params.cap_percent)).collect();
    assert_eq!(read, [(256, None), (512, None), (1024, None), (1024, Some(10))]);
}

#[test]
fn what_is_left_out_has_its_default() {
    let scenario = parse("name = \"x\"\ncpus = 3\nlength = \"1s\"\n[[task]]\nname = \"t\"\nworkload = \"hog\"\n");
    assert_eq!((scenario.host, scenario.length, scenario.costs), (Topology::new(3), Nanos::s(1), Costs::NONE));
    assert!(scenario.seed.is_none() && scenario.policy.is_none() && scenario.groups.is_empty());
    let [task] = scenario.entities.as_slice() else { panic!("there is one task") };
    assert_eq!((task.name.as_str(), task.group, task.arrival, task.leaves), ("t", None, Instant::ZERO, None));
    assert_eq!(task.params, sched::Params::default());
}

/// A scenario that sets many keys to values other than their defaults.
const EVERYTHING: &str = r#"
        name = "everything"
        cpus = 8
        smt = 2
        llc = 4
        length = "1min"
        seed = 0xffff_ffff_ffff_ffff
        costs = { context_switch = "2us", cache_refill = "10us", kick = "1us", tick = "500ns", timer_slack = "50us" }
        [policy]
        name = "edf"
        knobs = { reserve = 5, enforce = "hard" }
        [[task]]
        name = "t"
        parent = "inner"
        nice = -5
        class = { rr = 10 }
        workload = "hog"
        [[vm]]
        name = "v"
        parent = "inner"
        vcpus = 2
        cgroup_weight = 200
        cap = 40
        quota = "50ms/100ms"
        slice = "20ms"
        period = "50ms"
        start = "5ms"
        limit = "hard"
        affinity = "0-1,7"
        class = { fifo = 50 }
        arrival = "1s"
        leaves = "2s"
        workload = { periodic = { period = "10ms", work = "2ms", phase = "1ms", deadline = "5ms", end = "yield" } }
        [[group]]
        name = "inner"
        parent = "outer"
        weight = 512
        [[group]]
        name = "outer"
        "#;

#[test]
fn costs_are_those_of_a_machine_but_for_single_ones() {
    let costs = |costs: &str| {
        let task = "[[task]]\nname = \"t\"\nworkload = \"hog\"\n";
        parse(&format!("name = \"x\"\ncpus = 1\nlength = \"1s\"\n{costs}\n{task}")).costs
    };
    let m1 = scenario::costs::machine("m1").unwrap().costs;
    assert_ne!(m1, Costs::NONE);
    assert_eq!(costs("costs = \"m1\""), m1);
    assert_eq!(costs("costs = { machine = \"m1\" }"), m1);
    let (tick, exit) = (Nanos::us(5), Nanos::ZERO);
    assert_eq!(costs("costs = { tick = \"5us\", machine = \"m1\", exit = \"0s\" }"), Costs { tick, exit, ..m1 });
    assert_eq!(costs("costs = { tick = \"5us\" }"), Costs { tick, ..Costs::NONE });
}

#[test]
fn what_is_given_is_kept() {
    let scenario = parse(EVERYTHING);
    assert_eq!(scenario.host, Topology { cpus: 8, smt: 2, llc: 4 });
    assert_eq!((scenario.length, scenario.seed), (Nanos::s(60), Some(u64::MAX)));
    let (refill, slack) = (Nanos::us(10), Nanos::us(50));
    let costs = Costs {
        context_switch: Nanos::us(2),
        cache_refill: refill,
        kick: Nanos::us(1),
        tick: Nanos::ns(500),
        timer_slack: slack,
        ..Costs::NONE
    };
    assert_eq!(scenario.costs, costs);
    let knobs: Vec<&str> = scenario.policy.as_ref().unwrap().knobs.iter().map(|knob| knob.name.as_str()).collect();
    assert_eq!(knobs, ["reserve", "enforce"], "in the order of the file");

    let groups: Vec<_> = scenario.groups.iter().map(|g| (g.name.as_str(), g.parent, g.params.weight)).collect();
    let (normal, double) = (Weight::NORMAL, Weight::xen(512).unwrap());
    assert_eq!(
        groups,
        [("outer", None, normal), ("inner", Some(0), double), ("v", Some(1), Weight::cgroup(200).unwrap())]
    );
    let vm = &scenario.groups[2].params;
    assert_eq!((vm.cap_percent, vm.quota), (Some(40), Quota::new(Nanos::ms(50), Nanos::ms(100)).ok()));

    let names: Vec<_> = scenario.entities.iter().map(|e| (e.name.as_str(), e.group)).collect();
    assert_eq!(names, [("t", Some(1)), ("v/0", Some(2)), ("v/1", Some(2))]);
    let (task, vcpu) = (&scenario.entities[0].params, &scenario.entities[2]);
    assert_eq!((task.weight, task.class), (Weight::nice(-5).unwrap(), Class::RoundRobin(RtPriority::new(10).unwrap())));
    let promised = Reservation {
        slice: Nanos::ms(20),
        period: Nanos::ms(50),
        deadline: None,
        start: Some(ms(5)),
        limit: Limit::Hard,
    };
    assert_eq!((vcpu.params.reservation, vcpu.params.weight), (Some(promised), Weight::cgroup(200).unwrap()));
    assert_eq!(vcpu.params.affinity, [0, 1, 7].into_iter().map(CpuId::new).collect::<CpuSet>());
    assert_eq!(vcpu.params.class, Class::Fifo(RtPriority::new(50).unwrap()));
    assert_eq!((vcpu.arrival, vcpu.leaves), (ms(1000), Some(ms(2000))));
    let jobs = Periodic {
        phase: Nanos::ms(1),
        deadline: Nanos::ms(5),
        end: JobEnd::Yield,
        ..Periodic::new(Nanos::ms(10), Nanos::ms(2))
    };
    assert_eq!(vcpu.workload, Workload::Periodic(jobs));
}

#[test]
fn real_processes_are_hogs_to_a_simulation_unless_it_is_told_better() {
    let scenario = parse(
        "name = \"x\"\ncpus = 1\nlength = \"1s\"\n\
         [[vm]]\nname = \"a\"\ncommand = [\"make\", \"-j2\", \"\"]\n\
         [[task]]\nname = \"b\"\npid = 4194304\nworkload.periodic = { period = \"2ms\", work = \"1ms\" }\n\
         [[task]]\nname = \"c\"\nworkload = \"hog\"\n",
    );
    let [a, b, c] = scenario.entities.as_slice() else { panic!("there are three") };
    let words = ["make", "-j2", ""].map(str::to_string).to_vec();
    assert_eq!((&a.real, a.workload), (&Some(Real::Command(words)), Workload::Hog));
    let jobs = Periodic::new(Nanos::ms(2), Nanos::ms(1));
    assert_eq!((&b.real, b.workload), (&Some(Real::Pid(4_194_304)), Workload::Periodic(jobs)));
    assert_eq!((&c.real, c.workload), (&None, Workload::Hog));
    let said = scenario.refused_real(0, "there is no command `make` in PATH", "the name of a program").to_string();
    assert_eq!(said, "x:6:11: `a`: there is no command `make` in PATH; use the name of a program");
}

#[test]
fn vms_and_tasks_keep_the_order_of_the_file() {
    let members: String = ["vm", "task", "vm", "task"]
        .iter()
        .enumerate()
        .map(|(i, kind)| format!("[[{kind}]]\nname = \"{i}\"\nworkload = \"hog\"\n"))
        .collect();
    let scenario = parse(&format!("name = \"x\"\ncpus = 1\nlength = \"1s\"\n{members}"));
    let names: Vec<&str> = scenario.entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2", "3"]);
}

#[test]
fn a_refusal_points_at_what_was_asked() {
    let scenario = example("three-vms.toml");
    let why = sched::Refused::Utilisation {
        asked: scenario.entities[2].params.reservation.unwrap(),
        free_ppm: 100_000,
        on: None,
    };
    let said = scenario.refused(2, &why).to_string();
    let (line, _) = scenario.source.text().lines().enumerate().find(|(_, line)| line.contains("300ms")).unwrap();
    assert!(
        said.contains(&format!("three-vms.toml:{}:9: `c`: 300ms every 1s is 30.00 % of a CPU", line + 1)),
        "{said}"
    );
    assert!(said.ends_with("use at most 100ms every 1s"), "{said}");
}
