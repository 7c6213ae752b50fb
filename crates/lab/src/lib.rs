//! Puts policies and simulator together. So far its input side: [`scenario`]s and [`taskset`]s, and [`knobs`].
//!
//! Whatever is wrong in an input comes out as [`problem::Problems`], each with its place in the [`source`], the
//! reason and what would be right.

mod duration;
pub mod fuzz;
pub mod input;
pub mod knobs;
pub mod problem;
pub mod scenario;
pub mod source;
pub mod taskset;
