//! [`NativeEdf`] and [`NativeBmq`]: policies in the kernel (`bpf/edf.bpf.c`, `bpf/bmq.bpf.c`), without decisions in user
//! space; and [`Fifo`], a reference for measurements.

use crate::bmq::Settings;
use crate::interface::{BmqCounts, Ending, Event};
use crate::recorder::Recorder;
use crate::scheduler::{Basis, Error, Scheduler, Set, ZERO, refused};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject, ProgramInput};
use orders::MEMBERS_MAX;
use sched::{CpuId, Instant, Limit, Nanos, Reservation};
use std::fmt;
use std::os::fd::AsFd;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The programs, compiled by the build script.
static EDF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/edf.bpf.o"));
static BMQ: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bmq.bpf.o"));
static FIFO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fifo.bpf.o"));

/// Size of a ring buffer that is not used: a page, the minimum. Unit: bytes.
const BUFFER_LEAST: u32 = 4_096;
/// Maximum length of a period: products of two times must have 64 bits. Unit: ns.
pub const PERIOD_MAX_NS: u64 = 0xffff_ffff;

/// A promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Number of the promise, at least 1.
    pub number: i32,
    /// The reservation.
    pub reservation: Reservation,
    /// The CPU to which the policy has assigned the promise.
    pub cpu: CpuId,
    /// Number of the first promise of its gang, which has begun or is this one; `None`: it is in no gang. The promises of a gang
    /// have one slice and one period, and their periods begin together.
    pub gang: Option<i32>,
}

/// A thread with a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The thread.
    pub tid: i32,
    /// Number of its promise.
    pub promise: i32,
    /// Whether the thread serves others of the promise, as a thread for I/O does: it precedes them when it wakes.
    pub is_helper: bool,
}

/// What the scheduler reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reported {
    /// The events of the threads with promises.
    Threads,
    /// The ends of the periods of the promises.
    Periods,
}

/// `struct promise` of `promise.h`. The program fills in the rest.
#[derive(Clone, Copy, IntoBytes, FromBytes, Immutable, KnownLayout)]
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
    runner: i32,
    runnable: i32,
    count: u32,
    throughout: u32,
    sibling: i32,
    must_bring: u32,
    since: u64,
    timer: [u64; 2],
    members: [i32; MEMBERS_MAX],
}

impl RawPromise {
    fn new(promise: &Promise) -> RawPromise {
        let Promise { reservation, cpu, .. } = promise;
        RawPromise {
            slice: reservation.slice.as_ns(),
            period: reservation.period.as_ns(),
            deadline: 0,
            blocked: 0,
            balance: 0,
            state: 0,
            is_hard: u8::from(reservation.limit == Limit::Hard),
            has_begun: 0,
            reserved: [0; 2],
            lock: 0,
            cpu: i32::try_from(cpu.index()).unwrap_or(0),
            runner: 0,
            runnable: 0,
            count: 0,
            throughout: 0,
            sibling: 0,
            must_bring: 0,
            since: 0,
            timer: [0; 2],
            members: [0; MEMBERS_MAX],
        }
    }
}

/// `struct order` of `interface.h`.
#[derive(Clone, Copy, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawOrder {
    kind: u32,
    promise: i32,
    tid: i32,
    is_helper: u32,
    sibling: i32,
    reserved: u32,
    slice: u64,
    period: u64,
}

/// `enum order_kind` of `interface.h`.
mod kind {
    pub(super) const BEGIN: u32 = 1;
    pub(super) const CHANGE: u32 = 2;
    pub(super) const JOIN: u32 = 3;
    pub(super) const LEAVE: u32 = 4;
    pub(super) const END: u32 = 5;
}

/// The loaded scheduler. It ends when this value is dropped or when the process ends.
pub struct NativeEdf {
    /// Position of the program that carries out orders.
    apply: usize,
    promises: MapHandle,
    scheduler: Scheduler,
}

