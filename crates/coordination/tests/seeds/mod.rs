//! The seeds of a random test. The environment variables `TACTUS_HINT_SEED` and `TACTUS_HINT_SEEDS` set the first seed and the number of
//! seeds.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("the variable is a number"))
}

/// Runs `check` with each seed. `test`: the file of the test, for the line that repeats a failure.
pub(crate) fn each(test: &str, count: u64, check: impl Fn(u64, &mut ChaCha8Rng)) {
    let (first, count) = (number("TACTUS_HINT_SEED", 1), number("TACTUS_HINT_SEEDS", count));
    for seed in first..first + count {
        let tried = catch_unwind(AssertUnwindSafe(|| check(seed, &mut ChaCha8Rng::seed_from_u64(seed))));
        let again = format!("TACTUS_HINT_SEED={seed} TACTUS_HINT_SEEDS=1 cargo test -p coordination --test {test}");
        assert!(tried.is_ok(), "seed {seed}; again: {again}");
    }
}
