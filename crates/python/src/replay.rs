//! [`Options`]: the options of a run, as a command or an expression that repeats the run.

use std::fmt::Write;

/// The options of a run.
pub(crate) struct Options<'o> {
    pub(crate) policy: &'o str,
    /// Whether the policy is registered. Otherwise, its name is that of a class in Python.
    pub(crate) is_registered: bool,
    /// Settings of the policy: `NAME=VALUE`.
    pub(crate) knobs: &'o [String],
    pub(crate) guest_policy: Option<&'o str>,
    /// Settings of the guests' policy: `NAME=VALUE`.
    pub(crate) guest_knobs: &'o [String],
    pub(crate) seed: u64,
}

impl Options<'_> {
    /// Returns the command that runs `input`: the options of `tactus sim` for a scenario.
    pub(crate) fn command(&self, input: &str) -> String {
        let mut text = format!("tactus sim {input} --policy {} --seed {}", self.policy, self.seed);
        let mut option = |name: &str, values: &[String]| {
            for value in values {
                // Writing to a string cannot fail.
                let _ = write!(text, " --{name} {}", quoted(value));
            }
        };
        option("knob", self.knobs);
        option("guest-policy", &self.guest_policy.map(str::to_string).into_iter().collect::<Vec<_>>());
        option("guest-knob", self.guest_knobs);
        text
    }

    /// Returns the expression that runs the scenario `scenario` in Python.
    pub(crate) fn expression(&self) -> String {
        let policy = if self.is_registered { format!("{:?}", self.policy) } else { self.policy.to_string() };
        let mut text = format!("tactus_sched.run(scenario, {policy}, seed={}", self.seed);
        let mut values = |name: &str, settings: &[String]| {
            if !settings.is_empty() {
                let pairs = settings.iter().filter_map(|setting| setting.split_once('='));
                let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name:?}: {value:?}")).collect();
                let _ = write!(text, ", {name}={{{}}}", pairs.join(", "));
            }
        };
        values("knobs", self.knobs);
        values("guest_knobs", self.guest_knobs);
        if let Some(policy) = self.guest_policy {
            let _ = write!(text, ", guest_policy={policy:?}");
        }
        text + ")"
    }
}

/// Returns `word`, quoted for a shell if necessary.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
