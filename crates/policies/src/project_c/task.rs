//! The state of an entity, and Project C's view of its parameters.

use super::queues::Level;
use sched::{Class, CpuId, Instant, Nanos, Params};

/// The scheduling class of an entity in Project C's terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The stop class, more urgent than all other classes.
    Stop,
    /// SCHED_FIFO of this priority, 1 to 99.
    Fifo(u8),
    /// SCHED_RR of this priority, 1 to 99.
    RoundRobin(u8),
    Normal,
    Batch,
    Idle,
}

impl Kind {
    /// Returns the kind that `params` select. With `deadline_is_fifo`, an entity with a reservation is a SCHED_DEADLINE
    /// task, which runs as SCHED_FIFO 99.
    pub(crate) fn of(params: &Params, deadline_is_fifo: bool) -> Kind {
        match params.class {
            Class::Stop => Kind::Stop,
            _ if deadline_is_fifo && params.reservation.is_some() => Kind::Fifo(99),
            Class::Fifo(priority) => Kind::Fifo(priority.number()),
            Class::RoundRobin(priority) => Kind::RoundRobin(priority.number()),
            Class::Normal | Class::Isochronous => Kind::Normal,
            Class::Batch => Kind::Batch,
            Class::Idle => Kind::Idle,
        }
    }

    /// Returns whether the entity moves to the tail when its time slice is used up.
    pub(crate) fn takes_turns(self) -> bool {
        !matches!(self, Kind::Stop | Kind::Fifo(_))
    }

    /// Returns whether the level of the entity is fixed and more urgent than all levels that change.
    pub(crate) fn is_real_time(self) -> bool {
        matches!(self, Kind::Stop | Kind::Fifo(_) | Kind::RoundRobin(_))
    }

    /// Returns the level of a real-time kind. `priorities_each` priorities share one level.
    pub(crate) fn real_time_level(self, priorities_each: usize) -> Option<Level> {
        match self {
            Kind::Stop => Some(0),
            Kind::Fifo(priority) | Kind::RoundRobin(priority) => {
                Some(1 + (99 - usize::from(priority)) / priorities_each)
            }
            Kind::Normal | Kind::Batch | Kind::Idle => None,
        }
    }
}

/// The state of an entity. `S` is the state that the rule keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<S> {
    pub(crate) kind: Kind,
    pub(crate) nice: i32,
    /// Remainder of the time slice.
    pub(crate) slice: Nanos,
    /// Instant of the last charge, or of the last dispatch.
    pub(crate) last_ran: Instant,
    /// CPU whose queue contains the entity, or contained the entity last.
    pub(crate) home: CpuId,
    pub(crate) state: S,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_squashed_to_fifo_99_unless_it_is_ignored() {
        let slice = sched::Reservation::new(Nanos::ms(1), Nanos::ms(10));
        let params = Params { reservation: Some(slice), ..Params::default() };
        assert_eq!(Kind::of(&params, true), Kind::Fifo(99));
        assert_eq!(Kind::of(&params, false), Kind::Normal);
        assert_eq!(Kind::of(&Params { class: Class::Isochronous, ..Params::default() }, true), Kind::Normal);
        assert_eq!(Kind::of(&Params { class: Class::Stop, ..params }, true), Kind::Stop);
    }

    #[test]
    fn real_time_priorities_are_levels_99_down_to_0_behind_the_stoppers() {
        assert_eq!(Kind::Stop.real_time_level(1), Some(0));
        assert_eq!((Kind::Fifo(99).real_time_level(1), Kind::RoundRobin(1).real_time_level(1)), (Some(1), Some(99)));
        // In Project C for Linux 6.6 and later, four priorities share a level.
        let of_four = [99, 96, 95, 1].map(|priority| Kind::Fifo(priority).real_time_level(4));
        assert_eq!(of_four, [Some(1), Some(1), Some(2), Some(25)]);
        assert_eq!(Kind::Normal.real_time_level(1), None);
    }
}