impl fmt::Debug for NativeEdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeEdf").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl NativeEdf {
    /// Loads the scheduler and begins, without promises.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub fn load(reported: Reported, basis: Basis) -> Result<NativeEdf, Error> {
        // Without a recording, its buffer needs no memory.
        NativeEdf::load_with(reported, basis, |object| {
            let mut buffers = object.maps_mut().filter(|map| map.name() == "records");
            let mut buffer = buffers.next().expect("the object has the buffer");
            buffer.set_max_entries(BUFFER_LEAST).expect("it is not loaded yet");
        })
    }

    fn load_with(reported: Reported, basis: Basis, adapt: impl FnOnce(&mut OpenObject)) -> Result<NativeEdf, Error> {
        let scheduler = Scheduler::load(EDF, "edf", basis, adapt, |set| {
            set("reported", &ZERO, &u32::from(reported == Reported::Periods).to_ne_bytes())
        })?;
        Ok(NativeEdf { apply: scheduler.position("edf_apply"), promises: scheduler.map("promises")?, scheduler })
    }

    /// Loads the scheduler, which records what it decides, and begins, without promises.
    ///
    /// # Errors
    /// As those of [`load`](NativeEdf::load).
    pub fn load_recording(reported: Reported, basis: Basis) -> Result<(NativeEdf, Recorder), Error> {
        let kernel = NativeEdf::load_with(reported, basis, |object| {
            let mut constants = object.maps_mut().filter(|map| map.name() == ".rodata.record");
            let mut map = constants.next().expect("the object has the constant");
            let value = map.initial_value_mut().expect("it has a value");
            value[..size_of::<u32>()].copy_from_slice(&1_u32.to_ne_bytes());
        })?;
        let recorder = Recorder::new(&kernel.scheduler)?;
        Ok((kernel, recorder))
    }

    /// Begins a promise, at first without members.
    ///
    /// # Errors
    /// The kernel refuses: the number is in use, there are too many promises, or the gang has another reservation.
    pub fn begin(&self, promise: &Promise) -> Result<(), Error> {
        let raw = RawPromise::new(promise);
        let written = self.promises.update(promise.number.as_bytes(), raw.as_bytes(), MapFlags::NO_EXIST);
        written.map_err(refused("begin a promise"))?;
        let (number, sibling) = (promise.number, promise.gang.unwrap_or(0));
        let begun = self.order(RawOrder { kind: kind::BEGIN, promise: number, sibling, ..RawOrder::default() });
        if begun.is_err() {
            // Nothing refers to it yet.
            self.promises.delete(number.as_bytes()).map_err(refused("end a promise"))?;
        }
        begun
    }

    /// Changes the reservation of a promise and of those of its gang. Its limit stays.
    ///
    /// # Errors
    /// There is no such promise.
    pub fn change(&self, promise: i32, slice: Nanos, period: Nanos) -> Result<(), Error> {
        let (slice, period) = (slice.as_ns(), period.as_ns());
        self.order(RawOrder { kind: kind::CHANGE, promise, slice, period, ..RawOrder::default() })
    }

    /// Adds a member to its promise.
    ///
    /// # Errors
    /// There is no such promise or thread, the thread has a promise, or the promise has [`MEMBERS_MAX`] members.
    pub fn join(&self, member: &Member) -> Result<(), Error> {
        let Member { tid, promise, is_helper } = *member;
        let is_helper = u32::from(is_helper);
        self.order(RawOrder { kind: kind::JOIN, promise, tid, is_helper, ..RawOrder::default() })
    }

    /// Removes a thread, which may have ended, from a promise. It competes from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn leave(&self, promise: i32, tid: i32) -> Result<(), Error> {
        self.order(RawOrder { kind: kind::LEAVE, promise, tid, ..RawOrder::default() })
    }

    /// Ends a promise, whose members have left.
    ///
    /// # Errors
    /// There is no such promise.
    pub fn end(&self, promise: i32) -> Result<(), Error> {
        self.order(RawOrder { kind: kind::END, promise, ..RawOrder::default() })?;
        self.promises.delete(promise.as_bytes()).map_err(refused("end a promise"))
    }

    /// Returns the end of the present period of a promise.
    ///
    /// # Errors
    /// There is no such promise.
    pub fn period_end(&self, promise: i32) -> Result<Instant, Error> {
        let bytes = self.promises.lookup(promise.as_bytes(), MapFlags::ANY).map_err(refused("read a promise"))?;
        let raw = bytes.and_then(|bytes| RawPromise::read_from_bytes(&bytes).ok());
        raw.map(|raw| Instant::at_ns(raw.deadline)).ok_or(Error::Order(std::io::ErrorKind::NotFound.into()))
    }

    /// Ends the scheduler. What it has reported and recorded can still be read.
    pub fn finish(&mut self) {
        self.scheduler.end();
    }

    fn order(&self, mut order: RawOrder) -> Result<(), Error> {
        let input = ProgramInput { context_in: Some(order.as_mut_bytes()), ..ProgramInput::default() };
        let output = self.scheduler.program(self.apply).test_run(input).map_err(refused("give an order"))?;
        match output.return_value.cast_signed() {
            0 => Ok(()),
            error => Err(Error::Order(std::io::Error::from_raw_os_error(-error))),
        }
    }

    /// Adds a source of events to those of the scheduler, which have the number 0.
    ///
    /// # Errors
    /// The source cannot be waited for.
    pub fn add(&self, source: impl AsFd, number: u64) -> Result<(), Error> {
        self.scheduler.add(source, number)
    }

    /// Waits until `end` for events.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait(&self, end: Instant) -> Result<(), Error> {
        self.scheduler.wait(sys::clock::now(), end)
    }

    /// Adds the unread events to `to`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self, to: &mut Vec<Event>) -> Result<(), Error> {
        self.scheduler.read(to)
    }

    /// Returns the number of events that have found the buffer full. They lack in the counts of the user side only.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn lost(&self) -> Result<u64, Error> {
        self.scheduler.lost()
    }

    /// Returns why the scheduler has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.scheduler.ending()
    }
}

