//! The laws of every policy, and comparisons with oracles, kernels and recorded runs.

mod book;
mod chosen;
mod driver;
mod eevdf_kernel;
mod eevdf_wake_ups;
mod exhaustive;
mod golden;
mod laws;
mod meter;
mod oracle;
mod registry;
mod schedulability;
mod shares;
mod worlds;
