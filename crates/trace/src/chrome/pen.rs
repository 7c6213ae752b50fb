//! [`Pen`]: writes trace events as lines of JSON. [`Tracks`]: converts the facts of one machine to trace events.

use crate::follow::Fact;
use crate::output::Output;
use crate::text::Reasons;
use crate::timeline::{Job, Span, State};
use sched::{EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Write};

/// A writer of trace events. The pen assigns track and arrow numbers that are unique in the file.
#[derive(Debug)]
pub(super) struct Pen<W: Write> {
    pub(super) output: Output<W>,
    line: String,
    next_track: u64,
    next_flow: u64,
    /// Whether the file has an event. If so, a comma precedes the next event.
    begun: bool,
}

impl<W: Write> Pen<W> {
    /// Creates a pen. New tracks are numbered from `first_track` on.
    pub(super) fn new(to: W, first_track: u64) -> Pen<W> {
        Pen { output: Output::new(to), line: String::new(), next_track: first_track, next_flow: 1, begun: false }
    }

    /// Writes the part of the file that precedes all events. `about` contains the members of `otherData`.
    pub(super) fn begin(&mut self, about: fmt::Arguments<'_>) {
        let begin = format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{{about}}},\n\"traceEvents\":[\n");
        self.output.write(&begin);
    }

    /// Completes the file.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.output.write("\n]}\n");
        self.output.finish()
    }

    /// Writes one event: `{"ph":…}`.
    fn event(&mut self, phase: char, fields: fmt::Arguments<'_>) {
        self.line.clear();
        let comma = if std::mem::replace(&mut self.begun, true) { ",\n" } else { "" };
        write!(self.line, "{comma}{{\"ph\":\"{phase}\",{fields}}}").expect("a string takes what is written to it");
        self.output.write(&self.line);
    }

    /// Writes the name and the sort index of a process.
    pub(super) fn process(&mut self, process: u32, name: &str, place: usize) {
        let fact = |what, key, value| format!("\"name\":\"{what}\",\"pid\":{process},\"args\":{{\"{key}\":{value}}}");
        self.event('M', format_args!("{}", fact("process_name", "name", name)));
        self.event('M', format_args!("{}", fact("process_sort_index", "sort_index", &place.to_string())));
    }

    /// Writes the name and the sort index of a track.
    pub(super) fn track(&mut self, process: u32, track: u64, name: &str, place: u64) {
        let track = format!("\"pid\":{process},\"tid\":{track}");
        self.event('M', format_args!("\"name\":\"thread_name\",{track},\"args\":{{\"name\":{name}}}"));
        self.event('M', format_args!("\"name\":\"thread_sort_index\",{track},\"args\":{{\"sort_index\":{place}}}"));
    }

    /// Returns a new track number.
    pub(super) fn next_track(&mut self) -> u64 {
        self.next_track += 1;
        self.next_track - 1
    }

    /// Writes a slice.
    pub(super) fn slice(&mut self, looks: &str, process: u32, track: u64, span: Span, args: fmt::Arguments<'_>) {
        let (ts, dur) = (Us(span.from.as_ns()), Us(span.to.since(span.from).as_ns()));
        let place = format!("\"pid\":{process},\"tid\":{track},\"ts\":{ts},\"dur\":{dur}");
        self.event('X', format_args!("{looks},{place},\"args\":{{{args}}}"));
    }

    /// Writes an arrow from one track to another.
    fn arrow(&mut self, from: (u32, u64, Instant), to: (u32, u64, Instant)) {
        let flow = format!("\"name\":\"wake\",\"cat\":\"wake\",\"id\":{}", self.next_flow);
        self.next_flow += 1;
        let end = |(process, track, at): (u32, u64, Instant)| {
            format!("\"pid\":{process},\"tid\":{track},\"ts\":{}", Us(at.as_ns()))
        };
        self.event('s', format_args!("{flow},{}", end(from)));
        self.event('f', format_args!("{flow},\"bp\":\"e\",{}", end(to)));
    }

    fn instant(&mut self, process: u32, track: u64, name: &str, at: Instant, args: fmt::Arguments<'_>) {
        let place = format!("\"s\":\"t\",\"pid\":{process},\"tid\":{track},\"ts\":{}", Us(at.as_ns()));
        self.event('i', format_args!("\"name\":\"{name}\",\"cat\":\"job\",{place},\"args\":{{{args}}}"));
    }
}

/// The numbers of a machine's processes and tracks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Number of the process of the CPUs.
    pub(super) cpus: u32,
    /// Track number of CPU 0. The tracks of the other CPUs follow.
    pub(super) first_cpu: u64,
    /// Number of the process of the entities.
    pub(super) entities: u32,
}

