//! Who waits for whom: that everybody who waits can be woken, and that no loop goes round in no time.

use super::event::Event;
use super::file::{Phase, Thread};
use super::forks::Forks;
use crate::problem::{Findings, Problem, quoted};
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// As many rounds without any time are taken for endless: they would all be done at one moment.
const ROUNDS_AT_ONCE_MAX: u64 = 1 << 20;

/// Reports waits that cannot end, and loops without end that take no time.
pub(super) fn check(threads: &[Thread<'_>], forks: &Forks, findings: &mut Findings) {
    let signallers = signallers(threads, forks);
    unwoken(threads, forks, &signallers, findings);
    barriers(threads, forks, findings);
    timers(threads, forks, findings);
    if findings.is_empty() {
        Pace::of(threads, forks, &signallers).report(threads, findings);
    }
}

/// All events of a thread.
fn events<'t, 'f>(thread: &'t Thread<'f>) -> impl Iterator<Item = (Event<'f>, Span)> + use<'t, 'f> {
    thread.phases.iter().flat_map(|phase| phase.events.iter().copied())
}

/// Those that are there at some time.
fn alive<'t, 'f>(threads: &'t [Thread<'f>], forks: &Forks) -> impl Iterator<Item = (usize, &'t Thread<'f>)> {
    threads.iter().enumerate().filter(|&(i, _)| forks.alive[i])
}

/// The condition that `event` waits for.
fn waits_for<'f>(event: Event<'f>) -> Option<&'f str> {
    match event {
        Event::Wait { condition, .. } | Event::Sync { condition, .. } => Some(condition),
        Event::Suspend(name) => Some(name),
        _ => None,
    }
}

/// The condition that `event` signals.
fn signals(event: Event<'_>) -> Option<&str> {
    match event {
        Event::Signal(name) | Event::Broadcast(name) | Event::Resume(name) => Some(name),
        Event::Sync { condition, .. } => Some(condition),
        _ => None,
    }
}

/// Who signals each condition.
type Signallers<'f> = BTreeMap<&'f str, BTreeSet<usize>>;

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
fn is_many(thread: &Thread<'_>, forked: bool) -> bool {
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
            let problem = Problem::new(format!("nobody else {what} {}", quoted(name))).at(at, "waits for ever");
            findings.add(problem.help(format!("right would be another thread with {right} of that name")));
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
                let right =
                    "right would be threads that are there from the beginning: how many are forked is not known before";
                findings.add(problem.at(at, "who else comes?").help(right));
            } else if names.insert(name) {
                let (count, _) = comers.entry(name).or_insert((0, at));
                *count = count.saturating_add(thread.instances.value);
            }
        }
    }
    for (name, (comers, at)) in comers {
        let waits_for = parties[name];
        if waits_for <= 1 {
            let problem = Problem::new(format!("nobody else comes to the barrier {}", quoted(name))).at(at, "alone");
            findings.add(problem.help("right would be another thread with the same barrier"));
        } else if waits_for > comers {
            let message = format!("the barrier {} waits for {waits_for}, and only {comers} come to it", quoted(name));
            let right = "right would be each barrier once in a thread: it waits for as many as name it";
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
                findings
                    .add(problem.help("right would be a `ref` that begins with \"unique\": each thread has its own"));
                break;
            }
        }
    }
}

/// A loop without end.
#[derive(Debug)]
struct Round<'f> {
    thread: usize,
    /// Where to point at.
    at: Span,
    events: Vec<Event<'f>>,
}

/// Which loops without end take time: by themselves, or because they wait for somebody whose loops do.
#[derive(Debug)]
struct Pace<'f> {
    rounds: Vec<Round<'f>>,
    paced: Vec<bool>,
}

