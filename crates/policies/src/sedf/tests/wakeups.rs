//! Tests of woken vCPUs under each rule for wake-ups.

use super::*;

/// A vCPU that wakes in the period in which it blocked loses the rest of its slice. Extra time compensates for the
/// loss, even if the reservation is hard.
#[test]
fn the_hard_are_compensated_in_extra_time() {
    let mut host = host(1, &[]);
    let (e, busy) = (hog(&mut host, hard(4_000, 10_000)), hog(&mut host, Params::default()));
    block_at(&mut host, 5_000, e);
    wake_at(&mut host, 6_000, e);
    run_through(&mut host, 6_001);
    assert_eq!((runs(&host), shows_us(&host, e, "deadline")), (Some(e), 24_000), "at once, before the next period");
    assert_eq!((shows_us(&host, e, "lost"), shows(&host, e, "penalty-score")), (2_999, 10 * 1_024 / 3));
    // The vCPU receives the lost 3 ms in quanta, and no further compensation.
    assert_eq!(stretches(&mut host, 9_002), [(Some(e), 6_001, 9_000), (Some(busy), 9_000, 9_002)]);
    assert_eq!(shows(&host, e, "wants-penalty"), 0);
    run_through(&mut host, 14_001);
    assert_eq!(runs(&host), Some(e), "a full slice");
}

/// A wake-up after the period in which the vCPU blocked starts a new period at once, with a full slice.
#[test]
fn a_late_wake_up_begins_a_period() {
    let mut host = host(1, &[]);
    let (e, busy) = (hog(&mut host, hard(4_000, 10_000)), hog(&mut host, Params::default()));
    block_at(&mut host, 5_000, e);
    wake_at(&mut host, 21_000, e);
    assert_eq!(shows_us(&host, e, "deadline"), 31_000);
    assert_eq!(stretches(&mut host, 25_002), [(Some(e), 21_000, 25_000), (Some(busy), 25_000, 25_002)]);
}

/// A vCPU that runs in its slice is preempted for an earlier deadline only if the period of that deadline begins before
/// the run ends.
#[test]
fn a_slice_is_not_interrupted_for_a_period_that_begins_later() {
    let mut host = host(1, &[]);
    let (long, short) = (hog(&mut host, hard(30_000, 90_000)), scripted(&mut host, soft(1_000, 20_000)));
    run_through(&mut host, 31_000);
    assert_eq!((runs(&host), host.machine().until(CPU).as_ns() / 1_000), (Some(long), 60_000));
    // After its first wake-up, the period of `short` begins at 32 ms and ends at 52 ms, before the deadline of `long`
    // at 120 ms. So the run of `long` ends at 32 ms.
    wake_at(&mut host, 31_000, short);
    run_through(&mut host, 31_001);
    assert_eq!((runs(&host), host.machine().until(CPU).as_ns() / 1_000), (Some(long), 32_000));
    run_through(&mut host, 32_001);
    assert_eq!(runs(&host), Some(short));
    block_at(&mut host, 32_500, short);
    // After a wake-up within its period, the next period of `short` begins at 52 ms, still before the end of the run of
    // `long`.
    wake_at(&mut host, 33_000, short);
    run_through(&mut host, 33_001);
    assert_eq!((runs(&host), host.machine().until(CPU).as_ns() / 1_000), (Some(long), 52_000));
    host.pause(short);
    run_through(&mut host, 50_000);
    // `short` wakes before that period, which ends at 72 ms, so nothing changes.
    host.resume(short);
    host.wake(short, Wake::Resumed);
    run_through(&mut host, 50_001);
    assert_eq!((runs(&host), shows_us(&host, short, "deadline")), (Some(long), 72_000));
}

/// Of two vCPUs with a compensation due, the vCPU that lost the larger part of its period runs first, and preempts the
/// other vCPU.
#[test]
fn a_greater_loss_preempts_a_compensation() {
    let mut host = host(1, &[]);
    let busy = hog(&mut host, Params::default());
    let all = [hog(&mut host, hard(4_000, 40_000)), hog(&mut host, hard(12_000, 40_000))];
    // The period of the first vCPU begins at 4 ms, and the period of the second vCPU begins at 12 ms.
    block_at(&mut host, 4_500, all[0]);
    block_at(&mut host, 12_500, all[1]);
    wake_at(&mut host, 13_000, all[0]);
    run_through(&mut host, 13_100);
    assert_eq!((runs(&host), shows(&host, all[0], "penalty-score")), (Some(all[0]), 40 * 1_024 * 2 / 7));
    wake_at(&mut host, 13_200, all[1]);
    run_through(&mut host, 13_201);
    assert_eq!((runs(&host), shows(&host, all[1], "penalty-score")), (Some(all[1]), 40 * 1_024 * 2 / 23));
    // The vCPU with the smaller loss runs only after the other vCPU has stopped.
    block_at(&mut host, 13_300, all[1]);
    run_through(&mut host, 13_310);
    assert_eq!(runs(&host), Some(all[0]));
    run_through(&mut host, 20_000);
    assert_eq!(runs(&host), Some(busy), "all that was lost has run");
    wake_at(&mut host, 20_000, all[1]);
    run_through(&mut host, 20_001);
    assert_eq!(runs(&host), Some(all[1]), "it wants the rest of its compensation");
    // The first vCPU has been compensated in full, so its wake-up does not preempt.
    host.pause(all[0]);
    wake_at(&mut host, 20_100, all[0]);
    run_through(&mut host, 20_101);
    assert_eq!((runs(&host), shows(&host, all[0], "wants-penalty")), (Some(all[1]), 0));
}

