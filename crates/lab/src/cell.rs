//! [`Cell`]: one run of an experiment, at one point with one seed.

use crate::compute;
use crate::disk::Disk;
use crate::experiment::{Experiment, Extent, Point, shown};
use crate::problem::Problem;
use crate::results::Measured;
use indexmap::IndexMap;
use input::problem::Problems;
use measure::XenMon;
use minijinja::Value;
use minijinja::value::Serde;
use report::{Report, XenMonReport};
use run::{Choice, Observers, Progress, Run};
use scenario::Scenario;
use sched::{Instant, Nanos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One run.
#[derive(Clone, Debug)]
pub struct Cell<'e> {
    /// Experiment of the run.
    pub experiment: &'e Experiment,
    /// Point of the run.
    pub point: Point,
    /// Seed of the run: 1, 2, ….
    pub seed: u32,
    /// Text of the scenario, rendered from the experiment's template.
    pub text: String,
    /// Simulated length of the run.
    pub length: Nanos,
    /// Variables of the template and the expressions: constants, axes and the seed.
    variables: Point,
}

impl<'e> Cell<'e> {
    /// Returns the run of `experiment` at `point` with `seed`.
    ///
    /// # Errors
    /// The template cannot be rendered, or its text is not a valid scenario.
    pub fn new(experiment: &'e Experiment, extent: Extent, point: &Point, seed: u32) -> Result<Cell<'e>, Problem> {
        let mut variables = experiment.constants(extent);
        variables.extend(point.clone());
        variables.insert("seed".to_string(), seed.into());
        let text = compute::environment().render_named_str(
            &experiment.scenario,
            &experiment.template,
            Value::from(Serde(&variables)),
        );
        let text = text.map_err(|why| {
            let template = experiment.path.parent().and_then(|it| it.parent()).unwrap_or(&experiment.path);
            let path = template.join("scenarios").join(&experiment.scenario);
            let what = format!("{why}, with {}", shown(&variables));
            Problem::wrong(&path, what, "a template that `with`, the sweep and the points fill in")
        })?;
        let text = match experiment.costs_percent {
            Some(percent) => with_assumed_costs(&text, percent).map_err(|why| {
                let right = "a scenario in TOML with the costs of a machine";
                Problem::wrong(&experiment.path, format!("the costs cannot be scaled: {why}"), right)
            })?,
            None => text,
        };
        let mut cell = Cell { experiment, point: point.clone(), seed, text, length: Nanos::ZERO, variables };
        cell.length = cell.scenario()?.length;
        Ok(cell)
    }

    pub(crate) fn scenario(&self) -> Result<Scenario, Problem> {
        let name = format!("{} ({})", self.experiment.scenario, shown(&self.point));
        let bytes = self.text.clone().into_bytes();
        Scenario::with_files(&name, bytes, Arc::new(Disk)).map_err(|why| self.unplayable(&why))
    }

    pub(crate) fn unplayable(&self, why: &Problems) -> Problem {
        let of = format!("{} at {} with seed {}", self.experiment.path.display(), shown(&self.point), self.seed);
        Problem::Scenario { of, why: why.report() }
    }

    /// Returns all inputs that determine the outcome of the run, except the sources.
    #[must_use]
    pub fn inputs(&self) -> String {
        let Experiment { metrics, xenmon, may_refuse, .. } = self.experiment;
        let metrics = serde_json::to_string(metrics).expect("texts can be JSON");
        // The text of the scenario need not contain all variables, but expressions can read every variable.
        let variables = serde_json::to_string(&self.variables).expect("texts and numbers can be JSON");
        let counts = self.experiment.counts.as_ref().map_or(String::new(), |counts| format!("\n{counts}"));
        format!("{}\n{xenmon:?}\n{may_refuse}\n{metrics}\n{variables}{counts}", self.text)
    }

    /// Runs the cell while `goes_on` returns true, and evaluates its metrics. `None`: the run was cancelled.
    ///
    /// # Errors
    /// The scenario cannot be run, or the evaluation of an expression fails.
    pub fn play(&self, goes_on: impl FnMut(Progress) -> bool) -> Result<Option<Measured>, Problem> {
        let outcome = self.report(self.scenario()?, goes_on);
        let (report, refused) = match outcome {
            Ok(None) => return Ok(None),
            Ok(report) => (report, None),
            Err(why) if self.experiment.may_refuse => (None, Some(why)),
            Err(why) => return Err(self.unplayable(&why)),
        };
        self.measure(report.as_ref(), refused.map(|why| why.to_string()), BTreeMap::new()).map(Some)
    }

    /// Returns the run of `scenario`, the parsed text of this cell, under `choice`.
    pub(crate) fn run(&self, scenario: Scenario, choice: Choice) -> Run {
        Run { seed: u64::from(self.seed), ..Run::new(scenario, choice) }
    }

    fn report(&self, scenario: Scenario, goes_on: impl FnMut(Progress) -> bool) -> Result<Option<Report>, Problems> {
        let choice = run::choose(&scenario, &[], &[])?.remove(0);
        let run = self.run(scenario, choice);
        let Some(from) = &self.experiment.xenmon else {
            return Ok(run.play_while(Observers::none(), goes_on)?.map(Report::of));
        };
        let warm_up = input::duration::length(from)?;
        let mut monitor = XenMon::new(Instant::ZERO + warm_up);
        let played = run.play_while(Observers::none().world(&mut monitor), goes_on)?;
        let Some(mut report) = played.map(Report::of) else { return Ok(None) };
        report.xenmon = Some(XenMonReport::new(&monitor, &run.header()?, warm_up, run.scenario.length));
        Ok(Some(report))
    }

    /// Returns the failure of a live run, with its point and seed.
    pub(crate) fn failed(&self, why: String) -> Problem {
        let of = format!("{} at {} with seed {}", self.experiment.path.display(), shown(&self.point), self.seed);
        Problem::Live { of, why }
    }

    /// Evaluates the metrics over `report`, the reason of a refusal, and `further` variables.
    pub(crate) fn measure(
        &self,
        report: Option<&Report>,
        refused: Option<String>,
        further: BTreeMap<&'static str, Value>,
    ) -> Result<Measured, Problem> {
        let context = self.context(report, refused, further);
        let evaluated = self.experiment.metrics.iter().map(|(name, expression)| {
            let value = self.evaluate(name, expression, &context)?;
            let value = serde_json::to_value(&value).map_err(|why| self.not_evaluated(name, &why.to_string()))?;
            Ok((name.clone(), value))
        });
        evaluated.collect()
    }

    /// Returns the variables of expressions over `report`, the reason of a refusal, and `further` variables.
    pub(crate) fn context(
        &self,
        report: Option<&Report>,
        refused: Option<String>,
        further: BTreeMap<&'static str, Value>,
    ) -> Value {
        let mut context: BTreeMap<&str, Value> = report.map(views).unwrap_or_default();
        context.extend(further);
        context.insert("refused", Value::from(refused.is_some()));
        context.insert("why", Value::from(refused.unwrap_or_default()));
        for (axis, value) in &self.variables {
            context.insert(axis, Value::from(Serde(value)));
        }
        Value::from(context)
    }

    /// Evaluates `expression`, the metric `name`.
    pub(crate) fn evaluate(&self, name: &str, expression: &str, context: &Value) -> Result<Value, Problem> {
        evaluate(expression, context).map_err(|why| self.not_evaluated(name, &why))
    }

    fn not_evaluated(&self, name: &str, why: &str) -> Problem {
        let what = format!("the metric `{name}` at {} with seed {}: {why}", shown(&self.point), self.seed);
        let right = "an expression over `report` and its views (docs/experiments.md)";
        Problem::wrong(&self.experiment.path, what, right)
    }
}

/// Returns the scenario `text` in which all assumed costs of its machine are scaled to `percent`. Costs that the
/// scenario itself has, and the costs of a scenario without a machine, do not change.
fn with_assumed_costs(text: &str, percent: f64) -> Result<String, String> {
    let mut scenario: toml::Table = text.parse().map_err(|why| format!("{why}"))?;
    let mut costs = match scenario.get("costs") {
        None => return Ok(text.to_string()),
        Some(toml::Value::String(name)) => toml::Table::from_iter([("machine".to_string(), name.as_str().into())]),
        Some(toml::Value::Table(costs)) => costs.clone(),
        Some(other) => return Err(format!("{other} are no costs")),
    };
    let Some(name) = costs.get("machine").and_then(toml::Value::as_str) else { return Ok(text.to_string()) };
    let machine = scenario::costs::machine(name).map_err(|why| why.to_string())?;
    for (key, cost) in machine.assumed_costs() {
        let scaled = (cost.as_ns() as f64 * percent / 100.0).round();
        costs.entry(key).or_insert_with(|| format!("{scaled}ns").into());
    }
    scenario.insert("costs".to_string(), costs.into());
    toml::to_string(&scenario).map_err(|why| format!("{why}"))
}

/// Evaluates `expression`. An undefined value is an error.
fn evaluate(expression: &str, context: &Value) -> Result<Value, String> {
    let environment = compute::environment();
    match environment.compile_expression(expression).and_then(|it| it.eval(context.clone())) {
        Ok(value) if value.is_undefined() => Err("undefined value".to_string()),
        Ok(value) => Ok(value),
        Err(why) => Err(why.to_string()),
    }
}

/// Evaluates `metrics`, expressions by name, over `report`, in the language of experiments.
///
/// # Errors
/// The first expression that is invalid or undefined: its name and the reason.
pub fn metrics(report: &Report, metrics: &IndexMap<String, String>) -> Result<Measured, String> {
    let context = Value::from(views(report));
    let evaluated = metrics.iter().map(|(name, expression)| {
        let value =
            evaluate(expression, &context).and_then(|it| serde_json::to_value(&it).map_err(|why| why.to_string()));
        Ok((name.clone(), value.map_err(|why| format!("the metric `{name}`: {why}"))?))
    });
    evaluated.collect()
}

/// Returns the variables of a run for expressions. `report` is the whole report. `tasks`, `groups`, `apps`, `guests`,
/// `domains` and `samples` are maps by name. Each guest has `tasks`, `apps`, `coordination` and `total`.
fn views(report: &Report) -> BTreeMap<&'static str, Value> {
    fn named<'r, T: serde::Serialize + 'r>(all: impl Iterator<Item = (&'r String, T)>) -> Value {
        map(all.map(|(name, it)| (name.clone(), Value::from(Serde(it)))))
    }
    fn map(all: impl IntoIterator<Item = (String, Value)>) -> Value {
        Value::from(all.into_iter().collect::<BTreeMap<String, Value>>())
    }
    let mut views = BTreeMap::from([("report", Value::from(Serde(report)))]);
    views.insert("tasks", named(report.entities.iter().map(|it| (&it.name, it))));
    views.insert("groups", named(report.groups.iter().map(|it| (&it.name, it))));
    views.insert("apps", named(report.applications.iter().map(|it| (&it.name, it))));
    let guest = |guest: &report::GuestReport| {
        map([
            ("tasks".to_string(), named(guest.entities.iter().map(|it| (&it.name, it)))),
            ("apps".to_string(), named(guest.applications.iter().map(|it| (&it.name, it)))),
            ("coordination".to_string(), Value::from(Serde(&guest.coordination))),
            ("total".to_string(), Value::from(Serde(&guest.total))),
        ])
    };
    views.insert("guests", map(report.guests.iter().map(|it| (it.name.clone(), guest(it)))));
    let domains = report.xenmon.iter().flat_map(|xenmon| &xenmon.hosts).flat_map(|host| &host.domains);
    views.insert("domains", named(domains.map(|it| (&it.name, it))));
    let sampled = report.samples.iter().flat_map(|samples| &samples.vms);
    views.insert("samples", named(sampled.map(|it| (&it.name, &it.cpu_ns))));
    views
}
