//! The trace of the kernel's scheduler: switches, wake-ups, timers of sleeping threads, new threads, and interrupts, by
//! tracepoints and perf events.
//!
//! Each CPU has a ring of records. Three traces differ in what they record, and in what wakes the reader:
//!
//! - [`SchedulerTrace::begin`] records all of this. A record of a thread that blocks wakes the reader, except for busy threads of the kernel. The other
//!   records wait for the next one of this kind. The reader's own switches never wake it: each would cause the next one.
//! - [`SchedulerTrace::of_switches`] records all switches and some wake-ups, and wakes no reader.
//! - [`SchedulerTrace::of_wake_ups`] records the wake-ups of some threads. Each of them wakes the reader.

mod filter;
mod layout;

use crate::{Error, Result, clock, file, private_mount};
use filter::{BLOCKED, IN_INTERRUPT, IN_SOFT_INTERRUPT};
use layout::{Field, Layout};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use perf_event_open_sys::ioctls;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::mount::MountAttrFlags;
use sched::{CpuId, Instant, Nanos};
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

/// Size of the ring of each CPU, for about two thousand records. Unit: bytes.
const BUFFER: usize = 64 * 4096;
/// The same for a reader that each record wakes.
const SMALL_BUFFER: usize = 4 * 4096;
/// The largest ring, for a reader that may wait for a busy CPU, and the size of all such rings together.
const LARGE_BUFFER: usize = 1_024 * 4096;
const LARGE_BUFFERS: usize = 16 * LARGE_BUFFER;
/// Time after which the record of an event is in its ring. Where both CPUs were busy, records came up to 25 us late.
pub const LATE_MOST: Nanos = Nanos::ms(1);
/// Maximum length of a record that is read. Unit: bytes.
const RECORD_MOST: usize = 256;
/// The parts of `prev_state` of a thread that has ended: `EXIT_DEAD` and `EXIT_ZOMBIE`.
const ENDED: u64 = 0x30;
// include/uapi/linux/perf_event.h.
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;

/// The cause of a wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// The thread with this tid.
    Thread(u32),
    /// The handler of an interrupt.
    Interrupt,
    /// A soft interrupt.
    SoftInterrupt,
}

/// An event of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Another thread runs on the CPU (`sched:sched_switch`). The tid of the idle thread is 0.
    Switch {
        /// Tid of the thread that ran.
        from: u32,
        /// Whether this thread blocks, instead of waiting for a CPU.
        blocks: bool,
        /// Whether this thread has ended. Nothing follows from it.
        ends: bool,
        /// Tid of the thread that runs from now on.
        to: u32,
    },
    /// A thread wakes (`sched:sched_waking`).
    Waking {
        /// Tid of the thread.
        tid: u32,
        /// CPU on which the thread ran last (`target_cpu`): the kernel has not chosen the next one yet.
        target: CpuId,
        /// Cause of the wake-up.
        by: Waker,
    },
    /// The running thread sets the timer that will wake it (`timer:hrtimer_start` of the function `hrtimer_wakeup`).
    Timer {
        /// Tid of the thread.
        tid: u32,
        /// Expiry on CLOCK_MONOTONIC. The expiry of a timer of CLOCK_REALTIME is converted with the present difference of
        /// the clocks.
        expiry: Instant,
    },
    /// A thread begins (`task:task_newtask`).
    Begin {
        /// Tid of the thread.
        tid: u32,
        /// Tid of the thread that forks it.
        parent: u32,
    },
    /// The handler of an interrupt of a device begins (`irq:irq_handler_entry`).
    Interrupt {
        /// Number of the interrupt, as in /proc/interrupts.
        number: u32,
    },
    /// A soft interrupt of a network or disk begins (`irq:softirq_entry`).
    SoftInterrupt {
        /// Whether received packets are processed (`NET_RX_SOFTIRQ`), rather than completed requests of disks
        /// (`BLOCK_SOFTIRQ`).
        is_network: bool,
    },
}

