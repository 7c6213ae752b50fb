//! Promises that stop being kept during a run.

use crate::output::complain;
use sched::{EntityId, Instant, Nanos};
use trace::Event;

/// A time for which a promise was not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Breach {
    /// Name of the entity.
    pub(crate) name: String,
    entity: EntityId,
    /// Time since the start of the run at which the promise stopped being kept.
    pub(crate) from: Nanos,
    /// Time since the start of the run from which the promise was kept again; `None`: not until its end.
    pub(crate) until: Option<Nanos>,
    /// Number of missed periods among the last `of` judged periods, when the promise stopped being kept.
    missed: u64,
    of: u64,
}

impl Breach {
    /// Describes the breach in a sentence without a full stop.
    pub(crate) fn in_words(&self) -> String {
        let Breach { name, from, until, missed, of, .. } = self;
        let until = until.map_or_else(|| "the end".to_string(), |until| until.to_string());
        format!(
            "The promise to {name} was not kept from {from} to {until} of the run: at first, {missed} of the last {of} \
             periods were short"
        )
    }
}

/// The breaches of a run so far.
#[derive(Default)]
pub(crate) struct Breaches {
    pub(crate) all: Vec<Breach>,
}

impl Breaches {
    /// Handles an event of the daemon, `at` after the start of the run, and reports each breach on standard error at
    /// once. `name` returns the name of an entity.
    pub(crate) fn hear(&mut self, at: Instant, event: &Event, name: impl Fn(EntityId) -> String) {
        let Event::Kept { entity, kept, missed, of } = *event else { return };
        let at = whole_milliseconds(at.since(Instant::ZERO));
        let name = name(entity);
        if kept {
            complain(&format!("{at}: the promise to {name} is kept again"));
            let open = self.all.iter_mut().rev().find(|breach| breach.entity == entity && breach.until.is_none());
            open.into_iter().for_each(|breach| breach.until = Some(at));
        } else {
            complain(&format!("{at}: the promise to {name} is not kept: {missed} of the last {of} periods were short"));
            self.all.push(Breach { name, entity, from: at, until: None, missed, of });
        }
    }
}

fn whole_milliseconds(time: Nanos) -> Nanos {
    Nanos::ms(time.as_ns() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breach_lasts_until_the_promise_is_kept_again() {
        let mut breaches = Breaches::default();
        let [first, second] = [0, 1].map(|index| EntityId::new(index, 0));
        let kept = |entity, kept| Event::Kept { entity, kept, missed: 26, of: 100 };
        for (ms, event) in [
            (100, kept(first, false)),
            (200, kept(second, false)),
            (300, kept(first, true)),
            (300, Event::Settled),
            (400, kept(first, false)),
        ] {
            let at = Instant::ZERO + Nanos::ms(ms) + Nanos::us(7);
            breaches.hear(at, &event, |entity| format!("e{}", entity.index()));
        }
        let found: Vec<_> =
            breaches.all.iter().map(|breach| (breach.name.as_str(), breach.from, breach.until)).collect();
        let [a, b, c, d] = [100, 200, 300, 400].map(Nanos::ms);
        assert_eq!(found, [("e0", a, Some(c)), ("e1", b, None), ("e0", d, None)]);
        let said = breaches.all.iter().map(Breach::in_words).collect::<Vec<_>>();
        assert!(said[0].starts_with("The promise to e0 was not kept from 100ms to 300ms of the run"), "{said:?}");
        assert!(said[1].contains("to the end of the run"), "{said:?}");
    }
}
