//! Context switches as they happen: the kernel records when a thread begins to run on a CPU or leaves a CPU, and the
//! reason.
//!
//! A watcher that is woken at every switch causes further switches. On the CPU of the watched thread, the watcher
//! preempts the thread and sleeps again. The thread then returns to the CPU, and this switch wakes the watcher again,
//! without end. A watcher therefore chooses the cause of its wake-ups ([`Wake`]): the thread leaves a CPU, or the buffer
//! is half full. To wait for one switch, use [`Arrivals`](crate::arrivals::Arrivals).

use crate::{Error, Result, file};
use perf_event::events::Software;
use perf_event::{Builder, Clock, Sampler};
use rustix::fd::{AsFd, BorrowedFd};
use sched::{CpuId, Instant};
use std::io;
use std::os::fd::AsRawFd;

// include/uapi/linux/perf_event.h.
const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Buffer size in bytes, for about a thousand switches.
const BUFFER: usize = 8 * 4096;

/// Condition under which the file descriptor becomes readable. Records can be read at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// The buffer is half full.
    Seldom,
    /// The thread has left a CPU.
    OnLeave,
}

/// Direction and reason of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The thread began to run on the CPU.
    In,
    /// The thread left the CPU because it blocked.
    Blocked,
    /// The thread was preempted.
    Preempted,
}

/// A switch of a thread to or from a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Instant of the switch, by the monotonic clock.
    pub at: Instant,
    /// CPU of the switch.
    pub cpu: CpuId,
    /// ID of the thread; 0 is the idle thread.
    pub tid: u32,
    /// Direction and reason of the switch.
    pub turn: Turn,
}

/// A record from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A switch.
    Switch(Switch),
    /// Number of switches that were lost because they were not read in time.
    Lost(u64),
}

/// The switches of a thread or of a CPU. The file descriptor becomes readable as [`Wake`] defines.
pub struct Switches {
    sampler: Sampler,
}

impl std::fmt::Debug for Switches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switches").field("descriptor", &self.sampler.as_raw_fd()).finish()
    }
}

impl Switches {
    /// Records the switches of thread `tid` from now on.
    ///
    /// # Errors
    /// The thread has ended, the caller lacks permission or privilege (CAP_PERFMON for a wake-up when the thread leaves
    /// a CPU), or the kernel has no perf events.
    pub fn of_thread(tid: u32, wake: Wake) -> Result<Switches> {
        let raw = i32::try_from(tid).map_err(|_| Error::Gone(tid))?;
        let mut builder = match wake {
            Wake::Seldom => Builder::new(Software::DUMMY),
            // The kernel counts this event when a thread leaves a CPU.
            Wake::OnLeave => Builder::new(Software::CONTEXT_SWITCHES),
        };
        match wake {
            Wake::Seldom => &mut builder,
            Wake::OnLeave => builder.include_kernel().sample_period(1).wakeup_events(1),
        };
        builder.observe_pid(raw).any_cpu();
        Switches::begin(builder)
            .map_err(|error| refused_for(tid, error, format!("see the context switches of thread {tid}")))
    }

    /// Records the switches of all threads on CPU `cpu` from now on. The watcher is not woken at each switch, because
    /// its own switches may be on that CPU, too.
    ///
    /// # Errors
    /// The caller lacks the privilege, the CPU does not exist, or the kernel has no perf events.
    pub fn on_cpu(cpu: CpuId) -> Result<Switches> {
        let mut builder = Builder::new(Software::DUMMY);
        builder.any_pid().one_cpu(cpu.index());
        Switches::begin(builder).map_err(|error| refused(error, format!("see the context switches on CPU {cpu}")))
    }

    fn begin(mut builder: Builder) -> io::Result<Switches> {
        builder.context_switch(true).sample_id_all(true).clockid(Clock::MONOTONIC);
        builder.sample(perf_event::SampleFlag::TID | perf_event::SampleFlag::TIME | perf_event::SampleFlag::CPU);
        let mut switches = Switches { sampler: builder.build()?.sampled(BUFFER)? };
        switches.sampler.as_counter_mut().enable()?;
        Ok(switches)
    }