/// A record of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Instant of the event, on CLOCK_MONOTONIC.
    pub at: Instant,
    /// CPU of the event.
    pub cpu: CpuId,
    /// The event.
    pub event: Event,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Switch,
    Waking,
    Timer,
    Begin,
    Interrupt,
    SoftInterrupt,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Switch, Kind::Waking, Kind::Timer, Kind::Begin, Kind::Interrupt, Kind::SoftInterrupt];

    /// Returns the tracepoint, with the fields that are read after the common ones.
    const fn tracepoint(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Kind::Switch => ("sched/sched_switch", &["prev_pid", "prev_state", "next_pid"]),
            Kind::Waking => ("sched/sched_waking", &["pid", "target_cpu"]),
            Kind::Timer => ("timer/hrtimer_start", &["expires"]),
            Kind::Begin => ("task/task_newtask", &["pid"]),
            Kind::Interrupt => ("irq/irq_handler_entry", &["irq"]),
            Kind::SoftInterrupt => ("irq/softirq_entry", &["vec"]),
        }
    }
}

/// A tracepoint of the running kernel.
#[derive(Clone, Debug)]
struct Point {
    kind: Kind,
    id: u64,
    flags: Field,
    pid: Field,
    fields: Vec<Field>,
}

impl Point {
    /// Looks up the tracepoints of these kinds.
    fn find_all(kinds: &[Kind]) -> Result<Vec<Point>> {
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let tracefs = private_mount::open("tracefs", None, attributes)
            .map_err(|error| Error::from(error, "mount tracefs", "run as root, on a kernel that is not locked down"))?;
        kinds.iter().map(|kind| Point::find(&tracefs, *kind)).collect()
    }

    fn find(tracefs: &OwnedFd, kind: Kind) -> Result<Point> {
        let (name, wanted) = kind.tracepoint();
        let path = format!("events/{name}/format");
        let absent = |why: String| Error::Absent {
            what: format!("the tracepoint {}", name.replace('/', ":")),
            why,
            remedy: "use Linux 5.11 or newer with CONFIG_FTRACE",
        };
        let text = file::read_in(tracefs, &path).map_err(|error| absent(format!("cannot read {path}: {error}")))?;
        let layout = Layout::parse(&text).ok_or_else(|| absent(format!("{path} has no number")))?;
        let field = |name: &str| layout.field(name).ok_or_else(|| absent(format!("{path} has no field {name}")));
        let fields = wanted.iter().map(|name| field(name)).collect::<Result<Vec<Field>>>()?;
        Ok(Point { kind, id: layout.id, flags: field("common_flags")?, pid: field("common_pid")?, fields })
    }

    /// Returns the event of a record on `cpu`. `None`: the record is too short, or has numbers out of range.
    fn event(&self, record: &[u8]) -> Option<Event> {
        let number = |nth: usize| self.fields.get(nth)?.read(record);
        let tid = |nth: usize| u32::try_from(number(nth)?).ok();
        let running = || u32::try_from(self.pid.read(record)?).ok();
        let event = match self.kind {
            Kind::Switch => {
                let state = number(1)?;
                let (blocks, ends) = (state & BLOCKED != 0, state & ENDED != 0);
                Event::Switch { from: tid(0)?, blocks, ends, to: tid(2)? }
            }
            Kind::Waking => {
                let flags = self.flags.read(record)?;
                let by = match (flags & IN_INTERRUPT != 0, flags & IN_SOFT_INTERRUPT != 0) {
                    (true, _) => Waker::Interrupt,
                    (false, true) => Waker::SoftInterrupt,
                    (false, false) => Waker::Thread(running()?),
                };
                Event::Waking { tid: tid(0)?, target: cpu(number(1)?)?, by }
            }
            Kind::Timer => Event::Timer { tid: running()?, expiry: monotonic(number(0)?)? },
            Kind::Begin => Event::Begin { tid: tid(0)?, parent: running()? },
            Kind::Interrupt => Event::Interrupt { number: tid(0)? },
            Kind::SoftInterrupt => Event::SoftInterrupt { is_network: number(0)? == 3 },
        };
        Some(event)
    }
}

