//! Tests of verdicts: how claims are judged, what rivals are rejected, and what limits the evidence.

use crate::played::play;
use crate::tiny::Tiny;
use lab::experiment::Extent;
use lab::judge::{Judged, Verdict, counts, judge};
use lab::lock::{CHANGES, LOCK, Set};
use lab::margin::Margin;
use lab::status::Status;
use lab::{Paper, result};

fn statuses<'v>(verdicts: &'v [Verdict<'_>]) -> Vec<(&'v str, Status)> {
    verdicts.iter().map(|verdict| (verdict.id, verdict.status)).collect()
}

/// Judges the claim `id` of `paper`, and returns its status, its checks and its limits.
fn judged(paper: &Paper, id: &str) -> (Status, Vec<Judged>, Vec<String>) {
    let results = play(std::slice::from_ref(paper), Extent::Usual);
    let verdicts = judge(paper, &results, |asked| asked == id).unwrap_or_else(|problem| panic!("{problem}"));
    let verdict = verdicts.into_iter().next().expect("the claim exists");
    (verdict.status, verdict.checks, verdict.limits.reasons)
}

#[test]
fn a_claim_is_predicted_if_all_checks_hold_and_partly_if_some_do() {
    let paper = Tiny::new().paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let verdicts = judge(&paper, &results, |_| true).unwrap_or_else(|problem| panic!("{problem}"));
    let right = [("T1", Status::Predicted), ("T2", Status::Partly), ("T3", Status::Not)];
    assert_eq!(statuses(&verdicts), right);
    assert_eq!(counts(verdicts.iter()), "1 predicted, 0 calibrated, 1 partly, 1 not");
    let share = &verdicts[0].checks[1];
    assert!((share.median - 75.0).abs() < 3.0 && share.low <= share.median && share.median <= share.high, "{share:?}");
    assert_eq!((share.what.as_str(), share.paper), ("share at weight 3072", Some(75.0)));
    let one = judge(&paper, &results, |id| id == "T2").expect("it is judged");
    assert_eq!(statuses(&one), [("T2", Status::Partly)]);
}

#[test]
fn a_bound_of_ours_limits_a_claim_unless_it_was_set_before_the_first_measurement() {
    let soft = Tiny::but("claims.toml", "origin = \"rule\"", "origin = \"no source\"");
    let (status, _, limits) = judged(&soft.paper(), "T1");
    assert_eq!(status, Status::Partly);
    assert_eq!(limits, ["\"share at weight {weight}\", within: chosen after the first measurement"]);
    let lock = |set| {
        let paper = soft.paper();
        soft.write(LOCK, &paper.ledger.with_new(&paper.given(), &set).0);
    };
    lock(Set::After);
    assert_eq!(judged(&soft.paper(), "T1").0, Status::Partly);
    std::fs::remove_file(soft.path(LOCK)).expect("it is there");
    lock(Set::Before("0123456".to_string()));
    assert_eq!(judged(&soft.paper(), "T1").0, Status::Predicted);
}

/// Returns a paper whose bound of claim T1 changed from 5 % to 10 %.
fn changed(seen: bool, origin: &str) -> Tiny {
    let tiny = Tiny::but("claims.toml", "origin = \"rule\"", &format!("origin = \"{origin}\""));
    let change = format!(
        "[[change]]\nentry = \"T1 · share at weight {{weight}} · within\"\nold = \"5%, assumed, rule\"\n\
         new = \"10%, assumed, {origin}\"\nreason = \"for a test\"\nseen = {seen}\n"
    );
    tiny.write(CHANGES, &change);
    let paper = tiny.paper();
    tiny.write(LOCK, &paper.ledger.with_new(&paper.given(), &Set::After).0);
    tiny
}

#[test]
fn a_bound_that_changed_after_a_look_limits_a_claim_unless_a_referee_states_it() {
    for (seen, origin, right) in
        [(true, "rule", Status::Partly), (false, "rule", Status::Predicted), (true, "referee", Status::Predicted)]
    {
        let paper = changed(seen, origin).paper();
        paper.ledger.check(&paper.given()).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(judged(&paper, "T1").0, right, "{seen} {origin}");
    }
}

