//! Tests of the papers in `papers/`.

use crate::played::suite;
use lab::cell::Cell;
use lab::claim::Check;
use lab::experiment::{Experiment, Extent, Point, SEEDS, shown};
use lab::judge::{Judged, judge, points_read};
use lab::lock::{self, Ledger};
use lab::plot::Figure;
use lab::suite::CHANCE_SEEDS;
use lab::{Paper, Results, result};
use scenario::Scenario;
use std::path::{Path, PathBuf};

/// The directories of the papers.
const KEYS: [&str; 5] = ["bmq", "coordinated-2015", "poris", "vsched-2005", "xen-three-2007"];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers").canonicalize().expect("the repository is there")
}

pub(crate) fn papers() -> Vec<Paper> {
    Paper::all(&directory()).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Returns the claims that a simulator can test: A1 to A8, B1 to B10, B12, B13, C1 to C10, D1 to D8, D10, E1, E2.
fn claims_of(key: &str) -> Vec<String> {
    let named = |letter: &str, numbers: &[u32]| numbers.iter().map(|number| format!("{letter}{number}")).collect();
    match key {
        "coordinated-2015" => named("A", &[1, 2, 3, 4, 5, 6, 7, 8]),
        "vsched-2005" => named("B", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13]),
        "xen-three-2007" => named("C", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        "poris" => named("D", &[1, 2, 3, 4, 5, 6, 7, 8, 10]),
        "bmq" => named("E", &[1, 2]),
        _ => Vec::new(),
    }
}

#[test]
fn every_claim_is_there_once_and_in_its_paper() {
    let papers = papers();
    for paper in &papers {
        assert!(KEYS.contains(&paper.key.as_str()), "{} is no source of claims", paper.key);
        let ids: Vec<&str> = paper.claims.iter().map(|claim| claim.id.as_str()).collect();
        let right = claims_of(&paper.key);
        assert!(ids.iter().all(|id| right.iter().any(|other| other == id)), "{}: {ids:?}", paper.key);
        // The claims in the file have the order of `right`.
        let places: Vec<usize> = ids.iter().filter_map(|id| right.iter().position(|other| other == id)).collect();
        assert!(places.is_sorted(), "{}: {ids:?}", paper.key);
    }
    if measured(&papers).count() == KEYS.len() {
        let count: usize = papers.iter().map(|paper| paper.claims.len()).sum();
        assert_eq!(count, 41);
    }
}

/// Returns the claims that real processes on a host can test. E1 and E2 need a kernel that loads schedulers.
fn live_claims_of(key: &str) -> &'static [&'static str] {
    match key {
        "vsched-2005" => &["B1", "B2", "B3", "B4", "B5", "B6", "B10", "B12"],
        "xen-three-2007" => &["C5", "C8"],
        "poris" => &["D9"],
        "bmq" => &["E1", "E2"],
        _ => &[],
    }
}

#[test]
fn every_live_experiment_is_a_scenario_of_entities_and_tests_a_live_claim() {
    for paper in papers() {
        let Some(part) = &paper.live else {
            assert!(live_claims_of(&paper.key).is_empty(), "{} has no live part", paper.key);
            continue;
        };
        let ids: Vec<&str> = part.claims.iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids, live_claims_of(&paper.key), "{}", part.key);
        for claim in &part.claims {
            for name in claim.check.iter().flat_map(named) {
                let is_it = part.experiments_of(&claim.id).any(|experiment| experiment.name == name);
                assert!(is_it, "{}: {} reads `{name}`, which is no experiment of the claim", part.key, claim.id);
            }
        }
        for experiment in &part.experiments {
            for point in experiment.points(Extent::Usual) {
                let cell =
                    Cell::new(experiment, Extent::Usual, &point, 1).unwrap_or_else(|problem| panic!("{problem}"));
                let scenario = Scenario::from_bytes("live.toml", cell.text.into_bytes()).expect("it was read before");
                scenario.only_entities("a live run").unwrap_or_else(|why| panic!("{}: {why}", experiment.name));
            }
        }
    }
}

#[test]
fn every_claim_rests_on_an_experiment_and_every_experiment_is_of_a_claim() {
    for paper in papers() {
        for claim in &paper.claims {
            assert!(paper.experiments_of(&claim.id).next().is_some(), "{} rests on nothing", claim.id);
            for check in &claim.check {
                for name in named(check) {
                    let is_it = |experiment: &Experiment| experiment.name == name;
                    let claimed = paper.experiments_of(&claim.id).any(is_it);
                    assert!(claimed, "{}: \"{}\" asks for `{name}`, which is not of this claim", claim.id, check.what);
                }
            }
        }
        let unused = paper.experiments.iter().find(|experiment| experiment.claims.is_empty());
        assert!(unused.is_none(), "{}: {:?} is of no claim", paper.key, unused.map(|it| &it.name));
    }
}

