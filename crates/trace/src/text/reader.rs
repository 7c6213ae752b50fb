//! [`Reader`], [`WorldReader`]: readers of the text format.

use super::cursor::{Cursor, Wrong, quote};
use super::lines::{Lines, TextError, place};
use super::{MAGIC, VERSION, WORLD_MAGIC};
use crate::event::{Event, Header, Request, Trace};
use crate::machine_id::{MACHINES_MAX, MachineId};
use crate::world::{MachineHeader, WorldHeader, WorldTrace};
use sched::id::CPUS_MAX;
use sched::{Action, Input, Instant, Notice};
use std::io::BufRead;

/// Reads a whole trace into memory.
///
/// # Errors
/// The error of the first line that cannot be read or does not follow the format.
pub fn read(from: impl BufRead) -> Result<Trace, TextError> {
    let mut reader = Reader::new(from)?;
    let mut trace = Trace::new(reader.header().clone());
    for event in &mut reader {
        trace.events.push(event?);
    }
    Ok(trace)
}

/// Reads the trace of a world into memory.
///
/// # Errors
/// The error of the first line that cannot be read or does not follow the format.
pub fn read_world(from: impl BufRead) -> Result<WorldTrace, TextError> {
    let mut reader = WorldReader::new(from)?;
    let mut trace = WorldTrace::new(reader.header().clone());
    for event in &mut reader {
        trace.events.push(event?);
    }
    Ok(trace)
}

/// Reads a trace event by event, in constant memory. The iteration ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    header: Header,
    last: Instant,
    over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The header is missing, has another version, or does not follow the format.
    pub fn new(from: R) -> Result<Reader<R>, TextError> {
        let mut lines = Lines::new(from);
        let header = lines.first(|cursor| header_of(cursor, &ONE), &ONE.example())?;
        Ok(Reader { lines, header, last: Instant::ZERO, over: false })
    }

    /// Returns the header of the trace.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn next_event(&mut self) -> Result<Option<(Instant, Event)>, TextError> {
        let last = &mut self.last;
        self.lines.next(|cursor| {
            let at = time(cursor, last)?;
            Ok((at, fields(cursor)?))
        })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<(Instant, Event), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.next_event().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Reads the trace of a world event by event, in constant memory. The iteration ends after the first error.
#[derive(Debug)]
pub struct WorldReader<R> {
    lines: Lines<R>,
    header: WorldHeader,
    last: Instant,
    over: bool,
}

impl<R: BufRead> WorldReader<R> {
    /// Reads the headers of the world and of its machines.
    ///
    /// # Errors
    /// A header is missing, has another version, or does not follow the format.
    pub fn new(from: R) -> Result<WorldReader<R>, TextError> {
        let mut lines = Lines::new(from);
        let count = lines.first(|cursor| machines_of(cursor, &WORLD), &WORLD.example())?;
        let mut header = WorldHeader::default();
        for id in (0..count).map(MachineId) {
            let Some(machine) = lines.next(|cursor| machine_of(cursor, id))? else {
                let reason = format!("the headers of machines from {id} on are missing");
                let help = format!("write {count} headers, the number in the first line");
                return Err(place(lines.number, "", Wrong { at: 0, reason, help }));
            };
            header.machines.push(machine);
        }
        Ok(WorldReader { lines, header, last: Instant::ZERO, over: false })
    }

    /// Returns the header of the world.
    #[must_use]
    pub fn header(&self) -> &WorldHeader {
        &self.header
    }

    fn next_event(&mut self) -> Result<Option<(MachineId, Instant, Event)>, TextError> {
        let (last, machines) = (&mut self.last, self.header.machines.len());
        self.lines.next(|cursor| {
            let at = time(cursor, last)?;
            let place = cursor.place();
            let machine = cursor.machine()?;
            if machine.index() >= machines {
                let (reason, help) =
                    (format!("there is no machine {machine}"), format!("use a machine below m{machines}"));
                return Err(Wrong { at: place, reason, help });
            }
            Ok((machine, at, fields(cursor)?))
        })
    }
}

impl<R: BufRead> Iterator for WorldReader<R> {
    type Item = Result<(MachineId, Instant, Event), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.next_event().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The first line of one of the two types of trace.
struct Kind {
    magic: &'static str,
    what: &'static str,
    rest: &'static str,
    /// First word of the other type of trace, with the error for this word.
    other: (&'static str, &'static str),
}

const ONE: Kind = Kind {
    magic: MAGIC,
    what: "a trace",
    rest: "policy=\"…\" cpus=… seed=…",
    other: (WORLD_MAGIC, "this is a trace of several machines"),
};

const WORLD: Kind = Kind {
    magic: WORLD_MAGIC,
    what: "a trace of a world",
    rest: "machines=…",
    other: (MAGIC, "this is a trace of one machine"),
};

impl Kind {
    fn example(&self) -> String {
        format!("`{} {VERSION} {}`", self.magic, self.rest)
    }

