//! `tactus demo`, whose output is shown at the start of the README.

use super::Place;
use serde_json::Value;

#[test]
fn the_demo_says_that_it_simulates_and_draws_a_picture() {
    let place = Place::new();
    let done = place.run(&["demo", "--simulated", "--seconds", "2"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.lines().next().is_some_and(|line| line.contains("simulation")), "{}", done.stdout);
    assert!(done.stdout.lines().last().is_some_and(|line| line.contains("simulation")), "{}", done.stdout);
    assert!(done.stdout.contains("Under edf, both met all 220 deadlines"), "{}", done.stdout);
    assert!(done.stdout.contains("Under cfs, interactive missed "), "{}", done.stdout);
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 100), "{}", done.stdout);
    assert_eq!(place.files(), ["demo.svg"]);
}

#[test]
fn the_simulated_demo_as_json_says_the_same_and_writes_nothing() {
    let place = Place::new();
    let done = place.run(&["demo", "--simulated", "--seconds", "2", "--json"]);
    let runs: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!(
        (&runs["simulated"], &runs["runs"][0]["policy"], &runs["runs"][1]["policy"]),
        (&true.into(), &"cfs".into(), &"edf".into())
    );
    assert_eq!(runs["runs"][1]["total"]["misses"], 0);
    assert!(runs["runs"][0]["total"]["misses"].as_u64() > Some(0));
    assert_eq!(place.files(), [""; 0]);
}

/// Checks the output of a demo on this machine.
fn check_live(stdout: &str) {
    let runs: Value = serde_json::from_str(stdout).expect("it is JSON");
    let missed = |run: usize| {
        let total = &runs["runs"][run]["total"];
        total["misses"].as_u64().expect("a number") + total["unfinished_late"].as_u64().expect("a number")
    };
    // Other processes of the test machine may disturb both runs. Promises must nevertheless prevent nine of ten misses.
    assert!(missed(0) > 20, "a fair share is too little: {} missed", missed(0));
    assert!(missed(1) * 10 <= missed(0), "{} missed under promises, {} without", missed(1), missed(0));
    for run in 0..2 {
        let entities = runs["runs"][run]["entities"].as_array().expect("it has entities");
        let released = |name: &str| entities.iter().find(|it| it["name"] == name).map(|it| it["releases"].clone());
        // Two seconds of periods of 10 and 100 ms, up to one more at an end.
        assert!((198..=201).contains(&released("interactive").unwrap().as_u64().unwrap()), "{entities:?}");
        assert!((19..=21).contains(&released("steady").unwrap().as_u64().unwrap()), "{entities:?}");
    }
}

#[test]
fn the_demo_for_real_misses_less_under_promises_than_under_the_kernel() {
    // If raising threads is not permitted, the demo simulates. Otherwise, no other live test may run at the same time.
    let _turn = super::run::turn();
    let place = Place::new();
    let done = place.run(&["demo", "--seconds", "2", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    if done.stdout.contains("\"simulated\": true") {
        // The demo has printed the reason.
        return eprintln!("SKIPPED: {}", done.stderr);
    }
    check_live(&done.stdout);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn guests_of_the_demo_miss_less_under_promises_than_under_the_kernel() {
    let _turn = super::run::turn();
    let place = Place::new();
    let done = place.run(&["demo", "--vm", "--seconds", "2", "--json"]);
    if done.code == Some(2) {
        assert!(!done.stderr.contains("simulat"), "{}", done.stderr);
        return eprintln!("SKIPPED: {}", done.stderr);
    }
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    check_live(&done.stdout);
    assert_eq!(place.files(), [""; 0]);
    // The directories of the disks are removed.
    let done = place.run(&["demo", "--vm", "--seconds", "1"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 100), "{}", done.stdout);
    assert_eq!(place.files(), ["demo.json", "demo.svg"]);
    let without = place.command(&["demo", "--vm"]).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(without.status.code() == Some(2) && said.contains("apt install qemu"), "{said}");
}