#[test]
fn a_bound_that_changes_without_its_change_is_found() {
    let tiny = changed(true, "rule");
    let said = |tiny: &Tiny| {
        let paper = tiny.paper();
        paper.ledger.check(&paper.given()).expect_err("it changed").to_string()
    };
    let text = std::fs::read_to_string(tiny.path("claims.toml")).expect("it is there");
    tiny.write("claims.toml", &text.replace("10%", "20%"));
    let found = said(&tiny);
    assert!(found.contains("is \"20%, assumed, rule\", and its last value is \"10%, assumed, rule\""), "{found}");
    assert!(found.contains("evidence.lock") && found.contains("[[change]]"), "{found}");
    tiny.write("claims.toml", &text.replace("paper\", origin = \"page 1\"", "paper\", origin = \"page 2\""));
    assert!(said(&tiny).contains("T3 · less than a hundredth · below"), "an origin changes, too");
    tiny.write("claims.toml", &text.replace("less than a hundredth", "less than 1 %"));
    let found = said(&tiny);
    assert!(found.contains("`T3 · less than 1 % · below` is not locked"), "{found}");
    assert!(found.contains("`T3 · less than a hundredth · below` does not exist any more"), "{found}");
    tiny.write("claims.toml", &text);
    let change = std::fs::read_to_string(tiny.path(CHANGES)).expect("it is there");
    tiny.write(CHANGES, &change.replace("old = \"5%", "old = \"6%"));
    assert!(said(&tiny).contains("from \"6%, assumed, rule\", and the value was \"5%, assumed, rule\""));
    tiny.write(CHANGES, &change.replace("for a test", " "));
    assert!(said(&tiny).contains("has no reason"));
}

/// Returns a paper whose length is set from an anchor, with `anchors` printed numbers.
fn anchored(anchors: &str) -> Tiny {
    let from = "kind = \"assumed\", origin = \"run\", reason = \"length of a run\" }\nseeds";
    let to = "kind = \"anchor\", origin = \"page 1: half\", reason = \"a share\" }\nseeds";
    let tiny = Tiny::but("experiments/shares.toml", from, to);
    let text = std::fs::read_to_string(tiny.path("claims.toml")).expect("it is there");
    let anchor = format!(
        "[[claim.check]]\nwhat = \"anchor\"\nmeasure = \"at('shares', policy='round-robin', weight=weight).share\"\n\
         anchor = \"length\"\neach = [{anchors}]\n\n[[claim]]\nid = \"T2\""
    );
    tiny.write("claims.toml", &text.replace("[[claim]]\nid = \"T2\"", &anchor));
    tiny
}

#[test]
fn a_claim_with_one_anchor_for_each_free_parameter_is_calibrated() {
    let (status, checks, limits) = judged(&anchored("{ weight = 2048, paper = 50 }").paper(), "T1");
    assert_eq!((status, limits.len()), (Status::Calibrated, 0));
    assert_eq!(checks[2].anchor.as_deref(), Some("length"));
    let two = anchored("{ weight = 2048, paper = 50 }, { weight = 3072, paper = 50 }");
    assert_eq!(judged(&two.paper(), "T1").2, ["length: 2 anchors"]);
    let text = std::fs::read_to_string(two.path("claims.toml")).expect("it is there");
    two.write("claims.toml", &text.replace("anchor = \"length\"", "anchor = \"width\""));
    let (status, _, limits) = judged(&two.paper(), "T1");
    assert_eq!((status, limits), (Status::Partly, vec!["length: no check is its anchor".to_string()]));
}

const RIVAL: &str =
    "rival = { name = \"round robin\", of = { policy = \"eevdf\" }, is = { policy = \"round-robin\" } }";

/// Judges claim T1 with another rival, and returns whether its first check holds, whether the rival is rejected, and
/// the defect of the rival.
fn with_rival(rival: &str) -> (bool, bool, Option<&'static str>) {
    let (_, checks, _) = judged(&Tiny::but("claims.toml", RIVAL, rival).paper(), "T1");
    let of = checks[0].rival.as_ref().expect("it has a rival");
    (checks[0].holds, of.is_rejected, of.defect)
}

#[test]
fn a_rival_that_changes_nothing_has_a_defect() {
    assert_eq!(with_rival(RIVAL), (true, true, None));
    let idle = Some("it changes no point of the check");
    let other = "rival = { name = \"x\", of = { policy = \"round-robin\" }, is = { policy = \"eevdf\" } }";
    assert_eq!(with_rival(other), (true, false, idle), "no point asks for round robin");
    let same = "rival = { name = \"x\", of = { policy = \"eevdf\" }, is = { policy = \"eevdf\" } }";
    assert_eq!(with_rival(same), (true, false, idle), "it is itself");
}

