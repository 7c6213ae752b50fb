//! The driver for real hosts.
//!
//! [`host_profile`] describes a machine: how much CPU time admission may give away, and what endangers promises. [`doctor`]
//! tries every mechanism of enforcement on child processes. [`lateness`] measures how late timers wake a thread. [`part`]
//! starts the processes of a live run. [`kernel`] is the interface to a kernel; crate `simhost` implements it in virtual time.

pub mod directory;
pub mod dispatch;
pub mod doctor;
pub mod guardian;
pub mod host_profile;
pub mod kernel;
pub mod lateness;
pub mod linux;
pub mod live;
pub mod part;
pub mod restore;
pub mod table;

/// Why something is not known or does not work, and what would help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// Why.
    pub why: String,
    /// What would help; empty where nothing is known to.
    pub remedy: String,
}

impl Reason {
    /// Because of `why`; `remedy` would help.
    #[must_use]
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Reason {
        Reason { why: why.into(), remedy: remedy.into() }
    }
}

impl From<sys::Error> for Reason {
    fn from(error: sys::Error) -> Reason {
        Reason::new(error.reason(), error.remedy().unwrap_or_default())
    }
}
