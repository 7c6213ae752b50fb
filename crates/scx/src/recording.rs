//! [`Recording`]: what the decisions of the port of `edf` in the kernel follow from, and the decisions, as a file.
//!
//! The kernel writes records to a ring buffer (`bpf/record.h`). The file has a JSON value on each line: first a
//! [`Header`], then the [`Record`]s, then their number. [`Writer`] writes it and [`read`] reads it. Records are numbered, so a
//! lost record, a lost line and a lost end are found.

use input::problem::{Problem, Problems};
use sched::id::CPUS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the format. A change of the meaning of records is another version.
const VERSION: u32 = 2;
/// Maximum length of a line. Longer lines are no lines of a recording.
const LINE_MAX: u64 = 4_096;

/// The first line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    version: u32,
    /// The policy of the port: `edf` or `gang-edf`.
    pub policy: String,
    /// Number of CPUs.
    pub cpus: usize,
}

impl Header {
    /// Creates the header of a recording of this version.
    #[must_use]
    pub fn new(policy: &str, cpus: usize) -> Header {
        Header { version: VERSION, policy: policy.to_string(), cpus }
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Recording(Header),
    Record(Record),
    /// The number of records.
    End(u64),
}

/// What has happened to a promise, or what a CPU has chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Number of the record, from 0 on.
    pub number: u64,
    /// The clock with which the port has decided. Unit: ns.
    pub at_ns: u64,
    /// Time from there to the record. Unit: ns.
    pub took_ns: u64,
    /// The CPU on which it has happened.
    pub cpu: usize,
    /// The promise; 0: no promise has a thread to choose.
    pub promise: i32,
    /// What has happened.
    pub what: What,
}

/// `enum record_kind` of `bpf/interface.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum What {
    /// The promise begins.
    Begin {
        /// CPU time in every period. Unit: ns.
        slice_ns: u64,
        /// Length of the period. Unit: ns.
        period_ns: u64,
        /// Whether the slice is a limit.
        is_hard: bool,
        /// The CPU of the promise.
        home: usize,
        /// A promise of its gang, or itself; 0: it is in no gang.
        gang: i32,
    },
    /// The first of its members has become runnable.
    Wake,
    /// The last of its members is no longer runnable.
    Sleep,
    /// From now on, the time of a member is charged.
    Run,
    /// The time of its members is no longer charged.
    Stop,
    /// A timer has begun a period.
    Renew,
    /// Its only member has given up the rest of the slice.
    Yield,
    /// The CPU has chosen a member of the promise, which has a slice.
    Choice {
        /// End of the period. Unit: ns.
        deadline_ns: u64,
        /// Remaining slice. Unit: ns.
        left_ns: i64,
    },
    /// A member with a slice has come to the queue of its CPU.
    Move,
    /// The CPU goes on: its timer, which fires every 100 us, has found no new record of this CPU.
    Beat,
}

/// `struct record` of `bpf/interface.h`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRecord {
    at: u64,
    took: u64,
    number: u64,
    /// The deadline, or the slice.
    first: u64,
    /// The remaining slice, or the period.
    second: u64,
    kind: u32,
    cpu: i32,
    promise: i32,
    home: i32,
    gang: i32,
    is_hard: u32,
}

impl Record {
    /// Number of bytes of a record of the kernel.
    pub const BYTES: usize = size_of::<RawRecord>();

    /// Reads a record of the kernel; `None`: the bytes are no record of this build.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let raw = RawRecord::read_from_bytes(bytes).ok()?;
        let what = match raw.kind {
            1 => What::Begin {
                slice_ns: raw.first,
                period_ns: raw.second,
                is_hard: raw.is_hard != 0,
                home: usize::try_from(raw.home).ok()?,
                gang: raw.gang,
            },
            2 => What::Wake,
            3 => What::Sleep,
            4 => What::Run,
            5 => What::Stop,
            6 => What::Renew,
            7 => What::Yield,
            8 => What::Choice { deadline_ns: raw.first, left_ns: raw.second.cast_signed() },
            9 => What::Move,
            10 => What::Beat,
            _ => return None,
        };
        let cpu = usize::try_from(raw.cpu).ok()?;
        Some(Record { number: raw.number, at_ns: raw.at, took_ns: raw.took, cpu, promise: raw.promise, what })
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    records: u64,
}

