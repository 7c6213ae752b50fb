//! The driver for real hosts.
//!
//! [`host`] says what a machine is like, as far as promises depend on it: what admission may give away, and what stands in
//! the way. [`doctor`] tries every mechanism of enforcement on processes of its own. [`lateness`] measures how late
//! timers wake who waits for them. [`part`] begins the processes that take part in a live run. [`kernel`] is what daemon
//! and guardian ask of a kernel, and crate `simhost` is one in virtual time.

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
