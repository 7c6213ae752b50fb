//! The events that wait for a condition, and the threads that signal it.

use super::event::Event;
use super::file::Thread;
use super::forks::Forks;
use input::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Returns all events of a thread.
pub(super) fn events<'t, 'f>(thread: &'t Thread<'f>) -> impl Iterator<Item = (Event<'f>, Span)> + use<'t, 'f> {
    thread.phases.iter().flat_map(|phase| phase.events.iter().copied())
}

/// Returns the threads that exist at some time.
pub(super) fn alive<'t, 'f>(threads: &'t [Thread<'f>], forks: &Forks) -> impl Iterator<Item = (usize, &'t Thread<'f>)> {
    threads.iter().enumerate().filter(|&(i, _)| forks.alive[i])
}

/// Returns the condition that `event` waits for.
pub(super) fn waits_for<'f>(event: Event<'f>) -> Option<&'f str> {
    match event {
        Event::Wait { condition, .. } | Event::Sync { condition, .. } => Some(condition),
        Event::Suspend(name) => Some(name),
        _ => None,
    }
}

/// Returns the condition that `event` signals.
pub(super) fn signals(event: Event<'_>) -> Option<&str> {
    match event {
        Event::Signal(name) | Event::Broadcast(name) | Event::Resume(name) => Some(name),
        Event::Sync { condition, .. } => Some(condition),
        _ => None,
    }
}

/// The threads that signal each condition.
pub(super) type Signallers<'f> = BTreeMap<&'f str, BTreeSet<usize>>;

/// Returns the threads that signal each condition. Includes only threads that exist at some time.
pub(super) fn signallers<'f>(threads: &[Thread<'f>], forks: &Forks) -> Signallers<'f> {
    let mut all = Signallers::new();
    for (i, thread) in alive(threads, forks) {
        for name in events(thread).filter_map(|(event, _)| signals(event)) {
            all.entry(name).or_default().insert(i);
        }
    }
    all
}

/// Returns whether several instances of `thread` can exist. These instances can wake each other.
pub(super) fn is_many(thread: &Thread<'_>, forked: bool) -> bool {
    thread.instances.value > 1 || forked
}
