//! [`Samples`]: the waits and response times of the entities of the first host, for pictures of distributions.

use sched::{EntityId, Instant};
use std::collections::BTreeMap;
use trace::follow::{Fact, Follower};
use trace::timeline::State;
use trace::{Event, Header, Sink};

/// What a sample measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Time that an entity waits for a CPU without a break.
    Wait,
    /// Time from the release of a job to its completion.
    Response,
}

impl Measure {
    /// Returns the label of an axis.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Measure::Wait => "time waiting for a CPU (ms)",
            Measure::Response => "response time of a job (ms)",
        }
    }
}

/// Collects samples in milliseconds, by the name of their entity. Waits before the warm-up ends do not count.
pub(crate) struct Samples {
    follower: Option<Follower>,
    measure: Measure,
    from: Instant,
    names: BTreeMap<EntityId, String>,
    /// End of the last wait of each entity.
    waited: BTreeMap<EntityId, Instant>,
    pub(crate) of: BTreeMap<String, Vec<f64>>,
}

impl Samples {
    pub(crate) fn new(header: &Header, measure: Measure, from: Instant) -> Samples {
        let follower = Some(Follower::new(header));
        Samples { follower, measure, from, names: BTreeMap::new(), waited: BTreeMap::new(), of: BTreeMap::new() }
    }

    fn take(&mut self, fact: &Fact<'_>) {
        #[expect(clippy::cast_precision_loss, reason = "a picture needs few digits")]
        let ms = |from: Instant, to: Instant| to.since(from).as_ns() as f64 / 1e6;
        let (entity, sample) = match *fact {
            Fact::Attached { entity, name, .. } => {
                self.names.insert(entity, name.to_string());
                return;
            }
            Fact::Span { entity, span, .. } if self.measure == Measure::Wait => match span.state {
                State::Waiting => {
                    self.waited.insert(entity, span.to);
                    (entity, (span.from >= self.from).then(|| ms(span.from, span.to)))
                }
                // An entity that runs without a wait before has waited for no time.
                State::Running(_) if self.waited.get(&entity) != Some(&span.from) => {
                    (entity, (span.from >= self.from).then_some(0.0))
                }
                _ => return,
            },
            Fact::Job { entity, job } if self.measure == Measure::Response && job.completed => {
                (entity, (job.released >= self.from).then(|| ms(job.released, job.ended)))
            }
            _ => return,
        };
        if let (Some(name), Some(sample)) = (self.names.get(&entity), sample) {
            self.of.entry(name.clone()).or_default().push(sample);
        }
    }
}

impl Sink for Samples {
    fn record(&mut self, at: Instant, event: &Event) {
        let Some(mut follower) = self.follower.take() else { return };
        if follower.observe(at, event, &mut |fact| self.take(&fact)).is_ok() {
            self.follower = Some(follower);
        }
    }
}
