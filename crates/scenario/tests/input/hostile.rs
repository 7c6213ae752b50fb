//! Hostile or damaged input causes no panic and no unbounded run time. Every problem has a span within the file.
#![expect(clippy::disallowed_methods, reason = "that time is bounded can only be seen on a clock")]

use crate::rendered;
use input::problem::Problems;
use input::text::FILE_BYTES_MAX;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use scenario::Scenario;
use scenario::rtapp::RtApp;
use scenario::taskset;
use std::time::{Duration, Instant};

/// Files to damage.
const FILES: &[&str] = &[
    include_str!("../../../../scenarios/three-vms.toml"),
    include_str!("../../../../scenarios/demo.toml"),
    include_str!("../../../../scenarios/weights.toml"),
    include_str!("../../../../scenarios/two-levels.toml"),
    include_str!("../../../../scenarios/coordination.toml"),
    include_str!("../../../../scenarios/xen-io.toml"),
    include_str!("../../../../scenarios/rt-app/every-event.json"),
    include_str!("../../../conformance/tests/oracle/ts_A_n10_u3.0.csv"),
    include_str!("errors/workloads.txt"),
    include_str!("errors/placement.txt"),
];

/// Words to insert. A file with such a word passes the first checks more often than a file with random bytes.
const WORDS: &[&str] = &[
    "\"",
    "'''",
    "\"\"\"",
    "[[vm]]\n",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\n",
    "\r",
    "#",
    "\u{feff}",
    "-1",
    "1e999",
    "nan",
    "99999999999999999999",
    "0x",
    "\"0s\"",
    "\"18446744073709551615ns\"",
    "\"-1h\"",
    "name = ",
    "parent = \"a\"\n",
    "vcpus = 1024\n",
    "slice = \"1ms\"\n",
    "workload = { periodic = {",
    "true",
    "1979-05-27",
    "\\u0000",
    "é",
    "\u{1b}[31m",
    "a.b.c",
    "[[vm.task]]\n",
    "guest = \"cfs\"\n",
    "{ uniform = [\"1ms\", \"2ms\"] }",
    "hackbench = { groups = 999999999 }",
    "web_server = { clients = 9999, rate = 0.0001 }",
    "[network]\ndrivers = \"split\"\n",
    "search = { leaves = [\"a\", 5] }",
    "bandwidth = \"18446744073709551615Gbit\"\n",
    "/*",
    "\"loop\" : -1,",
    "\"instance\" : 1000000000,",
    "\"fork\" : \"parent\",",
    "\"suspend\",",
    "\"lock\" : \"m\",",
    "NaN",
];

fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    usize::try_from(rng.next_u64() % n.max(1) as u64).unwrap()
}

/// Damages a file at random. Flips a bit, truncates the file, removes or repeats a part, replaces a part with a part of
/// one of [`FILES`], or inserts a word.
fn damage(rng: &mut ChaCha8Rng, bytes: &mut Vec<u8>) {
    let at = below(rng, bytes.len() + 1);
    let end = (at + below(rng, 80)).min(bytes.len());
    match below(rng, 6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << below(rng, 8),
        1 => bytes.truncate(at),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let other = FILES[below(rng, FILES.len())].as_bytes();
            let from = below(rng, other.len());
            let piece = other[from..(from + below(rng, 200)).min(other.len())].to_vec();
            drop(bytes.splice(at..end, piece));
        }
        4 => drop(bytes.splice(at..at, WORDS[below(rng, WORDS.len())].bytes())),
        _ => {
            let piece = bytes[at..end].to_vec();
            drop(bytes.splice(at..at, piece));
        }
    }
}

