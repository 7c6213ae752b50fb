//! [`Policies`]: the policies of a storm.

use sched::Descriptor;

/// The policies of the host and of the daemon: `linux` and [`daemon::terms::POLICY`].
#[derive(Clone, Copy, Debug)]
pub struct Policies {
    /// Policy of the host.
    pub linux: &'static Descriptor,
    /// Policy of the daemon.
    pub daemon: &'static Descriptor,
}
