//! [`Finding`]: a broken promise.

use sched::Instant;
use simhost::SimulatedKernel;
use std::fmt;

/// Maximum number of operations that a finding lists.
const OPERATIONS_MAX: usize = 60;

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The broken rule.
    pub what: String,
    /// Instant of the finding.
    pub at: Instant,
    /// Last operations before the finding.
    pub before: Vec<(Instant, String)>,
}

impl Finding {
    pub(super) fn new(host: &SimulatedKernel, what: String) -> Finding {
        let world = host.world();
        let recorded = world.recorded();
        Finding { what, at: world.now(), before: recorded[recorded.len().saturating_sub(OPERATIONS_MAX)..].to_vec() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, what) in &self.before {
            writeln!(f, "  {at} {what}")?;
        }
        write!(f, "at {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Finding {}
