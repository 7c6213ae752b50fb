//! The pages of the manual of policies, generated from descriptors, essays, and a run under each policy.
//!
//! A test compares `docs/policies/NAME.md` and `.svg` with the results of [`page`] and [`picture`].

mod listed;
mod promises;

use input::problem::Problems;
pub use listed::ListedPolicy;
pub use promises::{Promise, promises, scope, scope_in_words};
use run::{Observers, Run};
use scenario::Scenario;
use sched::{Descriptor, Instant, Knob, Nanos};
use std::fmt::Write;
use trace::svg::Picture;
use trace::{Header, TimelineBuilder};

/// Length of the part of a run that a picture shows, from the start of the run.
pub const SHOWN: Nanos = Nanos::ms(120);
/// Width of a picture. Unit: pixels.
const WIDTH: u32 = 1_100;
const INFALLIBLE: &str = "writing to a string cannot fail";

/// Returns the page about `policy` in Markdown. `scenario` is the title of the run in the page's picture.
///
/// # Panics
/// Never panics, because writing to a string cannot fail.
#[must_use]
pub fn page(policy: &Descriptor, scenario: &str) -> String {
    let Descriptor { name, title, good_for, bad_at, source, .. } = *policy;
    let mut page = format!(
        "<!-- Generated from the policy itself; `cargo xtask golden --update` writes it anew. -->\n# {name}\n\n"
    );
    writeln!(page, "*{title}*\n").expect(INFALLIBLE);
    writeln!(page, "![{scenario}, under {name}]({name}.svg)\n").expect(INFALLIBLE);
    writeln!(page, "The first {SHOWN} of [{scenario}](../../scenarios/parallel.toml) under `{name}`.\n")
        .expect(INFALLIBLE);
    writeln!(page, "{}\n", policy.essay().trim_end()).expect(INFALLIBLE);
    writeln!(page, "## When to choose it\n\nGood for: {good_for}.\n\nBad at: {bad_at}.\n").expect(INFALLIBLE);
    page.push_str("## Guarantees\n\nThese guarantees hold for eight equal hogs on four CPUs, with default knobs.\n\n| | |\n|---|---|\n");
    for Promise { about, words } in promises(policy) {
        writeln!(page, "| {about} | {words} |").expect(INFALLIBLE);
    }
    page.push_str("\n## Knobs\n\n");
    page.push_str(&knobs(policy.knobs));
    writeln!(page, "\n## Sources\n\n{source}").expect(INFALLIBLE);
    page
}

fn knobs(knobs: &[Knob]) -> String {
    if knobs.is_empty() {
        return "This policy has no knobs.\n".to_string();
    }
    let mut table = "| knob | default | range | what it does | from |\n|---|---|---|---|---|\n".to_string();
    for knob in knobs {
        let Knob { name, default, help, source, .. } = knob;
        let cell = |text: &str| text.replace('|', "\\|");
        let (default, range) = (knob.show(*default), knob.range());
        writeln!(table, "| `{name}` | {default} | {range} | {} | {} |", cell(help), cell(source)).expect(INFALLIBLE);
    }
    table
}

/// Returns the table of all `policies`, in Markdown.
///
/// # Panics
/// Never panics, because writing to a string cannot fail.
#[must_use]
pub fn index(policies: &[&Descriptor]) -> String {
    let mut page = "<!-- Generated; `cargo xtask golden --update` writes it anew. -->\n# The policies\n\n\
        Every policy has a page, generated from its descriptor and essay, with a picture of the same four CPUs. `tactus policies NAME` \
        prints the page in a terminal; `tactus sim SCENARIO --policy A,B,C` compares policies.\n\n\
        | policy | what it does | idle CPUs | good for | bad at |\n|---|---|---|---|---|\n"
        .to_string();
    for policy in policies {
        let Descriptor { name, title, good_for, bad_at, .. } = policy;
        writeln!(page, "| [{name}]({name}.md) | {title} | {} | {good_for} | {bad_at} |", scope_in_words(policy))
            .expect(INFALLIBLE);
    }
    page
}

/// Draws the beginning of `scenario` under `policy` with default knobs, as an SVG document.
///
/// # Errors
/// The policy refuses a request of the scenario.
///
/// # Panics
/// Panics if the trace of the run is inconsistent.
pub fn picture(policy: &Descriptor, scenario: &Scenario) -> Result<String, Problems> {
    let mut shown = scenario.clone();
    shown.length = SHOWN;
    let header = Header { policy: policy.name.to_string(), cpus: shown.host.cpus, seed: 0 };
    let mut builder = TimelineBuilder::new(&header);
    Run::new(shown.clone(), policy).play(Observers::none().host(&mut builder))?;
    let timeline = builder.finish().expect("a run does not contradict itself");
    let (from, to) = (Instant::ZERO, Instant::ZERO + SHOWN);
    let picture = Picture { title: shown.name.clone(), from, to, width: WIDTH, rows_most: 20, cpus: true };
    Ok(picture.render(&timeline))
}