impl<'f> Pace<'f> {
    fn of(threads: &[Thread<'f>], forks: &Forks, signallers: &Signallers<'f>) -> Pace<'f> {
        let rounds: Vec<Round<'f>> = alive(threads, forks).flat_map(|(i, thread)| rounds(i, thread)).collect();
        let mut pace = Pace { paced: vec![false; rounds.len()], rounds };
        // How many loops of each thread are not known to take time; then, who of those that signal a condition has such loops.
        let mut unpaced = vec![0_usize; threads.len()];
        let mut waiters: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut at_barrier: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, round) in pace.rounds.iter().enumerate() {
            unpaced[round.thread] += 1;
            for &event in &round.events {
                if let Some(name) = waits_for(event) {
                    waiters.entry(name).or_default().push(number);
                }
                if let Event::Barrier(name) = event {
                    at_barrier.entry(name).or_default().push(number);
                }
            }
        }
        let mut slow: BTreeMap<&str, BTreeSet<usize>> = signallers.clone();
        for all in slow.values_mut() {
            all.retain(|&i| unpaced[i] > 0);
        }
        let mut signals_of: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); threads.len()];
        let mut barriers_of: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); threads.len()];
        for (i, thread) in alive(threads, forks) {
            for (event, _) in events(thread) {
                signals_of[i].extend(signals(event));
                if let Event::Barrier(name) = event {
                    barriers_of[i].insert(name);
                }
            }
        }
        let mut due: Vec<usize> = (0..pace.rounds.len())
            .filter(|&number| pace.rounds[number].events.iter().any(|&event| takes_time(event)))
            .collect();
        // Whoever waits for those that have no loop without end.
        for (name, numbers) in &waiters {
            due.extend(numbers.iter().filter(|&&number| wakes(&slow, name, pace.rounds[number].thread)));
        }
        for (i, thread) in alive(threads, forks).filter(|&(i, _)| unpaced[i] == 0) {
            let names = events(thread)
                .filter_map(|(event, _)| if let Event::Barrier(name) = event { Some(name) } else { None });
            for name in names {
                due.extend(others(&at_barrier, name, &pace.rounds, i));
            }
        }
        while let Some(number) = due.pop() {
            if std::mem::replace(&mut pace.paced[number], true) {
                continue;
            }
            let thread = pace.rounds[number].thread;
            unpaced[thread] -= 1;
            if unpaced[thread] > 0 {
                continue;
            }
            for name in &signals_of[thread] {
                let Some(slow_ones) = slow.get_mut(name) else { continue };
                slow_ones.remove(&thread);
                if slow_ones.len() <= 1 {
                    let numbers = waiters.get(name).into_iter().flatten().copied();
                    due.extend(numbers.filter(|&number| wakes(&slow, name, pace.rounds[number].thread)));
                }
            }
            for name in &barriers_of[thread] {
                due.extend(others(&at_barrier, name, &pace.rounds, thread));
            }
        }
        pace
    }

    fn report(&self, threads: &[Thread<'_>], findings: &mut Findings) {
        for (round, _) in self.rounds.iter().zip(&self.paced).filter(|&(_, &paced)| !paced) {
            let problem = Problem::new(format!(
                "{} goes round without end and without taking any time",
                quoted(threads[round.thread].name)
            ));
            let right = "right would be a `run`, `sleep` or `timer` above zero in it, or an end: \"loop\" : 10";
            findings.add(problem.at(round.at, "takes no time").help(right));
        }
    }
}

/// Whether all that wake `thread` by the condition `name` take time. It does not wake itself.
fn wakes(slow: &BTreeMap<&str, BTreeSet<usize>>, name: &str, thread: usize) -> bool {
    slow.get(name).is_some_and(|slow| slow.iter().all(|&other| other == thread))
}

/// The loops of others than `thread` that come to the barrier `name`.
fn others<'a>(
    at_barrier: &'a BTreeMap<&str, Vec<usize>>,
    name: &str,
    rounds: &'a [Round<'_>],
    thread: usize,
) -> impl Iterator<Item = usize> + use<'a> {
    let numbers = at_barrier.get(name).into_iter().flatten().copied();
    numbers.filter(move |&number| rounds[number].thread != thread)
}

fn takes_time(event: Event<'_>) -> bool {
    match event {
        Event::Run(time) | Event::Sleep(time) | Event::Timer { period: time, .. } => !time.is_zero(),
        _ => false,
    }
}

/// The loops of a thread that have no end, or as good as none.
fn rounds<'f>(number: usize, thread: &Thread<'f>) -> Vec<Round<'f>> {
    let is_endless = |rounds: Option<u64>| rounds.is_none_or(|rounds| rounds > ROUNDS_AT_ONCE_MAX);
    let of = |phases: &[Phase<'f>], at| {
        let phases = phases.iter().filter(|phase| phase.rounds != Some(0));
        Round {
            thread: number,
            at,
            events: phases.flat_map(|phase| phase.events.iter().map(|&(event, _)| event)).collect(),
        }
    };
    let mut rounds = Vec::new();
    for phase in thread.phases.iter().filter(|phase| is_endless(phase.rounds)) {
        rounds.push(of(std::slice::from_ref(phase), phase.at));
        if phase.rounds.is_none() {
            return rounds;
        }
    }
    if is_endless(thread.rounds) {
        rounds.push(of(&thread.phases, thread.at));
    }
    rounds
}
