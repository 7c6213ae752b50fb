//! The waits between threads: checks that every waiting thread can be woken.

use super::conditions::{Signallers, alive, events, is_many, signallers, waits_for};
use super::event::Event;
use super::file::Thread;
use super::forks::Forks;
use super::pace;
use input::problem::{Findings, Problem, quoted};
use input::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Reports waits that cannot end, and timers that several threads share. If there are no problems, reports endless
/// loops that take no time.
pub(super) fn check(threads: &[Thread<'_>], forks: &Forks, findings: &mut Findings) {
    let signallers = signallers(threads, forks);
    unwoken(threads, forks, &signallers, findings);
    barriers(threads, forks, findings);
    timers(threads, forks, findings);
    if findings.is_empty() {
        pace::check(threads, forks, &signallers, findings);
    }
}

fn unwoken(threads: &[Thread<'_>], forks: &Forks, signallers: &Signallers<'_>, findings: &mut Findings) {
    for (i, thread) in alive(threads, forks) {
        for (event, at) in events(thread) {
            let Some(name) = waits_for(event) else { continue };
            let others = |all: &BTreeSet<usize>| all.iter().any(|&j| j != i || is_many(thread, forks.forked[i]));
            if signallers.get(name).is_some_and(others) {
                continue;
            }
            let (what, right) = match event {
                Event::Suspend(_) => ("resumes", "\"resume\""),
                _ => ("signals", "\"signal\", \"broad\" or \"sync\""),
            };
            let problem = Problem::new(format!("no other thread {what} {}", quoted(name))).at(at, "waits for ever");
            findings.add(problem.help(format!("use another thread with {right} of that name")));
        }
    }
}

/// Returns the number of threads that each barrier waits for. As in rt-app, a barrier waits for all threads that name
/// it. A thread that names a barrier twice counts twice.
pub(super) fn parties(threads: &[Thread<'_>], forks: &Forks) -> BTreeMap<String, u64> {
    let mut parties = BTreeMap::new();
    for (_, thread) in alive(threads, forks) {
        for (event, _) in events(thread) {
            if let Event::Barrier(name) = event {
                let count: &mut u64 = parties.entry(name.to_string()).or_default();
                *count = count.saturating_add(thread.instances.value);
            }
        }
    }
    parties
}

fn barriers(threads: &[Thread<'_>], forks: &Forks, findings: &mut Findings) {
    let parties = parties(threads, forks);
    let mut comers: BTreeMap<&str, (u64, Span)> = BTreeMap::new();
    for (i, thread) in alive(threads, forks) {
        let mut names = BTreeSet::new();
        for (event, at) in events(thread) {
            let Event::Barrier(name) = event else { continue };
            if forks.forked[i] {
                let problem = Problem::new(format!("a forked thread waits at the barrier {}", quoted(name)));
                let right =
                    "use threads that exist from the start: the number of forked threads is not known in advance";
                findings.add(problem.at(at, "an unknown number of threads").help(right));
            } else if names.insert(name) {
                let (count, _) = comers.entry(name).or_insert((0, at));
                *count = count.saturating_add(thread.instances.value);
            }
        }
    }
    for (name, (comers, at)) in comers {
        let waits_for = parties[name];
        if waits_for <= 1 {
            let problem =
                Problem::new(format!("no other thread waits at the barrier {}", quoted(name))).at(at, "alone");
            findings.add(problem.help("use another thread with the same barrier"));
        } else if waits_for > comers {
            let message =
                format!("the barrier {} waits for {waits_for} threads, and only {comers} arrive", quoted(name));
            let right = "use each barrier once in a thread: it waits for all threads that name it";
            findings.add(Problem::new(message).at(at, "waits for ever").help(right));
        }
    }
}

/// Reports a timer that several threads share. Each thread would consume expirations that the other threads wait for.
fn timers(threads: &[Thread<'_>], forks: &Forks, findings: &mut Findings) {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, thread) in alive(threads, forks) {
        for (event, at) in events(thread) {
            let Event::Timer { name, .. } = event else { continue };
            if name.starts_with("unique") {
                continue;
            }
            let user = *users.entry(name).or_insert(i);
            if user != i || is_many(thread, forks.forked[i]) {
                let problem = Problem::new(format!("the timer {} is shared by several threads", quoted(name)));
                let problem = problem.at(at, "each thread would use up periods of the others");
                findings.add(problem.help("use a `ref` that begins with \"unique\": each thread has its own"));
                break;
            }
        }
    }
}
