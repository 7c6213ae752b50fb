//! [`Reader`]: lines to events.

use super::cursor::{Cursor, Wrong, quote};
use super::{LINE_MOST, MAGIC, VERSION};
use crate::{Event, Header, Trace};
use sched::Instant;
use sched::id::CPUS_MAX;
use std::fmt;
use std::io::{self, BufRead, Read as _};

/// Why a text is not a trace.
#[derive(Debug)]
pub enum TextError {
    /// It could not be read.
    Read {
        /// The line, from 1.
        line: usize,
        /// What happened.
        source: io::Error,
    },
    /// It does not follow the format.
    Wrong {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
        /// What would be right.
        right: String,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Read { line, source } => write!(f, "line {line}: {source}"),
            TextError::Wrong { line, column, reason, right } => {
                write!(f, "line {line}, column {column}: {reason}; right would be {right}")
            }
        }
    }
}

impl std::error::Error for TextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TextError::Read { source, .. } => Some(source),
            TextError::Wrong { .. } => None,
        }
    }
}

/// Reads a whole trace into memory.
///
/// # Errors
/// The first line that cannot be read or does not follow the format.
pub fn read(from: impl BufRead) -> Result<Trace, TextError> {
    let mut reader = Reader::new(from)?;
    let mut trace = Trace::new(reader.header().clone());
    for event in &mut reader {
        trace.events.push(event?);
    }
    Ok(trace)
}

/// Reads a trace event by event, so that it need not fit in memory; ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    bytes: Vec<u8>,
    line: usize,
    last: Instant,
    over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// There is none, or it is not one this version reads.
    pub fn new(from: R) -> Result<Reader<R>, TextError> {
        let header = Header { policy: String::new(), cpus: 0, seed: 0 };
        let mut reader = Reader { from, header, bytes: Vec::new(), line: 0, last: Instant::ZERO, over: false };
        let example = format!("`{MAGIC} {VERSION} policy=\"…\" cpus=… seed=…`");
        if !reader.next_line()? {
            let wrong = Wrong { at: 0, reason: "there is no header".into(), right: example };
            return Err(place(reader.line, "", wrong));
        }
        let line = text(&reader.bytes, reader.line)?;
        reader.header = header_of(line, &example).map_err(|wrong| place(reader.line, line, wrong))?;
        Ok(reader)
    }

    /// What the trace says about the run as a whole.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Takes the next line that is neither blank nor a comment, without its line feed; says whether there is one.
    fn next_line(&mut self) -> Result<bool, TextError> {
        loop {
            self.line += 1;
            self.bytes.clear();
            let mut limited = self.from.by_ref().take(LINE_MOST as u64 + 1);
            if let Err(source) = limited.read_until(b'\n', &mut self.bytes) {
                return Err(TextError::Read { line: self.line, source });
            }
            if self.bytes.is_empty() {
                return Ok(false);
            }
            if self.bytes.pop_if(|last| *last == b'\n').is_none() {
                let (reason, right) = if self.bytes.len() > LINE_MOST {
                    ("the line is too long", format!("at most {LINE_MOST} bytes"))
                } else {
                    ("the last line is cut off", "a line feed at the end of the file".into())
                };
                let shown = String::from_utf8_lossy(&self.bytes);
                return Err(place(self.line, &shown, Wrong { at: shown.len(), reason: reason.into(), right }));
            }
            self.bytes.pop_if(|last| *last == b'\r');
            if !matches!(self.bytes.trim_ascii_start().first(), None | Some(b'#')) {
                return Ok(true);
            }
        }
    }

    fn next_event(&mut self) -> Result<Option<(Instant, Event)>, TextError> {
        if !self.next_line()? {
            return Ok(None);
        }
        let line = text(&self.bytes, self.line)?;
        let (at, event) = event_of(line, self.last).map_err(|wrong| place(self.line, line, wrong))?;
        self.last = at;
        Ok(Some((at, event)))
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

/// A wrong thing, with its place in the file.
fn place(line: usize, text: &str, wrong: Wrong) -> TextError {
    let column = text.char_indices().take_while(|&(at, _)| at < wrong.at).count() + 1;
    TextError::Wrong { line, column, reason: wrong.reason, right: wrong.right }
}

fn text(bytes: &[u8], line: usize) -> Result<&str, TextError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (reason, right) = ("a byte that is not UTF-8".into(), "text in UTF-8".into());
        place(line, &valid, Wrong { at: valid.len(), reason, right })
    })
}

