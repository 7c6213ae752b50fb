//! Worlds of two levels: what a guest gets on a host that does not know it.

mod bare_metal;
mod town;
mod traces;
