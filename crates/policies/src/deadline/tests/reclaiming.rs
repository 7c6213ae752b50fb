//! Tests of GRUB: which tasks reclaim unused bandwidth, and how much.

use super::*;

fn soft(slice: u64, period: u64) -> Reservation {
    Reservation::new(Nanos::ms(slice), Nanos::ms(period))
}

/// The example of sched-deadline.rst: T1 and T2, here `first` and `second`, have a slice of 4 ms in a period of 8 ms.
/// T1 blocks at 2 ms. Its 0-lag time is 8 − 2 · 8 / 4 = 4 ms.
#[test]
fn the_example_of_the_kernels_documentation() {
    for formula in ["v5.13", "v6.5"] {
        let mut host = host(1, (&[("reclaim", formula)], &[("rt-bandwidth", 100)]));
        let [first, second] = [(), ()].map(|()| scripted(&mut host, soft(4, 8)));
        [first, second].into_iter().for_each(|e| wake(&mut host, e));
        host.run_until(at(2));
        assert_eq!(running(&host, CPU), Some(first));
        host.block(CPU);
        host.run_until(at(4));
        assert_eq!(host.machine().inspect(first, "active"), Some(1));
        run_through(&mut host, 4);
        assert_eq!((host.machine().inspect(first, "active"), account(&host, second).0), (Some(0), 2), "{formula}");
        // From here on, `second` is charged at half the rate: 2 ms of the slice last for 4 ms.
        host.run_until(at(8));
        assert_eq!((running(&host, CPU), host.machine().is_held(second)), (Some(second), false));
        run_through(&mut host, 8);
        // The next period begins at once: `second` may use the whole CPU while no other task is active.
        assert_eq!((running(&host, CPU), account(&host, second)), (Some(second), (4, 16)));
    }
}

/// The CPU time per 100 ms of a lone task of 10 %: 10 / 0.15 ms (v5.13), 10 / (0.10 / 0.95) ms (v6.5), and 10 ms
/// without reclaiming.
#[test]
fn each_formula_gives_away_its_part_of_what_is_free() {
    let got = |formula, limit| {
        let mut host = host(1, (&[("reclaim", formula)], &[]));
        let e = hog(&mut host, with(Reservation { limit, ..soft(10, 100) }));
        host.run_until(at(1_000));
        let params = *host.machine().params(e);
        host.adjust(e, params).expect("nothing changes");
        host.machine().charged(e).as_ns() / 1_000_000
    };
    assert_eq!(got("v5.13", Limit::Soft), 666);
    assert_eq!(got("v6.5", Limit::Soft), 950);
    for (formula, limit) in [("v5.13", Limit::Hard), ("v6.5", Limit::Hard), ("off", Limit::Soft)] {
        assert_eq!(got(formula, limit), 100, "{formula}, {limit:?}");
    }
}

#[test]
fn a_wake_up_ends_the_reclaiming_of_its_share_at_once() {
    let mut host = host(1, (&[("reclaim", "v6.5")], &[("rt-bandwidth", 100)]));
    let e = hog(&mut host, with(soft(40, 100)));
    let sleeper = scripted(&mut host, Reservation { limit: Limit::Hard, ..soft(60, 200) });
    host.run_until(at(20));
    // While no other task is active, `e` is charged at a rate of 0.4, so 20 ms cost 8 of its 40 ms. With the 0.3 of
    // `sleeper`, the rate is 0.7 from now on.
    assert_eq!(host.machine().until(CPU), at(100));
    wake(&mut host, sleeper);
    run_through(&mut host, 20);
    assert_eq!(account(&host, e), (32, 100));
    let end = Nanos::ns(32_000_000_u64 * 10 / 7);
    assert!(host.machine().until(CPU).since(at(20)) - end <= Nanos::ns(2), "32 ms at a rate of 0.7");
}

#[test]
fn a_share_counts_on_the_cpu_of_its_task() {
    let mut host = host(2, (&[("reclaim", "v6.5")], &[("rt-bandwidth", 100)]));
    // Both tasks are pinned to CPU 0 and reserve 0.5 each. No bandwidth of CPU 1 is in use, but on average half of each
    // CPU is reserved.
    let [a, b] = [(), ()].map(|()| hog(&mut host, pinned(with(soft(50, 100)), CPU)));
    host.run_until(at(1_000));
    for e in [a, b] {
        let params = *host.machine().params(e);
        host.adjust(e, params).expect("nothing changes");
    }
    let shared = [a, b].map(|e| host.machine().charged(e));
    assert_eq!(shared[0] + shared[1], Nanos::s(1), "together they have CPU 0");
    // On CPU 1, `b` is alone and is charged at a rate of max(0.5, 1 − 0.5).
    host.adjust(b, pinned(with(soft(50, 100)), OTHER)).expect("accepted");
    host.run_until(at(3_000));
    assert_eq!(host.machine().inspect(b, "cpu"), Some(1));
    for e in [a, b] {
        let params = *host.machine().params(e);
        host.adjust(e, params).expect("nothing changes");
        let more = host.machine().charged(e) - shared[usize::from(e == b)];
        assert!(more >= Nanos::ms(1_900), "{e} got {more} of 2 s");
    }
}
