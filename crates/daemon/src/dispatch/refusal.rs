//! [`Refusal`]: the reason why a promise is not made.

use super::room::NoRoom;
use crate::Explanation;
use crate::table::Full;
use sched::{CpuSet, Nanos, Refused, Reservation};
use std::fmt;
use sys::attributes::{Attributes, Policy};

/// Reason why a request was refused. A refusal changes nothing.
#[derive(Debug)]
pub enum Refusal {
    /// The request is invalid.
    Promise(Refused),
    /// The request is invalid, as another process of Tactus reports.
    Invalid(Explanation),
    /// Another reason, as another process of Tactus reports it.
    Reported(Explanation),
    /// The promise does not fit beside the existing promises.
    NoRoom(Box<NoRoom>),
    /// The process may use fewer CPUs than the request.
    TooFewCpus {
        /// Pid of the process.
        pid: u32,
        /// The requested number of CPUs.
        asked: usize,
        /// CPUs of the request that the process may use and that have an agent.
        allowed: Box<CpuSet>,
    },
    /// A period or a slice is too short.
    TooShort {
        /// Name of the value: the period or the slice.
        what: &'static str,
        /// The requested value.
        asked: Nanos,
        /// The smallest value.
        least: Nanos,
    },
    /// The dispatcher does not support the request.
    Unsupported {
        /// Reason for the refusal.
        reason: &'static str,
        /// The remedy, in the imperative.
        remedy: &'static str,
    },
    /// The mechanism cannot keep the promise.
    Mechanism(Explanation),
    /// The process does not exist, or has ended.
    Gone(u32),
    /// The process is a kernel thread.
    KernelThread {
        /// Pid of the kernel thread.
        pid: u32,
        /// Name of the kernel thread.
        name: String,
    },
    /// The process belongs to Tactus, or is an ancestor of Tactus.
    Ourselves(u32),
    /// The process belongs to another user, and Tactus does not run for root.
    Foreign {
        /// Pid of the process.
        pid: u32,
        /// Real user ID of the process.
        user: u32,
    },
    /// The kernel would end the process, because its CPU time at real-time priority is limited.
    Limited {
        /// Pid of the process.
        pid: u32,
        /// The limit (RLIMIT_RTTIME).
        limit: Nanos,
    },
    /// A thread has a SCHED_DEADLINE reservation, which precedes every promise. The kernel may withhold the CPU for good from a
    /// thread that leaves this class and returns to it (Linux 6.18), so Tactus never changes its class.
    Reserved {
        /// Tid of the thread.
        tid: u32,
        /// The attributes of the thread.
        attributes: Attributes,
    },
    /// The promise that is to be changed does not exist, or has ended.
    NoPromise,
    /// The process and its descendants have too many threads.
    TooManyThreads {
        /// Maximum number of threads.
        most: usize,
    },
    /// The process or one of its descendants already has a promise.
    Already {
        /// Pid of the process with the promise.
        pid: u32,
        /// Name of the client.
        name: String,
    },
    /// The kernel refuses permission.
    NotPermitted(sys::Error),
    /// The table of originals is full.
    Full(Full),
}

/// Returns the attributes of thread `tid`, unless they are a reservation of another process.
pub(super) fn unreserved(tid: u32, attributes: Attributes) -> Result<Attributes, Refusal> {
    match attributes.policy {
        Policy::Deadline { .. } => Err(Refusal::Reserved { tid, attributes }),
        _ => Ok(attributes),
    }
}

impl Refusal {
    /// Returns the error and the remedy.
    #[must_use]
    pub fn reason(&self) -> Explanation {
        match self {
            Refusal::Promise(refused) => refused.explain(),
            Refusal::NoRoom(room) => room.explain(&room.alternatives()),
            Refusal::TooFewCpus { pid, allowed, .. } if allowed.is_empty() => {
                let why = format!("process {pid} may use none of the CPUs for the promise");
                Explanation::new(why, "use CPUs of the process's affinity")
            }
            Refusal::TooFewCpus { pid, asked, allowed } => {
                let count = allowed.len();
                let why =
                    format!("the promise is for {asked} CPUs, and process {pid} may use only CPUs {allowed} for it");
                Explanation::new(why, format!("use at most {count} CPUs, or allow the process to use more"))
            }
            Refusal::TooShort { what, asked, least } => {
                Explanation::new(format!("the {what} is too short ({asked})"), format!("use at least {least}"))
            }
            Refusal::Unsupported { reason, remedy } => Explanation::new(*reason, *remedy),
            Refusal::Invalid(why) | Refusal::Reported(why) | Refusal::Mechanism(why) => why.clone(),
            Refusal::Gone(pid) => Explanation::new(
                format!("there is no process {pid}; it has ended, or never existed"),
                "use the pid of a running process",
            ),
            Refusal::KernelThread { pid, name } => {
                Explanation::new(format!("process {pid} ({name}) is a kernel thread"), "use a user process")
            }
            Refusal::Ourselves(pid) => {
                Explanation::new(format!("process {pid} is tactus itself, or its ancestor"), "use another process")
            }
            Refusal::Foreign { pid, user } => {
                Explanation::new(format!("process {pid} belongs to user {user}"), "run tactus as that user, or as root")
            }
            Refusal::Limited { pid, limit } => Explanation::new(
                format!(
                    "process {pid} may use the CPU for at most {limit} at real-time priority (RLIMIT_RTTIME), and the \
                     kernel would end it then"
                ),
                format!("remove the limit: prlimit --rttime=unlimited --pid {pid}"),
            ),
            Refusal::Reserved { tid, attributes } => Explanation::new(
                format!("thread {tid} has a reservation already: {attributes}"),
                format!("end this reservation first (chrt --other --pid 0 {tid})"),
            ),
            Refusal::NoPromise => {
                Explanation::new("there is no such promise; it has ended, or was never made", "make a new promise")
            }
            Refusal::TooManyThreads { most } => Explanation::new(
                format!("the process and its descendants have more than {most} threads"),
                format!("make promises to parts of the process tree, with at most {most} threads each"),
            ),
            Refusal::Already { pid, name } => Explanation::new(
                format!("process {pid} has a promise already, as {name}"),
                "make one promise per process",
            ),
            Refusal::NotPermitted(error) => Explanation::new(error.reason(), error.remedy().unwrap_or_default()),
            Refusal::Full(full) => Explanation::new(full.to_string(), full.remedy()),
        }
    }
}

/// Returns whether a machine with the existing promises of `room` admits its request, with `reservation` per CPU.
///
/// # Errors
/// The machine refuses the request.
pub(super) fn would_fit(room: NoRoom, reservation: Reservation) -> Result<(), Refusal> {
    match room.refused(reservation) {
        None => Ok(()),
        Some(Refused::Utilisation { free_ppm, on, .. }) => {
            Err(Refusal::NoRoom(Box::new(NoRoom { free: (free_ppm, on), ..room })))
        }
        Some(refused) => Err(Refusal::Promise(refused)),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl std::error::Error for Refusal {}

impl From<sys::Error> for Refusal {
    fn from(error: sys::Error) -> Refusal {
        match error {
            sys::Error::Gone(tid) => Refusal::Gone(tid),
            other => Refusal::NotPermitted(other),
        }
    }
}
