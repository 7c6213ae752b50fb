//! Checks that the manual's pages about policies match the descriptors and essays. `UPDATE_EXPECT=1` rewrites the
//! pages.

use expect_test::expect_file;
use report::book;
use scenario::Scenario;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

#[test]
fn every_policy_has_its_page() {
    let pages = root().join("docs/policies");
    let scenario = Scenario::from_bytes(
        "parallel.toml",
        std::fs::read(root().join("scenarios/parallel.toml")).expect("it is there"),
    )
    .expect("it is right");
    let mut files = BTreeSet::from(["README.md".to_string()]);
    expect_file![pages.join("README.md")].assert_eq(&book::index(policies::ALL));
    for policy in policies::ALL {
        let (page, picture) = (format!("{}.md", policy.name), format!("{}.svg", policy.name));
        expect_file![pages.join(&page)].assert_eq(&book::page(policy, &scenario.name));
        let drawn = book::picture(policy, &scenario).unwrap_or_else(|problems| panic!("{}: {problems}", policy.name));
        expect_file![pages.join(&picture)].assert_eq(&drawn);
        files.extend([page, picture]);
    }
    let there = std::fs::read_dir(&pages).expect("it is there");
    let there: BTreeSet<String> =
        there.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(there, files, "a page of no policy is dead");
}

/// The page of a policy has its essay, guarantees, knobs and sources.
#[test]
fn a_page_has_essay_promises_and_knobs() {
    let credit = policies::find("credit").expect("it is registered");
    let page = book::page(credit, "a scenario");
    for part in ["# credit\n", "| caps |", "| `slice` | 30ms |", "## Sources", "10 credits per millisecond"] {
        assert!(page.contains(part), "{part} is missing in:\n{page}");
    }
}
