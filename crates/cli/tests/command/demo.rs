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

#[test]
fn the_demo_for_real_misses_less_under_promises_than_under_the_kernel() {
    // If raising threads is not permitted, the demo simulates. Otherwise, no other live test may run at the same time.
    let _turn = super::run::turn();
    let place = Place::new();
    let done = place.run(&["demo", "--seconds", "2", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let runs: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    if runs["simulated"] == true {
        // The demo has printed the reason.
        return eprintln!("SKIPPED: {}", done.stderr);
    }
    let missed = |run: usize| {
        let total = &runs["runs"][run]["total"];
        total["misses"].as_u64().expect("a number") + total["unfinished_late"].as_u64().expect("a number")
    };
    // Other processes of the test machine may disturb both runs. Promises must nevertheless prevent nine of ten misses.
    assert!(missed(0) > 20, "a fair share is too little: {} missed", missed(0));
    assert!(missed(1) * 10 <= missed(0), "{} missed under promises, {} without", missed(1), missed(0));
    assert_eq!(place.files(), [""; 0]);
}