impl<W: Write> Writer<W> {
    /// Begins with the first line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(to: W, header: Header) -> io::Result<Writer<W>> {
        let mut writer = Writer { to, records: 0 };
        writer.line(&Line::Recording(header))?;
        Ok(writer)
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, line)?;
        self.to.write_all(b"\n")
    }

    /// Writes a record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        self.records += 1;
        self.line(&Line::Record(*record))
    }

    /// Writes the last line. Returns how many of the first `total` records were not written: they are lost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(mut self, total: u64) -> io::Result<u64> {
        self.line(&Line::End(total))?;
        self.to.flush()?;
        Ok(total - self.records.min(total))
    }
}

/// A recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// The first line.
    pub header: Header,
    /// The records by their clocks, and those of one instant by their numbers.
    pub records: Vec<Record>,
}

impl Recording {
    /// Creates a recording of records in any order.
    #[must_use]
    pub fn new(header: Header, mut records: Vec<Record>) -> Recording {
        records.sort_by_key(|record| (record.at_ns, record.number));
        Recording { header, records }
    }
}

/// Reads the recording `name`.
///
/// # Errors
/// The file is no recording, was not written to its end, lacks records, or is damaged.
pub fn read(name: &str, mut from: impl BufRead) -> Result<Recording, Problems> {
    let (mut header, mut checks, mut number, mut text) = (None, None, 0_u64, Vec::new());
    loop {
        text.clear();
        number += 1;
        let place = format!("{name}:{number}");
        let length = io::Read::take(&mut from, LINE_MAX).read_until(b'\n', &mut text);
        let length = length.map_err(|error| Problem::new(format!("{place}: {error}")).help("check the file"))?;
        let line = serde_json::from_slice::<Line>(&text);
        let (Some(found), Some(check)) = (&header, &mut checks) else {
            let found = first(name, line)?;
            (header, checks) = (Some(found), Some(Checks::default()));
            continue;
        };
        if length == 0 {
            let problem = Problem::new(format!("{place}: the recording is not complete: its last line is missing"));
            return Err(problem.help("end the recording by Ctrl-C or --for, and copy the whole file").into());
        }
        match line {
            Ok(Line::Record(record)) => check.add(&place, found, record)?,
            Ok(Line::End(total)) => {
                let records = check.end(&place, total)?;
                return Ok(Recording::new(found.clone(), records));
            }
            Ok(Line::Recording(_)) => return Err(damaged(&place, "a second recording begins")),
            Err(error) if error.is_eof() && text.last() != Some(&b'\n') => {
                let problem = Problem::new(format!("{place}: the recording ends within a line"));
                return Err(problem.help("end the recording by Ctrl-C or --for, and copy the whole file").into());
            }
            Err(error) => return Err(damaged(&place, &error.to_string())),
        }
    }
}

fn first(name: &str, line: serde_json::Result<Line>) -> Result<Header, Problems> {
    let Ok(Line::Recording(header)) = line else {
        let problem = Problem::new(format!("{name}:1: the file is no recording of tactus-scx"));
        return Err(problem.help("record with `tactus scx --policy edf --native --record FILE`").into());
    };
    if header.version != VERSION {
        let problem = Problem::new(format!("{name}:1: the recording has version {}, not {VERSION}", header.version));
        return Err(problem.help("replay it with the version of Tactus that has recorded it").into());
    }
    if header.cpus == 0 || header.cpus > CPUS_MAX {
        return Err(damaged(&format!("{name}:1"), &format!("it has {} CPUs", header.cpus)));
    }
    Ok(header)
}

