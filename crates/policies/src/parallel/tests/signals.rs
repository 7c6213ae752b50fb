//! Tests of the calls of a gang: the calling vCPU, the number of calls, and the demand (Weng et al., VEE 2009 and HPDC
//! 2011).

use super::*;

/// Returns a host and the two blocked vCPUs of a marked VM, on CPUs 0 and 1. Three hogs occupy the CPU `crowded`.
fn crowded<'a>(policy: &'static Descriptor, knobs: &[(&str, i64)], crowded: CpuId) -> (Driver<'a>, [EntityId; 2]) {
    let mut host = host(policy, 2, knobs);
    let marked = group(&mut host, true, GroupId::ROOT);
    let siblings = [(); 2].map(|()| attach(&mut host, Params { group: marked, ..Params::default() }));
    let _hogs = [(); 3].map(|()| hog(&mut host, on(crowded)));
    run_through(&mut host, 11_000);
    (host, siblings)
}

/// Returns in how many of 1,000 samples, one per millisecond, both siblings run.
fn together(host: &mut Driver<'_>, siblings: [EntityId; 2]) -> usize {
    let begun = host.now().as_ns() / 1_000;
    let mut together = 0;
    for n in 0..1_000 {
        run_through(host, begun + n * 1_000);
        together += usize::from(siblings.iter().all(|&e| matches!(host.machine().state(e), State::Running(_))));
    }
    together
}

#[test]
fn only_the_cpu_of_the_first_vcpu_calls_unless_all_may() {
    let wait = |cpu, from| {
        let (mut host, siblings) = crowded(&hybrid::POLICY, &[("signal-from", from)], cpu);
        siblings.iter().for_each(|&e| wake(&mut host, e));
        together(&mut host, siblings)
    };
    // The first vCPU is on CPU 0. At first CPU 1 is overloaded, then CPU 0.
    let [first, boot, any] = [0, 1, 2];
    for from in [first, boot, any] {
        assert!(wait(OTHER, from) > 900, "{}", wait(OTHER, from));
    }
    assert!(wait(CPU, first) < 600 && wait(CPU, boot) < 600, "{} {}", wait(CPU, first), wait(CPU, boot));
    assert!(wait(CPU, any) > 900, "{}", wait(CPU, any));
}

/// CPU 0, the boot CPU, never calls the siblings of a VM without a vCPU on CPU 0. The CPU of the first vCPU calls them.
#[test]
fn the_boot_cpu_calls_only_the_vcpus_it_chooses() {
    let together_from = |from| {
        let mut host = host(&hybrid::POLICY, 3, &[("signal-from", from)]);
        let marked = group(&mut host, true, GroupId::ROOT);
        let siblings = [OTHER, CpuId::new(2)].map(|cpu| attach(&mut host, Params { group: marked, ..on(cpu) }));
        let _hogs = [(); 3].map(|()| hog(&mut host, on(CpuId::new(2))));
        siblings.iter().for_each(|&e| wake(&mut host, e));
        together(&mut host, siblings)
    };
    let [first, boot] = [0, 1].map(together_from);
    assert!(first > boot + 300, "{first} and {boot}");
}

#[test]
fn a_vm_is_called_at_most_as_often_as_the_knob_allows() {
    let shares: Vec<usize> = [30, 300, 3_000]
        .map(|every| {
            let (mut host, siblings) = crowded(&hybrid::POLICY, &[("signal-every", ms(every))], OTHER);
            siblings.iter().for_each(|&e| wake(&mut host, e));
            together(&mut host, siblings)
        })
        .to_vec();
    assert!(shares[0] > shares[1] + 200 && shares[1] >= shares[2], "{shares:?}");
}

/// Returns in how many of 1,000 samples, one per millisecond, both siblings run. Every 20 ms, the guest of the first
/// sibling reports a spin wait of `waited`.
fn spinning(knobs: &[(&str, i64)], waited: Nanos) -> usize {
    let (mut host, siblings) = crowded(&adaptive::POLICY, knobs, OTHER);
    siblings.iter().for_each(|&e| wake(&mut host, e));
    let mut sum = 0;
    let begun = host.now().as_ns() / 1_000;
    for n in 0..1_000 {
        run_through(&mut host, begun + n * 1_000);
        sum += usize::from(siblings.iter().all(|&e| matches!(host.machine().state(e), State::Running(_))));
        if n % 20 == 0 {
            host.notice(siblings[0], Notice::SpinWait { waited });
        }
    }
    sum
}

#[test]
fn vms_are_brought_together_while_they_spin() {
    let (quiet, short, long) =
        (spinning(&[], Nanos::ZERO), spinning(&[], Nanos::us(449)), spinning(&[], Nanos::us(450)));
    assert_eq!(quiet, short, "below the threshold");
    assert!(long > quiet + 200, "{long} with reports, {quiet} without");
    assert_eq!(spinning(&[("threshold", 451_000)], Nanos::us(450)), quiet);
    assert_eq!(spinning(&[("threshold", 400_000)], Nanos::us(449)), long);
}

#[test]
fn an_interval_begins_with_a_report_and_ends() {
    // The siblings are confined during the interval: one vCPU has CPU 0, and CPU 1 is overloaded.
    let shares = [10, 1_000].map(|interval| {
        let knobs = [("interval", ms(interval)), ("interval-most", ms(interval))];
        let (mut host, siblings) = crowded(&adaptive::POLICY, &knobs, OTHER);
        siblings.iter().for_each(|&e| wake(&mut host, e));
        host.notice(siblings[0], Notice::SpinWait { waited: Nanos::ms(1) });
        together(&mut host, siblings)
    });
    assert!(shares[1] > shares[0] + 200, "{shares:?}");
}

#[test]
fn the_bounds_of_intervals_must_not_cross() {
    let mut knobs = adaptive::POLICY.defaults();
    knobs.set("interval-least", ms(2_000)).expect("in range");
    let refused = Driver::new(&adaptive::POLICY, sched::Topology::new(1), &knobs, Costs::NONE).expect_err("refused");
    assert!(refused.to_string().contains("interval-most"), "{refused}");
}

/// With short intervals that may grow, a VM that keeps spinning is co-scheduled for increasing intervals.
#[test]
fn intervals_are_learned() {
    let fixed = spinning(&[("interval", ms(10)), ("interval-most", ms(10))], Nanos::ms(1));
    let grown = spinning(&[("interval", ms(10)), ("interval-most", ms(1_000))], Nanos::ms(1));
    assert!(grown > fixed, "{grown} against {fixed}");
}
