//! A simulated host behind the interface of the service.
//!
//! ```text
//!   clients ──REST, events──▶ service ──requests──▶ SimulatedHost ──step, request──▶ run::Session
//!                                        ▲             │   ▲                              │
//!                                        └───events────┘   └── Recorder ◀────events───────┘
//! ```
//!
//! A [`SimulatedHost`] is a [`ManagedHost`](service::ManagedHost): a scenario that runs in the simulator, whose time passes
//! with the real time. Clients list, observe and change its VMs as those of a real host. A change takes the way of the
//! scenario's own changes, so the policy of the scenario admits or refuses it.

mod changes;
mod host;
mod managed;
mod pace;
mod periods;
mod recorder;
mod room;
mod stretches;
#[cfg(test)]
mod tests;
mod views;
mod vms;

pub use host::SimulatedHost;
pub use pace::Speed;
