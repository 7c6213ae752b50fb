//! The contents of the file: global settings, and threads with their phases and events.

use super::asked::{self, ASKING, Asked, Policy};
use super::event::{self, Event, PlacedEvent};
use super::groups;
use super::json::Json;
use super::object::{Object, integer, micros, rounds, switch, text};
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::{Placed, Span};
use sched::Nanos;
use std::collections::BTreeMap;

/// Top-level keys of the file.
const FILE_KEYS: &[&str] = &["global", "tasks", "resources"];
/// Settings without an effect on a simulation: they concern logs, memory and the real machine.
pub(crate) const WITHOUT_EFFECT: &[&str] = &[
    "calibration",
    "cumulative_slack",
    "frag",
    "ftrace",
    "gnuplot",
    "io_device",
    "lock_pages",
    "log_basename",
    "log_size",
    "logdir",
    "mem_buffer_size",
];
/// Settings with an effect.
pub(crate) const SETTINGS: &[&str] = &["duration", "default_policy", "pi_enabled"];
/// Properties of a thread, in addition to its requests to the scheduler.
pub(crate) const THREAD_KEYS: &[&str] = &["instance", "loop", "delay", "phases"];
/// Types of resources. The declaration of a resource has no effect, as in rt-app.
const RESOURCES: &[&str] = &[
    "mutex",
    "timer",
    "wait",
    "signal",
    "broadcast",
    "sync",
    "sleep",
    "run",
    "barrier",
    "mem",
    "iorun",
    "timer_unique",
];
/// Maximum length of a thread's name, in bytes.
const NAME_MAX: usize = 100;

/// A file of rt-app.
#[derive(Debug)]
pub(super) struct File<'f> {
    /// Duration of the threads. `None`: the threads run until they end.
    pub(super) duration: Option<Nanos>,
    pub(super) policy: Policy,
    pub(super) threads: Vec<Thread<'f>>,
}

/// A thread, or several equal threads.
#[derive(Debug)]
pub(super) struct Thread<'f> {
    pub(super) name: &'f str,
    /// Span of the name.
    pub(super) at: Span,
    /// Initial number of these threads.
    pub(super) instances: Placed<u64>,
    pub(super) delay: Nanos,
    /// Number of times that the thread executes its phases. `None`: without end.
    pub(super) rounds: Option<u64>,
    pub(super) asked: Asked,
    /// Path of the group that the thread enters at its start.
    pub(super) group: Option<Placed<&'f str>>,
    pub(super) phases: Vec<Phase<'f>>,
}

/// A phase of a thread.
#[derive(Debug)]
pub(super) struct Phase<'f> {
    /// Span of the name of the phase, or of the thread if the thread has no `phases`.
    pub(super) at: Span,
    /// Number of times that the thread executes the events. `None`: without end.
    pub(super) rounds: Option<u64>,
    pub(super) asked: Asked,
    /// Path of the group that the thread enters at the start of the phase.
    pub(super) group: Option<Placed<&'f str>>,
    pub(super) events: Vec<PlacedEvent<'f>>,
}

impl<'f> File<'f> {
    /// Reads a parsed file.
    pub(super) fn read(document: &'f Placed<Json<'_>>, findings: &mut Findings) -> Option<File<'f>> {
        let Json::Object(entries) = &document.value else {
            let wrong = Wrong::new(
                format!("the file is {}, no object", document.value.kind()),
                "not a file of rt-app",
                "use { \"tasks\" : { … }, \"global\" : { … } }",
            );
            findings.add(wrong.at(document.at));
            return None;
        };
        let top = Object { entries, at: document.at };
        top.once(|_| true, findings);
        known("the file", &top, FILE_KEYS, findings);
        let (duration, policy) = global(&top, findings);
        resources(&top, findings);
        let Some(tasks) = top.get("tasks") else {
            let problem = Problem::new("the file has no tasks").at(document.at, "no `tasks`");
            findings.add(problem.help("use \"tasks\" : { \"thread0\" : { \"run\" : 1000, \"sleep\" : 9000 } }"));
            return None;
        };
        let tasks = Object::of("tasks", tasks, findings)?;
        tasks.once(|_| true, findings);
        if tasks.entries.is_empty() {
            let problem = Problem::new("there are no threads in `tasks`").at(tasks.at, "empty");
            findings.add(problem.help("use at least one, \"thread0\" : { \"run\" : 1000, \"sleep\" : 9000 }"));
        }
        let threads = tasks.entries.iter().filter_map(|(name, value)| thread(name, value, policy, findings)).collect();
        Some(File { duration, policy, threads })
    }
}

/// Reports the keys that are not in `keys`.
fn known(what: &str, object: &Object<'_, '_>, keys: &[&str], findings: &mut Findings) {
    for (key, _) in object.entries.iter().filter(|(key, _)| !keys.contains(&key.value.as_ref())) {
        findings.add_at(key.at, || {
            let problem = Problem::new(format!("{what} has no key {}", quoted(&key.value))).at(key.at, "unknown key");
            problem.help(right_instead(&key.value, keys))
        });
    }
}

