//! Tests of the differences between 3.0.3, 4.0.1 and 4.23, each by its knob and by its version.

use super::*;

const FIRST: [(&str, &str); 1] = [("version", "3.0.3")];
const TODAY: [(&str, &str); 1] = [("version", "4.23")];

fn one_cpu<'a>(words: &[(&str, &str)]) -> Driver<'a> {
    worded(sched::Topology::new(1), words, &[])
}

fn at_us(us: u64) -> Instant {
    Instant::at_ns(Nanos::us(us).as_ns())
}

#[test]
fn ticks_may_charge_the_running_vcpu_a_tick() {
    // `seen` runs for 12 ms in all, and runs at the ticks at 10 and 20 ms. `unseen` runs for 8 ms in all, between
    // ticks.
    let used_credits = |words: &[(&str, &str)]| {
        let mut host = one_cpu(words);
        let [seen, unseen] = [(), ()].map(|()| scripted(&mut host, Params::default()));
        for ms in [0, 10] {
            run_through(&mut host, ms);
            interrupt(&mut host, unseen);
            host.run_until(at(ms + 4));
            host.block(CPU);
            interrupt(&mut host, seen);
            run_through(&mut host, ms + 10);
            host.block(CPU);
        }
        run_through(&mut host, 29);
        [seen, unseen].map(|e| credit(&host, e))
    };
    assert_eq!(used_credits(&[("charging", "nearest")]), [-120, -80]);
    assert_eq!(used_credits(&[("charging", "floor")]), [-120, -79], "a nanosecond is lacking");
    assert_eq!(used_credits(&[("charging", "sampled")]), [-200, 0]);
    assert_eq!(used_credits(&FIRST), [-20, 0], "in milliseconds");
}

#[test]
fn accounts_may_be_kept_in_milliseconds() {
    // With `credits-per-ms = 1`, 20 ms burn 20 credits. In 3.0.3, each tick charges 10 credits, and debt is limited to
    // the 30 credits of a period.
    let mut host = host_of(sched::Topology::new(1), &[("credits-per-ms", 1)]);
    let e = hog(&mut host, Params::default());
    run_through(&mut host, 20);
    assert_eq!(credit(&host, e), -20);
    let mut first = one_cpu(&FIRST);
    let [heavy, light] = [65_535, 1].map(|weight| hog(&mut first, weighing(weight)));
    for ms in [10, 20] {
        first.run_until(at(ms));
        first.yield_now(CPU);
    }
    run_through(&mut first, 30);
    // Ticks found `heavy` running at 10 and 30 ms, and `light` at 20 ms.
    assert_eq!([heavy, light].map(|e| credit(&first, e)), [-20 + 30, -10 + 1]);
    run_through(&mut first, 300);
    assert!(credit(&first, light) >= -30, "the clamp");
}

#[test]
fn without_boost_under_never_preempts_under() {
    for (words, preempts) in [(&[][..], true), (&[("boost", "off")], false), (&FIRST, false), (&TODAY, true)] {
        let mut host = one_cpu(words);
        let busy = hog(&mut host, Params::default());
        let io = scripted(&mut host, Params::default());
        run_through(&mut host, 15);
        interrupt(&mut host, io);
        run_through(&mut host, 17);
        assert_eq!(running(&host, CPU), Some(if preempts { io } else { busy }), "{words:?}");
        run_through(&mut host, 30);
        assert_eq!(running(&host, CPU), Some(io), "at the end of the turn, at the latest");
    }
}

#[test]
fn a_migrated_vcpu_is_boosted_or_not() {
    for (words, label) in [(&[][..], BOOST), (&[("boost-migrated", "off")], UNDER), (&TODAY, UNDER)] {
        let mut host = worded(sched::Topology { cpus: 4, smt: 2, llc: 4 }, words, &[]);
        let pair = [CPU, OTHER].map(|cpu| {
            let e = scripted(&mut host, pinned(cpu));
            host.adjust(e, Params::default()).expect("accepted");
            e
        });
        for e in pair {
            interrupt(&mut host, e);
        }
        run_through(&mut host, 20);
        let moved =
            pair.into_iter().find(|&e| [CpuId::new(2), CpuId::new(3)].map(|c| running(&host, c)).contains(&Some(e)));
        assert_eq!(priority(&host, moved.expect("the second tick moves one to the idle core")), label, "{words:?}");
    }
}

