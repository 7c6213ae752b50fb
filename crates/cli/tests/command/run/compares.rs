//! `tactus compare`: the predicted and the observed results of one scenario, side by side.

use super::{Place, turn};
use serde_json::Value;

const SCENARIO: &str = r#"
name = "one that needs its time"
cpus = 2
length = "1s"

[[vm]]
name = "periodic"
slice = "3ms"
period = "20ms"
workload = { periodic = { period = "20ms", work = "2ms" } }

[[vm]]
name = "hog"
workload = "hog"
"#;

#[test]
fn what_was_predicted_stands_beside_what_was_observed() {
    let Some(_turn) = turn() else { return };
    let place = Place::new();
    place.file("one.toml", SCENARIO);
    let done = place.run(&["compare", "one.toml", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let compared: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    let periodic = &compared["entities"][0];
    assert_eq!((&periodic["name"], &periodic["asked"]["slice_ns"]), (&"periodic".into(), &3_000_000.into()));
    let of = |side: &str, what: &str| periodic[side][what].as_u64().expect("a number");
    assert_eq!((of("predicted", "releases"), of("predicted", "misses")), (50, 0));
    // Another job may be released exactly at the end of the run.
    assert!((50..=51).contains(&of("observed", "releases")), "{}", of("observed", "releases"));
    let (should, did) = (of("predicted", "delivered_ppm"), of("observed", "delivered_ppm"));
    assert!(did.abs_diff(should) < should / 5, "{should} ppm were predicted, {did} observed");
    let text = place.run(&["compare", "one.toml", "--for", "500ms"]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(text.stdout.contains("predicted") && text.stdout.contains("observed"), "{}", text.stdout);
    let bad = place.run(&["compare", "none.toml"]);
    assert_eq!(bad.code, Some(2), "{}", bad.stderr);
}
