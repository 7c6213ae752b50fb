//! [`Inbox`]: on the host, the latest hint of each vCPU.

use crate::wire::Hint;

/// The latest hints of a guest. Hints that arrive late, twice or about a vCPU that the guest lacks are dropped and counted.
#[derive(Clone, Debug)]
pub struct Inbox {
    latest: Vec<Option<Hint>>,
    /// Number of dropped hints.
    pub dropped: u64,
}

impl Inbox {
    /// The inbox of a guest with `vcpus` vCPUs, without hints.
    #[must_use]
    pub fn new(vcpus: usize) -> Inbox {
        Inbox { latest: vec![None; vcpus], dropped: 0 }
    }

    /// Receives a hint. Returns whether it is now the latest of its vCPU.
    pub fn receive(&mut self, hint: Hint) -> bool {
        // Numbers wrap around: a hint is newer if it is less than half of their range ahead.
        let is_newer = |before: &Hint| hint.number.wrapping_sub(before.number).cast_signed() > 0;
        match self.latest.get_mut(usize::from(hint.vcpu)) {
            Some(latest) if latest.as_ref().is_none_or(is_newer) => {
                *latest = Some(hint);
                true
            }
            _ => {
                self.dropped += 1;
                false
            }
        }
    }

    /// Returns the latest hint of a vCPU.
    #[must_use]
    pub fn latest(&self, vcpu: usize) -> Option<&Hint> {
        self.latest.get(vcpu)?.as_ref()
    }

    /// Forgets all hints: the agent has started or ended.
    pub fn clear(&mut self) {
        self.latest.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GuestChoice;
    use crate::wire::Sources;
    use sched::Instant;

    fn hint(vcpu: u16, number: u32) -> Hint {
        let choice = GuestChoice { runs: false, task_boost: None, waits: false, sleeps: false, locked: false };
        Hint { vcpu, number, sent: Instant::ZERO, choice, expiry: None, sources: Sources::default() }
    }

    #[test]
    fn only_newer_hints_of_known_vcpus_are_kept() {
        let mut inbox = Inbox::new(2);
        let received = [(0, 7), (0, 7), (0, 6), (1, 3), (0, 9), (2, 1), (0, 8)];
        let kept = received.map(|(vcpu, number)| inbox.receive(hint(vcpu, number)));
        assert_eq!(kept, [true, false, false, true, true, false, false]);
        assert_eq!((inbox.latest(0).unwrap().number, inbox.latest(1).unwrap().number), (9, 3));
        assert_eq!((inbox.latest(2), inbox.dropped), (None, 4));
        inbox.clear();
        assert!(inbox.latest(0).is_none() && inbox.receive(hint(0, 1)));
    }

    #[test]
    fn numbers_wrap_around() {
        let mut inbox = Inbox::new(1);
        let kept = [u32::MAX - 1, u32::MAX, 0, u32::MAX, 1].map(|number| inbox.receive(hint(0, number)));
        assert_eq!(kept, [true, true, true, false, true]);
    }
}
