//! A rule about cycles: no two files of a crate use each other, directly or through other files. The same holds for
//! crates.
//!
//! A file uses another file if it imports or mentions a type, trait, function or constant that the other file defines.
//! The rule follows a path through re-exports and globs to the file with the definition. A declaration (`mod a;`) and a
//! re-export (`pub use a::B;`) do not count as uses, so that a folder can declare and export its content. A parent that
//! mentions `B` in its own code uses `B`. Tests may use any file, because tests check internals. Method calls are
//! ignored, because the tokens do not show the type of the receiver.

mod graph;
mod modules;

use super::{files, text, tidy};
use crate::root::root;
pub(crate) use graph::Graph;
use modules::Modules;
use std::path::{Path, PathBuf};

/// Edges that may be part of a cycle, in `sched` only: from, to, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// Returns the root files of the workspace's crates: libraries and programs.
fn roots() -> Vec<PathBuf> {
    let is_root = |path: &PathBuf| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    files().into_iter().filter(is_root).collect()
}

/// Returns the cycles of a graph without the allowed edges, and the allowed edges that no longer exist.
fn problems(mut graph: Graph, allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let gone = allowed.iter().filter(|(from, to, _)| !graph.remove(from, to));
    let mut findings: Vec<String> =
        gone.map(|(from, to, _)| format!("{from} does not use {to}: take it off the list")).collect();
    findings.extend(graph.cycles());
    findings
}

#[test]
fn no_two_files_of_a_crate_use_each_other() {
    let text_of = |path: &Path| root().join(path).is_file().then(|| text(path));
    let mut findings = Vec::new();
    for path in roots() {
        let folder = path.parent().expect("a root file lies in src");
        let allowed: Vec<_> =
            ALLOWED.iter().filter(|(from, _, _)| Path::new(from).starts_with(folder)).copied().collect();
        findings.extend(problems(Modules::read(&path, &text_of).graph(), &allowed));
    }
    tidy(&findings);
}

#[test]
fn an_allowed_edge_is_no_finding_unless_it_is_gone() {
    let mut graph = Graph::default();
    graph.add("a.rs", "b.rs", "B");
    graph.add("b.rs", "a.rs", "A");
    assert_eq!(problems(graph.clone(), &[]), ["a.rs → b.rs (B), b.rs → a.rs (A)"]);
    assert_eq!(problems(graph.clone(), &[("a.rs", "b.rs", "why")]), [""; 0]);
    let found = problems(graph, &[("a.rs", "b.rs", "why"), ("b.rs", "c.rs", "why")]);
    assert_eq!(found, ["b.rs does not use c.rs: take it off the list"]);
}

#[test]
fn only_sched_has_allowed_edges_and_each_has_a_reason() {
    let wrong = |list: &[(&str, &str, &str)]| {
        list.iter().filter(|(from, _, why)| !from.starts_with("crates/sched/") || why.is_empty()).count()
    };
    assert_eq!(wrong(ALLOWED), 0);
    assert_eq!(wrong(&[("crates/sim/src/a.rs", "b", "why"), ("crates/sched/src/a.rs", "b", "")]), 2);
}
