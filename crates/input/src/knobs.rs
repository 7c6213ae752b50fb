//! Converts knob settings of a scenario, or `NAME=VALUE` on a command line, to a policy's [`Knobs`].

use crate::duration;
use crate::problem::{Findings, Problem, Problems, Wrong, nearest, quoted, right_instead};
use crate::source::{Source, Span};
use sched::{Descriptor, Knob, Knobs, Unit};

/// A knob and its value as written.
#[derive(Clone, Debug)]
pub struct KnobSetting {
    /// Name of the knob. The policy may lack this knob.
    pub name: String,
    /// Value of the knob, which may be invalid.
    pub value: KnobValue,
    /// Position of the setting in a source; `None` on a command line.
    pub place: Option<KnobPlace>,
}

/// A value as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KnobValue {
    /// A TOML string, or any value on a command line: `30ms`, `hard`, `on`, `20`.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Switch(bool),
}

/// The position of a knob setting in a source.
#[derive(Clone, Debug)]
pub struct KnobPlace {
    /// Source that contains the setting.
    pub source: Source,
    /// Span of the knob's name.
    pub name: Span,
    /// Span of the knob's value.
    pub value: Span,
}

impl std::str::FromStr for KnobSetting {
    type Err = Problems;

    /// Parses `NAME=VALUE`.
    fn from_str(text: &str) -> Result<KnobSetting, Problems> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                let value = KnobValue::Text(value.trim().to_string());
                Ok(KnobSetting { name: name.trim().to_string(), value, place: None })
            }
            _ => {
                let problem = Problem::new(format!("{} is not the setting of a knob", quoted(text)));
                Err(problem.help("write NAME=VALUE, such as quantum=10ms").into())
            }
        }
    }
}

/// Returns the knobs of `policy`: the defaults, changed by `settings` in order. The last setting of a knob applies.
///
/// # Errors
/// A setting names a knob that the policy lacks, or a value is outside the knob's range. Each problem has its position
/// if known.
pub fn apply_knobs(policy: &Descriptor, settings: &[KnobSetting]) -> Result<Knobs, Problems> {
    let mut knobs = policy.defaults();
    let mut findings = Findings::new(&Source::default());
    for setting in settings {
        let outcome = match policy.knobs.iter().find(|knob| knob.name == setting.name) {
            None => Err((unknown(policy, &setting.name), setting.place.as_ref().map(|place| place.name))),
            Some(knob) => convert(knob, &setting.value)
                .and_then(|value| knobs.set(knob.name, value).map_err(|error| Wrong::from(&error)))
                .map_err(|wrong| (wrong, setting.place.as_ref().map(|place| place.value))),
        };
        if let Err((wrong, span)) = outcome {
            let problem = wrong.anywhere(span);
            findings.add(match &setting.place {
                Some(place) => problem.within(&place.source),
                None => problem,
            });
        }
    }
    findings.finish().map(|()| knobs)
}

fn unknown(policy: &Descriptor, name: &str) -> Wrong {
    let known: Vec<&str> = policy.knobs.iter().map(|knob| knob.name).collect();
    if known.is_empty() {
        let help = format!("leave knobs out: `{}` has none", policy.name);
        return Wrong::new(format!("there is no knob {}", quoted(name)), "no such knob", help);
    }
    let message = format!("the policy `{}` has no knob {}", policy.name, quoted(name));
    Wrong::new(message, "no such knob", right_instead(name, &known))
}

/// Converts a value to the unit of the knob. Does not check the range of the value.
fn convert(knob: &'static Knob, value: &KnobValue) -> Result<i64, Wrong> {
    let number = |text: &str| text.trim().parse().ok();
    let converted = match (knob.unit, value) {
        (Unit::Time, KnobValue::Text(text)) => {
            let time = duration::parse(knob.name, text).map_err(|wrong| wrong.said_of(knob.name))?;
            Some(time.as_ns().cast_signed())
        }
        (Unit::Count, KnobValue::Text(text)) => number(text),
        (Unit::Percent, KnobValue::Text(text)) => number(text.trim().strip_suffix('%').unwrap_or(text)),
        (Unit::Count | Unit::Percent, &KnobValue::Integer(number)) => Some(number),
        (Unit::Switch, &KnobValue::Switch(on)) => Some(i64::from(on)),
        (Unit::Switch, KnobValue::Text(text)) => match text.as_str() {
            "on" | "true" => Some(1),
            "off" | "false" => Some(0),
            _ => None,
        },
        (Unit::Choice(words), KnobValue::Text(text)) => match words.iter().position(|word| word == text) {
            Some(index) => i64::try_from(index).ok(),
            None => return Err(no_word(knob, words, text)),
        },
        _ => None,
    };
    converted.ok_or_else(|| {
        let written = match value {
            KnobValue::Text(text) => quoted(text),
            KnobValue::Integer(number) => format!("`{number}`"),
            KnobValue::Switch(on) => format!("`{on}`"),
        };
        let is = match knob.unit {
            Unit::Time => "a length of time, with a unit",
            Unit::Count => "a whole number",
            Unit::Percent => "a whole number of per cent",
            Unit::Switch => "on or off",
            Unit::Choice(_) => "one of a few words",
        };
        let message = format!("{written} is no value for knob `{}`, which is {is}", knob.name);
        Wrong::new(message, "of another kind", format!("use {}", knob.range()))
    })
}

fn no_word(knob: &'static Knob, words: &[&'static str], typed: &str) -> Wrong {
    let help = match nearest(typed, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? use {}", knob.range()),
        None => format!("use {}", knob.range()),
    };
    Wrong::new(format!("{} is no value for knob `{}`", quoted(typed), knob.name), "unknown value", help)
}
