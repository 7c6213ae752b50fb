//! Puts policies and simulator together: [`scenario`]s, [`taskset`]s and [`knobs`] go in, [`report`]s come out of [`run`].
//!
//! Whatever is wrong in an input comes out as [`problem::Problems`], each with its place in the [`source`], the
//! reason and what would be right.

mod audit;
pub mod book;
mod choose;
pub mod costs;
mod duration;
pub mod fuzz;
#[cfg(doctest)]
mod guide;
pub mod input;
pub mod jobs;
pub mod knobs;
pub mod live;
pub mod manager;
pub mod metrics;
pub mod network;
pub mod parallel;
pub mod problem;
pub mod report;
pub mod rtapp;
mod run;
mod samples;
pub mod scenario;
pub mod source;
pub mod statistics;
mod suits;
pub mod taskset;
pub mod workloads;

pub use choose::{Choice, Placement, choose, choose_for_guests, choose_for_tasks, policy};
pub use duration::{length, moment};
pub use run::{Grant, Run, run};
