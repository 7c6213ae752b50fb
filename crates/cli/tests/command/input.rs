//! For invalid input, the error shows the location, the reason and the remedy, the exit code is 2, and no file is
//! written. If a file cannot be written, the exit code is 1.

use super::{Place, scenario, task_set};

/// A valid VM.
const VM: &str = "[[vm]]\nname = \"a\"\nworkload = \"hog\"\n";
/// Valid keys of a machine and a run.
const MACHINE: &str = "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"edf\"\n";

/// Runs `tactus` with invalid arguments or input, and checks that it fails with code 2 and writes no file. Returns the
/// error message without its line breaks.
fn refused(place: &Place, args: &[&str]) -> String {
    let before = place.files();
    let done = place.run(args);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args:?}: {}", done.stderr);
    assert_eq!(place.files(), before, "{args:?}");
    // The error message has line breaks at the width of a terminal.
    done.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the error message about `content` as a scenario.
fn refused_scenario(content: impl AsRef<[u8]>) -> String {
    let place = Place::new();
    place.file("bad.toml", content);
    refused(&place, &["sim", "bad.toml", "--trace", "out.txt", "--svg", "out.svg"])
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn a_scenario_that_is_wrong_is_shown_with_its_place() {
    has(
        &refused_scenario(format!("{MACHINE}[[vm]]\nnme = \"a\"\nworkload = \"hog\"\n")),
        &["bad.toml:6:1", "`nme`", "name"],
    );
    has(&refused_scenario("name = [\n"), &["bad.toml:1"]);
    has(&refused_scenario(b"name = \"\xff\"\n"), &["not UTF-8", "byte 8 is 0xff"]);
    has(&refused_scenario(""), &["bad.toml"]);
    let endless = format!("{MACHINE}{VM}arrival = \"99999999999h\"\n");
    has(&refused_scenario(endless), &["bad.toml:8", "too long", "use at most"]);
    has(&refused_scenario("[".repeat(100_000)), &["bad.toml:1"]);
}

#[test]
fn what_admission_refuses_is_shown_where_it_was_asked_for_and_with_what_would_fit() {
    let asks = |name, slice| {
        format!("[[vm]]\nname = \"{name}\"\nslice = \"{slice}\"\nperiod = \"10ms\"\nworkload = \"hog\"\n")
    };
    let text = refused_scenario(format!("{MACHINE}{}{}", asks("a", "6ms"), asks("b", "6ms")));
    has(&text, &["bad.toml:12:9", "`b`", "30.00 %", "use at most 3ms every 10ms"]);
}

#[test]
fn one_wrong_line_in_a_hundred_thousand_is_found_and_the_right_file_runs() {
    let mut text = MACHINE.to_string();
    let vms = 24_999;
    for vm in 0..vms {
        text += &format!("[[vm]]\nname = \"vm{vm}\"\nworkload = \"hog\"\n\n");
    }
    let place = Place::new();
    place.file("long.toml", format!("{text}[[vm]]\nname = \"last\"\nworkload = \"hug\"\n"));
    let complaint = refused(&place, &["sim", "long.toml"]);
    has(&complaint, &["long.toml:100003:12", "hug"]);
    place.file("long.toml", &text);
    let done = place.run(&["sim", "long.toml", "--policy", "round-robin", "--for", "1s"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    has(&done.stdout, &["… and 24959 more (see --json)"]);
}

#[test]
fn names_that_do_not_exist_are_corrected() {
    let place = Place::new();
    let three = scenario("three-vms.toml");
    has(&refused(&place, &["sim", &three, "--policy", "edff"]), &["`edff`", "did you mean `edf`", "round-robin"]);
    has(&refused(&place, &["policies", "cff"]), &["`cff`", "did you mean `cfs`"]);
    has(&refused(&place, &["costs", "cortex-a16"]), &["`cortex-a16`", "did you mean `cortex-a15`"]);
    has(&refused(&place, &["sim", &three, "--knob", "enforc=hard"]), &["no knob `enforc`", "did you mean `enforce`"]);
    has(&refused(&place, &["sim", &three, "--knob", "enforce=maybe"]), &["`maybe`", "soft or hard or none"]);
    has(&refused(&place, &["sim", &three, "--knob", "enforce"]), &["NAME=VALUE"]);
    has(&refused(&place, &["sim", "nowhere.toml"]), &["`nowhere.toml` cannot be read", "No such file"]);
    has(&refused(&place, &["simm"]), &["simm", "sim"]);
}

#[test]
fn a_scenario_and_the_command_line_together_must_name_a_policy() {
    let place = Place::new();
    place.file("open.toml", format!("name = \"x\"\ncpus = 1\nlength = \"1s\"\n{VM}"));
    has(&refused(&place, &["sim", "open.toml"]), &["names a policy", "--policy with one of"]);
    place.run(&["sim", "open.toml", "--policy", "edf"]).good();
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let place = Place::new();
    let (three, set) = (scenario("three-vms.toml"), task_set());
    has(&refused(&place, &["sim", &three, "--for", "0s"]), &["no length"]);
    has(&refused(&place, &["sim", &three, "--for", "10"]), &["10", "10ms"]);
    has(&refused(&place, &["sim", &three, "--trace", "x.bin"]), &["`x.bin`", ".txt", ".json"]);
    has(&refused(&place, &["sim", &three, "--policy", "edf,cfs", "--trace", "x.txt"]), &["several policies"]);
    has(&refused(&place, &["sim", &three, "--gantt-from", "1s", "--gantt-to", "1s"]), &["shows nothing"]);
    has(&refused(&place, &["sim", &three, "--tasks", &set]), &["cannot be used with"]);
    has(&refused(&place, &["sim", "--tasks", &set, "--policy", "edf"]), &["--cpus"]);
    has(&refused(&place, &["sim", "--tasks", &set, "--cpus", "0", "--seconds", "1"]), &["1..=1024"]);
    let partitioned = ["sim", "--tasks", &set, "--cpus", "4", "--seconds", "1", "--policy", "cfs", "--partitioned"];
    has(&refused(&place, &partitioned), &["`cfs` does not partition", "edf"]);
    has(&refused(&place, &["demo", "--seconds", "0"]), &["0"]);
    has(&refused(&place, &["doctor", "--seconds", "0"]), &["1..=3600"]);
    has(&refused(&place, &["doctor", "now"]), &["unexpected argument"]);
    place.file("bad.csv", "id,period_us,wcet_us\n0,10,20\n");
    let bad = ["sim", "--tasks", "bad.csv", "--cpus", "1", "--seconds", "1", "--policy", "edf"];
    has(&refused(&place, &bad), &["bad.csv:2:6", "longer than the period"]);
}

#[test]
fn a_file_that_cannot_be_written_is_a_failure_and_leaves_nothing() {
    let place = Place::new();
    let three = scenario("three-vms.toml");
    std::fs::create_dir(place.0.path().join("folder.svg")).expect("it can be made");
    for (option, file, reason) in [
        ("--svg", "nowhere/out.svg", "No such file or directory"),
        ("--trace", "nowhere/out.txt", "No such file or directory"),
        ("--svg", "folder.svg", "it is a directory"),
    ] {
        let done = place.run(&["sim", &three, option, file]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{file}");
        has(&done.stderr, &["cannot write", file, reason]);
    }
    assert_eq!(place.files(), ["folder.svg"]);
}

#[test]
fn what_tactus_why_cannot_observe_is_refused_before_anything_is_attached() {
    let place = Place::new();
    let why = |options: &[&str]| refused(&place, &[&["why", "no-such-vm", "--picture", "why.svg"], options].concat());
    has(&why(&["--for", "500ms"]), &["not for 500ms", "use --for with 1s to 3600s"]);
    has(&why(&["--least", "9us"]), &["--least is 9us", "use at least 10us"]);
    has(&why(&["--least", "0s"]), &["--least is 0s"]);
    let text = why(&[]);
    // Without privileges, the host cannot be traced.
    assert!(text.contains("no VM with the id, name or pid no-such-vm runs") || text.contains("run as root"), "{text}");
}
