//! Promises that stop being kept during a run.

use crate::output::complain;
use daemon::interfering::InterferingThread;
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
    /// Threads that ran above all clients when the promise stopped being kept.
    above: Vec<InterferingThread>,
}

impl Breach {
    /// Describes the breach in a sentence without a full stop.
    pub(crate) fn in_words(&self) -> String {
        let Breach { name, from, until, missed, of, above, .. } = self;
        let until = until.map_or_else(|| "the end".to_string(), |until| until.to_string());
        let mut words = format!(
            "The promise to {name} was not kept from {from} to {until} of the run: at first, {missed} of the last {of} \
             periods were short"
        );
        if !above.is_empty() {
            words += &format!(". Threads above all clients then: {}", listed(above));
        }
        words
    }
}

fn listed(threads: &[InterferingThread]) -> String {
    threads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The breaches of a run so far.
#[derive(Default)]
pub(crate) struct Breaches {
    pub(crate) all: Vec<Breach>,
}

impl Breaches {
    /// Handles an event of the daemon, `at` after the start of the run, and reports each breach on standard error at
    /// once. `name` returns the name of an entity, and `above` the threads that run above all clients.
    pub(crate) fn hear(
        &mut self,
        at: Instant,
        event: &Event,
        name: impl Fn(EntityId) -> String,
        above: impl FnOnce() -> Vec<InterferingThread>,
    ) {
        let Event::Kept { entity, kept, missed, of } = *event else { return };
        let at = whole_milliseconds(at.since(Instant::ZERO));
        let name = name(entity);
        if kept {
            complain(&format!("{at}: the promise to {name} is kept again"));
            let open = self.all.iter_mut().rev().find(|breach| breach.entity == entity && breach.until.is_none());
            open.into_iter().for_each(|breach| breach.until = Some(at));
        } else {
            complain(&format!("{at}: the promise to {name} is not kept: {missed} of the last {of} periods were short"));
            let above = above();
            if !above.is_empty() {
                complain(&format!("threads above all clients: {}", listed(&above)));
            }
            self.all.push(Breach { name, entity, from: at, until: None, missed, of, above });
        }
    }
}

fn whole_milliseconds(time: Nanos) -> Nanos {
    Nanos::ms(time.as_ns() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::interfering::Demand;
    use sched::CpuSet;

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
            let demand = Demand::Observed { priority: 99, ppm: 400_000 };
            let thread = InterferingThread { tid: 7, name: "x".to_string(), demand, cpus: CpuSet::ALL };
            let above = || if ms == 200 { vec![thread] } else { Vec::new() };
            breaches.hear(at, &event, |entity| format!("e{}", entity.index()), above);
        }
        let found: Vec<_> =
            breaches.all.iter().map(|breach| (breach.name.as_str(), breach.from, breach.until)).collect();
        let [a, b, c, d] = [100, 200, 300, 400].map(Nanos::ms);
        assert_eq!(found, [("e0", a, Some(c)), ("e1", b, None), ("e0", d, None)]);
        let said = breaches.all.iter().map(Breach::in_words).collect::<Vec<_>>();
        assert!(said[0].starts_with("The promise to e0 was not kept from 100ms to 300ms of the run"), "{said:?}");
        assert!(said[1].contains("to the end of the run"), "{said:?}");
        let last = "Threads above all clients then: x (thread 7, real-time priority 99, 40.00 % of a CPU)";
        assert!(said[1].ends_with(last) && said[0].ends_with("were short"), "{said:?}");
    }
}
