//! Admission control: the reservations granted never exceed what the CPUs can supply.
//!
//! On one CPU, EDF meets every deadline if and only if Σ slice/period ≤ 1 (Liu and Layland 1973). The theorem requires
//! that each deadline is the end of its period and that no entity blocks. The theorem also holds if an entity that
//! blocks forfeits the time that its block would cost the other entities. `edf`, `gang-edf` and, by default, `deadline`
//! apply such a rule. `rtds` and `rt-xen` apply no such rule, so their guarantees assume that no entity blocks. Under
//! global EDF on m CPUs, the tardiness is bounded if Σ slice/period ≤ m and no utilisation exceeds one CPU. Deadlines
//! can still be missed, by this bound at most (Devi and Anderson 2005).

use sched::{CpuId, CpuSet, Nanos, Reservation};

/// The utilisation of one whole CPU, in fixed point. Rounding down loses less than one unit per utilisation; the exact
/// test of admission control corrects the loss.
pub(crate) const ONE: u64 = 1 << 40;

/// A share of one CPU: a slice divided by a period or by a relative deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Utilisation {
    units: u64,
    slice: u64,
    period: u64,
}

impl Utilisation {
    pub(crate) const ZERO: Utilisation = Utilisation { units: 0, slice: 0, period: 1 };

    /// Returns the utilisation: slice divided by period.
    pub(crate) fn of(reservation: &Reservation) -> Utilisation {
        Utilisation::within(reservation, reservation.period)
    }

    /// Returns the density: slice divided by relative deadline.
    pub(crate) fn density(reservation: &Reservation) -> Utilisation {
        Utilisation::within(reservation, reservation.relative_deadline())
    }

    fn within(reservation: &Reservation, span: Nanos) -> Utilisation {
        let (slice, period) = (reservation.slice.as_ns(), span.as_ns());
        let units = u128::from(slice) * u128::from(ONE) / u128::from(period);
        Utilisation { units: u64::try_from(units).expect("a slice is at most its period"), slice, period }
    }

    /// Returns the denominator: the period, or the relative deadline.
    pub(crate) fn span(self) -> Nanos {
        Nanos::ns(self.period)
    }

    /// Returns the utilisation in units of [`ONE`], rounded down.
    pub(crate) fn units(self) -> u64 {
        self.units
    }

    /// Returns the utilisation in units of [`ONE`], rounded up.
    pub(crate) fn units_up(self) -> u64 {
        let units = (u128::from(self.slice) * u128::from(ONE)).div_ceil(u128::from(self.period));
        u64::try_from(units).expect("a slice is at most its period")
    }
}

/// The utilisation admitted on one CPU, or on the machine as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Promised {
    units: u64,
    count: u64,
}

/// The accounts of admission control: one per CPU if reservations are partitioned, otherwise one for the machine.
#[derive(Debug)]
pub(crate) struct Admission {
    books: Vec<Promised>,
    cpus: u64,
    /// Maximum part of each CPU that may be reserved, in percent.
    percent: u64,
    partitioned: bool,
}

/// A rejection: the utilisation that would still fit, and the CPU on which it would fit; `None`: the machine as a
/// whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full {
    pub(crate) free_ppm: u64,
    pub(crate) on: Option<CpuId>,
}

impl Admission {
    pub(crate) fn new(cpus: usize, reserve_percent: u64, partitioned: bool) -> Admission {
        let books = vec![Promised::default(); if partitioned { cpus } else { 1 }];
        Admission { books, cpus: cpus as u64, percent: 100 - reserve_percent, partitioned }
    }

