//! The machine under a driver that decides everything: what holds in a small world, and what a decision may not do.

mod driver;
mod exhaustive;
mod no_alloc;
