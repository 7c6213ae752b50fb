//! The knob `change`: when the first period of a changed reservation begins.
//!
//! With `due`, an entity that has used a part of its slice *claims* its old utilisation until this part is due at a
//! constant rate. GRUB ends the activity of a server by the same rule (Lipari and Baruah 2000). On a CPU, the claims
//! and the utilisations of the periods that have begun never exceed the admitted share, so no slice is late.

use sched::{CpuId, EntityId, Instant};

/// The knob `change`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The first period begins at once, with a full slice.
    Now,
    /// The first period begins when the used part of the slice is due at a constant rate.
    Due,
}

/// A utilisation that an entity has used in advance.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// The entity; `None` after it was detached, because its index may then belong to another entity.
    of: Option<EntityId>,
    /// CPU to which the entity was assigned; `None` if placement is global.
    on: Option<CpuId>,
    /// The utilisation, in units of [`crate::admission::ONE`].
    units: u64,
    /// Instant at which the used part is due.
    until: Instant,
}

/// The claims of changed and detached entities. An entity has at most one claim: until its claim ends, no new period
/// begins in which it could use a slice.
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<Claim>);

impl Claims {
    /// Records that `e` has used `units` of `on` in advance, up to `until`. Drops the claims that have ended by `now`.
    pub(super) fn add(&mut self, e: EntityId, on: Option<CpuId>, units: u64, until: Instant, now: Instant) {
        self.0.retain(|claim| claim.until > now);
        if until > now {
            self.0.push(Claim { of: Some(e), on, units, until });
        }
    }

    /// Keeps the claim of `e`, which is detached, without its name.
    pub(super) fn detach(&mut self, e: EntityId) {
        self.0.iter_mut().filter(|claim| claim.of == Some(e)).for_each(|claim| claim.of = None);
    }

    /// Returns the instant, at or after `now`, from which `e` may use its utilisation of `on`. By then, the claim of
    /// `e` has ended, and the claims of other entities exceed the utilisations that are admitted for them by at most
    /// `spare` units in total. `admitted` returns the utilisation that is admitted for an entity on `on`.
    pub(super) fn earliest(
        &self,
        e: EntityId,
        on: Option<CpuId>,
        spare: u64,
        now: Instant,
        admitted: impl Fn(EntityId) -> u64,
    ) -> Instant {
        let own = self.0.iter().find(|claim| claim.of == Some(e));
        let mut at = own.map_or(now, |claim| claim.until.max(now));
        loop {
            let others = self.0.iter().filter(|claim| claim.of != Some(e) && claim.on == on && claim.until > at);
            let excess = others.clone().map(|claim| claim.units.saturating_sub(claim.of.map_or(0, &admitted)));
            match others.map(|claim| claim.until).min() {
                Some(next) if excess.fold(0, u64::saturating_add) > spare => at = next,
                _ => return at,
            }
        }
    }
}
