//! The driver for sched_ext, the kernel's class for schedulers in BPF: `bpf/bridge.bpf.c` tells the user side what happens to
//! threads, and a policy of Tactus decides what each CPU runs.
//!
//! The programs in BPF need the feature `bpf`.

pub mod bmq;
pub mod bridge;
#[cfg(feature = "bpf")]
pub mod canary;
pub mod interface;
#[cfg(feature = "bpf")]
pub mod kernel;
#[cfg(feature = "bpf")]
pub mod native;
#[cfg(feature = "bpf")]
mod operations;
pub mod promised;
#[cfg(feature = "bpf")]
pub mod recorder;
pub mod recording;
pub mod replay;
#[cfg(feature = "bpf")]
mod scheduler;
pub mod siblings;

#[cfg(feature = "bpf")]
pub use scheduler::{Basis, Error, wait_for_removal};
