//! The header: the host, what is promised, warnings, and how old the values are.

use super::super::model::Model;
use super::text::plain;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use report::percent;

/// Parts per million of a CPU.
const CPU: u64 = 1_000_000;

/// Returns the number of lines of the header.
pub(super) fn height(model: &Model) -> u16 {
    u16::try_from(lines(model).len()).unwrap_or(u16::MAX)
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    frame.render_widget(Paragraph::new(lines(model)), area);
}

fn lines(model: &Model) -> Vec<Line<'static>> {
    let host = &model.latest.host;
    let mut lines = Vec::new();
    if let Some(age) = model.age() {
        let text = format!(" OLD VALUES of {age}s ago: {} ", model.failure());
        lines.push(plain(&text).style(Style::new().white().on_red().bold()));
    }
    let cpus = if host.cpus == 1 { "1 CPU".to_string() } else { format!("{} CPUs", host.cpus) };
    lines.push(plain(&format!("tactus {}  {cpus}  {}", host.version, promised(model))).bold());
    match (host.core, &host.reason) {
        (Some(pid), _) if host.simulated => {
            lines.push(plain(&format!("simulated by process {pid}  {}", counts(model))).dim());
        }
        (Some(pid), _) => lines.push(plain(&format!("core {pid}  {}", counts(model))).dim()),
        (None, reason) => {
            lines.push(plain(&counts(model)).dim());
            let reason = reason.as_deref().unwrap_or("the service has no core");
            lines.push(plain(&format!("nothing is in force: {reason}")).yellow());
        }
    }
    if let Some(first) = host.warnings.first() {
        let count = host.warnings.len();
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        lines.push(plain(&format!("warning{more}: {first}")).yellow());
    }
    lines
}

/// Describes the sum of the promises.
fn promised(model: &Model) -> String {
    let (host, promised) = (&model.latest.host, model.rates.promised_ppm);
    let Some(share) = host.promisable_percent else { return format!("promised {}", percent(promised)) };
    let most = u64::try_from(host.cpus).unwrap_or(u64::MAX).saturating_mul(u64::from(share) * CPU / 100);
    let filled = usize::try_from(promised.saturating_mul(10).checked_div(most).unwrap_or(0)).unwrap_or(10).min(10);
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(10 - filled));
    format!("promised {} of {} ({share}% of each) {bar}", percent(promised), percent(most))
}

/// Describes the list.
fn counts(model: &Model) -> String {
    let all = &model.rates.vms;
    let mut parts = vec![if all.len() == 1 { "1 VM".to_string() } else { format!("{} VMs", all.len()) }];
    for state in ["not-kept", "refused"] {
        let count = all.iter().filter(|vm| vm.state == state).count();
        if count > 0 {
            parts.push(format!("{count} {state}"));
        }
    }
    let shown = model.shown().len();
    if shown < all.len() {
        let search = if model.search.is_empty() { String::new() } else { format!(" with \"{}\"", model.search) };
        parts.push(format!("{shown} shown{search}"));
    }
    if !model.marked.is_empty() {
        parts.push(format!("{} marked", model.marked.len()));
    }
    format!("{}  every {}", parts.join(", "), model.interval)
}
