//! [`Bursts`]: the CPU time of a thread between its sleeps.

use std::collections::VecDeque;

/// Number of bursts that are kept, as the interface has them.
const BURSTS_MOST: usize = 1_000;

/// The latest bursts of a thread, each with the sleep after it.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    ran_ns: u64,
    slept_ns: u64,
    past: VecDeque<[u64; 2]>,
}

impl Bursts {
    /// Adds CPU time. A sleep before it ends the burst before.
    pub(crate) fn run(&mut self, ns: u64) {
        self.wake();
        self.ran_ns += ns;
    }

    /// Adds time in which the thread slept.
    pub(crate) fn sleep(&mut self, ns: u64) {
        self.slept_ns += ns;
    }

    /// Ends a sleep.
    pub(crate) fn wake(&mut self) {
        if self.slept_ns > 0 {
            if self.past.len() == BURSTS_MOST {
                self.past.pop_front();
            }
            self.past.push_back([self.ran_ns, self.slept_ns]);
            (self.ran_ns, self.slept_ns) = (0, 0);
        }
    }

    /// Returns the bursts. A thread that ran and never slept has one burst without a sleep.
    pub(crate) fn all(&self) -> Vec<[u64; 2]> {
        let is_busy = self.past.is_empty() && self.slept_ns == 0 && self.ran_ns > 0;
        if is_busy { vec![[self.ran_ns, 0]] } else { self.past.iter().copied().filter(|[ran, _]| *ran > 0).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_with_the_sleep_after_it() {
        let mut bursts = Bursts::default();
        bursts.run(5);
        assert_eq!(bursts.all(), [[5, 0]]);
        bursts.sleep(3);
        bursts.sleep(4);
        assert_eq!(bursts.all(), [[0; 2]; 0]);
        bursts.wake();
        bursts.run(2);
        bursts.run(1);
        bursts.sleep(9);
        bursts.run(1);
        assert_eq!(bursts.all(), [[5, 7], [3, 9]]);
        for _ in 0..BURSTS_MOST {
            bursts.run(1);
            bursts.sleep(1);
        }
        bursts.wake();
        assert_eq!((bursts.all().len(), bursts.all()[0]), (BURSTS_MOST, [2, 1]));
    }
}
