//! [`Lines`]: a file line by line, each read to its end, and what is wrong in which of them.

use super::LINE_MOST;
use super::cursor::{Cursor, Wrong};
use std::fmt;
use std::io::{self, BufRead, Read as _};

/// Why a text is not a trace.
#[derive(Debug)]
pub enum TextError {
    /// It could not be read.
    Read {
        /// The line, from 1.
        line: usize,
        /// What happened.
        source: io::Error,
    },
    /// It does not follow the format.
    Wrong {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
        /// What would be right.
        right: String,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Read { line, source } => write!(f, "line {line}: {source}"),
            TextError::Wrong { line, column, reason, right } => {
                write!(f, "line {line}, column {column}: {reason}; right would be {right}")
            }
        }
    }
}

impl std::error::Error for TextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TextError::Read { source, .. } => Some(source),
            TextError::Wrong { .. } => None,
        }
    }
}

/// The lines of a file.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    bytes: Vec<u8>,
    /// The number of the last line taken, from 1.
    pub(super) number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines { from, bytes: Vec::new(), number: 0 }
    }

    /// What `read` takes from the first line, all of it; there has to be one, and it should look like `example`.
    pub(super) fn first<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Wrong>,
        example: &str,
    ) -> Result<T, TextError> {
        let wrong = || Wrong { at: 0, reason: "there is no header".into(), right: example.into() };
        self.next(read)?.ok_or_else(|| place(self.number, "", wrong()))
    }

    /// What `read` takes from the next line that is neither blank nor a comment, all of it; `None` at the end of the file.
    pub(super) fn next<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Wrong>,
    ) -> Result<Option<T>, TextError> {
        if !self.advance()? {
            return Ok(None);
        }
        let line = text(&self.bytes, self.number)?;
        let mut cursor = Cursor::new(line);
        let taken = read(&mut cursor).and_then(|taken| cursor.end().map(|()| taken));
        taken.map(Some).map_err(|wrong| place(self.number, line, wrong))
    }

    /// Takes the next line that is neither blank nor a comment, without its line feed; says whether there is one.
    fn advance(&mut self) -> Result<bool, TextError> {
        loop {
            self.number += 1;
            self.bytes.clear();
            let mut limited = self.from.by_ref().take(LINE_MOST as u64 + 1);
            if let Err(source) = limited.read_until(b'\n', &mut self.bytes) {
                return Err(TextError::Read { line: self.number, source });
            }
            if self.bytes.is_empty() {
                return Ok(false);
            }
            if self.bytes.pop_if(|last| *last == b'\n').is_none() {
                let (reason, right) = if self.bytes.len() > LINE_MOST {
                    ("the line is too long", format!("at most {LINE_MOST} bytes"))
                } else {
                    ("the last line is cut off", "a line feed at the end of the file".into())
                };
                let shown = String::from_utf8_lossy(&self.bytes);
                return Err(place(self.number, &shown, Wrong { at: shown.len(), reason: reason.into(), right }));
            }
            self.bytes.pop_if(|last| *last == b'\r');
            if !matches!(self.bytes.trim_ascii_start().first(), None | Some(b'#')) {
                return Ok(true);
            }
        }
    }
}

/// A wrong thing, with its place in the file.
pub(super) fn place(line: usize, text: &str, wrong: Wrong) -> TextError {
    let column = text.char_indices().take_while(|&(at, _)| at < wrong.at).count() + 1;
    TextError::Wrong { line, column, reason: wrong.reason, right: wrong.right }
}

fn text(bytes: &[u8], line: usize) -> Result<&str, TextError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (reason, right) = ("a byte that is not UTF-8".into(), "text in UTF-8".into());
        place(line, &valid, Wrong { at: valid.len(), reason, right })
    })
}