fn damaged(place: &str, reason: &str) -> Problems {
    Problem::new(format!("{place}: the recording is damaged: {reason}"))
        .help("record again, and copy the whole file")
        .into()
}

/// Checks of the lines of a recording, one after another.
#[derive(Default)]
struct Checks {
    records: Vec<Record>,
    begun: BTreeSet<i32>,
}

impl Checks {
    fn add(&mut self, place: &str, header: &Header, record: Record) -> Result<(), Problems> {
        let Record { cpu, promise, what, .. } = record;
        let is_known = match what {
            What::Begin { .. } => self.begun.insert(promise),
            What::Choice { .. } => promise == 0 || self.begun.contains(&promise),
            What::Beat => promise == 0,
            _ => self.begun.contains(&promise),
        };
        let cpus = header.cpus;
        let has_cpus = cpu < cpus && !matches!(what, What::Begin { home, .. } if home >= cpus);
        let has_gang = !matches!(what, What::Begin { gang, .. } if gang != 0 && !self.begun.contains(&gang));
        if !is_known || promise < 0 {
            return Err(damaged(place, &format!("promise {promise} has not begun, or begins twice")));
        }
        if !has_cpus {
            return Err(damaged(place, &format!("it has {cpus} CPUs, and the line names another one")));
        }
        if !has_gang {
            return Err(damaged(place, "the gang has not begun"));
        }
        self.records.push(record);
        Ok(())
    }

