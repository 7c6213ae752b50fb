//! [`Setup`]: the parameters of the daemon.

use super::fault::Fault;
use crate::directory::Directory;
use crate::dispatch::KeptBy;
use sched::{Descriptor, Knobs};
use std::path::PathBuf;

/// A policy that admits promises, with its knobs.
#[derive(Clone, Debug)]
pub struct AdmissionPolicy {
    /// The policy.
    pub policy: &'static Descriptor,
    /// Knobs of the policy.
    pub knobs: Knobs,
}

/// Parameters of the daemon.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The directory of the table of originals and the lock.
    pub directory: Directory,
    /// Program that runs as the guardian if started with the arguments `guardian DIRECTORY`.
    pub executable: PathBuf,
    /// Policy of the dispatcher. `None`: the daemon keeps no promises by turns.
    pub turns: Option<AdmissionPolicy>,
    /// Policy that admits reservations of the kernel. `None`: the daemon makes none.
    pub reservations: Option<AdmissionPolicy>,
    /// What keeps a promise whose request names no mechanism.
    pub usual: KeptBy,
    /// Program whose scheduler in the kernel dispatches the clients: `tactus-scx`. `None`: the agents dispatch them.
    pub scheduler: Option<PathBuf>,
    /// Fault injection.
    pub fault: Option<Fault>,
}

impl Setup {
    /// Returns the policy that admits promises which are kept by `by`.
    pub(super) fn admission(&self, by: KeptBy) -> Option<&AdmissionPolicy> {
        match by {
            KeptBy::Dispatcher(_) => self.turns.as_ref(),
            KeptBy::Kernel => self.reservations.as_ref(),
        }
    }
}
