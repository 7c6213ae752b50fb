//! Rules about Rust sources: length, completeness, purity.

use super::{texts, tidy};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use std::path::Path;
use std::str::FromStr;

/// Maximum number of lines of a file. A longer file combines two subjects.
const FILE_LINES_MAX: usize = 600;
/// Maximum number of lines of a function. A longer function does not fit on a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// Marks of unfinished work.
const LEFTOVERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const LEFTOVER_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
/// Assertions that a release build omits. A law that is not asserted in release builds is not a law.
const UNASSERTED: &[&str] = &["debug_assert", "debug_assert_eq", "debug_assert_ne"];
/// Names that `sched` and the policies must not use: clocks, threads, random numbers, floats, input and output, and
/// containers whose order differs between runs.
const IMPURE: &[&str] = &[
    "HashMap",
    "HashSet",
    "RandomState",
    "SystemTime",
    "UNIX_EPOCH",
    "f32",
    "f64",
    "thread",
    "rand",
    "fs",
    "env",
    "net",
    "println",
    "eprintln",
    "print",
    "eprint",
];

pub(super) fn parse(text: &str) -> TokenStream {
    TokenStream::from_str(text).expect("what compiles is made of tokens")
}

fn too_long(text: &str) -> Option<usize> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX).then_some(lines)
}

/// Returns the functions of more than [`FUNCTION_LINES_MAX`] lines, from `fn` to the closing brace: name, first line,
/// length.
fn long_functions(tokens: TokenStream) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    let mut begun: Option<(Ident, usize)> = None;
    let mut after_fn = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) if after_fn => {
                after_fn = false;
                let line = name.span().start().line;
                begun = Some((name, line));
            }
            TokenTree::Ident(word) => after_fn = word == "fn",
            TokenTree::Group(group) => {
                after_fn = false;
                if group.delimiter() == Delimiter::Brace
                    && let Some((name, line)) = begun.take()
                {
                    let lines = group.span_close().end().line - line + 1;
                    if lines > FUNCTION_LINES_MAX {
                        found.push((name.to_string(), line, lines));
                    }
                }
                found.extend(long_functions(group.stream()));
            }
            TokenTree::Punct(punct) => {
                after_fn = false;
                if punct.as_char() == ';' {
                    begun = None; // A signature without a body.
                }
            }
            TokenTree::Literal(_) => after_fn = false,
        }
    }
    found
}

fn leftovers(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        LEFTOVERS.iter().filter(|word| has_word(text, word)).map(ToString::to_string).collect();
    let called = |name: &&&str| text.contains(&format!("{name}!("));
    found.extend(LEFTOVER_MACROS.iter().filter(called).map(|name| format!("{name}!")));
    found
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// Returns the impure words outside tests: word and line.
fn impurities(tokens: TokenStream) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    // `pair.0.1` contains the literal `0.1`.
    let mut after_dot = false;
    while let Some(token) = tokens.next() {
        let field =
            std::mem::replace(&mut after_dot, matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.'));
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let test_only = matches!(tokens.peek(), Some(TokenTree::Group(attribute)) if is_cfg_test(attribute));
                if test_only {
                    // The item after the attribute ends with a semicolon or a group in braces.
                    for skipped in tokens.by_ref() {
                        match skipped {
                            TokenTree::Punct(punct) if punct.as_char() == ';' => break,
                            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
                            _ => {}
                        }
                    }
                }
            }
            TokenTree::Group(group) => found.extend(impurities(group.stream())),
            TokenTree::Ident(word) if IMPURE.iter().any(|impure| word == impure) => {
                found.push((word.to_string(), word.span().start().line));
            }
            TokenTree::Literal(literal) if !field && is_float(&literal.to_string()) => {
                found.push((literal.to_string(), literal.span().start().line));
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Punct(_) => {}
        }
    }
    found
}

/// Returns the assertions that only debug builds check: macro and line.
fn debug_assertions(tokens: TokenStream) -> Vec<(String, usize)> {
    let of = |token: TokenTree| match token {
        TokenTree::Group(group) => debug_assertions(group.stream()),
        TokenTree::Ident(word) if UNASSERTED.iter().any(|name| word == name) => {
            vec![(word.to_string(), word.span().start().line)]
        }
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
    };
    tokens.into_iter().flat_map(of).collect()
}

