//! Several hosts in a scenario: who is where, what joins them, and parallel programs across them.

use lab::report::Report;
use lab::scenario::Scenario;
use lab::{Choice, Run};
use trace::{MachineId, WorldSink};

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::from_bytes("test.toml", text.as_bytes().to_vec()).map_err(|problems| problems.to_string())
}

fn parse(text: &str) -> Scenario {
    read(text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Plays it under its own policy, with the auditor beside it; shows it to `other`, too.
fn watched(scenario: &Scenario, other: &mut dyn WorldSink) -> Report {
    let Choice { policy, knobs } = lab::choose(scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let run = Run { scenario, policy, knobs: &knobs, guests: None, seed: 1 };
    let mut auditor = run.auditor().unwrap_or_else(|problems| panic!("{problems}"));
    let watchers: &mut [&mut dyn WorldSink] = &mut [&mut auditor, other];
    let report = run.play(&mut [], watchers).unwrap_or_else(|problems| panic!("{problems}"));
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
    // The third has nothing to do.
    assert_eq!((report.hosts, report.cpus), (3, 1));
    assert!(report.total.delivered_ppm.abs_diff(666_667) <= 1, "{:?}", report.total);
    let scenario = parse(&text);
    let Choice { policy, knobs } = lab::choose(&scenario, &[], &[]).expect("it names one").remove(0);
    let header = Run { scenario: &scenario, policy, knobs: &knobs, guests: None, seed: 1 }.header().expect("no guests");
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

/// Who came to a machine, and is called `vhost-…`.
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
    // 1000 bytes out and in at a millionth of a second each, twice, and the wire twice; and the leaf's work.
    assert_eq!(response, Some(1_000_000 + 2 * (2 * 1_000_000 + 100_000)));
    // On one host, nothing leaves it: only the wire is the same.
    let near = PAIR.replace("host = 2", "host = 1");
    let report = played(&(head(2, 2, "cfs") + network + &near));
    let it = &report.guests[0].applications[0];
    let response = it.values.0.iter().find(|(name, _)| *name == "response_max_ns").map(|it| it.1);
    assert_eq!(response, Some(1_000_000 + 2 * 100_000));
}

#[test]
fn whoever_drives_devices_is_on_the_host_of_its_vm() {
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
