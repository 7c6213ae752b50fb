//! [`simulate`]: runs of a scenario under one or several policies.

use crate::trace_text::TraceText;
use input::files::Files;
use input::knobs::KnobSetting;
use input::problem::{Problem, Problems, quoted};
use report::{Report, RunDescription, Runs};
use run::{Choice, Observers, Progress, Run};
use scenario::Scenario;
use sched::time::SPAN_MAX;
use sched::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace::svg::{AlignedWorlds, Picture, aligned_worlds};
use trace::{WorldTimeline, WorldWatch};

/// Maximum number of rows of a picture.
const ROWS_MOST: usize = 64;
/// Number of columns for which the part of a run is chosen that a picture shows by default.
const COLUMNS: u64 = 100;

/// A request for runs.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Name of the file of the scenario, which errors contain.
    pub name: String,
    /// The scenario: TOML as in `docs/scenarios.md`.
    pub scenario: String,
    /// The files to which the scenario refers, by their paths relative to the scenario.
    pub files: BTreeMap<String, String>,
    /// The policies, one run each; empty: the policy of the scenario.
    pub policies: Vec<String>,
    /// Settings of the policies, `NAME=VALUE` or `POLICY.NAME=VALUE`.
    pub knobs: Vec<String>,
    /// Seed of the random numbers; by default that of the scenario, or 0.
    pub seed: Option<u64>,
    /// Length of the run; by default that of the scenario. Unit: ns.
    pub length_ns: Option<u64>,
    /// The picture of each run. By default, nothing is drawn.
    pub picture: Option<Drawing>,
    /// Whether the trace of each run is returned.
    pub trace: bool,
}

/// A picture of a part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Drawing {
    /// The first instant; by default the start of the run. Unit: ns.
    pub from_ns: u64,
    /// The instant behind the last; by default the end of the most informative part. Unit: ns.
    pub to_ns: Option<u64>,
    /// Width; by default 1100. Unit: pixels.
    pub width: Option<u32>,
}

/// The results of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// The reports, as the text that `tactus sim --json` prints.
    pub json: String,
    /// A picture of each run as an SVG document, if pictures were requested. All pictures have one time axis.
    pub pictures: Vec<String>,
    /// Left edge of the plots of the pictures, and the width of the plots. Unit: pixels.
    pub plot_px: [f64; 2],
    /// The trace of each run, in the format of `docs/reading-a-trace.md`, if traces were requested.
    pub traces: Vec<String>,
    /// The part of the run that the pictures show. Unit: ns.
    pub shown_ns: [u64; 2],
    /// The length of the run. Unit: ns.
    pub length_ns: u64,
}

/// Runs a request. Calls `progressed` from time to time with the progress of each run.
pub(crate) fn simulate(request: &Request, mut progressed: impl FnMut(Progress)) -> Result<Simulated, Problems> {
    let mut scenario = read(request)?;
    scenario.length = length(request, &scenario)?;
    let choices = choices(request, &scenario)?;
    let run = RunDescription::of(&scenario);
    let shown = request.picture.map(|drawing| drawing.part_of(&run)).transpose()?;
    let seed = request.seed.or(scenario.seed).unwrap_or(0);
    let scenario = Arc::new(scenario);
    let (mut reports, mut worlds, mut traces) = (Vec::new(), Vec::new(), Vec::new());
    for choice in choices {
        let run = Run { seed, ..Run::new(Arc::clone(&scenario), choice) };
        let header = run.header()?;
        let mut watch = shown.map(|(_, to)| WorldWatch::new(&header, to));
        let mut trace = request.trace.then(|| TraceText::new(&header));
        let mut observers = Observers::none();
        observers.extend(watch.as_mut());
        observers.extend(trace.as_mut());
        let goes_on = |progress| {
            progressed(progress);
            true
        };
        let outcome = run.play_while(observers, goes_on)?.expect("nothing cancels the run");
        reports.push(Report::of(outcome));
        worlds.extend(watch.map(|watch| watch.finish().expect("a run does not contradict itself")));
        traces.extend(trace.map(TraceText::finish));
    }
    let json = report::json(&Runs { simulated: true, runs: &reports }).expect("reports are JSON");
    let part = shown.unwrap_or_default();
    let drawn = draw(&worlds, &reports, part, request.picture.and_then(|drawing| drawing.width));
    Ok(Simulated {
        json,
        pictures: drawn.documents,
        plot_px: [drawn.plot_left, drawn.plot_width],
        traces,
        shown_ns: [part.0.as_ns(), part.1.as_ns()],
        length_ns: run.length.as_ns(),
    })
}

