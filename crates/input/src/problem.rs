//! [`Problem`]: an error in an input, with its position, its reason and its remedy.
//!
//! Checks do not stop at the first error. They collect problems in `Findings` and return [`Problems`].

use crate::files::{Files, NoFiles};
use crate::source::{Source, Span, is_printable, printable};
use miette::{Diagnostic, LabeledSpan, Severity};
use sched::{Explanation, KnobError, Refused};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Maximum number of problems of one input that are reported in full. Further problems are only counted.
pub const PROBLEMS_SHOWN: usize = 10;

/// Maximum column of a span in a problem that is shown with several spans. Beyond column 65,535, miette panics.
const COLUMNS_MAX: usize = 4_000;

/// An error in an input. miette's report handlers show the line of the error. `Display` shows only the reason.
#[derive(Clone, Debug)]
pub struct Problem {
    message: String,
    help: String,
    source: Source,
    /// Spans of the problem, each with a label. The first span is the main span.
    places: Vec<(Span, String)>,
    severity: Severity,
}

impl Problem {
    /// Creates a problem without a span.
    pub fn new(message: impl Into<String>) -> Problem {
        Problem {
            message: printable(&message.into()),
            help: String::new(),
            source: Source::default(),
            places: Vec::new(),
            severity: Severity::Error,
        }
    }

    /// Adds the span of the problem, or a related span, with a label.
    pub fn at(mut self, span: Span, label: impl Into<String>) -> Problem {
        self.places.push((span, printable(&label.into())));
        self
    }

