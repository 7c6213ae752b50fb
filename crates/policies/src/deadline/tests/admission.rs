//! Tests of admission control: reservations that are admitted and refused, the reasons, and the return of bandwidth.

use super::*;

fn refused(host: &mut Driver<'_>, reservation: Reservation) -> Refused {
    host.attach("refused", with(reservation), Workload::Hog).expect_err("it does not fit")
}

#[test]
fn all_cpus_together_are_promised_95_percent() {
    let mut host = host(2, (&[], &[]));
    for _ in 0..3 {
        hog(&mut host, with(promise(60, 100)));
    }
    let no = refused(&mut host, promise(11, 100));
    assert!(matches!(no, Refused::Utilisation { free_ppm: 100_000, on: None, .. }), "{no:?}");
    assert_eq!(no.nearest_slice(), Some(Nanos::ms(10)));
    hog(&mut host, with(promise(10, 100)));
    let no = refused(&mut host, Reservation { slice: Nanos::ns(1), ..promise(10, 100) });
    assert_eq!(no.nearest_slice(), None, "1.9 is exactly full");
}

#[test]
fn the_bandwidth_can_be_tuned() {
    let mut host = host(1, (&[], &[("rt-bandwidth", 50)]));
    assert_eq!(refused(&mut host, promise(60, 100)).nearest_slice(), Some(Nanos::ms(50)));
    hog(&mut host, with(promise(50, 100)));
}

#[test]
fn a_constrained_deadline_counts_by_its_density_or_as_in_the_kernel_by_its_period() {
    let mut dense = host(1, PLAIN);
    hog(&mut dense, with(due(30, 50, 100)));
    assert_eq!(refused(&mut dense, due(30, 50, 100)).nearest_slice(), Some(Nanos::ms(40)), "0.6 + 0.4 fit");
    // The kernel admits both tasks, and the second task is late: 60 ms of work are due at 50 ms.
    let mut kernel = host(1, (&[("admission", "bandwidth"), ("reclaim", "off")], &[("rt-bandwidth", 100)]));
    let both = [(), ()].map(|()| hog(&mut kernel, with(due(30, 50, 100))));
    kernel.run_until(at(60));
    assert_eq!((running(&kernel, CPU), account(&kernel, both[1]).1), (Some(both[1]), 50));
}

#[test]
fn periods_outside_the_range_are_refused() {
    let mut host = host(1, (&[], &[]));
    let short = refused(&mut host, Reservation::new(Nanos::us(10), Nanos::us(99)));
    let long = refused(&mut host, Reservation::new(Nanos::ms(1), Nanos::s(5)));
    for no in [short, long] {
        assert!(no.to_string().contains("use 100us to 4.194304s"), "{no}");
    }
    let tuned: Settings<'_> = (&[], &[("period-least", 1_000), ("period-most", 10_000_000_000)]);
    let mut host = super::host(1, tuned);
    hog(&mut host, with(Reservation::new(Nanos::us(10), Nanos::us(99))));
    hog(&mut host, with(Reservation::new(Nanos::ms(1), Nanos::s(5))));
}

#[test]
fn an_affinity_is_allowed_or_refused_as_in_the_kernel() {
    let mut free = host(2, (&[], &[]));
    hog(&mut free, pinned(with(promise(10, 100)), OTHER));
    run_through(&mut free, 0);
    assert!(running(&free, OTHER).is_some());
    let mut kernel = host(2, (&[], &[("whole-machine", 1)]));
    let no = kernel.attach("pinned", pinned(with(promise(10, 100)), OTHER), Workload::Hog).expect_err("it is pinned");
    assert!(no.to_string().contains("whole-machine = off"), "{no}");
    let e = hog(&mut kernel, with(promise(10, 100)));
    assert!(kernel.adjust(e, pinned(with(promise(10, 100)), CPU)).is_err());
    hog(&mut kernel, pinned(Params::default(), OTHER));
}

#[test]
fn a_task_that_leaves_keeps_its_bandwidth_until_its_zero_lag_time() {
    for (reclaim, kept) in [("v5.13", true), ("v6.5", true), ("off", false)] {
        let mut host = host(1, (&[("reclaim", reclaim)], &[("rt-bandwidth", 100)]));
        let e = hog(&mut host, with(promise(60, 100)));
        host.run_until(at(30));
        // At 30 ms, 30 of 60 ms are left. At the reserved rate, they last from 50 to 100 ms.
        host.detach(e);
        let next = host.attach("next", with(promise(60, 100)), Workload::Hog);
        assert_eq!(next.is_err(), kept, "{reclaim}");
        if kept {
            host.run_until(at(50));
            assert!(host.attach("next", with(promise(60, 100)), Workload::Hog).is_err());
            run_through(&mut host, 50);
            hog(&mut host, with(promise(60, 100)));
        }
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut host = host(1, PLAIN);
    let e = hog(&mut host, with(promise(30, 100)));
    let other = hog(&mut host, with(promise(60, 100)));
    host.run_until(at(10));
    assert!(host.adjust(e, with(promise(41, 100))).is_err());
    assert_eq!((account(&host, e), host.machine().params(e).reservation), ((20, 100), Some(promise(30, 100))));
    host.adjust(e, with(promise(40, 100))).expect("its own bandwidth is free to it");
    host.adjust(e, Params::default()).expect("accepted");
    host.adjust(other, with(promise(100, 100))).expect("it has the CPU to itself");
}
