//! [`Checked`]: what is on a machine, checked.

use super::spec::{AppSpec, EntitySpec, Group, GuestSpec};

/// What is on a machine.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) groups: Vec<Group>,
    pub(super) entities: Vec<EntitySpec>,
    pub(super) applications: Vec<AppSpec>,
    pub(super) guests: Vec<GuestSpec>,
}
