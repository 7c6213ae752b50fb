//! Tests of the turns of an agent, on a simulated host.

mod changes;
mod gangs;
mod parking;
mod scene;
mod siblings;
