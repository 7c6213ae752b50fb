//! The guest of `tactus demo --vm`, and the jobs that it reports.

use sched::{Instant, Nanos};
use trace::Job;

/// The boot sector that `guest.s` describes.
const PROGRAM: &[u8; 512] = include_bytes!("guest.bin");
/// Length of a disk that every BIOS starts. Unit: bytes.
const DISK: usize = 128 * PROGRAM.len();
/// Offsets of the period and the work in the program.
const PERIOD: usize = 4;
const WORK: usize = 8;
/// Frequency of the ACPI PM timer (ACPI 6.5, section 4.8.3.3). Unit: Hz.
const PM_TIMER: u64 = 3_579_545;
/// Ticks of the timer in a unit of a report.
const TICKS: u64 = 16;
/// Length of a report. Unit: bytes.
pub(super) const REPORT: usize = 4;

/// Returns the disk of a guest that works for `work` in every `period`. Both are below two seconds.
pub(super) fn disk(period: Nanos, work: Nanos) -> Vec<u8> {
    let mut disk = vec![0; DISK];
    disk[..PROGRAM.len()].copy_from_slice(PROGRAM);
    for (offset, time) in [(PERIOD, period), (WORK, work)] {
        let ticks = u32::try_from(time.scale(PM_TIMER, 1_000_000_000).as_ns()).expect("two seconds are 23 bits");
        disk[offset..offset + 4].copy_from_slice(&ticks.to_le_bytes());
    }
    disk
}

/// A report of the guest about a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Report {
    /// Instant at which the report arrived: the end of the job.
    pub(super) at: Instant,
    /// Time from the release to the start, and from the release to the end. `None`: the guest has skipped the job.
    pub(super) done: Option<(Nanos, Nanos)>,
}

impl Report {
    pub(super) fn parse(at: Instant, bytes: [u8; REPORT]) -> Report {
        let [late, response] = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]].map(u16::from_le_bytes);
        let time = |units: u16| Nanos::s(1).scale(u64::from(units) * TICKS, PM_TIMER);
        let is_skipped = late == u16::MAX && response == u16::MAX;
        Report { at, done: (!is_skipped).then(|| (time(late), time(response))) }
    }
}

/// Returns the jobs that were released from `begin` to before `end`, with times since `begin`. A job is due one `period` after
/// its release.
pub(super) fn jobs(reports: &[Report], period: Nanos, begin: Instant, end: Instant) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut next = None;
    for report in reports {
        let released = match report.done {
            Some((_, response)) => Instant::ZERO + report.at.since(Instant::ZERO).saturating_sub(response),
            // Before the first job that is not skipped, the releases are not known.
            None => match next {
                Some(next) => next,
                None => continue,
            },
        };
        next = Some(released + period);
        if released < begin || released >= end {
            continue;
        }
        let counted = |at: Instant| Instant::ZERO + at.since(begin);
        jobs.push(Job {
            released: counted(released),
            deadline: counted(released + period),
            woke: report.done.map(|(late, _)| counted(released + late)),
            done: report.done.map(|(_, response)| counted(released + response)),
        });
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Assembles `guest.s`; `None` if this machine has no assembler for x86.
    fn assembled() -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let [object, binary] = ["o", "bin"].map(|name| folder.path().join(name));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/guest.s");
        let as_done = Command::new("as").args(["--32", source, "-o"]).arg(&object).output().ok()?;
        let cut = Command::new("objcopy").args(["-O", "binary", "-j", ".text"]).arg(&object).arg(&binary).output();
        (as_done.status.success() && cut.ok()?.status.success()).then(|| std::fs::read(&binary).unwrap())
    }

    #[test]
    fn the_guest_is_the_program_of_its_source() {
        match assembled() {
            Some(program) => assert!(program == PROGRAM, "help: assemble guest.s again, as this test does"),
            None => eprintln!("SKIPPED: there is no assembler for x86"),
        }
        assert_eq!(PROGRAM[510..], [0x55, 0xaa]);
        let disk = disk(Nanos::ms(10), Nanos::ms(2));
        assert_eq!(disk[PERIOD..PERIOD + 4], 35_795_u32.to_le_bytes());
        assert_eq!(disk[WORK..WORK + 4], 7_159_u32.to_le_bytes());
    }

    #[test]
    fn a_job_ends_when_its_report_arrives_and_a_skipped_job_follows_the_one_before() {
        let ms = |ms: u64| Instant::ZERO + Nanos::ms(ms);
        // 2,237 units of 16 ticks are 10 ms, up to a microsecond.
        let report = Report::parse(ms(110), [224, 0, 0xbd, 0x08]);
        let (late, response) = report.done.unwrap();
        assert_eq!((late.as_ns() / 1_000, response.as_ns() / 1_000), (1_001, 9_999));
        let skipped = Report::parse(ms(110), [0xff; REPORT]);
        let jobs = jobs(&[skipped, report, skipped, report], Nanos::ms(20), ms(90), ms(500));
        assert_eq!(jobs.len(), 3);
        assert_eq!(jobs[0].done, Some(ms(20)));
        assert_eq!((jobs[1].done, jobs[1].released), (None, jobs[0].released + Nanos::ms(20)));
        assert_eq!(jobs[1].deadline, jobs[1].released + Nanos::ms(20));
        assert!(super::jobs(&[report], Nanos::ms(20), ms(101), ms(500)).is_empty());
    }
}
