//! [`Event`]: an event of a thread, as written in the file.

use super::json::Json;
use super::object::{Object, integer, micros, mistyped, text};
use input::problem::{Findings, Problem, Wrong, nearest, quoted};
use input::source::{Placed, Span};
use sched::Nanos;
use sim::program::TimerMode;

/// Names of the events. A name precedes the shorter names with which it begins.
const EVENTS: &[&str] = &[
    "barrier",
    "broadcast",
    "broad",
    "fork",
    "iorun",
    "lock",
    "mem",
    "resume",
    "runtime",
    "run",
    "signal",
    "sleep",
    "suspend",
    "sync",
    "timer",
    "unlock",
    "wait",
    "yield",
];
/// Number of bytes that a `mem` or `iorun` writes per microsecond: 10 GB/s, about the memory bandwidth of one current
/// CPU.
const BYTES_PER_US: u64 = 10_000;

/// An event of a thread. Strings in variants are names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event<'f> {
    Run(Nanos),
    Sleep(Nanos),
    Timer {
        name: &'f str,
        period: Nanos,
        mode: TimerMode,
    },
    Lock(&'f str),
    Unlock(&'f str),
    Wait {
        condition: &'f str,
        mutex: &'f str,
    },
    Signal(&'f str),
    Broadcast(&'f str),
    /// Signals, then waits. According to rt-app's manual, the event acquires the mutex. According to rt-app's code and
    /// examples, the thread already holds the mutex. Here, the event acquires the mutex unless the thread already holds
    /// it.
    Sync {
        condition: &'f str,
        mutex: &'f str,
        locks: bool,
    },
    Suspend(&'f str),
    Resume(&'f str),
    Barrier(&'f str),
    Yield,
    Fork(&'f str),
}

/// Returns the event that `key` names: an event's name with an optional suffix (`run`, `run2`, `sleep_b`, `lock-1`).
///
/// rt-app accepts any key that begins with the name of an event, such as `runn` and `locked`. This function rejects a
/// suffix that begins with a lower-case letter.
pub(super) fn named(key: &str) -> Option<&'static str> {
    let ends = |name: &str| key.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_lowercase()));
    EVENTS.iter().copied().find(|name| ends(name))
}

/// Returns the error for `key`, which is neither an event nor one of `properties`. The remedy suggests the most similar
/// key, if any.
pub(super) fn unknown(what: &str, key: &Placed<impl AsRef<str>>, properties: &[&str]) -> Problem {
    let name = key.value.as_ref();
    let problem =
        Problem::new(format!("{what} has no property and no event {}", quoted(name))).at(key.at, "unknown key");
    let all = format!(
        "a property ({}) or an event ({}, each with a number or not)",
        properties.join(", "),
        EVENTS.join(", ")
    );
    problem.help(match nearest(name, properties.iter().chain(EVENTS).copied()) {
        Some(near) => format!("did you mean `{near}`? use {all}"),
        None => format!("use {all}"),
    })
}

/// Reads the event `name` of the thread `thread` from `value`. `None`: the value is wrong, and `findings` contains the
/// problem.
pub(super) fn read<'f>(
    name: &'static str,
    value: &'f Placed<Json<'_>>,
    thread: &'f str,
    findings: &mut Findings,
) -> Option<Event<'f>> {
    let event = match name {
        "wait" | "sync" => {
            let (condition, mutex) = condition(name, value, findings)?;
            return Some(match name {
                "wait" => Event::Wait { condition, mutex },
                _ => Event::Sync { condition, mutex, locks: false },
            });
        }
        "timer" => return timer(value, findings),
        _ => single(name, &value.value, thread),
    };
    event.map_err(|wrong| findings.add(wrong.at(value.at))).ok()
}

/// Reads an event other than `wait`, `sync` and `timer`. The value is a number or a name, or is omitted.
fn single<'f>(name: &'static str, value: &'f Json<'_>, thread: &'f str) -> Result<Event<'f>, Wrong> {
    let the = |what: &str| {
        let named = text(name, value, &format!("the name of a {what}, in quotes"))?;
        let empty = || Wrong::new(format!("`{name}` names no {what}"), "empty", format!("use the name of a {what}"));
        if named.is_empty() { Err(empty()) } else { Ok(named) }
    };
    Ok(match name {
        "run" | "runtime" => Event::Run(micros(name, value)?),
        "sleep" => Event::Sleep(micros(name, value)?),
        "mem" | "iorun" => {
            let bytes =
                integer(name, value, (0, i64::from(i32::MAX)), "a whole number of bytes, from 0 to 2147483647")?;
            Event::Run(Nanos::ns(bytes.unsigned_abs() * 1000 / BYTES_PER_US))
        }
        "lock" => Event::Lock(the("mutex")?),
        "unlock" => Event::Unlock(the("mutex")?),
        "signal" => Event::Signal(the("condition")?),
        "broad" | "broadcast" => Event::Broadcast(the("condition")?),
        "barrier" => Event::Barrier(the("barrier")?),
        "fork" => Event::Fork(the("task")?),
        "resume" => Event::Resume(the("thread that is suspended")?),
        // Without a name, the event uses the name of its thread.
        "suspend" => match value {
            Json::Absent => Event::Suspend(thread),
            Json::Text(own) if own.is_empty() => Event::Suspend(thread),
            _ => Event::Suspend(the("thread")?),
        },
        _ => match value {
            Json::Absent | Json::Null | Json::Text(_) => Event::Yield,
            other => return Err(mistyped(name, other, "\"\"")),
        },
    })
}

const CONDITION: &str = "{ \"ref\" : \"condition\", \"mutex\" : \"mutex\" }";

fn condition<'f>(
    name: &'static str,
    value: &'f Placed<Json<'_>>,
    findings: &mut Findings,
) -> Option<(&'f str, &'f str)> {
    let object = of(name, value, &["ref", "mutex"], CONDITION, findings)?;
    let condition = object.read("ref", |key, value| text(key, value, "the name of a condition"), findings);
    let mutex = object.read("mutex", |key, value| text(key, value, "the name of a mutex"), findings);
    for key in ["ref", "mutex"] {
        if object.get(key).is_none() {
            let problem = Problem::new(format!("`{name}` has no `{key}`")).at(value.at, format!("no `{key}`"));
            findings.add(problem.help(format!("use {CONDITION}")));
        }
    }
    Some((condition?.value, mutex?.value))
}

const TIMER: &str = "{ \"ref\" : \"unique\", \"period\" : 10000 }, and \"mode\" : \"absolute\" or \"relative\" or none";

fn timer<'f>(value: &'f Placed<Json<'_>>, findings: &mut Findings) -> Option<Event<'f>> {
    let object = of("timer", value, &["ref", "period", "mode"], TIMER, findings)?;
    let name = object.read("ref", |key, value| text(key, value, "the name of a timer"), findings);
    let period = object.read("period", micros, findings);
    let mode = object.read("mode", mode, findings);
    if object.get("period").is_none() {
        let problem = Problem::new("the timer has no period").at(value.at, "no `period`");
        findings.add(problem.help(format!("use {TIMER}")));
    }
    // rt-app uses this name for a timer without a name.
    let name = if object.get("ref").is_none() { "unknown" } else { name?.value };
    let mode = if object.get("mode").is_none() { TimerMode::Relative } else { mode?.value };
    Some(Event::Timer { name, period: period?.value, mode })
}

fn mode(key: &'static str, value: &Json<'_>) -> Result<TimerMode, Wrong> {
    const RIGHT: &str = "\"relative\" or \"absolute\"";
    match text(key, value, RIGHT)? {
        "relative" => Ok(TimerMode::Relative),
        "absolute" => Ok(TimerMode::Absolute),
        other => {
            let message = format!("there is no mode {}", quoted(other));
            Err(Wrong::new(message, "unknown mode", format!("use {RIGHT}")))
        }
    }
}

/// Returns the object that is the value of the event `name`, and reports keys that are not in `keys`.
fn of<'f, 'a>(
    name: &'static str,
    value: &'f Placed<Json<'a>>,
    keys: &[&'static str],
    right: &str,
    findings: &mut Findings,
) -> Option<Object<'f, 'a>> {
    let Json::Object(entries) = &value.value else {
        findings.add(mistyped(name, &value.value, right).at(value.at));
        return None;
    };
    let object = Object { entries, at: value.at };
    object.once(|_| true, findings);
    for (key, _) in entries.iter().filter(|(key, _)| !keys.contains(&key.value.as_ref())) {
        findings.add_at(key.at, || {
            let message = format!("`{name}` has no {}", quoted(&key.value));
            Problem::new(message).at(key.at, "unknown key").help(format!("use {right}"))
        });
    }
    Some(object)
}

/// An event and its span.
pub(super) type PlacedEvent<'f> = (Event<'f>, Span);
