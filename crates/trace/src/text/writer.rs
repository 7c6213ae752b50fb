//! [`TextWriter`], [`WorldTextWriter`]: writers of the text format.

use super::{LINE_MOST, MAGIC, VERSION, WORLD_MAGIC};
use crate::event::{Event, Header, Request, Sink};
use crate::machine_id::MachineId;
use crate::output::Output;
use crate::world::{MachineHeader, WorldHeader, WorldSink};
use sched::id::CPUS_MAX;
use sched::{
    Action, Alarm, AlarmOwner, Class, GroupParams, Held, Input, Instant, Limit, Nanos, Notice, Params, Wake, Warp,
};
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, Write};

/// A writer of lines. The writer checks the length of lines, and that time does not decrease.
#[derive(Debug)]
struct Lines<W: Write> {
    output: Output<W>,
    line: String,
    last: Instant,
}

impl<W: Write> Lines<W> {
    fn new(to: W) -> Lines<W> {
        Lines { output: Output::new(to), line: String::new(), last: Instant::ZERO }
    }

    fn put(&mut self, line: fmt::Arguments<'_>) {
        self.line.clear();
        self.line.write_fmt(line).expect("a string takes what is written to it");
        self.line.push('\n');
        if self.line.len() > LINE_MOST {
            self.refuse(format!("a line of {} bytes; help: use a shorter name", self.line.len()));
        }
        self.output.write(self.line.as_bytes());
    }

    /// Writes an event, with its machine in a world.
    fn event(&mut self, machine: Option<MachineId>, at: Instant, event: &Event) {
        if at < self.last {
            self.refuse(format!("an event at {at} after one at {}; help: record events in order of time", self.last));
        }
        self.last = at;
        match machine {
            None => self.put(format_args!("{:>12} {event}", Ns(at))),
            Some(machine) => self.put(format_args!("{:>12} {machine} {event}", Ns(at))),
        }
    }

    fn refuse(&mut self, what: String) {
        self.output.fail(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
}

/// The policy, CPUs and seed of a header, as text.
struct About<'a>(&'a Header);

impl Display for About<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Header { policy, cpus, seed } = self.0;
        write!(f, "policy={} cpus={cpus} seed={seed}", Quoted(policy))
    }
}

/// Writes events in the text format as they happen. [`finish`](TextWriter::finish) reports errors.
#[derive(Debug)]
pub struct TextWriter<W: Write> {
    lines: Lines<W>,
}

impl<W: Write> TextWriter<W> {
    /// Creates a writer and writes the header. `to` need not be buffered.
    pub fn new(to: W, header: &Header) -> TextWriter<W> {
        let mut lines = Lines::new(to);
        let cpus = header.cpus;
        if !(1..=CPUS_MAX).contains(&cpus) {
            lines.refuse(format!("a machine of {cpus} CPUs; help: use 1 to {CPUS_MAX}"));
        }
        lines.put(format_args!("{MAGIC} {VERSION} {}", About(header)));
        TextWriter { lines }
    }

    /// Flushes after the last event, and returns the inner writer.
    ///
    /// # Errors
    /// The first error of the run: an error of the inner writer, or `InvalidInput` for content that the format does not
    /// permit. Such content is a machine without CPUs or with too many CPUs, a line longer than [`LINE_MOST`], or an
    /// event earlier than the previous event. Nothing is written after the error.
    pub fn finish(self) -> io::Result<W> {
        self.lines.output.finish()
    }
}

impl<W: Write> Sink for TextWriter<W> {
    fn record(&mut self, at: Instant, event: &Event) {
        self.lines.event(None, at, event);
    }
}

/// Writes the events of a world in the text format as they happen. [`finish`](WorldTextWriter::finish) reports errors.
#[derive(Debug)]
pub struct WorldTextWriter<W: Write> {
    lines: Lines<W>,
    machines: usize,
}

impl<W: Write> WorldTextWriter<W> {
    /// Creates a writer and writes the headers. `to` need not be buffered.
    pub fn new(to: W, header: &WorldHeader) -> WorldTextWriter<W> {
        let mut lines = Lines::new(to);
        if let Err(reason) = header.check() {
            lines.refuse(reason);
        }
        let machines = header.machines.len();
        lines.put(format_args!("{WORLD_MAGIC} {VERSION} machines={machines}"));
        for (id, MachineHeader { name, header, host }) in header.ids().zip(&header.machines) {
            lines.put(format_args!("machine {id} name={} {} host={}", Quoted(name), About(header), OrNone(*host)));
        }
        WorldTextWriter { lines, machines }
    }

    /// Flushes after the last event, and returns the inner writer.
    ///
    /// # Errors
    /// The errors of a [`TextWriter`], and `InvalidInput` for an invalid world or for an event of a machine that is not
    /// in the world.
    pub fn finish(self) -> io::Result<W> {
        self.lines.output.finish()
    }
}

