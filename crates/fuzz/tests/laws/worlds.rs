//! The laws of worlds, checked in random worlds.

use fuzz::{WorldOptions, check_world};

#[test]
fn worlds_by_chance_keep_every_law() {
    // The last two seeds once failed. In one run, a task left between two checks of boosts; in the other, a task left
    // at the instant at which its vCPU both received and lost its CPU.
    for seed in (0..20).chain([1050, 1_795_286_254]) {
        let options = WorldOptions::draw(seed);
        println!("{options}");
        let stats = check_world(options).unwrap_or_else(|what| panic!("{what}"));
        assert!(stats.inputs > 0, "something happens in seed {seed}");
    }
}
