//! Decodes the contents of untrusted files.

use crate::files::Unreadable;
use crate::problem::{Problem, Problems, quoted};
use crate::source::{Source, Span};

/// Maximum size of an input file, in bytes: about 350,000 lines of a scenario.
///
/// Parsing needs far more memory than the text itself. This limit and the limits on the contents of a scenario keep the
/// memory use for hostile files below 600 MB (measured).
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// Returns the error of a file `name` that cannot be read.
#[must_use]
pub fn unreadable(name: &str, why: &Unreadable) -> Problem {
    let problem = Problem::new(format!("{} cannot be read: {why}", quoted(name)));
    problem.help("use the path of a file that you may read")
}

/// Decodes the text of the file `name`.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<Source, Problems> {
    if bytes.len() > FILE_BYTES_MAX {
        let problem = Problem::new(format!("{} is too large", quoted(name)));
        return Err(problem.help(format!("use a file of at most {} MiB", FILE_BYTES_MAX >> 20)).into());
    }
    String::from_utf8(bytes).map(|text| Source::new(name, text)).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[at];
        // The original and the decoded text are equal up to the first invalid byte, which becomes a replacement
        // character.
        let source = Source::new(name, String::from_utf8_lossy(error.as_bytes()));
        let problem = Problem::new(format!("the file is not UTF-8 text: byte {at} is 0x{byte:02x}"));
        let span = Span { start: at, end: at + char::REPLACEMENT_CHARACTER.len_utf8() };
        problem.at(span, "not UTF-8").help("use a text file in UTF-8").within(&source).into()
    })
}
