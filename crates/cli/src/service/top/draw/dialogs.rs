//! Help, confirmations and results.

use super::super::model::Confirmation;
use super::super::requests::{Action, Outcome};
use super::text::{draw_box, plain, wrapped};
use api::{Caller, Host};
use ratatui::Frame;
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;

const WIDTH: u16 = 76;
const WIDTH_OF_HELP: u16 = 50;
const MARGIN: u16 = 2;

/// The keys of the list and of the form, with their effects.
const KEYS: [(&str, &str); 18] = [
    ("Up Down j k", "select; also PgUp PgDn Home End"),
    ("Space", "mark; changes apply to all marked"),
    ("Enter e", "edit the promise and the share"),
    ("p", "pause, or resume"),
    ("d", "end the promise, after a question"),
    ("u", "undo the last change"),
    ("/", "show only names with a text"),
    ("o", "show only what you may change"),
    ("Esc", "show all, and mark none"),
    ("n c w m", "order: name, CPU, waits, misses"),
    ("t", "sparkline: waits, or misses"),
    ("i", "the host, your role and warnings"),
    ("q", "end"),
    ("in the form:", ""),
    ("Left Right", "step on a logarithmic scale"),
    ("Del Ctrl-U", "clear the value"),
    ("S P", "take the slice or period that fits"),
    ("Enter", "apply, if nothing changed meanwhile"),
];

pub(super) fn draw_help(frame: &mut Frame<'_>) {
    let lines = KEYS.iter().map(|(key, effect)| plain(&format!("{key:<12} {effect}"))).collect();
    draw_box(frame, "keys", lines, WIDTH_OF_HELP);
}

pub(super) fn draw_host(frame: &mut Frame<'_>, host: &Host, caller: &Caller) {
    let width = WIDTH.min(frame.area().width).saturating_sub(MARGIN);
    let core = match (host.core, &host.reason) {
        (Some(pid), _) if host.simulated => {
            format!("simulated by process {pid}, policy {}", host.mechanisms.join(", "))
        }
        (Some(pid), _) => format!("core {pid}, mechanisms {}", host.mechanisms.join(", ")),
        (None, reason) => format!("no core: {}", reason.as_deref().unwrap_or("the reason is not known")),
    };
    let mut lines = wrapped(&format!("tactus {}, {} CPUs", host.version, host.cpus), width, Style::new());
    lines.extend(wrapped(&core, width, Style::new()));
    lines.extend(wrapped(&format!("client {} with the role {}", caller.name, caller.role), width, Style::new()));
    for warning in &host.warnings {
        lines.extend(wrapped(&format!("warning: {warning}"), width, Style::new().yellow()));
    }
    lines.push(Line::from("Esc close").dim());
    draw_box(frame, "host", lines, WIDTH);
}

pub(super) fn draw_confirmation(frame: &mut Frame<'_>, asked: &Confirmation) {
    let names: Vec<&str> = asked.changes.iter().map(|change| change.name.as_str()).collect();
    let width = WIDTH.min(frame.area().width).saturating_sub(MARGIN);
    let question = match asked.action {
        Action::EndPromise => "End the promise to",
        _ => "Change",
    };
    let mut lines = wrapped(&format!("{question} {}?", names.join(", ")), width, Style::new().bold());
    lines.push(Line::from("y yes   n no").dim());
    draw_box(frame, "confirm", lines, WIDTH);
}

pub(super) fn draw_results(frame: &mut Frame<'_>, action: Action, outcomes: &[Outcome]) {
    let width = WIDTH.min(frame.area().width).saturating_sub(MARGIN);
    let made = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    let mut lines = Vec::new();
    // Refusals first: a long list is cut off.
    for outcome in
        outcomes.iter().filter(|outcome| outcome.result.is_err()).chain(outcomes.iter().filter(|it| it.result.is_ok()))
    {
        let name = &outcome.change.name;
        match &outcome.result {
            Ok(now) => lines.extend(wrapped(
                &format!("{name}: {}, {}", action.done(), now.state.phase.word()),
                width,
                Style::new().green(),
            )),
            Err(trouble) => {
                lines.extend(wrapped(&format!("{name}: {}", trouble.reason), width, Style::new().red()));
                let help = trouble
                    .remedy
                    .iter()
                    .flat_map(|remedy| wrapped(&format!("  help: {remedy}"), width, Style::new().yellow()));
                lines.extend(help);
            }
        }
    }
    // The line with the keys is visible if the list is long.
    lines.truncate(usize::from(frame.area().height.saturating_sub(3)).max(1));
    lines.push(Line::from("Esc close").dim());
    draw_box(frame, &format!("{made} of {} changes were made", outcomes.len()), lines, WIDTH);
}
