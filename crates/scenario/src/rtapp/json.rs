//! Conversion of text to values with their spans. Accepts extensions of JSON that rt-app's own files use: comments, a
//! comma after the last entry, and repeated keys, whose order is kept. Keys may lack a value (`"suspend",`); rt-app's
//! script workgen completes such keys.

use input::problem::Problem;
use input::source::{Placed, Span};
use jsonc_parser::errors::ParseError;
use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
use std::borrow::Cow;

/// Maximum depth of nested values: rt-app's own files need 5.
const DEPTH_MAX: usize = 32;
/// Maximum number of values in a file. In memory, the values and their spans take about a hundred times the size of the
/// file.
const VALUES_MAX: usize = 1 << 20;

/// A value. Each value inside an array or object has a span.
#[derive(Debug)]
pub(super) enum Json<'a> {
    /// The key has no value.
    Absent,
    Null,
    Switch(bool),
    /// A number as written.
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Placed<Json<'a>>>),
    Object(Entries<'a>),
}

/// Keys and values, in the order of the file.
pub(super) type Entries<'a> = Vec<(Placed<Cow<'a, str>>, Placed<Json<'a>>)>;

impl Json<'_> {
    /// Returns the type of the value, with an article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Json::Absent => "nothing",
            Json::Null => "null",
            Json::Switch(_) => "a truth value",
            Json::Number(digits) if digits.contains(['.', 'e', 'E']) => "a number with a fraction",
            Json::Number(_) => "a whole number",
            Json::Text(_) => "a text",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

/// Parses the value in `text`.
pub(super) fn parse(text: &str) -> Result<Placed<Json<'_>>, Problem> {
    // Extensions of JSON that json-c, rt-app's parser, accepts. Source: json_tokener.c, 0.17, without
    // JSON_TOKENER_STRICT.
    let options = ScannerOptions {
        allow_single_quoted_strings: true,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let mut reader = Reader { scanner: Scanner::new(text, &options), token: None, values: 0 };
    reader.advance()?;
    let value = reader.value(0)?;
    match reader.token {
        None => Ok(value),
        Some(_) => {
            Err(reader.wrong("there is something after the end of the file's value", "one { … } and nothing after it"))
        }
    }
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    /// The next token. `None` at the end of the file.
    token: Option<Token<'a>>,
    values: usize,
}

impl<'a> Reader<'a> {
    fn advance(&mut self) -> Result<(), Problem> {
        loop {
            self.token = self.scanner.scan().map_err(|error| problem(&error))?;
            if !matches!(self.token, Some(Token::CommentLine(_) | Token::CommentBlock(_))) {
                return Ok(());
            }
        }
    }

    /// Returns the span of the next token.
    fn here(&self) -> Span {
        match self.token {
            Some(_) => Span { start: self.scanner.token_start(), end: self.scanner.token_end() },
            None => Span { start: self.scanner.file_text().len(), end: self.scanner.file_text().len() },
        }
    }

    fn wrong(&self, message: &str, right: &str) -> Problem {
        let label = if self.token.is_some() { "here" } else { "the end of the file" };
        Problem::new(message).at(self.here(), label).help(format!("use {right}"))
    }

    /// Counts a value. Returns an error if there are more than [`VALUES_MAX`].
    fn count(&mut self) -> Result<(), Problem> {
        self.values += 1;
        match self.values {
            0..=VALUES_MAX => Ok(()),
            _ => Err(self.wrong("there are too many values in this file", &format!("at most {VALUES_MAX}"))),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Placed<Json<'a>>, Problem> {
        const RIGHT: &str = "a text in quotes, a number, true, false, [ … ] or { … }";
        let at = self.here();
        self.count()?;
        if depth > DEPTH_MAX {
            return Err(self.wrong("this is nested too deep", &format!("at most {DEPTH_MAX} levels")));
        }
        let value = match self.token.take() {
            Some(Token::OpenBrace) => return self.object(at, depth),
            Some(Token::OpenBracket) => return self.array(at, depth),
            Some(Token::String(text)) => Json::Text(text),
            Some(Token::Number(digits)) => Json::Number(digits),
            Some(Token::Boolean(on)) => Json::Switch(on),
            Some(Token::Null) => Json::Null,
            // json-c ignores the case of these words, and Python writes them with a capital letter.
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("true") => Json::Switch(true),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("false") => Json::Switch(false),
            other => {
                self.token = other;
                return Err(self.wrong("there is no value here", RIGHT));
            }
        };
        self.advance()?;
        Ok(Placed { value, at })
    }

    fn array(&mut self, at: Span, depth: usize) -> Result<Placed<Json<'a>>, Problem> {
        let mut values = Vec::new();
        self.advance()?;
        loop {
            match self.token {
                Some(Token::CloseBracket) => break,
                None => return Err(unclosed("[", at)),
                _ => values.push(self.value(depth + 1)?),
            }
            match self.token {
                Some(Token::Comma) => self.advance()?,
                Some(Token::CloseBracket) => {}
                None => return Err(unclosed("[", at)),
                _ => return Err(self.wrong("two values are not separated", "a comma before this, or ]")),
            }
        }
        let end = self.here().end;
        self.advance()?;
        Ok(Placed { value: Json::Array(values), at: Span { start: at.start, end } })
    }

    fn object(&mut self, at: Span, depth: usize) -> Result<Placed<Json<'a>>, Problem> {
        let mut entries = Entries::new();
        self.advance()?;
        loop {
            let place = self.here();
            match self.token.take() {
                Some(Token::CloseBrace) => break,
                Some(Token::String(key)) => {
                    self.advance()?;
                    let value = match self.token {
                        Some(Token::Colon) => {
                            self.advance()?;
                            self.value(depth + 1)?
                        }
                        Some(Token::Comma | Token::CloseBrace) => {
                            self.count()?;
                            Placed { value: Json::Absent, at: place }
                        }
                        None => return Err(unclosed("{", at)),
                        _ => return Err(self.wrong("there is a key without a colon", "\"key\" : value")),
                    };
                    entries.push((Placed { value: key, at: place }, value));
                }
                None => return Err(unclosed("{", at)),
                other => {
                    self.token = other;
                    return Err(self.wrong("this is no key", "a key in quotes, such as \"run\" : 1000, or }"));
                }
            }
            match self.token {
                Some(Token::Comma) => self.advance()?,
                Some(Token::CloseBrace) => {}
                None => return Err(unclosed("{", at)),
                _ => return Err(self.wrong("two entries are not separated", "a comma before this, or }")),
            }
        }
        let end = self.scanner.token_end();
        self.advance()?;
        Ok(Placed { value: Json::Object(entries), at: Span { start: at.start, end } })
    }
}

fn unclosed(bracket: &str, at: Span) -> Problem {
    let right = if bracket == "{" { "}" } else { "]" };
    Problem::new(format!("this `{bracket}` is never closed"))
        .at(at, "opened here")
        .help(format!("put a {right} before the end of the file"))
}

/// Returns the problem for the scanner's error.
fn problem(error: &ParseError) -> Problem {
    let range = error.range();
    let message = error.kind().to_string();
    let mut letters = message.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    Problem::new(format!("this is not JSON: {first}{}", letters.as_str()))
        .at(Span { start: range.start, end: range.end }, "here")
        .help("use a text in quotes, a number, true, false, [ … ] or { … }, with comments as in C; see https://www.json.org")
}
