//! [`Label`]: the desired state of a VM as operators write it.

use crate::terms;
use api::{Desired, Limit, Mechanism, Promise};
use daemon::Explanation;
use serde::Deserialize;

/// The desired state of a VM as operators write it: `slice = "2ms"`, `period = "10ms"`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Label {
    slice: Option<String>,
    period: Option<String>,
    cpus: Option<u16>,
    gang: Option<bool>,
    limit: Option<Limit>,
    mechanism: Option<Mechanism>,
    weight: Option<u32>,
    cap: Option<u32>,
    /// User whose VM it is. Label files only.
    pub(super) user: Option<u32>,
    /// Name of the program whose process is the VM. Label files only.
    pub(super) program: Option<String>,
}

impl Label {
    /// Returns the label in a text in TOML.
    ///
    /// # Errors
    /// The text is not TOML, or has an unknown key or a wrong type.
    pub(super) fn parse(text: &str) -> Result<Label, Explanation> {
        toml::from_str(text).map_err(|error| unreadable(&error))
    }

    /// Returns the label with these keys and values, each a text.
    ///
    /// # Errors
    /// A key is unknown, or a value has a wrong type.
    pub(super) fn of_pairs<'p>(pairs: impl Iterator<Item = (&'p str, &'p str)>) -> Result<Label, Explanation> {
        let value = |text: &str| match (text.parse::<i64>(), text.parse::<bool>()) {
            (Ok(number), _) => toml::Value::Integer(number),
            (_, Ok(truth)) => toml::Value::Boolean(truth),
            _ => toml::Value::String(text.to_string()),
        };
        let table: toml::Table = pairs.map(|(key, text)| (key.to_string(), value(text))).collect();
        table.try_into().map_err(|error| unreadable(&error))
    }

    /// Returns the desired state.
    ///
    /// # Errors
    /// A value is out of range, or half of a promise is missing.
    pub(super) fn desired(&self) -> Result<Desired, Explanation> {
        let time = |what: &'static str, text: &Option<String>| {
            let parsed = text.as_deref().map(|text| input::duration::parse(what, text)).transpose();
            parsed.map(|time| time.map(sched::Nanos::as_ns)).map_err(|wrong| {
                let problem = wrong.anywhere(None);
                Explanation::new(problem.to_string(), problem.remedy().to_string())
            })
        };
        let is_of_promise = [self.cpus.is_some(), self.gang.is_some(), self.limit.is_some(), self.mechanism.is_some()];
        let promise = match (time("slice", &self.slice)?, time("period", &self.period)?) {
            (Some(slice_ns), Some(period_ns)) => Some(Promise {
                slice_ns,
                period_ns,
                cpus: self.cpus.unwrap_or(1),
                gang: self.gang.unwrap_or(false),
                limit: self.limit.unwrap_or_default(),
                mechanism: self.mechanism.unwrap_or_default(),
            }),
            (None, None) if !is_of_promise.contains(&true) => None,
            _ => {
                let remedy = "use both, such as slice = \"2ms\" and period = \"10ms\"";
                return Err(Explanation::new("a promise needs a slice and a period", remedy));
            }
        };
        let desired = Desired { promise, weight: self.weight, cap_percent: self.cap, paused: false };
        let checked = terms::check(&desired);
        checked.map_err(|problem| Explanation::new(problem.detail, problem.remedy.unwrap_or_default()))?;
        Ok(desired)
    }
}

fn unreadable(error: &toml::de::Error) -> Explanation {
    let keys = "use the keys slice, period, cpus, gang, limit, mechanism, weight and cap";
    Explanation::new(error.message().to_string(), keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_desired_state_with_the_values_of_the_commands() {
        let text = r#"
            slice = "2ms"
            period = "10ms"
            cpus = 2
            gang = true
            limit = "hard"
            mechanism = "fifo"
            weight = 200
            cap = 150
        "#;
        let desired = Label::parse(text).unwrap().desired().unwrap();
        let promise = Promise {
            slice_ns: 2_000_000,
            period_ns: 10_000_000,
            cpus: 2,
            gang: true,
            limit: Limit::Hard,
            mechanism: Mechanism::Fifo,
        };
        let whole = Desired { promise: Some(promise), weight: Some(200), cap_percent: Some(150), paused: false };
        assert_eq!(desired, whole);
        let pairs = [("slice", "2ms"), ("period", "10ms"), ("cpus", "2"), ("gang", "true"), ("limit", "hard")];
        let further = [("mechanism", "fifo"), ("weight", "200"), ("cap", "150")];
        assert_eq!(Label::of_pairs(pairs.into_iter().chain(further)).unwrap().desired(), Ok(whole));
        assert!(Label::parse("").unwrap().desired().unwrap().is_empty());
    }

    #[test]
    fn a_wrong_label_has_a_reason_and_a_remedy() {
        let of = |text: &str| Label::parse(text).and_then(|label| label.desired());
        for (text, words) in [
            ("slice = 2", "expected a string"),
            ("wieght = 2", "unknown field `wieght`"),
            ("weight = -2", "invalid value"),
            ("slice = \"2ms\"", "needs a slice and a period"),
            ("cpus = 2", "needs a slice and a period"),
            ("slice = \"2\"\nperiod = \"10ms\"", "not a length of time"),
            ("slice = \"20ms\"\nperiod = \"10ms\"", "exceeds the time"),
            ("weight = 0", "the weight is out of range"),
            ("slice = ", "string values must be quoted"),
        ] {
            let wrong = of(text).unwrap_err();
            assert!(wrong.reason.contains(words) && !wrong.remedy.is_empty(), "{text}: {wrong}");
        }
    }
}
