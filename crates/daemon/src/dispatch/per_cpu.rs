//! The reservation per CPU of a request, and the checks that do not depend on other promises.

use super::refusal::Refusal;
use super::request::{Others, PERIOD_LEAST, PromiseRequest, SLICE_LEAST, SLICE_MOST};
use sched::{Limit, Nanos, Refused, Reservation};

impl PromiseRequest {
    /// Checks the properties of the request that do not depend on other promises or on a process.
    ///
    /// # Errors
    /// The request would be refused on every host.
    pub fn check(&self) -> Result<(), Refusal> {
        self.per_cpu().map(drop)
    }

    /// Returns the reservation per CPU. A slice above [`SLICE_MOST`] is divided into equal parts, and the period is
    /// divided by the same number.
    pub(super) fn per_cpu(&self) -> Result<Reservation, Refusal> {
        let Reservation { slice, period, .. } = self.reservation;
        let cpus = self.cpus.max(1) as u64;
        if self.reservation.deadline.is_some() {
            return Err(Refusal::Promise(Refused::Unsupported {
                reason: "a deadline before the end of the period is not kept on a real host",
                remedy: "leave the deadline out",
            }));
        }
        if period < PERIOD_LEAST {
            return Err(Refusal::TooShort { what: "period", asked: period, least: PERIOD_LEAST });
        }
        if self.cpus > 1 && self.reservation.limit == Limit::Hard {
            return Err(Refusal::Unsupported {
                reason: "a hard limit freezes whole processes, so it cannot be kept on several CPUs",
                remedy: "use one CPU, or a soft limit",
            });
        }
        if self.gang && cpus < 2 && self.others == Others::None {
            return Err(Refusal::Unsupported {
                reason: "a gang runs on several CPUs at the same time, and the promise is for one CPU",
                remedy: "use at least 2 CPUs (--cpus 2) or several processes, or leave --gang out",
            });
        }
        if slice > period.saturating_mul(cpus) {
            return Err(Refusal::Promise(Refused::SliceAbovePeriod { slice, period: period.saturating_mul(cpus) }));
        }
        let each = self.share().slice;
        if each < SLICE_LEAST {
            return Err(Refusal::TooShort { what: "slice", asked: slice, least: SLICE_LEAST.saturating_mul(cpus) });
        }
        let parts = each.as_ns().div_ceil(SLICE_MOST.as_ns());
        let slice = Nanos::ns(each.as_ns().div_ceil(parts));
        Ok(Reservation { slice, period: Nanos::ns(period.as_ns() / parts), ..self.reservation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(slice: Nanos, period: Nanos, cpus: usize, limit: Limit) -> PromiseRequest {
        let reservation = Reservation { limit, ..Reservation::new(slice, period) };
        PromiseRequest { cpus, ..PromiseRequest::new("a", reservation) }
    }

    fn reservation(slice: Nanos, period: Nanos, cpus: usize) -> (Nanos, Nanos) {
        let reservation = request(slice, period, cpus, Limit::Soft).per_cpu().unwrap();
        (reservation.slice, reservation.period)
    }

    #[test]
    fn long_slices_are_dealt_in_equal_parts_and_none_is_lost() {
        assert_eq!(reservation(Nanos::ms(2), Nanos::ms(10), 1), (Nanos::ms(2), Nanos::ms(10)));
        assert_eq!(reservation(Nanos::ms(100), Nanos::s(1), 1), (Nanos::ms(100), Nanos::s(1)));
        assert_eq!(reservation(Nanos::s(60), Nanos::s(600), 1), (Nanos::ms(100), Nanos::s(1)));
        // A day and a half in every three days, on two CPUs.
        let day = Nanos::s(86_400);
        assert_eq!(reservation(day + Nanos::s(43_200), day.saturating_mul(3), 2), (Nanos::ms(100), Nanos::ms(400)));
        for slice in [Nanos::ns(100_000_001), Nanos::ms(333), Nanos::s(7) + Nanos::ns(1)] {
            let period = slice.saturating_mul(3) + Nanos::ns(17);
            let (part, every) = reservation(slice, period, 1);
            let parts = period.as_ns() / every.as_ns();
            assert!(
                part <= SLICE_MOST && part.saturating_mul(parts) >= slice,
                "{slice} every {period}: {part} every {every}"
            );
        }
    }

    #[test]
    fn an_impossible_request_is_refused_with_a_remedy() {
        let refused = |request: PromiseRequest| request.per_cpu().unwrap_err().to_string();
        let (soft, hard) = (Limit::Soft, Limit::Hard);
        let short = refused(request(Nanos::us(9), Nanos::ms(1), 1, soft));
        assert_eq!(short, "the slice is too short (9us); use at least 10us");
        let short = refused(request(Nanos::us(9), Nanos::us(99), 1, soft));
        assert_eq!(short, "the period is too short (99us); use at least 100us");
        let much = refused(request(Nanos::ms(21), Nanos::ms(10), 2, soft));
        assert_eq!(much, "slice (21ms) is longer than the period (20ms); use at most 20ms");
        let several = refused(request(Nanos::ms(2), Nanos::ms(10), 2, hard));
        assert!(several.ends_with("; use one CPU, or a soft limit"), "{several}");
        let alone = PromiseRequest { gang: true, ..request(Nanos::ms(2), Nanos::ms(10), 1, soft) };
        let alone = refused(alone);
        assert!(
            alone.ends_with("; use at least 2 CPUs (--cpus 2) or several processes, or leave --gang out"),
            "{alone}"
        );
        let gang = PromiseRequest { gang: true, ..request(Nanos::ms(4), Nanos::ms(10), 2, hard) };
        let gang = refused(gang);
        assert!(gang.ends_with("; use one CPU, or a soft limit"), "{gang}");
        let mut early = request(Nanos::ms(2), Nanos::ms(10), 1, soft);
        assert!(early.check().is_ok());
        early.reservation.deadline = Some(Nanos::ms(5));
        assert!(early.check().unwrap_err().to_string().ends_with("; leave the deadline out"));
    }
}
