//! Scenarios with hosts and guests: their output and their files.

use super::{Place, scenario, tactus};
use expect_test::expect_file;
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn two_levels_look_like_this() {
    let text = tactus(&["sim", &scenario("two-levels.toml"), "--for", "2s", "--width", "110", "--audit"]);
    expect_file!["two-levels.out"].assert_eq(&text);
}

#[test]
fn a_trace_of_a_world_names_its_machines_and_opens_in_a_viewer() {
    let place = Place::new();
    let two = scenario("two-levels.toml");
    let run = |file: &str, option: &str| {
        let done = place.run(&["sim", &two, "--for", "300ms", option, file]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        String::from_utf8(place.read(file)).expect("it is text")
    };
    let text = run("a.txt", "--trace");
    assert!(text.starts_with("tactus-world 1 machines=2\nmachine m0 name=\"host\" policy=\"cfs\""), "{text:.200}");
    assert!(text.contains(" m0 vcpu e0 guest=m1 cpu=0\n") && text.contains(" m1 thaw cpu=0 stolen="));
    let viewer = json(&run("a.json", "--trace"));
    let events = viewer["traceEvents"].as_array().expect("there are events");
    let named = |name: &str| events.iter().any(|event| event["args"]["name"] == name);
    assert!(named("host") && events.iter().any(|event| event["name"] == "stolen"), "{}", events.len());
    let picture = run("a.svg", "--svg");
    assert!(picture.starts_with("<svg") && picture.contains("cyclictest") && picture.contains("host hog 1"));
}

#[test]
fn guests_are_in_the_json_and_follow_the_policy_that_is_asked_for() {
    let two = scenario("two-levels.toml");
    let run = |policy: &str| {
        json(&tactus(&["sim", &two, "--for", "1s", "--json", "--guest-policy", policy]))["runs"][0]["guests"][0].clone()
    };
    let (bfs, eevdf) = (run("bfs"), run("eevdf"));
    assert_eq!((&bfs["name"], &bfs["policy"], &eevdf["policy"]), (&"vm".into(), &"bfs".into(), &"eevdf".into()));
    assert!(bfs["stolen_ns"].as_u64() > Some(0) && bfs != eevdf);
    let names = bfs["entities"].as_array().expect("it has tasks").iter().map(|task| task["name"].clone());
    assert!(names.collect::<Vec<_>>().contains(&"hog".into()));
}

#[test]
fn a_world_is_the_same_for_any_number_of_threads() {
    let two = scenario("two-levels.toml");
    let run = |threads: &str| {
        let place = Place::new();
        let done = place.run(&["sim", &two, "--for", "1s", "--seeds", "4", "-j", threads, "--json", "--audit"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let alone = run("1");
    assert!(alone == run("2") && alone == run("4"));
    let runs = json(&alone)["runs"].as_array().cloned().expect("there are runs");
    assert_ne!(runs[0]["guests"], runs[1]["guests"], "seeds differ");
}

#[test]
fn a_stuck_run_ends_with_its_wait_cycle() {
    let place = Place::new();
    // The checks before a run do not find this deadlock, because it depends on the durations of `run1`.
    let app = place.file(
        "locks.json",
        r#"{ "global": { "duration": 1 }, "tasks": {
            "left": { "lock1": "a", "run1": 1000, "lock2": "b", "unlock2": "b", "unlock1": "a", "sleep": 10 },
            "right": { "lock1": "b", "run1": 1000, "lock2": "a", "unlock2": "a", "unlock1": "b", "sleep": 10 } } }"#,
    );
    let file = place.file(
        "locks.toml",
        format!(
            "name = \"locks\"\ncpus = 2\nlength = \"1s\"\npolicy = \"cfs\"\n[[task]]\nname = \"app\"\nworkload = {{ rt-app = {:?} }}\n",
            app.file_name().expect("it has a name").to_string_lossy()
        ),
    );
    let done = place.run(&["sim", &file.display().to_string()]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{}", done.stderr);
    for part in ["waits for", "which", "holds", "take the locks in the same order"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn an_rt_app_that_loses_a_wake_up_waits_until_its_duration_is_over() {
    let place = Place::new();
    // `late` suspends after it was resumed, and `early` waits for `late`.
    place.file(
        "lost.json",
        r#"{ "global": { "duration": 1 }, "tasks": {
            "early": { "loop": 1, "resume": "go", "run": 200, "suspend": "done" },
            "late": { "loop": 1, "delay": 1000, "run": 500, "suspend": "go", "resume": "done" } } }"#,
    );
    let scenario = "name = \"lost\"\ncpus = 1\nlength = \"2s\"\npolicy = \"cfs\"\n\
        [[task]]\nname = \"app\"\nworkload = { rt-app = \"lost.json\" }\n\
        [[task]]\nname = \"beat\"\nworkload = { periodic = { period = \"10ms\", work = \"1ms\" } }\n";
    place.file("lost.toml", scenario);
    let said = place.run(&["sim", "lost.toml", "--audit"]).good();
    // `beat` runs first, then `early` for 0.2 ms, then `late` for 0.5 ms.
    let stall = "From 1.7ms on, all tasks of an application on host wait for each other:\n  \
        app/early waits for condition `done` since 1.2ms\n  app/late waits for condition `go` since 1.7ms\n";
    assert!(said.contains(stall) && said.contains("found no broken law"), "{said}");
    let report = json(&place.run(&["sim", "lost.toml", "--json"]).good());
    let stalls = &report["runs"][0]["stalls"];
    assert_eq!((&stalls[0]["at_ns"], stalls.as_array().map(Vec::len)), (&1_700_000.into(), Some(1)), "{stalls}");
    // The other entities continue, and the application is gone after its duration.
    let beat = report["runs"][0]["entities"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "beat"));
    assert!(beat.is_some_and(|beat| beat["completions"] == 200 || beat["got"]["completions"] == 200), "{beat:?}");
}

const HOSTS: &str = r#"
name = "two hosts"
hosts = 2
cpus = 1
length = "200ms"
policy = "edf"

[network]
latency = "50us"

[[vm]]
name = "root"
[[vm.task]]
name = "search"
workload = { search = { leaves = ["leaf"] } }

[[vm]]
name = "leaf"
host = 2
guest = "eevdf"

[[task]]
name = "beat"
host = 2
slice = "1ms"
period = "10ms"
workload = { periodic = { period = "10ms", work = "1ms" } }
"#;

#[test]
fn several_hosts_are_told_apart_in_every_output() {
    let place = Place::new();
    place.file("hosts.toml", HOSTS);
    let run = |more: &[&str]| place.run(&[&["sim", "hosts.toml", "--audit"], more].concat()).good();
    let text = |file: &str| String::from_utf8(place.read(file)).expect("it is text");
    let said = run(&["--trace", "a.txt", "--ftrace", "f.txt", "--svg", "a.svg", "--xenmon"]);
    assert!(said.contains("two hosts under edf: 2 hosts of 1 CPU, 200ms simulated"), "{said}");
    assert!(said.contains("Domains of host-1") && said.contains("Domains of host-2"), "{said}");
    assert!(
        said.contains("and the traces of other machines beside it") && said.contains("found no broken law"),
        "{said}"
    );
    let trace = text("a.txt");
    for machine in ["m0 name=\"host-1\"", "m1 name=\"host-2\"", "m2 name=\"root\"", "m3 name=\"leaf\""] {
        assert!(trace.contains(machine), "{trace:.400}");
    }
    assert!(text("f.txt").contains("vhost-root") && !text("f.txt").contains("vhost-leaf"));
    assert!(text("f.host-2.txt").contains("beat") && text("f.leaf.txt").contains("root/search/lea"));
    let picture = text("a.svg");
    assert!(picture.contains("host-1") && picture.contains("host-2"));
    run(&["--trace", "a.json"]);
    assert!(text("a.json").contains("host-2"));
    // Jobs, totals, medians and comparisons include both hosts.
    let report = json(&run(&["--json", "--jobs"]))["runs"][0].clone();
    assert_eq!((&report["hosts"], report["jobs"].as_array().map(Vec::len)), (&2.into(), Some(20)));
    let entities = report["entities"].as_array().expect("there are some");
    let beat = entities.iter().find(|it| it["name"] == "beat").expect("it is there");
    assert_eq!(beat["host"], "host-2");
    let over_seeds = |threads: &str| {
        let done = place.run(&["sim", "hosts.toml", "--audit", "--policy", "edf,cfs", "--seeds", "3", "-j", threads]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), "simulated 6 runs of 200ms\n"), "{}", done.stdout);
        done.stdout
    };
    let both = over_seeds("2");
    assert!(both.contains("2 hosts of 1 CPU") && both.contains("beat") && both == over_seeds("1"), "{both}");
    let live = place.run(&["run", "hosts.toml"]);
    assert_eq!(live.code, Some(2), "{}", live.stderr);
    assert!(live.stderr.contains("the scenario has 2 hosts, and a live run has one"), "{}", live.stderr);
}