    /// Sets the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = printable(&help.into());
        self
    }

    /// Sets the source that contains the problem.
    pub fn within(mut self, source: &Source) -> Problem {
        self.source = source.clone();
        self
    }

    /// Returns the remedy.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.help
    }

    /// Returns the position as `file:line:column`, or the name of the file if the position is unknown.
    #[must_use]
    pub fn place(&self) -> String {
        match self.places.first() {
            Some(&(span, _)) if !self.source.name().is_empty() => {
                let start = self.source.underline(span).offset();
                format!("{}:{}", printable(self.source.name()), self.source.position(start))
            }
            _ => printable(self.source.name()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        (!self.help.is_empty()).then(|| Box::new(&self.help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        (!self.source.name().is_empty()).then_some(&self.source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.places.is_empty() || self.source.name().is_empty() {
            return None;
        }
        // If a span is in a distant column, only the main span is shown, because a line with several spans is printed
        // from its first column.
        let is_near = |&(span, _): &(Span, String)| {
            self.source.position(self.source.underline(span).offset()).column <= COLUMNS_MAX
        };
        let shown = if self.places.iter().all(is_near) { self.places.len() } else { 1 };
        Some(Box::new(self.places[..shown].iter().enumerate().map(|(i, (span, label))| {
            let (span, label) = (self.source.underline(*span), Some(label.clone()).filter(|label| !label.is_empty()));
            match i {
                0 => LabeledSpan::new_primary_with_span(label, span),
                _ => LabeledSpan::new_with_span(label, span),
            }
        })))
    }
}

/// All errors in an input. There is at least one problem, and the first ten are in the order of the file.
///
/// [`report`](Problems::report) returns a report for a terminal. `Display` prints one line for each problem:
/// `file:line:column: reason; remedy`.
#[derive(Clone, Debug)]
pub struct Problems {
    shown: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// Returns the problems that are reported in full. The list is never empty.
    #[must_use]
    pub fn shown(&self) -> &[Problem] {
        if self.more > 0 { &self.shown[..self.shown.len() - 1] } else { &self.shown }
    }

    /// Returns the total number of problems.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shown().len() + self.more
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems { shown: vec![problem], more: 0 }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.shown.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            match problem.place() {
                place if place.is_empty() => f.write_str(&problem.message)?,
                place => write!(f, "{place}: {}", problem.message)?,
            }
            if !problem.help.is_empty() {
                write!(f, "; {}", problem.help)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Problems {
    /// Returns a report for a report handler. The handler shows each problem with its line.
    #[must_use]
    pub fn report(&self) -> miette::Report {
        let [problem, rest @ ..] = self.shown.as_slice() else { unreachable!("problems are at least one") };
        if rest.is_empty() {
            return miette::Report::new(problem.clone());
        }
        let heading = match problem.source.name() {
            "" => format!("{} errors", self.count()),
            name => format!("{} errors in {}", self.count(), printable(name)),
        };
        miette::Report::new(Several { heading, problems: self.shown.clone() })
    }
}

/// Several problems under a heading.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{heading}")]
struct Several {
    heading: String,
    #[related]
    problems: Vec<Problem>,
}

/// A collector of problems.
#[derive(Debug)]
pub struct Findings {
    source: Source,
    files: Arc<dyn Files>,
    /// First problems in the order of their positions, then in the order of detection.
    first: BTreeMap<(usize, usize), Problem>,
    count: usize,
}

impl Findings {
    /// Creates an empty collector for `source`, which must not refer to other files.
    pub fn new(source: &Source) -> Findings {
        Findings::with_files(source, Arc::new(NoFiles))
    }

    /// Creates an empty collector for `source`, which may refer to files in `files`.
    pub fn with_files(source: &Source, files: Arc<dyn Files>) -> Findings {
        Findings { source: source.clone(), files, first: BTreeMap::new(), count: 0 }
    }

    /// Returns the files to which the source may refer.
    #[must_use]
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.files)
    }

    /// Returns whether the collector has no problems.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the source that contains the problems.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Adds a problem. A problem without a source receives the collector's source.
    pub fn add(&mut self, problem: Problem) {
        let span = problem.places.first().map_or(Span::default(), |&(span, _)| span);
        self.add_at(span, || problem);
    }

    /// Adds a problem at `span`. Calls `problem` only if the problem is among the first ten so far. `problem` may be
    /// slow, for example while it searches for a similar name.
    pub fn add_at(&mut self, span: Span, problem: impl FnOnce() -> Problem) {
        let key = (span.start, self.count);
        let full = self.first.len() == PROBLEMS_SHOWN;
        if full && self.first.last_key_value().is_some_and(|(&last, _)| last < key) {
            self.count += 1;
            return;
        }
        let problem = problem();
        // Copies of a table have the same span. An error in all copies is reported once.
        let mut here = self.first.range((span.start, 0)..=(span.start, usize::MAX));
        if here.any(|(_, known)| known.message == problem.message && known.places == problem.places) {
            return;
        }
        self.count += 1;
        let problem = if problem.source.name().is_empty() { problem.within(&self.source) } else { problem };
        self.first.insert(key, problem);
        if full {
            self.first.pop_last();
        }
    }

    /// Adds all problems of another file, to which the collector's file refers at `span`.
    pub fn include(&mut self, span: Span, problems: Problems) {
        let (more, shown) = (problems.more, problems.shown().to_vec());
        for problem in shown {
            self.add_at(span, || match problem.source.name() {
                "" => problem.at(span, "named here"),
                _ => problem,
            });
        }
        self.count += more;
    }

    /// Returns all problems as an error, if there are any.
    pub fn finish(self) -> Result<(), Problems> {
        if self.count == 0 {
            return Ok(());
        }
        let mut shown: Vec<Problem> = self.first.into_values().collect();
        let more = self.count - shown.len();
        if more > 0 {
            let rest = Problem::new(format!("and {more} more")).within(&self.source);
            shown.push(Problem { severity: Severity::Advice, ..rest });
        }
        Err(Problems { shown, more })
    }
}

/// An error in a value, before the span of the value is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    message: String,
    label: String,
    help: String,
    /// Span of the wrong part of the value; `None`: the whole value is wrong.
    part: Option<Span>,
}

impl Wrong {
    /// Creates an error from its message, the label of its span, and its help.
    pub fn new(message: impl Into<String>, label: impl Into<String>, help: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), label: label.into(), help: help.into(), part: None }
    }

    /// Returns the error with `name`, the name of its subject, in front of the message.
    pub fn said_of(self, name: &str) -> Wrong {
        Wrong { message: format!("{}: {}", quoted(name), self.message), ..self }
    }

    /// Returns the error, restricted to the part of the value at `span`.
    pub fn part(self, span: Span) -> Wrong {
        Wrong { part: Some(span), ..self }
    }

    /// Returns the problem of the value at `span`.
    pub fn at(self, span: Span) -> Problem {
        self.anywhere(Some(span))
    }

    /// Returns the problem of the value at `span`, or a problem without a span.
    pub fn anywhere(self, span: Option<Span>) -> Problem {
        let problem = Problem::new(self.message).help(self.help);
        match self.part.or(span) {
            Some(span) => problem.at(span, self.label),
            None => problem,
        }
    }

    fn explained(explanation: Explanation, label: &str) -> Wrong {
        Wrong::new(explanation.reason, label, explanation.remedy)
    }
}

impl From<&Refused> for Wrong {
    fn from(refused: &Refused) -> Wrong {
        let label = match refused {
            Refused::SliceZero => "zero",
            Refused::SliceAbovePeriod { .. } => "longer than its period",
            Refused::TooLong { .. } => "too long",
            Refused::OutOfRange { .. } => "out of range",
            Refused::NoCpu { .. } => "no CPU of this machine",
            Refused::Utilisation { .. } => "does not fit",
            Refused::NoGroup(_) | Refused::GroupInUse(_) | Refused::Unsupported { .. } => "refused",
        };
        Wrong::explained(refused.explain(), label)
    }
}

impl From<&KnobError> for Wrong {
    fn from(error: &KnobError) -> Wrong {
        let label = match error {
            KnobError::Unknown { .. } => "no such knob",
            KnobError::OutOfRange { .. } => "out of range",
        };
        Wrong::explained(error.explain(), label)
    }
}

/// Returns `text` in backticks, with `?` in place of unprintable characters, truncated to 60 characters.
pub fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(60).map(|c| if is_printable(c) { c } else { '?' }).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Returns the member of `known` that is most similar to `text`, if it is similar enough.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer string is unlikely to be a mistyped name, and the search takes time quadratic in the length.
    if text.len() > 64 {
        return None;
    }
    let text = text.to_lowercase();
    let most = (text.chars().count() / 3).max(1);
    let likely = known.into_iter().filter(|name| name.len().abs_diff(text.len()) <= most);
    let distances = likely.map(|name| (strsim::damerau_levenshtein(&text, &name.to_lowercase()), name));
    distances.filter(|&(distance, _)| distance <= most).min().map(|(_, name)| name)
}

