//! Tests of [`sim::World`]: guests on hosts, and the network between machines.

mod alone;
mod bare_metal;
mod budgets;
mod clocks;
mod common_objects;
mod coordination;
mod edges;
mod gangs;
mod levels;
mod measured;
mod memory;
mod network;
mod reviews;
mod skew;
mod town;
mod traces;
