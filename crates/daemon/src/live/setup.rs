//! [`Setup`]: the parameters of the daemon.

use super::fault::Fault;
use crate::directory::Directory;
use crate::dispatch::KeptBy;
use sched::{Descriptor, Knobs};
use std::path::PathBuf;

/// Parameters of the daemon.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The directory of the table of originals and the lock.
    pub directory: Directory,
    /// Program that runs as the guardian if started with the arguments `guardian DIRECTORY`.
    pub executable: PathBuf,
    /// Policy of the daemon.
    pub policy: &'static Descriptor,
    /// Knobs of the policy.
    pub knobs: Knobs,
    /// What keeps the promises.
    pub by: KeptBy,
    /// Fault injection.
    pub fault: Option<Fault>,
}