/// Returns the experiments that `check` reads: the quoted names after `at(` and `all(`.
fn named(check: &Check) -> Vec<&str> {
    let asks = ["at(", "all("].iter().flat_map(|ask| check.measure.split(ask).skip(1));
    let quoted = asks.filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| "'\"".contains(*c))?;
        rest[1..].split_once(quote).map(|(name, _)| name)
    });
    quoted.collect()
}

/// Every template gives a valid scenario at every point of the usual size. At the size of the paper, it gives a valid
/// scenario with every value of every axis.
#[test]
fn every_point_of_every_experiment_is_a_scenario() {
    for paper in papers() {
        for experiment in &paper.experiments {
            let check = |extent, point: &Point| {
                let cell = Cell::new(experiment, extent, point, 1);
                assert!(cell.is_ok(), "{}: {}", paper.key, cell.err().map(|why| why.to_string()).unwrap_or_default());
            };
            experiment.points(Extent::Usual).iter().for_each(|point| check(Extent::Usual, point));
            let mut seen = Vec::new();
            for point in experiment.points(Extent::Full) {
                let new: Vec<_> = point.iter().map(|(axis, value)| (axis.clone(), value.clone())).collect();
                if new.iter().any(|it| !seen.contains(it)) {
                    check(Extent::Full, &point);
                    seen.extend(new);
                }
            }
        }
    }
}

#[test]
fn the_smoke_set_is_a_part_of_what_is_played() {
    let papers = papers();
    let smoke = suite(&papers, Extent::Smoke).cells().expect("they are scenarios").len();
    let usual = suite(&papers, Extent::Usual).cells().expect("they are scenarios").len();
    assert!(smoke < usual || usual == 0, "{smoke} of {usual}");
    for paper in &papers {
        for experiment in paper.experiments.iter().filter(|experiment| experiment.smoke.is_some()) {
            let (smoke, usual) = (experiment.points(Extent::Smoke), experiment.points(Extent::Usual));
            let (key, name) = (&paper.key, &experiment.name);
            assert!(!smoke.is_empty(), "{key}: no point of {name} is in its smoke set");
            assert!(smoke.iter().all(|point| usual.contains(point)), "{key}: {name}");
        }
    }
}

/// Returns the papers that have recorded results, with these results.
fn measured(papers: &[Paper]) -> impl Iterator<Item = (&Paper, Results)> {
    let path = |paper: &Paper| paper.directory.join("measured.json");
    let recorded = papers.iter().filter(move |paper| path(paper).exists());
    recorded.map(move |paper| {
        (paper, Results::read(&path(paper)).unwrap_or_else(|problem| panic!("{}: {problem}", paper.key)))
    })
}

#[test]
fn what_is_recorded_is_of_the_experiments_that_there_are() {
    let papers = papers();
    for (paper, results) in measured(&papers) {
        let read = points_read(paper, &results, |_| true).unwrap_or_else(|problem| panic!("{problem}"));
        for experiment in &paper.experiments {
            let (key, name) = (&paper.key, &experiment.name);
            let rows = results.experiments.get(name).unwrap_or_else(|| panic!("{key}: {name} is not recorded"));
            let points: Vec<_> = rows.iter().map(|row| row.point.clone()).collect();
            assert_eq!(points, experiment.points(Extent::Usual), "{key}: {name}");
            for (nth, row) in rows.iter().enumerate() {
                let is_judged = read.contains(&(name.clone(), nth)) && row.is_by_chance();
                let usual = experiment.seeds(Extent::Usual) as usize;
                // A record with `--seeds` has the usual number for all points.
                let is_right = [usual, SEEDS as usize].contains(&row.seeds.len())
                    || is_judged && row.seeds.len() == CHANCE_SEEDS as usize;
                assert!(is_right, "{key}: {name} at {} has {} seeds", shown(&row.point), row.seeds.len());
            }
        }
        assert_eq!(results.experiments.len(), paper.experiments.len(), "{}", paper.key);
        assert!(
            Results::seeds(results.experiments.values()).first().is_some_and(|least| *least >= 5),
            "{}: over at least five seeds",
            paper.key
        );
    }
}

#[test]
fn every_result_is_what_is_generated_from_what_was_measured() {
    let papers = papers();
    for (paper, results) in measured(&papers) {
        let verdicts = judge(paper, &results, |_| true).unwrap_or_else(|problem| panic!("{problem}"));
        let text = result::text(paper, &results, &verdicts).unwrap_or_else(|problem| panic!("{problem}"));
        let file = paper.directory.join("RESULT.md");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, &text).expect("RESULT.md can be written");
        }
        let written = std::fs::read_to_string(&file).expect("RESULT.md exists");
        assert!(
            written == text,
            "{}: `cargo xtask golden --update` for texts, else `tactus lab run all --record`",
            paper.key
        );
    }
}

