//! `tactus policies`: the list of policies, or the explanation of a policy.

use crate::args::Policies;
use crate::failure::Failure;
use crate::output;
use report::book::{self, ListedPolicy};
use sched::Descriptor;

pub(crate) fn run(args: &Policies) -> Result<(), Failure> {
    let chosen = args.name.as_deref().map(run::policy).transpose()?;
    let text = match (chosen, args.json) {
        (None, false) => list(),
        (Some(policy), false) => explanation(policy),
        (None, true) => {
            output::json(&policies::ALL.iter().map(|policy| ListedPolicy::new(policy, false)).collect::<Vec<_>>())?
        }
        (Some(policy), true) => output::json(&ListedPolicy::new(policy, true))?,
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
