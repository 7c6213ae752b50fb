//! [`Observers`]: the sinks that a caller passes to a run.

use trace::{Sink, WorldSink};

/// Sinks that a run owns until its end. A sink may be a mutable reference, so that its owner can read the sink after
/// the run.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "sinks have nothing to show")]
pub struct Observers<'a> {
    /// Sinks of the host, or of the first of several hosts.
    pub(crate) host: Vec<Box<dyn Sink + 'a>>,
    /// Sinks of all machines.
    pub(crate) world: Vec<Box<dyn WorldSink + 'a>>,
}

impl<'a> Observers<'a> {
    /// Returns an empty set of sinks.
    #[must_use]
    pub fn none() -> Observers<'a> {
        Observers::default()
    }

    /// Adds `sink` for all events of the host, or of the first of several hosts.
    #[must_use]
    pub fn host(mut self, sink: impl Sink + 'a) -> Observers<'a> {
        self.host.push(Box::new(sink));
        self
    }

    /// Adds `sink` for all events of every machine.
    #[must_use]
    pub fn world(mut self, sink: impl WorldSink + 'a) -> Observers<'a> {
        self.world.push(Box::new(sink));
        self
    }
}

/// Adds the sinks of an iterator or an [`Option`]. Each sink receives the events of all machines.
impl<'a, S: WorldSink + 'a> Extend<S> for Observers<'a> {
    fn extend<T: IntoIterator<Item = S>>(&mut self, sinks: T) {
        self.world.extend(sinks.into_iter().map(|sink| Box::new(sink) as Box<dyn WorldSink + 'a>));
    }
}