#[test]
fn a_weight_is_for_all_members_or_for_each() {
    let per_member = [("weight-per", "member")];
    // Charging by samples makes 3.0.3 less exact than the other versions.
    let cases = [(&[][..], [1, 1, 2], 200), (&per_member, [1, 1, 1], 200), (&FIRST, [1, 1, 2], 2_000)];
    for (words, parts, off) in cases {
        let mut host = one_cpu(words);
        let vm = group(&mut host, GroupParams::default());
        let pair = [(), ()].map(|()| hog(&mut host, member(vm)));
        let alone = hog(&mut host, Params::default());
        let parts: Vec<(EntityId, u64)> = pair.into_iter().chain([alone]).zip(parts).collect();
        host.run_until(at(30_000));
        assert_shares(&mut host, &parts, Nanos::s(30), Nanos::ms(off));
    }
    // Two CPUs, a domain with two members of weight 256 each, and a domain with one member of weight 512. With T = 600
    // and W = 1024, the members receive 150, 150 and 300 credits.
    let mut table = crate::credit::domains::Domains::new(true);
    let ids: Vec<GroupId> = (1..3).map(|n| GroupId::new(n, 0)).collect();
    for (&id, (weight, members)) in ids.iter().zip([(256, 0..2), (512, 2..3)]) {
        let weight = Weight::xen(weight).expect("in range");
        table.update_group(id, &GroupParams { weight, ..GroupParams::default() });
        for n in members {
            let e = EntityId::new(n, 0);
            table.reserve(e, &member(id));
            table.activate(e, crate::credit::domains::DomainId::of(e, &member(id)));
        }
    }
    assert_eq!(table.active_weight(), 1024);
    let mut round = crate::credit::accounting::Round::new(2, 300, 0, 1024);
    let domains = std::iter::successors(table.first(), |&domain| table.next(domain));
    let each: Vec<i64> = domains.map(|domain| round.grant(table.get(domain)).each).collect();
    assert_eq!(each, [300, 150], "the domain that came last is first on the list");
}

#[test]
fn an_account_that_overflows_is_emptied_or_halved() {
    for (words, left) in [(&[][..], 0), (&[("overflow", "halve")], 250), (&TODAY, 250), (&FIRST, 0)] {
        let mut host = one_cpu(words);
        let e = scripted(&mut host, Params::default());
        interrupt(&mut host, e);
        run_through(&mut host, 10);
        host.block(CPU);
        run_through(&mut host, 60);
        assert_eq!((credit(&host, e), shows(&host, e, "active")), (left, 0), "{words:?}");
    }
}

#[test]
fn a_new_vcpu_earns_at_once_or_after_a_tick() {
    for (words, active) in [(&[][..], 0), (&[("begins", "active")], 1), (&FIRST, 1), (&TODAY, 0)] {
        let mut host = one_cpu(words);
        let e = scripted(&mut host, Params::default());
        assert_eq!(shows(&host, e, "active"), active, "{words:?}");
    }
}

#[test]
fn the_indebted_may_be_parked_when_they_next_stop() {
    // A cap of 80 %: after 30 ms, the vCPU owes 60 credits, less than its part of the cap.
    for (words, parks) in [(&[][..], false), (&[("parking", "in-debt")], true), (&FIRST, true)] {
        let mut host = worded(sched::Topology::new(1), words, &[("slice", 50_000_000)]);
        let vm = group(&mut host, capped(80));
        let e = hog(&mut host, member(vm));
        run_through(&mut host, 30);
        assert_eq!((shows(&host, e, "parked"), running(&host, CPU)), (i64::from(parks), Some(e)), "{words:?}");
        run_through(&mut host, 49);
        assert_eq!(running(&host, CPU), Some(e), "it runs on");
        run_through(&mut host, 50);
        assert_eq!(running(&host, CPU), if parks { None } else { Some(e) });
        assert_eq!(host.machine().is_held(e), parks);
        host.run_until(at(3_000));
        let used = used(&mut host, e);
        assert!(used <= Nanos::ms(2_400 + 60) && used >= Nanos::ms(2_400 - 60), "80 % in the long run: {used}");
    }
}

