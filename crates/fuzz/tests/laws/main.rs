//! The laws of every policy, and the completeness of the registry.

mod driver;
mod exhaustive;
mod random;
mod registry;
mod worlds;
