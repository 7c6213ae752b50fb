//! The lines that the core of the daemon and `tactus-scx` exchange: a JSON value on each line.
//!
//! The core admits promises and assigns each part of a promise to a CPU. `tactus-scx` has loaded a scheduler into the kernel,
//! which dispatches the threads of these parts. The core writes [`Order`]s, and `tactus-scx` writes [`Report`]s. Both are of
//! the same build, so the lines have no version.

use sched::{CpuId, Limit, Nanos, Reservation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum number of threads that share a promise in the kernel.
pub const MEMBERS_MAX: usize = 64;
/// Maximum length of a period in the kernel, whose programs multiply in 64 bits: 4.29 s.
pub const PERIOD_MAX: Nanos = Nanos::ns(0xffff_ffff);

/// What the core wants. Promises have numbers, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A promise on a CPU begins, at first without members.
    Begin {
        /// Number of the promise, which is not in use.
        promise: i32,
        /// Index of the CPU.
        cpu: usize,
        /// CPU time in every period. Unit: ns.
        slice_ns: u64,
        /// Length of the period, at most [`PERIOD_MAX`]. Unit: ns.
        period_ns: u64,
        /// Whether the slice is a limit.
        is_hard: bool,
        /// Number of its gang; `None`: it is in no gang. The promises of a gang are on different CPUs, with the same slice
        /// in the same periods.
        gang: Option<u32>,
    },
    /// The promise has another reservation, with the same limit. The promises of a gang change together, and each has an
    /// order.
    Change {
        /// Number of the promise.
        promise: i32,
        /// CPU time in every period. Unit: ns.
        slice_ns: u64,
        /// Length of the period. Unit: ns.
        period_ns: u64,
        /// Number of its gang from now on, which has the same promises as before.
        gang: Option<u32>,
    },
    /// A thread becomes a member of a promise, which has at most [`MEMBERS_MAX`].
    Join {
        /// Number of the promise.
        promise: i32,
        /// The thread, which may run on the CPU of the promise.
        tid: u32,
        /// Whether it serves the other members, as a thread for I/O does: it precedes them when it wakes.
        is_helper: bool,
    },
    /// A thread is no longer a member of a promise.
    Leave {
        /// The thread.
        tid: u32,
    },
    /// A promise ends. Its members have left, or leave with it.
    End {
        /// Number of the promise.
        promise: i32,
    },
}

impl Order {
    /// Returns the order to begin a promise, in a gang or in none.
    #[must_use]
    pub fn begin(promise: i32, cpu: CpuId, reservation: Reservation, gang: Option<u32>) -> Order {
        let (slice_ns, period_ns) = (reservation.slice.as_ns(), reservation.period.as_ns());
        Order::Begin { promise, cpu: cpu.index(), slice_ns, period_ns, is_hard: reservation.limit == Limit::Hard, gang }
    }
}

/// What the scheduler in the kernel does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// It is loaded, and orders are carried out.
    Ready,
    /// Periods of a promise have ended one after another, all with the same result.
    Periods {
        /// Number of the promise.
        promise: i32,
        /// CPU time that was due in each period. Unit: ns.
        due_ns: u64,
        /// CPU time that was delivered in each period, at most what was due. Unit: ns.
        delivered_ns: u64,
        /// Whether the promise was runnable throughout.
        throughout: bool,
        /// Number of the periods.
        count: u64,
    },
    /// The buffer between the kernel and the program was full: the counts of periods lack those of some events.
    Lost {
        /// Number of events since the last such report.
        events: u64,
    },
    /// So many orders were carried out, or refused.
    Done {
        /// Number of orders since the start.
        orders: u64,
    },
    /// An order was refused.
    Refused {
        /// The order.
        order: Order,
        /// The reason.
        reason: String,
    },
    /// The scheduler could not be loaded, or the kernel has removed it. This is the last line.
    Ended {
        /// The reason.
        reason: String,
        /// Whether it can be loaded again: the kernel has removed it because a CPU went offline or online.
        begins_again: bool,
    },
}

/// Returns a value as a line, with its end.
///
/// # Panics
/// Never for [`Order`] and [`Report`].
#[must_use]
pub fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has only numbers and strings") + "\n"
}

/// Returns the value of a line.
///
/// # Errors
/// The line is of another build.
pub fn read<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("{}: {error}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written_and_others_are_refused() {
        let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::ms(2), Nanos::ms(10)) };
        let order = Order::begin(3, CpuId::new(1), reservation, Some(7));
        let text = line(&order);
        assert_eq!((read::<Order>(&text), text.matches('\n').count()), (Ok(order), 1));
        let refused = Report::Refused { order, reason: "no\nroom".to_string() };
        assert_eq!((read::<Report>(&line(&refused)), line(&refused).matches('\n').count()), (Ok(refused), 1));
        let lost = Report::Lost { events: 9 };
        assert_eq!((read::<Report>(&line(&lost)), line(&lost).trim_end()), (Ok(lost), r#"{"lost":{"events":9}}"#));
        assert!(read::<Order>("{\"begin\":{}}").unwrap_err().contains("missing field"));
        assert!(read::<Report>("\"ready\"") == Ok(Report::Ready) && read::<Report>("x").is_err());
    }
}
