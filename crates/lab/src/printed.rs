//! [`Printed`]: the numbers that a paper prints as results, by figure, table or passage.
//!
//! A number has one position in `printed.toml`. Checks of claims and marks in plots refer to this position.

use crate::problem::{Problem, read};
use indexmap::IndexMap;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Name of the file with the printed numbers, in the directory of a paper.
pub const PRINTED: &str = "printed.toml";

/// Separator of the parts of a reference: `table-1/bvt/50`.
const SEPARATOR: char = '/';

/// A curve of a paper: position, as text → printed number.
pub type Series = IndexMap<String, f64>;

/// The printed numbers of a paper.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Printed {
    /// Figures, tables and passages of the paper by their names, in the order of the file.
    pub places: IndexMap<String, Place>,
    /// Path of the file, for errors.
    path: PathBuf,
}

/// A figure, a table or a passage of a paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Name of the place in the paper: `Table 1`, `Section 4.2`.
    pub place: String,
    /// Page of the paper, counted from its first page, which is 1.
    pub page: u32,
    /// Unit of the numbers; empty for ratios and counts.
    pub unit: String,
    /// What the numbers are, and what their positions are, in our words.
    pub what: String,
    /// Whether the numbers are read off a drawn curve, and are not printed as digits.
    #[serde(default)]
    pub read_off: bool,
    /// Reason why no plot marks these numbers; `None`: a plot marks every series.
    #[serde(default)]
    pub no_plot: Option<String>,
    /// The numbers by series and position.
    pub series: IndexMap<String, Series>,
}

impl Printed {
    /// Reads the printed numbers in the file at `path`. A file that does not exist has no numbers.
    ///
    /// # Errors
    /// The file cannot be read, or has invalid content.
    pub fn read(path: &Path) -> Result<Printed, Problem> {
        let text = if path.exists() { read(path)? } else { String::new() };
        Printed::from_text(path, &text)
    }

    /// Reads the printed numbers of the paper in `directory`. A part of a paper in a subdirectory without such a file has
    /// the numbers of the paper.
    ///
    /// # Errors
    /// The errors of [`read`](Printed::read).
    pub fn of(directory: &Path) -> Result<Printed, Problem> {
        let paths = directory.ancestors().take(2).map(|directory| directory.join(PRINTED));
        let path = paths.into_iter().find(|path| path.is_file());
        Printed::read(&path.unwrap_or_else(|| directory.join(PRINTED)))
    }

    /// Returns the printed numbers in `text`. `path` is the file that contained the text.
    ///
    /// # Errors
    /// The text is not a valid list of printed numbers.
    pub fn from_text(path: &Path, text: &str) -> Result<Printed, Problem> {
        let places: IndexMap<String, Place> = toml::from_str(text).map_err(|why| {
            Problem::wrong(path, why.to_string().trim_end(), "printed numbers as docs/experiments.md describes them")
        })?;
        let printed = Printed { places, path: path.to_path_buf() };
        printed.places.iter().try_for_each(|(name, place)| printed.check(name, place))?;
        Ok(printed)
    }

    /// Returns the number at a reference: `table-1/bvt/50` is position `50` of the series `bvt` of the place `table-1`.
    ///
    /// # Errors
    /// The paper has no such number.
    pub fn number(&self, reference: &str) -> Result<f64, Problem> {
        let split = reference.rsplit_once(SEPARATOR).filter(|(series, _)| series.contains(SEPARATOR));
        let Some((name, position)) = split else {
            let what = format!("`{reference}` refers to no printed number");
            return Err(self.wrong(what, "place, series and position: `table-1/bvt/50`"));
        };
        let series = self.series(name)?;
        series.get(position).copied().ok_or_else(|| {
            self.wrong(
                format!("the series `{name}` has no position `{position}`"),
                &format!("one of {}", names(series)),
            )
        })
    }

    /// Returns the series at a reference: `table-1/bvt` is the series `bvt` of the place `table-1`.
    ///
    /// # Errors
    /// The paper has no such series.
    pub fn series(&self, reference: &str) -> Result<&Series, Problem> {
        let Some((name, series)) = reference.split_once(SEPARATOR) else {
            let what = format!("`{reference}` refers to no series of printed numbers");
            return Err(self.wrong(what, "place and series: `table-1/bvt`"));
        };
        let place = self.places.get(name).ok_or_else(|| {
            self.wrong(format!("there is no place `{name}`"), &format!("one of {}", names(&self.places)))
        })?;
        place.series.get(series).ok_or_else(|| {
            let what = format!("the place `{name}` has no series `{series}`");
            self.wrong(what, &format!("one of {}", names(&place.series)))
        })
    }

