//! [`fingerprint`]: one hash of the sources that determine the measurements of a run.
//!
//! The build script of this crate embeds the hash. Stored results of a run stay valid if the program is built again
//! from the same sources. After a change of the sources, the run is repeated.

use std::io;
use std::path::{Path, PathBuf};

/// Files that determine the results of a run, as paths relative to the root of the workspace. A directory stands for
/// all files below it.
pub(crate) const DECIDING: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "costs",
    "crates/coordination/src",
    "crates/input/src",
    "crates/lab/src/cell.rs",
    "crates/lab/src/compute.rs",
    "crates/measure/src",
    "crates/policies/src",
    "crates/report/src",
    "crates/run/src",
    "crates/scenario/src",
    "crates/sched/src",
    "crates/sim/src",
    "crates/trace/src",
    "crates/workloads/src",
];

/// Returns the hash of the paths and contents of all files that determine results in the workspace at `root`, as 64
/// hexadecimal digits.
///
/// # Errors
/// A file or directory of [`DECIDING`] cannot be read.
pub(crate) fn fingerprint(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for path in DECIDING {
        collect(root, Path::new(path), &mut files)?;
    }
    files.sort();
    let mut hash = blake3::Hasher::new();
    for path in files {
        let bytes = std::fs::read(root.join(&path))?;
        let name = path.to_string_lossy().replace('\\', "/");
        // The length of each part precedes the part, so that a different division into name and content gives a
        // different hash.
        for part in [name.as_bytes(), &bytes] {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
    }
    Ok(hash.finalize().to_hex().to_string())
}

fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if root.join(path).is_file() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(root.join(path))? {
        collect(root, &path.join(entry?.file_name()), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn workspace() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a directory")).expect("there is room");
        std::fs::write(path, text).expect("there is room");
    }

    /// Creates a workspace with one file for each entry of [`DECIDING`], and with other files of the program.
    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("there is room");
        for path in DECIDING {
            let file = if path.contains('.') { (*path).to_string() } else { format!("{path}/lib.rs") };
            write(tree.path(), &file, "before");
        }
        write(tree.path(), "crates/cli/src/main.rs", "before");
        write(tree.path(), "crates/lab/src/page.rs", "before");
        tree
    }

    #[test]
    fn a_change_of_what_decides_results_changes_the_fingerprint() {
        let tree = tree();
        let of = || fingerprint(tree.path()).expect("it can be read");
        let mut seen = BTreeSet::from([of()]);
        for path in DECIDING {
            let file = if path.contains('.') { (*path).to_string() } else { format!("{path}/lib.rs") };
            write(tree.path(), &file, "after");
            assert!(seen.insert(of()), "{path} decides nothing");
        }
        write(tree.path(), "crates/sim/src/world/new.rs", "");
        assert!(seen.insert(of()), "a new file decides nothing");
        std::fs::rename(tree.path().join("crates/sim/src/world/new.rs"), tree.path().join("crates/sim/src/new.rs"))
            .expect("it can be renamed");
        assert!(seen.insert(of()), "the name of a file decides nothing");
    }

    #[test]
    fn a_change_of_the_program_around_it_does_not() {
        let tree = tree();
        let before = fingerprint(tree.path()).expect("it can be read");
        for path in ["crates/cli/src/main.rs", "crates/lab/src/page.rs", "README.md"] {
            write(tree.path(), path, "after");
        }
        assert_eq!(fingerprint(tree.path()).expect("it can be read"), before);
    }

    #[test]
    fn a_source_that_cannot_be_read_is_an_error() {
        let tree = tree();
        std::fs::remove_dir_all(tree.path().join("costs")).expect("it can be removed");
        assert!(fingerprint(tree.path()).is_err());
    }

    #[test]
    fn the_embedded_fingerprint_is_that_of_the_sources() {
        assert_eq!(crate::store::SOURCES, fingerprint(&workspace()).expect("it can be read"));
    }

    /// Adds `package` and all crates of this workspace that it depends on to `found`.
    fn built_from(package: &str, found: &mut BTreeSet<String>) {
        let manifest = workspace().join("crates").join(package).join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(manifest) else { return };
        if found.insert(package.to_string()) {
            let manifest: toml::Table = text.parse().expect("a manifest is TOML");
            let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
            dependencies.into_iter().flat_map(toml::Table::keys).for_each(|name| built_from(name, found));
        }
    }

    #[test]
    fn every_crate_that_reports_are_built_from_decides() {
        let mut crates = BTreeSet::new();
        built_from("report", &mut crates);
        assert!(crates.len() >= 10, "{crates:?}");
        for name in crates {
            let path = format!("crates/{name}/src");
            assert!(DECIDING.contains(&path.as_str()), "{path} decides results: add it to DECIDING");
        }
    }
}
