//! Gang EDF: the vCPUs of a VM have the same slice in the same periods, on different CPUs.
//!
//! This policy is partitioned earliest deadline first, as in `edf`, for parallel VMs. All members of a gang have the
//! same slice, period and phase, on different CPUs. The periods of all members therefore begin at the same instant, and
//! each member receives its slice before the same deadline. A member is admitted only if some CPU without a sibling
//! admits it.
//!
//! ```text
//! two CPUs, hard; gang a = a0, a1 (4 ms in 10); gang b = b0, b1 (5 in 20)
//! 0   4    9 10  14        20  24   29 30
//! a0  b0   . a0  .         a0  b0   .  a0
//! a1  b1   . a1  .         a1  b1   .  a1
//! ```
//!
//! **Admission control.** A CPU admits a member if the total utilisation of the CPU is then at most one minus the
//! reserve. No slice is then late on that CPU (Liu and Layland). A member that no CPU admits is refused; the error
//! names the largest slice that would fit. A member whose slice or period differs from its siblings' is refused.
//!
//! **Phase.** The first member's periods begin when it is attached, or at the `start` of its reservation. On several
//! hosts, the periods of VMs begin at the same instants if their reservations have the same period and `start`. The
//! periods of a later member begin with the next period of its siblings, or with the first at or after its own `start`.
//! The periods of a gang never move, even if members sleep. When a member wakes within a period, its remaining slice is
//! reduced by the time it was blocked. The slice is not reduced below the member's share of the remainder of the period
//! (docs/decisions/0010).
//!
//! Siblings run at the same time as far as other deadlines on their CPUs allow. On two CPUs that serve the same gangs
//! and no other reservation, siblings that are always runnable run together. If one of the CPUs has another VM with an
//! earlier deadline, the sibling there runs later, but not after its deadline. Of entities with equal deadlines, the
//! entity with the lower index runs first, which is usually the entity attached first. An entity in no gang is
//! scheduled as in partitioned `edf`.
//!
//! **Changes.** The members of a gang change together: each member moves to a new gang, whose first member sets the
//! slice, the period and the phase. With `change = due`, the first period of a changed entity begins at the first
//! multiple of its period at which the used part of its old slice is due at a constant rate. No slice of another entity
//! is then late. With `rest = renew`, the periods of an entity in no gang follow its wake-ups, as in `edf`. The periods
//! of a gang stay in phase.
//!
//! Source: ours, from VSched (Lin and Dinda, SC'05) §3, with a common start for the members of a gang; compare Kato and
//! Ishikawa, RTSS 2009 (global Gang EDF).

use crate::edf::{self, Edf, Partitioned};
use sched::{
    AlarmKind, AlarmSlots, Conserving, Descriptor, Guarantees, Knob, Knobs, LoadBounds, Nanos, Policy, Refused,
    Topology,
};

/// The descriptor of this policy.
pub(crate) const POLICY: Descriptor = Descriptor {
    name: "gang-edf",
    title: "earliest deadline first per CPU; the vCPUs of a VM are in phase, on different CPUs",
    source: "ours, over VSched (Lin and Dinda, SC'05) §3; compare Kato and Ishikawa, RTSS 2009",
    good_for: "parallel VMs with a reservation: their vCPUs receive their slices in the same periods",
    bad_at: "using CPUs to the last percent: a gang must fit on every one of its CPUs",
    text: include_str!("gang_edf.rs"),
    conserving: |_| Conserving::PerCpu { slack: Nanos::ZERO },
    starvation: |_| None, // Entities without a reservation receive the remaining time, which may be zero.
    guarantees: Guarantees { reservations, gang_periods: true, ..Guarantees::NOTHING },
    alarms: AlarmSlots { entity: &[AlarmKind::Timer], ..AlarmSlots::NONE },
    knobs: &[
        Knob::choice("enforce", &["soft", "hard"], "the effect of the end of a slice").from("VSched §3.2"),
        edf::LATE,
        edf::GRAIN,
        edf::RESERVE,
        edf::QUANTUM,
        edf::REST,
        edf::CHANGE,
    ],
    build,
};

/// Returns the maximum part of a slice that can be missing. Without changes, and with a `grain` of zero, every slice is
/// delivered in every period, to the nanosecond. A newly attached or changed entity receives its slice at once, and the
/// slice of another entity may then be late. So there is no bound if entities change. If periods begin at wake-ups, an
/// observer cannot determine which periods were guaranteed.
fn reservations(load: &LoadBounds<'_>) -> Option<Nanos> {
    let keeps_periods = load.knobs.word("rest") == "keep" || !load.has_sleepers;
    (!load.has_changes && keeps_periods && load.knobs.time("grain").is_zero()).then_some(Nanos::ZERO)
}

fn build(host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
    Ok(Box::new(Partitioned::with_gangs(Edf::new(host, knobs, true))))
}

#[cfg(test)]
mod tests {
    use super::POLICY;
    use crate::fixture::{awake, cpu_of, gang, host_with, knobs, reserving, run_through_us as run_through};
    use sched::{CpuId, GroupId, Instant, Limit, Nanos, Params, Refused, Reservation, Wake};
    use sim::{Driver, Workload};

    fn host<'a>(cpus: usize) -> Driver<'a> {
        host_with(&POLICY, sched::Topology::new(cpus), &knobs(&POLICY, &[("enforce", "hard")], &[]))
    }

    fn asking(group: GroupId, slice: u64, period: u64) -> Params {
        Params { group, ..reserving(Nanos::ms(slice), Nanos::ms(period), Limit::Soft) }
    }

