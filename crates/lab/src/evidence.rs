//! [`Given`]: a bound of a check or a parameter of an experiment, with its evidence. [`Rules`]: evidence that many
//! bounds share.

use indexmap::IndexMap;
use run::sweep::Value;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name of the file with the rules, in the directory that contains the papers.
pub const RULES: &str = "rules.toml";

/// Name of the file with the parameters that several experiments of a paper use.
pub const PARAMETERS: &str = "parameters.toml";

/// Origin of a bound that a rule of the suite states.
const RULE: &str = "rule";

/// Origin of a bound that a referee states.
const REFEREE: &str = "referee";

/// Origin of a property of the runs, such as their length, which is no property of the measured system.
const RUN: &str = "run";

/// The kind of evidence for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The paper states the value.
    Paper,
    /// Another document or a measurement states the value.
    Source,
    /// The value was set so that an anchor, one printed number, is met.
    Anchor,
    /// The value is assumed.
    Assumed,
}

impl Kind {
    /// Returns the kind as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Paper => "paper",
            Kind::Source => "source",
            Kind::Anchor => "anchor",
            Kind::Assumed => "assumed",
        }
    }
}

/// A value with its evidence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Given {
    /// The value: a number, a text with a unit, or a switch.
    pub value: Value,
    /// Kind of the evidence.
    pub kind: Kind,
    /// Place in the paper, document, anchor, `rule` or `referee`. Never empty.
    pub origin: String,
    /// Reason for the value. Never empty.
    pub reason: String,
    /// Range of the value for tests of robustness: the source's uncertainty, or the values that meet the anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[Value; 2]>,
}

impl Given {
    /// Returns whether a referee states the value.
    #[must_use]
    pub fn is_of_referee(&self) -> bool {
        self.kind == Kind::Assumed && self.origin == REFEREE
    }

    /// Returns whether the value is a property of the runs, and not of the measured system.
    #[must_use]
    pub fn is_of_runs(&self) -> bool {
        self.origin == RUN
    }

    /// Returns whether the value is free of choice: the paper, another document, a rule of the suite or a referee
    /// states the value.
    #[must_use]
    pub fn is_stated(&self) -> bool {
        matches!(self.kind, Kind::Paper | Kind::Source)
            || self.origin == RULE
            || self.is_of_runs()
            || self.is_of_referee()
    }
}

/// The value and the evidence without the reason, which may be reworded: `0.05, assumed, referee`.
impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Given { value, kind, origin, .. } = self;
        match value.as_str() {
            Some(text) => write!(f, "{text}, {}, {origin}", kind.word()),
            None => write!(f, "{value}, {}, {origin}", kind.word()),
        }?;
        self.range.as_ref().map_or(Ok(()), |[low, high]| write!(f, ", {low} to {high}"))
    }
}

/// A value as a file contains it: with its own evidence, or with the evidence of a rule.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    value: Option<Value>,
    kind: Option<Kind>,
    origin: Option<String>,
    reason: Option<String>,
    rule: Option<String>,
    range: Option<[Value; 2]>,
}

impl Written {
    /// Adds the evidence of the rule, if the value has one.
    ///
    /// # Errors
    /// The rule does not exist, or a part of the value is absent. The text names the part.
    pub(crate) fn given(self, rules: &Rules) -> Result<Given, String> {
        let of_rule = match &self.rule {
            Some(_) if self.kind.is_some() || self.origin.is_some() => {
                return Err("it has a rule and evidence of its own; use one of them".to_string());
            }
            Some(name) => Some(rules.get(name)?),
            None => None,
        };
        let absent = |key: &str| format!("it has no `{key}`; use {{ value, kind, origin, reason }} or {{ rule }}");
        let text = |own: Option<String>, ruled: Option<&String>, key: &str| {
            own.or_else(|| ruled.cloned()).filter(|text| !text.trim().is_empty()).ok_or_else(|| absent(key))
        };
        let value =
            self.value.or_else(|| of_rule.and_then(|rule| rule.value.clone())).ok_or_else(|| absent("value"))?;
        let kind = self.kind.or(of_rule.map(|rule| rule.kind)).ok_or_else(|| absent("kind"))?;
        let origin = text(self.origin, of_rule.map(|rule| &rule.origin), "origin")?;
        let reason = text(self.reason, of_rule.map(|rule| &rule.reason), "reason")?;
        Ok(Given { value, kind, origin, reason, range: self.range })
    }
}

/// Evidence that many bounds share.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The value; `None`: each use of the rule has its own value.
    #[serde(default)]
    value: Option<Value>,
    kind: Kind,
    origin: String,
    reason: String,
}

/// The rules of a suite of papers, by name.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Rules(IndexMap<String, Rule>);

impl Rules {
    fn get(&self, name: &str) -> Result<&Rule, String> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            format!("there is no rule `{name}`; use one of {}", names.join(", "))
        })
    }
}

/// Adds the evidence of the rules to `written`, values by name.
///
/// # Errors
/// A value is incomplete. The text has its name and the reason.
pub(crate) fn all(written: IndexMap<String, Written>, rules: &Rules) -> Result<IndexMap<String, Given>, String> {
    let of = |(name, it): (String, Written)| match it.given(rules) {
        Ok(given) => Ok((name, given)),
        Err(why) => Err(format!("`{name}`: {why}")),
    };
    written.into_iter().map(of).collect()
}
