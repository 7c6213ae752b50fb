//! The fuzzer. A seed determines the options of a run, in which a machine receives random inputs. Three checks evaluate
//! the run: the machine's own assertions, the [`sim::Auditor`], and a second run.
//!
//! ```no_run
//! use fuzz::{Options, check};
//! let options = Options::draw(policies::find("edf").unwrap(), 123);
//! println!("{options}"); // All options, and the command line that replays them.
//! if let Err(failure) = check(&options) {
//!     println!("{failure}"); // The broken law, and the smallest run found that breaks it.
//! }
//! ```

mod check;
mod chosen;
mod dice;
mod driver;
mod flows;
mod levels;
mod options;
mod outcome;
mod programs;
mod requests;
mod world;

pub use check::{check, run_metered, smoke};
pub use chosen::chosen_policies;
pub use dice::Dice;
pub use driver::{Driver, Lateness, Meter};
pub use levels::{WorldOptions, WorldStats, check_world};
pub use options::Options;
pub use outcome::{Failure, Stats};
