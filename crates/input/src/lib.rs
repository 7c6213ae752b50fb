//! Text input and its errors. Errors are [`problem::Problems`], each with its position in the [`source`], its reason
//! and its remedy.
//!
//! [`files`] reads files, [`text`] decodes them, and [`syntax`] parses TOML. [`duration`] and [`knobs`] read values in files and on command
//! lines.

pub mod duration;
pub mod files;
pub mod form;
pub mod knobs;
pub mod problem;
pub mod range;
pub mod source;
pub mod syntax;
pub mod table;
pub mod text;
