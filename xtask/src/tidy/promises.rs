//! Rules about SPECIFICATION.md: every promise is short, and names its tests or is marked as pending.

use super::{text, texts, tidy};

/// A row of a table of promises.
#[derive(Debug)]
struct Promise {
    words: String,
    /// Text of the last column.
    held_by: String,
}

/// Returns the rows of the tables: the promise in the first column, the tests or `pending` in the last.
fn promises(page: &str) -> Vec<Promise> {
    let rows = page
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| Promise"));
    rows.filter_map(|row| {
        let mut columns = row.trim().trim_matches('|').split('|').map(str::trim);
        let words = columns.next()?.to_string();
        Some(Promise { words, held_by: columns.next_back()?.to_string() })
    })
    .collect()
}

/// Returns the promises that name no test and are not pending, and the promises that name a test that does not exist.
/// `tests` returns whether a crate has a test of this name.
fn broken(promises: &[Promise], tests: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for Promise { words, held_by } in promises {
        let spans = held_by.split('`').skip(1).step_by(2);
        let names: Vec<&str> = spans.filter(|span| span.contains("::")).collect();
        if names.is_empty() && !held_by.starts_with("*pending*") {
            findings.push(format!("“{words}” names no test and is not *pending*"));
        }
        for name in names {
            let (package, test) = name.split_once("::").unwrap_or(("", name));
            let test = test.rsplit("::").next().unwrap_or(test);
            if !tests(package, test) {
                findings.push(format!("“{words}” names `{name}`, which is not a test"));
            }
        }
    }
    findings
}

/// Maximum length of a row, in characters.
const ROW_MAX: usize = 300;

/// Maximum length of a promise, in words.
const WORDS_MAX: usize = 25;

/// Maximum number of tests of a row. A promise that needs more tests is several promises.
const TESTS_MAX: usize = 3;

/// Returns the rows that are too long for one promise.
fn too_long(promises: &[Promise]) -> Vec<String> {
    let mut findings = Vec::new();
    for Promise { words, held_by } in promises {
        let row = format!("| {words} | {held_by} |").chars().count();
        let count = words.split_whitespace().count();
        let tests = held_by.split('`').skip(1).step_by(2).filter(|span| span.contains("::")).count();
        if row > ROW_MAX || count > WORDS_MAX || tests > TESTS_MAX {
            findings.push(format!(
                "“{words}” has {row} of {ROW_MAX} characters, {count} of {WORDS_MAX} words, {tests} of {TESTS_MAX} tests"
            ));
        }
    }
    findings
}

/// Returns whether a file of Python has a test of this name, for pytest.
fn has_python_test(text: &str, name: &str) -> bool {
    name.starts_with("test_") && text.lines().any(|line| line.starts_with(&format!("def {name}(")))
}

/// Returns whether `text` has a test of this name: `#[test]`, optional further attributes, then the function.
fn has_test(text: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let named = lines.iter().enumerate().filter(|(_, line)| line.starts_with(&function));
    named.into_iter().any(|(at, _)| {
        let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        attributes.into_iter().any(|line| *line == "#[test]")
    })
}

/// Returns whether `text` is a program that lists its tests itself, with a test of this name.
fn lists_test(text: &str, name: &str) -> bool {
    text.contains("const TESTS: ") && text.contains(&format!("\"{name}\","))
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let (sources, of_python) = (texts("rs"), texts("py"));
    let promises = promises(&text("SPECIFICATION.md"));
    assert!(promises.len() > 10, "{promises:?}");
    let folder = |package: &str| if package == "xtask" { "xtask".to_string() } else { format!("crates/{package}") };
    let exists = |package: &str, name: &str| {
        let is_here = |(path, _): &&(std::path::PathBuf, String)| path.starts_with(folder(package));
        sources.iter().filter(is_here).any(|(_, text)| has_test(text, name) || lists_test(text, name))
            || of_python.iter().filter(is_here).any(|(_, text)| has_python_test(text, name))
    };
    tidy(&broken(&promises, &exists));
}

#[test]
fn every_promise_is_one_short_sentence() {
    tidy(&too_long(&promises(&text("SPECIFICATION.md"))));
}

#[test]
fn a_promise_that_is_several_is_found() {
    let long = "a ".repeat(WORDS_MAX + 1);
    let wide = "x".repeat(ROW_MAX);
    let page = format!(
        "| Short | `sched::a`, `sched::b`, `sched::c` |\n| {long} | `sched::a` |\n| {wide} | `sched::a` |\n\
         | Many | `sched::a`, `sched::b`, `sched::c`, `sched::d` |\n"
    );
    let found = too_long(&promises(&page));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("26 of 25 words") && found[2].contains("4 of 3 tests"));
}

#[test]
fn a_promise_without_a_test_is_found() {
    let page = "| Promise | Test |\n|---|---|\n| One | `sched::a` |\n| Two | `sched::gone` |\n| Three | |\n\
        | Four | *pending* |\n| Five | `sched::time::a`, `sim::a` |\n\
        | Six | *pending*; so far `sched::lost` |\n";
    let found = broken(&promises(page), &|package, name| package == "sched" && name == "a");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[3].contains("`sched::lost`"));
    assert!(found[0].contains("Two") && found[1].contains("Three") && found[2].contains("`sim::a`"));
    let source = concat!("#[test", "]\n#[ignore]\nfn a() {}\nfn b() {}\n");
    assert!(has_test(source, "a") && !has_test(source, "b"));
    assert!(has_python_test("def test_a(x):\n", "test_a") && !has_python_test("# def test_a(x):\n", "test_a"));
}
