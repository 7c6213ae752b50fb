//! Embeds the fingerprint of the sources that determine the measurements of a run, for `Store`.

#[path = "src/fingerprint.rs"]
mod fingerprint;

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in fingerprint::DECIDING {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let fingerprint = fingerprint::fingerprint(&root).expect("the sources of the workspace can be read");
    println!("cargo::rustc-env=TACTUS_SOURCES={fingerprint}");
}