    /// Reads the first word and the version.
    fn begin(&self, cursor: &mut Cursor<'_>) -> Result<(), Wrong> {
        let magic = cursor.verb().0;
        match (magic, cursor.bare_number::<u32>(u64::from(u32::MAX))) {
            (magic, Ok(VERSION)) if magic == self.magic => Ok(()),
            (magic, Ok(other)) if magic == self.magic => {
                let reason = format!("version {other} of the format is not known");
                Err(Wrong { at: magic.len() + 1, reason, help: format!("use version {VERSION}") })
            }
            (magic, _) => {
                let (other, what) = self.other;
                let reason = if magic == other { what.into() } else { format!("this is not {}", self.what) };
                Err(Wrong { at: 0, reason, help: format!("write {}", self.example()) })
            }
        }
    }
}

fn header_of(cursor: &mut Cursor<'_>, kind: &Kind) -> Result<Header, Wrong> {
    kind.begin(cursor)?;
    about(cursor)
}

/// Reads the number of machines of a world.
fn machines_of(cursor: &mut Cursor<'_>, kind: &Kind) -> Result<u32, Wrong> {
    kind.begin(cursor)?;
    let at = cursor.place();
    let machines = cursor.number("machines", MACHINES_MAX as u64)?;
    if machines == 0 {
        let help = format!("use `machines=1` to `machines={MACHINES_MAX}`");
        return Err(Wrong { at, reason: "a world without machines".into(), help });
    }
    Ok(machines)
}

/// Reads the header of machine `id`.
fn machine_of(cursor: &mut Cursor<'_>, id: MachineId) -> Result<MachineHeader, Wrong> {
    let help = format!("write `machine {id} name=\"…\" {} host=…`", ONE.rest);
    let (verb, at) = cursor.verb();
    if verb != "machine" {
        return Err(Wrong { at, reason: format!("{} is not the header of a machine", quote(verb)), help });
    }
    let at = cursor.place();
    let found = cursor.machine()?;
    if found != id {
        return Err(Wrong { at, reason: format!("{found} is not the next machine"), help });
    }
    let name = cursor.text("name")?;
    let header = about(cursor)?;
    let at = cursor.place();
    let host = cursor.machine_or_none("host")?;
    if host.is_some_and(|host| host >= id) {
        let reason = format!("the host of {id} does not come before it");
        return Err(Wrong { at, reason, help: "use `none` or a machine above".into() });
    }
    Ok(MachineHeader { name, header, host })
}

/// Reads the policy, CPUs and seed of a header.
fn about(cursor: &mut Cursor<'_>) -> Result<Header, Wrong> {
    let policy = cursor.text("policy")?;
    let cpus = cursor.number("cpus", CPUS_MAX as u64)?;
    if cpus == 0 {
        let help = format!("use `cpus=1` to `cpus={CPUS_MAX}`");
        return Err(Wrong { at: 0, reason: "a machine without CPUs".into(), help });
    }
    let seed = cursor.number("seed", u64::MAX)?;
    Ok(Header { policy, cpus, seed })
}

/// Reads the instant of an event, which must be `last` or later.
fn time(cursor: &mut Cursor<'_>, last: &mut Instant) -> Result<Instant, Wrong> {
    let at = cursor.bare_instant()?;
    if at < *last {
        let reason = format!("time goes back: the line before is at {} ns", last.as_ns());
        return Err(Wrong { at: 0, reason, help: format!("use at least {}", last.as_ns()) });
    }
    *last = at;
    Ok(at)
}

/// Reads the verb and its fields, in the order of the format.
fn fields(line: &mut Cursor<'_>) -> Result<Event, Wrong> {
    let (verb, at) = line.verb();
    if let Some(input) = input(verb, line)? {
        return Ok(Event::Input(input));
    }
    if let Some(action) = action(verb, line)? {
        return Ok(Event::Action(action));
    }
    if let Some(event) = change(verb, line)? {
        return Ok(event);
    }
    Ok(match verb {
        "settled" => Event::Settled,
        "background" => Event::Background { entity: line.entity()?, time: line.span_in("time")? },
        "woke" => Event::Woke { entity: line.entity()?, late: line.span_in("late")? },
        "period" => Event::Period {
            entity: line.entity()?,
            due: line.span_in("due")?,
            delivered: line.span_in("delivered")?,
            throughout: line.yes_no("throughout")?,
        },
        "kept" => Event::Kept {
            entity: line.entity()?,
            kept: line.yes_no("kept")?,
            missed: line.number("missed", u64::MAX)?,
            of: line.number("of", u64::MAX)?,
        },
        "irq" => Event::Irq { cpu: line.cpu()?, time: line.span_in("time")? },
        "spin-wait" => Event::SpinWait { entity: line.entity()?, waited: line.span_in("waited")? },
        "skipped" => Event::Skipped { entity: line.entity()?, beats: line.number("beats", u64::MAX)? },
        "sent" => Event::Sent { entity: line.entity()?, flow: line.flow()?, bytes: line.bytes()? },
        "boosted" => Event::Boosted { entity: line.entity()?, boosted: line.yes_no("boosted")? },
        "served" => Event::Served { entity: line.entity()? },
        "arrived" => Event::Arrived { flow: line.flow()?, bytes: line.bytes()?, took: line.span_in("took")? },
        "lost" => Event::Lost { flow: line.flow()?, bytes: line.bytes()? },
        "release" => Event::Release { entity: line.entity()?, deadline: line.instant("deadline")? },
        "complete" => Event::Complete { entity: line.entity()? },
        "aborted" => Event::Aborted { entity: line.entity()?, executed: line.yes_no("executed")? },
        "vcpu" => Event::Vcpu { entity: line.entity()?, guest: line.machine_in("guest")?, cpu: line.cpu()? },
        "end" => Event::End,
        other => {
            let reason = match other {
                "" => "the line has no verb".to_string(),
                other => format!("{} is not a verb", quote(other)),
            };
            return Err(Wrong { at, reason, help: "use a verb of the format, such as `run` or `wake`".into() });
        }
    })
}

/// Reads the fields of an input of a machine. `None`: the verb is not an input.
fn input(verb: &str, line: &mut Cursor<'_>) -> Result<Option<Input>, Wrong> {
    Ok(Some(match verb {
        "wake" => Input::Wake { entity: line.entity()?, why: line.why()? },
        "interrupt" => Input::Event { entity: line.entity()?, what: Notice::Interrupt },
        "spin-report" => {
            Input::Event { entity: line.entity()?, what: Notice::SpinWait { waited: line.span_in("waited")? } }
        }
        "block" => Input::Block { cpu: line.cpu()? },
        "yield" => Input::Yield { cpu: line.cpu()? },
        "yield-to" => Input::YieldTo { cpu: line.cpu()?, to: line.entity_in("to")? },
        "expire" => Input::Expire { cpu: line.cpu()? },
        "kicked" => Input::Kicked { cpu: line.cpu()? },
        "alarm" => Input::Alarm { alarm: line.alarm()? },
        "pause" => Input::Pause { entity: line.entity()? },
        "ran" => Input::Ran { cpu: line.cpu()?, time: line.span_in("time")? },
        "freeze" => Input::Freeze { cpu: line.cpu()?, preempted: line.yes_no("preempted")? },
        "thaw" => Input::Thaw { cpu: line.cpu()?, stolen: line.span_in("stolen")? },
        _ => return Ok(None),
    }))
}

/// Reads the fields of an action. `None`: the verb is not an action.
fn action(verb: &str, line: &mut Cursor<'_>) -> Result<Option<Action>, Wrong> {
    Ok(Some(match verb {
        "stop" => Action::Stop { cpu: line.cpu()?, entity: line.entity()? },
        "run" => Action::Run { cpu: line.cpu()?, entity: line.entity()?, until: line.instant("until")? },
        "extend" => Action::Extend { cpu: line.cpu()?, until: line.instant("until")? },
        "kick" => Action::Kick { cpu: line.cpu()? },
        "held" => Action::Held { entity: line.entity()?, reasons: line.reasons()? },
        "set-alarm" => Action::SetAlarm { alarm: line.alarm()?, on: line.cpu()?, at: line.instant("at")? },
        "clear-alarm" => Action::ClearAlarm { alarm: line.alarm()? },
        _ => return Ok(None),
    }))
}

/// Reads the fields of a change to the entities or groups of a machine, made or refused. `None`: the verb is not a
/// change.
fn change(verb: &str, line: &mut Cursor<'_>) -> Result<Option<Event>, Wrong> {
    let refused = |request| Event::Refused(Box::new(request));
    Ok(Some(match verb {
        "group-create" => Event::GroupCreated {
            group: line.group()?,
            name: line.text("name")?,
            parent: line.group_in("parent")?,
            params: Box::new(line.group_params()?),
        },
        "group-adjust" => Event::GroupAdjusted { group: line.group()?, params: Box::new(line.group_params()?) },
        "group-remove" => Event::GroupRemoved { group: line.group()? },
        "attach" => {
            Event::Attach { entity: line.entity()?, name: line.text("name")?, params: Box::new(line.params()?) }
        }
        "adjust" => Event::Adjust { entity: line.entity()?, params: Box::new(line.params()?) },
        "detach" => Event::Detach { entity: line.entity()? },
        "refused-group-create" => refused(Request::CreateGroup {
            name: line.text("name")?,
            parent: line.group_in("parent")?,
            params: line.group_params()?,
        }),
        "refused-group-adjust" => refused(Request::AdjustGroup { group: line.group()?, params: line.group_params()? }),
        "refused-attach" => refused(Request::Attach { name: line.text("name")?, params: line.params()? }),
        "refused-adjust" => refused(Request::Adjust { entity: line.entity()?, params: line.params()? }),
        _ => return Ok(None),
    }))
}