/// The tracks of one machine.
#[derive(Debug)]
pub(super) struct Tracks {
    pub(super) places: Places,
    /// Track number and name of each attached entity.
    entities: BTreeMap<EntityId, (u64, String)>,
    /// Detached entities with their track numbers. The last slice of a detached entity is written only when time
    /// advances.
    left: Vec<(EntityId, u64)>,
}

impl Tracks {
    pub(super) fn new(places: Places) -> Tracks {
        Tracks { places, entities: BTreeMap::new(), left: Vec::new() }
    }

    /// Returns the name of an attached entity.
    pub(super) fn name(&self, entity: EntityId) -> &str {
        &self.entities[&entity].1
    }

    /// Removes and returns the detached entities. The caller passes these entities to [`forget`](Tracks::forget) once
    /// time has advanced.
    pub(super) fn leaving(&mut self) -> Vec<(EntityId, u64)> {
        std::mem::take(&mut self.left)
    }

    /// Forgets detached entities. An id that has been attached again keeps its new track.
    pub(super) fn forget(&mut self, left: &[(EntityId, u64)]) {
        for (entity, track) in left {
            if self.entities.get(entity).is_some_and(|(now, _)| now == track) {
                self.entities.remove(entity);
            }
        }
    }

    pub(super) fn write<W: Write>(&mut self, pen: &mut Pen<W>, fact: &Fact<'_>) {
        match *fact {
            Fact::Attached { entity, name, .. } => {
                let track = pen.next_track();
                let name = if name.is_empty() { entity.to_string() } else { name.to_string() };
                pen.track(self.places.entities, track, &json(&format!("{name} ({entity})")), track);
                self.entities.insert(entity, (track, name));
            }
            Fact::Detached { entity, .. } => {
                let track = self.entities[&entity].0;
                self.left.push((entity, track));
            }
            Fact::Job { entity, job } => self.job(pen, self.entities[&entity].0, job),
            Fact::Span { entity, span, woken } => self.span(pen, entity, span, woken),
            Fact::Adjusted { .. } | Fact::Woken { .. } => {}
        }
    }

    fn span<W: Write>(&self, pen: &mut Pen<W>, entity: EntityId, span: Span, woken: Option<Instant>) {
        let (track, name) = &self.entities[&entity];
        let Places { cpus, first_cpu, entities } = self.places;
        let (state, colour, args) = match span.state {
            State::Running(cpu) => ("running", "thread_state_running", format!("\"cpu\":{cpu}")),
            State::Stolen(cpu) => ("stolen", "thread_state_iowait", format!("\"cpu\":{cpu}")),
            State::Waiting => ("waiting", "thread_state_runnable", String::new()),
            State::Held(reasons) => {
                ("held", "thread_state_uninterruptible", format!("\"reasons\":\"{}\"", Reasons(reasons)))
            }
            State::Blocked => ("blocked", "thread_state_sleeping", String::new()),
        };
        let looks = format!("\"name\":\"{state}\",\"cat\":\"state\",\"cname\":\"{colour}\"");
        pen.slice(&looks, entities, *track, span, format_args!("{args}"));
        let args = format_args!("\"entity\":\"{entity}\"");
        let seat = |cpu: sched::CpuId| first_cpu + cpu.index() as u64;
        match span.state {
            State::Running(cpu) => {
                pen.slice(&format!("\"name\":{},\"cat\":\"run\"", json(name)), cpus, seat(cpu), span, args);
                if let Some(woken) = woken {
                    pen.arrow((entities, *track, woken), (cpus, seat(cpu), span.from));
                }
            }
            State::Stolen(cpu) => {
                let looks = "\"name\":\"frozen\",\"cat\":\"frozen\",\"cname\":\"thread_state_iowait\"";
                pen.slice(looks, cpus, seat(cpu), span, args);
            }
            State::Waiting | State::Held(_) | State::Blocked => {}
        }
    }

    fn job<W: Write>(&self, pen: &mut Pen<W>, track: u64, job: Job) {
        let Job { released, deadline, ended, completed } = job;
        let process = self.places.entities;
        pen.instant(process, track, "release", released, format_args!("\"deadline\":\"{deadline}\""));
        if completed {
            let took = ended.saturating_since(released);
            pen.instant(process, track, "complete", ended, format_args!("\"response\":\"{took}\""));
        }
        if job.missed() {
            let late: Nanos = ended.since(deadline);
            let args = format_args!("\"late\":\"{late}\",\"completed\":{completed}");
            pen.instant(process, track, "deadline missed", deadline, args);
        }
    }
}

/// Returns `text` as a JSON string.
pub(super) fn json(text: &str) -> String {
    serde_json::to_string(text).expect("every text is a JSON string")
}

/// A time in nanoseconds, displayed in microseconds.
#[derive(Clone, Copy)]
struct Us(u64);

impl Display for Us {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
