//! Reads `coordination`: the settings of a guest's hints to its host, and of the host's reaction.

use super::form;
use coordination::{Boost, Coordination, Protocol, Rule};
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::Span;
use input::table::{Given, Table};
use sched::{Nanos, RtPriority, Weight};
use toml::de::DeValue;

/// Keys of `coordination`.
pub(crate) const COORDINATION_KEYS: &[&str] =
    &["protocol", "detector", "boost", "interrupt", "budget", "window", "limit", "preempt_limit", "tick"];
const RIGHT: &str = "\"rfc-v1\", or a table: { protocol = \"rfc-v1\", detector = \"ewma\", boost = \"rr:8\" }";
const BOOST: &str = "\"rr:8\", \"fifo:50\" or \"nice:-20\"";
/// Minimum of every time of a coordination: budget, window, limits and tick.
const LEAST: Nanos = Nanos::us(1);

/// Spans of the settings that the policy of the host or guest may reject. Both are the default if the guest does not
/// coordinate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CoordinationPlaces {
    /// Span of `boost`, or of the whole `coordination` if it has no `boost`.
    pub boost: Span,
    /// Span of `detector`, or of the whole `coordination` if it has no `detector`.
    pub detector: Span,
}

/// Reads `coordination`: the name of a protocol, or a table. `None`: the setting or its protocol is absent or wrong.
pub(super) fn read(guest: &Table<'_, '_>, findings: &mut Findings) -> Option<(Coordination, CoordinationPlaces)> {
    let (value, at) = guest.get("coordination")?;
    if value.is_str() {
        let protocol = guest.read("coordination", protocol, findings).value()?;
        return Some((Coordination::new(protocol), CoordinationPlaces { boost: at, detector: at }));
    }
    let table = guest.table_or(("coordination", RIGHT), ("`coordination`", COORDINATION_KEYS), findings)?;
    let spoken = table.read("protocol", protocol, findings);
    if spoken.is_absent() {
        let problem = Problem::new("the coordination has no protocol").at(at, "no `protocol`");
        findings.add(problem.help(format!("use {RIGHT}")));
    }
    let usual = Coordination::new(spoken.value_ref().copied().unwrap_or(Protocol::S0));
    let detector = table.read("detector", detector, findings);
    let boost = table.read("boost", |value| self::boost("boost", value), findings);
    let interrupt = table.read("interrupt", |value| self::boost("interrupt", value), findings);
    let mut times = |key: &'static str| table.read(key, |value| span(key, value), findings);
    let [budget, window, limit, preempt, tick] = ["budget", "window", "limit", "preempt_limit", "tick"].map(&mut times);
    let places = CoordinationPlaces { boost: boost.at().unwrap_or(at), detector: detector.at().unwrap_or(at) };
    let coordination = Coordination {
        protocol: usual.protocol,
        detector: detector.value().unwrap_or(usual.detector),
        boost: boost.value_ref().copied().unwrap_or(usual.boost),
        interrupt: interrupt.value_ref().or(boost.value_ref()).copied().unwrap_or(usual.interrupt),
        window: window.value_ref().copied().unwrap_or(usual.window),
        budget: budget.value_ref().copied().unwrap_or(usual.budget),
        limit: limit.value_ref().copied().unwrap_or(usual.limit),
        preempt_limit: preempt.value().unwrap_or(usual.preempt_limit),
        tick: tick.value().unwrap_or(usual.tick),
    };
    fit(&coordination, at, (&budget, &window, &interrupt), findings);
    spoken.value()?;
    Some((coordination, places))
}

/// Reports settings that contradict each other.
fn fit(
    it: &Coordination,
    at: Span,
    (budget, window, interrupt): (&Given<Nanos>, &Given<Nanos>, &Given<Boost>),
    findings: &mut Findings,
) {
    let Coordination { boost, budget: may, window: of, .. } = *it;
    if may > of {
        let at = budget.at().or(window.at()).unwrap_or(at);
        let problem = Problem::new(format!("the budget ({may}) is longer than its window ({of})")).at(at, "too much");
        findings.add(problem.help(format!("use a budget of at most {of}, or a longer window")));
    }
    if it.interrupt.within(boost) != it.interrupt {
        let at = interrupt.at().unwrap_or(at);
        let problem = Problem::new("the boost of an interrupt exceeds the boost, which is the maximum of the VM");
        findings.add(problem.at(at, "too much").help("use at most the boost, or a higher boost"));
    }
}

fn span(key: &'static str, value: &DeValue<'_>) -> Result<Nanos, Wrong> {
    let time = form::time(key, value)?;
    if time < LEAST {
        let help = format!("use a length of time from {LEAST} up");
        return Err(Wrong::new(format!("the {key} ({time}) is too short"), "too short", help));
    }
    Ok(time)
}

fn protocol(value: &DeValue<'_>) -> Result<Protocol, Wrong> {
    one_of("protocol", value, &Protocol::ALL)
}

fn detector(value: &DeValue<'_>) -> Result<Rule, Wrong> {
    one_of("detector", value, &Rule::ALL)
}

fn one_of<T: Copy>(what: &'static str, value: &DeValue<'_>, all: &[(&'static str, T)]) -> Result<T, Wrong> {
    let names: Vec<&str> = all.iter().map(|&(name, _)| name).collect();
    let DeValue::String(typed) = value else {
        return Err(form::mistyped(what, value, format!("one of {}", names.join(", "))));
    };
    let found = all.iter().find(|&&(name, _)| name == typed);
    found.map(|&(_, it)| it).ok_or_else(|| {
        let message = format!("there is no {what} {}", quoted(typed));
        Wrong::new(message, format!("unknown {what}"), right_instead(typed, &names))
    })
}

/// Reads a boost: `rr:8`, `fifo:50` or `nice:-20`.
fn boost(key: &'static str, value: &DeValue<'_>) -> Result<Boost, Wrong> {
    let DeValue::String(typed) = value else { return Err(form::mistyped(key, value, BOOST)) };
    let wrong = |why: &'static str, help: &str| {
        Wrong::new(format!("{} is no boost", quoted(typed)), why, format!("use {help}"))
    };
    let Some((name, number)) = typed.split_once(':') else { return Err(wrong("no boost", BOOST)) };
    let number = number.parse::<i32>().map_err(|_| wrong("no number", BOOST))?;
    match name {
        "nice" => Weight::nice(number)
            .map(Boost::Weight)
            .ok_or_else(|| wrong("out of range", "from nice:-20 (the most) to nice:19")),
        "rr" | "fifo" => u8::try_from(number)
            .ok()
            .and_then(RtPriority::new)
            .map(|priority| Boost::Class { round_robin: name == "rr", priority })
            .ok_or_else(|| wrong("out of range", &format!("from {name}:1 to {name}:99 (the most urgent)"))),
        _ => Err(wrong("unknown class", BOOST)),
    }
}
