//! Rules about names: no catch-all names, and no names of a developer's machine.

use super::{files, tidy};
use crate::root::root;
use std::path::{Path, PathBuf};

/// Catch-all names, which do not state the content.
const DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];
/// Paths on a developer's machine.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
/// Hosts of package registries, and options that choose a registry. The configuration of the registry's client chooses
/// the registry, not this project.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("--index", "-url"),
    concat!("sparse", "+http"),
];

fn drawer(path: &Path) -> bool {
    path.iter().any(|part| {
        let part = part.to_string_lossy();
        DRAWERS.contains(&part.split('.').next().unwrap_or_default())
    })
}

/// Returns the declared modules and crates with a catch-all name.
fn declared_drawers(text: &str) -> Vec<&str> {
    let declared = |line: &'_ str| {
        let line = line.trim_start();
        let after = line.split_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        DRAWERS.iter().copied().find(|drawer| {
            after.is_some_and(|(_, name)| name.trim_end_matches([';', ' ', '{']) == *drawer)
                || line == format!("name = \"{drawer}\"")
        })
    };
    text.lines().filter_map(declared).collect()
}

fn machine_names(text: &str) -> Vec<&'static str> {
    let paths = MACHINE_PATHS.iter().filter(|path| starts_in(text, path));
    paths.chain(REGISTRY_HOSTS.iter().filter(|host| text.contains(**host))).copied().collect()
}

/// Returns whether the text has a path that begins with `path`; a longer path that contains `path` does not count.
fn starts_in(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '}' | ')' | '~'))
    })
}

#[test]
fn nothing_is_named_like_a_drawer() {
    let found: Vec<PathBuf> = files().into_iter().filter(|path| drawer(path)).collect();
    let mut findings: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    for (path, text) in super::texts("rs").into_iter().chain(super::texts("toml")) {
        let names = declared_drawers(&text).into_iter();
        findings.extend(names.map(|name| format!("{}: {name}", path.display())));
    }
    tidy(&findings);
    assert!(drawer(Path::new("crates/utils/src/lib.rs")) && drawer(Path::new("a/common.rs")));
    assert!(!drawer(Path::new("crates/sched/src/commons.rs")));
    assert_eq!(
        declared_drawers("pub(crate) mod misc {\nmod util;\nname = \"helpers\"\nmod utility;"),
        ["misc", "util", "helpers"]
    );
}

#[test]
fn no_file_names_a_machine() {
    let mut findings = Vec::new();
    for path in files() {
        // Skip files that are not text, such as pictures.
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        findings.extend(machine_names(&text).iter().map(|name| format!("{}: {name}", path.display())));
    }
    tidy(&findings);
    assert_eq!(machine_names(concat!("see /ho", "me/me/notes")).len(), 1);
    assert_eq!(machine_names(concat!("pip --index", "-url https://pypi", ".org/simple")).len(), 2);
    assert_eq!(machine_names(concat!("target/wo", "rk/x and github.com/ro", "ot/y")).len(), 0);
}
