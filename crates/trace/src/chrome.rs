//! [`ChromeWriter`]: the Chrome trace-event format (JSON), which ui.perfetto.dev and chrome://tracing open.
//!
//! Two processes: `host`, with a track per CPU whose slices are named by entity; and `entities`, with a track per entity
//! that shows whether it was `running`, `waiting`, `held` or `blocked`. An arrow leads from every wake-up to the run it led
//! to. Releases, completions and missed deadlines are instants on the entity's track. The header is in `otherData`.
//!
//! Slices are written when they end, so nothing but what is going on now is kept in memory. On each track slices come in
//! order of time; an instant or an arrow comes after the slice that holds it, perhaps much later.
//!
//! Times are microseconds with three decimals: exact to the nanosecond, but only in readers that do not take them for
//! floats once they exceed 2^53 ns (104 days).

use crate::follow::{Fact, Follower};
use crate::output::Output;
use crate::text::Reasons;
use crate::timeline::{Job, Span, State};
use crate::{Event, Header, Sink};
use sched::{EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Write};

/// The process whose tracks are the CPUs. 0 is taken by the idle task in some readers.
const HOST: u32 = 1;
/// The process whose tracks are the entities.
const ENTITIES: u32 = 2;
/// The track of CPU 0; all track numbers differ from each other and from those of the processes.
const FIRST_CPU: u64 = 1_000;
/// The track of the first entity, above that of the last CPU.
const FIRST_ENTITY: u64 = 10_000;

/// Writes a trace as Chrome trace events. Call [`finish`](ChromeWriter::finish) at the end: it completes the file.
#[derive(Debug)]
pub struct ChromeWriter<W: Write> {
    follower: Follower,
    pen: Pen<W>,
}

/// What writes, apart from what follows.
#[derive(Debug)]
struct Pen<W: Write> {
    output: Output<W>,
    line: String,
    /// Everybody who is there: the number of the track, and the name as JSON.
    tracks: BTreeMap<EntityId, (u64, String)>,
    /// Who left, and the number of the track; the last slice may still come until time moves on.
    left: Vec<(EntityId, u64)>,
    next_track: u64,
    next_flow: u64,
}

impl<W: Write> ChromeWriter<W> {
    /// Writes what is known from the start. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> ChromeWriter<W> {
        let follower = Follower::new(header);
        let mut pen = Pen {
            output: Output::new(to),
            line: String::new(),
            tracks: BTreeMap::new(),
            left: Vec::new(),
            next_track: FIRST_ENTITY,
            next_flow: 1,
        };
        let Header { policy, cpus, seed } = header;
        let policy = json(policy);
        // The seed is a text because some readers take numbers for floats.
        pen.output.write(&format!(
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"policy\":{policy},\"cpus\":{cpus},\"seed\":\"{seed}\"}},\n\"traceEvents\":[\n"
        ));
        // The first event is the only one without a comma before it.
        pen.output.write(&format!(
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{HOST},\"args\":{{\"name\":\"host\"}}}}"
        ));
        pen.process(HOST, "process_sort_index", "sort_index", "0");
        pen.process(ENTITIES, "process_name", "name", "\"entities\"");
        pen.process(ENTITIES, "process_sort_index", "sort_index", "1");
        for cpu in 0..follower.cpus() {
            pen.track(HOST, FIRST_CPU + cpu as u64, &format!("\"CPU {cpu}\""), cpu as u64);
        }
        ChromeWriter { follower, pen }
    }

    /// Everything has been recorded: ends what is going on, completes the file, and gives back the writer.
    ///
    /// # Errors
    /// The first error of the whole run: one of the writer's own, or `InvalidData` with an
    /// [`Inconsistent`](crate::Inconsistent) inside.
    pub fn finish(mut self) -> io::Result<W> {
        let pen = &mut self.pen;
        self.follower.finish(&mut |fact| pen.write(&fact));
        self.pen.output.write("\n]}\n");
        self.pen.output.finish()
    }
}

impl<W: Write> Sink for ChromeWriter<W> {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.pen.output.has_failed() {
            return;
        }
        let left = if at > self.follower.now() { std::mem::take(&mut self.pen.left) } else { Vec::new() };
        let pen = &mut self.pen;
        if let Err(error) = self.follower.observe(at, event, &mut |fact| pen.write(&fact)) {
            self.pen.output.fail(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        for (entity, track) in left {
            if self.pen.tracks.get(&entity).is_some_and(|&(now, _)| now == track) {
                self.pen.tracks.remove(&entity);
            }
        }
    }
}

impl<W: Write> Pen<W> {
    /// Writes one event: `,{"ph":…}`.
    fn event(&mut self, phase: char, fields: fmt::Arguments<'_>) {
        self.line.clear();
        write!(self.line, ",\n{{\"ph\":\"{phase}\",{fields}}}").expect("a string takes what is written to it");
        self.output.write(&self.line);
    }

