//! Tests of BOOST, UNDER and OVER: the order of vCPUs on one CPU.

use super::*;

#[test]
fn example_3_a_woken_vcpu_with_credit_preempts_until_a_tick_finds_it() {
    let mut host = host(1);
    let busy = hog(&mut host, Params::default());
    let io = scripted(&mut host, Params::default());
    run_through(&mut host, 10);
    assert_eq!((priority(&host, busy), priority(&host, io)), (UNDER, UNDER));
    // Twice, `io` runs for 2 ms between ticks, and stays BOOST while it is blocked.
    for ms in [11, 15] {
        host.run_until(at(ms));
        interrupt(&mut host, io);
        run_through(&mut host, ms);
        assert_eq!((running(&host, CPU), priority(&host, io)), (Some(io), BOOST));
        host.run_until(at(ms + 2));
        host.block(CPU);
        run_through(&mut host, ms + 2);
        assert_eq!((running(&host, CPU), priority(&host, io)), (Some(busy), BOOST));
    }
    assert_eq!((credit(&host, io), shows(&host, io, "active")), (-40, 0));
    // A tick finds `io` running.
    host.run_until(at(19));
    interrupt(&mut host, io);
    run_through(&mut host, 20);
    assert_eq!((running(&host, CPU), priority(&host, io), shows(&host, io, "active")), (Some(io), UNDER, 1));
    // When `io` next stops, it is queued behind the other UNDER vCPU.
    host.run_until(at(25));
    host.yield_now(CPU);
    run_through(&mut host, 25);
    assert_eq!(running(&host, CPU), Some(busy));
}

#[test]
fn a_boosted_entity_waits_behind_another_boosted_one() {
    let mut host = host(1);
    let [first, second] = [(), ()].map(|()| scripted(&mut host, Params::default()));
    interrupt(&mut host, first);
    run_through(&mut host, 1);
    interrupt(&mut host, second);
    run_through(&mut host, 1);
    assert_eq!(running(&host, CPU), Some(first), "no vCPU preempts its equal");
    run_through(&mut host, 30);
    assert_eq!(running(&host, CPU), Some(second), "the tick at 10 ms has found the first");
}

#[test]
fn an_over_vcpu_is_not_boosted() {
    let mut host = host(1);
    let [light, heavy] = [16, 4096].map(|weight| scripted(&mut host, weighing(weight)));
    interrupt(&mut host, light);
    run_through(&mut host, 10);
    interrupt(&mut host, heavy);
    run_through(&mut host, 30);
    // Ticks found both vCPUs running. `light` earns 2 of 300 credits and has used 100.
    assert_eq!((priority(&host, light), priority(&host, heavy)), (OVER, UNDER));
    host.pause(light);
    run_through(&mut host, 31);
    interrupt(&mut host, light);
    run_through(&mut host, 32);
    assert_eq!((running(&host, CPU), priority(&host, light)), (Some(heavy), OVER));
    // A vCPU that wakes OVER stays OVER until the next accounting, and does not preempt UNDER vCPUs.
    host.run_until(at(59));
    assert_eq!(running(&host, CPU), Some(heavy));
}

#[test]
fn a_vcpu_that_blocks_before_every_tick_is_boosted_for_ever() {
    let mut host = host(1);
    let busy = hog(&mut host, Params::default());
    let evader = scripted(&mut host, Params::default());
    for ms in (11..3_000).step_by(10) {
        host.run_until(at(ms));
        interrupt(&mut host, evader);
        run_through(&mut host, ms);
        assert_eq!((running(&host, CPU), priority(&host, evader)), (Some(evader), BOOST));
        host.run_until(at(ms + 8));
        host.block(CPU);
    }
    host.run_until(at(3_000));
    assert_eq!((used(&mut host, evader), used(&mut host, busy)), (Nanos::ms(2_392), Nanos::ms(608)));
    assert_eq!((credit(&host, evader), shows(&host, evader, "active")), (-23_920, 0));
}

