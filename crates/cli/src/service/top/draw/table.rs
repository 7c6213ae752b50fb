//! The table of the VMs.

use super::super::columns::{Column, SPACING, fitting};
use super::super::history::LENGTH;
use super::super::model::Model;
use super::super::order::Order;
use super::super::rates::Rate;
use crate::terminal::safe;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

/// Maximum width of a column, and the minimum of this maximum on a narrow terminal.
const WIDTH_MOST: usize = 36;
const WIDTH_LEAST: usize = 12;
/// Signs before the names of selected and of marked VMs.
const SELECTED: char = '>';
const MARKED: char = '*';

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let shown = model.shown();
    let rows = usize::from(area.height.saturating_sub(1)).max(1);
    let position = model.position(&shown);
    // A selection beyond the page turns the page.
    let first = position / rows * rows;
    let page: Vec<&Rate> = shown.iter().skip(first).take(rows).copied().collect();
    let cells: Vec<Vec<String>> = page.iter().map(|vm| row(model, vm)).collect();
    let most = WIDTH_MOST.min(usize::from(area.width) / 4).max(WIDTH_LEAST);
    let width = |(at, column): (usize, &Column)| {
        let cells = cells
            .iter()
            .map(|row| Line::from(row[at].as_str()).width())
            .chain([Line::from(title(*column, model)).width()]);
        let width = cells.max().unwrap_or(0).min(most);
        // A sparkline that grows would move the other columns.
        (*column, if *column == Column::Trend { LENGTH } else { width })
    };
    let all: Vec<(Column, usize)> = Column::ALL.iter().enumerate().map(width).collect();
    let columns = fitting(&all, usize::from(area.width));
    let at = |column: Column| Column::ALL.iter().position(|it| *it == column).expect("ALL has every column");
    let body = page.iter().zip(&cells).enumerate().map(|(number, (vm, cells))| {
        let cells = columns.iter().map(|(column, _)| Cell::from(aligned(*column, cells[at(*column)].clone())));
        let style = style(&vm.state);
        let is_selected = first + number == position;
        Row::new(cells.collect::<Vec<_>>()).style(if is_selected { style.reversed() } else { style })
    });
    let titles = columns.iter().map(|(column, _)| {
        let is_sorted = *column == sorted(model.order);
        let style = if is_sorted { Style::new().bold().underlined() } else { Style::new().bold() };
        Cell::from(aligned(*column, title(*column, model)).style(style))
    });
    let widths = columns.iter().map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    let spacing = u16::try_from(SPACING).unwrap_or(1);
    let table = Table::new(body, widths).header(Row::new(titles)).column_spacing(spacing);
    frame.render_widget(table, area);
    if shown.is_empty() && area.height > 1 {
        let text = if model.rates.vms.is_empty() { "no VMs run here" } else { "no VM is shown; Esc ends the search" };
        frame.render_widget(Line::from(text).dim(), Rect { y: area.y + 1, height: 1, ..area });
    }
}

/// Returns the cells of a VM, in the order of [`Column::ALL`].
fn row(model: &Model, vm: &Rate) -> Vec<String> {
    let cell = |column: &Column| match column {
        Column::Name => {
            let is_selected = model.selected().is_some_and(|selected| selected.id == vm.id);
            let sign = match (is_selected, model.marked.contains(&vm.id)) {
                (true, false) => SELECTED,
                (false, false) => ' ',
                (_, true) => MARKED,
            };
            // Names come from command lines.
            format!("{sign}{}", safe(&vm.name, false))
        }
        Column::Trend => model.history.sparkline(&vm.id, model.trend),
        column => safe(&column.cell(vm), false).into_owned(),
    };
    Column::ALL.iter().map(cell).collect()
}

fn title(column: Column, model: &Model) -> String {
    match column {
        Column::Trend => model.trend.title().to_string(),
        Column::Name => format!(" {}", column.title()),
        _ => column.title().to_string(),
    }
}

fn sorted(order: Order) -> Column {
    match order {
        Order::Name => Column::Name,
        Order::Used => Column::Used,
        Order::Waited => Column::Waited,
        Order::Missed => Column::Missed,
    }
}

fn aligned(column: Column, text: String) -> Line<'static> {
    let line = Line::from(text);
    if column.is_left() { line.left_aligned() } else { line.right_aligned() }
}

fn style(state: &str) -> Style {
    match state {
        "not-kept" | "refused" => Style::new().red(),
        "paused" | "absent" | "waiting" => Style::new().dim(),
        _ => Style::new(),
    }
}
