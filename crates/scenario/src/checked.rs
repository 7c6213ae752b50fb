//! [`Checked`]: the checked population of a machine.

use super::spec::{AppSpec, EntitySpec, Group, GuestSpec};

/// The checked population of a machine.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) groups: Vec<Group>,
    pub(super) entities: Vec<EntitySpec>,
    pub(super) applications: Vec<AppSpec>,
    pub(super) guests: Vec<GuestSpec>,
}
