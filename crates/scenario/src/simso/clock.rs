//! [`Clock`]: the unit of time of a file.

use sched::Nanos;

/// The clock of a file: its unit of time is the cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Number of cycles per millisecond. Range: a divisor of 1,000,000.
    pub(super) cycles_per_ms: u64,
}

impl Clock {
    /// Converts cycles to time.
    pub(super) fn cycles(self, cycles: u64) -> Nanos {
        Nanos::ns(cycles.saturating_mul(1_000_000 / self.cycles_per_ms))
    }

    /// Converts milliseconds to time. As in SimSo, the part below a cycle is dropped.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    pub(super) fn ms(self, ms: f64) -> Nanos {
        self.cycles((ms * self.cycles_per_ms as f64) as u64)
    }
}
