//! [`read`]: the claims in a file `claims.toml`, with the evidence of rules and the printed numbers.

use crate::claim::{Bound, Check, Claim, Variant, Within};
use crate::compute;
use crate::evidence::{self, Rules, Written};
use crate::experiment::{Point, Value};
use crate::printed::Printed;
use crate::problem::{self, Problem};
use crate::rival::Rival;
use indexmap::IndexMap;
use serde::Deserialize;
use std::path::Path;

/// Content of a file of claims.
pub(crate) struct Claims {
    /// Authors, title and year of the source.
    pub(crate) source: String,
    /// Choices of machines, knobs and anchors.
    pub(crate) method: String,
    /// The claims, in the order of the file.
    pub(crate) claims: Vec<Claim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    source: String,
    method: String,
    claim: Vec<ClaimText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimText {
    id: String,
    claim: String,
    #[serde(default)]
    why: Option<String>,
    check: Vec<CheckText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckText {
    what: String,
    measure: String,
    #[serde(default)]
    with: IndexMap<String, Written>,
    #[serde(default)]
    paper: Option<Value>,
    #[serde(default)]
    within: Option<Written>,
    #[serde(default)]
    above: Option<Written>,
    #[serde(default)]
    below: Option<Written>,
    #[serde(default)]
    each: Vec<Point>,
    #[serde(default)]
    may_miss: Option<Written>,
    #[serde(default)]
    anchor: Option<String>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    is_ratio: bool,
    #[serde(default)]
    rival: Option<Rival>,
}

/// Reads the claims in the file at `path`.
///
/// # Errors
/// The file cannot be read, or has invalid content.
pub(crate) fn read(path: &Path, rules: &Rules, printed: &Printed) -> Result<Claims, Problem> {
    let file: FileText = toml::from_str(&problem::read(path)?).map_err(|why| {
        Problem::wrong(path, why.to_string().trim_end(), "claims as docs/experiments.md describes them")
    })?;
    let mut claims: Vec<Claim> = Vec::new();
    for it in file.claim {
        if claims.iter().any(|other| other.id == it.id) {
            return Err(Problem::wrong(path, format!("claim {}: it occurs twice", it.id), "an id of its own"));
        }
        let mut checks = Vec::new();
        for text in it.check {
            let what = text.what.clone();
            let wrong =
                |(why, right): Invalid| Problem::wrong(path, format!("claim {}: \"{what}\" {why}", it.id), right);
            let check = text.check(rules, printed).map_err(&wrong)?;
            if checks.iter().any(|other: &Check| other.what == check.what) {
                return Err(wrong(invalid("is the subject of two checks", "a subject of its own")));
            }
            checks.push(check);
        }
        if checks.iter().all(|check: &Check| check.anchor.is_some()) {
            let what = format!("claim {}: no check tests it", it.id);
            return Err(Problem::wrong(path, what, "at least one check that is no anchor"));
        }
        claims.push(Claim { id: it.id, claim: it.claim, why: it.why, check: checks });
    }
    Ok(Claims { source: file.source, method: file.method, claims })
}

/// The reason why a check is invalid, and the remedy.
type Invalid = (String, String);

fn invalid(why: impl Into<String>, right: impl Into<String>) -> Invalid {
    (why.into(), right.into())
}

impl CheckText {
    /// Returns the check, if it is valid.
    fn check(self, rules: &Rules, printed: &Printed) -> Result<Check, Invalid> {
        let evidence = "evidence as docs/experiments.md describes it";
        let with =
            evidence::all(self.with, rules).map_err(|why| invalid(format!("has a bad value: {why}"), evidence))?;
        let each = variants(self.each, self.paper.as_ref(), printed)?;
        let check = Check {
            within: bound("within", self.within, rules, |value| value.as_str().map(Within::try_from))?,
            above: bound("above", self.above, rules, |value| value.as_f64().map(Ok))?,
            below: bound("below", self.below, rules, |value| value.as_f64().map(Ok))?,
            may_miss: bound("may_miss", self.may_miss, rules, |value| {
                value.as_u64().and_then(|count| usize::try_from(count).ok()).map(Ok)
            })?,
            what: self.what,
            measure: self.measure,
            with,
            each,
            anchor: self.anchor,
            unit: self.unit,
            is_ratio: self.is_ratio,
            rival: self.rival,
        };
        validate(&check).map(|()| check)
    }
}

/// Returns the bound `name` with its evidence. `parse` returns `None` for a value of another type.
fn bound<T>(
    name: &str,
    written: Option<Written>,
    rules: &Rules,
    parse: impl Fn(&Value) -> Option<Result<T, String>>,
) -> Result<Option<Bound<T>>, Invalid> {
    let Some(written) = written else { return Ok(None) };
    let right = "evidence as docs/experiments.md describes it";
    let given = written.given(rules).map_err(|why| invalid(format!("has a bad bound `{name}`: {why}"), right))?;
    match parse(&given.value) {
        Some(Ok(value)) => Ok(Some(Bound { value, given })),
        Some(Err(why)) => Err(invalid(format!("has a bad bound `{name}`: {why}"), right)),
        None => {
            Err(invalid(format!("has a bad bound `{name}`: {}", given.value), "a number, or a tolerance in quotes"))
        }
    }
}

/// Returns the variants of a check with their printed values. `paper` is the printed value of all variants: a number, or
/// the path of a printed number, in which a variable in braces is replaced by its value.
fn variants(each: Vec<Point>, paper: Option<&Value>, printed: &Printed) -> Result<Vec<Variant>, Invalid> {
    let each = if each.is_empty() { vec![Point::new()] } else { each };
    let of = |mut variables: Point| {
        let own = variables.shift_remove("paper");
        let paper = own.as_ref().or(paper).map(|paper| number(paper, &variables, printed)).transpose()?;
        Ok(Variant { variables, paper })
    };
    each.into_iter().map(of).collect()
}

fn number(paper: &Value, variables: &Point, printed: &Printed) -> Result<f64, Invalid> {
    if let Some(number) = paper.as_f64() {
        return Ok(number);
    }
    let path = paper.as_str().map(|path| filled(path, variables));
    let path = path.ok_or_else(|| invalid(format!("has {paper} as a printed value"), "a number or a path"))?;
    printed.number(&path).map_err(|why| invalid(format!("has no printed value: {why}"), "a reference to printed.toml"))
}

/// Returns `text` with the values of `variables` in place of their names in braces.
pub(crate) fn filled(text: &str, variables: &Point) -> String {
    variables.iter().fold(text.to_string(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), &value.as_str().map_or_else(|| value.to_string(), str::to_string))
    })
}

