//! Tests of the runs of experiments: how results are stored, evaluated, compared and written.

use crate::tiny::Tiny;
use lab::cell::Cell;
use lab::experiment::Extent;
use lab::judge::{Status, Verdict, judge};
use lab::store::Store;
use lab::suite::{Stage, Unwatched, Watch, differences};
use lab::{Paper, Problem, Results, Suite, result};
use sched::Nanos;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Returns the suite of all experiments of `papers` at the size `extent`.
pub(crate) fn suite(papers: &[Paper], extent: Extent) -> Suite<'_> {
    Suite { papers, claims: &[], extent, seeds: None }
}

pub(crate) fn store(place: &TempDir) -> Mutex<Store> {
    Mutex::new(Store::open(place.path(), "this program").expect("it opens"))
}

pub(crate) fn play(papers: &[Paper], extent: Extent) -> Results {
    let place = TempDir::new().expect("there is room");
    let played = suite(papers, extent).play(&store(&place), Stage::Simulator(2), &Unwatched);
    played.unwrap_or_else(|problem| panic!("{problem}")).remove(0)
}

fn statuses(verdicts: &[Verdict<'_>]) -> Vec<(String, Status)> {
    verdicts.iter().map(|verdict| (verdict.id.to_string(), verdict.status)).collect()
}

/// An observer that counts finished runs, and interrupts the suite after a given number of runs.
#[derive(Default)]
struct Impatient {
    most: usize,
    played: AtomicUsize,
    known: AtomicUsize,
}

impl Watch for Impatient {
    fn begins(&self, _length: Nanos, _cells: usize, known: usize) {
        self.known.store(known, Ordering::SeqCst);
    }

    fn played(&self, _cell: &Cell<'_>) {
        self.played.fetch_add(1, Ordering::SeqCst);
    }

    fn is_interrupted(&self) -> bool {
        self.played.load(Ordering::SeqCst) >= self.most
    }
}

#[test]
fn an_interrupted_run_keeps_its_finished_cells() {
    let papers = [Tiny::new().paper()];
    let place = TempDir::new().expect("there is room");
    let first = Impatient { most: 3, ..Impatient::default() };
    let played = suite(&papers, Extent::Usual).play(&store(&place), Stage::Simulator(1), &first);
    assert!(matches!(played, Err(Problem::Interrupted)));
    assert_eq!(first.played.load(Ordering::SeqCst), 3);
    let second = Impatient { most: 100, ..Impatient::default() };
    let played = suite(&papers, Extent::Usual).play(&store(&place), Stage::Simulator(1), &second).expect("it goes on");
    let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!((of(&second.known), of(&second.played)), (3, 5), "of 4 points with 2 seeds");
    assert_eq!(played[0], play(&papers, Extent::Usual), "as if it had never been interrupted");
}

#[test]
fn what_changes_is_played_anew_and_nothing_else_is() {
    let place = TempDir::new().expect("there is room");
    let played = |tiny: &Tiny| {
        let papers = [tiny.paper()];
        let watch = Impatient { most: 100, ..Impatient::default() };
        suite(&papers, Extent::Usual).play(&store(&place), Stage::Simulator(2), &watch).expect("it is played");
        watch.played.load(Ordering::SeqCst)
    };
    assert_eq!(played(&Tiny::new()), 8);
    assert_eq!(played(&Tiny::new()), 0);
    assert_eq!(played(&Tiny::but("experiments/shares.toml", "title = \"Shares\"", "title = \"S\"")), 0);
    assert_eq!(played(&Tiny::but("experiments/shares.toml", "[1024, 3072]", "[1024, 2048]").with_smoke(2048)), 4);
    assert_eq!(played(&Tiny::but("experiments/shares.toml", "* 100 /", "* 1 /")), 8, "what is measured");
    assert_eq!(played(&Tiny::but("experiments/shares.toml", "300ms", "200ms")), 8, "a constant");
    assert_eq!(played(&Tiny::but("scenarios/hogs.toml", "two hogs", "2 hogs")), 8, "the template");
}

#[test]
fn constants_of_the_full_extent_reach_the_metrics() {
    let tiny = Tiny::but("experiments/shares.toml", "[metrics]", "[metrics]\nlength = \"length\"");
    let papers = [tiny.paper()];
    for (extent, length) in [(Extent::Usual, "300ms"), (Extent::Full, "600ms")] {
        let results = play(&papers, extent);
        assert_eq!(results.experiments["shares"][0].seeds[0]["length"], length);
    }
}

#[test]
fn a_claim_is_reproduced_if_all_checks_hold_and_partly_if_some_do() {
    let paper = Tiny::new().paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let verdicts = judge(&paper, &results, |_| true).unwrap_or_else(|problem| panic!("{problem}"));
    let right = [("T1", Status::Reproduced), ("T2", Status::Partly), ("T3", Status::Not)];
    assert_eq!(statuses(&verdicts), right.map(|(id, status)| (id.to_string(), status)));
    let share = &verdicts[0].checks[1];
    assert!((share.median - 75.0).abs() < 3.0 && share.low <= share.median && share.median <= share.high, "{share:?}");
    assert_eq!((share.what.as_str(), share.paper, share.seeds), ("share at weight 3072", Some(75.0), 2));
    let one = judge(&paper, &results, |id| id == "T2").expect("it is judged");
    assert_eq!(statuses(&one), [("T2".to_string(), Status::Partly)]);
}

/// Returns the status of the claim T1 if its check has the variants `each`, and whether the check rejects its wrong
/// world.
fn of_each(each: &str) -> (Status, Option<bool>) {
    let from = "each = [{ weight = 1024, paper = 50 }, { weight = 3072, paper = 75 }]";
    let paper = Tiny::but("claims.toml", from, each).paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let verdicts = judge(&paper, &results, |id| id == "T1").unwrap_or_else(|problem| panic!("{problem}"));
    (verdicts[0].status, verdicts[0].checks[0].rejects_wrong)
}

#[test]
fn some_of_several_may_miss_and_then_more_must_in_the_wrong_world() {
    let three = "each = [{ weight = 1024, paper = 50 }, { weight = 3072, paper = 75 }, { weight = 3072, paper = 10 }]";
    assert_eq!(of_each(three), (Status::Partly, Some(true)));
    assert_eq!(of_each(&format!("{three}\nmay_miss = 1")), (Status::Reproduced, Some(true)));
    let two = "each = [{ weight = 1024, paper = 50 }, { weight = 3072, paper = 75 }]\nmay_miss = 1";
    assert_eq!(of_each(two), (Status::Reproduced, Some(false)), "round robin misses one of them, as it may");
}

#[test]
fn a_check_that_holds_in_its_wrong_world_is_found() {
    let from = "wrong = { of = { policy = \"eevdf\" }, is = { policy = \"round-robin\" } }";
    let to = "wrong = { of = { policy = \"round-robin\" }, is = { policy = \"eevdf\" } }";
    let rejects = |tiny: &Tiny, claim: &str| {
        let paper = tiny.paper();
        let results = play(std::slice::from_ref(&paper), Extent::Usual);
        let verdicts = judge(&paper, &results, |id| id == claim).expect("it is judged");
        let check = &verdicts[0].checks[0];
        (check.holds, check.rejects_wrong, check.wrong_is_idle)
    };
    assert_eq!(rejects(&Tiny::new(), "T1"), (true, Some(true), false));
    let idle = Tiny::but("claims.toml", from, to);
    assert_eq!(rejects(&idle, "T1"), (true, Some(false), true), "no point asks for round robin");
    // An idle wrong world equals the measured world, so even a check that misses in both worlds does not reject it.
    let failing = Tiny::new();
    let claims = std::fs::read_to_string(failing.path("claims.toml")).expect("it is there");
    let (before, third) = claims.split_once("id = \"T3\"").expect("it is there");
    let idle = Tiny::new();
    idle.write("claims.toml", &format!("{before}id = \"T3\"{}", third.replace(from, to)));
    assert_eq!(rejects(&failing, "T3"), (false, Some(true), false));
    assert_eq!(rejects(&idle, "T3"), (false, Some(false), true));
    let same = "wrong = { of = { policy = \"eevdf\" }, is = { policy = \"eevdf\" } }";
    assert_eq!(rejects(&Tiny::but("claims.toml", from, same), "T1"), (true, Some(false), true), "it is itself");
}

#[test]
fn a_wrong_world_is_not_rejected_by_what_misses_in_any_world() {
    let from = "each = [{ weight = 1024, paper = 50 }, { weight = 3072, paper = 75 }]\nwrong = { of = { policy = \"eevdf\" }, is = { policy = \"round-robin\" } }";
    let of = |wrong: &str| {
        let each = "each = [{ weight = 1024, paper = 50 }, { weight = 3072, paper = 10 }]";
        let paper = Tiny::but("claims.toml", from, &format!("{each}\nwrong = {wrong}")).paper();
        let results = play(std::slice::from_ref(&paper), Extent::Usual);
        judge(&paper, &results, |id| id == "T1").expect("it is judged")[0].checks[0].rejects_wrong
    };
    // Round robin also gives half of the CPU to each of two equal entities, so the first variant holds in the wrong
    // world. The second variant misses in both worlds.
    assert_eq!(of("{ of = { policy = \"eevdf\" }, is = { policy = \"round-robin\" } }"), Some(false));
    assert_eq!(of("{ of = { weight = 1024 }, is = { weight = 3072 } }"), Some(true));
}

#[test]
fn what_is_not_finite_is_no_evidence() {
    let to = "at('shares', policy='eevdf', weight=weight).share * (1000 | exp)";
    let paper = Tiny::but("claims.toml", "at('shares', policy='eevdf', weight=weight).share", to).paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let said = judge(&paper, &results, |id| id == "T1").expect_err("it is infinite").to_string();
    assert!(said.contains("claim T1") && said.contains("no number"), "{said}");
}

#[test]
fn a_wrong_world_that_was_not_played_and_an_experiment_that_does_not_exist_are_no_evidence() {
    let said = |from: &str, to: &str| {
        let paper = Tiny::but("claims.toml", from, to).paper();
        let results = play(std::slice::from_ref(&paper), Extent::Usual);
        judge(&paper, &results, |_| true).expect_err(to).to_string()
    };
    let lacking = said("is = { policy = \"round-robin\" }", "is = { policy = \"cfs\" }");
    assert!(lacking.contains("claim T1") && lacking.contains("has no point policy=cfs"), "{lacking}");
    let unknown = said("at('shares', policy='eevdf', weight=weight)", "at('fig-9', weight=weight)");
    assert!(unknown.contains("names no experiment with results"), "{unknown}");
    let several = said("at('shares', policy='eevdf', weight=weight)", "at('shares', weight=weight)");
    assert!(several.contains("2 points") && several.contains("at() needs exactly one"), "{several}");
}

#[test]
fn other_results_than_the_recorded_are_told_with_point_and_seed() {
    let papers = [Tiny::new().paper()];
    let mut recorded = play(&papers, Extent::Usual);
    let anew = play(&papers, Extent::Smoke);
    assert_eq!(anew.experiments["shares"].len(), 2);
    assert_eq!(differences(&recorded, &anew), [""; 0]);
    recorded.experiments["shares"][1].seeds[0].insert("share".to_string(), 12.5.into());
    let found = differences(&recorded, &anew);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("shares at policy=eevdf, weight=3072, seed 1: share is 7"), "{found:?}");
    assert!(found[0].ends_with("recorded is 12.5"), "{found:?}");
    recorded.experiments.shift_remove("shares");
    assert_eq!(differences(&recorded, &anew).len(), 2, "what is not recorded is no confirmation");
}

