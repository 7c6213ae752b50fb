//! Tests of knobs, from a file and from a command line.

use crate::rendered;
use expect_test::expect_file;
use input::knobs::{KnobSetting, apply_knobs};
use input::problem::Problems;
use scenario::Scenario;
use sched::{AlarmSlots, Conserving, Descriptor, Guarantees, Knob, Knobs, Nanos};

const KNOBS: &[Knob] = &[
    Knob::time("quantum", Nanos::ms(10), (Nanos::us(1), Nanos::s(10)), "a turn"),
    Knob::count("levels", [4, 1, 9], "how many levels"),
    Knob::percent("reserve", [10, 0, 100], "what is kept back"),
    Knob::switch("boost", false, "whether to boost"),
    Knob::choice("enforce", &["soft", "hard", "none"], "what happens at the end of a slice"),
];

const POLICY: Descriptor = Descriptor {
    name: "tuned",
    title: "",
    source: "",
    good_for: "",
    bad_at: "",
    text: "",
    conserving: |_| Conserving::Never,
    starvation: |_| None,
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots::NONE,
    knobs: KNOBS,
    build: |_, _| Err(sched::Refused::Unsupported { reason: "it is never built", remedy: "" }),
};

/// Returns the knobs, set as `policy.knobs` of a scenario.
fn in_file(knobs: &str) -> Result<Knobs, Problems> {
    let text = format!(
        "name = \"x\"\ncpus = 1\nlength = \"1s\"\n[policy]\nname = \"tuned\"\n[policy.knobs]\n{knobs}\n\
         [[task]]\nname = \"t\"\nworkload = \"hog\"\n"
    );
    let scenario = Scenario::from_bytes("x.toml", text.into()).unwrap();
    let choice = scenario.policy.unwrap();
    apply_knobs(&POLICY, &choice.knobs)
}

/// Returns the knobs, set as arguments.
fn in_arguments(arguments: &[&str]) -> Result<Knobs, Problems> {
    let settings: Result<Vec<KnobSetting>, Problems> = arguments.iter().map(|argument| argument.parse()).collect();
    apply_knobs(&POLICY, &settings?)
}

fn values(knobs: Result<Knobs, Problems>) -> Vec<String> {
    knobs.unwrap().iter().map(|(knob, value)| knob.show(value)).collect()
}

#[test]
fn each_kind_is_written_in_its_way() {
    let right = ["30ms", "7", "20%", "on", "hard"];
    let file = "quantum = \"30ms\"\nlevels = 7\nreserve = 20\nboost = true\nenforce = \"hard\"";
    assert_eq!(values(in_file(file)), right);
    assert_eq!(
        values(in_file("quantum = \"30ms\"\nlevels = 7\nreserve = \"20%\"\nboost = \"on\"\nenforce = \"hard\"")),
        right
    );
    assert_eq!(values(in_arguments(&["quantum=30ms", "levels=7", "reserve=20", "boost=on", "enforce=hard"])), right);
    assert_eq!(
        values(in_arguments(&["quantum = 30 ms", "levels= 7", "reserve=20%", "boost=true", "enforce=hard"])),
        right
    );
    assert_eq!(values(in_file("")), ["10ms", "4", "10%", "off", "soft"]);
}

#[test]
fn the_last_setting_of_a_knob_counts() {
    assert_eq!(in_arguments(&["levels=2", "levels=3"]).unwrap().get("levels"), 3);
}

#[test]
fn what_no_knob_can_be_is_refused() {
    let file = in_file(
        "quantum = 30\nlevels = \"seven\"\nreserve = 101\nboost = 1\nenforce = \"hrad\"\nlevles = 3\n# no such \
         thing\nfoo = \"bar\"",
    );
    let times = in_file("quantum = \"11s\"\nlevels = 10\nreserve = -1\nboost = \"yes\"\nenforce = true");
    let arguments = in_arguments(&[
        "quantum=30",
        "levels=1.5",
        "levels=99999999999999999999",
        "reserve=%",
        "boost=",
        "enforce=HARD",
        "bost=on",
    ]);
    let none = apply_knobs(&Descriptor { knobs: &[], ..POLICY }, &["a=1".parse().unwrap()]);
    let said: Vec<String> = [file, times, arguments, none].map(|outcome| rendered(&outcome.unwrap_err())).into();
    expect_file!["errors/knobs.txt"].assert_eq(&said.join("\n---\n\n"));
    for wrong in ["quantum", "=5", ""] {
        assert!(in_arguments(&[wrong]).unwrap_err().to_string().contains("NAME=VALUE"), "{wrong}");
    }
}

#[test]
fn an_unknown_policy_is_refused_where_it_is_named() {
    let text =
        "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"tuend\"\n[[task]]\nname = \"t\"\nworkload = \"hog\"\n";
    let scenario = Scenario::from_bytes("x.toml", text.into()).unwrap();
    let choice = scenario.policy.as_ref().unwrap();
    let said = choice.find(&[&POLICY], &scenario).unwrap_err().to_string();
    assert_eq!(said, "x.toml:4:10: there is no policy `tuend`; did you mean `tuned`? use one of tuned");
}

#[test]
fn the_knobs_of_the_examples_exist() {
    for name in ["three-vms", "demo"] {
        let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let scenario = Scenario::from_bytes(name, std::fs::read(path).unwrap()).unwrap();
        let choice = scenario.policy.as_ref().unwrap();
        let policy = choice.find(policies::ALL, &scenario).unwrap();
        apply_knobs(policy, &choice.knobs).unwrap();
    }
}