fn global(top: &Object<'_, '_>, findings: &mut Findings) -> (Option<Nanos>, Policy) {
    let otherwise = (None, Policy::Other);
    let Some(value) = top.get("global") else { return otherwise };
    let Some(global) = Object::of("global", value, findings) else { return otherwise };
    global.once(|_| true, findings);
    let keys: Vec<&str> = SETTINGS.iter().chain(WITHOUT_EFFECT).copied().collect();
    known("`global`", &global, &keys, findings);
    let most = i64::try_from(sched::time::SPAN_MAX.as_ns() / 1_000_000_000).unwrap_or(i64::MAX);
    let form = |key: &'static str, value: &Json<'_>| {
        let right = "a whole number of seconds from 1 up, or -1: until all threads have ended";
        let seconds = integer(key, value, (-1, most), right)?;
        match seconds {
            0 => Err(Wrong::new("`duration` is zero", "zero", format!("use {right}"))),
            seconds => Ok(u64::try_from(seconds).ok().map(Nanos::s)),
        }
    };
    let duration = global.read("duration", form, findings).and_then(|duration| duration.value);
    let policy = global.read("default_policy", asked::policy, findings).map_or(Policy::Other, |policy| policy.value);
    if let Some(inherits) = global.read("pi_enabled", switch, findings).filter(|inherits| inherits.value) {
        let problem =
            Problem::new("mutexes that hand on priorities are not simulated").at(inherits.at, "priority inheritance");
        findings.add(problem.help("use \"pi_enabled\" : false"));
    }
    (duration, policy)
}

/// Checks the resources, which files for old versions of rt-app declare. Events may also use resources that are not
/// declared.
fn resources(top: &Object<'_, '_>, findings: &mut Findings) {
    let Some(value) = top.get("resources") else { return };
    if matches!(value.value, Json::Number(_)) {
        return;
    }
    let Some(resources) = Object::of("resources", value, findings) else { return };
    for (name, value) in resources.entries {
        let Some(resource) = Object::of(&name.value, value, findings) else { continue };
        resource.once(|_| true, findings);
        known("a resource", &resource, &["type"], findings);
        let right = format!("one of {}", RESOURCES.join(", "));
        let form = |key: &'static str, value: &Json<'_>| {
            let typed = text(key, value, &right)?;
            if RESOURCES.contains(&typed) {
                return Ok(());
            }
            let message = format!("there is no type of resource {}", quoted(typed));
            Err(Wrong::new(message, "unknown type", right_instead(typed, RESOURCES)))
        };
        resource.read("type", form, findings);
    }
}

fn thread<'f>(
    name: &'f Placed<std::borrow::Cow<'_, str>>,
    value: &'f Placed<Json<'_>>,
    default: Policy,
    findings: &mut Findings,
) -> Option<Thread<'f>> {
    named(name, findings);
    let object = Object::of(&name.value, value, findings)?;
    let is_property = |key: &str| THREAD_KEYS.contains(&key) || ASKING.contains(&key);
    object.once(is_property, findings);
    let asked = Asked::of_thread(&object, default, findings);
    let right = "a whole number from 0 up: the number of threads of this kind";
    let instances = object
        .read("instance", |key, value| integer(key, value, (0, i64::MAX), right), findings)
        .map_or(Placed { value: 1, at: name.at }, |given| Placed { value: given.value.unsigned_abs(), at: given.at });
    let delay = object.read("delay", micros, findings).map_or(Nanos::ZERO, |delay| delay.value);
    let rounds = object.read("loop", rounds, findings).map(|rounds| rounds.value);
    let group = groups::path(&object, findings);
    let thread =
        |rounds, phases| Thread { name: &name.value, at: name.at, instances, delay, rounds, asked, group, phases };
    let Some(phases) = object.get("phases") else {
        // The thread itself is its only phase. With a `loop`, the thread executes the phase once, and the `loop` counts
        // the rounds of the phase. Without a `loop`, the thread executes the phase without end.
        let events = events(&object, &name.value, ("a thread", is_property), findings);
        let only =
            Phase { at: name.at, rounds: rounds.unwrap_or(Some(1)), asked: Asked::default(), group: None, events };
        return Some(thread(if rounds.is_some() { Some(1) } else { None }, vec![only]));
    };
    for (key, _) in object.entries.iter().filter(|(key, _)| !is_property(&key.value)) {
        let legacy = ["runtime", "period", "deadline"].contains(&key.value.as_ref());
        match event::named(&key.value) {
            _ if legacy => {}
            Some(_) => {
                let problem = Problem::new(format!("the event {} stands beside phases", quoted(&key.value)));
                findings.add(problem.at(key.at, "in no phase").help("put it into one of the phases"));
            }
            None => findings.add_at(key.at, || {
                let known: Vec<&str> = THREAD_KEYS.iter().chain(ASKING).copied().collect();
                event::unknown("a thread", key, &known)
            }),
        }
    }
    let phases = Object::of("phases", phases, findings)?;
    if phases.entries.is_empty() {
        let problem = Problem::new("there are no phases in `phases`").at(phases.at, "empty");
        findings.add(problem.help("use at least one, \"phase0\" : { \"run\" : 1000, \"sleep\" : 9000 }"));
    }
    let read = |(key, value)| phase(key, value, &name.value, findings);
    let phases = phases.entries.iter().map(|(key, value)| (key, value)).filter_map(read).collect();
    Some(thread(rounds.unwrap_or(None), phases))
}

