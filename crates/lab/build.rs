//! Embeds the fingerprint of the sources that determine the measurements of a run, for `Store`, and the compiler and the
//! lock file, for `Provenance`.

#[path = "src/fingerprint.rs"]
mod fingerprint;

use std::path::Path;
use std::process::Command;

fn main() {
    // The path at run time: a target directory may have been used by another clone.
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    for path in fingerprint::DECIDING {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let fingerprint = fingerprint::fingerprint(&root).expect("the sources of the workspace can be read");
    println!("cargo::rustc-env=TACTUS_SOURCES={fingerprint}");
    let compiler = std::env::var("RUSTC").expect("cargo sets it");
    let version = Command::new(compiler).arg("--version").output().expect("the compiler runs").stdout;
    println!("cargo::rustc-env=TACTUS_COMPILER={}", String::from_utf8_lossy(&version).trim());
    println!("cargo::rustc-env=TACTUS_TARGET={}", std::env::var("TARGET").expect("cargo sets it"));
    let lock = std::fs::read(root.join("Cargo.lock")).expect("the lock file can be read");
    println!("cargo::rustc-env=TACTUS_LOCK_FILE={}", blake3::hash(&lock).to_hex());
}
