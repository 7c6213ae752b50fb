//! [`PromiseRequest`]: a request for a promise.

use super::member::RaiseBy;
use sched::{CpuSet, EntityId, Nanos, Reservation};
use serde::{Deserialize, Serialize};

/// The shortest period. With shorter periods, the turns of the agents would take most of the CPU time.
pub const PERIOD_LEAST: Nanos = Nanos::us(100);
/// The shortest slice.
pub const SLICE_LEAST: Nanos = Nanos::us(10);
/// Maximum period that a refusal proposes. In a longer one, a VM would wait for minutes.
pub const PERIOD_LONGEST: Nanos = Nanos::s(60);
/// Maximum slice per CPU. A longer slice is divided into equal parts with shorter periods. Otherwise a client could
/// occupy a CPU until real-time throttling, which limits the CPU time of real-time threads in every second, stops the
/// client.
pub(super) const SLICE_MOST: Nanos = Nanos::ms(100);

/// Other promises in the gang of a promise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum Others {
    /// None: the clients of the promise are a gang of their own.
    #[default]
    None,
    /// Later promises will join the new gang.
    Later,
    /// The clients join the gang of this entity, with its slice and period, on other CPUs.
    Of(EntityId),
}

/// What keeps a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum KeptBy {
    /// [`Dispatcher`](super::Dispatcher), which raises threads in this way.
    Dispatcher(RaiseBy),
    /// The kernel, by SCHED_DEADLINE: [`KernelKept`](super::KernelKept).
    Kernel,
}

/// A request for a promise to a process and its descendants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PromiseRequest {
    /// Name of the client in messages.
    pub name: String,
    /// What keeps the promise.
    pub by: KeptBy,
    /// CPU time in every period, summed over all threads and CPUs of the client.
    pub reservation: Reservation,
    /// Number of CPUs among which the slice is divided. Range: 1 …; the slice is at most this number of periods.
    pub cpus: usize,
    /// Whether the threads of the client receive their parts of the slice at the same time on all CPUs: in periods that
    /// begin together. If so, `cpus` is at least 2, unless the client joins a gang or awaits others.
    pub gang: bool,
    /// Other promises in the same gang, if `gang` is set.
    pub others: Others,
    /// Time from the start of the periods on one CPU to the start on the next CPU, if `gang` is not set. Zero: the periods
    /// follow the wake-ups on each CPU.
    pub stagger: Nanos,
    /// CPUs that the client may use.
    pub affinity: CpuSet,
    /// Whether the journal must record every sleep of the client. Otherwise, it omits sleeps of less than a period if the
    /// client is alone on its CPU and has slept often, because the agent then takes fewer turns.
    pub records_sleeps: bool,
    /// Tids of threads that run vCPUs although their [names](super::Role::of) do not say so.
    pub vcpus: Vec<u32>,
}

impl PromiseRequest {
    /// Returns a request for `reservation` on one CPU of any number, in no gang, kept by turns of threads that inherit their
    /// priority.
    #[must_use]
    pub fn new(name: impl Into<String>, reservation: Reservation) -> PromiseRequest {
        PromiseRequest {
            name: name.into(),
            by: KeptBy::Dispatcher(RaiseBy::Inheritance),
            reservation,
            cpus: 1,
            gang: false,
            others: Others::None,
            stagger: Nanos::ZERO,
            affinity: CpuSet::ALL,
            records_sleeps: false,
            vcpus: Vec::new(),
        }
    }

    /// Returns the reservation per CPU: an equal part of the slice in the same period.
    #[must_use]
    pub fn share(&self) -> Reservation {
        let cpus = self.cpus.max(1) as u64;
        Reservation { slice: Nanos::ns(self.reservation.slice.as_ns().div_ceil(cpus)), ..self.reservation }
    }
}
