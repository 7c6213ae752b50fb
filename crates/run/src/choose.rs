//! Chooses the policies and knobs of a scenario's runs: those of the scenario, or those that the caller requests.

use input::knobs::{KnobSetting, apply_knobs};
use input::problem::{Problem, Problems, Wrong, quoted, right_instead};
use scenario::{GuestSpec, Scenario};
use sched::{Descriptor, Knob, Knobs, PolicySource, Unit};
use std::sync::Arc;

/// Default policy of guests: the default of Linux since 6.6.
const GUEST_POLICY: &str = "eevdf";

/// A policy and its knobs, owned by a run.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The policy: a registered policy, or a policy made at run time ([`MadePolicy`](sched::MadePolicy)).
    pub policy: Arc<dyn PolicySource>,
    /// Knobs of the policy.
    pub knobs: Knobs,
}

impl Choice {
    /// Creates a choice of a registered policy with its `knobs`.
    #[must_use]
    pub fn new(policy: &Descriptor, knobs: Knobs) -> Choice {
        Choice { policy: Arc::new(*policy), knobs }
    }

    /// Creates a choice of a policy made at run time, which has no knobs.
    #[must_use]
    pub fn made(policy: impl PolicySource + 'static) -> Choice {
        Choice { policy: Arc::new(policy), knobs: Knobs::default() }
    }

    /// Returns the name of the policy.
    #[must_use]
    pub fn name(&self) -> &str {
        self.policy.name()
    }
}

/// Chooses a registered policy with its knobs at their defaults.
impl From<&Descriptor> for Choice {
    fn from(policy: &Descriptor) -> Choice {
        Choice::new(policy, policy.defaults())
    }
}

/// The placement of the tasks of a task set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// The policy places each task.
    Free,
    /// Each task is pinned to one CPU.
    Partitioned,
}

/// Returns the policy with this `name`.
///
/// # Errors
/// No policy has this name. The problem names the most similar policy, if any, and lists all policies.
pub fn policy(name: &str) -> Result<&'static Descriptor, Problems> {
    policies::find(name).ok_or_else(|| {
        let names: Vec<&str> = policies::ALL.iter().map(|policy| policy.name).collect();
        let message = format!("there is no policy {}", quoted(name));
        Wrong::new(message, "unknown policy", right_instead(name, &names)).anywhere(None).into()
    })
}

/// Returns the policies with these `names`, or the scenario's own policy if `names` is empty. Each policy receives the
/// knob values that the scenario sets for it, then the `settings` of knobs that it supports. At least one of the
/// policies must support each setting.
///
/// # Errors
/// A policy or knob does not exist, a value is out of a knob's range, or neither `names` nor the scenario names a
/// policy.
pub fn choose(scenario: &Scenario, names: &[String], settings: &[KnobSetting]) -> Result<Vec<Choice>, Problems> {
    let policies = if names.is_empty() {
        let Some(chosen) = &scenario.policy else {
            let names: Vec<&str> = policies::ALL.iter().map(|policy| policy.name).collect();
            let problem = Problem::new("neither the scenario nor the command line names a policy");
            return Err(problem.help(format!("use --policy with one of {}", names.join(", "))).into());
        };
        vec![chosen.find(policies::ALL, scenario)?]
    } else {
        names.iter().map(|name| policy(name.trim())).collect::<Result<Vec<_>, _>>()?
    };
    let has = |policy: &Descriptor, setting: &KnobSetting| policy.knobs.iter().any(|knob| knob.name == setting.name);
    let mut choices = Vec::with_capacity(policies.len());
    for &policy in &policies {
        let own = scenario.policy.iter().filter(|chosen| chosen.name == policy.name);
        let mut all: Vec<KnobSetting> = own.flat_map(|chosen| chosen.knobs.iter().cloned()).collect();
        // A setting that no policy supports is passed to every policy, so that the first policy reports it as an error.
        let mine =
            settings.iter().filter(|setting| has(policy, setting) || !policies.iter().any(|other| has(other, setting)));
        all.extend(mine.cloned());
        choices.push(Choice::new(policy, apply_knobs(policy, &all)?));
    }
    Ok(choices)
}

