//! The frame of a [`Model`]. Drawing changes nothing.

mod details;
mod dialogs;
mod form;
mod header;
mod table;
mod text;

use super::model::{Dialog, Model};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use text::plain;

/// Minimum height of a terminal that has the details.
const WITH_DETAILS: u16 = 18;
/// Maximum height of the details.
const DETAILS_MOST: u16 = 8;

/// The parts of the screen, from top to bottom.
struct Parts {
    header: Rect,
    table: Rect,
    details: Rect,
    footer: Rect,
}

impl Parts {
    fn of(area: Rect, model: &Model) -> Parts {
        let header = header::height(model);
        let details = if area.height < WITH_DETAILS { 0 } else { DETAILS_MOST.min(area.height / 3) };
        let constraints =
            [Constraint::Length(header), Constraint::Min(0), Constraint::Length(details), Constraint::Length(1)];
        let [header, table, details, footer] = Layout::vertical(constraints).areas::<4>(area);
        Parts { header, table, details, footer }
    }
}

/// Returns the number of rows of the table on a terminal with this height.
pub(super) fn rows_of_table(height: u16, model: &Model) -> usize {
    let parts = Parts::of(Rect::new(0, 0, 80, height), model);
    usize::from(parts.table.height.saturating_sub(1)).max(1)
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let parts = Parts::of(frame.area(), model);
    header::draw(frame, parts.header, model);
    table::draw(frame, parts.table, model);
    if parts.details.height > 0 {
        details::draw(frame, parts.details, model);
    }
    draw_footer(frame, parts.footer, model);
    match &model.dialog {
        Dialog::None => {}
        Dialog::Help => dialogs::draw_help(frame),
        Dialog::Host => dialogs::draw_host(frame, &model.latest.host, &model.latest.caller),
        Dialog::Form(form) => form::draw(frame, form),
        Dialog::Confirm(asked) => dialogs::draw_confirmation(frame, asked),
        Dialog::Results(action, outcomes) => dialogs::draw_results(frame, *action, outcomes),
    }
}

/// Draws the message, the search, or the keys that have an effect.
fn draw_footer(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let line = match &model.notice {
        Some(notice) if notice.is_error => plain(&notice.text).red().bold(),
        Some(notice) => plain(&notice.text).green(),
        None if model.is_searching => plain(&format!("/{}_   Enter keep  Esc end the search", model.search)),
        None => {
            let is_changeable = model.selected().is_some_and(|vm| model.may_change(&vm.id));
            let changes = if is_changeable { "e edit  p pause  d end promise  u undo  Space mark  " } else { "" };
            let search = if model.search.is_empty() { "/ search" } else { "Esc show all" };
            plain(&format!("? help  q end  {changes}{search}")).dim()
        }
    };
    frame.render_widget(line, area);
}
