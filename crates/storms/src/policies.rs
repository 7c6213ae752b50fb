//! [`Policies`]: the policies of a storm.

use sched::Descriptor;

/// The policies of the host and of the daemon: `linux` and `edf`.
#[derive(Clone, Copy, Debug)]
pub struct Policies {
    /// The host's.
    pub linux: &'static Descriptor,
    /// The daemon's.
    pub edf: &'static Descriptor,
}