    /// If reservations are partitioned, admits `wish` on the first CPU in `allowed` on which `wish` fits; otherwise,
    /// admits `wish` on the machine as a whole. The CPU `first`, if given, is tried before all other CPUs. For the
    /// exact test, `others` yields the utilisations that have been admitted on a CPU.
    pub(crate) fn admit<'a, I: Iterator<Item = &'a Utilisation>>(
        &mut self,
        wish: Utilisation,
        first: Option<CpuId>,
        allowed: &CpuSet,
        others: impl Fn(Option<CpuId>) -> I,
    ) -> Result<Option<CpuId>, Full> {
        if !self.partitioned {
            if !self.fits(0, wish, others(None)) {
                return Err(Full { free_ppm: self.free_ppm(0, || others(None)), on: None });
            }
            self.enter(0, wish);
            return Ok(None);
        }
        let first = first.filter(|&cpu| allowed.contains(cpu));
        for cpu in first.into_iter().chain(allowed.iter()) {
            if self.fits(cpu.index(), wish, others(Some(cpu))) {
                self.enter(cpu.index(), wish);
                return Ok(Some(cpu));
            }
        }
        let roomiest = allowed.iter().min_by_key(|cpu| (self.books[cpu.index()].units, *cpu));
        let on = roomiest.expect("an affinity holds some CPU");
        Err(Full { free_ppm: self.free_ppm(on.index(), || others(Some(on))), on: Some(on) })
    }

    /// Returns the rejection of `wish` if it exceeds the part of one CPU that may be reserved: an entity runs on one CPU at
    /// a time, so `wish` would leave less than the reserve of this CPU.
    pub(crate) fn above_one_cpu<'a, I: Iterator<Item = &'a Utilisation>>(
        &self,
        wish: Utilisation,
        others: impl Fn() -> I,
    ) -> Option<Full> {
        let is_above = u128::from(wish.slice) * 100 > u128::from(wish.period) * u128::from(self.percent);
        is_above.then(|| Full { free_ppm: self.free_ppm(0, others).min(self.percent * 10_000), on: None })
    }

    fn enter(&mut self, book: usize, wish: Utilisation) {
        self.books[book].units += wish.units;
        self.books[book].count += 1;
    }

    /// Removes an admitted utilisation.
    pub(crate) fn release(&mut self, promised: Utilisation, on: Option<CpuId>) {
        let book = &mut self.books[on.map_or(0, CpuId::index)];
        book.units -= promised.units;
        book.count -= 1;
    }

    /// Adds back a utilisation that has just been removed.
    pub(crate) fn restore(&mut self, promised: Utilisation, on: Option<CpuId>) {
        self.enter(on.map_or(0, CpuId::index), promised);
    }

    /// Returns the utilisation that is not admitted on `on`, in units of [`ONE`], rounded down.
    pub(crate) fn spare(&self, on: Option<CpuId>) -> u64 {
        let Promised { units, count } = self.books[on.map_or(0, CpuId::index)];
        self.most().saturating_sub(units).saturating_sub(count)
    }

    fn most(&self) -> u64 {
        let cpus = if self.partitioned { 1 } else { self.cpus };
        cpus * ONE / 100 * self.percent + cpus * (ONE % 100) * self.percent / 100
    }

    /// Returns the largest utilisation that would still be admitted, in millionths of a CPU.
    fn free_ppm<'a, I: Iterator<Item = &'a Utilisation>>(&self, book: usize, others: impl Fn() -> I) -> u64 {
        const MILLION: u64 = 1_000_000;
        let free = self.most().saturating_sub(self.books[book].units).min(ONE);
        let ppm = u64::try_from(u128::from(free) * u128::from(MILLION) / u128::from(ONE)).expect("a share fits");
        let share = |ppm: u64| Utilisation {
            units: u64::try_from(u128::from(ppm) * u128::from(ONE) / u128::from(MILLION)).expect("a share fits"),
            slice: ppm,
            period: MILLION,
        };
        // The limit and the accounts are rounded down, so the exact value may differ by one millionth.
        let there = [ppm + 1, ppm].into_iter().filter(|&ppm| ppm <= MILLION);
        there.filter(|&ppm| self.fits(book, share(ppm), others())).max().unwrap_or(ppm.saturating_sub(1))
    }

