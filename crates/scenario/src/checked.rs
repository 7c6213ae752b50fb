//! [`Checked`]: the groups, entities, applications and guests of a machine, after all checks.

use super::spec::{AppSpec, EntitySpec, Group, GuestSpec};

/// The groups, entities, applications and guests of a machine, after all checks.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) groups: Vec<Group>,
    pub(super) entities: Vec<EntitySpec>,
    pub(super) applications: Vec<AppSpec>,
    pub(super) guests: Vec<GuestSpec>,
}
