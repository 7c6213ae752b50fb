//! Rules about pages: every link has a target, and the required files exist.

use super::{files, text, texts, tidy};
use crate::root::root;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Files that every reader may expect.
const HOUSE: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CONTRIBUTING.md",
    "SPECIFICATION.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/artifact.md",
    "docs/glossary.md",
    "docs/write-a-policy.md",
];

/// The two commands that a new user needs.
const COMMANDS: &[&str] = &["cargo run --release -- demo", "cargo xtask test"];

/// Returns the lines of a page outside its code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns a line without its `code spans`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Returns the targets of the links of a page: `[text](target)`.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        // The text of a link may be code; the target of a link is never code.
        for part in without_code(line).split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push(target.trim_matches(['<', '>']).to_string());
            }
        }
    }
    found
}

/// Returns the anchors of a page: its headings in lower case, with hyphens for spaces and without other punctuation.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let mut seen = BTreeMap::<String, usize>::new();
    headings
        .map(|heading| {
            let kept = heading.to_lowercase();
            let kept = kept.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let times = seen.entry(slug.clone()).or_default();
            *times += 1;
            if *times == 1 { slug } else { format!("{slug}-{}", *times - 1) }
        })
        .collect()
}

/// Returns the path without `..`: `folder/../file` becomes `file`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the links of a page whose targets do not exist. `page_at` returns the content of a file of the project, or
/// an empty string for a folder.
fn dead_links(path: &Path, page: &str, page_at: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut dead = Vec::new();
    for link in links(page) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = match file {
            "" => Some(page.to_string()),
            file => page_at(&plain(&path.parent().unwrap_or(Path::new("")).join(file))),
        };
        let alive = target.is_some_and(|text| anchor.is_empty() || anchors(&text).iter().any(|found| found == anchor));
        if !alive {
            dead.push(format!("{}: ({link}) leads nowhere", path.display()));
        }
    }
    dead
}

fn page_of_the_project(path: &Path) -> Option<String> {
    let full = root().join(path);
    if full.is_dir() {
        Some(String::new())
    } else {
        std::fs::read(full).ok().map(|b| String::from_utf8_lossy(&b).into())
    }
}

fn missing_commands(readme: &str) -> Vec<&'static str> {
    COMMANDS.iter().copied().filter(|command| !readme.contains(command)).collect()
}

/// Returns the decision records to which the index has no link.
fn unlinked<'a>(index: &str, records: &'a [String]) -> Vec<&'a String> {
    let linked = links(index);
    records.iter().filter(|record| !linked.contains(record)).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = texts("md");
    tidy(&pages.iter().flat_map(|(path, page)| dead_links(path, page, &page_of_the_project)).collect::<Vec<_>>());
}

#[test]
fn dead_links_are_found() {
    let other = |path: &Path| (path == Path::new("docs/a.md")).then(|| "# The first\n## The `first`\n".to_string());
    let page = "[x](a.md) [y](../docs/a.md#the-first-1) [z](b.md)\n```\n[code](nowhere.md)\n```\n`[code](nowhere.md)` [`w`](a.md#second) \
        [v](#here) [u](https://example.org)\n# Here\n";
    let dead = dead_links(Path::new("docs/page.md"), page, &other);
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert!(dead[0].contains("(b.md)") && dead[1].contains("(a.md#second)"));
}

#[test]
fn what_a_reader_expects_is_there() {
    let all = files();
    let missing = |name: &&&str| !all.iter().any(|path| path == Path::new(name));
    tidy(&HOUSE.iter().filter(missing).map(|name| format!("{name} is missing")).collect::<Vec<_>>());
    assert!(text("LICENSE-APACHE").contains("Apache License") && text("LICENSE-MIT").contains("MIT"));
    assert!(missing(&&"NO-SUCH-PAGE.md"));
}

#[test]
fn the_readme_shows_the_two_commands() {
    tidy(&missing_commands(&text("README.md")).iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(missing_commands("cargo xtask test"), ["cargo run --release -- demo"]);
}

#[test]
fn every_decision_record_is_linked() {
    let folder = Path::new("docs/decisions");
    let inside = files().into_iter().filter(|path| path.parent() == Some(folder));
    let names = inside.map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let records: Vec<String> = names.filter(|name| name != "README.md").collect();
    assert!(!records.is_empty());
    let index = text(folder.join("README.md"));
    tidy(&unlinked(&index, &records).iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(unlinked("[a](0001-a.md)", &["0001-a.md".to_string(), "0002-b.md".to_string()]), ["0002-b.md"]);
}
