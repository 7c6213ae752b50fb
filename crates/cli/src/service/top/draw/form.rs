//! The form: the values of a VM, and what the service says about them.

use super::super::model::field::Field;
use super::super::model::form::{Entry, Form, Verdict};
use super::super::requests::{Trouble, TroubleKind};
use super::text::{draw_box, plain, wrapped};
use ratatui::Frame;
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use sched::Nanos;

/// Width of the form, and of its text.
const WIDTH: u16 = 66;
const MARGIN: u16 = 2;

pub(super) fn draw(frame: &mut Frame<'_>, form: &Form) {
    let text_width = WIDTH.min(frame.area().width).saturating_sub(MARGIN);
    let mut lines: Vec<Line<'static>> =
        Field::ALL.iter().zip(&form.entries).enumerate().map(|(at, it)| line(it, at == form.focus)).collect();
    lines.push(Line::from(""));
    if form.is_reloaded {
        let text = "changed by another client meanwhile: the form has the new values, and keeps yours";
        lines.extend(wrapped(text, text_width, Style::new().yellow().bold()));
    }
    lines.extend(verdict(form, text_width));
    let keys = match form.applied {
        Some(_) => "the change is being made...",
        None => "Enter apply  Esc revert  Up/Down field  Left/Right step  Del clear",
    };
    lines.extend(wrapped(keys, text_width, Style::new().dim()));
    draw_box(frame, &title(form), lines, WIDTH);
}

fn title(form: &Form) -> String {
    match &form.vms[..] {
        [only] => format!("change {}, generation {}", only.name, only.generation),
        several => {
            let names: Vec<&str> = several.iter().map(|vm| vm.name.as_str()).collect();
            format!("change {} VMs: {}", several.len(), names.join(", "))
        }
    }
}

fn line((field, entry): (&Field, &Entry), is_focused: bool) -> Line<'static> {
    let text = if entry.is_mixed() { "(as each VM has it)" } else { entry.text.as_str() };
    let was = match &entry.former {
        _ if !entry.is_changed() => String::new(),
        None => "was different".to_string(),
        Some(former) if former.is_empty() => "was none".to_string(),
        Some(former) => format!("was {former}"),
    };
    let sign = if is_focused { '>' } else { ' ' };
    let line = plain(&format!("{sign} {:<8}{text:<20} {was}", field.title()));
    match (is_focused, entry.is_changed()) {
        (true, _) => line.reversed(),
        (false, true) => line.bold(),
        (false, false) => line,
    }
}

fn verdict(form: &Form, width: u16) -> Vec<Line<'static>> {
    let (good, bad) = (Style::new().green(), Style::new().red());
    match &form.verdict {
        Verdict::Unchanged => wrapped("nothing is changed", width, Style::new().dim()),
        Verdict::Wrong(reason) => wrapped(reason, width, bad),
        Verdict::Checking => wrapped("asking the service...", width, Style::new().dim()),
        Verdict::Accepted => wrapped("the service would accept this", width, good),
        Verdict::Refused(troubles) => {
            let mut lines = Vec::new();
            let Some((name, first)) = troubles.first() else { return lines };
            let of = if form.vms.len() > 1 {
                format!("{} of {}: {name}: ", troubles.len(), form.vms.len())
            } else {
                String::new()
            };
            let word = if first.kind == TroubleKind::Unanswered { "not answered" } else { "refused" };
            lines.extend(wrapped(&format!("{word}: {of}{}", first.reason), width, bad));
            lines.extend(alternatives(form, first, width));
            lines
        }
    }
}

/// Returns the changes that each make the first refused promise possible, with their keys.
fn alternatives(form: &Form, first: &Trouble, width: u16) -> Vec<Line<'static>> {
    let style = Style::new().yellow();
    let Some(alternatives) = form.alternatives() else {
        let remedy = first.remedy.as_ref().map(|remedy| wrapped(&format!("help: {remedy}"), width, style));
        return remedy.unwrap_or_default();
    };
    let time = |ns: u64| Nanos::ns(ns).to_string();
    let slice = alternatives.slice_ns.map(|ns| format!("S  take the slice {}", time(ns)));
    let period = alternatives.period_ns.map(|ns| format!("P  take the period {}", time(ns)));
    let ends = &alternatives.end_of;
    let end = Some(format!("or end the promise to one of: {}", ends.join(", "))).filter(|_| !ends.is_empty());
    slice.into_iter().chain(period).chain(end).flat_map(|text| wrapped(&text, width, style)).collect()
}
