//! [`Lines`]: reads a file line by line, and locates errors.

use super::LINE_MOST;
use super::cursor::{Cursor, Wrong};
use std::fmt;
use std::io::{self, BufRead, Read as _};

/// The reason why a file could not be read as a trace.
#[derive(Debug)]
pub enum TextError {
    /// A line could not be read.
    Read {
        /// Number of the line, from 1.
        line: usize,
        /// Cause of the error.
        source: io::Error,
    },
    /// A line does not follow the format.
    Wrong {
        /// Number of the line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Description of the error.
        reason: String,
        /// Remedy, as an imperative.
        help: String,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Read { line, source } => write!(f, "line {line}: {source}"),
            TextError::Wrong { line, column, reason, help } => {
                write!(f, "line {line}, column {column}: {reason}; help: {help}")
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
    /// Number of the last line read, from 1.
    pub(super) number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines { from, bytes: Vec::new(), number: 0 }
    }

    /// Parses the first line that is neither blank nor a comment with `read`, which must consume the whole line. If the
    /// file has no such line, the error shows `example`.
    pub(super) fn first<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Wrong>,
        example: &str,
    ) -> Result<T, TextError> {
        let wrong = || Wrong { at: 0, reason: "there is no header".into(), help: format!("write {example}") };
        self.next(read)?.ok_or_else(|| place(self.number, "", wrong()))
    }

    /// Parses the next line that is neither blank nor a comment with `read`, which must consume the whole line. `None`:
    /// the file has ended.
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

    /// Stores the next line that is neither blank nor a comment in `bytes`, without its line feed. Returns whether the
    /// file has such a line.
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
                let (reason, help) = if self.bytes.len() > LINE_MOST {
                    ("the line is too long", format!("use at most {LINE_MOST} bytes"))
                } else {
                    ("the last line is cut off", "end the file with a line feed".into())
                };
                let shown = String::from_utf8_lossy(&self.bytes);
                return Err(place(self.number, &shown, Wrong { at: shown.len(), reason: reason.into(), help }));
            }
            self.bytes.pop_if(|last| *last == b'\r');
            if !matches!(self.bytes.trim_ascii_start().first(), None | Some(b'#')) {
                return Ok(true);
            }
        }
    }
}

/// Returns an error with its position in the file.
pub(super) fn place(line: usize, text: &str, wrong: Wrong) -> TextError {
    let column = text.char_indices().take_while(|&(at, _)| at < wrong.at).count() + 1;
    TextError::Wrong { line, column, reason: wrong.reason, help: wrong.help }
}

fn text(bytes: &[u8], line: usize) -> Result<&str, TextError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let (reason, help) = ("a byte that is not UTF-8".into(), "use UTF-8".into());
        place(line, &valid, Wrong { at: valid.len(), reason, help })
    })
}
