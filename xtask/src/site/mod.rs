//! `cargo xtask site`: builds the site: the documentation as a book of mdBook, and the playground.
//!
//! The site works from a folder (`file://`), without a server and without requests to other hosts.

mod book;
mod check;
mod links;
mod local_links;

use crate::component;
use crate::program::TACTUS;
use crate::root::{done, root};
use crate::step::{Step, run_all};
use crate::wasm::{self, Loader, Profile};
use anyhow::{Context, Result, ensure};
use book::Book;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(crate) use check::{check, download};

/// Folder of the package of the playground.
const PACKAGE: &str = "web";
/// Folder of the scripts of the playground, which `playground.config.ts` names, too.
const PLAYGROUND: &str = "target/playground";
/// Folder of the source of the book.
const SOURCE: &str = "target/site-src";
/// Name of the check.
pub(crate) const CHECK: &str = "the book and its playground in Chromium";
/// Folder of the site.
const SITE: &str = "target/site";

/// Options of `cargo xtask site`.
#[derive(Args, Debug)]
pub(crate) struct Site {
    /// Only check the site, as `cargo xtask test` does: build it with a few figures, and open it in Chromium.
    #[arg(long, conflicts_with = "open")]
    check: bool,
    /// Show the site in the browser.
    #[arg(long)]
    open: bool,
    /// Profile of cargo in which `tactus` is built, which draws the figures of the papers.
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
}

/// Builds the site in target/site.
pub(crate) fn run(site: &Site) -> Result<ExitCode> {
    if site.check {
        return run_all(&[Step::new(CHECK, check)]);
    }
    component::node().and_then(|()| component::packages_of_web()).map_err(anyhow::Error::msg)?;
    let mdbook = component::mdbook().map_err(anyhow::Error::msg)?;
    let figures = figures(&TACTUS.build_in(&site.profile)?, &[])?;
    wasm::build(Loader::Page, Profile::Web)?;
    build(&mdbook, &figures)?;
    let page = root().join(SITE).join("index.html");
    let count = pages(&root().join(SITE))?.iter().filter(|(_, text)| text.is_some()).count();
    println!("{SITE}/index.html: {count} pages");
    if site.open {
        done(Command::new("xdg-open").arg(page))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws the figures of the papers for these claims; for all claims if the list is empty. Returns the folder with the
/// figures and a page of the claims.
fn figures(tactus: &Path, claims: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target/site-figures");
    remove(&folder)?;
    let mut report = Command::new(tactus);
    report.args(["lab", "report"]).args(claims).arg("--results").arg(&folder).current_dir(root());
    let output = report.output().context("cannot run tactus")?;
    ensure!(output.status.success(), "tactus lab report failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(folder)
}

/// Builds the site from the documents, the figures in `figures`, and the playground, whose module is built already.
fn build(mdbook: &Path, figures: &Path) -> Result<()> {
    done(Command::new("npm").args(["run", "--silent", "build-playground"]).current_dir(root().join(PACKAGE)))?;
    let (source, site) = (root().join(SOURCE), root().join(SITE));
    remove(&source)?;
    remove(&site)?;
    Book::read(figures)?.write(&source)?;
    copy_files(&root().join(PLAYGROUND), &source.join("src/playground"))?;
    let mut book = Command::new(mdbook);
    book.arg("build").arg("--dest-dir").arg(&site).arg(&source).env("MDBOOK_LOG", "warn").env("RUST_LOG", "warn");
    done(&mut book)?;
    let dead = local_links::dead(&pages(&site)?);
    ensure!(dead.is_empty(), "{} links lead nowhere:\n{}", dead.len(), dead.join("\n"));
    Ok(())
}

/// Returns the pages of the site: their paths relative to the site, and their contents.
fn pages(site: &Path) -> Result<Vec<(PathBuf, Option<String>)>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(site.join(&folder))? {
            let path = folder.join(entry?.file_name());
            if site.join(&path).is_dir() {
                folders.push(path);
            } else {
                let is_page = path.extension().is_some_and(|ending| ending == "html");
                let text = is_page.then(|| std::fs::read_to_string(site.join(&path))).transpose()?;
                found.push((path, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies the files of a folder, without its folders.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Removes a folder of an earlier build.
fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
