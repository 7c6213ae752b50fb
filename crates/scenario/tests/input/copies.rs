//! `count`: one table that stands for several VMs or tasks.

use crate::rendered;
use scenario::Scenario;

const START: &str = "name = \"x\"\ncpus = 2\nlength = \"1s\"\n";

fn read(text: &str) -> Scenario {
    Scenario::from_bytes("x.toml", format!("{START}{text}").into()).expect("the scenario is right")
}

fn refused(text: &str) -> String {
    rendered(&Scenario::from_bytes("x.toml", format!("{START}{text}").into()).expect_err("the scenario is wrong"))
}

/// Returns the groups, entities, applications and guests of a scenario as text without spans, for comparison.
fn shown(scenario: &Scenario) -> String {
    let Scenario { groups, entities, applications, guests, .. } = scenario;
    let text = format!("{groups:#?}{entities:#?}{applications:#?}{guests:#?}");
    let is_place = |line: &&str| {
        let line = line.trim_start();
        ["start:", "end:", "0x"].iter().any(|start| line.starts_with(start))
    };
    text.lines().filter(|line| !is_place(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn copies_are_what_their_tables_written_out_are() {
    let short = r#"
[[vm]]
count = 4
name = "vm{i:02}"
weight = [256, 512]
vcpus = 2

[[vm.task]]
name = "jobs"
workload = { periodic = { period = "3ms..5ms", work = { uniform = ["50us", ["400us", "410us"]] }, phase = "random" } }

[[vm.task]]
count = [2, 0]
name = "batch{i}"
nice = "0..1"
workload = "hog"

[[task]]
count = 2
name = "t{i}"
affinity = ["0", "1"]
workload = "hog"
"#;
    let vm = |i: usize, weight: u32, period: &str, most: &str, batch: bool| {
        let hogs = "[[vm.task]]\nname = \"batch0\"\nnice = 0\nworkload = \"hog\"\n[[vm.task]]\nname = \"batch1\"\nnice = 1\nworkload = \"hog\"\n";
        format!(
            "[[vm]]\nname = \"vm{i:02}\"\nweight = {weight}\nvcpus = 2\n[[vm.task]]\nname = \"jobs\"\nworkload = \
             {{ periodic = {{ period = \"{period}\", work = {{ uniform = [\"50us\", \"{most}\"] }}, phase = \"random\" }} }}\n{}",
            if batch { hogs } else { "" }
        )
    };
    let long = vm(0, 256, "3ms", "400us", true)
        + &vm(1, 512, "4ms", "410us", false)
        + &vm(2, 256, "5ms", "400us", true)
        + &vm(3, 512, "3ms", "410us", false)
        + "[[task]]\nname = \"t0\"\naffinity = \"0\"\nworkload = \"hog\"\n"
        + "[[task]]\nname = \"t1\"\naffinity = \"1\"\nworkload = \"hog\"\n";
    assert_eq!(shown(&read(short)), shown(&read(&long)));
}

#[test]
fn texts_that_hold_no_number_of_a_copy_stay() {
    let scenario = read("[[task]]\ncount = 1\nname = \"{j} {i:x} {i:012} {i {i}\"\nworkload = \"hog\"\n");
    assert_eq!(scenario.entities[0].name, "{j} {i:x} {i:012} {i 0");
    let scenario = read("[[task]]\nname = \"{i}\"\nworkload = \"hog\"\n");
    assert_eq!(scenario.entities[0].name, "{i}", "a table without a count is no copy");
    let none =
        read("[[task]]\ncount = 0\nname = \"a\"\nworkload = \"hog\"\n[[task]]\nname = \"b\"\nworkload = \"hog\"\n");
    assert_eq!(none.entities.len(), 1);
}

#[test]
fn a_problem_of_a_copy_points_at_its_line_and_is_said_once() {
    let text = refused("[[vm]]\ncount = 64\nname = \"vm{i}\"\nweight = [256, 0]\nworkload = \"hog\"\n");
    assert!(text.contains("x.toml:7:16") && text.contains("weight = [256, 0]"), "{text}");
    assert_eq!(text.matches("×").count(), 1, "{text}");
}

#[test]
fn copies_that_cannot_be_told_apart_or_are_too_many_are_refused() {
    let equal = refused("[[vm]]\ncount = 3\nname = \"vm\"\nworkload = \"hog\"\n");
    assert!(equal.contains("several of the 3 copies have the name `vm`") && equal.contains("{i}"), "{equal}");
    let pid = refused("[[task]]\ncount = 2\nname = \"t{i}\"\npid = 1\n");
    assert!(pid.contains("one process cannot have 2 copies of a task"), "{pid}");
    let many = refused("[[vm]]\ncount = 1000000\nname = \"vm{i}\"\nworkload = \"hog\"\n");
    assert!(many.contains("too many values"), "{many}");
    let nested = refused(
        "[[vm]]\ncount = 1000\nname = \"vm{i}\"\n[[vm.task]]\ncount = 1000\nname = \"t{i}\"\nworkload = \"hog\"\n",
    );
    assert!(nested.contains("too many values"), "{nested}");
    for count in ["-1", "\"3ms\"", "[1, 2]", "1.5", "1048577"] {
        refused(&format!("[[vm]]\ncount = {count}\nname = \"vm{{i}}\"\nworkload = \"hog\"\n"));
    }
}

#[test]
fn the_benchmark_of_two_levels_is_what_it_was_written_out() {
    let mut long = START.to_string();
    for i in 0..64 {
        let (period, most) = (3 + i % 5, 400 + 10 * (i % 7));
        long += &format!(
            "[[vm]]\nname = \"vm{i:02}\"\nvcpus = 4\nguest = \"cfs\"\n[[vm.task]]\nname = \"team\"\nworkload = {{ fork_join = \
             {{ threads = 8, work = {{ uniform = [\"20us\", \"60us\"] }} }} }}\n[[vm.task]]\nname = \"timer\"\nworkload = {{ \
             cyclictest = {{ interval = \"1ms\", threads = 2 }} }}\n[[vm.task]]\nname = \"jobs\"\nworkload = {{ periodic = \
             {{ period = \"{period}ms\", work = {{ uniform = [\"50us\", \"{most}us\"] }}, phase = \"random\" }} }}\n"
        );
        if i % 4 == 0 {
            long += "[[vm.task]]\nname = \"batch\"\nworkload = \"hog\"\n";
        }
    }
    let long = Scenario::from_bytes("x.toml", long.into()).expect("the scenario is right");
    let short = include_bytes!("../../../../scenarios/bench-two-level.toml").to_vec();
    let short = Scenario::from_bytes("bench-two-level.toml", short).expect("the scenario is right");
    assert_eq!(shown(&short), shown(&long));
}