fn phase<'f>(
    name: &'f Placed<std::borrow::Cow<'_, str>>,
    value: &'f Placed<Json<'_>>,
    thread: &'f str,
    findings: &mut Findings,
) -> Option<Phase<'f>> {
    let object = Object::of(&name.value, value, findings)?;
    let is_property = |key: &str| key == "loop" || ASKING.contains(&key);
    object.once(is_property, findings);
    let rounds = object.read("loop", rounds, findings).map_or(Some(1), |rounds| rounds.value);
    let asked = Asked::read(&object, findings);
    let events = events(&object, thread, ("a phase", is_property), findings);
    let group = groups::path(&object, findings);
    Some(Phase { at: name.at, rounds, asked, group, events })
}

/// Reads the events of a thread or phase, in their order.
fn events<'f>(
    object: &Object<'f, '_>,
    thread: &'f str,
    (what, is_property): (&str, impl Fn(&str) -> bool),
    findings: &mut Findings,
) -> Vec<PlacedEvent<'f>> {
    let mut events = Vec::new();
    let mut any = false;
    for (key, value) in object.entries.iter().filter(|(key, _)| !is_property(&key.value)) {
        // These keys are properties of a thread under SCHED_DEADLINE. Under other policies they have no effect.
        if what == "a thread" && ["period", "deadline"].contains(&key.value.as_ref()) {
            continue;
        }
        match event::named(&key.value) {
            Some(name) => {
                any = true;
                events.extend(event::read(name, value, thread, findings).map(|event| (event, key.at)));
            }
            None => {
                any = true;
                findings.add_at(key.at, || {
                    let own = if what == "a thread" { THREAD_KEYS } else { &["loop"] };
                    let known: Vec<&str> = own.iter().chain(ASKING).copied().collect();
                    event::unknown(what, key, &known)
                });
            }
        }
    }
    if !any {
        let problem = Problem::new(format!("{what} has no events")).at(object.at, "no event");
        findings.add(problem.help("use at least one, such as \"run\" : 1000"));
    }
    events
}

/// Checks that the name is printable and of valid length, without `/` and without leading or trailing spaces.
fn named(name: &Placed<std::borrow::Cow<'_, str>>, findings: &mut Findings) {
    let text = &name.value;
    let reason = match () {
        () if text.is_empty() => "is empty",
        () if text.len() > NAME_MAX => "is too long",
        () if text.contains('/') => "contains `/`, which separates an application from its threads",
        () if text.trim() != text.as_ref() => "begins or ends with a space",
        () if !text.chars().all(input::source::is_printable) => "contains characters that cannot be printed",
        () => return,
    };
    let shown = if text.is_empty() { String::new() } else { quoted(text) + " " };
    let problem = Problem::new(format!("the name {shown}{reason}")).at(name.at, "not a name");
    let right = "use some printable text of at most 100 bytes, without `/` and without spaces at its ends";
    findings.add(problem.help(right));
}

impl Thread<'_> {
    /// Returns the number of events of all phases.
    pub(super) fn events(&self) -> usize {
        self.phases.iter().map(|phase| phase.events.len()).sum()
    }

    /// Returns whether the thread never ends by itself.
    pub(super) fn is_endless(&self) -> bool {
        self.rounds.is_none() || self.phases.iter().any(|phase| phase.rounds.is_none())
    }
}

impl Phase<'_> {
    /// Returns the minimum duration of one round of the events: the sum of all runs and sleeps, or the sum of the
    /// periods of one timer if that is longer. Runs, sleeps and other timers overlap with the period of a timer.
    pub(super) fn round_length(&self) -> Nanos {
        let mut busy = Nanos::ZERO;
        let mut timers: BTreeMap<&str, Nanos> = BTreeMap::new();
        for (event, _) in &self.events {
            match *event {
                Event::Run(time) | Event::Sleep(time) => busy = busy.saturating_add(time),
                Event::Timer { name, period, .. } => {
                    let sum = timers.entry(name).or_default();
                    *sum = sum.saturating_add(period);
                }
                _ => {}
            }
        }
        timers.into_values().fold(busy, Nanos::max)
    }

    /// Returns the minimum duration of the phase, with all its rounds.
    pub(super) fn length(&self) -> Nanos {
        self.round_length().saturating_mul(self.rounds.unwrap_or(u64::MAX))
    }
}
