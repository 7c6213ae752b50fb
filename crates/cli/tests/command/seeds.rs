//! `tactus sim --seeds`, with several runs at a time.

use super::{Done, Place, scenario};
use expect_test::expect_file;
use serde_json::Value;
use std::process::Stdio;

/// Returns the output of `tactus sim --seeds`. Asserts that standard error contains only the progress.
fn sim(args: &[&str]) -> String {
    let place = Place::new();
    let done = place.run(&[&["sim"], args].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(done.stderr.starts_with("simulated ") && done.stderr.contains(" runs of "), "{}", done.stderr);
    assert_eq!(place.files(), [""; 0]);
    done.stdout
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn medians_over_seeds_look_like_this() {
    let three = scenario("three-vms.toml");
    expect_file!["seeds.out"].assert_eq(&sim(&[&three, "--policy", "edf,credit", "--seeds", "5", "--seed", "7"]));
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    let weights = scenario("weights.toml");
    let run = |threads: &str, option: &[&str]| {
        sim(&[&[&weights, "--policy", "cfs,credit", "--for", "2s", "--seeds", "7", "-j", threads], option].concat())
    };
    for option in [&[][..], &["--json"], &["--audit"]] {
        let alone = run("1", option);
        assert!(alone == run("2", option) && alone == run("5", option), "{alone}");
    }
}

#[test]
fn every_run_is_told_in_order_with_its_seed_and_is_what_it_is_alone() {
    let three = scenario("three-vms.toml");
    let told = json(&sim(&[&three, "--policy", "edf,cfs", "--seeds", "3", "--seed", "40", "-j", "2", "--json"]));
    let runs = told["runs"].as_array().expect("there are runs");
    let seen: Vec<_> = runs.iter().map(|run| (run["policy"].as_str(), run["seed"].as_u64())).collect();
    let right = ["edf", "cfs"].map(|policy| [40, 41, 42].map(|seed| (Some(policy), Some(seed)))).concat();
    assert_eq!(seen, right);
    let alone = json(&super::tactus(&["sim", &three, "--policy", "cfs", "--seed", "41", "--json"]));
    assert_eq!(runs[4], alone["runs"][0]);
    let medians = told["medians"].as_array().expect("there are medians");
    assert_eq!(medians.len(), 2);
    for (nth, of) in medians.iter().enumerate() {
        assert_eq!((&of["seeds"], &of["confidence_ppm"]), (&json("[40, 41, 42]"), &750_000.into()));
        let mut got: Vec<_> =
            runs[3 * nth..][..3].iter().map(|run| run["entities"][1]["delivered_ns"].as_u64()).collect();
        got.sort_unstable();
        let entity = &of["entities"][1];
        assert_eq!((entity["name"].as_str(), entity["runs"].as_u64()), (Some("b"), Some(3)));
        let spread = ["low", "median", "high"].map(|part| entity["delivered_ns"][part].as_u64());
        assert_eq!(spread.as_slice(), got);
    }
}

#[test]
fn guests_have_medians_too_and_the_policy_that_is_asked_for_them() {
    let two = scenario("two-levels.toml");
    let run = |policy: &str, threads: &str| {
        let given = ["--seeds", "3", "-j", threads, "--guest-policy", policy, "--json"];
        sim(&[&[two.as_str(), "--for", "300ms"], &given[..]].concat())
    };
    let (one, other) = (run("eevdf", "1"), run("round-robin", "2"));
    assert_eq!(one, run("eevdf", "2"));
    for (told, policy) in [(&one, "eevdf"), (&other, "round-robin")] {
        let told = json(told);
        let guests = told["medians"][0]["guests"].as_array().expect("there are guests").clone();
        assert!(guests.iter().all(|guest| guest["policy"] == policy), "{guests:?}");
        assert!(guests.iter().any(|guest| guest["stolen_ns"]["median"].as_u64() > Some(0)), "{guests:?}");
        let alone = ["sim", &two, "--for", "300ms", "--guest-policy", policy, "--seed", "2", "--json"];
        assert_eq!(told["runs"][1], json(&super::tactus(&alone))["runs"][0]);
    }
    assert_ne!(json(&one)["medians"][0]["guests"][0]["total"], json(&other)["medians"][0]["guests"][0]["total"]);
}

#[test]
fn options_that_make_no_sense_with_seeds_are_refused() {
    let place = Place::new();
    let three = scenario("three-vms.toml");
    let refused = |args: &[&str]| {
        let done = place.run(&[&["sim", &three], args].concat());
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert_eq!(place.files(), [""; 0]);
        done.stderr
    };
    for (args, right) in [
        (&["--seeds", "0"][..], "1..=1000"),
        (&["--seeds", "1001"], "1..=1000"),
        (&["--seeds", "2", "--trace", "x.txt"], "cannot be used with"),
        (&["--seeds", "2", "--svg", "x.svg"], "cannot be used with"),
        (&["-j", "2"], "--seeds"),
        (&["--seeds", "2", "-j", "0"], "1..=1024"),
        (&["--seeds", "2", "--policy", "edff"], "did you mean `edf`"),
        (&["--guest-knob", "quantum=1ms"], "--guest-policy"),
        (&["--guest-policy", "cff"], "did you mean `cfs`"),
        (&["--guest-policy", "edf", "--guest-knob", "enforc=hard"], "did you mean `enforce`"),
        (&["--guest-policy", "edf", "--seeds", "2"], "no VM of this scenario has a guest"),
    ] {
        let said = refused(args);
        assert!(said.contains(right), "{args:?}: {said}");
    }
}

#[test]
fn a_refusal_in_one_of_many_runs_is_that_of_a_single_one() {
    let place = Place::new();
    place.file(
        "full.toml",
        "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"edf\"\n[[vm]]\nname = \"a\"\nworkload = \"hog\"\nslice = \"8ms\"\nperiod = \
         \"10ms\"\n[[vm]]\nname = \"b\"\nworkload = \"hog\"\nslice = \"8ms\"\nperiod = \"10ms\"\n",
    );
    let (one, many) = (place.run(&["sim", "full.toml"]), place.run(&["sim", "full.toml", "--seeds", "9", "-j", "3"]));
    assert_eq!((one.code, many.code, many.stdout.as_str()), (Some(2), Some(2), ""));
    assert_eq!(one.stderr, many.stderr);
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for another process")]
fn an_interrupt_of_many_runs_leaves_nothing() {
    let place = Place::new();
    // The simulation of eight days takes longer than any test.
    let args = ["sim", &scenario("weights.toml"), "--for", "24h", "--seeds", "8", "-j", "2", "--json"];
    let child =
        place.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command can be started");
    // Two threads beside the thread that waits for interrupts: the simulation is running.
    let mut tries = 0;
    while std::fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count) < 3 {
        tries += 1;
        assert!(tries < 10_000, "it never began");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let done = Done::from(child.wait_with_output().expect("it ends"));
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(130), "", ""));
    assert_eq!(place.files(), [""; 0]);
}
