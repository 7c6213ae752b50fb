//! Finds endless loops that take no time: their own events take no time, and they wait only for threads with such
//! loops.

use super::conditions::{Signallers, alive, events, is_many, signals, waits_for};
use super::event::Event;
use super::file::{Phase, Thread};
use super::forks::Forks;
use input::problem::{Findings, Problem, quoted};
use input::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rounds of a loop that takes no time. A loop with more rounds counts as endless, because all its
/// rounds would happen at one instant.
const ROUNDS_AT_ONCE_MAX: u64 = 1 << 20;

/// Reports the endless loops that take no time.
pub(super) fn check(threads: &[Thread<'_>], forks: &Forks, signallers: &Signallers<'_>, findings: &mut Findings) {
    let mut pace = Pace::new(threads, forks, signallers);
    pace.begin(threads, forks);
    pace.spread();
    for (round, _) in pace.rounds.iter().zip(&pace.paced).filter(|&(_, &paced)| !paced) {
        let name = quoted(threads[round.thread].name);
        let problem = Problem::new(format!("{name} loops without end and without using time"));
        let right = "use a `run`, `sleep` or `timer` above zero in it, or an end: \"loop\" : 10";
        findings.add(problem.at(round.at, "takes no time").help(right));
    }
}

/// A loop without end, or with more than [`ROUNDS_AT_ONCE_MAX`] rounds.
#[derive(Debug)]
struct Round<'f> {
    thread: usize,
    /// Span of the name of the phase or thread, for error messages.
    at: Span,
    events: Vec<Event<'f>>,
}

/// The loops and threads that wait at a barrier.
#[derive(Debug, Default)]
struct Meeting {
    /// Loops with an event at the barrier.
    rounds: Vec<usize>,
    /// First thread found whose loops all take time.
    slow: Option<usize>,
}

/// The endless loops that are known to take time, and the data from which further such loops are derived.
#[derive(Debug)]
struct Pace<'f> {
    rounds: Vec<Round<'f>>,
    /// Whether each loop is known to take time, by loop.
    paced: Vec<bool>,
    /// Number of loops that are not known to take time, by thread.
    unpaced: Vec<usize>,
    /// Whether several instances of the thread can exist, by thread.
    many: Vec<bool>,
    /// Loops that wait for each condition.
    waiters: BTreeMap<&'f str, Vec<usize>>,
    /// Threads that signal each condition and have a loop that is not known to take time.
    quick: BTreeMap<&'f str, BTreeSet<usize>>,
    /// Loops and threads that wait at each barrier.
    barriers: BTreeMap<&'f str, Meeting>,
    /// Conditions that each thread signals, by thread. Emptied when all loops of the thread have become known to take
    /// time.
    signals_of: Vec<BTreeSet<&'f str>>,
    /// Barriers at which each thread waits, by thread. Emptied when all loops of the thread are known to take time.
    barriers_of: Vec<BTreeSet<&'f str>>,
    /// Loops that are known to take time and not yet processed.
    due: Vec<usize>,
}

impl<'f> Pace<'f> {
    fn new(threads: &[Thread<'f>], forks: &Forks, signallers: &Signallers<'f>) -> Pace<'f> {
        let rounds: Vec<Round<'f>> = alive(threads, forks).flat_map(|(i, thread)| rounds(i, thread)).collect();
        let mut pace = Pace {
            paced: vec![false; rounds.len()],
            unpaced: vec![0; threads.len()],
            many: threads.iter().zip(&forks.forked).map(|(thread, &forked)| is_many(thread, forked)).collect(),
            waiters: BTreeMap::new(),
            quick: signallers.clone(),
            barriers: BTreeMap::new(),
            signals_of: vec![BTreeSet::new(); threads.len()],
            barriers_of: vec![BTreeSet::new(); threads.len()],
            due: Vec::new(),
            rounds,
        };
        for (number, round) in pace.rounds.iter().enumerate() {
            pace.unpaced[round.thread] += 1;
            for &event in &round.events {
                if let Some(name) = waits_for(event) {
                    pace.waiters.entry(name).or_default().push(number);
                }
                if let Event::Barrier(name) = event {
                    pace.barriers.entry(name).or_default().rounds.push(number);
                }
            }
        }
        for all in pace.quick.values_mut() {
            all.retain(|&i| pace.unpaced[i] > 0);
        }
        for (i, thread) in alive(threads, forks) {
            for (event, _) in events(thread) {
                pace.signals_of[i].extend(signals(event));
                if let Event::Barrier(name) = event {
                    pace.barriers_of[i].insert(name);
                }
            }
        }
        pace
    }

    /// Marks the loops that are initially known to take time: loops that take time themselves, and loops that wait for
    /// threads without endless loops.
    fn begin(&mut self, threads: &[Thread<'f>], forks: &Forks) {
        let takes_time = |round: &Round<'_>| round.events.iter().any(|&event| takes_time(event));
        let own = self.rounds.iter().enumerate().filter(|(_, round)| takes_time(round)).map(|(number, _)| number);
        self.due.extend(own);
        let names: Vec<&str> = self.waiters.keys().copied().collect();
        for name in names {
            self.wake(name);
        }
        for (i, _) in alive(threads, forks) {
            if self.unpaced[i] == 0 {
                self.meet(i);
            }
        }
    }

    fn spread(&mut self) {
        while let Some(number) = self.due.pop() {
            if std::mem::replace(&mut self.paced[number], true) {
                continue;
            }
            let thread = self.rounds[number].thread;
            self.unpaced[thread] -= 1;
            if self.unpaced[thread] > 0 {
                continue;
            }
            for name in std::mem::take(&mut self.signals_of[thread]) {
                let quick = self.quick.entry(name).or_default();
                // While several quick threads signal the condition, every waiter can be woken by a quick thread.
                if quick.remove(&thread) && quick.len() <= 1 {
                    self.wake(name);
                }
            }
            self.meet(thread);
        }
    }

    /// Marks the loops that wait for the condition `name` and are woken only by threads that take time. No thread wakes
    /// itself.
    fn wake(&mut self, name: &str) {
        let Some(quick) = self.quick.get(name) else { return };
        for &number in self.waiters.get(name).into_iter().flatten() {
            let thread = self.rounds[number].thread;
            if quick.iter().all(|&other| other == thread && !self.many[thread]) {
                self.due.push(number);
            }
        }
    }

    /// Records that `thread` takes time, and marks the loops of other threads that wait for it at a barrier.
    fn meet(&mut self, thread: usize) {
        for name in std::mem::take(&mut self.barriers_of[thread]) {
            let Some(meeting) = self.barriers.get_mut(name) else { continue };
            match meeting.slow {
                None => {
                    meeting.slow = Some(thread);
                    let (rest, others) =
                        meeting.rounds.iter().partition(|&&number| self.rounds[number].thread == thread);
                    meeting.rounds = rest;
                    self.due.extend::<Vec<usize>>(others);
                }
                Some(first) if first != thread => self.due.append(&mut meeting.rounds),
                Some(_) => {}
            }
        }
    }
}

fn takes_time(event: Event<'_>) -> bool {
    match event {
        Event::Run(time) | Event::Sleep(time) | Event::Timer { period: time, .. } => !time.is_zero(),
        _ => false,
    }
}

/// Returns the loops of a thread that have no end, or too many rounds for one instant.
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