#[test]
fn a_rival_may_be_a_constant_or_shuffled_results() {
    assert_eq!(with_rival("rival = { name = \"half\", set = { share = 50 } }"), (true, true, None));
    assert_eq!(with_rival("rival = { name = \"constant\", set = { share = 70 } }"), (true, false, None));
    let (_, checks, _) = judged(
        &Tiny::but("claims.toml", RIVAL, "rival = { name = \"shuffled\", shuffled = [\"policy\", \"weight\"] }")
            .paper(),
        "T1",
    );
    let rival = checks[0].rival.as_ref().expect("it has a rival");
    assert!(rival.low < 55.0 && rival.high > 70.0, "the shares of all points: {rival:?}");
    let unknown = Tiny::but("claims.toml", RIVAL, "rival = { name = \"x\", set = { shares = 50 } }").paper();
    let results = play(std::slice::from_ref(&Tiny::new().paper()), Extent::Usual);
    let said = judge(&unknown, &results, |id| id == "T1").expect_err("there is no such metric").to_string();
    assert!(said.contains("`shares` has no metric `shares`") && said.contains("rival x"), "{said}");
}

#[test]
fn all_points_among_which_a_rival_shuffles_have_the_seeds_of_the_check() {
    // The check reads one of four points. With each seed, the rival has the results of another one.
    let each = "each = [{ weight = 2048, paper = 66.7 }, { weight = 3072, paper = 75 }]";
    let tiny = Tiny::but("claims.toml", each, "each = [{ weight = 2048, paper = 66.7 }]");
    let claims = std::fs::read_to_string(tiny.path("claims.toml")).expect("it is there");
    let shuffled = "rival = { name = \"shuffled\", of = { policy = \"eevdf\" }, shuffled = [\"weight\"] }";
    let claims = claims.replacen(RIVAL, shuffled, 1);
    let (first, _) = claims.split_once("[[claim]]\nid = \"T2\"").expect("there is a second claim");
    tiny.write("claims.toml", first);
    let text = std::fs::read_to_string(tiny.path("experiments/shares.toml")).expect("it is there");
    let text = text.replace("[\"T1\", \"T2\", \"T3\"]", "[\"T1\"]").replace("[2048, 3072]", "[512, 1024, 2048, 3072]");
    tiny.write("experiments/shares.toml", &text);
    let (_, checks, _) = judged(&tiny.paper(), "T1");
    let rival = checks[0].rival.as_ref().expect("it has a rival");
    assert_eq!(checks[0].seeds, 20);
    assert!(rival.low < 40.0 && rival.high > 70.0, "the shares of all weights: {rival:?}");
}

#[test]
fn a_point_is_never_compared_with_itself() {
    let measure = "at('shares', policy='eevdf', weight=weight).share";
    let ratio = format!("{measure} / at('shares', policy='round-robin', weight=weight).share * 50");
    let (_, checks, _) = judged(&Tiny::but("claims.toml", measure, &ratio).paper(), "T1");
    let rival = checks[0].rival.as_ref().expect("it has a rival");
    assert_eq!((rival.is_rejected, rival.defect), (false, Some("it compares a point with itself")));
}

#[test]
fn a_rival_is_rejected_only_if_its_whole_interval_is_outside_in_most_variants() {
    let each = "each = [{ weight = 2048, paper = 66.7 }, { weight = 3072, paper = 75 }]";
    let of = |variants: &str| {
        let paper = Tiny::but("claims.toml", each, &format!("each = [{variants}]")).paper();
        let (status, checks, _) = judged(&paper, "T1");
        (status, checks.iter().filter(|check| check.is_evidence()).count())
    };
    let good = "{ weight = 2048, paper = 66.7 }";
    // Round robin gives 50 %, which is within 10 % of 55.
    let near = "{ weight = 2048, paper = 55 }";
    assert_eq!(
        of(&[good, good, good, good, near].join(", ")),
        (Status::Partly, 4),
        "4 of 5 reject it; the last misses"
    );
    assert_eq!(of(&[good, good, good, near].join(", ")), (Status::Not, 0), "3 of 4 do not suffice");
}

