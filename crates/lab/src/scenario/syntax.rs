//! What TOML's own parser finds wrong, in the form of all other problems.

use crate::problem::Problem;
use crate::source::Span;
use toml_parser::lexer::TokenKind;

/// How deep the parser goes; its own limit.
const DEPTH_MAX: usize = 80;

/// The problem behind the parser's error about `text`.
pub(super) fn problem(error: &toml::de::Error, text: &str) -> Problem {
    let (message, expected) = match error.message().split_once(", expected ") {
        Some((message, expected)) => (message, Some(expected)),
        None => (error.message(), None),
    };
    let (message, right) = match (message, expected) {
        ("duplicate key", _) => ("this key was given before", "to give it once"),
        ("recursion limit" | "cannot recurse further; max recursion depth met", _) => {
            ("this is nested too deep", "fewer than 80 levels")
        }
        ("string values must be quoted" | "missing value" | "invalid value", _) => {
            ("this is no value", "a text in quotes, a number, true, false, [ … ] or { … }")
        }
        ("invalid basic string", Some(expected)) if expected.contains("visible") => {
            ("this character cannot stand in a text", "visible characters, and \\n, \\t, \\\\ or \\uXXXX for others")
        }
        (message, Some(expected)) => (message, expected),
        (message, None) => (message, "TOML, see https://toml.io"),
    };
    let problem = Problem::new(message).help(format!("right would be {right}"));
    match error.span().map(Span::from).or_else(|| deep_key(text)) {
        Some(span) => problem.at(span, "here"),
        None => problem.at(Span::default(), "in this file"),
    }
}

/// The first dotted key with too many parts: the one error the parser does not locate.
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