fn cpu(number: u64) -> Option<CpuId> {
    usize::try_from(number).ok().filter(|&cpu| cpu < sched::id::CPUS_MAX).map(CpuId::new)
}

/// Returns an expiry on CLOCK_MONOTONIC, from an expiry on this clock or on CLOCK_REALTIME, whichever is nearer. `None`: it is out of
/// range.
fn monotonic(expires_ns: u64) -> Option<Instant> {
    let (now, real) = (clock::now().as_ns(), clock::real_now_ns());
    let is_real = expires_ns.abs_diff(real) < expires_ns.abs_diff(now);
    let ns = if is_real { expires_ns.saturating_sub(real.saturating_sub(now)) } else { expires_ns };
    (ns <= sched::time::SPAN_MAX.as_ns()).then(|| Instant::at_ns(ns))
}

/// An event to record.
struct Wanted {
    kind: Kind,
    /// The filter of its records; empty: none.
    filter: String,
    /// Whether each record wakes the reader.
    wakes: bool,
}

/// The records of a CPU.
struct Ring {
    sampler: Sampler,
    /// Instant of the last record that was read.
    last: Instant,
    /// The other events with records in the same ring. They end with their descriptors.
    _others: Vec<Counter>,
}

/// The trace of the scheduler on some CPUs, since its begin.
pub struct SchedulerTrace {
    points: Vec<Point>,
    rings: Vec<Ring>,
    /// Records that are later than [`LATE_MOST`] before the last reading. `None`: records are in order within a reading only.
    later: Option<Vec<Record>>,
    /// The earliest instant after which records were lost, and which no reading has returned.
    incomplete: Option<Instant>,
    /// Number of records that were lost because they were not read in time.
    pub lost: u64,
}

impl std::fmt::Debug for SchedulerTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchedulerTrace").field("cpus", &self.rings.len()).field("lost", &self.lost).finish()
    }
}

impl SchedulerTrace {
    /// Records all threads on these CPUs, which are online, from now on. `reader`: tid of the thread that reads the records.
    ///
    /// # Errors
    /// The caller lacks the privilege (CAP_PERFMON, and root for tracefs), or the kernel lacks a tracepoint.
    pub fn begin(cpus: &[CpuId], reader: u32) -> Result<SchedulerTrace> {
        let points = Point::find_all(&Kind::ALL)?;
        let blocks = filter::of_blocks(reader);
        let mut wanted = vec![Wanted { kind: Kind::Switch, filter: blocks.clone(), wakes: true }];
        for kind in Kind::ALL {
            let filter = match kind {
                Kind::Switch => format!("!({blocks}) && {}", filter::of_news(reader)),
                Kind::Waking => format!("pid != {reader} && {}", filter::of_loud("comm")),
                Kind::Timer => filter_of_sleepers(&points, cpus)?,
                Kind::SoftInterrupt => "vec == 3 || vec == 4".to_string(),
                Kind::Begin | Kind::Interrupt => String::new(),
            };
            wanted.push(Wanted { kind, filter, wakes: false });
        }
        SchedulerTrace::record(points, cpus, &wanted, BUFFER)
    }

    /// Records all switches on these CPUs, which are online, and the wake-ups of the threads in `woken`, from now on. No record wakes a
    /// reader. Readings return the records of all CPUs in the order of their instants, up to [`LATE_MOST`] before the reading.
    ///
    /// # Errors
    /// As for [`SchedulerTrace::begin`].
    pub fn of_switches(cpus: &[CpuId], woken: &[u32]) -> Result<SchedulerTrace> {
        let points = Point::find_all(&[Kind::Switch, Kind::Waking])?;
        let mut wanted = vec![Wanted { kind: Kind::Switch, filter: String::new(), wakes: false }];
        if !woken.is_empty() {
            wanted.push(Wanted { kind: Kind::Waking, filter: filter::of_threads(woken), wakes: false });
        }
        // A ring has a power of two of pages.
        let share = (LARGE_BUFFERS / cpus.len().max(1)).clamp(BUFFER, LARGE_BUFFER);
        let trace = SchedulerTrace::record(points, cpus, &wanted, 1 << share.ilog2())?;
        Ok(SchedulerTrace { later: Some(Vec::new()), ..trace })
    }

