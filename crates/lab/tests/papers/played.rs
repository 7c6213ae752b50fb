//! Tests of the runs of experiments: how results are stored, evaluated, compared and written.

use crate::tiny::Tiny;
use lab::cell::Cell;
use lab::experiment::Extent;
use lab::results::Row;
use lab::store::Store;
use lab::suite::{ANCHOR_SEED, CHANCE_SEEDS, Stage, Unwatched, Watch, differences};
use lab::{Paper, Problem, Results, Suite};
use sched::Nanos;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Returns the suite of all experiments of `papers` at the size `extent`.
pub(crate) fn suite(papers: &[Paper], extent: Extent) -> Suite<'_> {
    Suite { papers, claims: &[], extent, seeds: None, first_seed: None }
}

pub(crate) fn store(place: &TempDir) -> Mutex<Store> {
    Mutex::new(Store::open(place.path(), "this program").expect("it opens"))
}

pub(crate) fn play(papers: &[Paper], extent: Extent) -> Results {
    let place = TempDir::new().expect("there is room");
    let played = suite(papers, extent).play(&store(&place), Stage::Simulator(2), &Unwatched);
    played.unwrap_or_else(|problem| panic!("{problem}")).remove(0)
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
    let two_seeds = Suite { seeds: Some(2), ..suite(&papers, Extent::Usual) };
    let played = two_seeds.play(&store(&place), Stage::Simulator(1), &first);
    assert!(matches!(played, Err(Problem::Interrupted)));
    assert_eq!(first.played.load(Ordering::SeqCst), 3);
    let second = Impatient { most: 100, ..Impatient::default() };
    let played = two_seeds.play(&store(&place), Stage::Simulator(1), &second).expect("it goes on");
    let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!((of(&second.known), of(&second.played)), (3, 5), "of 4 points with 2 seeds");
    let other = TempDir::new().expect("there is room");
    let whole = two_seeds.play(&store(&other), Stage::Simulator(2), &Unwatched).expect("it is played");
    assert_eq!(played, whole, "as if it had never been interrupted");
}

#[test]
fn what_changes_is_played_anew_and_nothing_else_is() {
    let place = TempDir::new().expect("there is room");
    let played = |tiny: &Tiny| {
        let papers = [tiny.paper()];
        let watch = Impatient { most: 100, ..Impatient::default() };
        let two_seeds = Suite { seeds: Some(2), ..suite(&papers, Extent::Usual) };
        two_seeds.play(&store(&place), Stage::Simulator(2), &watch).expect("it is played");
        watch.played.load(Ordering::SeqCst)
    };
    assert_eq!(played(&Tiny::new()), 8);
    assert_eq!(played(&Tiny::new()), 0);
    assert_eq!(played(&Tiny::but("experiments/shares.toml", "title = \"Shares\"", "title = \"S\"")), 0);
    assert_eq!(played(&Tiny::but("experiments/shares.toml", "[2048, 3072]", "[2048, 4096]").with_smoke(4096)), 4);
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
fn only_points_that_checks_read_and_that_depend_on_chance_have_twenty_seeds() {
    let papers = [Tiny::new().paper()];
    let seeds =
        |results: &Results| -> Vec<usize> { results.experiments["shares"].iter().map(|row| row.seeds.len()).collect() };
    let results = play(&papers, Extent::Usual);
    let by_chance: Vec<bool> = results.experiments["shares"].iter().map(Row::is_by_chance).collect();
    assert!(by_chance.contains(&true), "the arrivals depend on the seed: {by_chance:?}");
    let right: Vec<usize> = by_chance.iter().map(|is_it| if *is_it { CHANCE_SEEDS as usize } else { 2 }).collect();
    assert_eq!(seeds(&results), right);
    assert_eq!(seeds(&play(&papers, Extent::Smoke)), [1, 1]);
    // Without a random arrival, no point depends on chance.
    let papers = [Tiny::but("scenarios/hogs.toml", "{{ seed * 100 }}us", "100us").paper()];
    assert_eq!(seeds(&play(&papers, Extent::Usual)), [2; 4]);
    // A point that no check reads has the usual number of seeds.
    let tiny = Tiny::new();
    let claims = std::fs::read_to_string(tiny.path("claims.toml")).expect("it is there");
    tiny.write("claims.toml", &claims.replace("weight=3072", "weight=2048").replace("3072", "2048"));
    assert_eq!(seeds(&play(&[tiny.paper()], Extent::Usual))[1], 2, "eevdf, 3072");
}

#[test]
fn a_suite_with_a_first_seed_begins_there() {
    let papers = [Tiny::but("experiments/shares.toml", "[metrics]", "[metrics]\nseed = \"seed\"").paper()];
    let place = TempDir::new().expect("there is room");
    let anchors = Suite { seeds: Some(3), first_seed: Some(ANCHOR_SEED), ..suite(&papers, Extent::Usual) };
    let played = anchors.play(&store(&place), Stage::Simulator(2), &Unwatched).expect("it is played");
    let seeds: Vec<_> = played[0].experiments["shares"][0].seeds.iter().map(|seed| seed["seed"].clone()).collect();
    assert_eq!(seeds, [1001, 1002, 1003]);
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
    assert_eq!((known(&place).experiments.len(), Results::seeds(known(&place).experiments.values())), (1, [1].into()));
    let whole = all.play(&store(&place), Stage::Simulator(2), &Unwatched).expect("it is played");
    assert_eq!(known(&place), whole[0]);
}
