//! Tests of the turns of an agent, on a simulated host.

mod changes;
mod gangs;
mod scene;
mod siblings;
