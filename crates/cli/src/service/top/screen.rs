//! [`Screen`]: the whole terminal as a table.

use super::columns::{COLUMNS, cells};
use super::order::Order;
use super::rates::Rates;
use crate::failure::Failure;
use crate::terminal::safe;
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use sched::Nanos;
use std::time::Duration;

/// Maximum width of a column.
const WIDTH_MOST: usize = 36;
/// The keys and what they do.
const KEYS: &str = "n name  u used  w waited  m missed  q end";

/// What the user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    End,
    Order(Order),
    Resized,
}

/// The terminal, which is as before when this value is dropped.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn open() -> Result<Screen, Failure> {
        Ok(Screen(ratatui::try_init().context("cannot use the terminal")?))
    }

    pub(super) fn draw(&mut self, rates: &Rates, order: Order, interval: Nanos) -> Result<(), Failure> {
        self.0.draw(|frame| draw(frame, rates, order, interval)).context("cannot write to the terminal")?;
        Ok(())
    }

    /// Waits for a key for at most `time`.
    pub(super) fn key(&mut self, time: Nanos) -> Result<Option<Key>, Failure> {
        let read = || Ok(if event::poll(Duration::from_nanos(time.as_ns()))? { Some(event::read()?) } else { None });
        let read: std::io::Result<Option<Event>> = read();
        Ok(read.context("cannot read from the terminal")?.and_then(|event| meaning(&event)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn meaning(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return matches!(event, Event::Resize(..)).then_some(Key::Resized) };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::End),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::End),
        KeyCode::Char('n') => Some(Key::Order(Order::Name)),
        KeyCode::Char('u') => Some(Key::Order(Order::Used)),
        KeyCode::Char('w') => Some(Key::Order(Order::Waited)),
        KeyCode::Char('m') => Some(Key::Order(Order::Missed)),
        _ => None,
    }
}

fn draw(frame: &mut Frame<'_>, rates: &Rates, order: Order, interval: Nanos) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas::<2>(frame.area());
    let count = rates.vms.len();
    let vms = if count == 1 { "VM" } else { "VMs" };
    let title = format!("{count} {vms}, shares of one CPU in the last {interval}   {KEYS}");
    frame.render_widget(Line::from(title).dim(), head);
    draw_table(frame, body, rates, order);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, rates: &Rates, order: Order) {
    // Names come from command lines.
    let rows: Vec<[String; COLUMNS.len()]> =
        cells(rates).map(|row| row.map(|cell| safe(&cell, false).into_owned())).collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count()).chain([COLUMNS[at].0.len()]);
        Constraint::Length(u16::try_from(cells.max().unwrap_or(0).min(WIDTH_MOST)).unwrap_or(u16::MAX))
    };
    let widths: Vec<Constraint> = (0..COLUMNS.len()).map(width).collect();
    let sorted = match order {
        Order::Name => "name",
        Order::Used => "used",
        Order::Waited => "waited",
        Order::Missed => "missed",
    };
    let aligned = |at: usize, text: String| {
        let line = Line::from(text);
        if COLUMNS[at].1 { line.left_aligned() } else { line.right_aligned() }
    };
    let titles = COLUMNS.iter().enumerate().map(|(at, (title, _))| {
        let style = if *title == sorted { Style::new().bold().reversed() } else { Style::new().bold() };
        Cell::from(aligned(at, (*title).to_string()).style(style))
    });
    let shown = rows.iter().zip(&rates.vms).map(|(row, vm)| {
        let cells = row.iter().enumerate().map(|(at, text)| Cell::from(aligned(at, text.clone())));
        let style = match vm.state.as_str() {
            "not-kept" | "refused" => Style::new().red(),
            "paused" | "absent" | "waiting" => Style::new().dim(),
            _ => Style::new(),
        };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    });
    let table = Table::new(shown, widths).header(Row::new(titles)).column_spacing(2);
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::sample;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn the_screen_shows_what_was_used_between_two_samples() {
        let rates = Rates::between(&sample(0, 7, (0, 0), (0, 0)), &sample(1_000, 7, (1_250, 100), (100, 2)));
        let mut terminal = Terminal::new(TestBackend::new(78, 4)).unwrap();
        terminal.draw(|frame| draw(frame, &rates, Order::Used, Nanos::s(1))).unwrap();
        let shown = terminal.backend().to_string();
        let lines: Vec<&str> = shown.lines().map(|line| line.trim_matches('"').trim_end()).collect();
        assert_eq!(
            lines,
            [
                "1 VM, shares of one CPU in the last 1s   n name  u used  w waited  m missed  q",
                "name  state  promise  vCPUs    used  waited  others    missed",
                "vm1   kept                2  125.0%   10.0%   12.5%  2 of 100",
                "",
            ]
        );
    }

    #[test]
    fn keys_order_the_vms_and_end_the_program() {
        let key = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('m'), KeyModifiers::NONE), Some(Key::Order(Order::Missed)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::End));
    }
}
