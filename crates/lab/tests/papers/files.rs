//! Tests of the files of papers: what they mean, and how errors in them are reported.

use crate::tiny::Tiny;
use lab::Suite;
use lab::experiment::{Extent, shown};

fn points(extent: Extent) -> Vec<String> {
    let paper = Tiny::new().paper();
    paper.experiments[0].points(extent).iter().map(shown).collect()
}

#[test]
fn an_experiment_has_every_value_of_one_axis_with_each_of_the_others_in_order() {
    let paper = Tiny::new().paper();
    let experiment = &paper.experiments[0];
    assert_eq!((experiment.name.as_str(), paper.key.as_str()), ("shares", "tiny"));
    assert_eq!(experiment.axes(), ["policy", "weight"]);
    assert_eq!(
        points(Extent::Usual),
        [
            "policy=eevdf, weight=2048",
            "policy=eevdf, weight=3072",
            "policy=round-robin, weight=2048",
            "policy=round-robin, weight=3072"
        ]
    );
    assert_eq!(points(Extent::Full).len(), 6);
    assert_eq!(points(Extent::Smoke), ["policy=eevdf, weight=3072", "policy=round-robin, weight=3072"]);
    assert_eq!([Extent::Usual, Extent::Full, Extent::Smoke].map(|extent| experiment.seeds(extent)), [2, 3, 1]);
    assert_eq!(experiment.constants(Extent::Full)["length"], "600ms");
}

#[test]
fn points_that_belong_together_go_with_each_of_the_sweep() {
    let from = "[sweep]\npolicy = [\"eevdf\", \"round-robin\"]\nweight = [2048, 3072]";
    let to = "[[point]]\npolicy = \"eevdf\"\nweight = 2048\n[[point]]\npolicy = \"round-robin\"\nweight = 3072\n[sweep]\nmore = [1, 2]";
    let tiny = Tiny::but("experiments/shares.toml", from, to);
    let text = std::fs::read_to_string(tiny.path("experiments/shares.toml")).expect("it is there");
    tiny.write(
        "experiments/shares.toml",
        &text
            .replace("sweep = { weight = [1024, 2048, 3072] }", "")
            .replace("[\"policy\"]\n", "[\"policy\", \"more\"]\n"),
    );
    let points: Vec<String> = tiny.paper().experiments[0].points(Extent::Usual).iter().map(shown).collect();
    assert_eq!(
        points,
        [
            "policy=eevdf, weight=2048, more=1",
            "policy=eevdf, weight=2048, more=2",
            "policy=round-robin, weight=3072, more=1",
            "policy=round-robin, weight=3072, more=2"
        ]
    );
}

/// Returns the error message about the tiny paper with `from` replaced by `to` in the file `name`.
fn refused(name: &str, from: &str, to: &str) -> String {
    let tiny = Tiny::but(name, from, to);
    let problem = match tiny.read() {
        Err(problem) => problem,
        Ok(papers) => {
            let suite = Suite { papers: &papers, claims: &[], extent: Extent::Usual, seeds: None, first_seed: None };
            suite.cells().expect_err(to)
        }
    };
    assert!(problem.is_input(), "{problem}");
    problem.to_string().replace(&tiny.papers().display().to_string(), "")
}

/// Replacements in the file of the experiment: the old text, the new text, and parts of the error message and its
/// remedy.
const EXPERIMENTS: &[(&str, &str, &str, &str)] = &[
    ("figure = \"Fig 1\"", "", "missing field `figure`", "docs/experiments.md"),
    ("figure = \"Fig 1\"", "figur = \"Fig 1\"", "unknown field `figur`", "docs/experiments.md"),
    ("\"T3\"]", "\"T9\"]", "there is no claim `T9`", "some of T1, T2, T3"),
    ("hogs.toml", "none.toml", "scenarios/none.toml cannot be read", ""),
    ("weight = [2048, 3072]", "weight = []", "the axis `weight` has no values", "at least one value"),
    ("share = \"tasks", "other = \"tasks", "shows `share`, which is not measured", "a metric"),
    ("/ (tasks['a']", "/ ((tasks['a']", "the metric `share`: syntax error", "an expression over `report`"),
    ("curves = [\"policy\"]", "curves = [\"rule\"]", "there is no axis `rule`", "one of policy, weight"),
    ("x = \"weight\"", "x = \"weigth\"", "neither an axis nor a metric", "one of policy, weight, share"),
    ("[smoke]\nweight", "[smoke]\nwight", "there is no axis `wight`", "one of policy, weight"),
    ("name = \"fig-1\"", "name = \"../fig-1\"", "no name for a picture", "letters, digits"),
    ("name = \"fig-1-turns\"", "name = \"fig-1\"", "two pictures `fig-1`", "a name of its own"),
    ("weight = [2048", "length = [\"1s\"]\nweight = [2048", "`length` is a constant and an axis", "one of them"),
    ("to = \"50ms\"", "to = \"soon\"", "the schedule `fig-1-turns`", "a time with its unit"),
    ("from = \"0ms\"", "from = \"50ms\"", "shows nothing", "`from` before `to`"),
];

