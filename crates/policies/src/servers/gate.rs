//! [`Gate`]: the admission control of servers, if enabled.
//!
//! On one CPU, the tests ensure that every budget is delivered by its deadline. Under earliest deadline first, Σ
//! budget/deadline ≤ 1 on a CPU is sufficient (Liu and Layland 1973, for deadlines equal to periods). Under
//! deadline-monotonic priorities, Π (1 + budget/deadline) ≤ 2 on a CPU is sufficient (Bini, Buttazzo and Buttazzo
//! 2003). The test with the product admits all sets that Liu and Layland's n·(2^(1/n) − 1) admits, and more. Both tests
//! assume that the entities of the servers are always runnable. On several CPUs with one queue, Xen's condition is that
//! the sum is at most the number of CPUs. For deadlines equal to periods, this condition is necessary, but not
//! sufficient.

use super::settings::{Order, Settings};
use crate::admission::{Admission, Full, ONE, Utilisation};
use sched::{CpuId, CpuSet, Refused, Reservation, Topology};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// All servers are admitted.
    Open,
    /// The sum of all densities is at most the number of CPUs; if servers are partitioned, the sum on each CPU is at
    /// most one.
    Sum,
    /// On each CPU, the product of one plus each density is at most two.
    Product,
}

/// The admission test of servers, with its accounts.
#[derive(Debug)]
pub(super) struct Gate {
    rule: Rule,
    partitioned: bool,
    /// Admission account of [`Rule::Sum`].
    books: Admission,
}

impl Gate {
    pub(super) fn new(host: &Topology, settings: &Settings) -> Gate {
        let own_cpu = settings.partitioned || host.cpus == 1;
        let rule = match settings.order {
            _ if !settings.closed => Rule::Open,
            Order::DeadlineMonotonic if own_cpu => Rule::Product,
            Order::DeadlineMonotonic | Order::EarliestDeadline => Rule::Sum,
        };
        let partitioned = settings.partitioned;
        Gate { rule, partitioned, books: Admission::new(host.cpus, 0, partitioned) }
    }

    /// Admits `asked` on `first` if possible, otherwise on the lowest CPU of `allowed` where the reservation fits.
    /// Returns `None` if all CPUs share one queue. `others` yields the densities of the admitted servers on a CPU.
    pub(super) fn admit<'a, I: Iterator<Item = &'a Utilisation>>(
        &mut self,
        asked: &Reservation,
        first: CpuId,
        allowed: &CpuSet,
        others: impl Fn(Option<CpuId>) -> I,
    ) -> Result<Option<CpuId>, Refused> {
        let density = Utilisation::density(asked);
        let answer = match self.rule {
            Rule::Open => Ok(self.partitioned.then_some(first)),
            Rule::Sum => self.books.admit(density, Some(first), allowed, others),
            Rule::Product if self.partitioned => {
                let mut open = std::iter::once(first).chain(allowed.iter());
                let found = open.find(|&cpu| density.units_up() <= left_of_two(others(Some(cpu))));
                found.map(Some).ok_or_else(|| full(left_of_two(others(Some(first))), Some(first)))
            }
            Rule::Product => match left_of_two(others(None)) {
                left if density.units_up() <= left => Ok(None),
                left => Err(full(left, None)),
            },
        };
        answer.map_err(|Full { free_ppm, on }| {
            // The density is relative to the deadline, but the error is relative to the period.
            let of_period = asked.relative_deadline().scale(free_ppm, asked.period.as_ns());
            Refused::Utilisation { asked: *asked, free_ppm: of_period.as_ns(), on }
        })
    }

    /// Removes a server that was admitted with this density.
    pub(super) fn release(&mut self, density: Utilisation, cpu: Option<CpuId>) {
        if self.rule == Rule::Sum {
            self.books.release(density, cpu);
        }
    }

    /// Adds back a server that was just removed.
    pub(super) fn restore(&mut self, density: Utilisation, cpu: Option<CpuId>) {
        if self.rule == Rule::Sum {
            self.books.restore(density, cpu);
        }
    }
}

/// Returns the maximum density of a further server with which the product stays at most two. [`ONE`] is a whole CPU.
fn left_of_two<'a>(others: impl Iterator<Item = &'a Utilisation>) -> u64 {
    let one = u128::from(ONE);
    let product = others.fold(one, |product, density| (product * (one + u128::from(density.units_up()))).div_ceil(one));
    u64::try_from((2 * one * one / product).saturating_sub(one)).expect("a share is at most one")
}

fn full(left: u64, on: Option<CpuId>) -> Full {
    let free_ppm = u128::from(left) * 1_000_000 / u128::from(ONE);
    Full { free_ppm: u64::try_from(free_ppm).expect("a share is at most a million millionths"), on }
}