    /// Returns the oldest unread record. Does not allocate memory.
    pub fn next_record(&mut self) -> Option<Record> {
        loop {
            let record = self.sampler.next_record()?;
            let mut bytes = [0; 40];
            let copied = record.data().iter().copied().flatten().copied().take(bytes.len());
            let length = copied.zip(&mut bytes).map(|(byte, place)| *place = byte).count();
            if let Some(record) = parse(record.ty(), record.misc(), &bytes[..length]) {
                return Some(record);
            }
        }
    }
}

impl AsFd for Switches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the sampler, which `self` owns and which outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.sampler.as_raw_fd()) }
    }
}

/// Parses the body of a record, which ends with the requested identification fields: pid, tid, time, CPU, and padding.
fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let identified = match kind {
        RECORD_LOST => return Some(Record::Lost(long(8)?)),
        RECORD_SWITCH => 0,
        // The pid and tid of the other thread of the switch precede the identification fields.
        RECORD_SWITCH_CPU_WIDE => 8,
        _ => return None,
    };
    let turn = match (misc & MISC_SWITCH_OUT != 0, misc & MISC_SWITCH_OUT_PREEMPT != 0) {
        (false, _) => Turn::In,
        (true, false) => Turn::Blocked,
        (true, true) => Turn::Preempted,
    };
    let cpu = usize::try_from(word(identified + 16)?).ok().filter(|&cpu| cpu < sched::id::CPUS_MAX)?;
    let (tid, at) = (word(identified + 4)?, Instant::at_ns(long(identified + 8)?));
    Some(Record::Switch(Switch { at, cpu: CpuId::new(cpu), tid, turn }))
}

/// Returns the restriction of perf events for unprivileged users. At 2, users may record their own threads; at 3 and
/// above, no threads.
///
/// # Errors
/// The kernel has no perf events.
pub fn paranoia() -> Result<i32> {
    file::value("/proc/sys/kernel/perf_event_paranoid", "a number")
}

/// Returns the error of an event of thread `tid`.
pub(crate) fn refused_for(tid: u32, error: io::Error, what: String) -> Error {
    if error.raw_os_error() == Some(libc::ESRCH) { Error::Gone(tid) } else { refused(error, what) }
}