#[test]
fn an_unparked_vcpu_calls_its_cpu_or_waits_for_the_end_of_an_idle_time_slice() {
    // The cap is 50 %, so an accounting finds the vCPU in debt, and the vCPU is parked at its next stop. A later
    // accounting, at which the vCPU has credit again, unparks it.
    let begins = |words: &[(&str, &str)]| {
        let words: Vec<(&str, &str)> =
            [("charging", "sampled"), ("parking", "in-debt")].iter().chain(words).copied().collect();
        let mut host = worded(sched::Topology::new(1), &words, &[("slice", 25_000_000)]);
        let vm = group(&mut host, capped(50));
        let e = hog(&mut host, member(vm));
        let mut parts = Vec::new();
        run_through(&mut host, 1);
        for ms in 2..200 {
            let before = running(&host, CPU);
            run_through(&mut host, ms);
            if before.is_none() && running(&host, CPU) == Some(e) {
                parts.push(ms);
            }
        }
        parts
    };
    let (calls, waits) = (begins(&[("unparking", "calls")]), begins(&[("unparking", "waits")]));
    assert!(calls.iter().all(|ms| ms % 30 <= 1), "at once, at an accounting: {calls:?}");
    assert!(waits.iter().all(|ms| ms % 30 > 1), "a turn of 25 ms after it stopped, or two: {waits:?}");
    assert_eq!(begins(&[("version", "3.0.3"), ("charging", "sampled")]), {
        begins(&[("version", "3.0.3"), ("unparking", "waits")])
    });
}

#[test]
fn a_vcpu_parked_while_it_waits_has_its_time_slice_first() {
    // `e` runs into debt before the first accounting, yields, and is parked while it waits.
    for (words, runs) in [(&[][..], false), (&[("parking", "in-debt")], true), (&FIRST, true)] {
        let mut host = worded(sched::Topology::new(1), words, &[]);
        let vm = group(&mut host, capped(10));
        let e = hog(&mut host, member(vm));
        let other = scripted(&mut host, Params::default());
        run_through(&mut host, 29);
        interrupt(&mut host, other);
        host.yield_now(CPU);
        run_through(&mut host, 29);
        assert_eq!(running(&host, CPU), Some(other), "{words:?}");
        run_through(&mut host, 31);
        assert_eq!(shows(&host, e, "parked"), 1, "{words:?}");
        host.block(CPU);
        run_through(&mut host, 32);
        assert_eq!(running(&host, CPU), runs.then_some(e), "{words:?}");
    }
}

#[test]
fn an_idle_cpu_gives_an_entity_its_last_turn_before_parking_only_with_hand_off() {
    for hand_off in [true, false] {
        let mut host = worded(sched::Topology::new(2), &[("parking", "in-debt")], &[("hand-off", i64::from(hand_off))]);
        let vm = group(&mut host, capped(10));
        let e = host.attach("e", Params { affinity: CpuSet::one(CPU), ..member(vm) }, Workload::Hog).expect("accepted");
        let (other, neighbour) = (scripted(&mut host, pinned(CPU)), scripted(&mut host, pinned(OTHER)));
        interrupt(&mut host, neighbour);
        host.adjust(e, member(vm)).expect("accepted");
        run_through(&mut host, 29);
        interrupt(&mut host, other);
        host.yield_now(CPU);
        run_through(&mut host, 31);
        assert_eq!([CPU, OTHER].map(|cpu| running(&host, cpu)), [Some(other), Some(neighbour)]);
        assert_eq!((shows(&host, e, "parked"), host.machine().is_held(e)), (1, false), "its last turn is to come");
        host.block(OTHER);
        run_through(&mut host, 32);
        assert_eq!(running(&host, OTHER), hand_off.then_some(e), "hand-off: {hand_off}");
        run_through(&mut host, 62);
        assert!(host.machine().is_held(e) || !hand_off, "it is parked after that turn");
    }
}

