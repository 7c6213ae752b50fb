//! Tidiness, as tests: rules that no compiler checks. Each rule is a function from text to findings, and has a test
//! with an input that the rule rejects.

mod arrows;
mod cycles;
mod language;
mod names;
mod pages;
mod portable;
mod promises;
mod registry;
mod sources;

use crate::root::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the paths of all files of the project, relative to the root folder. In a repository, these are the files
/// that git tracks or would track; otherwise, all files in the folder.
fn files() -> Vec<PathBuf> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
    let git = Command::new("git").args(list).current_dir(root()).output();
    let mut files: Vec<PathBuf> = match git {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let text = String::from_utf8(output.stdout).expect("paths here are UTF-8");
            text.split_terminator('\0').map(PathBuf::from).filter(|path| root().join(path).is_file()).collect()
        }
        _ => {
            let mut found = Vec::new();
            walk(&root(), &mut found);
            found
        }
    };
    files.sort();
    files.dedup();
    assert!(files.len() > 40, "the files of the project were not found in {}", root().display());
    files
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project can be read") {
        let path = entry.expect("a folder of the project can be read").path();
        let name = path.file_name().unwrap_or_default();
        if name == "target" || name == ".git" {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path.strip_prefix(root()).expect("it lies below").to_path_buf());
        }
    }
}

/// Returns the paths and contents of the files with this extension.
fn texts(extension: &str) -> Vec<(PathBuf, String)> {
    let wanted = files().into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    wanted.map(|path| (path.clone(), text(&path))).collect()
}

/// Returns the content of one file of the project.
fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with all findings, if there are any.
fn tidy(findings: &[String]) {
    assert!(findings.is_empty(), "{} untidy:\n{}", findings.len(), findings.join("\n"));
}
