//! The knob `change`: when the first period of a changed reservation begins.
//!
//! With `due`, the old utilisation of an entity that has used a part of its slice stays *active* until this part is due
//! at a constant rate. GRUB ends the activity of a server by the same rule (Lipari and Baruah 2000). On a CPU, these
//! active utilisations and the utilisations of the periods that have begun never exceed the admitted share, so no slice
//! is late.

use sched::{CpuId, EntityId, Instant};

/// The knob `change`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The first period begins at once, with a full slice.
    Now,
    /// The first period begins when the used part of the slice is due at a constant rate.
    Due,
}

/// A utilisation that stays active, because an entity has used it in advance.
#[derive(Clone, Copy, Debug)]
struct ActiveUtilisation {
    /// The entity; `None` after it was detached, because its index may then belong to another entity.
    of: Option<EntityId>,
    /// CPU to which the entity was assigned; `None` if placement is global.
    on: Option<CpuId>,
    /// The utilisation, in units of [`crate::admission::ONE`].
    units: u64,
    /// Instant at which the used part is due.
    until: Instant,
}

/// The active utilisations of changed and detached entities. An entity has at most one: until it ends, no new period
/// begins in which the entity could use a slice.
#[derive(Debug, Default)]
pub(super) struct ActiveUtilisations(Vec<ActiveUtilisation>);

impl ActiveUtilisations {
    /// Records that `e` has used `units` of `on` in advance, up to `until`. Drops the utilisations that have ended by
    /// `now`.
    pub(super) fn add(&mut self, e: EntityId, on: Option<CpuId>, units: u64, until: Instant, now: Instant) {
        self.0.retain(|active| active.until > now);
        if until > now {
            self.0.push(ActiveUtilisation { of: Some(e), on, units, until });
        }
    }

    /// Keeps the active utilisation of `e`, which is detached, without its name.
    pub(super) fn detach(&mut self, e: EntityId) {
        self.0.iter_mut().filter(|active| active.of == Some(e)).for_each(|active| active.of = None);
    }

    /// Returns the instant, at or after `now`, from which `e` may use its utilisation of `on`. By then, the active
    /// utilisation of `e` has ended, and those of other entities exceed the utilisations that are admitted for them by
    /// at most `spare` units in total. `admitted` returns the utilisation that is admitted for an entity on `on`.
    pub(super) fn earliest(
        &self,
        e: EntityId,
        on: Option<CpuId>,
        spare: u64,
        now: Instant,
        admitted: impl Fn(EntityId) -> u64,
    ) -> Instant {
        let own = self.0.iter().find(|active| active.of == Some(e));
        let mut at = own.map_or(now, |active| active.until.max(now));
        loop {
            let others = self.0.iter().filter(|active| active.of != Some(e) && active.on == on && active.until > at);
            let excess = others.clone().map(|active| active.units.saturating_sub(active.of.map_or(0, &admitted)));
            match others.map(|active| active.until).min() {
                Some(next) if excess.fold(0, u64::saturating_add) > spare => at = next,
                _ => return at,
            }
        }
    }
}
