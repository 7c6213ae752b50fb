//! The check of the site: it is built, all links lead somewhere, and Chromium opens the book and the playground.

use super::{PACKAGE, build, figures};
use crate::component;
use crate::downloads;
use crate::program::TACTUS;
use crate::root::root;
use crate::step::{Failure, NODE_TEST, Outcome, counted_by_node};
use crate::wasm::{self, Loader, Profile};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Claims whose figures are drawn for the check. The figures of all claims take a minute in this profile.
const CLAIMS: [&str; 2] = ["B1", "D3"];
/// Tests of the site in Chromium.
const TESTS: [&str; 3] = ["tests/site/book.test.mjs", "tests/site/playground.test.mjs", "tests/site/served.test.mjs"];

/// Builds the site with a few figures, and opens it in Chromium.
pub(crate) fn check() -> Result<Outcome> {
    let mdbook = match programs() {
        Ok(mdbook) => mdbook,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    wasm::build(Loader::Page, Profile::WebTest)?;
    if let Err(error) = figures(&TACTUS.build()?, &CLAIMS).and_then(|figures| build(&mdbook, &figures)) {
        return Ok(Outcome::Failed(Failure {
            text: format!("{error:#}"),
            again: "cargo xtask site --check".to_string(),
        }));
    }
    let mut tests = Command::new("node");
    tests.args(NODE_TEST).arg("--test-concurrency=3").args(TESTS).current_dir(root().join(PACKAGE));
    counted_by_node(&mut tests)
}

/// Installs what the check needs besides the module. Returns the path of mdBook.
fn programs() -> Result<PathBuf, String> {
    downloads::wait();
    wasm::programs()?;
    component::packages_of_web()?;
    component::chromium()?;
    component::mdbook()
}

/// Installs wasm-bindgen, mdBook and Chromium, while the first steps compile.
pub(crate) fn download() {
    let _ = wasm::bindgen();
    let _ = component::mdbook().and_then(|_| component::chromium());
    let _ = component::node().and_then(|()| component::packages_of_web());
}