fn header_of(line: &str, example: &str) -> Result<Header, Wrong> {
    let mut cursor = Cursor::new(line);
    let found = (cursor.verb().0, cursor.bare_number::<u32>(u64::from(u32::MAX)));
    match found {
        (MAGIC, Ok(VERSION)) => {}
        (MAGIC, Ok(other)) => {
            let reason = format!("version {other} of the format is not known");
            return Err(Wrong { at: MAGIC.len() + 1, reason, right: format!("version {VERSION}") });
        }
        _ => return Err(Wrong { at: 0, reason: "this is not a trace".into(), right: example.into() }),
    }
    let policy = cursor.text("policy")?;
    let cpus = cursor.number("cpus", CPUS_MAX as u64)?;
    if cpus == 0 {
        let right = format!("`cpus=1` to `cpus={CPUS_MAX}`");
        return Err(Wrong { at: 0, reason: "a machine without CPUs".into(), right });
    }
    let seed = cursor.number("seed", u64::MAX)?;
    cursor.end()?;
    Ok(Header { policy, cpus, seed })
}

fn event_of(line: &str, last: Instant) -> Result<(Instant, Event), Wrong> {
    let mut cursor = Cursor::new(line);
    let at = cursor.bare_instant()?;
    if at < last {
        let reason = format!("time goes back: the line before is at {} ns", last.as_ns());
        return Err(Wrong { at: 0, reason, right: format!("at least {}", last.as_ns()) });
    }
    let event = fields(&mut cursor)?;
    cursor.end()?;
    Ok((at, event))
}

/// The verb and its fields; the order in which fields are read is the order of the format.
fn fields(line: &mut Cursor<'_>) -> Result<Event, Wrong> {
    let (verb, at) = line.verb();
    Ok(match verb {
        "group-create" => Event::GroupCreated {
            group: line.group()?,
            name: line.text("name")?,
            parent: line.group_in("parent")?,
            params: line.group_params()?,
        },
        "group-adjust" => Event::GroupAdjusted { group: line.group()?, params: line.group_params()? },
        "group-remove" => Event::GroupRemoved { group: line.group()? },
        "attach" => {
            Event::Attach { entity: line.entity()?, name: line.text("name")?, params: Box::new(line.params()?) }
        }
        "adjust" => Event::Adjust { entity: line.entity()?, params: Box::new(line.params()?) },
        "detach" => Event::Detach { entity: line.entity()? },
        "wake" => Event::Wake { entity: line.entity()?, why: line.why()? },
        "interrupt" => Event::Interrupt { entity: line.entity()? },
        "spin-wait" => Event::SpinWait { entity: line.entity()?, waited: line.span_in("waited")? },
        "block" => Event::Block { cpu: line.cpu()? },
        "yield" => Event::Yield { cpu: line.cpu()? },
        "yield-to" => Event::YieldTo { cpu: line.cpu()?, to: line.entity_in("to")? },
        "expire" => Event::Expire { cpu: line.cpu()? },
        "kicked" => Event::Kicked { cpu: line.cpu()? },
        "alarm" => Event::Alarm { alarm: line.alarm()? },
        "pause" => Event::Pause { entity: line.entity()? },
        "ran" => Event::Ran { cpu: line.cpu()?, time: line.span_in("time")? },
        "background" => Event::Background { entity: line.entity()?, time: line.span_in("time")? },
        "woke" => Event::Woke { entity: line.entity()?, late: line.span_in("late")? },
        "period" => Event::Period {
            entity: line.entity()?,
            due: line.span_in("due")?,
            delivered: line.span_in("delivered")?,
            throughout: line.yes_no("throughout")?,
        },
        "release" => Event::Release { entity: line.entity()?, deadline: line.instant("deadline")? },
        "complete" => Event::Complete { entity: line.entity()? },
        "stop" => Event::Stop { cpu: line.cpu()?, entity: line.entity()? },
        "run" => Event::Run { cpu: line.cpu()?, entity: line.entity()?, until: line.instant("until")? },
        "extend" => Event::Extend { cpu: line.cpu()?, until: line.instant("until")? },
        "kick" => Event::Kick { cpu: line.cpu()? },
        "held" => Event::Held { entity: line.entity()?, reasons: line.reasons()? },
        "set-alarm" => Event::SetAlarm { alarm: line.alarm()?, on: line.cpu()?, at: line.instant("at")? },
        "clear-alarm" => Event::ClearAlarm { alarm: line.alarm()? },
        "end" => Event::End,
        other => {
            let reason = match other {
                "" => "the line has no verb".to_string(),
                other => format!("{} is not a verb", quote(other)),
            };
            return Err(Wrong { at, reason, right: "one of the verbs of the format, such as `run` or `wake`".into() });
        }
    })
}
