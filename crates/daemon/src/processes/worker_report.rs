//! [`WorkerReport`]: the report of a worker. In the pipe, a report is a sequence of 64-bit words, little-endian.

use sched::{Instant, Nanos};
use std::io::{self, Write};

/// Maximum number of jobs that a worker records one by one (24 MB). Further jobs are only counted.
pub const JOBS_MAX: u64 = 1_000_000;

/// A worker's message that it is ready.
pub(super) const READY: u64 = u64::from_le_bytes(*b"tactus 1");
/// A completed job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JobRecord {
    pub(super) released: Instant,
    pub(super) woke: Option<Instant>,
    pub(super) done: Instant,
}

/// Number of words before the jobs.
const HEAD: usize = 4;
/// Number of words of a job.
const JOB: usize = 3;

/// The report of a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WorkerReport {
    /// CPU time from the start to the end of the work.
    pub(super) cpu_time: Nanos,
    /// Instant when the work ended.
    pub(super) end: Instant,
    /// Number of completed jobs that had no room in the report.
    pub(super) lost: u64,
    /// The first completed jobs, in order.
    jobs: Vec<JobRecord>,
    room: usize,
}

impl WorkerReport {
    /// Returns an empty report with preallocated memory for `room` jobs.
    pub(super) fn with_room(room: usize) -> WorkerReport {
        let some = JobRecord { released: Instant::NEVER, woke: Some(Instant::NEVER), done: Instant::NEVER };
        // The memory is written once, so that no page fault occurs later.
        let mut jobs = vec![some; room];
        jobs.clear();
        WorkerReport { cpu_time: Nanos::ZERO, end: Instant::ZERO, lost: 0, jobs, room }
    }

    /// Adds a completed job. Does not allocate memory.
    pub(super) fn add(&mut self, job: JobRecord) {
        if self.jobs.len() < self.room {
            self.jobs.push(job);
        } else {
            self.lost += 1;
        }
    }

    /// Returns the recorded jobs.
    pub(super) fn jobs(&self) -> &[JobRecord] {
        &self.jobs
    }

    /// Writes the report as words.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let head = [self.cpu_time.as_ns(), self.end.as_ns(), self.lost, self.jobs.len() as u64];
        let jobs = self.jobs.iter().flat_map(|job| {
            // No job wakes at time zero of the clock, so zero stands for a missing instant.
            [job.released.as_ns(), job.woke.map_or(0, Instant::as_ns), job.done.as_ns()]
        });
        let bytes: Vec<u8> = head.into_iter().chain(jobs).flat_map(u64::to_le_bytes).collect();
        to.write_all(&bytes)
    }

    /// Reads a report from its words; `None` if the words are not a complete report.
    pub(super) fn read(bytes: &[u8]) -> Option<WorkerReport> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        let (&[cpu_time, end, lost, count], records) = words.split_first_chunk::<HEAD>()?;
        let (records, others) = records.as_chunks::<JOB>();
        if !rest.is_empty() || !others.is_empty() || records.len() as u64 != count {
            return None;
        }
        let job = |&[released, woke, done]: &[u64; JOB]| JobRecord {
            released: Instant::at_ns(released),
            woke: (woke != 0).then(|| Instant::at_ns(woke)),
            done: Instant::at_ns(done),
        };
        let jobs: Vec<JobRecord> = records.iter().map(job).collect();
        Some(WorkerReport { cpu_time: Nanos::ns(cpu_time), end: Instant::at_ns(end), lost, room: jobs.len(), jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_pipe_and_a_part_of_it_is_rejected() {
        let mut report = WorkerReport::with_room(2);
        for nth in 1..=3 {
            let woke = (nth == 1).then_some(Instant::at_ns(nth * 10 + 1));
            report.add(JobRecord { released: Instant::at_ns(nth * 10), woke, done: Instant::at_ns(nth * 10 + 5) });
        }
        (report.cpu_time, report.end) = (Nanos::ms(3), Instant::at_ns(99));
        let mut bytes = Vec::new();
        report.write(&mut bytes).unwrap();
        let heard = WorkerReport::read(&bytes).unwrap();
        assert_eq!(heard, report);
        assert_eq!((heard.jobs().len(), heard.lost), (2, 1));
        for cut in 0..bytes.len() {
            assert_eq!(WorkerReport::read(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(WorkerReport::read(&[bytes, vec![0; 24]].concat()), None);
    }
}