    /// Records the wake-ups of the threads in `woken` on these CPUs, which are online, from now on, except those by the threads in
    /// `except`. Each record wakes the reader.
    ///
    /// # Errors
    /// As for [`SchedulerTrace::begin`].
    pub fn of_wake_ups(cpus: &[CpuId], woken: &[u32], except: &[u32]) -> Result<SchedulerTrace> {
        let points = Point::find_all(&[Kind::Waking])?;
        let wanted = [Wanted { kind: Kind::Waking, filter: filter::of_wake_ups(woken, except), wakes: true }];
        SchedulerTrace::record(points, cpus, &wanted, SMALL_BUFFER)
    }

    fn record(points: Vec<Point>, cpus: &[CpuId], wanted: &[Wanted], buffer: usize) -> Result<SchedulerTrace> {
        let ring = |&cpu: &CpuId| Ring::begin(cpu, &points, wanted, buffer).map_err(|error| Ring::refused(cpu, error));
        let rings = cpus.iter().map(ring).collect::<Result<Vec<Ring>>>()?;
        Ok(SchedulerTrace { points, rings, later: None, incomplete: None, lost: 0 })
    }

    /// Returns the descriptors that become readable when a record wakes the reader, or a ring is half full.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the sampler, which `self` owns and which outlives the borrow.
        self.rings.iter().map(|ring| unsafe { BorrowedFd::borrow_raw(ring.sampler.as_raw_fd()) })
    }

    /// Appends the unread records to `records`, ordered by their instants. Returns the earliest instant after which records of a CPU were lost;
    /// `None`: none were. This instant may be before those of earlier readings.
    pub fn read(&mut self, records: &mut Vec<Record>) -> Option<Instant> {
        // Later records of a CPU that is read first would precede earlier ones of the others.
        let until = Instant::at_ns(clock::now().as_ns().saturating_sub(LATE_MOST.as_ns()));
        let begin = records.len();
        records.extend(self.later.iter_mut().flat_map(|later| later.drain(..)));
        let mut incomplete = self.incomplete.take();
        for ring in &mut self.rings {
            while let Some(record) = ring.sampler.next_record() {
                let mut bytes = [0; RECORD_MOST];
                let body = whole(record.data(), &mut bytes);
                match record.ty() {
                    RECORD_LOST => {
                        self.lost += long(body, 8).unwrap_or(0);
                        incomplete = incomplete.into_iter().chain([ring.last]).min();
                    }
                    RECORD_SAMPLE => {
                        if let Some(record) = sample(&self.points, body) {
                            ring.last = record.at;
                            records.push(record);
                        }
                    }
                    _ => {}
                }
            }
        }
        records[begin..].sort_by_key(|record| record.at);
        if let Some(later) = &mut self.later {
            let present = begin + records[begin..].partition_point(|record| record.at <= until);
            later.extend(records.drain(present..));
            // A loss comes with the records before it.
            self.incomplete = incomplete.filter(|at| *at > until);
            incomplete = incomplete.filter(|at| *at <= until);
        }
        incomplete
    }
}

/// Returns the body of a record, which is in two parts where the ring ends. Copies the parts to `bytes` then.
fn whole<'b>(parts: &[&'b [u8]], bytes: &'b mut [u8; RECORD_MOST]) -> &'b [u8] {
    if let [part] = parts {
        return part;
    }
    let mut length = 0;
    for part in parts {
        let taken = part.len().min(bytes.len() - length);
        bytes[length..][..taken].copy_from_slice(&part[..taken]);
        length += taken;
    }
    &bytes[..length]
}