fn refused(error: io::Error, what: String) -> Error {
    let remedy =
        "run with CAP_PERFMON or CAP_SYS_ADMIN; for threads of this user, set kernel.perf_event_paranoid to 1 or less";
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => Error::Absent {
            what: "context switch events".to_string(),
            why: format!("cannot {what}: {error}"),
            remedy: "use Linux 4.3 or newer with CONFIG_PERF_EVENTS",
        },
        _ => Error::from(error, what, remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};
    use crate::{affinity, clock, event};
    use sched::{CpuSet, Nanos};

    /// Waits up to 10 s for at least `most` switches, and returns the switches; `None` if the kernel does not permit
    /// recording.
    fn read(begun: Result<Switches>, most: usize, wait: impl Fn(&Switches)) -> Option<Vec<Switch>> {
        let mut switches = match begun {
            Ok(switches) => switches,
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                eprintln!("SKIPPED: {refused}");
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let (mut all, end) = (Vec::new(), clock::now() + Nanos::s(10));
        while all.len() < most && clock::now() < end {
            wait(&switches);
            while let Some(record) = switches.next_record() {
                match record {
                    Record::Switch(switch) => all.push(switch),
                    Record::Lost(count) => eprintln!("{count} were lost"),
                }
            }
        }
        Some(all)
    }

    fn on_own_cpu() -> (Child, CpuId) {
        let child = Child::start(Work::Spin { busy: Nanos::us(500), idle: Nanos::us(500) }).unwrap();
        let cpu = affinity::get(child.pid()).unwrap().first().unwrap();
        affinity::set(child.pid(), &CpuSet::one(cpu)).unwrap();
        (child, cpu)
    }

    #[test]
    fn a_child_is_seen_whenever_it_leaves_also_from_its_own_cpu() {
        let (child, cpu) = on_own_cpu();
        let watch = || {
            // Run the watcher on the CPU of the thread. On another CPU, the watcher would not cause switches of the
            // thread.
            affinity::set(crate::thread::current(), &CpuSet::one(cpu)).unwrap();
            let waiting = event::Waiting::new().unwrap();
            let begun = Switches::of_thread(child.pid(), Wake::OnLeave);
            if let Ok(switches) = &begun {
                waiting.add(switches, 0).unwrap();
            }
            read(begun, 20, |_| assert_eq!(waiting.next(clock::now() + Nanos::s(5)).unwrap(), Some(0)))
        };
        let Some(switches) = std::thread::scope(|scope| scope.spawn(watch).join().unwrap()) else { return };
        assert!(switches.iter().all(|switch| switch.tid == child.pid()));
        assert!(switches.is_sorted_by_key(|switch| switch.at) && switches[0].at <= clock::now());
        assert!(switches.windows(2).all(|two| (two[0].turn == Turn::In) != (two[1].turn == Turn::In)), "{switches:#?}");
        assert!(switches.iter().any(|switch| switch.turn == Turn::Blocked), "{switches:#?}");
        assert!(matches!(Switches::of_thread(u32::MAX >> 2, Wake::OnLeave), Err(Error::Gone(_))));
    }

    #[test]
    fn all_threads_on_a_cpu_are_recorded() {
        let (child, cpu) = on_own_cpu();
        let Some(switches) = read(Switches::on_cpu(cpu), 50, |_| clock::sleep(Nanos::ms(5))) else { return };
        assert!(switches.iter().all(|switch| switch.cpu == cpu));
        assert!(switches.iter().any(|switch| switch.tid == child.pid() && switch.turn == Turn::In), "{switches:#?}");
        assert!(switches.iter().any(|switch| switch.tid != child.pid()));
        assert!(Switches::on_cpu(CpuId::new(sched::id::CPUS_MAX - 1)).is_err());
    }

    #[test]
    fn a_thread_is_recorded_without_waking_its_watcher() {
        let (child, _) = on_own_cpu();
        let begun = Switches::of_thread(child.pid(), Wake::Seldom);
        let Some(switches) = read(begun, 10, |_| clock::sleep(Nanos::ms(2))) else { return };
        assert!(switches.iter().all(|switch| switch.tid == child.pid()));
        assert!(switches.iter().any(|switch| switch.turn == Turn::Blocked), "{switches:#?}");
    }

    #[test]
    fn records_are_read_or_left_out() {
        let mut body = Vec::new();
        body.extend([7_u32, 42].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend(1_000_u64.to_ne_bytes());
        body.extend([3_u32, 0].iter().flat_map(|word| word.to_ne_bytes()));
        let switch = Switch { at: Instant::at_ns(1_000), cpu: CpuId::new(3), tid: 42, turn: Turn::Preempted };
        let out = MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT;
        assert_eq!(parse(RECORD_SWITCH, out, &body), Some(Record::Switch(switch)));
        let wide = [&[0; 8][..], &body].concat();
        let inward = Switch { turn: Turn::In, ..switch };
        assert_eq!(parse(RECORD_SWITCH_CPU_WIDE, 0, &wide), Some(Record::Switch(inward)));
        assert_eq!(parse(RECORD_SWITCH, MISC_SWITCH_OUT, &body[..12]), None);
        let lost = [1_u64, 5].map(u64::to_ne_bytes).concat();
        assert_eq!(parse(RECORD_LOST, 0, &lost), Some(Record::Lost(5)));
        assert_eq!(parse(9, 0, &body), None);
    }
}
