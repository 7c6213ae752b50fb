//! The job `guest-hints`: a VM on this host whose guest has the agent, beside hogs, with `tactus why` and `tactus guest attach`.

use super::beside::{Hogs, Host, json};
use crate::program::TACTUS;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;

/// Length of each command. Unit: s.
const LENGTH: usize = 8;
/// Length of the guest's measurement, and of the part before its agent begins. Unit: s.
pub(crate) const SECONDS: usize = 64;
pub(crate) const WITHOUT_AGENT: usize = 22;
/// Seconds beside hogs before the first command.
const LOADED: usize = 5;
/// Seconds from the start of `tactus guest attach` until the port is there, and until the agent is: it says hello once a second.
const ATTACHES: usize = 3;

/// The line of the guest at the end of each second, and the begin of that with the latencies of a second.
const SECOND: &str = "second";
const LATENCIES: &str = "latencies_us";

/// Checks that boosts take most of the latency of a guest beside hogs away, at its interrupts and by the hints of its agent, and that its late wake-ups
/// are explained.
pub(crate) fn check(host: &Host<'_>) -> Result<(), String> {
    let tactus = TACTUS.build().map_err(|error| format!("{error:#}"))?;
    host.output.wait(SECOND, 2)?;
    let hogs = Hogs::start()?;
    let (vm, length) = (host.emulator.to_string(), format!("{LENGTH}s"));
    let attach = |option: &[&str]| {
        let begin = host.output.count(SECOND);
        let words = ["guest", "attach", &vm, "--for", &length, "--budget", "50", "--json"];
        Ok::<_, String>((begin, json(&tactus, &[&words, option].concat())?))
    };
    let loaded = host.output.count(SECOND);
    host.output.wait(SECOND, loaded + LOADED)?;
    let (at_interrupts, of_interrupts) = attach(&[])?;
    host.output.wait(SECOND, WITHOUT_AGENT + 2)?;
    let explained_from = host.output.count(SECOND);
    let why = json(&tactus, &["why", &vm, "--for", &length, "--json"])?;
    explained(&why, &hogs.pids().map(u64::from).collect())?;
    let (by_hints, of_hints) = attach(&["--hints-only"])?;
    drop(hogs);
    for (boosted, sign, least) in [(&of_interrupts, "interrupts", 1_000), (&of_hints, "hints", 100)] {
        let [signs, boosts] = [sign, "boosts"].map(|name| boosted[name].as_u64().unwrap_or(0));
        if signs < least || boosts < 50 {
            return Err(format!("{signs} {sign} and {boosts} boosts during {LENGTH} s are too few"));
        }
    }
    if of_interrupts["hints"] != 0 {
        return Err(format!("the agent began too early: {of_interrupts}"));
    }
    let seconds = host.output.wait(LATENCIES, SECONDS)?;
    // The agent raises the task in its guest, so each kind of boosts has seconds of its own without boosts.
    let without_agent = mean(&seconds, loaded + 1..loaded + LOADED)?;
    let with_agent = mean(&seconds, explained_from + ATTACHES..explained_from + LENGTH - 1)?;
    for (before, begin, what) in [(without_agent, at_interrupts, "at interrupts"), (with_agent, by_hints, "by hints")] {
        let with = mean(&seconds, begin + ATTACHES..begin + LENGTH - 1)?;
        println!(
            "      guest-hints: beside hogs, tasks run {before:.0} us late on average, and {with:.0} us with boosts {what}"
        );
        if with * 2.0 > before {
            return Err(format!("the latency with boosts {what}, {with:.0} us, is more than half of {before:.0} us"));
        }
    }
    Ok(())
}

/// Checks that nearly all late wake-ups are attributed, for the most part to waits on the host behind the hogs.
fn explained(why: &Value, hogs: &BTreeSet<u64>) -> Result<(), String> {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let (count, attributed) = (number(why, "count"), number(why, "attributed"));
    if count < 50 || attributed * 100 < count * 95 {
        return Err(format!("of {count} late wake-ups, {attributed} are attributed; expected 50 or more, and 95 %"));
    }
    let parts = &why["parts"];
    let all: u64 = parts.as_object().into_iter().flat_map(|parts| parts.values()).filter_map(Value::as_u64).sum();
    let waits = number(parts, "vcpu_wait_ns") + number(parts, "carrier_wait_ns");
    let listed = || why["wake_ups"].as_array().into_iter().flatten();
    let latencies: u64 = listed().map(|it| number(it, "latency_ns")).sum();
    if latencies != all {
        return Err(format!("the parts sum up to {all} ns, and the latencies to {latencies} ns"));
    }
    let instead = listed().filter_map(|it| it["instead"].as_array()).flatten();
    let of_hogs: u64 = instead.filter(|it| hogs.contains(&number(it, "pid"))).map(|it| number(it, "ran_ns")).sum();
    if waits * 2 < all || of_hogs * 2 < waits {
        return Err(format!("of {all} ns, {waits} ns are waits on the host, {of_hogs} ns of them behind hogs"));
    }
    Ok(())
}

/// Returns the mean latency in these seconds. Unit: us.
fn mean(seconds: &[String], of: Range<usize>) -> Result<f64, String> {
    let all =
        seconds.get(of.clone()).ok_or_else(|| format!("the guest ran for {} s, not for {}", seconds.len(), of.end))?;
    let latencies: Vec<f64> =
        all.iter().flat_map(|line| line.split(' ')).filter_map(|word| word.parse().ok()).collect();
    if latencies.is_empty() {
        Err("a second has no wake-up".to_string())
    } else {
        Ok(latencies.iter().sum::<f64>() / latencies.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_some_seconds_is_over_their_wake_ups() {
        let seconds = [" 100 200", " 300", " 1000"].map(str::to_string);
        assert_eq!(mean(&seconds, 0..2), Ok(200.0));
        assert!(mean(&seconds, 2..4).is_err() && mean(&seconds, 1..1).is_err());
    }

    #[test]
    fn latencies_that_are_not_attributed_or_not_due_to_hogs_are_refused() {
        let (hog, hogs) = (7, BTreeSet::from([7]));
        let why = |attributed: u64, waited: u64, pid: u32| {
            let instead = serde_json::json!([{ "tid": pid, "pid": pid, "ran_ns": waited }]);
            serde_json::json!({
                "count": 100, "attributed": attributed,
                "parts": { "vcpu_wait_ns": waited, "path_ns": 100 },
                "wake_ups": [{ "latency_ns": waited + 100, "instead": instead }],
            })
        };
        let mut few = why(95, 900, hog);
        few["count"] = 49.into();
        let mut unequal = why(95, 900, hog);
        unequal["parts"]["path_ns"] = 101.into();
        assert_eq!(explained(&why(95, 900, hog), &hogs), Ok(()));
        for wrong in [why(94, 900, hog), why(95, 90, hog), why(95, 900, 1), few, unequal] {
            assert!(explained(&wrong, &hogs).is_err(), "{wrong}");
        }
    }
}
