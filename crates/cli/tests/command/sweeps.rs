//! `tactus sim --vary`: every combination of values.

use super::{Place, scenario};
use serde_json::Value;

#[test]
fn a_sweep_plays_every_combination_in_order_and_on_any_number_of_threads_alike() {
    let place = Place::new();
    let three = scenario("three-vms.toml");
    let axes = ["sim", &three, "--for", "300ms", "--vary", "policy=edf,credit", "--vary", "vm.a.slice=5ms..15ms/10ms"];
    let one = place.run(&[&axes[..], &["-j", "1"]].concat());
    let two = place.run(&[&axes[..], &["-j", "2"]].concat());
    assert_eq!((one.code, &one.stdout), (Some(0), &two.stdout), "{}", one.stderr);
    let rows: Vec<Vec<&str>> = one.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let of_a = rows.iter().filter(|row| row.get(2) == Some(&"a"));
    let points: Vec<_> = of_a.map(|row| (row[0], row[1], row[3])).collect();
    let expected = [
        ("edf", "5ms", "5ms/50ms"),
        ("edf", "15ms", "15ms/50ms"),
        ("credit", "5ms", "5ms/50ms"),
        ("credit", "15ms", "15ms/50ms"),
    ];
    assert_eq!(points, expected, "{}", one.stdout);
}

#[test]
fn a_point_of_a_sweep_gets_what_its_scenario_alone_gets() {
    let place = Place::new();
    let three = scenario("three-vms.toml");
    let swept = place.run(&["sim", &three, "--vary", "cpus=1..2", "--csv", "sweep.csv"]);
    assert_eq!((swept.code, place.files()), (Some(0), vec!["sweep.csv".to_string()]), "{}", swept.stderr);
    let alone: Value = serde_json::from_str(&place.run(&["sim", &three, "--json"]).stdout).expect("it is JSON");
    let csv = String::from_utf8(place.read("sweep.csv")).expect("it is text");
    assert!(csv.starts_with("cpus,policy,machine,kind,name,metric,median,low,high\n"), "{csv}");
    for entity in alone["runs"][0]["entities"].as_array().expect("there are entities") {
        for metric in ["delivered_ppm", "wait_max_ns", "misses"] {
            let (name, value) = (entity["name"].as_str().expect("it has a name"), &entity[metric]);
            let line = format!("\n1,edf,host,entity,{name},{metric},{value},{value},{value}\n");
            assert!(csv.contains(&line), "{line}");
        }
    }
}

#[test]
fn a_wrong_axis_is_refused_and_writes_nothing() {
    let three = scenario("three-vms.toml");
    for (axis, word) in [
        ("vm.nope.weight=1", "there is no `nope`"),
        ("policy=edff", "there is no policy `edff`"),
        ("policy", "is no axis with values"),
        ("vm.a.slice=4..1", "ends before it begins"),
        ("vm.a.slice=60ms", "longer than the period"),
    ] {
        let place = Place::new();
        let refused = place.run(&["sim", &three, "--vary", axis, "--csv", "sweep.csv"]);
        let said = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((refused.code, place.files()), (Some(2), Vec::new()), "{axis}: {said}");
        assert!(said.contains(word) && said.contains("help:"), "{axis}: {said}");
    }
}

#[test]
fn a_scenario_finds_its_files_at_a_point_with_a_slash() {
    let place = Place::new();
    place.file("load.txt", "0.5\n1.5\n");
    let text = "name = \"x\"\ncpus = 2\nlength = \"2s\"\npolicy = \"cfs\"\n[[group]]\nname = \"g\"\n\
        [[task]]\nname = \"it\"\nparent = \"g\"\nworkload.load_playback = { loads = \"load.txt\" }\n";
    place.file("s.toml", text);
    let swept = place.run(&["sim", "s.toml", "--vary", "group.g.quota=50ms/100ms,20ms/100ms"]);
    assert_eq!(swept.code, Some(0), "{}", swept.stderr);
    assert!(swept.stdout.contains("50ms/100ms") && swept.stdout.contains("20ms/100ms"), "{}", swept.stdout);
}
