//! Follows the mutexes of threads, event by event. Checks that no thread unlocks a mutex that it does not hold, locks a
//! mutex twice, or holds a mutex forever.

use super::event::Event;
use super::file::Thread;
use input::problem::{Findings, Problem, quoted};
use input::source::Span;
use std::collections::BTreeMap;

/// The mutexes that a thread holds, with the spans of the events that acquired the mutexes.
type Held<'f> = BTreeMap<&'f str, Span>;

/// Follows `thread` through at most two rounds of each loop. Stops at the first problem, and after two rounds of an
/// endless phase.
///
/// Records for each sync event whether the event must acquire its mutex first.
pub(super) fn check(thread: &mut Thread<'_>, findings: &mut Findings) {
    let mut held = Held::new();
    let twice = |rounds: Option<u64>| rounds.map_or(2, |rounds| rounds.min(2));
    for round in 0..twice(thread.rounds) {
        for phase in &mut thread.phases {
            for again in 0..twice(phase.rounds) {
                for (event, at) in &mut phase.events {
                    if let Event::Sync { mutex, locks, .. } = event
                        && round == 0
                        && again == 0
                    {
                        *locks = !held.contains_key(mutex);
                    }
                    if let Err(problem) = follow(*event, *at, &mut held) {
                        findings.add(*problem);
                        return;
                    }
                }
            }
            if phase.rounds.is_none() {
                return;
            }
        }
    }
    if let (Some((name, &at)), Some(_)) = (held.iter().min_by_key(|(_, at)| **at), thread.rounds) {
        let problem = Problem::new(format!("the mutex {} is never unlocked", quoted(name))).at(at, "locked here");
        findings.add(problem.help(format!("use \"unlock\" : \"{}\" before the thread ends", shown(name))));
    }
}

/// Updates the mutexes `held` after `event`.
fn follow<'f>(event: Event<'f>, at: Span, held: &mut Held<'f>) -> Result<(), Box<Problem>> {
    let again = |held: &Held<'_>, mutex: &str| match held.get(mutex) {
        None => Ok(()),
        Some(&first) => {
            let problem = Problem::new(format!("the thread locks the mutex {} twice", quoted(mutex)));
            let problem = problem.at(at, "waits for itself").at(first, "locked here");
            Err(Box::new(problem.help(format!("use \"unlock\" : \"{}\" in between", shown(mutex)))))
        }
    };
    match event {
        Event::Lock(mutex) => {
            again(held, mutex)?;
            held.insert(mutex, at);
        }
        Event::Unlock(mutex) => {
            held.remove(mutex).ok_or_else(|| {
                let message = format!("the thread unlocks the mutex {} without holding it", quoted(mutex));
                let right = format!("use \"lock\" : \"{}\" before it", shown(mutex));
                Box::new(Problem::new(message).at(at, "not held").help(right))
            })?;
        }
        Event::Wait { mutex, .. } if !held.contains_key(mutex) => {
            let problem = Problem::new(format!("the thread waits without holding the mutex {}", quoted(mutex)));
            let right = format!("use \"lock\" : \"{}\" before it and \"unlock\" after it", shown(mutex));
            return Err(Box::new(problem.at(at, "not held").help(right)));
        }
        Event::Sync { mutex, locks: true, .. } => again(held, mutex)?,
        // Both events acquire the mutex `name`.
        Event::Suspend(name) | Event::Resume(name) => again(held, name)?,
        _ => {}
    }
    Ok(())
}

/// Returns `name` with `?` in place of unprintable characters, truncated to 60 characters.
fn shown(name: &str) -> String {
    quoted(name).trim_matches('`').to_string()
}