/// Returns the lines that read the state of a policy by name: `.inspect(entity, name)`. An iterator's `inspect` has one
/// argument.
fn reads_by_name(tokens: TokenStream) -> Vec<usize> {
    let mut found = Vec::new();
    let mut asks = false;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
            if asks && group.stream().into_iter().any(|token| comma(&token)) {
                found.push(group.span_open().start().line);
            }
            found.extend(reads_by_name(group.stream()));
        }
        asks = matches!(&token, TokenTree::Ident(word) if word == "inspect");
    }
    found
}

/// Returns the lines with the word `unsafe` in the code.
fn unsafe_lines(tokens: TokenStream) -> Vec<usize> {
    let of = |token: TokenTree| match token {
        TokenTree::Group(group) => unsafe_lines(group.stream()),
        TokenTree::Ident(word) if word == "unsafe" => vec![word.span().start().line],
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
    };
    tokens.into_iter().flat_map(of).collect()
}

pub(super) fn is_cfg_test(attribute: &Group) -> bool {
    attribute.stream().to_string().replace(' ', "") == "cfg(test)"
}

fn is_float(literal: &str) -> bool {
    let number = literal.starts_with(|first: char| first.is_ascii_digit()) && !literal.starts_with("0x");
    number && (literal.contains('.') || literal.ends_with("f32") || literal.ends_with("f64"))
}

