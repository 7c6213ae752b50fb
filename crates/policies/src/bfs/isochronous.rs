//! SCHED_ISO: the fraction of recent ticks at which a real-time or isochronous entity ran, and the limit of this
//! fraction.

use sched::Nanos;

/// Units that a tick adds to the account if a real-time or isochronous entity runs on its CPU.
const UNIT: u64 = 100;
/// The window over which the account decays.
const WINDOW: Nanos = Nanos::s(5);

/// The account of real-time and isochronous ticks, with its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    period: u64,
    percent: u64,
    ticks: u64,
    refractory: bool,
}

impl Account {
    /// Creates an account for `cpus` CPUs that tick every `tick`. The limit is `percent` of the maximum of the account.
    pub(crate) fn new(tick: Nanos, cpus: usize, percent: u64) -> Account {
        let period = WINDOW.as_ns() / tick.as_ns() * cpus as u64 + 1;
        Account { period, percent, ticks: 0, refractory: false }
    }

    /// Accounts for one tick of a CPU. `urgent`: the CPU runs a real-time or isochronous entity.
    pub(crate) fn tick(&mut self, urgent: bool) {
        self.ticks = if urgent {
            (self.ticks + UNIT).min(self.period * UNIT)
        } else {
            self.ticks.saturating_sub(self.ticks / self.period + 1)
        };
        if self.ticks > self.period * self.percent {
            self.refractory = true;
        } else if self.ticks < self.period * (self.percent * 115 / 128) {
            self.refractory = false;
        }
    }

    /// Returns whether isochronous entities are ranked as normal entities.
    pub(crate) fn is_refractory(&self) -> bool {
        self.refractory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_for_too_long_is_refractory_until_it_has_paid_off() {
        // One CPU with ticks of 1 ms: the window of 5 s has 5,000 ticks, so the account decays by about 1/5,001 per
        // tick.
        let mut account = Account::new(Nanos::ms(1), 1, 70);
        let mut ticks = 0;
        while !account.is_refractory() {
            account.tick(true);
            ticks += 1;
        }
        assert_eq!(ticks, 5_001 * 70 / 100 + 1, "3.5 s of it alone");
        let mut paid = 0;
        while account.is_refractory() {
            account.tick(false);
            paid += 1;
        }
        // While the account falls from 70 to 62 %, it decays by 71 units per tick at first and by 63 units at the end.
        assert!((580..640).contains(&paid), "{paid}");
        // At 70 %, the account gains as much as it loses if 71 of 171 ticks (41.5 %) are urgent.
        (0..100_000).for_each(|n| account.tick(n % 100 < 41));
        assert!(!account.is_refractory());
        (0..100_000).for_each(|n| account.tick(n % 100 < 43));
        assert!(account.is_refractory());
    }
}
