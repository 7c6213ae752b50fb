//! Text that comes from outside, and what is wrong in it: whatever is wrong comes out as [`problem::Problems`], each with its place in the
//! [`source`], the reason and what would be right.
//!
//! [`text`] reads files, [`duration`] and [`knobs`] read what is written in them and on command lines.

pub mod duration;
pub mod files;
pub mod form;
pub mod knobs;
pub mod problem;
pub mod range;
pub mod source;
pub mod table;
pub mod text;
