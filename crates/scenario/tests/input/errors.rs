//! The problems of invalid scenarios. The expected outputs are in `errors/*.txt`.

use crate::rendered;
use expect_test::expect_file;
use input::problem::Problems;
use scenario::Scenario;

fn problems(text: &str) -> Problems {
    Scenario::from_bytes("x.toml", text.into()).expect_err("the scenario is wrong")
}

/// Returns the terminal output for each of `files`.
fn shown<T: AsRef<str>>(files: &[T]) -> String {
    let said = |file: &T| format!("{}\n======== {}", rendered(&problems(file.as_ref())), "=".repeat(70));
    files.iter().map(said).collect::<Vec<_>>().join("\n") + "\n"
}

/// Returns the problems of each of `parts` as the continuation of a scenario with one VM, one line per problem.
fn said(parts: &[&str]) -> String {
    let start = "name = \"x\"\ncpus = 2\nlength = \"1s\"\n[[vm]]\nname = \"a\"\nworkload = \"hog\"\n";
    let said = |part: &&str| {
        format!("{part}\n  {}\n", problems(&format!("{start}{part}\n")).to_string().replace('\n', "\n  "))
    };
    parts.iter().map(said).collect::<Vec<_>>().join("\n")
}

const START: &str = "name = \"x\"\ncpus = 1\nlength = \"1s\"\n";

#[test]
fn each_error_is_shown_in_its_line() {
    expect_file!["errors/shown.txt"].assert_eq(&shown(&[
        &format!("{START}\n[[vm]]\nname = \"a\"\nslice = \"60ms\"\nperiod = \"50ms\"\nworkload = \"hog\"\n"),
        "nam = \"x\"\ncpus = 0\nlength = 5\n\n[[vm]]\nname = \"a\"\nslize = \"60ms\"\nperiod = \"50ms\"\nworkload = \
         \"hogg\"\n\n[[vm]]\nname = \"a\"\nweight = 0\nparent = \"b\"\nworkload = { periodic = { period = \"1s\" } }\n",
        &format!("{START}{}", "[[vm]]\nwait = 1\n".repeat(7)),
        "name = \"Übung\"\r\ncpus = 1\r\n\tlength = 1\r\n[[task]]\r\nname = \"µ\"\r\nworkload = \"hog\"",
    ]));
}

#[test]
fn a_whole_file_can_be_wrong() {
    expect_file!["errors/files.txt"].assert_eq(&shown(&[
        "",
        START,
        "name = \"x\"\nname = \"y\"\n",
        "\n{ \"tasks\": {} }\n",
        "name = \"x\n",
        "name = \n",
        "vm = 7\n[task]\nname = \"t\"\n",
        "name = \"a\u{1b}[2J\u{202e}\"",
        "cpus = 1\n[[vm]\n",
        "a = 1\n\n\n\n\n\n\n\n\n[a]\n",
    ]));
}

#[test]
fn deep_nesting_is_refused_where_it_gets_too_deep() {
    let deep = |before: &str, again: &str| format!("{before}{}", again.repeat(100_000));
    expect_file!["errors/deep.txt"].assert_eq(&shown(&[
        deep("a = ", "["),
        deep("a = ", "{a="),
        deep("# a comment. With dots ...\nb = 1\na", ".a") + " = 1",
        deep("[a", ".\"b\" ") + "]",
    ]));
}

#[test]
fn the_machine() {
    let file =
        |top: &str| format!("name = \"x\"\nlength = \"1s\"\n{top}\n[[task]]\nname = \"t\"\nworkload = \"hog\"\n");
    expect_file!["errors/machine.txt"].assert_eq(&shown(&[
        file(""),
        file("cpus = 1025"),
        file("cpus = 6\nsmt = 4"),
        file("cpus = 6\nsmt = 2\nllc = 3"),
        file("cpus = 1\nllc = 2"),
        file("cpus = 1\nseed = -1\ncosts = { kick = 1, contxt_switch = \"1us\" }"),
        file("cpus = 1\ncosts = 5\nseed = 18446744073709551616"),
        file("cpus = 1\ncosts = \"cortex\""),
        file("cpus = 1\ncosts = { machine = \"m4\", exit = 1 }"),
        file("cpus = 1\ncosts = { machin = 4 }"),
    ]));
}

#[test]
fn reservations() {
    expect_file!["errors/reservations.txt"].assert_eq(&said(&[
        "slice = \"0s\"\nperiod = \"1s\"",
        "slice = \"1s\"",
        "period = \"1s\"",
        "limit = \"hard\"\nstart=\"1ms\"",
        "slice = 20\nperiod=\"1s\"",
        "slice = \"20\"\nperiod=\"1s\"",
        "slice = \"-1ms\"\nperiod=\"1d\"",
        "slice = \"1.0000001ms\"\nperiod=\"400000h\"",
        "slice = 1.5\nperiod=[\"1s\"]\nlimit = \"Hard\"",
        "slice = 1979-05-27\nperiod = true\nlimit = {}",
        "slice = \"99999999999999999999999s\"\nperiod = \"1s\"",
    ]));
}

