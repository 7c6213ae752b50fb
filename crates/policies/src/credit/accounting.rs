//! Credits: the conversion of CPU time to burnt credits, and the credits that each domain earns per accounting period.

use crate::credit::domains::Domain;
use crate::credit::settings::{Charging, Settings};
use sched::Nanos;

/// The credits of one entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Account {
    /// Remaining credits; negative after an overrun.
    pub(crate) credit: i64,
    /// CPU time that has not been converted to burnt credits yet, in nanoseconds. Its magnitude is at most half a
    /// credit if charges are rounded to the nearest credit. If charges are rounded down, it is less than a credit.
    remainder: i64,
}

impl Account {
    /// Burns a whole number of credits for `ran` and the previous remainder, and keeps the new remainder. Does nothing
    /// if only ticks charge.
    pub(crate) fn burn(&mut self, ran: Nanos, settings: &Settings) {
        let credit = settings.credit.as_ns().cast_signed();
        let rounding = match settings.charging {
            Charging::Nearest => credit / 2,
            Charging::Floor => 0,
            Charging::Sampled => return,
        };
        self.remainder += ran.as_ns().cast_signed();
        if self.remainder <= 0 {
            return;
        }
        let burnt = (self.remainder + rounding) / credit;
        self.credit -= burnt;
        self.remainder -= burnt * credit;
    }
}

/// The result of one accounting for a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    /// Credits for each active member.
    pub(crate) each: i64,
    /// Credit below which an OVER entity is parked; `None`: no cap.
    pub(crate) park_below: Option<i64>,
    /// Whether the domain moves to the head of the list of active domains.
    pub(crate) to_head: bool,
}

/// The state of an accounting: the credits still to be distributed, while the active domains are visited in the order
/// of their list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Credits that one CPU earns in a period.
    per_cpu: u128,
    /// The total T of which each domain earns the fraction given by its weight. T grows so that the remaining domains
    /// receive the leftovers of visited domains.
    total: u128,
    /// Total weight of all active domains.
    weight: u128,
    /// Total weight of the domains that have not been visited yet.
    weight_left: u128,
    /// Amount by which the sum of all active accounts was negative after the last accounting; 0 if it was not negative.
    debt: u128,
    /// Whether a domain that has been visited could have used more credits than it received.
    wanting: bool,
}

impl Round {
    /// Begins an accounting. `per_cpu` and `balance` are in credits; `weight` is the total weight of all active
    /// domains.
    pub(crate) fn new(cpus: usize, per_cpu: i64, balance: i64, weight: u64) -> Round {
        let debt = u128::from(balance.min(0).unsigned_abs());
        let per_cpu = u128::from(per_cpu.unsigned_abs());
        let weight = u128::from(weight);
        Round { per_cpu, total: per_cpu * cpus as u128 + debt, weight, weight_left: weight, debt, wanting: false }
    }

    /// Returns the credits for the next domain of the list.
    pub(crate) fn grant(&mut self, domain: &Domain) -> Grant {
        let (weight, members) = (u128::from(domain.counted), u128::from(domain.active));
        self.weight_left -= weight;
        // The peak is the credit with which all active members run throughout the period, plus the domain's part of the
        // debt. The cap limits the peak.
        let mut peak = members * self.per_cpu + (self.debt * weight).div_ceil(self.weight);
        let mut park_below = None;
        if let Some(percent) = domain.cap {
            let cap = (u128::from(percent) * self.per_cpu).div_ceil(100);
            peak = peak.min(cap);
            park_below = Some(-signed(cap.div_ceil(members)));
        }
        let fair = (self.total * weight).div_ceil(self.weight);
        if fair < peak {
            self.wanting = true;
            return Grant { each: signed(fair.div_ceil(members)), park_below, to_head: false };
        }
        if self.weight_left > 0 {
            self.total += ((fair - peak) * self.weight).div_ceil(self.weight_left);
        }
        Grant { each: signed(peak.div_ceil(members)), park_below, to_head: self.wanting }
    }
}

fn signed(credits: u128) -> i64 {
    i64::try_from(credits).expect("a grant is at most what all CPUs earn, and the debt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(charging: &str) -> Settings {
        let mut knobs = crate::credit::POLICY.defaults();
        knobs.set_word("charging", charging).expect("a way to charge");
        Settings::read(&knobs)
    }

    #[test]
    fn burning_rounds_to_the_nearest_credit_and_forgets_nothing() {
        let nearest = settings("nearest");
        let mut account = Account::default();
        account.burn(Nanos::us(49), &nearest);
        assert_eq!(account.credit, 0);
        account.burn(Nanos::us(1), &nearest);
        assert_eq!((account.credit, account.remainder), (-1, -50_000), "50 us are a credit");
        for _ in 0..1_000 {
            account.burn(Nanos::ns(12_345), &nearest);
        }
        assert_eq!(account.credit, -124, "12.395 ms are 124 credits");
    }

    #[test]
    fn burning_may_round_down_and_forgets_nothing_either() {
        let floor = settings("floor");
        let mut account = Account::default();
        account.burn(Nanos::us(99), &floor);
        assert_eq!((account.credit, account.remainder), (0, 99_000));
        account.burn(Nanos::us(2), &floor);
        assert_eq!((account.credit, account.remainder), (-1, 1_000));
        account.burn(Nanos::ms(7), &settings("sampled"));
        assert_eq!((account.credit, account.remainder), (-1, 1_000), "only ticks charge");
    }
}
