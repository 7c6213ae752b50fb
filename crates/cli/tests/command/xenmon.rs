//! Reports on domains (`--xenmon`), and traces in ftrace's text format.

use super::{Place, scenario};
use expect_test::expect_file;
use serde_json::Value;

fn sim(args: &[&str]) -> String {
    let place = Place::new();
    let done = place.run(&[&["sim"], args].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} is a number: {of}"))
}

#[test]
fn domains_look_like_this() {
    let two = scenario("two-levels.toml");
    let text = sim(&[&two, "--policy", "credit", "--for", "10s", "--xenmon", "--warm-up", "1s"]);
    let (_, domains) = text.split_once("\nDomains of ").expect("they are told");
    expect_file!["xenmon.out"].assert_eq(domains);
}

#[test]
fn the_figures_of_domains_add_up_to_those_of_the_report() {
    for (file, policy) in [("two-levels.toml", "cfs"), ("two-levels.toml", "credit"), ("three-vms.toml", "edf")] {
        let warm_up = ["--for", "2700ms", "--warm-up", "700ms"];
        let told = json(&sim(&[&[&scenario(file), "--policy", policy, "--xenmon", "--json"], &warm_up[..]].concat()));
        let run = &told["runs"][0];
        let host = &run["xenmon"]["hosts"][0];
        let domains = host["domains"].as_array().expect("there are some");
        for of in domains.iter().chain([&host["total"]]) {
            let sum: u64 = ["cpu_ns", "waited_ns", "blocked_ns"].iter().map(|name| number(of, name)).sum();
            assert_eq!(sum, number(of, "there_ns"), "{of}");
        }
        for name in ["there_ns", "cpu_ns", "waited_ns", "blocked_ns", "executions", "io"] {
            let sum: u64 = domains.iter().map(|of| number(of, name)).sum();
            assert_eq!(sum, number(&host["total"], name), "{name}");
        }
        // The meter of the usual report measures the same CPU time.
        assert_eq!(number(&host["total"], "cpu_ns"), number(&run["total"], "delivered_ns"));
        assert_eq!(number(&host["total"], "cpu_ns") + number(host, "idle_ns"), 2_000_000_000 * number(host, "cpus"));
        for (domain, entity) in domains.iter().zip(run["entities"].as_array().expect("there are some")) {
            assert_eq!((&domain["name"], &domain["cpu_ns"]), (&entity["name"], &entity["delivered_ns"]));
            let came = number(entity, "came_ns").max(700_000_000);
            assert_eq!(domain["there_ns"], 2_700_000_000_u64 - came);
        }
    }
}

#[test]
fn domains_have_medians_over_many_seeds() {
    let (two, options) = (scenario("two-levels.toml"), ["--for", "1s", "--xenmon", "--warm-up", "200ms"]);
    let told = json(&sim(&[&[two.as_str(), "--seeds", "3", "--json"], &options[..]].concat()));
    let of = |run: usize| number(&told["runs"][run]["xenmon"]["hosts"][0]["domains"][0], "executions");
    let mut executions: Vec<u64> = (0..3).map(of).collect();
    executions.sort_unstable();
    let (medians, told) = (&told["medians"][0]["xenmon"][0]["domains"][0], executions);
    let spread = ["low", "median", "high"].map(|part| number(&medians["executions"], part));
    assert_eq!((medians["name"].as_str(), spread.to_vec()), (Some("vm"), told));
    let text = sim(&[&[two.as_str(), "--seeds", "3"], &options[..]].concat());
    assert!(text.contains("\nDomains of host, from 200ms on ("), "{text}");
}

#[test]
fn ftrace_text_is_written_for_the_host_and_beside_it_for_each_guest() {
    let place = Place::new();
    let two = scenario("two-levels.toml");
    let done = place.run(&["sim", &two, "--for", "100ms", "--ftrace", "run.txt"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        done.stdout.contains("Wrote ftrace's text to run.txt, and the traces of guests beside it."),
        "{}",
        done.stdout
    );
    assert_eq!(place.files(), ["run.txt", "run.vm.txt"]);
}

#[test]
fn what_cannot_be_monitored_or_written_is_refused_and_nothing_is_written() {
    let two = scenario("two-levels.toml");
    for (args, reason, right) in [
        (&["--xenmon", "--warm-up", "30s"][..], "a warm-up of 30s excludes the whole run", "below 30s"),
        (&["--xenmon", "--warm-up", "soon"], "is not a length of time", "use "),
        (&["--ftrace", "run.dat"], "`run.dat` does not end in .txt", "ends in .txt"),
        (
            &["--ftrace", "run.txt", "--policy", "cfs,credit"],
            "there are several policies",
            "one --policy with --ftrace",
        ),
    ] {
        let place = Place::new();
        let done = place.run(&[&["sim", &two], args].concat());
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains(reason) && done.stderr.contains(right), "{}", done.stderr);
        assert_eq!(place.files(), [""; 0]);
    }
}