/// Returns whether a file has only tests: `tests.rs`, or a file below a folder `tests`. In `sched` and the policies,
/// [`tests_in_the_open`] finds a module `tests` that is not test-only.
pub(super) fn holds_tests(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// Returns whether the text has `mod tests` without `#[cfg(test)]`, which would make test code part of the crate.
fn tests_in_the_open(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declares = |line: &str| line == "mod tests;" || line == "mod tests {";
    lines.iter().enumerate().any(|(i, line)| declares(line) && (i == 0 || lines[i - 1] != "#[cfg(test)]"))
}

fn is_pure_crate(path: &Path) -> bool {
    path.starts_with("crates/sched/src") || path.starts_with("crates/policies/src")
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let long = texts("rs").into_iter().filter_map(|(path, text)| Some((path, too_long(&text)?)));
    tidy(&long.map(|(path, lines)| format!("{}: {lines} lines; split it by noun", path.display())).collect::<Vec<_>>());
    assert_eq!(too_long(&"\n".repeat(601)), Some(601));
    assert_eq!(too_long(&"\n".repeat(600)), None);
}

#[test]
fn no_function_is_longer_than_70_lines() {
    let mut findings = Vec::new();
    for (path, text) in texts("rs") {
        for (name, line, lines) in long_functions(parse(&text)) {
            findings.push(format!("{}:{line}: fn {name} has {lines} lines", path.display()));
        }
    }
    tidy(&findings);
}

#[test]
fn long_functions_are_found_wherever_they_are() {
    let body = "    work();\n".repeat(69);
    let long = format!("impl T {{\n    fn short();\n    fn long(f: fn(u8) -> u8) {{\n{body}    }}\n}}\n");
    assert_eq!(long_functions(parse(&long)), [("long".to_string(), 3, 71)]);
    let fits = long.replacen("    work();\n", "", 1);
    assert_eq!(long_functions(parse(&fits)), []);
}

#[test]
fn no_work_is_left_over() {
    let mut findings = Vec::new();
    for extension in ["rs", "py", "toml"] {
        for (path, text) in texts(extension) {
            findings.extend(leftovers(&text).iter().map(|word| format!("{}: {word}", path.display())));
        }
    }
    tidy(&findings);
    assert_eq!(leftovers(concat!("// TO", "DO: later")), [concat!("TO", "DO")]);
    assert_eq!(leftovers(concat!("db", "g!(x); to", "do!()")), [concat!("to", "do!"), "dbg!"]);
    assert_eq!(leftovers("fn todos() {}"), [""; 0]);
}

#[test]
fn every_assertion_is_made_in_release_builds_too() {
    let mut findings = Vec::new();
    for (path, text) in texts("rs") {
        let found = debug_assertions(parse(&text)).into_iter();
        findings.extend(found.map(|(name, line)| format!("{}:{line}: {name}!; use assert!", path.display())));
    }
    tidy(&findings);
    let found =
        debug_assertions(parse("fn f() {\n debug_assert!(a);\n // debug_assert\n { debug_assert_eq!(a, b) }\n}"));
    assert_eq!(found, [("debug_assert".to_string(), 2), ("debug_assert_eq".to_string(), 4)]);
    assert_eq!(debug_assertions(parse("fn f() { assert!(a, \"debug_assert\") }")), []);
}

/// Code outside `sched` and the policies reads the state of a policy through typed methods. `inspect` is only for
/// tables and for the policies' own tests.
#[test]
fn nothing_reads_what_a_policy_keeps_by_name() {
    let mut findings = Vec::new();
    for (path, text) in texts("rs") {
        if !is_pure_crate(&path) {
            let lines = reads_by_name(parse(&text)).into_iter();
            findings
                .extend(lines.map(|line| format!("{}:{line}: inspect by name; add a typed answer", path.display())));
        }
    }
    tidy(&findings);
    assert_eq!(reads_by_name(parse("fn f() {\n machine.inspect(e, \"deadline\");\n}")), [2]);
    assert_eq!(reads_by_name(parse("iterator.inspect(|it| g(it, 1)); front.promise(e, now)")), [0; 0]);
}

#[test]
fn sched_and_policies_are_pure() {
    let mut findings = Vec::new();
    for (path, text) in texts("rs") {
        if is_pure_crate(&path) && !holds_tests(&path) {
            let impure = impurities(parse(&text)).into_iter();
            findings.extend(impure.map(|(word, line)| format!("{}:{line}: {word}", path.display())));
            if tests_in_the_open(&text) {
                findings.push(format!("{}: `mod tests` is not behind #[cfg(test)]", path.display()));
            }
        }
    }
    tidy(&findings);
}

#[test]
fn only_sys_is_unsafe() {
    let others = texts("rs").into_iter().filter(|(path, _)| !path.starts_with("crates/sys"));
    let findings = others.flat_map(|(path, text)| {
        unsafe_lines(parse(&text)).into_iter().map(move |line| format!("{}:{line}: unsafe", path.display()))
    });
    tidy(&findings.collect::<Vec<_>>());
    // Macros may expand to unsafe code, so the compiler must forbid it too.
    let manifests = texts("toml").into_iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
    let crates = manifests.filter(|(path, text)| text.contains("[package]") && !path.starts_with("crates/sys"));
    let lax = crates.filter(|(_, text)| !text.contains("[lints]\nworkspace = true"));
    tidy(&lax.map(|(path, _)| format!("{}: does not take the workspace's lints", path.display())).collect::<Vec<_>>());
    assert_eq!(unsafe_lines(parse("fn f() {\n// unsafe\nlet a = \"unsafe\";\nunsafe { g() }\n}")), [4]);
}

#[test]
fn impurities_are_found_outside_tests_and_comments_only() {
    let words = |text: &str| impurities(parse(text)).into_iter().map(|(word, _)| word).collect::<Vec<_>>();
    assert_eq!(
        words("use std::collections::HashMap; fn f(x: f64) { std::thread::yield_now() }"),
        ["HashMap", "f64", "thread"]
    );
    assert_eq!(words("const A: u64 = 1.5 as u64; let b = 2f32;"), ["1.5", "2f32"]);
    assert_eq!(words("/// A HashMap, 1.5 times.\nconst A: &str = \"f64\"; const B: u64 = 0xf32; x.0.1"), ["0.1"; 0]);
    assert_eq!(words("#[cfg(test)]\nmod tests { use std::thread; }\n#[cfg(test)] use f64; struct S(f32);"), ["f32"]);
    assert!(tests_in_the_open("mod a;\nmod tests;\n"));
    assert!(!tests_in_the_open("#[cfg(test)]\nmod tests {\n}\n"));
}