#[test]
fn some_of_several_may_miss() {
    let each = "each = [{ weight = 2048, paper = 66.7 }, { weight = 3072, paper = 75 }]";
    let three =
        "each = [{ weight = 2048, paper = 66.7 }, { weight = 3072, paper = 75 }, { weight = 3072, paper = 10 }]";
    let may_miss = "may_miss = { value = 1, kind = \"paper\", origin = \"page 1\", reason = \"for a test\" }";
    assert_eq!(judged(&Tiny::but("claims.toml", each, three).paper(), "T1").0, Status::Partly);
    let tiny = Tiny::but("claims.toml", each, &format!("{three}\n{may_miss}"));
    assert_eq!(judged(&tiny.paper(), "T1").0, Status::Predicted);
}

#[test]
fn margins_are_distances_to_the_nearer_bound() {
    let (_, checks, _) = judged(&Tiny::new().paper(), "T2");
    let near = |margin: Option<Margin>, right: f64| {
        let Some(Margin::Fraction(size)) = margin else { panic!("{margin:?}") };
        assert!((size - right).abs() < 0.06, "{size}, not {right}");
    };
    near(checks[0].margin, 0.25);
    near(checks[0].rival.as_ref().expect("it has a rival").margin, 50.0 / 60.0 - 1.0);
    near(checks[1].margin, 0.75 / 0.99 - 1.0);
    let above = "above = { value = 60, kind = \"assumed\", origin = \"referee\", reason = \"more than half\" }";
    let (_, checks, _) = judged(&Tiny::but("claims.toml", above, &format!("{above}\nis_ratio = true")).paper(), "T2");
    let Some(Margin::Logarithm(size)) = checks[0].margin else { panic!("{:?}", checks[0].margin) };
    assert!((size - f64::ln(75.0 / 60.0)).abs() < 0.06, "{size}");
}

#[test]
fn what_is_not_finite_is_no_evidence() {
    let to = "at('shares', policy='eevdf', weight=weight).share * (1000 | exp)";
    let paper = Tiny::but("claims.toml", "at('shares', policy='eevdf', weight=weight).share", to).paper();
    let results = play(std::slice::from_ref(&Tiny::new().paper()), Extent::Usual);
    let said = judge(&paper, &results, |id| id == "T1").expect_err("it is infinite").to_string();
    assert!(said.contains("claim T1") && said.contains("no number"), "{said}");
}

#[test]
fn a_rival_that_was_not_played_and_an_experiment_that_does_not_exist_are_no_evidence() {
    let results = play(std::slice::from_ref(&Tiny::new().paper()), Extent::Usual);
    let said = |from: &str, to: &str| {
        let paper = Tiny::but("claims.toml", from, to).paper();
        judge(&paper, &results, |_| true).expect_err(to).to_string()
    };
    let lacking = said("is = { policy = \"round-robin\" }", "is = { policy = \"cfs\" }");
    assert!(lacking.contains("claim T1") && lacking.contains("has no point policy=cfs"), "{lacking}");
    let unknown = said("at('shares', policy='eevdf', weight=weight)", "at('fig-9', weight=weight)");
    assert!(unknown.contains("there are no results of `fig-9`"), "{unknown}");
    let several = said("at('shares', policy='eevdf', weight=weight)", "at('shares', weight=weight)");
    assert!(several.contains("2 points") && several.contains("at() needs exactly one"), "{several}");
}

#[test]
fn the_result_has_a_row_for_each_claim_that_begins_with_its_id() {
    let paper = Tiny::new().paper();
    let results = play(std::slice::from_ref(&paper), Extent::Usual);
    let verdicts = judge(&paper, &results, |_| true).expect("it is judged");
    let text = result::text(&paper, &results, &verdicts).expect("it has no live part");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| T")).collect();
    assert_eq!(rows.len(), 3, "{text}");
    for (row, (id, word)) in rows.iter().zip([("T1", "predicted"), ("T2", "partly"), ("T3", "not")]) {
        assert!(row.starts_with(&format!("| {id} | ")) && row.contains(&format!("**{word}**")), "{row}");
        assert!(row.contains("; margin ") && row.contains("; rival "), "{row}");
    }
    assert!(text.contains("3 claims: 1 predicted, 0 calibrated, 1 partly, 1 not"), "{text}");
    assert!(rows[1].ends_with("| It gets its share. |"), "{text}");
    assert!(text.contains("| `experiments/shares.toml` | Fig 1: Shares over weights | 4 |"), "{text}");
}