impl<W: Write> WorldSink for WorldTextWriter<W> {
    fn record(&mut self, machine: MachineId, at: Instant, event: &Event) {
        if machine.index() >= self.machines {
            let machines = self.machines;
            self.lines.refuse(format!("an event of {machine}; help: use a machine below m{machines}"));
        }
        self.lines.event(Some(machine), at, event);
    }
}

/// An instant as text: a whole number of nanoseconds.
struct Ns(Instant);

impl Display for Ns {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == Instant::NEVER { f.pad("never") } else { Display::fmt(&self.0.as_ns(), f) }
    }
}

/// A string as text: in double quotes, on one line.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                // Line separators, paragraph separators and marks of text direction would change the display of the
                // line.
                '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => write!(f, "{}", c.escape_unicode())?,
                c if c.is_control() => write!(f, "{}", c.escape_unicode())?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

const fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// An optional value as text: the value or `none`.
struct OrNone<T>(Option<T>);

impl<T: Display> Display for OrNone<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl Display for Event {
    /// Writes the verb and the fields of an event.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Event::Input(input) => write_input(f, input),
            Event::Action(action) => write_action(f, action),
            Event::Settled => f.write_str("settled"),
            Event::GroupCreated { group, name, parent, params } => {
                write!(f, "group-create {group} name={} parent={parent} {}", Quoted(name), Asked(&**params))
            }
            Event::GroupAdjusted { group, params } => write!(f, "group-adjust {group} {}", Asked(&**params)),
            Event::GroupRemoved { group } => write!(f, "group-remove {group}"),
            Event::Attach { entity, name, params } => {
                write!(f, "attach {entity} name={} {}", Quoted(name), Asked(&**params))
            }
            Event::Adjust { entity, params } => write!(f, "adjust {entity} {}", Asked(&**params)),
            Event::Detach { entity } => write!(f, "detach {entity}"),
            Event::Refused(request) => write_refused(f, request),
            Event::Background { entity, time } => write!(f, "background {entity} time={}", time.as_ns()),
            Event::Woke { entity, late } => write!(f, "woke {entity} late={}", late.as_ns()),
            Event::Period { entity, due, delivered, throughout } => {
                let (due, delivered) = (due.as_ns(), delivered.as_ns());
                write!(f, "period {entity} due={due} delivered={delivered} throughout={}", yes_no(*throughout))
            }
            Event::Kept { entity, kept, missed, of } => {
                write!(f, "kept {entity} kept={} missed={missed} of={of}", yes_no(*kept))
            }
            Event::Vcpu { entity, guest, cpu } => write!(f, "vcpu {entity} guest={guest} cpu={cpu}"),
            Event::Irq { cpu, time } => write!(f, "irq cpu={cpu} time={}", time.as_ns()),
            Event::SpinWait { entity, waited } => write!(f, "spin-wait {entity} waited={}", waited.as_ns()),
            Event::Skipped { entity, beats } => write!(f, "skipped {entity} beats={beats}"),
            Event::Sent { entity, flow, bytes } => write!(f, "sent {entity} flow={flow} bytes={bytes}"),
            Event::Boosted { entity, boosted } => write!(f, "boosted {entity} boosted={}", yes_no(*boosted)),
            Event::Served { entity } => write!(f, "served {entity}"),
            Event::Arrived { flow, bytes, took } => {
                write!(f, "arrived flow={flow} bytes={bytes} took={}", took.as_ns())
            }
            Event::Lost { flow, bytes } => write!(f, "lost flow={flow} bytes={bytes}"),
            Event::Release { entity, deadline } => write!(f, "release {entity} deadline={}", Ns(*deadline)),
            Event::Complete { entity } => write!(f, "complete {entity}"),
            Event::Aborted { entity, executed } => write!(f, "aborted {entity} executed={}", yes_no(*executed)),
            Event::End => f.write_str("end"),
        }
    }
}

fn write_input(f: &mut Formatter<'_>, input: &Input) -> fmt::Result {
    match input {
        Input::Wake { entity, why } => write!(f, "wake {entity} {}", Reason(*why)),
        Input::Event { entity, what: Notice::Interrupt } => write!(f, "interrupt {entity}"),
        Input::Event { entity, what: Notice::SpinWait { waited } } => {
            write!(f, "spin-report {entity} waited={}", waited.as_ns())
        }
        Input::Block { cpu } => write!(f, "block cpu={cpu}"),
        Input::Yield { cpu } => write!(f, "yield cpu={cpu}"),
        Input::YieldTo { cpu, to } => write!(f, "yield-to cpu={cpu} to={to}"),
        Input::Expire { cpu } => write!(f, "expire cpu={cpu}"),
        Input::Kicked { cpu } => write!(f, "kicked cpu={cpu}"),
        Input::Alarm { alarm } => write!(f, "alarm {}", Slot(alarm)),
        Input::Pause { entity } => write!(f, "pause {entity}"),
        Input::Ran { cpu, time } => write!(f, "ran cpu={cpu} time={}", time.as_ns()),
        Input::Freeze { cpu, preempted } => write!(f, "freeze cpu={cpu} preempted={}", yes_no(*preempted)),
        Input::Thaw { cpu, stolen } => write!(f, "thaw cpu={cpu} stolen={}", stolen.as_ns()),
    }
}