/// Reads the scenario of a request.
fn read(request: &Request) -> Result<Scenario, Problems> {
    let name = if request.name.is_empty() { "scenario.toml" } else { &request.name };
    let files: BTreeMap<String, Vec<u8>> =
        request.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
    let files: Arc<dyn Files> = Arc::new(files);
    Scenario::with_files(name, request.scenario.clone().into_bytes(), files)
}

impl Drawing {
    /// Returns the first instant of the picture of a run, and the instant behind the last.
    fn part_of(self, run: &RunDescription) -> Result<(Instant, Instant), Problem> {
        let from = Instant::at_ns(self.from_ns);
        let to = self.to_ns.map_or(from.saturating_add(run.telling_length(COLUMNS)), Instant::at_ns);
        let to = to.min(Instant::ZERO + run.length);
        if from >= to {
            let reason = format!("a picture from {from} to {to} shows nothing");
            return Err(Problem::new(reason).help(format!("use a part of the {} of the run", run.length)));
        }
        Ok((from, to))
    }
}

/// Returns the policies of a request with their knobs.
fn choices(request: &Request, scenario: &Scenario) -> Result<Vec<Choice>, Problems> {
    let settings: Vec<KnobSetting> = request.knobs.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (own, shared): (Vec<KnobSetting>, Vec<KnobSetting>) =
        settings.into_iter().partition(|setting| setting.name.contains('.'));
    let mut choices = run::choose(scenario, &request.policies, &shared)?;
    let is_run = |setting: &&KnobSetting| {
        let policy = setting.name.split('.').next();
        choices.iter().any(|choice| Some(choice.name()) == policy)
    };
    if let Some(setting) = own.iter().find(|setting| !is_run(setting)) {
        let reason = format!("the knob {} is of a policy that does not run", quoted(&setting.name));
        return Err(Problem::new(reason).help("add the policy, or remove the knob").into());
    }
    for choice in &mut choices {
        let name = choice.name().to_string();
        let knobs = run::policy(&name)?.knobs;
        let is_supported = |setting: &&KnobSetting| knobs.iter().any(|knob| knob.name == setting.name);
        let mut all: Vec<KnobSetting> = shared.iter().filter(is_supported).cloned().collect();
        all.extend(own.iter().filter_map(|setting| {
            let (policy, knob) = setting.name.split_once('.')?;
            (policy == name).then(|| KnobSetting { name: knob.to_string(), ..setting.clone() })
        }));
        *choice = run::choose(scenario, &[name], &all)?.remove(0);
    }
    Ok(choices)
}

/// Returns the length of the runs of a request.
fn length(request: &Request, scenario: &Scenario) -> Result<Nanos, Problem> {
    let length = request.length_ns.map_or(scenario.length, Nanos::ns);
    if length <= scenario.warm_up || length > SPAN_MAX {
        let least = scenario.warm_up.saturating_add(Nanos::ns(1));
        let reason = format!("a run of {length} is too {}", if length > SPAN_MAX { "long" } else { "short" });
        return Err(Problem::new(reason).help(format!("use a length from {least} up to {SPAN_MAX}")));
    }
    Ok(length)
}

