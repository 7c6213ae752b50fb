//! [`NativeEdf`]: the policy `edf` in the kernel (`bpf/edf.bpf.c`), without decisions in user space.

use crate::interface::{Ending, Event};
use crate::scheduler::{Error, Scheduler};
use sched::{CpuId, Limit, Reservation};
use zerocopy::{Immutable, IntoBytes};

/// The programs, compiled by the build script.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/edf.bpf.o"));

/// The knobs of the Rust policy whose rules the program has.
pub const KNOBS: [(&str, &str); 2] = [("placement", "partitioned"), ("rest", "renew")];
/// Maximum length of a period: products of two times must have 64 bits. Unit: ns.
pub const PERIOD_MAX_NS: u64 = 0xffff_ffff;

/// A promise to a thread.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// The thread.
    pub tid: i32,
    /// The reservation.
    pub reservation: Reservation,
    /// The CPU to which the policy has assigned the thread.
    pub cpu: CpuId,
}

/// `struct promise` of `edf.bpf.c`. The program fills in the rest.
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
struct RawPromise {
    slice: u64,
    period: u64,
    deadline: u64,
    blocked: u64,
    balance: i64,
    state: u32,
    is_hard: u8,
    has_begun: u8,
    reserved: [u8; 2],
    lock: u32,
    cpu: i32,
    on: i32,
    is_blocked: u16,
    is_ready: u16,
    since: u64,
    timer: [u64; 2],
}

impl RawPromise {
    fn new(promise: &Promise) -> RawPromise {
        let Promise { reservation, cpu, .. } = promise;
        RawPromise {
            slice: reservation.slice.as_ns(),
            period: reservation.period.as_ns(),
            is_hard: u8::from(reservation.limit == Limit::Hard),
            cpu: i32::try_from(cpu.index()).unwrap_or(0),
            ..RawPromise::default()
        }
    }
}

/// The loaded scheduler. It ends when this value is dropped or when the process ends.
#[derive(Debug)]
pub struct NativeEdf(Scheduler);

impl NativeEdf {
    /// Loads the scheduler and begins. The promises must fit, and each thread must be allowed on its CPU.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub fn load(promises: &[Promise]) -> Result<NativeEdf, Error> {
        let scheduler = Scheduler::load(PROGRAMS, "edf", |set| {
            promises.iter().try_for_each(|it| set("promises", it.tid.as_bytes(), RawPromise::new(it).as_bytes()))
        })?;
        Ok(NativeEdf(scheduler))
    }

    /// Adds the unread events of promised threads to `to`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self, to: &mut Vec<Event>) -> Result<(), Error> {
        self.0.read(to)
    }

    /// Returns why the scheduler has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.0.ending()
    }
}
