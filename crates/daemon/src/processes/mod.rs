//! The processes of a live run: commands, and worker processes that behave like the simulator's workloads.
//!
//! Each process is created before its start time and waits at a gate, so that its promise can be in force when its work
//! starts. The start times of all processes are relative to the same instant. No process forms a
//! process group of its own, so the terminal signals a command as usual. A worker ends with Tactus. A worker ignores
//! the terminal's signals, so that it reports its jobs after Ctrl-C, too.

mod captured;
mod cd_reader;
mod launcher;
mod program;
mod run_process;
mod witness;
mod work;
mod worker_report;

pub use cd_reader::CdReader;
pub use launcher::{Launcher, Output};
pub use program::{find, launch};
pub use run_process::{Outcome, RunProcess};
pub use witness::Witness;
pub use work::{Periodic, Work, work};
pub use worker_report::JOBS_MAX;
