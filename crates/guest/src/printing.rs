//! `--print`: the hints as JSON lines.

use crate::failure::Failure;
use crate::follower::Follower;
use crate::options::Options;
use coordination::wire::{Hint, Source};
use coordination::{Boost, Protocol};
use serde::Serialize;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use sys::event::Waiting;

const END: u64 = 0;
const TRACE: u64 = 1;

/// A hint as a JSON object.
#[derive(Serialize)]
struct Line {
    vcpu: u16,
    number: u32,
    /// Instant on CLOCK_MONOTONIC. Unit: ns.
    sent_ns: u64,
    runs: bool,
    /// Whether the running task is urgent, and its real-time priority or its weight.
    urgent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    waits: bool,
    sleeps: bool,
    /// Earliest expiry of a timer of an urgent task that sleeps, on CLOCK_MONOTONIC. Unit: ns.
    expiry_ns: Option<u64>,
    sources: Vec<&'static str>,
}

impl From<Hint> for Line {
    fn from(Hint { vcpu, number, sent, choice, expiry, sources }: Hint) -> Line {
        let (priority, weight) = match choice.task_boost {
            Some(Boost::Class { priority, .. }) => (Some(priority.number()), None),
            Some(Boost::Weight(weight)) => (None, Some(weight.as_linux())),
            None => (None, None),
        };
        Line {
            vcpu,
            number,
            sent_ns: sent.as_ns(),
            runs: choice.runs,
            urgent: choice.task_boost.is_some(),
            priority,
            weight,
            waits: choice.waits,
            sleeps: choice.sleeps,
            expiry_ns: expiry.map(sched::Instant::as_ns),
            sources: Source::ALL.into_iter().filter(|source| sources.has(*source)).map(Source::name).collect(),
        }
    }
}

/// Prints the hints until a signal.
pub(crate) fn print(options: &Options, end: &UnixStream) -> Result<(), Failure> {
    let waiting = Waiting::new()?;
    waiting.add(end, END)?;
    let mut follower = Follower::begin(options, Protocol::S0)?;
    follower.add_to(&waiting, TRACE)?;
    let failed = |error| Failure::Io("print", error);
    let (mut out, mut lines) = (io::stdout().lock(), Vec::new());
    while waiting.next(follower.next())? != Some(END) {
        follower.turn(|hint| {
            serde_json::to_writer(&mut lines, &Line::from(hint)).expect("numbers and text are JSON");
            lines.push(b'\n');
        });
        out.write_all(&lines).and_then(|()| out.flush()).map_err(failed)?;
        lines.clear();
    }
    if follower.lost() > 0 {
        eprintln!("warning: {} events of the trace were lost", follower.lost());
    }
    Ok(())
}
