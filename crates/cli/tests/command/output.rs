//! The output of commands. Control characters of files and arguments never reach the terminal.

use super::{Place, scenario, tactus, task_set};
use expect_test::expect_file;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn three_vms_look_like_this() {
    expect_file!["three-vms.out"].assert_eq(&tactus(&["sim", &scenario("three-vms.toml")]));
}

#[test]
fn a_comparison_looks_like_this() {
    expect_file!["compared.out"].assert_eq(&tactus(&["sim", &scenario("weights.toml"), "--policy", "credit,cfs,edf"]));
}

#[test]
fn help_and_policies_look_like_this() {
    expect_file!["help.out"].assert_eq(&tactus(&[]));
    expect_file!["sim-help.out"].assert_eq(&tactus(&["sim", "--help"]));
    expect_file!["doctor-help.out"].assert_eq(&tactus(&["doctor", "--help"]));
    expect_file!["policy.out"].assert_eq(&tactus(&["policies", "round-robin"]));
    assert!(tactus(&["--version"]).starts_with("tactus "));
}

#[test]
fn every_policy_is_listed_and_explained() {
    let (list, listed) = (tactus(&["policies"]), json(&tactus(&["policies", "--json"])));
    let listed = listed.as_array().expect("it is a list");
    assert_eq!(listed.len(), policies::ALL.len());
    for (policy, shown) in policies::ALL.iter().zip(listed) {
        assert!(list.contains(&format!("{}  {}", policy.name, policy.title)));
        assert_eq!(shown["name"], policy.name);
        assert_eq!(shown["knobs"].as_array().map(Vec::len), Some(policy.knobs.len()));
        let explained = tactus(&["policies", policy.name]);
        for knob in policy.knobs {
            assert!(explained.contains(&format!("  {} = {}   (", knob.name, knob.show(knob.default))), "{}", knob.name);
        }
        assert_eq!(json(&tactus(&["policies", policy.name, "--json"]))["text"], policy.essay());
    }
}

#[test]
fn every_machine_is_listed_with_its_costs_and_shown_with_its_sources() {
    let (list, listed) = (tactus(&["costs"]), json(&tactus(&["costs", "--json"])));
    let listed = listed.as_array().expect("it is a list");
    assert_eq!(listed.len(), scenario::costs::machines().len());
    for (machine, shown) in scenario::costs::machines().iter().zip(listed) {
        assert!(list.lines().any(|line| line.starts_with(machine.name)), "{}: {list}", machine.name);
        assert_eq!((&shown["name"], &shown["cpus"]), (&machine.name.into(), &machine.cpus.into()));
        assert_eq!(shown["exit_ns"].as_u64(), Some(machine.costs.exit.as_ns()));
        let (alone, text) = (json(&tactus(&["costs", machine.name, "--json"])), tactus(&["costs", machine.name]));
        assert_eq!(&alone, shown);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for figure in &machine.figures {
            assert!(flat.contains(&format!("{} {}", figure.key, figure.value)), "{text}");
            let source = figure.source.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(&source), "{}: {text}", figure.key);
        }
    }
    expect_file!["costs.out"].assert_eq(&tactus(&["costs", "cortex-a15"]));
}

#[test]
fn the_oracle_table_comes_out_of_the_command() {
    let set = task_set();
    let run = ["sim", "--tasks", &set, "--cpus", "4", "--policy", "edf", "--seconds", "10", "--json"];
    let total = json(&tactus(&run))["runs"][0]["total"].clone();
    let names = ["releases", "completions", "misses", "preemptions", "dispatches", "migrations"];
    assert_eq!(names.map(|name| total[name].as_u64()), [6760, 6758, 2, 1680, 8440, 1355].map(Some));
    let with_jobs = json(&tactus(&[&run[..], &["--jobs"]].concat()));
    let jobs = with_jobs["runs"][0]["jobs"].as_array().expect("they were asked for");
    assert_eq!(jobs.len(), 6760);
    let time = |job: &Value, name: &str| job[name].as_u64();
    let mut late: Vec<_> = jobs.iter().filter(|job| time(job, "completion_ns") > time(job, "deadline_ns")).collect();
    late.sort_by_key(|job| time(job, "release_ns"));
    let late: Vec<_> = late.into_iter().map(|job| (time(job, "release_ns"), time(job, "completion_ns"))).collect();
    assert_eq!(late, [(Some(0), Some(88_402_000)), (Some(1_782_438_000), Some(1_869_774_000))]);
}

