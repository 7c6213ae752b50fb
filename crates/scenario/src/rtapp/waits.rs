//! The waits between threads: checks that every waiting thread can be woken.

use super::event::Event;
use super::file::Thread;
use super::forks::Forks;
use super::pace;
use input::problem::{Findings, Problem, quoted};
use input::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Reports waits that cannot end and, where there are none, loops without end that take no time.
pub(super) fn check(threads: &[Thread<'_>], forks: &Forks, findings: &mut Findings) {
    let signallers = signallers(threads, forks);
    unwoken(threads, forks, &signallers, findings);
    barriers(threads, forks, findings);
    timers(threads, forks, findings);
    if findings.is_empty() {
        pace::check(threads, forks, &signallers, findings);
    }
}

/// All events of a thread.
pub(super) fn events<'t, 'f>(thread: &'t Thread<'f>) -> impl Iterator<Item = (Event<'f>, Span)> + use<'t, 'f> {
    thread.phases.iter().flat_map(|phase| phase.events.iter().copied())
}

/// The threads that ever exist.
pub(super) fn alive<'t, 'f>(threads: &'t [Thread<'f>], forks: &Forks) -> impl Iterator<Item = (usize, &'t Thread<'f>)> {
    threads.iter().enumerate().filter(|&(i, _)| forks.alive[i])
}

/// The condition that `event` waits for.
pub(super) fn waits_for<'f>(event: Event<'f>) -> Option<&'f str> {
    match event {
        Event::Wait { condition, .. } | Event::Sync { condition, .. } => Some(condition),
        Event::Suspend(name) => Some(name),
        _ => None,
    }
}

/// The condition that `event` signals.
pub(super) fn signals(event: Event<'_>) -> Option<&str> {
    match event {
        Event::Signal(name) | Event::Broadcast(name) | Event::Resume(name) => Some(name),
        Event::Sync { condition, .. } => Some(condition),
        _ => None,
    }
}

/// The threads that signal each condition.
pub(super) type Signallers<'f> = BTreeMap<&'f str, BTreeSet<usize>>;

fn signallers<'f>(threads: &[Thread<'f>], forks: &Forks) -> Signallers<'f> {
    let mut all = Signallers::new();
    for (i, thread) in alive(threads, forks) {
        for name in events(thread).filter_map(|(event, _)| signals(event)) {
            all.entry(name).or_default().insert(i);
        }
    }
    all
}

/// Whether there are several threads of this kind, which can wake each other.
pub(super) fn is_many(thread: &Thread<'_>, forked: bool) -> bool {
    thread.instances.value > 1 || forked
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

/// A barrier waits for as many as name it, as in rt-app: a thread that names it twice counts twice.
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
                let problem = Problem::new(format!("a forked thread comes to the barrier {}", quoted(name)));
                let right = "use threads that exist from the start: how many are forked is not known before";
                findings.add(problem.at(at, "an unknown number comes").help(right));
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
                Problem::new(format!("no other thread comes to the barrier {}", quoted(name))).at(at, "alone");
            findings.add(problem.help("use another thread with the same barrier"));
        } else if waits_for > comers {
            let message = format!("the barrier {} waits for {waits_for}, and only {comers} come to it", quoted(name));
            let right = "use each barrier once in a thread: it waits for as many as name it";
            findings.add(Problem::new(message).at(at, "waits for ever").help(right));
        }
    }
}

/// A timer that several threads share is a beat that each of them uses up.
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
                let problem = problem.at(at, "each would use up the others' periods");
                findings.add(problem.help("use a `ref` that begins with \"unique\": each thread has its own"));
                break;
            }
        }
    }
}
