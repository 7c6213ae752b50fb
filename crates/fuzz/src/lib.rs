//! The fuzzer: a seed becomes options, the options a run of a machine under everything that can happen to it, and the
//! run is judged by the machine's own assertions, by the [`sim::Auditor`], and by being done twice.
//!
//! ```no_run
//! use fuzz::{Options, check};
//! let options = Options::draw(policies::find("edf").unwrap(), 123);
//! println!("{options}"); // All options, and the line that replays them, first.
//! if let Err(failure) = check(&options) {
//!     println!("{failure}"); // What broke, and the smallest run found in which it does.
//! }
//! ```

mod check;
mod dice;
mod driver;
mod flows;
mod levels;
mod options;
mod outcome;
mod programs;
mod wishes;
mod world;

pub use check::{check, run_metered, smoke};
pub use dice::Dice;
pub use driver::{Driver, Lateness, Meter};
pub use levels::{WorldOptions, WorldStats, check_world};
pub use options::Options;
pub use outcome::{Failure, Stats};