/// Without a picture, the table uses the counts of the machines. With a picture, the table uses meters.
#[test]
fn the_table_of_a_task_set_is_the_same_with_and_without_meters() {
    // The load is so low that every policy admits it, and one period is so short that jobs are late under some
    // policies.
    let place = Place::new();
    place.file("set.csv", "id,period_us,wcet_us\n0,10000,2000\n1,35000,7000\n2,100000,20000\n3,2500,300\n");
    let policies = policies::ALL.iter().map(|policy| policy.name).collect::<Vec<_>>().join(",");
    for cpus in ["1", "4"] {
        let run = ["sim", "--tasks", "set.csv", "--cpus", cpus, "--seconds", "2", "--policy", &policies];
        let counted = place.run(&run).good();
        let (table, _) = counted.split_once("\nNext:").expect("it suggests a next command");
        let metered = place.run(&[&run[..], &["--svg", "out.svg"]].concat()).good();
        assert!(metered.starts_with(table), "{counted}\n{metered}");
        assert!(table.lines().count() > policies::ALL.len());
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let three = scenario("three-vms.toml");
    let once = || {
        let place = Place::new();
        let run = |file: &str, option: &str| place.run(&["sim", &three, "--seed", "7", option, file]).good();
        let traces = ["out.txt", "out.json", "out.pftrace"].map(|file| run(file, "--trace"));
        let texts = (traces, run("out.svg", "--svg"));
        let report = place.run(&["sim", &three, "--seed", "7", "--json"]).good();
        assert_eq!(place.files(), ["out.json", "out.pftrace", "out.svg", "out.txt"]);
        (texts, report, ["out.json", "out.pftrace", "out.svg", "out.txt"].map(|file| place.read(file)))
    };
    assert!(once() == once());
}

#[test]
fn a_trace_and_a_picture_are_what_their_names_say() {
    let (place, three) = (Place::new(), scenario("three-vms.toml"));
    place.run(&["sim", &three, "--trace", "a.txt", "--svg", "a.svg"]).good();
    place.run(&["sim", &three, "--trace", "a.json"]).good();
    let trace = trace::text::read(&place.read("a.txt")[..]).expect("it is a trace");
    assert_eq!((trace.header.policy.as_str(), trace.header.cpus), ("edf", 1));
    let chrome = json(&String::from_utf8(place.read("a.json")).expect("it is text"));
    assert!(chrome["traceEvents"].as_array().is_some_and(|events| events.len() > 100));
    place.run(&["sim", &three, "--trace", "a.pftrace"]).good();
    let perfetto = place.read("a.pftrace");
    let has = |name: &[u8]| perfetto.windows(name.len()).any(|part| part == name);
    assert!(has(b"policy edf") && has(b"latency") && has(b"remaining"), "it has tracks and counters");
    assert!(place.read("a.svg").starts_with(b"<svg") || place.read("a.svg").starts_with(b"<?xml"));
}

#[cfg(unix)]
#[test]
fn a_written_file_is_like_any_other() {
    use std::os::unix::fs::MetadataExt;
    let (place, three) = (Place::new(), scenario("three-vms.toml"));
    let plain = std::fs::metadata(place.file("plain", "")).expect("it is there");
    place.run(&["sim", &three, "--svg", "a.svg"]).good();
    let mode = |file: &str| std::fs::metadata(place.0.path().join(file)).expect("it is there").mode();
    assert_eq!(mode("a.svg"), plain.mode());
    // A symbolic link is resolved, and its target is replaced. A read-only file stays unchanged.
    std::os::unix::fs::symlink("a.svg", place.0.path().join("link.svg")).expect("it can be made");
    place.file("a.svg", "old");
    place.run(&["sim", &three, "--svg", "link.svg"]).good();
    assert!(place.read("a.svg").len() > 100);
    assert!(std::fs::symlink_metadata(place.0.path().join("link.svg")).expect("it is there").is_symlink());
    // A special file is not replaced; the output is written to it.
    place.run(&["sim", &three, "--svg", "/dev/null"]).good();
    assert!(!std::fs::metadata("/dev/null").expect("it is there").is_file());
    assert!(place.run(&["sim", &three, "--json", "--svg", "/dev/stderr"]).stderr.contains("</svg>"));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    let mut child = place
        .command(&["policies", "edf"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("it is text");
    let done = super::Done::from(child.wait_with_output().expect("it ends"));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
}

#[test]
fn groups_of_several_have_a_table_of_their_own() {
    let place = Place::new();
    place.file(
        "smp.toml",
        "name = \"smp\"\ncpus = 2\nlength = \"100ms\"\npolicy = \"cfs\"\n\
         [[vm]]\nname = \"two\"\nvcpus = 2\nworkload = \"hog\"\n[[vm]]\nname = \"one\"\nworkload = \"hog\"\n",
    );
    let text = place.run(&["sim", "smp.toml"]).good();
    let (_, groups) = text.split_once("\nGroups:\n").expect("there is one of two");
    assert!(groups.contains("\ntwo ") && !groups.contains("\none "), "{groups}");
    let runs = json(&place.run(&["sim", "smp.toml", "--json"]).good());
    let sum: u64 = ["two/0", "two/1", "one"]
        .iter()
        .filter_map(|name| runs["runs"][0]["entities"].as_array()?.iter().find(|entity| entity["name"] == **name))
        .filter_map(|entity| entity["delivered_ns"].as_u64())
        .sum();
    assert_eq!(sum, 200_000_000, "both CPUs were busy all the time");
}

#[test]
fn a_simulation_takes_a_process_for_its_workload() {
    let place = Place::new();
    let simulated = |entity: &str| {
        let head = "name = \"x\"\ncpus = 1\nlength = \"50ms\"\npolicy = \"edf\"\n[[vm]]\nname = \"a\"\n";
        place.file("x.toml", format!("{head}{entity}\n"));
        place.run(&["sim", "x.toml", "--json"]).good()
    };
    assert_eq!(simulated("command = [\"no-such-command\"]"), simulated("workload = \"hog\""));
    let jobs = "workload.periodic = { period = \"5ms\", work = \"1ms\" }";
    assert_eq!(simulated(&format!("pid = 1\n{jobs}")), simulated(jobs));
}

#[test]
fn completions_are_scripts() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef tactus"), ("fish", "complete -c tactus")] {
        let script = tactus(&["completions", shell]);
        for part in [part, "costs", "seeds", "guest-policy"] {
            assert!(script.contains(part), "{shell}: {part}");
        }
    }
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for another process")]
fn an_interrupt_leaves_no_half_files() {
    let place = Place::new();
    // The simulation of a day takes longer than any test.
    let args = ["sim", &scenario("weights.toml"), "--for", "24h", "--trace", "day.txt"];
    let mut child =
        place.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command can be started");
    let mut tries = 0;
    while place.files().is_empty() {
        tries += 1;
        assert!(tries < 10_000, "it never began to write");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_ne!(place.files(), ["day.txt"], "a file that is not complete has another name");
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let done = child.wait().expect("it ends");
    assert_eq!(done.code(), Some(130));
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn tables_fit_the_width_asked_for_and_say_what_they_leave_out() {
    let demo = scenario("demo.toml");
    let lines = |width: &str| tactus(&["sim", &demo, "--policy", "edf,cfs,credit", "--width", width]);
    for width in ["80", "100", "160"] {
        let most: usize = width.parse().expect("it is a number");
        let text = lines(width);
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= most), "{width}:\n{text}");
        assert_eq!(text.contains(" more columns need a larger --width"), most < 160, "{width}:\n{text}");
        assert!(text.contains("… and 1 more (see --json)"), "13 of 14 entities make 39 lines");
    }
}

#[test]
fn a_shorter_run_has_only_the_vms_that_arrived() {
    let text = tactus(&["sim", &scenario("three-vms.toml"), "--for", "50ms", "--json"]);
    let entities = json(&text)["runs"][0]["entities"].clone();
    let names: Vec<_> = entities.as_array().into_iter().flatten().map(|entity| entity["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    let text = tactus(&["sim", &scenario("three-vms.toml"), "--for", "50ms"]);
    assert!(text.contains("50ms simulated") && !text.contains("\nc "), "{text}");
}

#[test]
fn the_auditor_finds_nothing_in_any_policy() {
    let names: Vec<&str> = policies::ALL.iter().map(|policy| policy.name).collect();
    let text = tactus(&["sim", &scenario("three-vms.toml"), "--policy", &names.join(","), "--audit"]);
    assert!(text.contains("The auditor found no broken law."), "{text}");
}

/// Control characters that would clear a terminal and set its title.
const DRIVES: &str = "\x1b[2J\x1b]0;x\x07";

/// Runs a command that fails, and checks that its output does not control a terminal.
fn fails_without_control(place: &Place, args: &[&str]) {
    let done = place.run(args);
    let said = format!("{}{}", done.stdout, done.stderr);
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    assert!(!said.is_empty() && said.chars().all(is_plain), "{args:?}: {said:?}");
    assert_ne!(done.code, Some(0), "{args:?}: {said:?}");
}

#[test]
fn control_characters_in_files_never_reach_the_terminal() {
    let place = Place::new();
    let machine = |key: &str, value: &str| {
        format!("name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"edf\"\n{key} = \"{value}\"\n")
    };
    for (name, content) in [
        ("s.toml", format!("{DRIVES}\n")),
        ("s.toml", machine("# ", DRIVES)),
        ("s.toml", machine("\"\\u001b[2J\"", "\\u001b[2J\\u0007")),
        ("s.toml", machine("x", "1").replace("edf", "\\u001b[2J")),
        ("s.toml", machine("x", "1").replace("name = \"x\"", "name = \"\\u001b[2J\"")),
        ("s.json", format!("{{\"tasks\": {{\"{DRIVES}\": {DRIVES}}}}}")),
        ("s.json", "{\"tasks\": {\"\\u001b[2J\": {\"\\u001b[2J\": \"\\u001b[2J\"}}}".to_string()),
        ("s.csv", format!("id,{DRIVES}\n1,{DRIVES}\n")),
    ] {
        let plain = place.file(name, &content);
        let driving = place.file(&format!("{DRIVES}{name}"), &content);
        for path in [plain, driving] {
            let path = path.to_str().expect("it is UTF-8");
            fails_without_control(&place, &["sim", path]);
            fails_without_control(&place, &["sim", "--tasks", path, "--cpus", "1", "--seconds", "1"]);
        }
    }
}

#[test]
fn control_characters_in_arguments_never_reach_the_terminal() {
    let place = Place::new();
    let unreadable = place.file(&format!("{DRIVES}.toml"), b"name = \"\xff\"\n");
    let missing = place.0.path().join(DRIVES);
    let good = scenario("three-vms.toml");
    for path in [unreadable, missing] {
        let path = path.to_str().expect("it is UTF-8");
        for args in [
            &["sim", path][..],
            &["sim", "--tasks", path, "--cpus", "1", "--seconds", "1"],
            &["sim", &good, "--svg", &format!("{path}/{DRIVES}")],
            &["sim", &good, "--policy", path],
            &["sim", &good, &format!("--{DRIVES}")],
            &["compare", path],
            &["lab", "run", path],
            &["run", path],
            &["guardian", path],
            &["policies", path],
            &[DRIVES],
        ] {
            fails_without_control(&place, args);
        }
    }
}
