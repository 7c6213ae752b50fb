//! [`JsonPen`]: writes tracks as lines of JSON.

use crate::output::Output;
use crate::tracks::{Arg, Args, Counter, Pen, Place, Process, Slice, Track};
use crate::{Inconsistent, MachineHeader, MachineId, WorldHeader};
use sched::Instant;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Write};

/// A writer of trace events. The pen assigns track and arrow numbers that are unique in the file.
#[derive(Debug)]
pub(super) struct JsonPen<W: Write> {
    output: Output<W>,
    line: String,
    next_track: u64,
    next_flow: u64,
    /// Whether the file has an event. If so, a comma precedes the next event.
    begun: bool,
}

impl<W: Write> JsonPen<W> {
    /// Creates a pen. New tracks are numbered from `first_track` on.
    pub(super) fn new(to: W, first_track: u64) -> JsonPen<W> {
        JsonPen { output: Output::new(to), line: String::new(), next_track: first_track, next_flow: 1, begun: false }
    }

    /// Writes the part of the file that precedes all events. `about` contains the members of `otherData`.
    pub(super) fn begin_with(&mut self, about: fmt::Arguments<'_>) {
        let begin = format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{{about}}},\n\"traceEvents\":[\n");
        self.output.write(begin.as_bytes());
    }

    /// Completes the file.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.output.write(b"\n]}\n");
        self.output.finish()
    }

    /// Writes one event: `{"ph":…}`.
    fn event(&mut self, phase: char, fields: fmt::Arguments<'_>) {
        self.line.clear();
        let comma = if std::mem::replace(&mut self.begun, true) { ",\n" } else { "" };
        write!(self.line, "{comma}{{\"ph\":\"{phase}\",{fields}}}").expect("a string takes what is written to it");
        self.output.write(self.line.as_bytes());
    }

    /// Writes an arrow from one track to another.
    fn arrow(&mut self, (from, woken): (Place, Instant), (to, run): (Place, Instant)) {
        let flow = format!("\"name\":\"wake\",\"cat\":\"wake\",\"id\":{}", self.next_flow);
        self.next_flow += 1;
        self.event('s', format_args!("{flow},{},\"ts\":{}", Tid(from), Us::at(woken)));
        self.event('f', format_args!("{flow},\"bp\":\"e\",{},\"ts\":{}", Tid(to), Us::at(run)));
    }
}

impl<W: Write> Pen for JsonPen<W> {
    fn begin(&mut self, header: &WorldHeader) {
        let about: Vec<String> = header.ids().zip(&header.machines).map(|(id, machine)| about(id, machine)).collect();
        self.begin_with(format_args!("{}", about.join(",")));
    }

    fn process(&mut self, &Process { number, name, rank, .. }: &Process<'_>) {
        let fact = |what, key, value| format!("\"name\":\"{what}\",\"pid\":{number},\"args\":{{\"{key}\":{value}}}");
        self.event('M', format_args!("{}", fact("process_name", "name", json(name))));
        self.event('M', format_args!("{}", fact("process_sort_index", "sort_index", rank.to_string())));
    }

    fn track(&mut self, &Track { place, name, rank, .. }: &Track<'_>) {
        let (track, name) = (Tid(place), json(name));
        self.event('M', format_args!("\"name\":\"thread_name\",{track},\"args\":{{\"name\":{name}}}"));
        self.event('M', format_args!("\"name\":\"thread_sort_index\",{track},\"args\":{{\"sort_index\":{rank}}}"));
    }

    fn next_track(&mut self) -> u64 {
        self.next_track += 1;
        self.next_track - 1
    }

    fn slice(&mut self, place: Place, &Slice { name, category, colour, span, args, woken }: &Slice<'_>) {
        let (ts, dur) = (Us::at(span.from), Us(span.to.since(span.from).as_ns()));
        let colour = colour.map(|colour| format!(",\"cname\":\"{colour}\"")).unwrap_or_default();
        let (name, track, args) = (json(name), Tid(place), Members(args));
        self.event(
            'X',
            format_args!(
                "\"name\":{name},\"cat\":\"{category}\"{colour},{track},\"ts\":{ts},\"dur\":{dur},\"args\":{args}"
            ),
        );
        if let Some(woken) = woken {
            self.arrow(woken, (place, span.from));
        }
    }

    fn instant(&mut self, place: Place, name: &str, at: Instant, args: Args<'_>) {
        let (track, ts, args) = (Tid(place), Us::at(at), Members(args));
        let looks = format_args!("\"name\":\"{name}\",\"cat\":\"job\",\"s\":\"t\"");
        self.event('i', format_args!("{looks},{track},\"ts\":{ts},\"args\":{args}"));
    }

    // A counter has no track of its own: readers distinguish counters by process and name.
    fn counter(&mut self, of: Place, _owner: &str, _counter: Counter) -> u64 {
        of.track
    }

    fn count(&mut self, place: Place, owner: &str, counter: Counter, at: Instant, value: i64) {
        let (name, track, ts) = (json(&format!("{} of {owner}", counter.name())), Tid(place), Us::at(at));
        let unit = if counter.is_time() { "ns" } else { counter.name() };
        self.event('C', format_args!("\"name\":{name},{track},\"ts\":{ts},\"args\":{{\"{unit}\":{value}}}"));
    }

    fn fail(&mut self, error: Inconsistent) {
        self.output.fail(io::Error::new(io::ErrorKind::InvalidData, error));
    }

    fn has_failed(&self) -> bool {
        self.output.has_failed()
    }
}

/// Returns the header of a machine, as a member of a JSON object.
fn about(id: MachineId, machine: &MachineHeader) -> String {
    let (name, policy) = (json(&machine.name), json(&machine.header.policy));
    let (cpus, seed) = (machine.header.cpus, machine.header.seed);
    let host = machine.host.map(|host| format!(",\"host\":\"{host}\"")).unwrap_or_default();
    format!("\"{id}\":{{\"name\":{name},\"policy\":{policy},\"cpus\":{cpus},\"seed\":\"{seed}\"{host}}}")
}

/// Returns `text` as a JSON string.
pub(super) fn json(text: &str) -> String {
    serde_json::to_string(text).expect("every text is a JSON string")
}

/// A track, displayed as members of a JSON object.
struct Tid(Place);

impl Display for Tid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"pid\":{},\"tid\":{}", self.0.process, self.0.track)
    }
}

/// Details, displayed as a JSON object.
struct Members<'a>(Args<'a>);

impl Display for Members<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, (name, arg)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match arg {
                Arg::Number(number) => write!(f, "{comma}\"{name}\":{number}")?,
                Arg::Truth(truth) => write!(f, "{comma}\"{name}\":{truth}")?,
                Arg::Text(text) => write!(f, "{comma}\"{name}\":\"{text}\"")?,
            }
        }
        f.write_str("}")
    }
}

/// A time in nanoseconds, displayed in microseconds.
#[derive(Clone, Copy)]
struct Us(u64);

impl Us {
    fn at(at: Instant) -> Us {
        Us(at.as_ns())
    }
}

impl Display for Us {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