/// Checks that the check can be evaluated and can fail.
fn validate(check: &Check) -> Result<(), Invalid> {
    let is_anchor = check.anchor.is_some();
    if check.within.is_some() && check.each.iter().any(|variant| variant.paper.is_none()) {
        return Err(invalid("has a tolerance and no number of the paper", "`paper = …`, for each"));
    }
    let fits = |printed: f64| check.within.as_ref().is_none_or(|within| within.value.is_about(printed));
    let printed = check.each.iter().filter_map(|variant| variant.paper);
    if let Some(printed) = printed.into_iter().find(|printed| printed.is_nan() || !fits(*printed)) {
        let why = format!("cannot be compared with {printed} as the paper's number");
        return Err(invalid(why, "a number that is not 0; for a gain above 0, and not 1"));
    }
    if let Err(why) = compute::compiles(&check.measure) {
        return Err(invalid(format!("measures nothing: {why}"), "an expression over at() and all()"));
    }
    let bounds = check.within.is_some() || check.above.is_some() || check.below.is_some();
    if !bounds && !is_anchor {
        return Err(invalid("accepts everything", "`within`, `above` or `below`"));
    }
    let accepted = check.accepted(None);
    if accepted.is_ratio && (accepted.floor() <= 0.0 && accepted.floor().is_finite() || accepted.ceiling() <= 0.0) {
        return Err(invalid("is a ratio with a bound that is not above 0", "a bound above 0, or no `is_ratio`"));
    }
    if check.rival.as_ref().is_none_or(Rival::is_empty) && !is_anchor {
        return Err(invalid("has no rival", "`rival = { name = \"…\", of = { … }, is = { … } }`"));
    }
    if check.may_miss.as_ref().is_some_and(|most| most.value >= check.each.len()) {
        return Err(invalid("may miss all", "`may_miss` below the number in `each`"));
    }
    if let Some(name) = check.with.keys().find(|name| check.each.iter().any(|it| it.variables.contains_key(*name))) {
        return Err(invalid(format!("has two values of `{name}`"), "`with` or `each`"));
    }
    Ok(())
}