    /// A fact about a process.
    fn process(&mut self, process: u32, what: &str, key: &str, value: &str) {
        self.event('M', format_args!("\"name\":\"{what}\",\"pid\":{process},\"args\":{{\"{key}\":{value}}}"));
    }

    /// Introduces a track.
    fn track(&mut self, process: u32, track: u64, name: &str, place: u64) {
        let who = format!("\"pid\":{process},\"tid\":{track}");
        self.event('M', format_args!("\"name\":\"thread_name\",{who},\"args\":{{\"name\":{name}}}"));
        self.event('M', format_args!("\"name\":\"thread_sort_index\",{who},\"args\":{{\"sort_index\":{place}}}"));
    }

    fn write(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Attached { entity, name, .. } => {
                let track = self.next_track;
                self.next_track += 1;
                let name = if name.is_empty() { entity.to_string() } else { name.to_string() };
                self.track(ENTITIES, track, &json(&format!("{name} ({entity})")), track);
                self.tracks.insert(entity, (track, json(&name)));
            }
            Fact::Detached { entity, .. } => {
                let track = self.tracks[&entity].0;
                self.left.push((entity, track));
            }
            Fact::Job { entity, job } => self.job(self.tracks[&entity].0, job),
            Fact::Span { entity, span, woken } => self.span(entity, span, woken),
            Fact::Adjusted { .. } | Fact::Woken { .. } => {}
        }
    }

    fn span(&mut self, entity: EntityId, span: Span, woken: Option<Instant>) {
        let (track, name) = self.tracks[&entity].clone();
        let (ts, dur) = (Us(span.from.as_ns()), Us(span.to.since(span.from).as_ns()));
        let place = format!("\"pid\":{ENTITIES},\"tid\":{track},\"ts\":{ts},\"dur\":{dur}");
        let (state, colour, args) = match span.state {
            State::Running(cpu) => ("running", "thread_state_running", format!("\"cpu\":{cpu}")),
            State::Waiting => ("waiting", "thread_state_runnable", String::new()),
            State::Held(reasons) => {
                ("held", "thread_state_uninterruptible", format!("\"reasons\":\"{}\"", Reasons(reasons)))
            }
            State::Blocked => ("blocked", "thread_state_sleeping", String::new()),
        };
        let looks = format!("\"name\":\"{state}\",\"cat\":\"state\",\"cname\":\"{colour}\"");
        self.event('X', format_args!("{looks},{place},\"args\":{{{args}}}"));
        let State::Running(cpu) = span.state else { return };
        let seat = format!("\"pid\":{HOST},\"tid\":{}", FIRST_CPU + cpu.index() as u64);
        let args = format!("\"args\":{{\"entity\":\"{entity}\"}}");
        self.event('X', format_args!("\"name\":{name},\"cat\":\"run\",{seat},\"ts\":{ts},\"dur\":{dur},{args}"));
        if let Some(woken) = woken {
            let flow = format!("\"name\":\"wake\",\"cat\":\"wake\",\"id\":{}", self.next_flow);
            self.next_flow += 1;
            let woken = Us(woken.as_ns());
            self.event('s', format_args!("{flow},\"pid\":{ENTITIES},\"tid\":{track},\"ts\":{woken}"));
            self.event('f', format_args!("{flow},\"bp\":\"e\",{seat},\"ts\":{ts}"));
        }
    }

    fn job(&mut self, track: u64, job: Job) {
        let Job { released, deadline, ended, completed } = job;
        self.instant(track, "release", released, format_args!("\"deadline\":\"{deadline}\""));
        if completed {
            let took = ended.saturating_since(released);
            self.instant(track, "complete", ended, format_args!("\"response\":\"{took}\""));
        }
        if job.missed() {
            let late: Nanos = ended.since(deadline);
            let args = format_args!("\"late\":\"{late}\",\"completed\":{completed}");
            self.instant(track, "deadline missed", deadline, args);
        }
    }

    fn instant(&mut self, track: u64, name: &str, at: Instant, args: fmt::Arguments<'_>) {
        let place = format!("\"s\":\"t\",\"pid\":{ENTITIES},\"tid\":{track},\"ts\":{}", Us(at.as_ns()));
        self.event('i', format_args!("\"name\":\"{name}\",\"cat\":\"job\",{place},\"args\":{{{args}}}"));
    }
}

/// A text as a JSON string.
fn json(text: &str) -> String {
    serde_json::to_string(text).expect("every text is a JSON string")
}

/// Nanoseconds, in microseconds.
#[derive(Clone, Copy)]
struct Us(u64);

impl Display for Us {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