    fn fits<'a>(&self, book: usize, wish: Utilisation, mut others: impl Iterator<Item = &'a Utilisation>) -> bool {
        let Promised { units, count } = self.books[book];
        let (sum, most) = (units + wish.units, self.most());
        if sum + count < most {
            return true; // The request fits even if every utilisation is rounded up.
        }
        if sum > most {
            return false; // The request does not fit even if every utilisation is rounded down.
        }
        let cpus = if self.partitioned { 1 } else { self.cpus };
        let sum = others.try_fold(Fraction { over: 0, under: 1 }, Fraction::plus).and_then(|sum| sum.plus(&wish));
        sum.is_some_and(|sum| sum.at_most(cpus * self.percent, 100))
    }
}

/// An exact sum of fractions, as long as 128 bits suffice.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    over: u128,
    under: u128,
}

impl Fraction {
    fn plus(self, share: &Utilisation) -> Option<Fraction> {
        let (slice, period) = (u128::from(share.slice), u128::from(share.period));
        let shared = gcd(self.under, period);
        let under = (self.under / shared).checked_mul(period)?;
        let over = self.over.checked_mul(period / shared)?.checked_add(slice.checked_mul(self.under / shared)?)?;
        let both = gcd(over, under);
        Some(Fraction { over: over / both, under: under / both })
    }

    fn at_most(self, over: u64, under: u64) -> bool {
        let left = self.over.checked_mul(u128::from(under));
        let right = self.under.checked_mul(u128::from(over));
        matches!((left, right), (Some(left), Some(right)) if left <= right)
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(slice: u64, period: u64) -> Utilisation {
        let (slice, period) = (Nanos::ms(slice), Nanos::ms(period));
        Utilisation::of(&Reservation::new(slice, period))
    }

    fn admit(books: &mut Admission, held: &[Utilisation], wish: Utilisation) -> Result<Option<CpuId>, Full> {
        books.admit(wish, None, &CpuSet::first_n(1), |_| held.iter())
    }

    #[test]
    fn the_test_is_exact_to_the_last_nanosecond() {
        let mut books = Admission::new(1, 0, true);
        let third = share(1, 3);
        let mut held = Vec::new();
        for _ in 0..3 {
            assert_eq!(admit(&mut books, &held, third), Ok(Some(CpuId::new(0))), "three thirds are one");
            held.push(third);
        }
        let least = Utilisation::of(&Reservation::new(Nanos::ns(1), sched::time::SPAN_MAX));
        assert_eq!(admit(&mut books, &held, least), Err(Full { free_ppm: 0, on: Some(CpuId::new(0)) }));
    }

    #[test]
    fn what_still_fits_is_exact_to_the_millionth() {
        for reserve in 1..=60 {
            let mut books = Admission::new(1, reserve, true);
            let refused = admit(&mut books, &[], share(100, 100)).unwrap_err();
            assert_eq!(refused.free_ppm, (100 - reserve) * 10_000);
            let mut machine = Admission::new(3, reserve, false);
            let held = [share(1, 3), share(2, 7), share(1 + 99 - reserve, 100)];
            for (i, wish) in held.iter().enumerate() {
                machine.admit(*wish, None, &CpuSet::ALL, |_| held[..i].iter()).expect("it is less than one in three");
            }
            let left_ppm = machine.free_ppm(0, || held.iter());
            let exact =
                (3 * (100 - reserve) * 2_100 - 7_000 * 10 - 6_000 * 10 - (100 - reserve) * 2_100) * 1_000_000 / 210_000;
            assert_eq!(left_ppm, exact.min(1_000_000), "reserve {reserve}");
        }
    }

    #[test]
    fn a_refusal_states_what_still_fits() {
        // VSched §3.1: with R = 0.05, the (period, slice) pairs (20, 5) and (50, 20) are admitted. The pair (100, 40)
        // is refused: the sum would be 1.05.
        let mut books = Admission::new(1, 5, true);
        let held = [share(5, 20), share(20, 50)];
        for (i, wish) in held.iter().enumerate() {
            assert!(admit(&mut books, &held[..i], *wish).is_ok());
        }
        let refused = admit(&mut books, &held, share(40, 100)).unwrap_err();
        assert_eq!(refused.free_ppm, 300_000);
        books.release(held[0], Some(CpuId::new(0)));
        assert!(admit(&mut books, &held[1..], share(40, 100)).is_ok());
    }
}
