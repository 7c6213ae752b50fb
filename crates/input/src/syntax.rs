//! Conversion of text to a TOML document of bounded size. Errors of the TOML parser are converted to problems.

use crate::problem::Problem;
use crate::source::Span;
use crate::text::FILE_BYTES_MAX;
use toml::Spanned;
use toml::de::DeTable;
use toml_parser::lexer::TokenKind;

/// Maximum depth of nesting, equal to the limit of the TOML parser.
const DEPTH_MAX: usize = 80;

/// Maximum number of tables in a file. A table with a single key takes 1.2 kB of memory (measured), even if it consists
/// of only the two bytes `.a` in the file.
const TABLES_MAX: usize = 1 << 18;
/// Maximum number of tokens in a file. Only a file with an average of less than two bytes per token can have more, such
/// as a list of single digits.
const TOKENS_MAX: usize = FILE_BYTES_MAX / 2;

/// Parses the TOML document in `text`.
///
/// # Errors
/// The first syntax error, with its span, or the document is too large.
pub fn parse(text: &str) -> Result<DeTable<'_>, Problem> {
    bounded(text)?;
    DeTable::parse(text).map(Spanned::into_inner).map_err(|error| problem(&error, text))
}

/// Checks that the numbers of tables and of tokens are within their limits, so that the memory use of the document is
/// bounded.
fn bounded(text: &str) -> Result<(), Problem> {
    let mut brackets = 0;
    for (tokens, token) in toml_parser::Source::new(text).lex().enumerate() {
        brackets += match token.kind() {
            TokenKind::Dot | TokenKind::LeftCurlyBracket => 2,
            // The header `[[a]]` has two of these brackets, so each bracket counts as half a table.
            TokenKind::LeftSquareBracket => 1,
            _ => 0,
        };
        let (what, most) = match () {
            () if brackets > 2 * TABLES_MAX => ("tables", TABLES_MAX),
            () if tokens >= TOKENS_MAX => ("tokens (words, signs, spaces, line ends)", TOKENS_MAX),
            () => continue,
        };
        let at = Span { start: token.span().start(), end: token.span().end() };
        let problem = Problem::new(format!("there are too many {what} in this file")).at(at, "too many from here on");
        return Err(problem.help(format!("use at most {most}")));
    }
    Ok(())
}

/// Returns the problem for the parser's error about `text`.
fn problem(error: &toml::de::Error, text: &str) -> Problem {
    let (message, expected) = match error.message().split_once(", expected ") {
        Some((message, expected)) => (message, Some(expected)),
        None => (error.message(), None),
    };
    let (message, right) = match (message, expected) {
        ("duplicate key", _) => ("this key occurs twice", "each key once"),
        ("recursion limit" | "cannot recurse further; max recursion depth met", _) => {
            ("this is nested too deep", "fewer than 80 levels")
        }
        ("string values must be quoted" | "missing value" | "invalid value", _) => {
            ("this is no value", "a text in quotes, a number, true, false, [ … ] or { … }")
        }
        ("invalid basic string", Some(expected)) if expected.contains("visible") => {
            ("this character is not allowed in a text", "visible characters, and \\n, \\t, \\\\ or \\uXXXX for others")
        }
        (message, Some(expected)) => (message, expected),
        (message, None) => (message, "TOML, see https://toml.io"),
    };
    let problem = Problem::new(message).help(format!("use {right}"));
    match error.span().map(Span::from).or_else(|| deep_key(text)) {
        Some(span) => problem.at(span, "here"),
        None => problem.at(Span::default(), "in this file"),
    }
}

/// Returns the first dotted key with too many parts. This is the only error for which the parser returns no span.
fn deep_key(text: &str) -> Option<Span> {
    let (mut dots, mut start) = (0, 0);
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Atom | TokenKind::LiteralString | TokenKind::BasicString if dots == 0 => {
                start = token.span().start();
            }
            TokenKind::Atom | TokenKind::LiteralString | TokenKind::BasicString | TokenKind::Whitespace => {}
            _ => dots = 0,
        }
        if dots >= DEPTH_MAX {
            return Some(Span { start, end: token.span().end() });
        }
    }
    None
}
