//! Builds the crate again if a file of the page has been added or removed.

fn main() {
    println!("cargo:rerun-if-changed=assets");
}