/// Parses the body of a sample: instant, CPU, padding, length of the record, and the record.
fn sample(points: &[Point], body: &[u8]) -> Option<Record> {
    let at = Instant::at_ns(long(body, 0)?);
    let on = cpu(u64::from(word(body, 8)?))?;
    let record = body.get(20..)?;
    let id = u64::from(u16::from_ne_bytes(record.get(..2)?.try_into().ok()?));
    let point = points.iter().find(|point| point.id == id)?;
    Some(Record { at, cpu: on, event: point.event(record)? })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Ring {
    fn begin(cpu: CpuId, points: &[Point], wanted: &[Wanted], buffer: usize) -> io::Result<Ring> {
        let begin = |wanted: &Wanted| {
            let point = points.iter().find(|point| point.kind == wanted.kind).expect("what is wanted was found");
            filtered(counter(cpu, point, wanted.wakes)?, &wanted.filter)
        };
        let (first, others) = wanted.split_first().expect("something is wanted");
        let mut sampler = begin(first)?.sampled(buffer)?;
        let mut counters = Vec::new();
        for other in others {
            let mut counter = begin(other)?;
            // SAFETY: both descriptors are open events of the same CPU. The call reads no memory.
            checked(unsafe { ioctls::SET_OUTPUT(counter.as_raw_fd(), sampler.as_raw_fd()) })?;
            counter.enable()?;
            counters.push(counter);
        }
        sampler.as_counter_mut().enable()?;
        Ok(Ring { sampler, last: Instant::ZERO, _others: counters })
    }

    fn refused(cpu: CpuId, error: io::Error) -> Error {
        Error::from(error, format!("trace the scheduler on CPU {cpu}"), "run as root or with CAP_PERFMON")
    }
}

/// Returns the filter for timers of sleeping threads. Linux knows the name of the function in a filter since 6.4
/// (`FILTER_PRED_FN_FUNCTION`, kernel/trace/trace_events_filter.c); older ones take its address.
fn filter_of_sleepers(points: &[Point], cpus: &[CpuId]) -> Result<String> {
    const BY_NAME: &str = "function.function == hrtimer_wakeup";
    let Some(&cpu) = cpus.first() else { return Ok(BY_NAME.to_string()) };
    let of_timers = points.iter().find(|point| point.kind == Kind::Timer).expect("it is one of all");
    let trial = counter(cpu, of_timers, false).map_err(|error| Ring::refused(cpu, error))?;
    if filtered(trial, BY_NAME).is_ok() {
        return Ok(BY_NAME.to_string());
    }
    let symbols = file::read("/proc/kallsyms")?;
    let address = symbols.lines().find_map(|line| line.strip_suffix(" hrtimer_wakeup")?.split(' ').next());
    let address = address.filter(|address| address.bytes().any(|digit| digit != b'0')).ok_or(Error::Absent {
        what: "the address of hrtimer_wakeup".to_string(),
        why: "/proc/kallsyms does not show it".to_string(),
        remedy: "run as root, and set kernel.kptr_restrict to 1 or less",
    })?;
    Ok(format!("function == 0x{address}"))
}

fn counter(cpu: CpuId, point: &Point, wakes: bool) -> io::Result<Counter> {
    let mut builder = Builder::new(Tracepoint::with_id(point.id));
    builder.any_pid().one_cpu(cpu.index()).include_kernel().include_hv().sample_period(1).clockid(Clock::MONOTONIC);
    builder.sample(SampleFlag::TIME | SampleFlag::CPU | SampleFlag::RAW);
    if wakes {
        builder.wakeup_events(1);
    } else {
        builder.wakeup_watermark(BUFFER / 2);
    }
    builder.build()
}

/// Sets the filter of an event; empty: none.
fn filtered(counter: Counter, filter: &str) -> io::Result<Counter> {
    if filter.is_empty() {
        return Ok(counter);
    }
    let text = CString::new(filter)?;
    // SAFETY: the descriptor is an open event, and the kernel only reads the string, up to its end.
    checked(unsafe { ioctls::SET_FILTER(counter.as_raw_fd(), text.as_ptr().cast_mut()) })?;
    Ok(counter)
}

fn checked(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