#[test]
fn what_is_wrong_in_an_experiment_is_said_with_its_place_and_what_would_be_right() {
    for (from, to, what, right) in EXPERIMENTS {
        let said = refused("experiments/shares.toml", from, to);
        assert!(said.contains(what) && said.contains(right), "{to}: {said}");
        assert!(said.contains("/tiny/"), "{said}");
    }
}

const CLAIMS: &[(&str, &str, &str, &str)] = &[
    ("id = \"T2\"", "id = \"T1\"", "claim T1: it occurs twice", "an id of its own"),
    ("value = \"10%\"", "value = \"about 10\"", "`about 10` is no tolerance", "30%"),
    ("value = \"10%\"", "value = \"factor 1\"", "`factor 1` is no tolerance", "factor 2"),
    ("value = \"10%\"", "value = 10", "has a bad bound `within`", "a tolerance in quotes"),
    ("each = [{ weight = 2048, paper = 66.7 }", "each = [{ weight = 2048 }", "no number of the paper", "for each"),
    ("paper = 66.7 }", "paper = \"66.7\" }", "`66.7` refers to no printed number", "printed.toml"),
    ("paper = 66.7 }", "paper = 0 }", "cannot be compared with 0", "a number that is not 0"),
    ("weight=weight).share", "weight=weight.share", "measures nothing: syntax error", "at() and all()"),
    ("\"everything\"\nmeasure", "\"more than half\"\nmeasure", "the subject of two checks", "a subject of its own"),
    (ABOVE, "", "accepts everything", "`within`, `above` or `below`"),
    (RIVAL, "", "has no rival", "rival = { name"),
    (RIVAL, "rival = { name = \"x\" }", "has no rival", "rival = { name"),
    ("unit = \"%\"", "unit = \"%\"\nmay_miss = { rule = \"most\" }", "there is no rule `most`", "docs/experiments.md"),
    ("unit = \"%\"", MAY_MISS, "may miss all", "below the number in `each`"),
    (BELOW, "below = { value = 1, kind = \"paper\", origin = \"page 1\" }", "has no `reason`", "{ value, kind"),
    (BELOW, "below = { value = 1, kind = \"fact\" }", "unknown variant `fact`", "docs/experiments.md"),
    (BELOW, "below = { value = 1, origin = \"\" }", "has no `kind`", "{ value, kind"),
    (BELOW, ANCHOR, "no check tests it", "no anchor"),
    ("below = {", "belov = {", "unknown field `belov`", "docs/experiments.md"),
    (
        "unit = \"%\"",
        "unit = \"%\"\nis_ratio = true\nabove = { value = 0, kind = \"paper\", origin = \"page 1\", reason = \"a sign\" }",
        "is a ratio with a bound",
        "a bound above 0",
    ),
];

const ABOVE: &str = "above = { value = 60, kind = \"assumed\", origin = \"referee\", reason = \"more than half\" }\n";
const BELOW: &str = "below = { value = 1, kind = \"paper\", origin = \"page 1\", reason = \"nothing\" }";
const ANCHOR: &str =
    "below = { value = 1, kind = \"paper\", origin = \"page 1\", reason = \"nothing\" }\nanchor = \"length\"";
const RIVAL: &str =
    "rival = { name = \"a smaller weight\", of = { weight = 3072 }, is = { weight = 2048, policy = \"round-robin\" } }";
const MAY_MISS: &str =
    "unit = \"%\"\nmay_miss = { value = 2, kind = \"assumed\", origin = \"rule\", reason = \"for a test\" }";

#[test]
fn what_is_wrong_in_a_claim_is_said_with_its_place_and_what_would_be_right() {
    for (from, to, what, right) in CLAIMS {
        let said = refused("claims.toml", from, to);
        assert!(said.contains(what) && said.contains(right), "{to}: {said}");
        assert!(said.contains("/tiny/claims.toml"), "{said}");
    }
}

#[test]
fn a_template_that_cannot_be_filled_in_is_said_with_the_variables() {
    let said = refused("scenarios/hogs.toml", "{{ policy }}", "{{ rule }}");
    assert!(said.contains("/scenarios/hogs.toml") && said.contains("policy=eevdf"), "{said}");
    let said = refused("scenarios/hogs.toml", "cpus = 1", "cpus = 0");
    assert!(said.contains("experiments/shares.toml at policy=eevdf, weight=2048 with seed 1"), "{said}");
}

#[test]
fn a_directory_without_papers_is_none_of_papers() {
    let empty = tempfile::tempdir().expect("there is room");
    let said = lab::Paper::all(empty.path()).expect_err("it is empty").to_string();
    assert!(said.contains("there are no papers") && said.contains("claims.toml"), "{said}");
    let nowhere = empty.path().join("papers");
    let said = lab::Paper::all(&nowhere).expect_err("it is not there").to_string();
    assert!(said.contains("no such directory") && said.contains("--papers"), "{said}");
}