    fn check(&self, name: &str, place: &Place) -> Result<(), Problem> {
        let positions = place.series.values().flat_map(IndexMap::keys);
        let mut parts = std::iter::once(name).chain(place.series.keys().chain(positions).map(String::as_str));
        if let Some(part) = parts.find(|part| part.is_empty() || part.contains(SEPARATOR)) {
            let what = format!("`{part}` in `{name}` cannot be a part of a reference");
            return Err(self.wrong(what, "a name that is not empty, without `/`"));
        }
        if place.page == 0 {
            return Err(self.wrong(format!("`{name}` is on page 0"), "page = 1 for the first page"));
        }
        if place.series.is_empty() || place.series.values().any(IndexMap::is_empty) {
            return Err(self.wrong(format!("`{name}` has no numbers"), "series with at least one number each"));
        }
        if place.series.values().flat_map(IndexMap::values).any(|number| !number.is_finite()) {
            return Err(self.wrong(format!("`{name}` has a number that is not finite"), "the printed number"));
        }
        if [&place.place, &place.what].into_iter().chain(&place.no_plot).any(String::is_empty) {
            let what = format!("`{name}` has an empty text");
            return Err(self.wrong(what, "a text for `place`, `what` and, if present, `no_plot`"));
        }
        Ok(())
    }

    fn wrong(&self, what: String, right: &str) -> Problem {
        Problem::wrong(&self.path, what, right)
    }
}

/// Lists the keys of `map`; an empty map has no keys to choose from.
fn names<T>(map: &IndexMap<String, T>) -> String {
    let names: Vec<&str> = map.keys().map(String::as_str).collect();
    if names.is_empty() { "no place: the file has no printed numbers".to_string() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[table-1]
place = "Table 1"
page = 9
unit = "req/s"
what = "requests per second over C or the period in ms"
[table-1.series.bvt]
50 = 934
"0.5" = 510.5
[table-1.series."sedf, not wc"]
10 = 615
"#;

    fn printed(text: &str) -> Result<Printed, String> {
        Printed::from_text(Path::new("printed.toml"), text).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_reference_finds_its_number_and_its_series() {
        let printed = printed(TEXT).expect("it is valid");
        for (reference, number) in [("bvt/50", 934.0), ("bvt/0.5", 510.5), ("sedf, not wc/10", 615.0)] {
            let found = printed.number(&format!("table-1/{reference}")).expect("it is printed");
            assert!((found - number).abs() < 1e-12, "{reference}: {found}");
        }
        let series = printed.series("table-1/bvt").expect("it is printed");
        assert_eq!(series.keys().collect::<Vec<_>>(), ["50", "0.5"]);
        assert_eq!((printed.places["table-1"].page, printed.places["table-1"].unit.as_str()), (9, "req/s"));
    }

    #[test]
    fn a_reference_without_a_number_is_refused_with_the_valid_ones() {
        let printed = printed(TEXT).expect("it is valid");
        for (reference, what, right) in [
            ("table-1/bvt/49", "no position `49`", "50, 0.5"),
            ("table-1/credit/50", "no series `credit`", "bvt, sedf, not wc"),
            ("table-2/bvt/50", "no place `table-2`", "table-1"),
            ("table-1/bvt", "refers to no printed number", "table-1/bvt/50"),
            ("934", "refers to no printed number", "table-1/bvt/50"),
        ] {
            let said = printed.number(reference).expect_err(reference).to_string();
            assert!(said.contains("printed.toml") && said.contains(what) && said.contains(right), "{said}");
        }
        let said = Printed::default().number("a/b/c").expect_err("it is empty").to_string();
        assert!(said.contains("no place `a`") && said.contains("no printed numbers"), "{said}");
    }

    #[test]
    fn invalid_files_are_refused_and_an_absent_file_is_empty() {
        for (from, to, what) in [
            ("page = 9", "page = 0", "page 0"),
            ("50 = 934", "\"5/0\" = 934", "cannot be a part of a reference"),
            ("50 = 934", "50 = inf", "not finite"),
            ("10 = 615", "", "no numbers"),
            ("\"Table 1\"", "\"\"", "an empty text"),
            ("unit = \"req/s\"", "units = \"req/s\"", "units"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let said = printed(&TEXT.replace(from, to)).expect_err(to);
            assert!(said.contains(what), "{said}");
        }
        let none = Printed::read(Path::new("no-such-directory/printed.toml")).expect("it is empty");
        assert!(none.places.is_empty());
    }
}