#[test]
fn two_vcpus_that_wake_each_other_in_turn_starve_a_hog() {
    // The descriptor states no starvation bound for loads with sleepers, because such a pair has priority over all
    // hogs.
    let mut host = host(1);
    let out = hog(&mut host, weighing(1));
    let pair = [(), ()].map(|()| scripted(&mut host, weighing(65_535)));
    for turn in 0..400 {
        host.run_until(at(30 + 15 * turn));
        let [from, to] = if turn % 2 == 0 { [pair[1], pair[0]] } else { pair };
        if turn > 0 {
            assert_eq!(running(&host, CPU), Some(from));
            host.block(CPU);
        }
        interrupt(&mut host, to);
    }
    host.run_until(at(6_020));
    assert_eq!((used(&mut host, out), priority(&host, out)), (Nanos::ms(30), UNDER));
}

#[test]
fn a_yield_goes_last_in_its_class_and_begins_a_new_time_slice() {
    let mut host = host(1);
    let [a, b, c] = [(), (), ()].map(|()| hog(&mut host, Params::default()));
    host.run_until(at(12));
    host.yield_now(CPU);
    run_through(&mut host, 12);
    assert_eq!((running(&host, CPU), host.machine().until(CPU)), (Some(b), at(42)));
    for (ms, next) in [(42, c), (72, a)] {
        run_through(&mut host, ms);
        assert_eq!(running(&host, CPU), Some(next));
    }
}

#[test]
fn a_preempted_vcpu_loses_the_rest_of_its_time_slice_and_goes_last() {
    // The first accounting is at 1 s, so both hogs stay UNDER until then.
    let mut host = host_of(sched::Topology::new(1), &[("accounting-ticks", 100)]);
    let [a, b] = [(), ()].map(|()| hog(&mut host, Params::default()));
    let io = scripted(&mut host, Params::default());
    // Each hog has run for one time slice. The second time slice of `a` is from 60 to 90 ms.
    host.run_until(at(72));
    assert_eq!(running(&host, CPU), Some(a));
    interrupt(&mut host, io);
    host.run_until(at(73));
    assert_eq!(running(&host, CPU), Some(io));
    host.block(CPU);
    run_through(&mut host, 73);
    assert_eq!((running(&host, CPU), host.machine().until(CPU)), (Some(b), at(103)));
}

/// Returns the name of the vCPU that runs on CPU 1 after the running vCPU `r` is paused at `ms`. CPU 1 has the queue
/// `[p, q]`, and its ticks are at 5, 15 … 65 ms. Until the accounting at 60 ms, `p` is UNDER and `q` is OVER;
/// afterwards, `p` is OVER and `q` is UNDER.
fn next_after_pause(ms: u64) -> &'static str {
    let mut host = host_of(sched::Topology::new(2), &[("tick-stagger", 5_000_000)]);
    let vms = [45, 34].map(|percent| group(&mut host, capped(percent)));
    let [q, p] = vms.map(|group| hog(&mut host, Params { group, ..pinned(OTHER) }));
    let r = hog(&mut host, pinned(OTHER));
    host.run_until(at(20));
    host.yield_now(OTHER);
    run_through(&mut host, 59);
    assert_eq!([r, p, q].map(|e| priority(&host, e)), [UNDER, UNDER, OVER]);
    run_through(&mut host, 60);
    assert_eq!([r, p, q].map(|e| priority(&host, e)), [UNDER, OVER, UNDER]);
    assert_eq!([p, q].map(|e| shows(&host, e, "parked")), [0, 0]);
    host.run_until(at(ms));
    assert_eq!(running(&host, OTHER), Some(r));
    host.pause(r);
    run_through(&mut host, ms);
    if running(&host, OTHER) == Some(p) { "p" } else { "q" }
}

#[test]
fn accounting_moves_no_vcpu_in_a_queue_before_the_next_tick_of_its_cpu() {
    assert_eq!(next_after_pause(62), "p", "the head, though it is OVER and UNDER stands behind it");
    assert_eq!(next_after_pause(66), "q", "the tick at 65 ms has sorted the queue");
}
#[test]
fn the_example_of_the_essay() {
    let mut host = host(1);
    let [a, _] = [512, 256].map(|weight| hog(&mut host, weighing(weight)));
    let mut gantt = String::new();
    for ms in (1..180).step_by(5) {
        host.run_until(at(ms));
        gantt.push(if running(&host, CPU) == Some(a) { 'a' } else { 'b' });
    }
    assert_eq!(gantt, "aaaaaabbbbbbaaaaaaaaaaaabbbbbbaaaaaa");
    assert!(POLICY.essay().contains(&gantt));
}