/// Returns the remedy for the unknown `text`: the most similar member of `known`, and all members.
pub fn right_instead(text: &str, known: &[&str]) -> String {
    let all = || known.join(", ");
    match nearest(text, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? use one of {}", all()),
        None => format!("use one of {}", all()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_drive_a_terminal_is_not_in_a_problem() {
        let source = Source::new("\x1b[2J.toml", "a = \x07\n");
        let at = Span { start: 4, end: 5 };
        let problem = Problem::new("there is no \x1b[2J").at(at, "no \x1b").help("use\n\u{202e}").within(&source);
        let problems = Problems::from(problem);
        for text in [problems.to_string(), format!("{:?}", problems.report())] {
            assert!(text.contains("?[2J.toml:1:5"), "{text}");
            assert!(text.chars().all(|c| is_printable(c) || c == '\n' || c == '\x1b'), "{text:?}");
            assert!(!text.contains("\x1b[2J") && !text.contains('\x07'), "{text:?}");
        }
    }

    #[test]
    fn the_nearest_name_is_found() {
        let known = ["slice", "period", "arrival", "weight"];
        for (typed, meant) in [("slize", "slice"), ("Period", "period"), ("wieght", "weight"), ("arival", "arrival")] {
            assert_eq!(nearest(typed, known), Some(meant));
        }
        assert_eq!(nearest("deadline", known), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }

    #[test]
    fn ten_problems_are_shown_and_the_rest_is_counted() {
        let source = Source::new("file", "0123456789abcdef");
        let mut findings = Findings::new(&source);
        for start in (0..13).rev() {
            findings.add(Problem::new(format!("wrong {start}")).at(Span { start, end: start + 1 }, ""));
        }
        let problems = findings.finish().unwrap_err();
        assert_eq!((problems.shown().len(), problems.count()), (10, 13));
        assert!(problems.to_string().starts_with("file:1:1: wrong 0\nfile:1:2: wrong 1\n"), "{problems}");
        assert!(problems.to_string().ends_with("\nfile:1:10: wrong 9\nfile: and 3 more"), "{problems}");
    }

    #[test]
    fn a_refusal_brings_its_reason_and_its_remedy() {
        let wrong = Wrong::from(&Refused::SliceZero);
        assert_eq!((wrong.message.as_str(), wrong.label.as_str()), ("slice is zero", "zero"));
        assert_eq!(wrong.help, "use 1 ns up to the period");
    }
}
