//! Forks: new threads and processes, reported by the kernel as they start.

use crate::switches::refused_for;
use crate::{Error, Result};
use perf_event::events::Software;
use perf_event::{Builder, Sampler};
use rustix::fd::{AsFd, BorrowedFd};
use sched::CpuId;
use std::os::fd::AsRawFd;

/// Buffer size in bytes, enough for 128 records of forks and exits. If the buffer is full, new records are lost.
const BUFFER: usize = 4096;
/// `PERF_RECORD_EXIT` and `PERF_RECORD_FORK`, include/uapi/linux/perf_event.h.
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;

/// Forks of one thread and its descendants on one CPU. The file descriptor becomes readable when one of them forks or
/// ends.
pub struct Children {
    sampler: Sampler,
}

impl std::fmt::Debug for Children {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Children").field("descriptor", &self.sampler.as_raw_fd()).finish()
    }
}

impl Children {
    /// Records the forks of thread `tid` on CPU `cpu` from now on.
    ///
    /// # Errors
    /// The thread has ended, the caller lacks permission or privilege, or the kernel has no perf events.
    pub fn of_thread(tid: u32, cpu: CpuId) -> Result<Children> {
        let raw = i32::try_from(tid).map_err(|_| Error::Gone(tid))?;
        let mut builder = Builder::new(Software::DUMMY);
        // A buffer collects the records of inherited events only if the buffer belongs to one CPU.
        builder.task(true).wakeup_watermark(1).inherit(true).observe_pid(raw).one_cpu(cpu.index());
        let begun = builder.build().and_then(|counter| counter.sampled(BUFFER)).and_then(|mut sampler| {
            sampler.as_counter_mut().enable()?;
            Ok(Children { sampler })
        });
        begun.map_err(|error| refused_for(tid, error, format!("watch the forks of thread {tid}")))
    }

    /// Appends to `processes` the pids of the processes that were forked since the last call, and removes the pids of
    /// processes whose first thread has ended. A process is reported even if its parent has ended. Returns whether a thread
    /// has started or ended since the last call. Makes no system call.
    pub fn read_into(&mut self, processes: &mut Vec<u32>) -> bool {
        let mut has_changed = false;
        while let Some(record) = self.sampler.next_record() {
            has_changed = true;
            let mut bytes = [0; 16];
            let copied = record.data().iter().copied().flatten().copied().take(bytes.len());
            copied.zip(&mut bytes).for_each(|(byte, place)| *place = byte);
            // Fields of a record: pid, pid of the parent, tid, tid of the parent thread.
            let word = |nth: usize| bytes[4 * nth..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
            let (pid, tid) = (word(0), word(2));
            match record.ty() {
                RECORD_FORK if pid == tid => processes.push(pid),
                RECORD_EXIT if pid == tid => processes.retain(|&process| process != pid),
                _ => {}
            }
        }
        has_changed
    }
}

impl AsFd for Children {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the sampler keeps the descriptor open. `self` owns the sampler, so the sampler outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.sampler.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::event::Waiting;
    use sched::{CpuSet, Nanos};

    /// Confines the calling thread to one CPU, and records its forks there. Returns `None` if the kernel does not
    /// permit recording.
    fn ours() -> Option<(Children, Waiting)> {
        let me = crate::thread::current();
        let cpu = crate::affinity::get(me).unwrap().first().unwrap();
        crate::affinity::set(me, &CpuSet::one(cpu)).unwrap();
        let children = match Children::of_thread(me, cpu) {
            Ok(children) => children,
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                eprintln!("SKIPPED: {refused}");
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let waiting = Waiting::new().unwrap();
        waiting.add(&children, 7).unwrap();
        assert_eq!(waiting.next(now() + Nanos::ms(2)).unwrap(), None);
        Some((children, waiting))
    }

    #[test]
    fn what_a_thread_begins_is_told_at_once() {
        let Some((mut children, waiting)) = ours() else { return };
        std::thread::spawn(|| ()).join().unwrap();
        assert_eq!(waiting.next(now() + Nanos::s(5)).unwrap(), Some(7));
        let mut forked = Vec::new();
        children.read_into(&mut forked);
        assert!(forked.is_empty(), "a thread is no process: {forked:?}");
        assert_eq!(waiting.next(now() + Nanos::ms(2)).unwrap(), None);
        assert!(matches!(Children::of_thread(u32::MAX >> 2, CpuId::new(0)), Err(Error::Gone(_))));
    }

    #[test]
    fn a_process_whose_parent_is_gone_is_told_of_too() {
        let Some((mut children, waiting)) = ours() else { return };
        let script = "sleep 20 >/dev/null 2>&1 & echo $!";
        let said = std::process::Command::new("sh").args(["-c", script]).output().unwrap();
        let orphan: u32 = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
        let end = now() + Nanos::s(5);
        let mut forked = Vec::new();
        while forked != [orphan] {
            waiting.next(end).unwrap();
            children.read_into(&mut forked);
            assert!(now() < end, "{forked:?}, and not {orphan}");
        }
        let orphan = crate::process::Process::open(orphan).unwrap();
        orphan.kill().unwrap();
        assert!(orphan.ends_within(Nanos::s(5)));
    }
}