fn write_action(f: &mut Formatter<'_>, action: &Action) -> fmt::Result {
    match action {
        Action::Stop { cpu, entity } => write!(f, "stop cpu={cpu} {entity}"),
        Action::Run { cpu, entity, until } => write!(f, "run cpu={cpu} {entity} until={}", Ns(*until)),
        Action::Extend { cpu, until } => write!(f, "extend cpu={cpu} until={}", Ns(*until)),
        Action::Kick { cpu } => write!(f, "kick cpu={cpu}"),
        Action::Held { entity, reasons } => write!(f, "held {entity} reasons={}", Reasons(*reasons)),
        Action::SetAlarm { alarm, on, at } => write!(f, "set-alarm {} cpu={on} at={}", Slot(alarm), Ns(*at)),
        Action::ClearAlarm { alarm } => write!(f, "clear-alarm {}", Slot(alarm)),
    }
}

fn write_refused(f: &mut Formatter<'_>, request: &Request) -> fmt::Result {
    match request {
        Request::CreateGroup { name, parent, params } => {
            write!(f, "refused-group-create name={} parent={parent} {}", Quoted(name), Asked(params))
        }
        Request::AdjustGroup { group, params } => write!(f, "refused-group-adjust {group} {}", Asked(params)),
        Request::Attach { name, params } => write!(f, "refused-attach name={} {}", Quoted(name), Asked(params)),
        Request::Adjust { entity, params } => write!(f, "refused-adjust {entity} {}", Asked(params)),
    }
}

/// The parameters of an entity or a group, as text.
struct Asked<'a, T>(&'a T);

impl Display for Asked<'_, Params> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Params { weight, reservation, class, latency, warp, affinity, group } = self.0;
        write!(f, "weight={weight} class=")?;
        match class {
            Class::Normal => f.write_str("normal")?,
            Class::Batch => f.write_str("batch")?,
            Class::Idle => f.write_str("idle")?,
            Class::Isochronous => f.write_str("iso")?,
            Class::Stop => f.write_str("stop")?,
            Class::Fifo(priority) => write!(f, "fifo:{}", priority.number())?,
            Class::RoundRobin(priority) => write!(f, "rr:{}", priority.number())?,
        }
        write!(f, " cpus={affinity} group={group} latency={} warp=", OrNone(latency.map(Nanos::as_ns)))?;
        match warp {
            Some(Warp { by, limit, rest }) => write!(f, "{}/{}/{}", by.as_ns(), limit.as_ns(), rest.as_ns())?,
            None => f.write_str("none")?,
        }
        f.write_str(" reservation=")?;
        let Some(promise) = reservation else { return f.write_str("none") };
        let limit = match promise.limit {
            Limit::Soft => "soft",
            Limit::Hard => "hard",
        };
        let (slice, period) = (promise.slice.as_ns(), promise.period.as_ns());
        let (deadline, start) = (OrNone(promise.deadline.map(Nanos::as_ns)), OrNone(promise.start.map(Ns)));
        write!(f, "{slice}/{period} deadline={deadline} start={start} limit={limit}")
    }
}

impl Display for Asked<'_, GroupParams> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let GroupParams { weight, quota, cap_percent, gang } = self.0;
        write!(f, "weight={weight} quota=")?;
        match quota {
            Some(quota) => write!(f, "{}/{}", quota.quota.as_ns(), quota.period.as_ns())?,
            None => f.write_str("none")?,
        }
        write!(f, " cap={} gang={}", OrNone(*cap_percent), yes_no(*gang))
    }
}

/// The cause of a wake-up, as text.
struct Reason(Wake);

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wake::New { parent } => write!(f, "why=new parent={}", OrNone(parent)),
            Wake::By { waker, sync } => write!(f, "why=by waker={waker} sync={}", yes_no(sync)),
            Wake::Interrupt => f.write_str("why=interrupt"),
            Wake::Timer => f.write_str("why=timer"),
            Wake::Resumed => f.write_str("why=resumed"),
        }
    }
}

/// The owner and the slot of an alarm, as text.
struct Slot<'a>(&'a Alarm);

impl Display for Slot<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.owner {
            AlarmOwner::Policy => f.write_str("of=policy")?,
            AlarmOwner::Cpu(cpu) => write!(f, "of=cpu{cpu}")?,
            AlarmOwner::Entity(entity) => write!(f, "of={entity}")?,
            AlarmOwner::Group(group) => write!(f, "of={group}")?,
        }
        write!(f, " slot={}", self.0.slot)
    }
}

/// [`Held`] bits as text, by name.
pub(crate) struct Reasons(pub(crate) u8);

impl Display for Reasons {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut rest = self.0;
        let mut separator = "";
        for reason in Held::ALL.into_iter().filter(|&reason| self.0 & reason as u8 != 0) {
            write!(f, "{separator}{}", reason.name())?;
            rest &= !(reason as u8);
            separator = "+";
        }
        if rest != 0 { write!(f, "{separator}{rest}") } else { Ok(()) }
    }
}
