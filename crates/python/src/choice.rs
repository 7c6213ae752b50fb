//! [`Chosen`]: the policies and the scenario of a run, as the command chooses them.

use crate::failure::{input_error, wrong};
use crate::made::{Failure, made};
use crate::scenario::{Form, PyScenario};
use input::knobs::KnobSetting;
use input::problem::Problems;
use pyo3::prelude::*;
use run::{Choice, Placement};
use scenario::Scenario;
use std::sync::Arc;

/// The policies and the scenario of a run.
pub(crate) struct Chosen {
    /// The scenario; for a partitioned task set, with each task on its CPU.
    pub(crate) scenario: Arc<Scenario>,
    /// Policy of the hosts.
    pub(crate) choice: Choice,
    /// Policy of all guests, in place of their own.
    pub(crate) guests: Option<Choice>,
    /// Failure of a policy in Python. `None`: the policy is registered.
    pub(crate) failure: Option<Failure>,
}

/// A policy's settings as the caller wrote them: `NAME=VALUE`.
fn settings(knobs: &[String]) -> Result<Vec<KnobSetting>, Problems> {
    knobs.iter().map(|text| text.parse()).collect()
}

impl Chosen {
    /// Chooses `policy`: the name of a policy, a class derived from `tactus_sched.Policy`, or the policy of the
    /// scenario if it is `None`.
    pub(crate) fn new(
        asked: &PyScenario,
        policy: Option<&Bound<'_, PyAny>>,
        knobs: &[String],
        guests: Option<&str>,
        guest_knobs: &[String],
        py: Python<'_>,
    ) -> PyResult<Chosen> {
        let raised = |why: Problems| input_error(py, &why);
        let scenario = Arc::clone(&asked.scenario);
        let guest_knobs = settings(guest_knobs).map_err(raised)?;
        if guests.is_none() && !guest_knobs.is_empty() {
            return Err(wrong(py, "guest_knobs are of a policy that is not named", "add guest_policy"));
        }
        let guests = run::choose_for_guests(scenario.guests.len(), guests, &guest_knobs).map_err(raised)?;
        let name = match policy {
            None => None,
            Some(policy) => match policy.extract::<String>() {
                Ok(name) => Some(name),
                Err(_) if !knobs.is_empty() => {
                    let remedy = "give the values to the constructor: policy=lambda: MyPolicy(3)";
                    return Err(wrong(py, "a policy in Python has no knobs", remedy));
                }
                Err(_) if matches!(asked.form, Form::Tasks { is_partitioned: true, .. }) => {
                    let remedy = "use partitioned=False, or a registered policy";
                    return Err(wrong(py, "a policy in Python does not assign tasks to CPUs", remedy));
                }
                Err(_) => {
                    let (choice, failure) = made(policy)?;
                    return Ok(Chosen { scenario, choice, guests, failure: Some(failure) });
                }
            },
        };
        let of_registry = || {
            let names: Vec<String> = name.into_iter().collect();
            let settings = settings(knobs)?;
            let Form::Tasks { is_partitioned, .. } = asked.form else {
                return Ok((run::choose(&scenario, &names, &settings)?.remove(0), Arc::clone(&scenario)));
            };
            let placement = if is_partitioned { Placement::Partitioned } else { Placement::Free };
            let choice = run::choose_for_tasks(&scenario, &names, &settings, placement)?.remove(0);
            let placed = match placement {
                Placement::Partitioned => run::partition(&scenario, &choice)?.into(),
                Placement::Free => Arc::clone(&scenario),
            };
            Ok((choice, placed))
        };
        let (choice, scenario) = of_registry().map_err(raised)?;
        Ok(Chosen { scenario, choice, guests, failure: None })
    }
}

/// Raises an `InputError` if `scenario` cannot be run under `policy` with `knobs`.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    scenario: &Bound<'_, PyScenario>,
    policy: Option<Bound<'_, PyAny>>,
    knobs: Vec<String>,
) -> PyResult<()> {
    Chosen::new(scenario.get(), policy.as_ref(), &knobs, None, &[], py).map(drop)
}
