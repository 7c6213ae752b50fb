//! The driver for real hosts.
//!
//! [`host_profile`] describes a machine: the CPU time that admission control may grant, and the properties that
//! endanger promises. [`doctor`] tries every enforcement mechanism on child processes. [`interfering`] finds threads of other programs
//! that run above the clients. [`lateness`] measures the delay
//! of timer wake-ups. [`processes`] starts the processes of a live run. [`kernel`] is the interface to a kernel;
//! [`linux`] implements this interface for this host, and crate `simhost` in virtual time. [`boosts`] boosts vCPUs by hints of their guests.

mod affinity;
pub mod boosts;
pub mod directory;
pub mod dispatch;
pub mod doctor;
pub mod guardian;
pub mod host_profile;
pub mod interfering;
pub mod kernel;
pub mod lateness;
pub mod linux;
pub mod live;
pub mod processes;
mod realtime_group;
pub mod release;
pub mod restore;
pub mod table;
pub mod terms;

pub use sched::Explanation;