#[test]
fn the_result_has_a_row_for_each_claim_that_begins_with_its_id() {
    let paper = Tiny::new().paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let verdicts = judge(&paper, &results, |_| true).expect("it is judged");
    let text = result::text(&paper, &results, &verdicts).expect("it has no live part");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| T")).collect();
    assert_eq!(rows.len(), 3, "{text}");
    for (row, (id, word)) in rows.iter().zip([("T1", "reproduced"), ("T2", "partly"), ("T3", "not")]) {
        assert!(row.starts_with(&format!("| {id} | ")) && row.contains(&format!("**{word}**")), "{row}");
    }
    assert!(text.contains("3 claims: 1 reproduced, 1 partly, 1 not") && text.contains("seeds 1 to 2"), "{text}");
    assert!(text.contains("that contain the median of all seeds with 50.00 %"), "two coins: {text}");
    assert!(rows[1].ends_with("| It gets its share. |"), "{text}");
    assert!(text.contains("| `experiments/shares.toml` | Fig 1: Shares over weights | 4 | 2 | T1, T2, T3 |"), "{text}");
}

#[test]
fn only_what_was_played_to_its_end_is_known() {
    let papers = [Tiny::new().paper()];
    let place = TempDir::new().expect("there is room");
    let all = suite(&papers, Extent::Usual);
    let known = |place: &TempDir| {
        all.known(&papers[0], &store(place).into_inner().expect("no thread panics")).expect("it is read")
    };
    assert!(known(&place).experiments.is_empty());
    let one_seed = Suite { seeds: Some(1), ..all };
    one_seed.play(&store(&place), Stage::Simulator(2), &Unwatched).expect("it is played");
    assert_eq!((known(&place).experiments.len(), known(&place).seeds()), (1, 1));
    let whole = all.play(&store(&place), Stage::Simulator(2), &Unwatched).expect("it is played");
    assert_eq!(known(&place), whole[0]);
}
