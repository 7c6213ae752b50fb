//! [`Account`]: the amounts that a policy keeps for an entity.

use sched::{EntityId, Machine};

/// The amounts that a policy keeps for an entity, as of the last charge. Accounts are no events, because a policy derives
/// them from the inputs of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Unused CPU time of the slice of the entity's reservation in the current period, in nanoseconds. Below zero after an
    /// overrun. `None`: the policy keeps no reservation for the entity.
    pub remaining: Option<i64>,
    /// Balance from which the policy subtracts CPU time, in the unit of the policy. `None`: the policy has no credits.
    pub credit: Option<i64>,
}

impl Account {
    /// Returns the account of `entity`, which is attached to `machine`.
    #[must_use]
    pub fn of(machine: &Machine, entity: EntityId) -> Account {
        let remaining = machine.promise(entity).map(|promise| promise.remaining);
        Account { remaining, credit: machine.credit(entity) }
    }
}
