//! [`WakeUp`]: a wake-up of an urgent task, which an agent reports to a host that asks for it.

use crate::source::Source;
use sched::{Instant, Nanos};
use std::borrow::Cow;

/// The name of a task, as in /proc/TID/comm: at most 16 bytes without a zero, followed by zeros.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TaskName([u8; TaskName::SIZE]);

impl TaskName {
    /// Maximum length of a name. Unit: bytes.
    pub const SIZE: usize = 16;

    /// Returns the name that begins with `bytes`, up to the first zero or the maximum length.
    #[must_use]
    pub fn new(bytes: &[u8]) -> TaskName {
        let mut name = [0; TaskName::SIZE];
        for (to, from) in name.iter_mut().zip(bytes.iter().take_while(|byte| **byte != 0)) {
            *to = *from;
        }
        TaskName(name)
    }

    /// Returns the text of the name. A guest chooses it: it may have control characters.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(TaskName::SIZE);
        String::from_utf8_lossy(&self.0[..length])
    }

    pub(crate) fn words(self) -> [u64; 2] {
        let (low, high) = self.0.split_at(8);
        [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("a half has 8 bytes")))
    }

    pub(crate) fn of_words(words: [u64; 2]) -> TaskName {
        TaskName::new(&words.map(u64::to_le_bytes).concat())
    }
}

/// A wake-up of an urgent task, up to the instant at which the task ran. Instants are on the guest's CLOCK_MONOTONIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeUp {
    /// The vCPU on which the task slept, whose timer or interrupt woke it, from 0.
    pub slept_on: u16,
    /// The vCPU on which the task ran.
    pub vcpu: u16,
    /// Tid of the task in the guest.
    pub tid: u32,
    /// Name of the task.
    pub name: TaskName,
    /// What woke the task; `None`: another task on the same vCPU, or an unknown interrupt.
    pub source: Option<Source>,
    /// Instant at which the task should have run: the expiry of its timer, or else the instant at which it woke.
    pub due: Instant,
    /// Instant at which the task woke: from then on, it waited for its vCPU.
    pub woken: Instant,
    /// Instant at which the task ran.
    pub ran: Instant,
}

impl WakeUp {
    /// Returns the latency of the wake-up.
    #[must_use]
    pub fn latency(&self) -> Nanos {
        self.ran.saturating_since(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_a_zero_or_at_16_bytes() {
        for (bytes, text) in [
            (&b"bash\0rest"[..], "bash"),
            (b"", ""),
            (b"a-name-of-many-bytes", "a-name-of-many-b"),
            (b"\xff\n", "\u{fffd}\n"),
        ] {
            let name = TaskName::new(bytes);
            assert_eq!((name.text().as_ref(), TaskName::of_words(name.words())), (text, name));
        }
    }
}
