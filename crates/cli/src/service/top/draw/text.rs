//! Text from outside as lines, and boxes of lines.

use crate::output::folded;
use crate::terminal::safe;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

/// Converts text from outside into a line. Names come from command lines.
pub(super) fn plain(text: &str) -> Line<'static> {
    Line::from(safe(text, false).into_owned())
}

/// Draws lines in a box over the middle of the screen. A box that does not fit is cut off at the bottom.
pub(super) fn draw_box(frame: &mut Frame<'_>, title: &str, lines: Vec<Line<'static>>, width: u16) {
    let area = frame.area();
    let width = width.min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let place = Rect::new(x, y, width, height);
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(plain(&format!(" {title} ")).bold());
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

/// Splits text between words into lines of at most `width` characters.
pub(super) fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    folded(text, usize::from(width)).iter().map(|line| plain(line).style(style)).collect()
}
