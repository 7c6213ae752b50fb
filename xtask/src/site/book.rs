//! [`Book`]: the source of the book, made of the documents of the repository.

use super::links::{is_external, relative, resolved, rewrite};
use crate::root::root;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The parts of the book: title, and documents in their order. The documents of a folder follow its README.md.
const PARTS: [(&str, &[&str]); 4] = [
    (
        "Manual",
        &[
            "docs/operate.md",
            "docs/promises.md",
            "docs/sched-ext.md",
            "docs/coordination.md",
            "docs/scenarios.md",
            "docs/report.md",
            "docs/costs.md",
            "docs/python.md",
        ],
    ),
    ("Policies", &["docs/policies/README.md", "docs/write-a-policy.md"]),
    ("Papers", &["docs/experiments.md", "docs/artifact.md"]),
    (
        "Design",
        &[
            "ARCHITECTURE.md",
            "SPECIFICATION.md",
            "docs/glossary.md",
            "docs/decisions/README.md",
            "docs/dependencies.md",
            "STYLE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ],
    ),
];
/// The part of the results of the papers.
const PAPERS: &str = "Papers";
/// The part of the documents that no part names.
const MANUAL: &str = "Manual";
/// The scenario of the pictures of the policies, as the playground names it.
const SCENARIO: &str = "parallel";
/// Page of the playground. The scripts are files beside the page.
const PLAYGROUND: &str = "# Playground\n\nChange the scenario or the policies: the timelines follow. The simulator runs in this page, \
    with the results of `tactus sim`.\n\n\
    <div id=\"playground-app\"><p>The playground needs JavaScript and WebAssembly.</p></div>\n\
    <link rel=\"stylesheet\" href=\"playground/playground.css\">\n\
    <script src=\"playground/simulator.js\" defer></script>\n\
    <script src=\"playground/playground.js\" defer></script>\n";
/// Style of the book beyond mdBook's own.
const STYLE: &str = include_str!("site.css");
/// Script of the book beyond mdBook's own.
const SCRIPT: &str = include_str!("keyboard.js");

/// A chapter of the book.
struct Chapter {
    /// The document, relative to the root folder.
    document: PathBuf,
    /// Depth in the table of contents.
    depth: usize,
    text: String,
}

/// The documents of the repository as chapters.
pub(super) struct Book {
    parts: Vec<(&'static str, Vec<Chapter>)>,
    /// The figures of the papers, and a page of all claims.
    figures: PathBuf,
}

impl Book {
    /// Reads all documents. `figures` has the output of `tactus lab report`.
    ///
    /// # Errors
    /// A document cannot be read.
    pub(super) fn read(figures: &Path) -> Result<Book> {
        let mut parts: Vec<(&str, Vec<(PathBuf, usize)>)> = vec![("", vec![(PathBuf::from("README.md"), 0)])];
        for (title, documents) in PARTS {
            let mut all = Vec::new();
            for document in documents.iter().map(PathBuf::from) {
                let folder = document.parent().filter(|_| document.ends_with("README.md")).map(Path::to_path_buf);
                all.push((document, 0));
                let beside = folder.map(|folder| markdown(&folder)).transpose()?.unwrap_or_default();
                all.extend(beside.into_iter().filter(|path| !path.ends_with("README.md")).map(|path| (path, 1)));
            }
            if title == PAPERS {
                all.extend(results()?.into_iter().map(|path| (path, 0)));
            }
            parts.push((title, all));
        }
        let named: BTreeSet<PathBuf> = parts.iter().flat_map(|(_, all)| all).map(|(path, _)| path.clone()).collect();
        let others = markdown(Path::new("docs"))?.into_iter().filter(|path| !named.contains(path));
        let manual = parts.iter_mut().find(|(title, _)| *title == MANUAL).context("the book has a manual")?;
        manual.1.extend(others.map(|path| (path, 0)));
        let chapters = |all: Vec<(PathBuf, usize)>| {
            let all = all.into_iter();
            let read = all.map(|(document, depth)| {
                let text = std::fs::read_to_string(root().join(&document));
                let text = text.with_context(|| format!("cannot read {}", document.display()))?;
                Ok(Chapter { document, depth, text })
            });
            read.collect::<Result<Vec<_>>>()
        };
        let parts = parts.into_iter().map(|(title, all)| Ok((title, chapters(all)?))).collect::<Result<_>>()?;
        Ok(Book { parts, figures: figures.to_path_buf() })
    }

    /// Writes the source of the book to `folder`: `book.toml`, the summary, the chapters and their pictures.
    ///
    /// # Errors
    /// A file cannot be written, or a picture cannot be read.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let source = folder.join("src");
        write(&folder.join("book.toml"), &configuration())?;
        write(&folder.join("site.css"), STYLE)?;
        write(&folder.join("keyboard.js"), SCRIPT)?;
        write(&source.join("SUMMARY.md"), &self.summary())?;
        write(&source.join("playground.md"), PLAYGROUND)?;
        copy(&self.figures.join("report.html"), &source.join("papers/claims.html"))?;
        let claims = std::fs::read_to_string(self.figures.join("report.html"))?;
        let chapters = || self.parts.iter().flat_map(|(_, chapters)| chapters);
        let places: BTreeMap<&Path, PathBuf> =
            chapters().map(|chapter| (chapter.document.as_path(), place(&chapter.document))).collect();
        for Chapter { document, text, .. } in chapters() {
            let place = place(document);
            let mut pictures = BTreeSet::new();
            let mut page = rewrite(text, |target| in_book(document, target, &places, &mut pictures));
            for picture in pictures {
                copy(&root().join(&picture), &source.join(&picture))?;
            }
            if document.ends_with("RESULT.md") {
                page.push_str(&self.pictures_of(document, &claims, &source)?);
            }
            if document.parent() == Some(Path::new("docs/policies")) && !document.ends_with("README.md") {
                page = with_playground(&page, document);
            }
            write(&source.join(place), &page)?;
        }
        Ok(())
    }

    /// Returns the table of contents.
    fn summary(&self) -> String {
        let mut summary = "# Summary\n\n".to_string();
        for (title, chapters) in &self.parts {
            if !title.is_empty() {
                summary.push_str(&format!("\n# {title}\n\n"));
            }
            for Chapter { document, depth, text } in chapters {
                let indent = "  ".repeat(*depth);
                let bullet = if title.is_empty() { "" } else { "- " };
                let (name, place) = (heading(text), place(document));
                summary.push_str(&format!("{indent}{bullet}[{name}]({})\n", place.display()));
            }
            if title.is_empty() {
                summary.push_str("[Playground](playground.md)\n");
            }
        }
        summary
    }

    /// Copies the figures of a paper beside its results. Returns the section that shows the figures.
    fn pictures_of(&self, document: &Path, claims: &str, source: &Path) -> Result<String> {
        let paper = document.parent().context("results lie in the folder of a paper")?;
        let key = paper.file_name().unwrap_or_default().to_string_lossy();
        let folder = self.figures.join("figures").join(&*key);
        let mut section = "\n## Figures\n\n[All claims with their figures](../claims.html) are one page.\n".to_string();
        for (name, caption) in captions(claims, &key) {
            let file = format!("{name}.svg");
            let found = [folder.join(&file), folder.join("live").join(&file)].into_iter().find(|path| path.is_file());
            let Some(found) = found else { continue };
            copy(&found, &source.join(paper).join("figures").join(&file))?;
            write!(section, "\n![{caption}](figures/{file})\n\n*{caption}*\n")?;
        }
        Ok(section)
    }
}

/// Returns the place of a document in the book.
fn place(document: &Path) -> PathBuf {
    if document.ends_with("README.md") { document.with_file_name("index.md") } else { document.to_path_buf() }
}

/// Returns the target of a link of the document in the book: another chapter, a picture, or a file of the repository.
fn in_book(
    document: &Path,
    target: &str,
    places: &BTreeMap<&Path, PathBuf>,
    pictures: &mut BTreeSet<PathBuf>,
) -> String {
    if is_external(target) || target.starts_with('#') {
        return target.to_string();
    }
    let (file, anchor) = target.split_once('#').map_or((target, String::new()), |(file, at)| (file, format!("#{at}")));
    let path = resolved(document, file);
    if let Some(there) = places.get(path.as_path()) {
        return relative(&place(document), there) + &anchor;
    }
    if path.extension().is_some_and(|ending| ending == "svg" || ending == "png") {
        let link = relative(&place(document), &path);
        pictures.insert(path);
        return link;
    }
    let kind = if root().join(&path).is_dir() { "tree" } else { "blob" };
    format!("{}/{kind}/main/{}{anchor}", env!("CARGO_PKG_REPOSITORY"), path.display())
}

/// Returns the page of a policy with a link that opens its scenario in the playground, below the picture.
fn with_playground(page: &str, document: &Path) -> String {
    let policy = document.file_stem().unwrap_or_default().to_string_lossy();
    let link = format!(
        "[Change this scenario in the playground](../../playground.html#scenario={SCENARIO}&policies={policy})."
    );
    match page.split_once("\nThe first ") {
        Some((before, after)) if after.contains("\n\n") => {
            let (line, rest) = after.split_once("\n\n").unwrap_or((after, ""));
            format!("{before}\nThe first {line} {link}\n\n{rest}")
        }
        _ => format!("{page}\n{link}\n"),
    }
}

/// Returns the first heading of a page, without marks.
fn heading(page: &str) -> String {
    let line = page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Untitled");
    line.replace(['`', '*', '[', ']'], "")
}

/// Returns the names of the figures of a paper and their captions, in the order of the page of claims.
fn captions(claims: &str, key: &str) -> Vec<(String, String)> {
    let start = format!("<figure id=\"{key}-");
    let figures = claims.split(start.as_str()).skip(1).filter_map(|figure| {
        let (name, rest) = figure.split_once('"')?;
        let caption = rest.split_once("<strong>")?.1.split_once("</strong>")?.0;
        let caption = caption.replace("&#x27;", "'").replace("&quot;", "\"").replace("&amp;", "&");
        Some((name.to_string(), caption.trim_end_matches('.').replace(['*', '_', '[', ']'], " ")))
    });
    figures.collect()
}

/// Returns the settings of mdBook.
fn configuration() -> String {
    format!(
        r#"[book]
title = "Tactus"
description = "CPU time for virtual machines: scheduling policies, a simulator and a daemon"
language = "en"
src = "src"

[build]
create-missing = false
use-default-preprocessors = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
smart-punctuation = false
git-repository-url = "{}"
additional-css = ["site.css"]
additional-js = ["keyboard.js"]
no-section-label = true
input-404 = ""

[output.html.print]
enable = false

[output.html.fold]
enable = true

[output.html.playground]
# A program of Rust would be sent to another host.
runnable = false
"#,
        env!("CARGO_PKG_REPOSITORY")
    )
}

/// Returns the documents of a folder, in order.
fn markdown(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder))? {
        let path = folder.join(entry?.file_name());
        if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the results of all papers, in order.
fn results() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("papers"))? {
        let path = Path::new("papers").join(entry?.file_name()).join("RESULT.md");
        if root().join(&path).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.parent().unwrap_or(Path::new("")))?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_chapters_pictures_or_the_repository() {
        let places = BTreeMap::from([(Path::new("docs/policies/README.md"), PathBuf::from("docs/policies/index.md"))]);
        let mut pictures = BTreeSet::new();
        let mut link = |target| in_book(Path::new("docs/report.md"), target, &places, &mut pictures);
        assert_eq!(link("policies/README.md#a"), "policies/index.md#a");
        assert_eq!(link("#here"), "#here");
        assert_eq!(link("demo.svg"), "demo.svg");
        let repository = env!("CARGO_PKG_REPOSITORY");
        assert_eq!(link("../crates/sched"), format!("{repository}/tree/main/crates/sched"));
        assert_eq!(link("../Cargo.toml#L1"), format!("{repository}/blob/main/Cargo.toml#L1"));
        assert_eq!(pictures.into_iter().collect::<Vec<_>>(), [PathBuf::from("docs/demo.svg")]);
    }

    #[test]
    fn every_document_is_a_chapter() {
        let book = Book::read(Path::new("")).unwrap();
        let summary = book.summary();
        for folder in ["docs", "docs/policies", "docs/decisions"] {
            for document in markdown(Path::new(folder)).unwrap() {
                let link = format!("]({})", place(&document).display());
                assert_eq!(summary.matches(&link).count(), 1, "{link}");
            }
        }
        assert!(summary.contains("[Playground](playground.md)") && summary.contains("(papers/poris/RESULT.md)"));
    }

    #[test]
    fn a_policy_opens_its_picture_in_the_playground() {
        let page = "# edf\n\n![x](edf.svg)\n\nThe first 120ms of x under `edf`.\n\nEssay.\n";
        let linked = with_playground(page, Path::new("docs/policies/edf.md"));
        assert!(
            linked.contains("under `edf`. [Change this") && linked.ends_with("&policies=edf).\n\nEssay.\n"),
            "{linked}"
        );
    }

    #[test]
    fn a_figure_has_its_caption() {
        let claims = "<figure id=\"poris-fig-6\">…<p><strong>Fig 6: Waits.</strong> Of …</figure><figure id=\"bmq-a\">";
        assert_eq!(captions(claims, "poris"), [("fig-6".to_string(), "Fig 6: Waits".to_string())]);
    }
}