/// Draws the part from `from` to `to` of each run.
fn draw(
    worlds: &[WorldTimeline],
    reports: &[Report],
    (from, to): (Instant, Instant),
    width: Option<u32>,
) -> AlignedWorlds {
    let pictures = worlds.iter().zip(reports).map(|(world, report)| {
        let whole = Picture::whole_world(world, &report.policy);
        let width = width.unwrap_or(whole.width);
        (Picture { from, to, width, rows_most: ROWS_MOST, ..whole }, world)
    });
    aligned_worlds(&pictures.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "name = \"two\"\ncpus = 1\nlength = \"100s\"\n\n[[task]]\nname = \"a\"\nworkload = \"hog\"\n\n[[task]]\nname = \"b\"\nworkload = \"hog\"\n";

    fn request(policies: &[&str]) -> Request {
        let policies = policies.iter().map(ToString::to_string).collect();
        Request { scenario: SCENARIO.to_string(), policies, ..Request::default() }
    }

    #[test]
    fn each_policy_has_a_run_and_a_picture_of_the_window() {
        let picture = Some(Drawing { to_ns: Some(1 << 50), ..Drawing::default() });
        let mut seen = 0;
        let done =
            simulate(&Request { picture, trace: true, ..request(&["eevdf", "round-robin"]) }, |_| seen += 1).unwrap();
        let runs: serde_json::Value = serde_json::from_str(&done.json).unwrap();
        assert_eq!([&runs["runs"][0]["policy"], &runs["runs"][1]["policy"]], ["eevdf", "round-robin"]);
        assert!(done.pictures.len() == 2 && done.pictures.iter().all(|svg| svg.starts_with("<svg")));
        assert_eq!((done.length_ns, done.shown_ns), (100_000_000_000, [0, 100_000_000_000]));
        let [left, width] = done.plot_px;
        let axis = format!("L{} ", left + width);
        assert!(done.pictures.iter().all(|svg| svg.contains(&axis)), "the axes end at {}", left + width);
        assert!(done.traces.len() == 2 && done.traces[1].contains("round-robin"));
        let short = simulate(&Request { length_ns: Some(7_000_000), ..request(&["eevdf"]) }, |_| {}).unwrap();
        assert_eq!((short.length_ns, short.pictures.len(), short.traces.len()), (7_000_000, 0, 0));
        assert!(seen >= 2);
    }

    #[test]
    fn a_knob_is_of_one_policy_or_of_all_that_have_it() {
        let knobs = |knobs: &[&str]| {
            let knobs = knobs.iter().map(ToString::to_string).collect();
            let done = simulate(&Request { knobs, ..request(&["cfs", "eevdf"]) }, |_| {});
            let runs = done.map(|done| serde_json::from_str::<serde_json::Value>(&done.json).unwrap());
            runs.map(|runs| [0, 1].map(|at| runs["runs"][at]["knobs"]["tick"].as_str().unwrap().to_string()))
        };
        assert_eq!(knobs(&["tick=2ms"]).unwrap(), ["2ms", "2ms"]);
        assert_eq!(knobs(&["tick=2ms", "eevdf.tick=5ms"]).unwrap(), ["2ms", "5ms"]);
        let refused = knobs(&["edf.rest=renew"]).unwrap_err();
        assert!(refused.to_string().contains("does not run"), "{refused}");
        assert!(knobs(&["eevdf.tack=5ms"]).unwrap_err().to_string().contains("no knob"));
    }

    #[test]
    fn an_empty_window_and_an_unknown_policy_are_refused() {
        let picture = Some(Drawing { from_ns: 5, to_ns: Some(5), width: None });
        let refused = simulate(&Request { picture, ..request(&["eevdf"]) }, |_| {}).unwrap_err();
        assert!(refused.to_string().contains("shows nothing"), "{refused}");
        for length in [0, u64::MAX] {
            let refused = simulate(&Request { length_ns: Some(length), ..request(&["eevdf"]) }, |_| {}).unwrap_err();
            assert!(refused.to_string().contains("a run of "), "{refused}");
        }
        let refused = simulate(&request(&["eevfd"]), |_| {}).unwrap_err();
        assert!(refused.to_string().contains("eevdf"), "{refused}");
    }
}
