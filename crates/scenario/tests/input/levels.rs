//! Guests and applications in scenarios: valid input has the meaning that the manual documents, and every error has its
//! span.

use coordination::{Boost, Coordination, Protocol, Rule};
use expect_test::expect_file;
use input::files::{Files, Unreadable};
use scenario::{Periodic, Scenario, Workload};
use sched::{CpuId, CpuSet, Instant, Nanos, Params, Weight};
use sim::Guest;
use sim::guest::{HaltPolling, PauseLoop, Spinning, Steal};
use sim::program::Length;
use std::collections::BTreeMap;
use std::sync::Arc;
use workloads::{ApplicationWorkload, Cyclictest, ForkJoin, Hackbench, Phase, Startup, Waits};

const START: &str = "name = \"x\"\ncpus = 2\nlength = \"1s\"\n";

fn parse(text: &str) -> Scenario {
    Scenario::from_bytes("x.toml", format!("{START}{text}").into()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the problems of each of `parts` as the rest of a scenario with two CPUs.
fn said(parts: &[&str]) -> String {
    let said = |part: &&str| {
        let text = format!("{START}{part}\n");
        let problems = Scenario::with_files("x.toml", text.into(), Arc::new(Empty))
            .err()
            .unwrap_or_else(|| panic!("{part} is wrong"));
        format!("{part}\n  {}\n", problems.to_string().replace('\n', "\n  "))
    };
    parts.iter().map(said).collect::<Vec<_>>().join("\n")
}

/// A file system without files, except for one device.
struct Empty;

impl Files for Empty {
    fn read(&self, name: &str) -> Result<Vec<u8>, Unreadable> {
        match name {
            "/dev/zero" => Err(Unreadable::NotAFile),
            _ => Err(Unreadable::Missing("No such file or directory (os error 2)".to_string())),
        }
    }
}

/// Reads a scenario from a directory with an rt-app file `app.json`, whose content is `json`.
fn beside(json: &str, text: &str) -> Result<Scenario, String> {
    let files = BTreeMap::from([("…/app.json".to_string(), json.as_bytes().to_vec())]);
    let scenario = Scenario::with_files("…/x.toml", format!("{START}{text}").into_bytes(), Arc::new(files));
    scenario.map_err(|problems| problems.to_string())
}

const GUESTS: &str = r#"
    [[vm]]
    name = "plain"
    workload = "hog"
    [[vm]]
    name = "desktop"
    vcpus = 2
    arrival = "5ms"
    [vm.guest]
    policy = { name = "cfs", knobs = { } }
    spin = { paravirt = "15us" }
    steal = "known"
    shows_preempted = true
    halt_polling = { most = "100us", grow = 3 }
    pause_loop = "4us"
    spin_report = "1ms"
    idle_polls = true
    coordination = { protocol = "kiszka", detector = "ule", boost = "nice:-20", interrupt = "nice:-5", budget = "5ms", window = "50ms", limit = "4ms", preempt_limit = "1ms", tick = "4ms" }
    [[vm.task]]
    name = "t"
    parent = "inner"
    affinity = "1"
    nice = 5
    workload = { periodic = { period = "10ms", work = "2ms" } }
    [[vm.group]]
    name = "inner"
    [[vm.task]]
    name = "plain"
    arrival = "7ms"
    leaves = "9ms"
    workload = { cyclictest = { threads = 3 } }
    [[vm]]
    name = "idle"
    guest = "bfs"
    [[task]]
    name = "t"
    workload = "hog"
    "#;

#[test]
fn a_guest_has_all_that_is_given() {
    let scenario = parse(GUESTS);
    let names: Vec<&str> = scenario.entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!(names, ["plain", "desktop/0", "desktop/1", "idle", "t"]);
    let workloads: Vec<Workload> = scenario.entities.iter().map(|entity| entity.workload).collect();
    let vcpu = Workload::Vcpu;
    assert_eq!(workloads, [Workload::Hog, vcpu, vcpu, vcpu, Workload::Hog]);

    let [desktop, idle] = scenario.guests.as_slice() else { panic!("{:?}", scenario.guests) };
    assert_eq!((desktop.name.as_str(), desktop.vcpus.clone(), idle.vcpus.clone()), ("desktop", 1..3, 3..4));
    let policy = |guest: &scenario::GuestSpec| guest.policy.as_ref().map(|policy| policy.name.clone());
    assert_eq!((policy(desktop), policy(idle)), (Some("cfs".to_string()), Some("bfs".to_string())));
    let guest = Guest {
        spinning: Spinning::Paravirt { limit: Nanos::us(15) },
        steal: Steal::Known,
        shows_preempted: true,
        halt_polling: HaltPolling { most: Nanos::us(100), grow: 3, ..HaltPolling::KVM },
        pause_loop: Some(PauseLoop { window: Nanos::us(4) }),
        spin_report: Some(Nanos::ms(1)),
        idle_polls: true,
        coordination: Some(Coordination {
            detector: Rule::Ule,
            boost: Boost::Weight(Weight::nice(-20).unwrap()),
            interrupt: Boost::Weight(Weight::nice(-5).unwrap()),
            budget: Nanos::ms(5),
            window: Nanos::ms(50),
            limit: Nanos::ms(4),
            preempt_limit: Nanos::ms(1),
            tick: Nanos::ms(4),
            ..Coordination::new(Protocol::Kiszka)
        }),
    };
    assert_eq!((desktop.guest, idle.guest), (guest, Guest::default()));

    let [task] = desktop.entities.as_slice() else { panic!("{:?}", desktop.entities) };
    let jobs = Workload::Periodic(Periodic::new(Nanos::ms(10), Nanos::ms(2)));
    assert_eq!((task.name.as_str(), task.group, task.workload), ("t", Some(0), jobs));
    let one: CpuSet = [CpuId::new(1)].into_iter().collect();
    assert_eq!((task.params.affinity, task.params.weight), (one, Weight::nice(5).unwrap()));
    let at = |ms| Instant::ZERO + Nanos::ms(ms);
    assert_eq!(task.arrival, at(5), "the task arrives with the VM, not before");
    let [application] = desktop.applications.as_slice() else { panic!("{:?}", desktop.applications) };
    assert_eq!((application.arrival, application.leaves), (at(7), Some(at(9))));
    assert_eq!(application.application.tasks.len(), 3);
    assert_eq!((idle.entities.len(), idle.applications.len()), (0, 0));
}

#[test]
fn workloads_have_all_that_is_given() {
    let us = |n| Length::Fixed(Nanos::us(n));
    let uniform = Length::Uniform { least: Nanos::ms(1), most: Nanos::ms(3) };
    let exponential = Length::Exponential { mean: Nanos::us(20) };
    let period = Nanos::ms(10);
    let jobs = |work, phase| Box::new(workloads::Periodic { period, work, phase, deadline: period });
    let bench = Hackbench { groups: 2, fds: 3, loops: 4, datasize: 5, ..Hackbench::default() };
    let startup = Startup { launches: Some(3), waits: 4, wait: exponential, pause: us(7), ..Startup::new(uniform) };
    let team =
        ForkJoin { threads: 8, rounds: Some(2), waits: Waits::Spinning, locks: 5, hold: us(2), ..ForkJoin::new(us(9)) };
    let test = Cyclictest { interval: Nanos::ms(2), threads: 2, loops: Some(9), work: us(0), ..Cyclictest::default() };
    let adaptive = |spin| ForkJoin { waits: Waits::SpinThenSleep { spin }, ..ForkJoin::new(us(9)) };
    let rows: [(&str, Box<dyn ApplicationWorkload>); 10] = [
        ("fork_join = { work = \"9us\", waits = \"spin-then-sleep\" }", Box::new(adaptive(Nanos::ms(3)))),
        (
            "fork_join = { work = \"9us\", waits = \"spin-then-sleep\", spin = \"1us\" }",
            Box::new(adaptive(Nanos::us(1))),
        ),
        (
            "periodic = { period = \"10ms\", work = { uniform = [\"1ms\", \"3ms\"] } }",
            jobs(uniform, Phase::Fixed(Nanos::ZERO)),
        ),
        ("periodic = { period = \"10ms\", work = \"20us\", phase = \"random\" }", jobs(us(20), Phase::Random)),
        ("cyclictest = {}", Box::new(Cyclictest::default())),
        ("cyclictest = { interval = \"2ms\", threads = 2, loops = 9, work = \"0s\" }", Box::new(test)),
        ("hackbench = {}", Box::new(Hackbench::default())),
        ("hackbench = { groups = 2, fds = 3, loops = 4, datasize = 5 }", Box::new(bench)),
        (
            "startup = { work = { uniform = [\"1ms\", \"3ms\"] }, launches = 3, waits = 4, wait = { exponential = \"20us\" }, pause = \
             \"7us\" }",
            Box::new(startup),
        ),
        (
            "fork_join = { work = \"9us\", threads = 8, rounds = 2, waits = \"spinning\", locks = 5, hold = \"2us\" }",
            Box::new(team),
        ),
    ];
    for (text, workload) in rows {
        let scenario = parse(&format!("[[task]]\nname = \"t\"\nnice = -3\nworkload = {{ {text} }}\n"));
        let params = Params { weight: Weight::nice(-3).unwrap(), ..Params::default() };
        let [application] = scenario.applications.as_slice() else { panic!("{text}") };
        assert_eq!(application.application, workloads::called("t", &workload.plan(params).application), "{text}");
        assert!(scenario.entities.is_empty(), "{text}");
    }
}

#[test]
fn a_file_of_rt_app_stands_beside_its_scenario() {
    let json = "{ \"global\" : { \"duration\" : 1 }, \"tasks\" : { \"a\" : { \"instance\" : 3, \"run\" : 5, \"sleep\" : 5 } } }";
    let scenario =
        beside(json, "[[task]]\nname = \"t\"\narrival = \"2ms\"\nworkload = { rt-app = \"app.json\" }\n").unwrap();
    let [application] = scenario.applications.as_slice() else { panic!("{:?}", scenario.applications) };
    let names: Vec<&str> = application.application.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!((application.name.as_str(), names.as_slice()), ("t", &["t/a-0", "t/a-1", "t/a-2"][..]));
    assert_eq!(application.leaves, Some(Instant::ZERO + Nanos::ms(1002)), "when its duration is over");
}

#[test]
fn what_is_wrong_in_a_file_of_rt_app_is_said_there() {
    let task = "[[task]]\nname = \"t\"\nworkload = { rt-app = \"app.json\" }\n";
    let wrong = "{ \"tasks\" : { \"a\" : { \"runn\" : 5 },\n\"b\" : { \"run\" : 5, \"barrier\" : 7 } } }";
    let said = beside(wrong, task).unwrap_err();
    assert!(
        said.starts_with("…/app.json:1:23: a thread has no property and no event `runn`; did you mean `run`?"),
        "{said}"
    );
    assert!(said.contains("\n…/app.json:2:32: `barrier` is a whole number;"), "{said}");
    let many: String = (0..20).map(|i| format!("\"x{i}\" : 1, ")).collect();
    let said = beside(&format!("{{ \"tasks\" : {{ \"a\" : {{ {many} }} }} }}"), task).unwrap_err();
    assert!(said.ends_with("and 10 more"), "{said}");

    let right = "{ \"tasks\" : { \"a\" : { \"cpus\" : [5], \"instance\" : 600000, \"run\" : 5 } } }";
    let twice = format!("{task}nice = 3\n{}", task.replace("\"t\"", "\"u\""));
    expect_file!["errors/rtapp-beside.txt"].assert_eq(&beside(right, &twice).unwrap_err());
}

#[test]
fn what_is_wrong_with_guests_and_applications_is_said() {
    let vm = |rest: &str| format!("[[vm]]\nname = \"v\"\n{rest}");
    let task = |workload: &str| format!("[[task]]\nname = \"t\"\nworkload = {{ {workload} }}");
    let parts = [
        vm("guest = 5"),
        vm("guest = { polcy = \"cfs\", spin = \"tickets\", steal = true, pause_loop = 4 }"),
        vm("guest = { spin = { paravirt = \"0s\" }, halt_polling = \"on\", spin_report = \"0s\" }"),
        vm("guest = { halt_polling = { grow = 1 } }"),
        vm("guest = { coordination = \"rfc\" }"),
        vm("guest = { coordination = 5 }"),
        vm("guest = { coordination = { detector = \"elf\", boost = \"rr\" } }"),
        vm("guest = { coordination = { protocol = 1, detectr = \"ule\", boost = \"rr:100\", tick = \"1ns\" } }"),
        vm("guest = { coordination = { protocol = \"s0\", boost = \"nice:20\", interrupt = \"idle:1\", limit = 5 } }"),
        vm("guest = { coordination = { protocol = \"s0\", budget = \"50ms\", window = \"40ms\" } }"),
        vm("guest = { coordination = { protocol = \"s0\", budget = \"200ms\" } }"),
        vm("guest = { coordination = { protocol = \"kiszka\", boost = \"rr:8\", interrupt = \"fifo:9\" } }"),
        vm("guest = \"cfs\"\nworkload = \"hog\"\nleaves = \"5ms\""),
        vm("guest = \"cfs\"\npid = 7"),
        vm("vcpus = 2\n[[vm.task]]\nname = \"t\"\naffinity = \"2\"\nworkload = \"hog\""),
        vm(
            "[[vm.task]]\nname = \"t\"\nparent = \"g\"\ncommand = [\"make\"]\nworkload = \"hog\"\n[[vm.task]]\nname = \"t\"",
        ),
        vm("[[vm.group]]\nname = \"g\"\nparent = \"g\"\n[[vm.vm]]\nname = \"w\""),
        "[[group]]\nname = \"g\"\n[[vm]]\nname = \"v\"\n[[vm.task]]\nname = \"t\"\nparent = \"g\"\nworkload = \"hog\""
            .to_string(),
        vm("workload = { cyclictest = {} }"),
        "[[task]]\nname = \"t\"\nguest = \"cfs\"\nworkload = \"hog\"".to_string(),
        "[[task]]\nname = \"t\"\npid = 5\nworkload = { cyclictest = {} }".to_string(),
        "[[task]]\nname = \"t\"\nworkload = \"cyclictest\"".to_string(),
        task("cyclictest = { interval = \"0s\", threads = 0, loops = 0, distanc = \"1s\" }"),
        task("cyclictest = { threads = 1048577 }"),
        task("hackbench = { groups = 1000000000 }"),
        task("hackbench = { groups = 1000, fds = 1000 }"),
        task("hackbench = { fds = 1001, datasize = 65537, channel = \"pipe\", work = \"0s\", loops = -1 }"),
        task("startup = { launches = 5 }"),
        task("startup = { wrok = \"5ms\", waits = 10001 }"),
        task("fork_join = { threads = 1000000, work = \"1ms\", locks = 10 }"),
        task("fork_join = { work = \"0s\", waits = \"spinnin\" }"),
        task("fork_join = { work = \"1ms\", spin = \"1ms\" }"),
        task("fork_join = { work = \"1ms\", waits = \"spin-then-sleep\", spin = \"0s\" }"),
        task("periodic = { period = \"10ms\", work = { uniform = [\"3ms\", \"1ms\"] } }"),
        task("periodic = { period = \"10ms\", work = { uniform = [\"11ms\", \"12ms\"] } }"),
        task("periodic = { period = \"10ms\", work = { uniform = [\"1ms\"] } }"),
        task("periodic = { period = \"10ms\", work = { normal = \"1ms\" } }"),
        task("periodic = { period = \"10ms\", work = { exponential = 5 } }"),
        task("periodic = { period = \"10ms\", work = { exponential = \"1h\", uniform = [] } }"),
        task("periodic = { period = \"10ms\", work = { exponential = \"20000000h\" } }"),
        task("periodic = { period = \"10ms\", work = \"1ms\", phase = \"random\", end = \"yield\" }"),
        task("periodic = { period = \"10ms\", work = \"1ms\", phase = \"never\" }"),
        task("rt-app = { file = \"x.json\" }"),
        task("rt-app = \"no-such-file.json\""),
        task("rt-app = \"/dev/zero\""),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    expect_file!["errors/levels.txt"].assert_eq(&said(&parts));
}

#[test]
fn what_runs_on_one_level_only_says_so() {
    let scenario = parse(GUESTS);
    let said = scenario.only_entities("a live run").unwrap_err().to_string();
    assert_eq!(
        said,
        "x.toml:12:5: `desktop` is a VM with a guest, and a live run has none; use entities alone, with the workload \
         \"hog\" or a periodic one without chance"
    );
    let said = parse("[[task]]\nname = \"t\"\nworkload.cyclictest = {}\n").only_entities("a live run").unwrap_err();
    assert!(
        said.to_string().starts_with("x.toml:6:1: `t` is an application of tasks, and a live run has none"),
        "{said}"
    );
    let task = "[[task]]\nname = \"t\"\nworkload = \"hog\"\n";
    assert!(parse(task).only_entities("a live run").is_ok());
    let managed = "[[vm]]\nname = \"v\"\ncap = 20\nworkload = \"hog\"\n[manager]\ntargets = { v = 20 }\n";
    for (table, text) in [("[manager]", managed), ("[network]", "[network]\n"), ("[disk]", "[disk]\n")] {
        let scenario = parse(&format!("{task}{text}"));
        let place = scenario.source.text().lines().position(|line| line == table).unwrap() + 1;
        let said = scenario.only_entities("a live run").unwrap_err().to_string();
        let right = format!("there is a {table}, and a live run has none; leave {table} out");
        assert_eq!(said, format!("x.toml:{place}:1: {right}"));
    }
}
