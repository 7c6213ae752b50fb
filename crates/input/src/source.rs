//! [`Source`]: the text of an input file, and spans of the text.

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Maximum length of the printed text on each side of a span, in bytes. Longer lines are truncated.
const MARGIN: usize = 240;

/// A range of bytes in a source. The default, empty and at 0, means an unknown span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset of the byte after the last.
    pub end: usize,
}

impl Span {
    /// Returns the span, or `None` if the span is unknown.
    #[must_use]
    pub fn known(self) -> Option<Span> {
        (self != Span::default()).then_some(self)
    }
}

impl From<std::ops::Range<usize>> for Span {
    fn from(range: std::ops::Range<usize>) -> Span {
        Span { start: range.start, end: range.end }
    }
}

/// A value and its span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed<T> {
    /// The value as written.
    pub value: T,
    /// Span of the value.
    pub at: Span,
}

/// A position in a text, for messages. Lines and columns are counted from 1, and columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    /// Number of the line. Minimum: 1.
    pub line: usize,
    /// Number of the column. Minimum: 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A named text that is cheap to clone. The default has no name and no text, and stands for data that is not from a
/// file.
#[derive(Clone, Default)]
pub struct Source(Arc<Inner>);

#[derive(Default)]
struct Inner {
    name: String,
    text: String,
    /// The printable text, created at the first error.
    shown: OnceLock<Shown>,
}

/// The printable text. It has the same number of bytes as the original.
struct Shown {
    text: String,
    /// Offset of the start of each line.
    lines: Vec<usize>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.0.name).field("bytes", &self.0.text.len()).finish()
    }
}

impl Source {
    /// Creates the source of the file `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source(Arc::new(Inner { name: name.into(), text: text.into(), shown: OnceLock::new() }))
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the position of the byte at `offset`. An offset beyond the end has the position of the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let shown = self.shown();
        let offset = floor(&shown.text, offset);
        let line = shown.line(offset);
        Position { line: line + 1, column: shown.column(line, offset) + 1 }
    }

    /// Returns the part of `span` that can be underlined. This part lies within one line, has at least one character if
    /// possible, and has a limited length.
    pub fn underline(&self, span: Span) -> SourceSpan {
        let text = self.text();
        let mut start = floor(text, span.start);
        if text[start..].trim_ascii().is_empty() {
            // At the end of the file, or in blank lines before it, the last visible character is underlined.
            let end = text.trim_ascii_end().len();
            start = start.min(floor(text, end.saturating_sub(1)));
        }
        let most = ceil(text, start + MARGIN);
        let line = text[start..most].split(['\n', '\r']).next().unwrap_or_default();
        let first = line.chars().next().map_or(0, char::len_utf8);
        let wanted = floor(text, span.end.clamp(start, text.len())) - start;
        (start, wanted.min(line.len()).max(first)).into()
    }

    fn shown(&self) -> &Shown {
        self.0.shown.get_or_init(|| {
            let text = printable(&self.0.text);
            let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
            let lines = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
            Shown { text, lines }
        })
    }
}

impl Shown {
    /// Returns the index of the line of `offset`, from 0.
    fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset) - 1
    }

    /// Returns the number of characters of `line` before `offset`.
    fn column(&self, line: usize, offset: usize) -> usize {
        self.text[self.lines[line]..offset].chars().count()
    }
}

/// Returns `text` with question marks in place of control characters and of characters that change the text direction.
/// The number of bytes does not change.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let ends_line = c == '\n' || (c == '\r' && rest.peek() == Some(&'\n'));
        if ends_line || c == '\t' || is_printable(c) {
            shown.push(c);
        } else {
            shown.extend(std::iter::repeat_n('?', c.len_utf8()));
        }
    }
    assert_eq!(shown.len(), text.len());
    shown
}

/// Returns whether `c` is printable and does not affect the display of other characters.
pub fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the last character boundary at or before `offset` and within the text.
pub fn floor(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Returns the first character boundary at or after `offset`.
fn ceil(text: &str, offset: usize) -> usize {
    (offset..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let shown = self.shown();
        let (start, end) = (span.offset(), span.offset() + span.len());
        if end > shown.text.len() {
            return Err(MietteError::OutOfBounds);
        }
        let from = if lines_before == 0 {
            start
        } else {
            let line = shown.line(start).saturating_sub(lines_before);
            shown.lines[line].max(floor(&shown.text, start.saturating_sub(MARGIN)))
        };
        let next = shown.line(end.saturating_sub(1).max(start)) + lines_after + 1;
        let line_end = shown.lines.get(next).copied().unwrap_or(shown.text.len());
        let to = line_end.min(ceil(&shown.text, end + MARGIN));
        let line = shown.line(from);
        Ok(Box::new(MietteSpanContents::new_named(
            printable(&self.0.name),
            &shown.text.as_bytes()[from..to],
            (from, to - from).into(),
            line,
            shown.column(line, from),
            shown.line(to.saturating_sub(1).max(from)) - line + 1,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let source = Source::new("x", "a\r\nbµc\n");
        let at = |offset| source.position(offset).to_string();
        assert_eq!((at(0), at(3), at(6), at(7)), ("1:1".into(), "2:1".into(), "2:3".into(), "2:4".into()));
        assert_eq!((at(8), at(99)), ("3:1".into(), "3:1".into()));
    }

    #[test]
    fn underlines_stay_within_one_line() {
        let source = Source::new("x", "key = [\n 1,\n]\n\n");
        assert_eq!(source.underline(Span { start: 6, end: 13 }), (6, 1).into());
        assert_eq!(source.underline(Span { start: 0, end: 0 }), (0, 1).into());
        assert_eq!(source.underline(Span { start: 15, end: 15 }), (12, 1).into(), "the end of the file");
        assert_eq!(Source::new("x", "").underline(Span { start: 0, end: 0 }), (0, 0).into());
    }

    #[test]
    fn what_drives_a_terminal_is_not_shown() {
        let text = "a\u{1b}[2J\u{9b}\u{202e}\tµ\r\n";
        assert_eq!(printable(text), "a?[2J?????\tµ\r\n");
        assert_eq!(printable(text).len(), text.len());
    }
}
