//! Several hosts in a scenario: the placement of entities, the links between hosts, and parallel programs across them.

use report::Report;
use run::{Observers, Run};
use scenario::Scenario;
use trace::{MachineId, WorldSink};

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::from_bytes("test.toml", text.as_bytes().to_vec()).map_err(|problems| problems.to_string())
}

fn parse(text: &str) -> Scenario {
    read(text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Runs the scenario under its own policy with an auditor, and also passes its events to `other`.
fn watched(scenario: &Scenario, other: &mut dyn WorldSink) -> Report {
    let choice = run::choose(scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let run = Run { seed: 1, ..Run::new(scenario.clone(), choice) };
    let mut auditor = run.auditor().unwrap_or_else(|problems| panic!("{problems}"));
    let report = run
        .play(Observers::none().world(&mut auditor).world(other))
        .map(Report::of)
        .unwrap_or_else(|problems| panic!("{problems}"));
    assert!(auditor.findings().is_empty(), "{:?}", auditor.findings());
    report
}

fn played(text: &str) -> Report {
    watched(&parse(text), &mut Threads::default())
}

fn head(hosts: usize, cpus: usize, policy: &str) -> String {
    format!("name = \"x\"\nhosts = {hosts}\ncpus = {cpus}\nlength = \"1s\"\npolicy = \"{policy}\"\n")
}

fn hog(name: &str, host: usize) -> String {
    format!("[[task]]\nname = \"{name}\"\nhost = {host}\nworkload = \"hog\"\n")
}

#[test]
fn each_host_has_its_own_cpus_and_its_own_policy() {
    let text = head(3, 1, "cfs") + &hog("a", 1) + &hog("b", 2) + &hog("c", 2);
    let report = played(&text);
    let got: Vec<(&str, Option<&str>, u64)> =
        report.entities.iter().map(|it| (it.name.as_str(), it.host.as_deref(), it.got.delivered_ppm)).collect();
    assert_eq!(got[0], ("a", Some("host-1"), 1_000_000));
    for (name, (is, host, ppm)) in ["b", "c"].iter().zip(&got[1..]) {
        assert_eq!((is, *host), (name, Some("host-2")));
        assert!(ppm.abs_diff(500_000) < 10_000, "{ppm}");
    }
    // The third host has no entities.
    assert_eq!((report.hosts, report.cpus), (3, 1));
    assert!(report.total.delivered_ppm.abs_diff(666_667) <= 1, "{:?}", report.total);
    let scenario = parse(&text);
    let choice = run::choose(&scenario, &[], &[]).expect("it names one").remove(0);
    let header = Run::new(scenario, choice).header().expect("no guests");
    let names: Vec<&str> = header.machines.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(names, ["host-1", "host-2", "host-3"]);
}

#[test]
fn a_group_is_on_one_host_with_all_that_is_in_it() {
    let group = "[[group]]\nname = \"g\"\nhost = 2\n[[group]]\nname = \"inner\"\nparent = \"g\"\n";
    let vm = "[[vm]]\nname = \"v\"\nparent = \"inner\"\nworkload = \"hog\"\n";
    let text = head(2, 1, "cfs") + group + vm;
    let report = played(&text);
    assert_eq!(report.entities[0].host.as_deref(), Some("host-2"));
    assert_eq!(report.groups.iter().map(|group| group.got.delivered_ppm).collect::<Vec<_>>(), [1_000_000; 3]);
    let refused = read(&text.replace("name = \"v\"", "name = \"v\"\nhost = 1")).expect_err("its group is elsewhere");
    assert!(refused.contains("on host 1, and its group on host 2") && refused.contains("host = 2"), "{refused}");
}

#[test]
fn hosts_that_are_not_there_or_not_known_are_refused_in_words() {
    let two = head(2, 1, "edf");
    let manager = "[manager]\ntargets = { v = 20 }\n[[vm]]\nname = \"v\"\ncap = 20\nworkload = \"hog\"\n";
    let network = "[network]\ndrivers = \"split\"\ndomain = [\"d\"]\n[[vm]]\nname = \"d\"\nguest = \"cfs\"\n";
    let far = "[[vm]]\nname = \"far\"\nhost = 2\n[[vm.task]]\nname = \"it\"\nworkload.iperf = {}\n";
    let twice = network.replace("[\"d\"]", "[\"d\", \"e\"]") + "[[vm]]\nname = \"e\"\nguest = \"cfs\"\n";
    for (text, wrong, right) in [
        (two.clone() + &hog("a", 3), "there is no host 3", "1 to 2"),
        (head(1, 1, "edf") + &hog("a", 2), "there is no host 2", "hosts = 2"),
        (two.replace("hosts = 2", "hosts = 65") + &hog("a", 1), "`hosts` is out of range", "1 to 64"),
        (two.clone() + &hog("a", 0), "`host` is out of range", "1 to 64"),
        (two.clone() + manager, "a manager is of one host, and there are 2", "hosts = 1"),
        (two.clone() + network + far, "`far` is on host 2, which has no driver domain", "domain = "),
        (two.clone() + &twice, "host 1 has two driver domains", "one on each"),
        (two.clone() + "[[vm]]\nname = \"host-2\"\nguest = \"cfs\"\n", "the name of a host", "another name"),
        (two.clone() + "[[vm]]\nname = \"v\"\n[[vm.task]]\nname = \"t\"\nhost = 2\nworkload = \"hog\"\n", "`host`", ""),
    ] {
        let refused = read(&text).expect_err(&text);
        assert!(refused.contains(wrong) && refused.contains(right), "{refused}");
    }
    let refused = parse(&(two + &hog("a", 2))).only_entities("a live run").expect_err("it has one host").to_string();
    assert!(refused.contains("2 hosts, and a live run has one"), "{refused}");
}

/// The entities with names `vhost-…`, each with its machine.
#[derive(Default)]
struct Threads(Vec<(MachineId, String)>);

impl WorldSink for Threads {
    fn record(&mut self, machine: MachineId, _: sched::Instant, event: &trace::Event) {
        if let trace::Event::Attach { name, .. } = event
            && name.starts_with("vhost-")
        {
            self.0.push((machine, name.clone()));
        }
    }
}

const PAIR: &str = "[[vm]]\nname = \"root\"\n[[vm.task]]\nname = \"it\"\n\
     workload.search = { leaves = [\"leaf\"], think = \"1ms\", work = \"1ms\", merge = \"0s\", query = 1000, answer = 1000 }\n\
     [[vm]]\nname = \"leaf\"\nguest = \"cfs\"\nhost = 2\n";

#[test]
fn a_search_over_two_hosts_takes_what_the_links_and_the_wire_take() {
    let network = "[network]\nlatency = \"100us\"\nbandwidth = \"1MB\"\ndrivers = \"none\"\n";
    let report = played(&(head(2, 1, "cfs") + network + PAIR));
    let it = &report.guests[0].applications[0];
    let response = it.values.0.iter().find(|(name, _)| *name == "response_max_ns").map(|it| it.1);
    // The response time is the sum of four transfers of 1000 bytes, two latencies of the wire, and the work of the
    // leaf. A transfer takes a microsecond per byte.
    assert_eq!(response, Some(1_000_000 + 2 * (2 * 1_000_000 + 100_000)));
    // If both VMs are on one host, packets pass no link. The latency of the wire and the work of the leaf remain.
    let near = PAIR.replace("host = 2", "host = 1");
    let report = played(&(head(2, 2, "cfs") + network + &near));
    let it = &report.guests[0].applications[0];
    let response = it.values.0.iter().find(|(name, _)| *name == "response_max_ns").map(|it| it.1);
    assert_eq!(response, Some(1_000_000 + 2 * 100_000));
}

#[test]
fn a_device_driver_is_on_the_host_of_its_vm() {
    let mut threads = Threads::default();
    let network = "[network]\nlatency = \"100us\"\n";
    watched(&parse(&(head(2, 1, "cfs") + network + PAIR)), &mut threads);
    let right = [(MachineId(0), "vhost-root".to_string()), (MachineId(1), "vhost-leaf".to_string())];
    assert_eq!(threads.0, right);
    for way in ["hypervisor", "split\"\ndomain = [\"root\", \"leaf\"]#"] {
        let network = format!("[network]\nlatency = \"100us\"\ndrivers = \"{way}\"\n").replace("#\"", "");
        let report = played(&(head(2, 1, "cfs") + &network + PAIR));
        let it = &report.guests[0].applications[0];
        assert!(it.values.0[0].1 > 200, "{way}: {it:?}");
    }
}

/// Returns a value of the first guest's application or, if there is no guest, of the host's application.
#[track_caller]
fn says(report: &Report, name: &str) -> u64 {
    let guests = report.guests.iter().flat_map(|guest| &guest.applications);
    let it = guests.chain(&report.applications).find(|it| it.name == "it").expect("it is there");
    let value = it.values.0.iter().find(|(known, _)| *known == name);
    value.unwrap_or_else(|| panic!("{name} in {it:?}")).1
}

/// Returns four VMs with a node of the program each. `homes` has their hosts, and `asked` has further keys of each VM.
fn nodes(homes: [usize; 4], asked: &str, bsp: &str) -> String {
    let vm = |n: usize| format!("[[vm]]\nname = \"vm{n}\"\nhost = {}\n{asked}", homes[n - 1]);
    let bsp = format!("workload.bsp = {{ nodes = [\"vm2\", \"vm3\", \"vm4\"], compute = \"10ms\", {bsp} }}\n");
    let others: Vec<String> = (2..=4).map(|n| vm(n) + "guest = \"cfs\"\n").collect();
    format!("{}[[vm.task]]\nname = \"it\"\n{bsp}{}", vm(1), others.concat())
}

/// A network whose links take a microsecond per byte, with packets of 1000 bytes.
const SLOW: &str =
    "[network]\nlatency = \"100us\"\nlocal = \"10us\"\nbandwidth = \"1MB\"\npacket = 1000\ndrivers = \"none\"\n";

#[test]
fn a_program_across_hosts_runs_at_full_speed() {
    let bsp = "bytes = 10000, flops = 411000, supersteps = 20";
    // A superstep takes 10 ms to compute and 30 ms to send to three other nodes. The time to receive one more packet
    // and the latency of the wire are added.
    let superstep = 10_000_000 + 30_000_000 + 1_000_000 + 100_000;
    for (hosts, cpus, homes) in [(4, 1, [1, 2, 3, 4]), (1, 4, [1; 4])] {
        let slow = if hosts == 1 { SLOW.replace("local = \"10us\"\n", "") } else { SLOW.to_string() };
        let report = played(&(head(hosts, cpus, "cfs") + &slow + &nodes(homes, "", bsp)));
        let of = |name| says(&report, name);
        assert_eq!((of("rounds"), of("round_p50_ns"), of("round_max_ns")), (20, superstep, superstep));
        assert_eq!((of("speed_ppm"), of("mflop_per_s_milli")), (1_000_000, 40_000), "{hosts} hosts");
    }
    // If all nodes are on the second of two hosts, no message uses a link.
    let report = played(&(head(2, 4, "cfs") + SLOW + &nodes([2; 4], "", bsp)));
    assert_eq!((says(&report, "round_max_ns"), says(&report, "speed_ppm")), (10_010_000, 1_000_000));
    // If each host has two nodes, its link carries four messages in a superstep, and a node can compute while other
    // nodes send.
    let report = played(&(head(2, 2, "cfs") + SLOW + &nodes([1, 1, 2, 2], "", bsp)));
    let (round, speed) = (says(&report, "round_p50_ns"), says(&report, "speed_ppm"));
    assert!(round >= 40_000_000 && (950_000..=1_000_000).contains(&speed), "{round}, {speed}");
}

#[test]
fn load_beside_one_node_slows_a_program_unless_it_has_its_slices() {
    let bsp = "bytes = 1000";
    let rate = |policy: &str, asked: &str, load: &str| {
        let report = played(&(head(4, 1, policy) + SLOW + &nodes([1, 2, 3, 4], asked, bsp) + load));
        says(&report, "rounds")
    };
    let load: String = (0..3).map(|n| hog(&format!("load-{n}"), 3)).collect();
    let slices = "slice = \"5ms\"\nperiod = \"10ms\"\nstart = \"0s\"\nlimit = \"hard\"\n";
    let (kept, still_kept) = (rate("edf", slices, ""), rate("edf", slices, &load));
    assert_eq!(kept, still_kept);
    assert!((33..=67).contains(&kept), "{kept}: half the CPU time, and 4 ms on the wire");
    let (free, slowed) = (rate("cfs", "", ""), rate("cfs", "", &load));
    assert!(free > 65 && slowed * 2 < free, "{free}, then {slowed}");
}

#[test]
fn batches_across_hosts_take_their_launches_and_their_parts() {
    let network = "[network]\nlatency = \"100us\"\ndrivers = \"none\"\n";
    let vms = |threads: usize| {
        let vm = |n: usize| format!("[[vm]]\nname = \"vm{n}\"\nhost = {n}\nvcpus = {threads}\nguest = \"cfs\"\n");
        vm(1) + &vm(2)
    };
    let driver = |threads: usize, waits: &str| {
        format!(
            "[[task]]\nname = \"it\"\nhost = 2\nworkload.micro_batch = {{ workers = [\"vm1\", \"vm2\"], threads = {threads}, \
             interval = \"1ms\", batches = 10, records = 1000, record_work = \"40us\", launch = \"1ms\", waits = \"{waits}\" }}\n"
        )
    };
    // A batch has two stages of 40 ms of CPU time, split between the workers. The second worker begins after the
    // launches of all threads.
    for (threads, waits, stage_us) in
        [(1, "sleeping", 2_000 + 20_000), (2, "spinning", 4_000 + 10_000), (2, "sleeping", 14_000)]
    {
        let report = played(&(head(2, 3, "cfs") + network + &driver(threads, waits) + &vms(threads)));
        let took_us = 1_000 + 10 * 2 * (stage_us + 200);
        assert_eq!((says(&report, "batches"), says(&report, "open")), (10, 0));
        assert_eq!(says(&report, "records_per_s"), 10_000 * 1_000_000 / took_us, "{threads} threads, {waits}");
    }
}

#[test]
fn programs_across_machines_are_refused_with_place_reason_and_remedy() {
    let bsp = |what: &str| format!("[[task]]\nname = \"it\"\nworkload.bsp = {{ {what} }}\n");
    let batch = |what: &str| format!("[[task]]\nname = \"it\"\nworkload.micro_batch = {{ {what} }}\n");
    let vm = "[[vm]]\nname = \"vm2\"\nhost = 2\nguest = \"cfs\"\n";
    let many: Vec<&str> = vec!["\"vm2\""; 64];
    for (network, text, wrong, right) in [
        ("", bsp("nodes = [\"vm2\"]"), "`it` uses a network, and there is none", "[network]"),
        ("", batch("workers = [\"vm2\"]"), "`it` uses a network, and there is none", "[network]"),
        ("[network]\n", bsp("nodes = [\"vm3\"]"), "there is no vm `vm3`", "did you mean `vm2`"),
        ("[network]\n", bsp("nodes = []"), "`nodes` names no VM", "nodes = ["),
        ("[network]\n", bsp(&format!("nodes = [{}]", many.join(", "))), "there are 64 VMs in `nodes`", "at most 63"),
        ("[network]\n", bsp("nodes = 4, bytes = 10"), "`bytes` is for nodes in VMs", "leave `bytes` out"),
        (
            "[network]\n",
            bsp("nodes = [\"vm2\"], waits = \"spinning\""),
            "`waits` is for nodes on one",
            "leave `waits` out",
        ),
        ("[network]\n", batch("workers = 4, threads = 2"), "`threads` is for workers in VMs", "leave `threads` out"),
        ("[network]\n", batch("record_work = \"1us\""), "no number of records", "records = "),
        (
            "[network]\n",
            batch("records = 9, record_work = \"1us\", work = \"1ms\""),
            "`work` is for batches without",
            "leave `work` out",
        ),
    ] {
        let text = head(2, 1, "cfs") + network + &text + vm;
        let refused = read(&text).expect_err(&text);
        assert!(refused.contains(wrong) && refused.contains(right), "{refused}");
    }
    let own = vm.replace("guest = \"cfs\"\n", "[[vm.task]]\nname = \"it\"\nworkload.bsp = { nodes = [\"vm2\"] }\n");
    let refused = read(&(head(2, 1, "cfs") + "[network]\n" + &own)).expect_err("it is there itself");
    assert!(refused.contains("`it` is in `vm2` itself") && refused.contains("other VMs"), "{refused}");
}
