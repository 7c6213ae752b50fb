//! The forks between threads: checks that they end, and that the number of threads is bounded.

use super::event::Event;
use super::file::Thread;
use crate::SCENARIO_ENTITIES_MAX;
use input::problem::{Findings, Problem, nearest, quoted};
use input::source::Span;
use sched::Nanos;
use std::collections::BTreeMap;

/// Maximum number of generations of threads: the depth of nested forks.
const GENERATIONS_MAX: usize = 32;

/// The forks between the threads of a file.
#[derive(Debug)]
pub(super) struct Forks {
    /// Whether the thread exists at some time, by thread.
    pub(super) alive: Vec<bool>,
    /// Whether a thread forks this thread, by thread.
    pub(super) forked: Vec<bool>,
    /// The threads, each after its children.
    pub(super) order: Vec<usize>,
    /// Upper bound on the number of threads that exist at one time.
    pub(super) count: usize,
}

impl Forks {
    /// Returns the forks of the threads. `None`: a fork names an unknown thread, forks do not end, or the number of
    /// threads exceeds the maximum. `findings` contains the problem.
    pub(super) fn check(threads: &[Thread<'_>], duration: Option<Nanos>, findings: &mut Findings) -> Option<Forks> {
        let names: BTreeMap<&str, usize> = threads.iter().enumerate().map(|(i, thread)| (thread.name, i)).collect();
        let mut children: Vec<Vec<(usize, Span)>> = vec![Vec::new(); threads.len()];
        let mut right = true;
        for (parent, thread) in threads.iter().enumerate() {
            for &(event, at) in thread.phases.iter().flat_map(|phase| &phase.events) {
                let Event::Fork(name) = event else { continue };
                match names.get(name) {
                    Some(&child) => children[parent].push((child, at)),
                    None => {
                        right = false;
                        findings.add_at(at, || unknown_thread(name, at, &names));
                    }
                }
            }
        }
        if !right {
            return None;
        }
        let order = ordered(threads, &children, findings)?;
        let mut forks =
            Forks { alive: vec![false; threads.len()], forked: vec![false; threads.len()], order, count: 0 };
        // In reverse order, each thread precedes its children.
        for &parent in forks.order.iter().rev() {
            forks.alive[parent] |= threads[parent].instances.value > 0;
            if forks.alive[parent] {
                for &(child, _) in &children[parent] {
                    forks.alive[child] = true;
                    forks.forked[child] = true;
                }
            }
        }
        forks.count(threads, &names, duration, findings).then_some(forks)
    }

    /// Counts the threads. Returns whether their number is within the limit.
    fn count(
        &mut self,
        threads: &[Thread<'_>],
        names: &BTreeMap<&str, usize>,
        duration: Option<Nanos>,
        findings: &mut Findings,
    ) -> bool {
        // Upper bound on the number of threads at one time that descend from each thread, including the thread itself.
        let mut family: Vec<u64> = vec![1; threads.len()];
        for &parent in &self.order {
            let thread = &threads[parent];
            let round: Nanos =
                thread.phases.iter().map(super::file::Phase::length).fold(Nanos::ZERO, Nanos::saturating_add);
            let rounds = times(thread.rounds, round, duration);
            let mut sum: u64 = 1;
            for phase in &thread.phases {
                let own = phase.round_length();
                let times = rounds.saturating_mul(times(phase.rounds, own, duration));
                for &(event, at) in &phase.events {
                    let Event::Fork(name) = event else { continue };
                    let child = names[name];
                    let more = family[child].saturating_mul(times);
                    if more > SCENARIO_ENTITIES_MAX as u64 && threads[child].is_endless() && self.alive[parent] {
                        findings.add(bomb(name, at, duration));
                        return false;
                    }
                    // Forked threads that end by themselves count once for all repetitions of the loop. If the loop
                    // takes no time, all of them exist at one instant, and each counts.
                    let at_once = own.is_zero() && round.is_zero();
                    let ends = !threads[child].is_endless() && !at_once;
                    sum = sum.saturating_add(if ends { family[child] } else { more });
                    if sum > SCENARIO_ENTITIES_MAX as u64 && self.alive[parent] {
                        findings.add(bomb(name, at, duration));
                        return false;
                    }
                }
            }
            family[parent] = sum;
        }
        let mut all: u64 = 0;
        for (thread, family) in threads.iter().zip(family) {
            all = all.saturating_add(thread.instances.value.saturating_mul(family));
            if all > SCENARIO_ENTITIES_MAX as u64 {
                let problem =
                    Problem::new("there are too many threads").at(thread.instances.at, "too many from here on");
                findings.add(problem.help(format!("use at most {SCENARIO_ENTITIES_MAX} in all")));
                return false;
            }
        }
        self.count = usize::try_from(all).unwrap_or(usize::MAX);
        true
    }
}

/// Returns the maximum number of repetitions within `duration`, out of `rounds` repetitions that each take `length`.
fn times(rounds: Option<u64>, length: Nanos, duration: Option<Nanos>) -> u64 {
    let fit = match (duration, length.is_zero()) {
        (Some(duration), false) => duration.as_ns() / length.as_ns() + 1,
        _ => u64::MAX,
    };
    rounds.unwrap_or(u64::MAX).min(fit)
}

fn unknown_thread(name: &str, at: Span, names: &BTreeMap<&str, usize>) -> Problem {
    let problem = Problem::new(format!("there is no thread {} to fork", quoted(name))).at(at, "unknown thread");
    problem.help(match nearest(name, names.keys().copied()) {
        Some(near) => format!("did you mean `{near}`? use the name of one of the `tasks`"),
        None => "use the name of one of the `tasks`, which may have \"instance\" : 0".to_string(),
    })
}

fn bomb(name: &str, at: Span, duration: Option<Nanos>) -> Problem {
    let bound = if duration.is_some() { "within the duration" } else { "and no `duration` bounds them" };
    let message = format!("{} is forked without end: more than {SCENARIO_ENTITIES_MAX} threads {bound}", quoted(name));
    let right = "use a `loop` with an end around the fork, or a forked thread whose `loop` ends";
    Problem::new(message).at(at, "a fork bomb").help(right)
}

/// Returns the threads, each after its children. `None`: a thread descends from itself, or forks are too deep.
fn ordered(threads: &[Thread<'_>], children: &[Vec<(usize, Span)>], findings: &mut Findings) -> Option<Vec<usize>> {
    let mut order = Vec::with_capacity(threads.len());
    let mut done = vec![false; threads.len()];
    let mut on_path = vec![false; threads.len()];
    let mut generations = vec![1_usize; threads.len()];
    for start in 0..threads.len() {
        // The threads from `start` down, each with the number of its visited children.
        let mut path = vec![(start, 0)];
        while let Some((thread, next)) = path.last_mut() {
            let thread = *thread;
            if done[thread] {
                path.pop();
                continue;
            }
            on_path[thread] = true;
            let Some(&(child, at)) = children[thread].get(*next) else {
                done[thread] = true;
                on_path[thread] = false;
                order.push(thread);
                path.pop();
                continue;
            };
            if on_path[child] {
                let message = format!("{} descends from itself: a descendant forks it", quoted(threads[child].name));
                let problem = Problem::new(message).at(at, "a fork bomb").at(threads[child].at, "forked from here");
                findings.add(problem.help("use a thread that only other threads fork"));
                return None;
            }
            if !done[child] {
                path.push((child, 0));
                continue;
            }
            *next += 1;
            generations[thread] = generations[thread].max(generations[child] + 1);
            if generations[thread] > GENERATIONS_MAX {
                let problem = Problem::new("forks are too deep").at(at, format!("generation {}", generations[thread]));
                findings.add(problem.help(format!("use at most {GENERATIONS_MAX} generations")));
                return None;
            }
        }
    }
    Some(order)
}
