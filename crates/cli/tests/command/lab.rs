//! `tactus lab`, with a paper that has one small experiment.

use super::{Done, Place, tactus};
use serde_json::Value;

/// Returns a directory with the tiny paper in `papers/`. In its files, `to` replaces `from`.
fn place_with(from: &str, to: &str) -> Place {
    let place = Place::new();
    for folder in ["experiments", "scenarios"] {
        std::fs::create_dir_all(place.0.path().join("papers/tiny").join(folder)).expect("there is room");
    }
    let claims = include_str!("../../../lab/tests/tiny/claims.toml");
    let experiment = include_str!("../../../lab/tests/tiny/experiments/shares.toml");
    let scenario = include_str!("../../../lab/tests/tiny/scenarios/hogs.toml");
    let printed = include_str!("../../../lab/tests/tiny/printed.toml");
    for (name, text) in [
        ("claims.toml", claims),
        ("printed.toml", printed),
        ("experiments/shares.toml", experiment),
        ("scenarios/hogs.toml", scenario),
    ] {
        place.file(&format!("papers/tiny/{name}"), text.replace(from, to));
    }
    place
}

fn place() -> Place {
    place_with("", "")
}

/// Adds a second paper: a copy of the tiny paper with `to` in place of `from` in its claims.
fn add_paper(place: &Place, name: &str, from: &str, to: &str) {
    let papers = place.0.path().join("papers");
    for file in ["claims.toml", "printed.toml", "experiments/shares.toml", "scenarios/hogs.toml"] {
        let text = std::fs::read_to_string(papers.join("tiny").join(file)).expect("it is there");
        let copy = papers.join(name).join(file);
        std::fs::create_dir_all(copy.parent().expect("it is in a folder")).expect("there is room");
        std::fs::write(copy, text.replace(from, to)).expect("there is room");
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn ran(place: &Place, args: &[&str]) -> Done {
    place.run(&[&["lab"], args].concat())
}

fn good(place: &Place, args: &[&str]) -> String {
    let done = ran(place, args);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

#[test]
fn claims_are_listed_with_their_experiments() {
    let place = place();
    let text = good(&place, &["list"]);
    assert!(text.starts_with("tiny: Author: A paper for tests. 2020\n"), "{text}");
    assert!(text.contains("T2    It gets everything.\n      8 runs: shares\n"), "{text}");
    let listed = json(&good(&place, &["list", "--json"]));
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    assert_eq!((&listed[2]["id"], &listed[2]["paper"], &listed[2]["runs"]), (&"T3".into(), &"tiny".into(), &8.into()));
}

#[test]
fn a_run_judges_the_claims_and_keeps_what_was_played() {
    let place = place();
    let text = good(&place, &["run", "all", "-j", "2", "--seeds", "2"]);
    let counts = "1 predicted, 0 calibrated, 1 partly, 1 not.";
    for line in ["T1   predicted", "T2   partly", "T3   not", "✓ share at weight 3072: 7", "rival round robin", counts]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(lines(&place), 8);
    let again = json(&good(&place, &["run", "T1", "T3", "--json", "--seeds", "2"]));
    assert_eq!(lines(&place), 8, "nothing is played twice");
    let ids: Vec<&Value> = again[0]["verdicts"].as_array().into_iter().flatten().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["T1", "T3"]);
    assert_eq!(again[0]["verdicts"][0]["status"], "predicted");
    assert_eq!(again[0]["measured"]["experiments"]["shares"].as_array().map(Vec::len), Some(4));
    good(&place, &["run", "T1", "--seeds", "3"]);
    assert_eq!(lines(&place), 12, "one seed more of four points");
    good(&place, &["run", "T1", "--full"]);
    assert_eq!(lines(&place), 12 + 18, "six other points with three seeds");
    good(&place, &["run", "T1", "--seeds", "1", "--first-seed", "1001"]);
    assert_eq!(lines(&place), 12 + 18 + 4, "another seed");
    good(&place, &["run", "all"]);
    let extended = lines(&place);
    assert!(extended > 12 + 18 + 4, "points that depend on chance have more seeds");
    good(&place, &["run", "all"]);
    assert_eq!(lines(&place), extended, "nothing is played twice");
}

#[test]
fn a_record_is_judged_and_replayed_without_a_new_record() {
    let place = place();
    let nothing = ran(&place, &["run", "all", "--replay"]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("nothing to compare with"), "{}", nothing.stderr);
    let first = good(&place, &["run", "all", "--record"]);
    assert!(!first.contains("the record was"), "{first}");
    let provenance = json(&String::from_utf8(place.read("papers/provenance.json")).expect("it is text"));
    assert!(provenance["compiler"].as_str().is_some_and(|it| it.starts_with("rustc ")), "{provenance}");
    let judged = good(&place, &["judge"]);
    assert!(judged.contains("T1   predicted") && judged.ends_with("1 partly, 1 not.\n"), "{judged}");
    assert_eq!(good(&place, &["run", "all", "--replay"]), "4 points match the record.\n");
    // Under a stricter bound, the record has another verdict.
    let claims = String::from_utf8(place.read("papers/tiny/claims.toml")).expect("it is text");
    place.file("papers/tiny/claims.toml", claims.replace("10%", "0.001%"));
    assert!(good(&place, &["judge", "T1"]).contains("T1   not"), "no share is so exact");
    good(&place, &["judge", "--record"]);
    let result = String::from_utf8(place.read("papers/tiny/RESULT.md")).expect("it is text");
    assert!(result.contains("3 claims: 0 predicted, 0 calibrated, 1 partly, 2 not"), "{result}");
    let record = String::from_utf8(place.read("papers/tiny/measured.json")).expect("it is text");
    place.file("papers/tiny/claims.toml", claims);
    place.file("papers/tiny/measured.json", record.replace("\"share\":7", "\"share\":6"));
    let again = good(&place, &["run", "all", "--record"]);
    assert!(again.contains("T1: the record was partly, and is now predicted"), "{again}");
}

#[test]
fn other_values_of_a_parameter_are_tried_and_recorded() {
    let place = place_with(
        "kind = \"assumed\", origin = \"run\", reason = \"length of a run\"",
        "kind = \"assumed\", origin = \"no source\", reason = \"length of a run\"",
    );
    let scenario = String::from_utf8(place.read("papers/tiny/scenarios/hogs.toml")).expect("it is text");
    // With a longer run, the tasks have equal weights.
    let changed = scenario.replace("{% if policy", "{% if length != \"375ms\" and policy");
    place.file("papers/tiny/scenarios/hogs.toml", &changed);
    let nothing = ran(&place, &["run", "all", "--robust", "--record"]);
    assert!(
        nothing.code == Some(2) && nothing.stderr.contains("run `tactus lab run all --record` first"),
        "{}",
        nothing.stderr
    );
    good(&place, &["run", "all", "--record"]);
    let measured = place.read("papers/tiny/measured.json");
    let text = good(&place, &["run", "all", "--robust", "--record"]);
    // Four points: 20 seeds, then 5 with two other lengths. Other costs do not change the scenario, because it has none.
    assert_eq!(lines(&place), 4 * 20 + 2 * 4 * 5);
    assert!(text.contains("other values of parameters: 4; verdicts that differ: 2, of claims: 2\n"), "{text}");
    assert!(text.contains("T1   shares · length = 375ms: predicted becomes not\n"), "{text}");
    assert_eq!(place.read("papers/tiny/measured.json"), measured, "the record has the usual values");
    let varied = json(&String::from_utf8(place.read("papers/tiny/robust.json")).expect("it is text"));
    assert_eq!(varied[0]["parameter"], "shares · length");
    assert_eq!((&varied[0]["value"], &varied[0]["flips"]), (&"225ms".into(), &Value::Array(Vec::new())));
    assert_eq!((&varied[1]["value"], &varied[1]["flips"][0]["claim"]), (&"375ms".into(), &"T1".into()));
    let result = String::from_utf8(place.read("papers/tiny/RESULT.md")).expect("it is text");
    assert!(result.contains("Limits: shares · length = 375ms: predicted becomes not."), "{result}");
    assert!(result.contains("judged under 4 other values of parameters"), "{result}");
    assert!(good(&place, &["judge"]).contains("T1   partly"), "a verdict that differs limits the claim");
    // One claim alone replaces its own entries, and keeps those of the other claims.
    place.file("papers/tiny/robust.json", b"[]");
    good(&place, &["run", "T2", "--robust", "--record"]);
    let result = String::from_utf8(place.read("papers/tiny/RESULT.md")).expect("it is text");
    assert!(result.contains("Not judged under other values: T1, T3."), "{result}");
    good(&place, &["run", "T1", "T3", "--robust", "--record"]);
    let result = String::from_utf8(place.read("papers/tiny/RESULT.md")).expect("it is text");
    assert!(!result.contains("Not judged") && result.contains("under 4 other values"), "{result}");
    // A value with which the scenario is invalid has no verdict, and the others are judged all the same.
    let invalid = format!("{changed}\n{{% if length == \"225ms\" %}}nothing = 1{{% endif %}}\n");
    place.file("papers/tiny/scenarios/hogs.toml", invalid);
    let text = good(&place, &["run", "all", "--robust", "--record"]);
    assert!(text.contains("other values of parameters: 4; verdicts that differ: 2, of claims: 2\n"), "{text}");
    assert!(text.contains("no verdict under shares · length = 225ms: ") && text.contains("nothing"), "{text}");
    let result = String::from_utf8(place.read("papers/tiny/RESULT.md")).expect("it is text");
    assert!(result.contains("| shares · length = 225ms | "), "{result}");
}

#[test]
fn new_bounds_are_locked_and_changes_need_an_entry() {
    let place = place();
    let told = good(&place, &["lock"]);
    assert!(told.contains("papers/tiny/evidence.lock: 6 entries, 6 of them new, 0 changes"), "{told}");
    let lock = place.read("papers/tiny/evidence.lock");
    good(&place, &["lock", "--before", "0123456"]);
    assert_eq!(place.read("papers/tiny/evidence.lock"), lock, "a locked entry stays as it is");
    let unknown = ran(&place, &["lock", "--before", "yesterday"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("not the hash of a commit"), "{}", unknown.stderr);
    let claims = String::from_utf8(place.read("papers/tiny/claims.toml")).expect("it is text");
    place.file("papers/tiny/claims.toml", claims.replace("value = 99", "value = 98"));
    let done = ran(&place, &["lock"]);
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    assert!(done.stderr.contains("T2 · everything · above") && done.stderr.contains("[[change]]"), "{}", done.stderr);
    let change = "[[change]]\nentry = \"T2 · everything · above\"\nold = \"99, paper, page 1\"\n\
                  new = \"98, paper, page 1\"\nreason = \"for a test\"\nseen = false\n";
    place.file("papers/tiny/changes.toml", change);
    assert!(good(&place, &["lock"]).contains("6 entries, 0 of them new, 1 changes"));
}

/// Returns the number of stored runs.
fn lines(place: &Place) -> usize {
    let path = place.0.path().join("lab-results/runs.jsonl");
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn a_claim_that_is_not_there_is_refused_with_those_that_are() {
    let place = place();
    for args in [&["run", "X1"][..], &["report", "X1"]] {
        let done = ran(&place, args);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{}", done.stderr);
        assert!(
            done.stderr.contains("there is no claim `X1`") && done.stderr.contains("some of T1, T2, T3"),
            "{}",
            done.stderr
        );
    }
    let done = ran(&place, &["run"]);
    assert!(done.code == Some(2) && done.stderr.contains("<CLAIM>"), "{}", done.stderr);
    let nowhere = ran(&place, &["list", "--papers", "nowhere"]);
    assert!(nowhere.code == Some(2) && nowhere.stderr.contains("there is no such directory"), "{}", nowhere.stderr);
    // `all` together with claims is refused for this reason, and not because a claim is unknown.
    for args in [&["run", "all", "X1"][..], &["report", "T1", "all"]] {
        let done = ran(&place, args);
        let told = done.stderr.contains("`all` includes every claim") && done.stderr.contains("`all` alone");
        assert!(done.code == Some(2) && told, "{}", done.stderr);
    }
}

#[test]
fn a_rival_with_a_defect_fails_the_run() {
    let of = "of = { policy = \"eevdf\" }, is = { policy = \"round-robin\" }";
    let place = place_with(of, "of = { policy = \"round-robin\" }, is = { policy = \"eevdf\" }");
    let done = ran(&place, &["run", "T1"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(
        done.stderr.contains("rival has a defect")
            && done.stderr.contains("T1: share at weight")
            && done.stderr.contains("changes no point of the check"),
        "{}",
        done.stderr
    );
    assert!(done.stdout.contains("T1   not"), "it is told all the same: {}", done.stdout);
}

#[test]
fn what_is_recorded_is_compared_with_the_smoke_set_and_drawn() {
    let place = place();
    let nothing = ran(&place, &["report"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.stderr);
    for part in ["tiny: no results are recorded (measured.json)", "no results are measured yet", "--record"] {
        assert!(nothing.stderr.contains(part), "{part}: {}", nothing.stderr);
    }
    let nothing = ran(&place, &["run", "all", "--smoke"]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("nothing to compare with"), "{}", nothing.stderr);
    let part = ran(&place, &["run", "T1", "--record"]);
    assert!(part.code == Some(2) && part.stderr.contains("recording T1 alone would lose"), "{}", part.stderr);
    good(&place, &["run", "all", "--record"]);
    let result = String::from_utf8(place.read("papers/tiny/RESULT.md")).expect("it is text");
    assert!(result.contains("| T1 | ") && result.contains("**predicted**"), "{result}");
    let smoke = good(&place, &["run", "all", "--smoke"]);
    assert_eq!(smoke, "2 points match the record.\n");
    let told = good(&place, &["report", "--results", "out"]);
    assert_eq!(
        told,
        "out/report.html: 3 claims of 1 paper\nout/figures: 2 figures, as SVG, and figures of numbers as PNG\n"
    );
    let page = String::from_utf8(place.read("out/report.html")).expect("it is text");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("id=\"T3\"") && page.contains("<svg "), "{page}");
    assert!(place.read("out/figures/tiny/fig-1.png").starts_with(b"\x89PNG"));
    assert!(place.read("out/figures/tiny/fig-1-turns.svg").starts_with(b"<svg"));
    let first = place.read("out/report.html");
    good(&place, &["report", "--results", "out"]);
    assert_eq!(place.read("out/report.html"), first, "the same bytes for the same results");
    // Now the recorded results differ from the measured results.
    let recorded = String::from_utf8(place.read("papers/tiny/measured.json")).expect("it is text");
    place.file("papers/tiny/measured.json", recorded.replace("\"share\":7", "\"share\":6"));
    let differs = ran(&place, &["run", "all", "--smoke"]);
    assert_eq!(differs.code, Some(1), "{}", differs.stdout);
    assert!(
        differs.stderr.contains("tiny: shares at policy=eevdf, weight=3072, seed 1: share is 7"),
        "{}",
        differs.stderr
    );
}

#[test]
fn nothing_is_recorded_unless_all_can_be_judged() {
    let place = place();
    let recorded = place.0.path().join("papers/tiny/measured.json");
    place.file("papers/tiny/measured.json", "before");
    add_paper(&place, "unclear", "at('shares', policy='eevdf', weight=weight)", "at('shares', weight=weight)");
    let done = ran(&place, &["run", "all", "--record"]);
    assert!(done.code == Some(2) && done.stderr.contains("needs exactly one"), "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(&recorded).expect("it is there"), "before");
    std::fs::remove_dir_all(place.0.path().join("papers/unclear")).expect("it is there");
    good(&place, &["run", "all", "--record"]);
    json(&std::fs::read_to_string(&recorded).expect("it is there"));
}

#[test]
fn what_was_played_last_is_drawn_without_a_record() {
    let place = place();
    let nothing = ran(&place, &["report", "--last"]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("tactus lab run"), "{}", nothing.stderr);
    good(&place, &["run", "T1", "--seeds", "1"]);
    let told = good(&place, &["report", "--last", "T1"]);
    assert!(told.starts_with("lab-results/report.html: 1 claim of 1 paper\n"), "{told}");
    let page = String::from_utf8(place.read("lab-results/report.html")).expect("it is text");
    assert!(page.contains("seeds 1 to 1") && !page.contains("id=\"T2\""), "{page}");
    assert_eq!(lines(&place), 4, "nothing was measured for it");
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for another process")]
fn an_interrupted_run_ends_in_order_and_goes_on_where_it_was() {
    // 80 long runs: four points with 20 seeds each.
    let place = place_with("300ms", "40s");
    let child = place
        .command(&["lab", "run", "T1", "--seeds", "20", "-j", "1"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command can be started");
    let mut tries = 0;
    while lines(&place) < 2 {
        tries += 1;
        assert!(tries < 60_000, "it never finished a run");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let done = Done::from(child.wait_with_output().expect("it ends"));
    let kept = lines(&place);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    assert!(done.stderr.contains("interrupted: finished runs are kept"), "{}", done.stderr);
    assert!((2..80).contains(&kept), "{kept} of 80 runs were finished");
    let text = std::fs::read_to_string(place.0.path().join("lab-results/runs.jsonl")).expect("it is there");
    good(&place, &["run", "T1", "--seeds", "20"]);
    let whole = std::fs::read_to_string(place.0.path().join("lab-results/runs.jsonl")).expect("it is there");
    assert!(whole.starts_with(&text) && lines(&place) == 80, "nothing finished was lost or played again");
}

#[test]
fn completion_knows_the_lab() {
    for shell in ["bash", "zsh", "fish"] {
        let script = tactus(&["completions", shell]);
        for part in ["lab", "report", "smoke", "record"] {
            assert!(script.contains(part), "{shell}: {part}");
        }
    }
}