#[test]
fn every_rival_is_a_rival_and_every_miss_has_its_reason() {
    let papers = papers();
    for (paper, results) in measured(&papers) {
        for verdict in judge(paper, &results, |_| true).unwrap_or_else(|problem| panic!("{problem}")) {
            for check in &verdict.checks {
                let defect = check.rival.as_ref().and_then(|rival| rival.defect);
                assert_eq!(defect, None, "{}: {}", verdict.id, check.what);
            }
            let holds = verdict.checks.iter().filter(|check| check.anchor.is_none()).all(Judged::is_evidence);
            assert!(
                holds || verdict.why.is_some(),
                "{} is {}, and nothing says why",
                verdict.id,
                verdict.status.word()
            );
        }
    }
}

#[test]
fn every_bound_and_parameter_is_locked_and_every_change_recorded() {
    let papers = papers();
    let all = papers.iter().flat_map(Paper::parts);
    for paper in all {
        paper.ledger.check(&paper.given()).unwrap_or_else(|problem| panic!("{problem}"));
    }
    let machines = lock::machines();
    let ledger = Ledger::read(&directory().join(lock::MACHINES)).unwrap_or_else(|problem| panic!("{problem}"));
    let entries = machines.iter().map(|(key, given)| (key.clone(), given)).collect();
    ledger.check(&entries).unwrap_or_else(|problem| panic!("{problem}"));
}

/// Returns the output of `git` with these arguments. `None`: git is absent, or fails.
fn git(arguments: &[&str]) -> Option<String> {
    let done = std::process::Command::new("git").arg("-C").arg(directory()).args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_string())
}

#[test]
fn entries_that_were_set_before_the_first_measurement_precede_the_first_record() {
    if git(&["rev-parse", "--is-shallow-repository"]).as_deref() != Some("false") {
        return eprintln!("SKIPPED: the history of the repository is not here");
    }
    let papers = papers();
    let mut count = 0;
    for paper in papers.iter().flat_map(Paper::parts) {
        let record = paper.directory.join("measured.json").display().to_string();
        let added = git(&["log", "--diff-filter=A", "--format=%H", "--", &record]).expect("the history can be read");
        let Some(first) = added.lines().last() else { continue };
        for commit in paper.ledger.commits() {
            let precedes = git(&["merge-base", "--is-ancestor", commit, &format!("{first}^")]).is_some();
            assert!(precedes, "{}: {commit} does not precede the first record, {first}", paper.key);
            count += 1;
        }
    }
    assert!(count > 0, "no entry was set before its first measurement");
}

/// Returns `line` without the expressions and statements of the template.
fn without_expressions(line: &str) -> String {
    let mut rest = line;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("{{").or_else(|| rest.split_once("{%")) {
        text += before;
        rest = after.split_once("}}").or_else(|| after.split_once("%}")).map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// A template has no duration and no knob of its own: these values stand in tables with their evidence.
#[test]
fn templates_take_durations_and_knobs_from_parameters() {
    let is_duration = |word: &str| {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        unit.len() < word.len() && ["ns", "us", "ms", "s", "min", "h", "d"].contains(&unit)
    };
    for paper in papers() {
        for experiment in &paper.experiments {
            for (nth, line) in experiment.template.lines().enumerate() {
                let at = format!("{}: {} line {}", paper.key, experiment.scenario, nth + 1);
                let code = line.split_once('#').map_or(line, |(code, _)| code);
                let code = without_expressions(code);
                let texts = code.split('"').skip(1).step_by(2);
                let found: Vec<&str> = texts.filter(|text| is_duration(text)).collect();
                assert!(found.is_empty(), "{at} has {found:?}: a parameter with its evidence");
                let knobs = code.split_once("knobs").map_or("", |(_, knobs)| knobs);
                let own = knobs
                    .split(['=', ',', '}'])
                    .map(str::trim)
                    .find(|word| *word == "true" || *word == "false" || word.parse::<f64>().is_ok());
                assert!(own.is_none(), "{at} has a knob {own:?}: a parameter with its evidence");
            }
        }
    }
}

#[test]
fn every_plot_can_show_what_is_recorded() {
    let papers = papers();
    for (paper, results) in measured(&papers) {
        for experiment in &paper.experiments {
            for plot in &experiment.plot {
                let figure = Figure::of(&paper.key, experiment, plot, &results);
                let figure = figure.unwrap_or_else(|problem| panic!("{}: {problem}", paper.key));
                assert!(figure.is_some(), "{}: `{}` shows no point", paper.key, plot.name);
            }
        }
    }
}