/// Without `l0-hack`, the vCPU is compensated for the lost 3 ms; with `l0-hack`, for only one quantum of 500 us.
#[test]
fn the_hack_ends_a_compensation_with_its_first_turn() {
    for (hack, until) in [(0, 9_000), (1, 6_500)] {
        let mut host = host(1, &[("l0-hack", hack)]);
        let (e, busy) = (hog(&mut host, hard(4_000, 10_000)), hog(&mut host, Params::default()));
        block_at(&mut host, 5_000, e);
        wake_at(&mut host, 6_000, e);
        let seen = stretches(&mut host, 9_500);
        assert_eq!(seen, [(Some(e), 6_000, until), (Some(busy), until, 9_500)], "hack {hack}");
    }
}

/// Checks the deadline of a vCPU that wakes 1 ms or 23 ms after it blocked, under each rule of `unblock`.
#[test]
fn each_way_of_waking_has_its_deadline() {
    // The vCPU has a slice of 4 ms in every 10 ms. It blocks at 5 ms, in the period from 4 to 14 ms, with 1 ms used.
    for (unblock, short, long, wants_penalty) in [
        ("extra", 24_000, 38_000, 1),
        // Periods begin at 14, 24, 34 ms, … The next whole period after 28 ms begins at 34 ms.
        ("isochronous", 24_000, 44_000, 0),
        ("conservative", 24_000, 38_000, 0),
        ("atropos", 24_000, 30_000, 0),
        ("resume", 14_000, 38_000, 0),
    ] {
        for (wake, deadline) in [(6_000, short), (28_000, long)] {
            let mut host = host_that_unblocks(unblock);
            let params = Params { latency: Some(Nanos::ms(2)), ..hard(4_000, 10_000) };
            let e = hog(&mut host, params);
            block_at(&mut host, 5_000, e);
            wake_at(&mut host, wake, e);
            assert_eq!(shows_us(&host, e, "deadline"), deadline, "{unblock}, woken at {wake}");
            let wants = if wake == 6_000 { wants_penalty } else { 0 };
            assert_eq!(shows(&host, e, "wants-penalty"), wants, "{unblock}");
        }
    }
}

/// With `resume`, the time for which the vCPU was blocked counts as used. If less than a quantum is left, the vCPU
/// waits for the next period.
#[test]
fn with_resume_a_vcpu_has_the_rest_of_its_slice() {
    for (wake, runs_until, deadline) in [(7_400, Some(8_000), 14_000), (7_600, None, 24_000)] {
        let mut host = host_that_unblocks("resume");
        let e = hog(&mut host, hard(4_000, 10_000));
        block_at(&mut host, 5_000, e);
        wake_at(&mut host, wake, e);
        run_through(&mut host, wake + 1);
        let until = runs(&host).map(|_| host.machine().until(CPU).as_ns() / 1_000);
        assert_eq!((until, shows_us(&host, e, "deadline")), (runs_until, deadline));
    }
}

/// With `atropos`, the period after a late wake-up is as short as the latency. Each used-up slice then doubles slice
/// and period, up to those of the reservation.
#[test]
fn a_short_period_grows_back() {
    let mut host = host_that_unblocks("atropos");
    let e = hog(&mut host, Params { latency: Some(Nanos::ms(3)), ..hard(4_000, 20_000) });
    block_at(&mut host, 5_000, e);
    wake_at(&mut host, 40_000, e);
    let seen = |host: &Driver<'_>| ["period", "slice", "deadline"].map(|name| shows_us(host, e, name));
    assert_eq!(seen(&host), [3_000, 600, 43_000]);
    run_through(&mut host, 40_601);
    assert_eq!(seen(&host), [6_000, 1_200, 49_000]);
    run_through(&mut host, 44_201);
    assert_eq!(seen(&host), [12_000, 2_400, 61_000]);
    run_through(&mut host, 51_401);
    assert_eq!(seen(&host), [20_000, 4_000, 81_000], "no more than was asked for");
    // A latency beyond the period has no effect. A latency below the minimum gives the minimum slice.
    for (latency, period, slice) in [(Nanos::s(1), 20_000, 4_000), (Nanos::ns(1), 25, 5)] {
        host.pause(e);
        host.adjust(e, Params { latency: Some(latency), ..hard(4_000, 20_000) }).expect("it is accepted");
        let later = host.now().as_ns() / 1_000 + 100_000;
        run_through(&mut host, later);
        host.resume(e);
        assert_eq!(seen(&host)[..2], [period, slice]);
    }
}
