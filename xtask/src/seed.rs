//! The seed of the random checks in `cargo xtask test`.
//!
//! The seed follows from the sources of the last commit. A second run of the checks on the same commit therefore tries
//! the same inputs, and a new commit tries new inputs. `cargo xtask fuzz` and `cargo xtask vm-test` use a new seed in
//! each call.

use crate::root::root;
use std::process::Command;

/// Seed of a source tree without a git repository.
const WITHOUT_GIT: u64 = 1;

/// Environment variable with the seed of the faults in tests of live runs, and of the part of the exhaustive checks that a
/// commit has.
pub(crate) const FAULT_SEED: &str = "TACTUS_FAULT_SEED";

/// Returns the first 32 bits of the hash of the last commit's source tree.
pub(crate) fn of_sources() -> u64 {
    let hash = Command::new("git").args(["rev-parse", "HEAD^{tree}"]).current_dir(root()).output();
    hash.ok().and_then(|output| first_bits(&String::from_utf8_lossy(&output.stdout))).unwrap_or(WITHOUT_GIT)
}

fn first_bits(hash: &str) -> Option<u64> {
    u64::from_str_radix(hash.get(..8)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_one_seed() {
        assert_eq!(first_bits("00c0ffee5c02396be3dac854860fe7fade0807c8\n"), Some(0x00c0_ffee));
        assert_eq!((first_bits(""), first_bits("not a hash")), (None, None));
        assert_eq!(of_sources(), of_sources());
    }
}