/// The policy `bmq`, for all threads of the kernel. It ends when this value is dropped or when the process ends.
#[derive(Debug)]
pub struct NativeBmq(Scheduler);

impl NativeBmq {
    /// Loads the scheduler and begins.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub fn load(settings: &Settings, basis: Basis) -> Result<NativeBmq, Error> {
        let write = |set: Set<'_>| set(".data.settings", &ZERO, settings.as_bytes());
        Ok(NativeBmq(Scheduler::load(BMQ, "bmq", basis, |_| {}, write)?))
    }

    /// Returns what the scheduler has done on the first `cpus` CPUs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counts(&self, cpus: u32) -> Result<BmqCounts, Error> {
        let (map, mut sum) = (self.0.map("cpus")?, BmqCounts::default());
        for cpu in 0..cpus {
            let bytes = map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).map_err(refused("read the counts"))?;
            let Some((of_cpu, _)) = bytes
                .and_then(|bytes| BmqCounts::read_from_prefix(&bytes).ok().map(|(counts, rest)| (counts, rest.len())))
            else {
                break;
            };
            sum.add(&of_cpu);
        }
        Ok(sum)
    }

    /// Returns why the scheduler has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.0.ending()
    }
}

/// First come, first served, for all threads of the kernel: a reference for measurements, and no policy of Tactus. It ends
/// when this value is dropped.
#[derive(Debug)]
pub struct Fifo(#[expect(dead_code, reason = "it ends the scheduler when it is dropped")] Scheduler);

impl Fifo {
    /// Loads the scheduler and begins.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub fn load() -> Result<Fifo, Error> {
        Ok(Fifo(Scheduler::load(FIFO, "fifo", Basis::now(), |_| {}, |_| Ok(()))?))
    }
}
