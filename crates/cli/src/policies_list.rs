//! `tactus policies`: the list of policies, or the explanation of a policy.

use crate::args::Policies;
use crate::failure::Failure;
use crate::output;
use report::book;
use sched::{Conserving, Descriptor, Knob, Nanos, Unit};
use serde::Serialize;

/// A policy as JSON.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    good_for: &'static str,
    bad_at: &'static str,
    work_conserving: Scope,
    promises: Vec<Promised>,
    knobs: Vec<ShownKnob>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The scope of work conservation as JSON: a set of CPUs in which no CPU idles for longer than the
/// slack while an entity waits.
#[derive(Serialize)]
struct Scope {
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    slack_ns: Option<u64>,
}

/// A promise as JSON.
#[derive(Serialize)]
struct Promised {
    about: &'static str,
    words: String,
}

/// A knob as JSON. Times are in nanoseconds, percentages in percent. The value of a choice is an index into `words`.
#[derive(Serialize)]
struct ShownKnob {
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

pub(crate) fn run(args: &Policies) -> Result<(), Failure> {
    let chosen = args.name.as_deref().map(run::policy).transpose()?;
    let text = match (chosen, args.json) {
        (None, false) => list(),
        (Some(policy), false) => explanation(policy),
        (None, true) => output::json(&policies::ALL.iter().map(|policy| shown(policy, false)).collect::<Vec<_>>())?,
        (Some(policy), true) => output::json(&shown(policy, true))?,
    };
    Ok(output::print(&text)?)
}

fn list() -> String {
    let mut text = String::new();
    for policy in policies::ALL {
        text += &format!("{}  {}\n", output::heading(policy.name), policy.title);
        for (label, words) in [
            ("good for", policy.good_for),
            ("bad at", policy.bad_at),
            ("idle CPUs", book::scope_in_words(policy).as_str()),
            ("from", policy.source),
        ] {
            text += &field(label, words);
        }
        text.push('\n');
    }
    text + "`tactus policies NAME` explains a policy, with its knobs; `tactus sim SCENARIO --policy NAME` runs it.\n"
}

/// Returns `words` with a label at the left, folded to the width of the output.
fn field(label: &str, words: &str) -> String {
    let mut text = String::new();
    let width = usize::from(output::width()).saturating_sub(21);
    for (nth, line) in output::folded(words, width).into_iter().enumerate() {
        text += &format!("    {:<16} {line}\n", if nth == 0 { label } else { "" });
    }
    text
}

fn explanation(policy: &Descriptor) -> String {
    let mut text = format!("{}  {}\n\n", output::heading(policy.name), policy.title);
    text += policy.essay().trim_end();
    text += "\n\n";
    for (label, words) in [("good for", policy.good_for), ("bad at", policy.bad_at), ("from", policy.source)] {
        text += &field(label, words);
    }
    text += &format!("\n{}\n", output::heading("promises (at the defaults, four CPUs, eight equal hogs)"));
    for book::Promise { about, words } in book::promises(policy) {
        text += &field(about, &words);
    }
    if policy.knobs.is_empty() {
        return text + "\nIt has no knobs.\n";
    }
    text += &format!("\n{}\n", output::heading("knobs (--knob NAME=VALUE)"));
    for knob in policy.knobs {
        text += &format!("\n  {} = {}   ({})\n", knob.name, knob.show(knob.default), knob.range());
        for line in output::folded(knob.help, usize::from(output::width()).saturating_sub(8)) {
            text += &format!("      {line}\n");
        }
        if !knob.source.is_empty() {
            text += &format!("      from: {}\n", knob.source);
        }
    }
    text
}

fn shown(policy: &Descriptor, with_text: bool) -> Shown {
    let (scope, slack) = match book::scope(policy) {
        Conserving::Never => ("never", None),
        Conserving::PerCpu { slack } => ("per-cpu", Some(slack)),
        Conserving::Domain { slack } => ("cache", Some(slack)),
        Conserving::Global { slack } => ("machine", Some(slack)),
    };
    Shown {
        name: policy.name,
        title: policy.title,
        source: policy.source,
        good_for: policy.good_for,
        bad_at: policy.bad_at,
        work_conserving: Scope { scope, slack_ns: slack.map(Nanos::as_ns) },
        promises: book::promises(policy)
            .into_iter()
            .map(|book::Promise { about, words }| Promised { about, words })
            .collect(),
        knobs: policy.knobs.iter().map(shown_knob).collect(),
        text: with_text.then(|| policy.essay()),
    }
}

fn shown_knob(knob: &Knob) -> ShownKnob {
    let (unit, words) = match knob.unit {
        Unit::Time => ("ns", None),
        Unit::Count => ("count", None),
        Unit::Percent => ("percent", None),
        Unit::Switch => ("switch", None),
        Unit::Choice(words) => ("choice", Some(words)),
    };
    let Knob { name, default, least, most, help, source, .. } = *knob;
    ShownKnob { name, unit, default, least, most, words, help, source }
}
