//! CITATION.cff: a check of the file by cffconvert, the validator of the format.

use crate::downloads;
use crate::environment::Environment;
use crate::root::root;
use crate::step::{Failure, Outcome, succeeds};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Environment with the validator. Its dependencies import `pkg_resources`, which setuptools 81 is the first to lack.
pub(crate) const TOOL: Environment = Environment {
    folder: "target/cffconvert-venv",
    packages: &["cffconvert==2.0.0", "setuptools<81"],
    check: "import cffconvert.cli",
};

/// A line without which the file is invalid.
const REQUIRED: &str = "title: Tactus\n";

/// Validates CITATION.cff, and checks that the validator refuses the file without its title.
pub(crate) fn check() -> Result<Outcome> {
    downloads::wait();
    let python = match TOOL.python() {
        Ok(python) => python,
        Err(reason) => return Ok(Outcome::Skipped(format!("no cffconvert: {reason}"))),
    };
    let valid = succeeds(&mut validator(&python, Path::new("CITATION.cff")))?;
    if !matches!(valid, Outcome::Passed) {
        return Ok(valid);
    }
    let untitled = root().join("target/untitled.cff");
    std::fs::write(&untitled, std::fs::read_to_string(root().join("CITATION.cff"))?.replacen(REQUIRED, "", 1))?;
    let mut command = validator(&python, &untitled);
    Ok(match succeeds(&mut command)? {
        Outcome::Passed => {
            let text = "cffconvert accepts a file without a title, so its result is no evidence".to_string();
            Outcome::Failed(Failure { text, again: crate::root::typed(&command) })
        }
        _ => Outcome::Passed,
    })
}

fn validator(python: &Path, file: &Path) -> Command {
    let mut command = Command::new(python.with_file_name("cffconvert"));
    command.args(["--validate", "--infile"]).arg(file).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the differences between a citation and the project.
    fn differences(citation: &str, manifest: &str, sources: &[String]) -> Vec<String> {
        let manifest: toml::Table = manifest.parse().expect("Cargo.toml is TOML");
        let package = &manifest["workspace"]["package"];
        let of = |key: &str| package[key].as_str().unwrap_or_default().to_string();
        let mut wanted = vec![REQUIRED.trim_end().to_string(), format!("version: {}", of("version"))];
        wanted.push(format!("repository-code: \"{}\"", of("repository")));
        wanted.extend(of("license").split(" OR ").map(|licence| format!("  - {licence}")));
        let mut found: Vec<String> =
            wanted.into_iter().filter(|wanted| !citation.lines().any(|line| line == wanted)).collect();
        let titles: Vec<&str> = citation.lines().filter_map(|line| line.strip_prefix("    title: ")).collect();
        let is_named = |title: &&str| sources.iter().any(|source| source.contains(title.trim_matches('"')));
        found.extend(titles.iter().filter(|title| !is_named(title)).map(|title| format!("{title} is no source")));
        if titles.len() != sources.len() {
            found.push(format!("{} references for {} papers", titles.len(), sources.len()));
        }
        found
    }

    fn text(path: &str) -> String {
        std::fs::read_to_string(root().join(path)).expect("it can be read")
    }

    #[test]
    fn the_citation_has_the_version_the_licences_and_every_paper() {
        let papers = std::fs::read_dir(root().join("papers")).expect("it can be read");
        let claims = papers.map(|entry| entry.expect("it can be read").path().join("claims.toml"));
        let sources: Vec<String> = claims
            .filter_map(|path| std::fs::read_to_string(path).ok()?.lines().next().map(str::to_string))
            .filter(|line| line.starts_with("source = "))
            .collect();
        assert!(sources.len() >= 5, "{sources:?}");
        let (citation, manifest) = (text("CITATION.cff"), text("Cargo.toml"));
        assert_eq!(differences(&citation, &manifest, &sources), [""; 0]);
        let other = manifest.replace("license = \"MIT OR", "license = \"Zlib OR");
        assert_eq!(differences(&citation, &other, &sources), ["  - Zlib"]);
        assert_eq!(differences(&citation, &manifest, &sources[1..]).len(), 2);
    }
}
