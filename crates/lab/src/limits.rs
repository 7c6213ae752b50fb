//! [`Limits`]: what was set for a claim, and what limits the evidence.

use crate::claim::{Check, Claim};
use crate::evidence::{Given, Kind};
use crate::paper::{Paper, key_of_bound};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was set for a claim.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Limits {
    /// Free parameters that were set from anchors: name and origin.
    pub anchored: Vec<String>,
    /// Reasons why a claim whose checks all hold is only partly reproduced.
    pub reasons: Vec<String>,
}

/// Returns what was set for `claim`, whose judged checks read `experiments`, and what limits its evidence: bounds
/// without an origin that is free of choice, values that were changed after a look at a result, parameters without
/// exactly one anchor, and verdicts that differ under other values of parameters.
pub(crate) fn limits(paper: &Paper, claim: &Claim, experiments: &BTreeSet<&String>) -> Limits {
    let mut limits = Limits::default();
    for check in claim.check.iter().filter(|check| check.anchor.is_none()) {
        for (name, given) in check.given() {
            let key = key_of_bound(&claim.id, &check.what, name);
            let about = |why: &str| format!("\"{}\", {name}: {why}", check.what);
            if given.is_of_referee() {
                continue;
            }
            if paper.ledger.was_changed_after_a_look(&key) {
                limits.reasons.push(about("changed after a look at a result"));
            } else if !given.is_stated() && !paper.ledger.was_set_before(&key) {
                limits.reasons.push(about("chosen after the first measurement"));
            }
        }
    }
    for (key, (name, given)) in parameters(paper, experiments) {
        if given.kind == Kind::Anchor {
            limits.anchored.push(format!("{name} ({})", given.origin));
            match anchors(paper, name) {
                1 => {}
                0 => limits.reasons.push(format!("{name}: no check is its anchor")),
                more => limits.reasons.push(format!("{name}: {more} anchors")),
            }
        }
        if paper.ledger.was_changed_after_a_look(&key) && !given.is_of_referee() {
            limits.reasons.push(format!("{name}: changed after a look at a result"));
        }
    }
    for varied in &paper.robust {
        for flip in varied.flips.iter().filter(|flip| flip.claim == claim.id) {
            let (from, to) = (flip.from.word(), flip.to.word());
            let reason = format!("{} = {}: {from} becomes {to}", varied.parameter, varied.value);
            limits.reasons.push(reason);
        }
    }
    limits
}

/// Returns the parameters of `experiments` with their names, by their keys in the ledger.
fn parameters<'p>(paper: &'p Paper, experiments: &BTreeSet<&String>) -> BTreeMap<String, (&'p str, &'p Given)> {
    let read = paper.experiments.iter().filter(|experiment| experiments.contains(&experiment.name));
    read.flat_map(|experiment| paper.parameters_of(experiment)).map(|(key, name, given)| (key, (name, given))).collect()
}

/// Returns the number of printed numbers with which the parameter `name` was set.
fn anchors(paper: &Paper, name: &str) -> usize {
    let is_anchor = |check: &&Check| check.anchor.as_deref() == Some(name);
    let checks = paper.claims.iter().flat_map(|claim| &claim.check).filter(is_anchor);
    checks.map(|check| check.each.len()).sum()
}
