//! [`ListedPolicy`]: a policy as `tactus policies --json` prints it.

use super::{Promise, promises, scope};
use sched::{Conserving, Descriptor, Knob, Nanos, Unit};
use serde::Serialize;

/// A policy as JSON.
#[derive(Debug, Serialize)]
pub struct ListedPolicy {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    good_for: &'static str,
    bad_at: &'static str,
    work_conserving: Scope,
    promises: Vec<Promised>,
    knobs: Vec<ListedKnob>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The scope of work conservation as JSON: a set of CPUs in which no CPU idles for longer than the
/// slack while an entity waits.
#[derive(Debug, Serialize)]
struct Scope {
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    slack_ns: Option<u64>,
}

/// A promise as JSON.
#[derive(Debug, Serialize)]
struct Promised {
    about: &'static str,
    words: String,
}

/// A knob as JSON. Times are in nanoseconds, percentages in percent. The value of a choice is an index into `words`.
#[derive(Debug, Serialize)]
struct ListedKnob {
    name: &'static str,
    unit: &'static str,
    default: i64,
    least: i64,
    most: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<&'static [&'static str]>,
    help: &'static str,
    source: &'static str,
}

impl ListedPolicy {
    /// Describes `policy`, with its essay if `with_text`.
    #[must_use]
    pub fn new(policy: &Descriptor, with_text: bool) -> ListedPolicy {
        let (scope, slack) = match scope(policy) {
            Conserving::Never => ("never", None),
            Conserving::PerCpu { slack } => ("per-cpu", Some(slack)),
            Conserving::Domain { slack } => ("cache", Some(slack)),
            Conserving::Global { slack } => ("machine", Some(slack)),
        };
        ListedPolicy {
            name: policy.name,
            title: policy.title,
            source: policy.source,
            good_for: policy.good_for,
            bad_at: policy.bad_at,
            work_conserving: Scope { scope, slack_ns: slack.map(Nanos::as_ns) },
            promises: promises(policy).into_iter().map(|Promise { about, words }| Promised { about, words }).collect(),
            knobs: policy.knobs.iter().map(listed_knob).collect(),
            text: with_text.then(|| policy.essay()),
        }
    }
}

fn listed_knob(knob: &Knob) -> ListedKnob {
    let (unit, words) = match knob.unit {
        Unit::Time => ("ns", None),
        Unit::Count => ("count", None),
        Unit::Percent => ("percent", None),
        Unit::Switch => ("switch", None),
        Unit::Choice(words) => ("choice", Some(words)),
    };
    let Knob { name, default, least, most, help, source, .. } = *knob;
    ListedKnob { name, unit, default, least, most, words, help, source }
}
