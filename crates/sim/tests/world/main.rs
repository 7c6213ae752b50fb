//! Tests of [`sim::World`]: guests on hosts, and the network between machines.

mod adaptive_waits;
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
mod timers;
mod town;
mod traces;
