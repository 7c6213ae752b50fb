//! [`Provenance`]: the program that measured the recorded results.

use crate::store::SOURCES;
use serde::{Deserialize, Serialize};

/// Name of the file in the directory that contains the papers.
pub const PROVENANCE: &str = "provenance.json";

/// The program that measured the recorded results.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the program.
    pub version: String,
    /// Hash of all sources that determine results ([`SOURCES`]).
    pub sources: String,
    /// Compiler that built the program, with its version.
    pub compiler: String,
    /// Target of the compiler: architecture and operating system.
    pub target: String,
    /// Hash of `Cargo.lock`, which has the versions of all dependencies.
    pub lock_file: String,
}

impl Provenance {
    /// Returns the provenance of results that this program measures.
    #[must_use]
    pub fn of_this_program() -> Provenance {
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_string(),
            sources: SOURCES.to_string(),
            compiler: env!("TACTUS_COMPILER").to_string(),
            target: env!("TACTUS_TARGET").to_string(),
            lock_file: env!("TACTUS_LOCK_FILE").to_string(),
        }
    }

    /// Formats the provenance as JSON, with a line for each key.
    ///
    /// # Panics
    /// Never panics, because texts can be converted to JSON.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts can be JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provenance_names_the_compiler_and_hashes_the_sources() {
        let it = Provenance::of_this_program();
        assert!(it.compiler.starts_with("rustc 1."), "{}", it.compiler);
        assert_eq!((it.sources.len(), it.lock_file.len()), (64, 64));
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
        assert_eq!(it.lock_file, crate::store::hash_of(lock.as_ref()).expect("it can be read"));
        assert_eq!(serde_json::from_str::<Provenance>(&it.to_text()).expect("it is JSON"), it);
    }
}
