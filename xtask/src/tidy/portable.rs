//! A rule about portable crates: their code names no module of `std` that needs an operating system.

use super::sources::{holds_tests, is_cfg_test, parse};
use super::{files, texts, tidy};
use crate::portable::PORTABLE;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::Path;

/// Modules of `std` that need an operating system.
const SYSTEM: &[&str] = &["env", "fs", "net", "os", "process", "thread", "time"];
/// Crates that may use the operating system.
const SYSTEM_CRATES: &[&str] = &[
    "api",
    "certs",
    "cli",
    "conformance",
    "daemon",
    "fuzz",
    "guest",
    "lab",
    "page",
    "port",
    "python",
    "scx",
    "service",
    "simhost",
    "simservice",
    "storms",
    "sys",
];

/// Returns the uses of the operating system outside tests (`std::fs`, `std::{fs, …}`): module and line.
fn system_uses(tokens: TokenStream) -> Vec<(String, usize)> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if matches!(tokens.get(at + 1), Some(TokenTree::Group(attribute)) if is_cfg_test(attribute)) {
                    at = end_of_item(&tokens, at);
                }
            }
            TokenTree::Group(group) => found.extend(system_uses(group.stream())),
            TokenTree::Ident(word) if word == "std" => found.extend(after_std(&tokens[at + 1..])),
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the index of the last token of the item that begins at `at`: a semicolon or a group in braces.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    tokens[at..].iter().position(ends).map_or(tokens.len(), |end| at + end)
}

/// Returns the modules of the operating system in the tokens after `std`.
fn after_std(tokens: &[TokenTree]) -> Vec<(String, usize)> {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    if !is_colon(tokens.first()) || !is_colon(tokens.get(1)) {
        return Vec::new();
    }
    let named = match tokens.get(2) {
        Some(TokenTree::Group(group)) => group.stream().into_iter().collect(),
        Some(token) => vec![token.clone()],
        None => Vec::new(),
    };
    let of_system = |token: &TokenTree| match token {
        TokenTree::Ident(word) if SYSTEM.iter().any(|module| word == module) => {
            Some((format!("std::{word}"), word.span().start().line))
        }
        _ => None,
    };
    named.iter().filter_map(of_system).collect()
}

fn is_portable(path: &Path) -> bool {
    PORTABLE.iter().any(|name| path.starts_with(Path::new("crates").join(name).join("src")))
}

#[test]
fn portable_crates_name_nothing_of_an_operating_system() {
    let mut findings = Vec::new();
    for (path, text) in texts("rs") {
        if is_portable(&path) && !holds_tests(&path) {
            let used = system_uses(parse(&text)).into_iter();
            findings.extend(used.map(|(module, line)| format!("{}:{line}: {module}", path.display())));
        }
    }
    tidy(&findings);
}

#[test]
fn uses_of_an_operating_system_are_found_outside_of_tests() {
    let source = "use std::fs;\nuse std::{fmt, thread};\nfn f() {\n std::time::Instant::now();\n}\n\
        #[cfg(test)]\nmod tests {\n use std::fs;\n}\nuse std::io::Write;\nfn time() { env::f() }\n";
    let found = system_uses(parse(source));
    let right = [("std::fs", 1), ("std::thread", 2), ("std::time", 4)].map(|(module, line)| (module.to_string(), line));
    assert_eq!(found, right);
}

#[test]
fn every_crate_is_portable_or_may_use_an_operating_system() {
    let name = |path: &Path| path.strip_prefix("crates").ok()?.iter().next()?.to_str().map(str::to_string);
    let there: BTreeSet<String> = files().iter().filter_map(|path| name(path)).collect();
    let known: BTreeSet<String> = PORTABLE.iter().chain(SYSTEM_CRATES).map(ToString::to_string).collect();
    assert_eq!(there, known, "enter a new crate in PORTABLE or SYSTEM_CRATES");
}
