//! The demonstration that the README begins with.

use super::Place;
use serde_json::Value;

#[test]
fn the_demo_says_that_it_simulates_and_draws_a_picture() {
    let place = Place::new();
    let done = place.run(&["demo", "--seconds", "2"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.lines().next().is_some_and(|line| line.contains("simulation")), "{}", done.stdout);
    assert!(done.stdout.contains("Under edf, both met all 220 deadlines"), "{}", done.stdout);
    assert!(done.stdout.contains("Under cfs, interactive missed "), "{}", done.stdout);
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 100), "{}", done.stdout);
    assert_eq!(place.files(), ["demo.svg"]);
}

#[test]
fn the_demo_as_json_says_the_same_and_writes_nothing() {
    let place = Place::new();
    let done = place.run(&["demo", "--seconds", "2", "--json"]);
    let runs: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!(
        (&runs["simulated"], &runs["runs"][0]["policy"], &runs["runs"][1]["policy"]),
        (&true.into(), &"cfs".into(), &"edf".into())
    );
    assert_eq!(runs["runs"][1]["total"]["misses"], 0);
    assert!(runs["runs"][0]["total"]["misses"].as_u64() > Some(0));
    assert_eq!(place.files(), [""; 0]);
}
