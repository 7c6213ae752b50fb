//! The CPU time that processes receive.

use sched::Nanos;
use sys::child::Child;
use sys::usage::Meter;

/// The meters of processes.
pub(crate) struct Received(Vec<Meter>);

impl Received {
    pub(crate) fn by<'c>(children: impl IntoIterator<Item = &'c Child>) -> Result<Received, String> {
        let meters = children.into_iter().map(|child| Meter::open(child.pid()));
        meters.collect::<sys::Result<Vec<_>>>().map(Received).map_err(|error| error.to_string())
    }

    /// Returns the CPU time that all of them have received.
    pub(crate) fn read(&self) -> Result<Nanos, String> {
        let sum = self.0.iter().try_fold(Nanos::ZERO, |sum, meter| Ok(sum + meter.read()?.ran));
        sum.map_err(|error: sys::Error| error.to_string())
    }
}