/// Returns the policy of a VM's guest: `instead` if given, else the guest's policy in the scenario, else the default
/// policy of current Linux.
///
/// # Errors
/// The policy or its knob does not exist, or a value is out of a knob's range.
pub(crate) fn of_guest(scenario: &Scenario, guest: &GuestSpec, instead: Option<&Choice>) -> Result<Choice, Problems> {
    if let Some(choice) = instead {
        return Ok(choice.clone());
    }
    let Some(chosen) = &guest.policy else {
        return Ok(policy(GUEST_POLICY)?.into());
    };
    let policy = chosen.find(policies::ALL, scenario)?;
    Ok(Choice::new(policy, apply_knobs(policy, &chosen.knobs)?))
}

/// Returns the policy with this `name` and `settings`, to replace the policies of all guests of a scenario. `guests` is
/// the number of guests. Returns `None` if `name` is `None`.
///
/// # Errors
/// The policy or its knob does not exist, a value is out of a knob's range, or the scenario has no guests.
pub fn choose_for_guests(
    guests: usize,
    name: Option<&str>,
    settings: &[KnobSetting],
) -> Result<Option<Choice>, Problems> {
    let Some(name) = name else { return Ok(None) };
    let policy = policy(name.trim())?;
    let knobs = apply_knobs(policy, settings)?;
    if guests == 0 {
        let problem = Problem::new("no VM of this scenario has a guest");
        return Err(problem.help("add such a VM, or leave --guest-policy out").into());
    }
    Ok(Some(Choice::new(policy, knobs)))
}

/// Returns the policies of [`choose`] for a task set. Tasks run their jobs to completion, so policies that can switch
/// off the enforcement of slices do so, unless `settings` sets the knob `enforce`.
///
/// # Errors
/// The errors of [`choose`], or a policy cannot place the tasks as requested.
pub fn choose_for_tasks(
    scenario: &Scenario,
    names: &[String],
    settings: &[KnobSetting],
    placement: Placement,
) -> Result<Vec<Choice>, Problems> {
    let offers = |knob: &Knob, name: &str, word: &str| match knob.unit {
        Unit::Choice(words) => knob.name == name && words.contains(&word),
        _ => false,
    };
    let has_one = |choice: &Choice, name, word| choice.knobs.iter().any(|(knob, _)| offers(knob, name, word));
    let mut chosen = choose(scenario, names, settings)?;
    let mut implied = vec![("enforce", "none")];
    if placement == Placement::Partitioned {
        if let Some(unable) = chosen.iter().find(|choice| !has_one(choice, "placement", "partitioned")) {
            let able: Vec<&str> = policies::ALL
                .iter()
                .filter(|policy| policy.knobs.iter().any(|knob| offers(knob, "placement", "partitioned")))
                .map(|policy| policy.name)
                .collect();
            let message = format!("the policy `{}` does not partition", unable.name());
            return Err(Problem::new(message).help(format!("use one of {}", able.join(", "))).into());
        }
        implied.push(("placement", "partitioned"));
    }
    for choice in &mut chosen {
        for &(name, word) in &implied {
            let is_asked = settings.iter().any(|setting| setting.name == name);
            if !is_asked && has_one(choice, name, word) {
                choice.knobs.set_word(name, word).expect("the knob offers this word");
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_of_guests_needs_guests_and_the_knobs_it_has() {
        let settings = |text: &str| vec![text.parse::<KnobSetting>().expect("it is a setting")];
        assert!(choose_for_guests(0, None, &[]).expect("nothing is asked for").is_none());
        let chosen =
            choose_for_guests(2, Some("edf"), &settings("enforce=hard")).expect("it exists").expect("it was named");
        assert_eq!((chosen.name(), chosen.knobs.get("enforce")), ("edf", 1));
        for (guests, name, knob, right) in [
            (0, "edf", "enforce=hard", "add such a VM"),
            (1, "edff", "enforce=hard", "did you mean `edf`"),
            (1, "edf", "enforc=hard", "did you mean `enforce`"),
        ] {
            let refused = choose_for_guests(guests, Some(name), &settings(knob)).expect_err("it is wrong").to_string();
            assert!(refused.contains(right), "{refused}");
        }
    }
}