#[test]
fn an_account_that_overflows_may_be_emptied_after_the_balance_is_taken() {
    // `rich`, a heavy blocked vCPU, earns credit; `poor`, a light hog, is in debt. With `empty-late`, the balance
    // includes the credit of `rich`, so the debt of `poor` is not distributed again.
    let credits = |overflow: &str| {
        let mut host = one_cpu(&[("overflow", overflow), ("begins", "active"), ("boost", "off")]);
        let rich = scripted(&mut host, weighing(60_000));
        let poor = hog(&mut host, weighing(256));
        run_through(&mut host, 90);
        (shows(&host, rich, "active"), credit(&host, poor))
    };
    let (empty, late) = (credits("empty"), credits("empty-late"));
    assert_eq!((empty.0, late.0), (0, 0), "it earns no longer");
    assert!(late.1 < empty.1, "{late:?} {empty:?}");
}

#[test]
fn a_parked_vcpu_that_runs_on_is_preempted_by_every_other() {
    let mut host =
        worded(sched::Topology::new(1), &[("parking", "in-debt"), ("boost", "off")], &[("slice", 90_000_000)]);
    let vm = group(&mut host, capped(80));
    let e = hog(&mut host, member(vm));
    let other = scripted(&mut host, Params::default());
    run_through(&mut host, 31);
    interrupt(&mut host, other);
    run_through(&mut host, 31);
    assert_eq!((running(&host, CPU), host.machine().is_held(e)), (Some(other), true));
    // `other` blocks. `e` is unparked and runs once it has credit again.
    host.block(CPU);
    run_through(&mut host, 61);
    assert_eq!((running(&host, CPU), shows(&host, e, "parked")), (Some(e), 0));
}

#[test]
fn a_short_turn_is_left_running() {
    let limited = [("ratelimit", "on")];
    for (words, keeps) in [(&[][..], false), (&limited, true), (&TODAY, true), (&FIRST, false)] {
        let words: Vec<(&str, &str)> = words.iter().copied().chain([("boost", "on")]).collect();
        let mut host = one_cpu(&words);
        let first = scripted(&mut host, Params::default());
        let second = scripted(&mut host, Params::default());
        host.run_until(at(2));
        interrupt(&mut host, first);
        // `first` runs until 9.5 ms, and again from 9.7 ms on. The tick at 10 ms ends its boost.
        host.run_until(at_us(9_500));
        host.block(CPU);
        run_through_us(&mut host, 9_700);
        interrupt(&mut host, first);
        run_through_us(&mut host, 10_100);
        interrupt(&mut host, second);
        run_through_us(&mut host, 10_101);
        let expected = if keeps { (first, at_us(10_700) + Nanos::ns(1)) } else { (second, host.machine().until(CPU)) };
        assert_eq!((running(&host, CPU), host.machine().until(CPU)), (Some(expected.0), expected.1), "{words:?}");
        run_through_us(&mut host, 10_701);
        assert_eq!(running(&host, CPU), Some(second));
    }
}

#[test]
fn the_rest_of_a_limited_turn_is_100_us_at_least_and_a_yield_ends_it() {
    let mut host = worded(sched::Topology::new(1), &[("ratelimit", "on")], &[("ratelimit-time", 2_000_000)]);
    let busy = hog(&mut host, Params::default());
    let io = scripted(&mut host, Params::default());
    run_through(&mut host, 30);
    assert_eq!(running(&host, CPU), Some(busy), "its turn goes on: it has been alone");
    interrupt(&mut host, io);
    run_through_us(&mut host, 30_100);
    assert_eq!(running(&host, CPU), Some(io), "a vCPU that has run for long is preempted at once");
    // At 40 ms, a tick ends the boost of `io`, so both vCPUs are UNDER. `io` then blocks, and `busy` begins a new run.
    run_through_us(&mut host, 40_000);
    host.block(CPU);
    run_through_us(&mut host, 40_001);
    assert_eq!(running(&host, CPU), Some(busy));
    host.run_until(at_us(41_960));
    interrupt(&mut host, io);
    run_through_us(&mut host, 41_960);
    assert_eq!((running(&host, CPU), host.machine().until(CPU)), (Some(busy), at_us(42_060)));
    run_through_us(&mut host, 42_060);
    assert_eq!(running(&host, CPU), Some(io));
    // The rate limit does not delay a yield, although `io` has run for less than 2 ms.
    run_through_us(&mut host, 42_100);
    host.yield_now(CPU);
    run_through_us(&mut host, 42_100);
    assert_eq!(running(&host, CPU), Some(io), "BOOST is before UNDER all the same");
    run_through_us(&mut host, 50_100);
    let begun = host.now();
    host.yield_now(CPU);
    run_through_us(&mut host, 50_101);
    assert_eq!(running(&host, CPU), Some(busy), "{begun}");
    host.yield_now(CPU);
    run_through_us(&mut host, 50_102);
    assert_eq!(running(&host, CPU), Some(io));
}

