//! The outcome of a run: its log of actions and [`Stats`], or a [`Failure`].

use super::options::Options;
use rustc_hash::FxHasher;
use sched::{Action, Instant};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of accepted inputs and changes.
    pub accepted: u64,
    /// Number of refused requests.
    pub refused: u64,
    /// Hash over every action.
    pub actions: u64,
}

/// A run that broke a law.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Options of the smallest run found that still breaks a law.
    pub options: Options,
    /// Description of the broken law.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.options)
    }
}

impl std::error::Error for Failure {}

/// The record of one run.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) log: Vec<(Instant, Action)>,
}

impl Run {
    pub(super) fn stats(&self) -> Stats {
        let mut hash = FxHasher::default();
        self.log.hash(&mut hash);
        Stats { accepted: self.accepted, refused: self.refused, actions: hash.finish() }
    }

    /// Checks law 10. Returns a description of the first difference from another run of the same options.
    pub(super) fn difference(&self, again: &Run) -> Option<String> {
        let end = self.log.len().max(again.log.len());
        let shown = |entry: Option<&(Instant, Action)>| match entry {
            Some((at, action)) => format!("{action:?} at {at}"),
            None => "nothing more".to_string(),
        };
        let (a, b) = (0..end).map(|i| (self.log.get(i), again.log.get(i))).find(|(a, b)| a != b)?;
        Some(format!("law 10: the same inputs gave {}, and then {}", shown(a), shown(b)))
    }
}

/// Calls `run`. A panic becomes an error with its message.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(panic.as_ref())))
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".to_string())
}
