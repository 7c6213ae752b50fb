//! The details of the selected VM.

use super::super::model::Model;
use super::text::{plain, wrapped};
use api::{BOUNDS_NS, Histogram, Measured, Vm};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};
use sched::Nanos;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(vm) = model.selected().and_then(|rate| model.latest.vm(&rate.id)) else { return };
    let block = Block::new().borders(Borders::TOP).title(plain(&format!(" {} ", vm.name)).bold());
    frame.render_widget(Paragraph::new(lines(vm, area.width)).block(block), area);
}

fn lines(vm: &Vm, width: u16) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(reason) = &vm.state.reason {
        let text = format!("{}: {reason}", vm.state.phase.word());
        lines.extend(wrapped(&text, width, Style::new().red()));
    }
    if let Some(remedy) = &vm.state.remedy {
        lines.extend(wrapped(&format!("help: {remedy}"), width, Style::new().yellow()));
    }
    lines.extend(wrapped(&identity(vm), width, Style::new()));
    lines.extend(measured(&vm.measured).iter().flat_map(|text| wrapped(text, width, Style::new())));
    lines
}

fn identity(vm: &Vm) -> String {
    let mut parts = vec![format!("{} {}", vm.kind.word(), vm.id)];
    match vm.process {
        Some(process) => parts.push(format!("process {} of user {}", process.pid, process.user)),
        None => parts.push("does not run".to_string()),
    }
    parts.extend(vm.source.map(|source| format!("set by {}", source.word())));
    parts.push(format!("generation {}", vm.generation));
    parts.join(", ")
}

/// Describes the measurements of the promise since it was put in force.
fn measured(measured: &Measured) -> Vec<String> {
    if measured.periods == 0 {
        return Vec::new();
    }
    let [delivered, due] = [measured.delivered_ns, measured.due_ns].map(|ns| Nanos::ns(ns).to_string());
    let mut lines = vec![format!(
        "delivered {delivered} of {due} in {} periods; missed {} of {} judged ones",
        measured.periods, measured.missed, measured.judged
    )];
    if measured.judged > 0 {
        lines.push(format!("judged periods by shortfall: {}", shortfalls(&measured.shortfalls)));
    }
    if measured.lost > 0 {
        lines.push(format!("{} events are lost: the counts are too low", measured.lost));
    }
    lines
}

/// Describes the classes of a histogram that are not empty: `950 up to 10us, 3 up to 640us`.
fn shortfalls(histogram: &Histogram) -> String {
    let bound = |at: usize| match BOUNDS_NS.get(at) {
        Some(ns) => format!("up to {}", Nanos::ns(*ns)),
        None => format!("above {}", Nanos::ns(BOUNDS_NS[BOUNDS_NS.len() - 1])),
    };
    let filled = histogram.0.iter().enumerate().filter(|(_, count)| **count > 0);
    filled.map(|(at, count)| format!("{count} {}", bound(at))).collect::<Vec<_>>().join(", ")
}