    /// Returns the records, if all are there.
    fn end(&mut self, place: &str, total: u64) -> Result<Vec<Record>, Problems> {
        let mut records = std::mem::take(&mut self.records);
        records.sort_by_key(|record| record.number);
        if let Some(twice) = records.windows(2).find(|pair| pair[0].number == pair[1].number) {
            return Err(damaged(place, &format!("record {} is there twice", twice[0].number)));
        }
        let (has, last) = (records.len() as u64, records.last().map_or(0, |record| record.number + 1));
        if last > total {
            return Err(damaged(place, &format!("it has {total} records, and one has the number {}", last - 1)));
        }
        if has < total {
            let problem = Problem::new(format!("{place}: {} of {total} records are lost", total - has));
            return Err(problem.help("record for a shorter time, or on a host with more free CPU time").into());
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> String {
        let begin = What::Begin { slice_ns: 2_000_000, period_ns: 10_000_000, is_hard: true, home: 1, gang: 0 };
        let choice = What::Choice { deadline_ns: 10_000_005, left_ns: 2_000_000 };
        let record = |number, at_ns, what| Record { number, at_ns, took_ns: 3, cpu: 0, promise: 7, what };
        let mut bytes = Vec::new();
        let mut writer = Writer::begin(&mut bytes, Header::new("edf", 2)).unwrap();
        // Record 2 comes before record 1, because another CPU has written it.
        for record in [record(0, 5, begin), record(2, 8, choice), record(1, 6, What::Wake)] {
            writer.write(&record).unwrap();
        }
        assert_eq!(writer.end(3).unwrap(), 0);
        String::from_utf8(bytes).unwrap()
    }

    fn refused(text: &str) -> String {
        let problems = read("it.rec", text.as_bytes()).expect_err("it is no whole recording");
        // Long lines are wrapped.
        format!("{:?}", problems.report()).replace("\n  │ ", " ")
    }

    #[test]
    fn a_recording_is_read_as_it_was_written_and_ordered_by_its_clocks() {
        let Recording { header, records } = read("it.rec", written().as_bytes()).unwrap();
        assert_eq!(header, Header::new("edf", 2));
        assert_eq!(records.iter().map(|record| record.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(matches!(records[0].what, What::Begin { is_hard: true, home: 1, .. }));
        assert_eq!(records[2].what, What::Choice { deadline_ns: 10_000_005, left_ns: 2_000_000 });
    }

    #[test]
    fn a_beat_belongs_to_no_promise() {
        let file = |promise| {
            let mut bytes = Vec::new();
            let mut writer = Writer::begin(&mut bytes, Header::new("edf", 1)).unwrap();
            writer.write(&Record { number: 0, at_ns: 5, took_ns: 3, cpu: 0, promise, what: What::Beat }).unwrap();
            assert_eq!(writer.end(1).unwrap(), 0);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(read("it.rec", file(0).as_bytes()).unwrap().records[0].what, What::Beat);
        assert!(refused(&file(7)).contains("promise 7 has not begun"));
    }

    #[test]
    fn a_foreign_a_truncated_and_a_damaged_file_are_refused_with_place_reason_and_remedy() {
        let whole = written();
        let lines: Vec<&str> = whole.lines().collect();
        let without = |line: usize| {
            let others = lines.iter().enumerate().filter(|(at, _)| *at != line).map(|(_, line)| format!("{line}\n"));
            others.collect::<String>()
        };
        for (text, place, reason, remedy) in [
            (String::new(), "it.rec:1", "no recording", "--record"),
            ("\u{7f}ELF".to_string(), "it.rec:1", "no recording", "--record"),
            (without(0), "it.rec:1", "no recording", "--record"),
            (whole.replace("\"version\":2", "\"version\":9"), "it.rec:1", "version 9", "the version of Tactus"),
            (whole.replace("\"cpus\":2", "\"cpus\":0"), "it.rec:1", "0 CPUs", "record again"),
            (whole[..whole.len() - 12].to_string(), "it.rec:4", "within a line", "Ctrl-C"),
            (without(4), "it.rec:5", "its last line is missing", "Ctrl-C"),
            (without(3), "it.rec:4", "1 of 3 records are lost", "a shorter time"),
            (without(1), "it.rec:2", "promise 7 has not begun", "record again"),
            (whole.replace("wake", "woke"), "it.rec:4", "woke", "record again"),
            (whole.replace("\"number\":2", "\"number\":1"), "it.rec:5", "record 1 is there twice", "record again"),
            (whole.replace("\"end\":3", "\"end\":1"), "it.rec:5", "has the number 2", "record again"),
            (whole.replace("\"home\":1", "\"home\":2"), "it.rec:2", "names another one", "record again"),
            (whole.replace("\"gang\":0", "\"gang\":9"), "it.rec:2", "the gang has not begun", "record again"),
            (format!("{}\n{}", lines[0], whole), "it.rec:2", "a second recording", "record again"),
            (format!("{}\n{}", lines[0], "x".repeat(9_000)), "it.rec:2", "damaged", "record again"),
        ] {
            let report = refused(&text);
            for part in [place, reason, remedy] {
                assert!(report.contains(part), "{part:?} is not in {report}");
            }
        }
    }

    #[test]
    fn records_of_the_kernel_are_read_and_other_bytes_are_not() {
        let raw = RawRecord {
            at: 9,
            took: 1,
            number: 4,
            first: 70,
            second: (-3_i64).cast_unsigned(),
            kind: 8,
            cpu: 1,
            promise: 5,
            home: 0,
            gang: 0,
            is_hard: 0,
        };
        let what = What::Choice { deadline_ns: 70, left_ns: -3 };
        let record = Record { number: 4, at_ns: 9, took_ns: 1, cpu: 1, promise: 5, what };
        assert_eq!(Record::from_bytes(raw.as_bytes()), Some(record));
        assert_eq!(Record::from_bytes(&raw.as_bytes()[8..]), None);
        assert_eq!(Record::from_bytes(RawRecord { kind: 99, ..raw }.as_bytes()), None);
        assert_eq!(Record::from_bytes(RawRecord { cpu: -1, ..raw }.as_bytes()), None);
    }
}