#[test]
fn a_yield_goes_behind_one_less_urgent_entity() {
    for (words, behind) in [(&[][..], false), (&[("yield", "behind-one")], true), (&TODAY, true)] {
        let mut host = one_cpu(words);
        // While the heavy vCPU earns credit, the light vCPUs become OVER.
        let under = scripted(&mut host, weighing(65_535));
        interrupt(&mut host, under);
        run_through(&mut host, 11);
        host.block(CPU);
        let over = [(), ()].map(|()| hog(&mut host, weighing(1)));
        run_through(&mut host, 62);
        assert_eq!(over.map(|e| priority(&host, e)), [OVER, OVER], "{words:?}");
        interrupt(&mut host, under);
        run_through(&mut host, 75);
        assert_eq!((running(&host, CPU), priority(&host, under)), (Some(under), UNDER));
        host.yield_now(CPU);
        run_through(&mut host, 75);
        let next = running(&host, CPU).expect("a vCPU waits");
        assert_eq!(over.contains(&next), behind, "{words:?}");
    }
}

#[test]
fn ticks_and_accountings_may_follow_the_slice() {
    // With `tick-from = slice` and a slice of 15 ms, ticks are every 5 ms, and accountings are every 15 ms. Accounts
    // hold at most 150 credits.
    for (words, found, credits) in [(&[][..], 10, -200), (&[("tick-from", "slice")], 5, -50), (&TODAY, 5, -50)] {
        let mut host = worded(sched::Topology::new(1), words, &[("slice", 15_000_000)]);
        let e = hog(&mut host, Params::default());
        run_through(&mut host, found - 1);
        assert_eq!(shows(&host, e, "active"), 0);
        run_through(&mut host, found);
        assert_eq!(shows(&host, e, "active"), 1, "{words:?}");
        run_through(&mut host, 20);
        assert_eq!(credit(&host, e), credits, "{words:?}");
    }
    // With a slice below 3 ms, there is one tick per slice.
    let mut host = worded(sched::Topology::new(1), &TODAY, &[("slice", 2_000_000)]);
    let e = hog(&mut host, Params::default());
    run_through_us(&mut host, 1_999);
    assert_eq!(shows(&host, e, "active"), 0);
    run_through_us(&mut host, 2_000);
    assert_eq!(shows(&host, e, "active"), 1);
}

#[test]
fn a_period_without_a_credit_is_refused() {
    let mut knobs = POLICY.defaults();
    knobs.set_word("version", "4.23").expect("a version");
    knobs.set("slice", 50_000).expect("in range");
    assert!(Driver::new(&POLICY, sched::Topology::new(1), &knobs, Costs::NONE).is_err());
}

#[test]
fn every_version_shares_by_weight_and_keeps_caps_in_the_long_run() {
    for words in [&[][..], &FIRST, &TODAY] {
        let mut host = worded(sched::Topology::new(2), words, &[]);
        let vms = [25, 200].map(|percent| group(&mut host, capped(percent)));
        let small = hog(&mut host, member(vms[0]));
        let big = [(), (), ()].map(|()| hog(&mut host, member(vms[1])));
        host.run_until(at(60_000));
        let small = used(&mut host, small);
        assert!(small <= Nanos::ms(16_100) && small >= Nanos::ms(14_000), "{words:?}: a quarter of 60 s: {small}");
        for e in big {
            let got = used(&mut host, e);
            // In 3.0.3 an unparked vCPU waits for the end of a time slice of the idle vCPU.
            let least = Nanos::ms(if words == FIRST { 29_000 } else { 31_000 });
            assert!(got >= least && got <= Nanos::ms(38_000), "{words:?}: 105 s among three: {got}");
        }
    }
}