/// Checks that every problem has a span in the file, and a remedy.
fn check(problems: &Problems, bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert!(!problems.shown().is_empty() && problems.shown().len() <= problems.count());
    for problem in problems.shown() {
        let place = problem.place();
        let mut parts = place.rsplit(':');
        let (column, line) = (parts.next().unwrap(), parts.next().unwrap_or_else(|| panic!("no place: {problem}")));
        let (line, column): (usize, usize) = (line.parse().unwrap(), column.parse().unwrap());
        assert!((1..=lines).contains(&line) && (1..=bytes.len() + 1).contains(&column), "{place}: {problem}");
        let remedies = ["use ", "put ", "give ", "leave ", "end ", "take "];
        assert!(remedies.iter().any(|verb| problem.remedy().contains(verb)), "no remedy: {problem}");
    }
    assert!(rendered(problems).contains("help: "));
}

#[test]
fn damaged_files_are_refused_or_mean_something_else() {
    let seed = 0x7ac7_5eed;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..6_000 {
        let mut bytes = FILES[below(&mut rng, FILES.len())].as_bytes().to_vec();
        for _ in 0..=below(&mut rng, 4) {
            damage(&mut rng, &mut bytes);
        }
        let begun = Instant::now();
        let outcomes = [
            Scenario::from_bytes("x", bytes.clone()).err(),
            taskset::from_bytes("x", bytes.clone()).err(),
            RtApp::from_bytes("x", bytes.clone()).err(),
        ];
        for outcome in outcomes {
            match outcome {
                None => right += 1,
                Some(problems) => {
                    check(&problems, &bytes);
                    wrong += 1;
                }
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "seed {seed:#x}, round {round}: {:?}", begun.elapsed());
    }
    assert!(right > 200 && wrong > 12_000, "the damage is of all kinds: {right} right, {wrong} wrong");
}

/// Returns a scenario of about `lines` lines: VMs and nested groups. Each VM refers to its group, and most groups refer
/// to the previous group.
fn large(lines: usize) -> String {
    let mut text = "name = \"large\"\ncpus = 64\nlength = \"1s\"\n".to_string();
    for i in 0..(lines - 3) / 10 {
        let parent = if i % 32 == 0 { String::new() } else { format!("parent = \"g{}\"", i - 1) };
        text += &format!("[[group]]\nname = \"g{i}\"\n{parent}\n[[vm]]\nname = \"v{i}\"\nparent = \"g{i}\"\n");
        text += "slice = \"1ms\"\nperiod = \"100ms\"\naffinity = \"0-63\"\nworkload = \"hog\"\n";
    }
    text
}

/// Reads `text` as a scenario and renders its problems, if any. Returns the time taken, and the scenario or the
/// rendered problems.
fn time(text: String) -> (Duration, Result<Scenario, String>) {
    let begun = Instant::now();
    let outcome = Scenario::from_bytes("x", text.into_bytes()).map_err(|problems| rendered(&problems));
    (begun.elapsed(), outcome)
}

#[test]
fn a_hundred_thousand_lines_take_about_a_second() {
    let text = large(100_000);
    let last = text.lines().count() + 1;
    let (right, scenario) = time(text.clone());
    let (wrong, said) = time(text.clone() + "[[task]]\nname = \"t\"\nworkload = \"hog\"\nparent = \"g9998x\"\n");
    let (syntax, said_of_syntax) = time(text.clone() + "[[task]\n");
    let (everywhere, said_of_all) = time(text.replace("parent = \"g", "parent = \"h"));
    println!("right {right:?}, last line wrong {wrong:?}, its syntax {syntax:?}, every reference {everywhere:?}");
    assert_eq!(scenario.unwrap().entities.len(), 9_999);
    let said = said.unwrap_err();
    assert!(said.contains(&format!("[x:{}:10]", last + 3)) && said.contains("did you mean `g9998`"), "{said}");
    assert!(said_of_syntax.unwrap_err().contains(&format!("[x:{last}:")));
    assert!(said_of_all.unwrap_err().contains("errors in x"));
    // Each file takes a tenth of a second; a quadratic algorithm would take minutes.
    for elapsed in [right, wrong, syntax, everywhere] {
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    }
}

#[test]
fn what_grows_with_a_file_grows_in_proportion() {
    let n = 40_000;
    let repeated = |piece: &str| piece.repeat(n);
    let numbered = |piece: &dyn Fn(usize) -> String| (0..n).map(piece).collect::<String>();
    let start = "name = \"x\"\ncpus = 1\nlength = \"1s\"\n";
    let files: Vec<(&str, String)> = vec![
        ("groups in a ring", numbered(&|i| format!("[[group]]\nname = \"g{i}\"\nparent = \"g{}\"\n", (i + 1) % n))),
        ("groups in a chain", numbered(&|i| format!("[[group]]\nname = \"g{i}\"\nparent = \"g{}\"\n", i + 1))),
        ("the same name", repeated("[[vm]]\nname = \"a\"\nworkload = \"hog\"\n")),
        ("more headers than tables fit", "[[vm]]\n".repeat(270_000)),
        ("tables of two bytes", format!("x = [{}]", format!("{{a{} = 1}},", ".a".repeat(70)).repeat(4_000))),
        ("single digits", format!("x = [{}]", "1,".repeat(2_200_000))),
        ("unknown keys", format!("[[vm]]\n{}", numbered(&|i| format!("k{i} = 1\n")))),
        (
            "misspelt keys",
            format!(
                "[[vm]]\n{}",
                numbered(&|i| format!("slic{} = 1\n", char::from_u32(0x4e00 + i as u32 % 20_000).unwrap()))
            ),
        ),
        ("unknown parents", numbered(&|i| format!("[[group]]\nname = \"g{i}\"\nparent = \"h{i}\"\n"))),
        ("knobs", format!("[policy]\nname = \"x\"\n[policy.knobs]\n{}", numbered(&|i| format!("k{i} = 1\n")))),
        ("one long line", format!("x = [{}]", repeated("1, "))),
        ("one long name", format!("x = \"{}\"", repeated("naïve"))),
        ("nothing", repeated("\n\n\n")),
        ("quotes", repeated("\"\n")),
        ("brackets", repeated("[\n")),
        ("assignments", repeated("=\n")),
        ("commas", repeated(",")),
        ("half-quoted fields", format!("id,period_us,wcet_us\n{}", repeated("1\",2,3\n"))),
        ("fields", format!("id,period_us,wcet_us\n{}", repeated("1,"))),
        ("the same id", format!("id,period_us,wcet_us\n{}", repeated("1,2,1\n"))),
    ];
    for (what, text) in files {
        let begun = Instant::now();
        let bytes = format!("{start}{text}").into_bytes();
        check(&Scenario::from_bytes("x", bytes.clone()).expect_err(what), &bytes);
        let bytes = text.into_bytes();
        check(&taskset::from_bytes("x", bytes.clone()).unwrap_err(), &bytes);
        println!("{what}: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: {:?}", begun.elapsed());
    }
}

#[test]
fn what_grows_with_a_file_of_rt_app_grows_in_proportion() {
    let n = 40_000;
    let numbered = |piece: &dyn Fn(usize) -> String| (0..n).map(piece).collect::<String>();
    let tasks = |text: String| format!("{{ \"tasks\" : {{ {text} }} }}");
    let wrong: Vec<(&str, String)> = vec![
        ("brackets", "[".repeat(2_000_000)),
        ("braces", "{\"a\":".repeat(1_000_000)),
        ("values", format!("[{}]", "1,".repeat(3_000_000))),
        ("keys alone", tasks("\"a\",".repeat(1_500_000))),
        ("digits", tasks(format!("\"t\" : {{ \"run\" : {} }}", "9".repeat(1_000_000)))),
        ("a name", tasks(format!("\"{}\" : {{ \"run\" : 1 }}", "é".repeat(1_000_000)))),
        ("comments", "/* */".repeat(1_000_000)),
        ("an open comment", format!("{}/*", "/* */".repeat(500_000))),
        ("an open text", format!("{{ \"{}", "a".repeat(4_000_000))),
        ("quotes", "\"".repeat(1_000_001)),
        ("unknown keys", tasks(format!("\"t\" : {{ {} }}", numbered(&|i| format!("\"key{i}\" : 1, "))))),
        ("the same name", tasks("\"t\" : { \"run\" : 1 },".repeat(n))),
        (
            "a chain of forks",
            tasks(numbered(&|i| format!("\"{i}\" : {{ \"loop\" : 1, \"run\" : 1, \"fork\" : \"{}\" }},", (i + 1) % n))),
        ),
        (
            "a chain that goes nowhere",
            tasks(numbered(&|i| format!("\"{i}\" : {{ \"suspend\", \"resume\" : \"{}\" }},", (i + 1) % n))),
        ),
        ("unknown forks", tasks(numbered(&|i| format!("\"{i}\" : {{ \"run\" : 1, \"fork\" : \"x{i}\" }},")))),
        (
            "timers",
            tasks(format!(
                "\"t\" : {{ {} }}",
                numbered(&|i| format!("\"timer\" : {{ \"ref\" : \"unique{i}\", \"period\" : 1 }},"))
            )),
        ),
        (
            "locks",
            tasks(format!(
                "\"t\" : {{ \"loop\" : 1, \"run\" : 1, {} }}",
                numbered(&|i| format!("\"lock\" : \"{i}\","))
            )),
        ),
        ("no end", tasks(numbered(&|i| format!("\"{i}\" : {{ \"run\" : 1, \"sleep\" : 1 }},"))).replace("} }", "")),
    ];
    for (what, text) in wrong {
        let begun = Instant::now();
        let bytes = text.into_bytes();
        check(&RtApp::from_bytes("x", bytes.clone()).expect_err(what), &bytes);
        println!("{what}: {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: {:?}", begun.elapsed());
    }
    let begun = Instant::now();
    let crowd = tasks(numbered(&|i| format!("\"{i}\" : {{ \"run\" : 1, \"barrier\" : \"all\" }},")));
    assert_eq!(RtApp::from_bytes("x", crowd.into_bytes()).unwrap().threads, n);
    assert!(begun.elapsed() < Duration::from_secs(5), "a crowd: {:?}", begun.elapsed());
    // A thread that sleeps, and a long chain of threads that each wake the next, in the worst order.
    let begun = Instant::now();
    let chain = numbered(&|i| match i {
        _ if i + 1 == n => format!("\"{i}\" : {{ \"sleep\" : 1, \"resume\" : \"{}\" }}", i - 1),
        0 => "\"0\" : { \"suspend\" },".to_string(),
        _ => format!("\"{i}\" : {{ \"suspend\", \"resume\" : \"{}\" }},", i - 1),
    });
    let app = RtApp::from_bytes("x", tasks(chain).into_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    println!("a chain: {:?}", begun.elapsed());
    assert!(app.application.tasks.len() == n && begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn too_large_a_text_is_refused() {
    let bytes = vec![b'\n'; FILE_BYTES_MAX + 1];
    for said in [Scenario::from_bytes("x", bytes.clone()).unwrap_err(), taskset::from_bytes("x", bytes).unwrap_err()] {
        assert!(said.to_string().ends_with("is too large; use a file of at most 8 MiB"), "{said}");
    }
}

#[test]
fn what_is_no_text_is_refused_at_its_byte() {
    let bytes = b"name = \"x\"\ncpus = 1 # \xc3\xa9 \xff\xfe\n".to_vec();
    let said = Scenario::from_bytes("x", bytes).unwrap_err().to_string();
    assert_eq!(said, "x:2:14: the file is not UTF-8 text: byte 25 is 0xff; use a text file in UTF-8");
}

#[test]
fn two_places_in_one_endless_line_are_no_trouble() {
    for spaces in [10, 3_000, 70_000, 1_000_000] {
        let between = " ".repeat(spaces);
        let text = format!(
            "name = \"x\"\ncpus = 1\nlength = \"1s\"\ntask = [{{ name = \"t\", workload = \"hog\" }}, {between}{{ name = \"t\", workload = \
             \"hog\" }}]\n"
        );
        let said = rendered(&Scenario::from_bytes("x", text.into_bytes()).unwrap_err());
        assert!(said.contains("the name `t` is taken") && said.contains("again"), "{spaces}: {said}");
        assert_eq!(said.contains("first here"), spaces < 4_000, "{spaces}");
    }
}