    /// In the middle of every millisecond, both siblings of a gang run or neither runs, as in the diagram of the essay.
    #[test]
    fn siblings_run_at_the_same_time_on_cpus_of_their_own() {
        let mut host = host(2);
        let (a, b) = (gang(&mut host), gang(&mut host));
        let left = [awake(&mut host, asking(a, 4, 10)), awake(&mut host, asking(a, 4, 10))];
        let right = [awake(&mut host, asking(b, 5, 20)), awake(&mut host, asking(b, 5, 20))];
        let mut drawn = String::new();
        for ms in 0..30 {
            run_through(&mut host, ms * 1_000 + 500);
            let (a, b) = (left.map(|e| cpu_of(&host, e)), right.map(|e| cpu_of(&host, e)));
            for pair in [a, b] {
                assert!(pair == [None, None] || pair == [Some(0), Some(1)], "at {ms} ms: {a:?} {b:?}");
            }
            drawn.push(if a[0].is_some() {
                'a'
            } else if b[0].is_some() {
                'b'
            } else {
                '.'
            });
        }
        assert_eq!(drawn, "aaaabbbbb.aaaa......aaaabbbbb.");
    }

    #[test]
    fn a_gang_that_does_not_fit_on_every_cpu_is_refused_with_the_slice_that_would() {
        let mut host = host(2);
        awake(&mut host, asking(GroupId::ROOT, 6, 10)); // On CPU 0: 0.3 of CPU 0 and 0.9 of CPU 1 stay free.
        let vm = gang(&mut host);
        let first = awake(&mut host, asking(vm, 4, 10));
        run_through(&mut host, 100);
        assert_eq!(cpu_of(&host, first), Some(1));
        let refused = host.attach("e", asking(vm, 4, 10), Workload::Hog).expect_err("CPU 0 has room for 0.3");
        assert_eq!(refused.nearest_slice(), Some(Nanos::ms(3)), "{refused}");
        // Outside the gang, the same reservation fits on CPU 1, beside `first`.
        awake(&mut host, asking(GroupId::ROOT, 4, 10));
    }

    #[test]
    fn a_gang_has_one_promise_and_no_more_members_than_cpus() {
        let mut host = host(2);
        let vm = gang(&mut host);
        let first = awake(&mut host, asking(vm, 2, 10));
        for other in [asking(vm, 3, 10), asking(vm, 2, 20)] {
            assert!(
                matches!(host.attach("e", other, Workload::Hog), Err(Refused::Unsupported { reason, .. }) if reason.contains("one slice"))
            );
        }
        awake(&mut host, asking(vm, 2, 10));
        let third = host.attach("e", asking(vm, 2, 10), Workload::Hog);
        assert!(matches!(third, Err(Refused::Unsupported { reason, .. }) if reason.contains("sibling")));
        assert!(host.adjust(first, asking(vm, 4, 10)).is_err(), "not one alone");
        assert_eq!(host.machine().params(first), &asking(vm, 2, 10), "as it was");
    }

    /// The first period of a sibling that is attached during a period begins with the next period of the gang. A
    /// sleeping sibling keeps the phase.
    #[test]
    fn phases_are_common_and_stay() {
        let mut host = host(2);
        let vm = gang(&mut host);
        let first = awake(&mut host, asking(vm, 3, 10));
        run_through(&mut host, 4_000);
        let second = awake(&mut host, asking(vm, 3, 10));
        run_through(&mut host, 5_000);
        assert_eq!(cpu_of(&host, second), None, "its first period begins at 10 ms");
        run_through(&mut host, 10_500);
        assert_eq!([first, second].map(|e| cpu_of(&host, e)), [Some(0), Some(1)]);
        host.block(CpuId::new(1));
        run_through(&mut host, 25_000);
        host.wake(second, Wake::Timer);
        run_through(&mut host, 30_500);
        assert_eq!([first, second].map(|e| cpu_of(&host, e)), [Some(0), Some(1)], "in phase again");
        let deadlines = [first, second].map(|e| host.machine().inspect(e, "deadline"));
        assert_eq!(deadlines[0], deadlines[1]);
    }

    /// A later member starts with a period of its siblings, at or after its own start.
    #[test]
    fn a_later_start_is_rounded_up_to_the_phase_of_the_gang() {
        let mut host = host(2);
        let vm = gang(&mut host);
        let first = awake(&mut host, asking(vm, 3, 10));
        let mut params = asking(vm, 3, 10);
        let start = Some(Instant::ZERO + Nanos::ms(23));
        params.reservation = params.reservation.map(|asked| Reservation { start, limit: Limit::Hard, ..asked });
        let second = awake(&mut host, params);
        run_through(&mut host, 20_500);
        assert_eq!([first, second].map(|e| cpu_of(&host, e)), [Some(0), None]);
        run_through(&mut host, 30_500);
        assert_eq!([first, second].map(|e| cpu_of(&host, e)), [Some(0), Some(1)]);
    }

    #[test]
    fn a_start_asked_for_is_the_gangs() {
        let mut host = host(2);
        let vm = gang(&mut host);
        let mut params = asking(vm, 3, 10);
        params.reservation = params.reservation.map(|asked| Reservation {
            start: Some(Instant::ZERO + Nanos::ms(7)),
            limit: Limit::Hard,
            ..asked
        });
        let both = [awake(&mut host, params), awake(&mut host, params)];
        run_through(&mut host, 6_900);
        assert_eq!(both.map(|e| cpu_of(&host, e)), [None, None]);
        run_through(&mut host, 7_001);
        assert_eq!(both.map(|e| cpu_of(&host, e)), [Some(0), Some(1)]);
    }
}