#[test]
fn shares_and_ceilings() {
    expect_file!["errors/shares.txt"].assert_eq(&said(&[
        "weight = 0",
        "weight = 65536\nnice = 20\ncgroup_weight = 10001",
        "weight = 256\nnice = 0",
        "weight = \"256\"",
        "cap = 0",
        "cap = 99999999999999999999",
        "quota = \"50ms\"",
        "quota = \"50us/100ms\"",
        "quota = \"50ms/2s\"",
        "quota = 50000",
        "[[task]]\nname = \"t\"\nworkload = \"hog\"\ncap = 10\nvcpus = 2",
    ]));
}

#[test]
fn placement_and_class() {
    expect_file!["errors/placement.txt"].assert_eq(&said(&[
        "affinity = \"2-3\"",
        "affinity = \"none\"",
        "affinity = \"3-2\"",
        "affinity = \"1024\"",
        "affinity = 1",
        "class = \"fifo\"",
        "class = \"btach\"",
        "class = { fifo = 100 }",
        "class = { rr = 1, fifo = 2 }",
        "class = { rt = 1 }",
        "class = 5",
    ]));
}

#[test]
fn coming_and_going() {
    expect_file!["errors/arrivals.txt"].assert_eq(&said(&[
        "arrival = \"1s\"",
        "arrival = \"500ms\"\nleaves = \"500ms\"",
        "leaves = \"0s\"",
        "vcpus = 0",
        "vcpus = 1025",
        "vcpus = 2.0",
        "stagger = \"5ms\"",
        "vcpus = 2\ngang = true\nslice = \"1ms\"\nperiod = \"10ms\"\nstagger = \"5ms\"",
    ]));
}

#[test]
fn workloads() {
    expect_file!["errors/workloads.txt"].assert_eq(&said(&[
        "[[task]]\nname = \"t\"",
        "[[task]]\nname = \"t\"\nworkload = \"periodic\"",
        "[[task]]\nname = \"t\"\nworkload = { hog = {} }",
        "[[task]]\nname = \"t\"\nworkload = { periodical = {} }",
        "[[task]]\nname = \"t\"\nworkload = {}",
        "[[task]]\nname = \"t\"\nworkload = 7",
        "[[task]]\nname = \"t\"\nworkload = { periodic = { period = \"0s\", wrok = \"1ms\" } }",
        "[[task]]\nname = \"t\"\n[task.workload.periodic]\nperiod = \"2ms\"",
        "[[task]]\nname = \"t\"\nworkload.periodic = { period = \"2ms\", work = \"3ms\", deadline = \"1ms\" }",
        "[[task]]\nname = \"t\"\nworkload.periodic = { period = \"2ms\", work = \"1ms\", end = \"never\" }",
    ]));
}

#[test]
fn real_processes() {
    expect_file!["errors/real.txt"].assert_eq(&said(&[
        "command = \"make -j2\"",
        "command = []",
        "command = [\"\", \"x\"]",
        "command = [\"make\", 2]",
        "command = [\"ma\\u0000ke\"]",
        "pid = 0",
        "pid = 4194305",
        "pid = \"1\"",
        "pid = 7\ncommand = [\"make\"]",
        "pid = 7\n[[task]]\nname = \"t\"\npid = 7\n[[task]]\nname = \"u\"\npid = 7",
        "[[task]]\nname = \"t\"\ncomand = [\"make\"]",
        "[[group]]\nname = \"g\"\npid = 7",
    ]));
}

#[test]
fn names_and_groups() {
    let ring = |n: usize| -> String {
        (0..n).map(|i| format!("[[group]]\nname = \"g{i}\"\nparent = \"g{}\"\n", (i + 1) % n)).collect()
    };
    let chain: String = (1..70).map(|i| format!("[[group]]\nname = \"g{i}\"\nparent = \"g{}\"\n", i - 1)).collect();
    let chain = format!("{chain}[[group]]\nname = \"g0\"\n");
    expect_file!["errors/names.txt"].assert_eq(&said(&[
        "[[task]]\nworkload = \"hog\"",
        "[[task]]\nname = \"a\"\nworkload = \"hog\"",
        "[[task]]\nname = \"a/0\"\nworkload = \"hog\"\n[[group]]\nname = \"\"\n[[group]]\nname = \" b\"",
        "[[group]]\nname = \"\\u001b[2J\"\n[[group]]\nname = 1",
        &format!("[[group]]\nname = \"{}\"", "n".repeat(101)),
        "parent = \"tennant\"\n[[group]]\nname = \"tenant\"",
        "[[task]]\nname = \"t\"\nparent = \"a\"\nworkload = \"hog\"",
        "[[group]]\nname = \"g\"\nparent = \"g\"",
        "[[group]]\nname = \"g\"\nparent = \"h\"\n[[group]]\nname = \"h\"\nparent = \"i\"\n[[group]]\nname = \
         \"i\"\nparent = \"h\"",
        &ring(6),
        &chain,
        "[[group]]\nname = \"g\"\nvcpus = 2\nslice = \"1ms\"",
    ]));
}

#[test]
fn too_many_entities() {
    let vms: String =
        (0..1030).map(|i| format!("[[vm]]\nname = \"v{i}\"\nvcpus = 1024\nworkload = \"hog\"\n")).collect();
    expect_file!["errors/entities.txt"].assert_eq(&problems(&format!("{START}{vms}")).to_string());
}
