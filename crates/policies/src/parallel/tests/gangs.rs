//! Tests of the CPUs to which vCPUs are confined, and of calls, rounds (short time slices) and affinity exchange: Poris
//! §4.4, §4.5 and §5.

use super::*;

fn home(host: &Driver<'_>, e: EntityId) -> Option<CpuId> {
    match host.machine().state(e) {
        State::Running(cpu) => Some(cpu),
        _ => None,
    }
}

#[test]
fn siblings_have_cpus_of_their_own() {
    for policy in [&poris::POLICY, &poris_s::POLICY, &ps::POLICY, &hybrid::POLICY] {
        let mut host = host(policy, 4, &[]);
        let marked = group(&mut host, true, GroupId::ROOT);
        let vcpus = vm(&mut host, marked, 4);
        // Every CPU except CPU 0 has a hog, so Credit alone would let the siblings share CPU 0.
        let _hogs = [1, 2, 3].map(|cpu| hog(&mut host, on(CpuId::new(cpu))));
        vcpus.iter().for_each(|&e| wake(&mut host, e));
        run_through(&mut host, 0);
        let homes: Vec<_> = vcpus.iter().map(|&e| home(&host, e)).collect();
        assert_eq!(homes, [0, 1, 2, 3].map(|cpu| Some(CpuId::new(cpu))), "{}", policy.name);
    }
    // Without a mark, the siblings are not confined. Beside a hog on CPU 0, they migrate back and forth.
    let mut host = host(&ps::POLICY, 2, &[]);
    let unmarked = group(&mut host, false, GroupId::ROOT);
    let vcpus = vm(&mut host, unmarked, 2);
    let _hog = hog(&mut host, on(CPU));
    vcpus.iter().for_each(|&e| wake(&mut host, e));
    let mut seen = [[false; 2]; 2];
    for us in (0..2_000_000).step_by(5_000) {
        run_through(&mut host, us);
        for (seen, &e) in seen.iter_mut().zip(&vcpus) {
            if let Some(cpu) = home(&host, e) {
                seen[cpu.index()] = true;
            }
        }
    }
    assert!(seen.contains(&[true; 2]), "{seen:?}");
}

/// If the gangs have as many vCPUs in total as the host has CPUs, every CPU runs a vCPU.
#[test]
fn gangs_are_spread_over_the_host() {
    for (policy, vms, vcpus) in
        [(&poris::POLICY, 4, 2), (&poris_s::POLICY, 8, 1), (&ps::POLICY, 2, 4), (&hybrid::POLICY, 4, 2)]
    {
        let mut host = host(policy, 8, &[]);
        let all: Vec<EntityId> = (0..vms)
            .flat_map(|_| {
                let marked = group(&mut host, true, GroupId::ROOT);
                vm(&mut host, marked, vcpus)
            })
            .collect();
        all.iter().for_each(|&e| wake(&mut host, e));
        run_through(&mut host, 0);
        let mut homes: Vec<_> = all.iter().filter_map(|&e| home(&host, e)).collect();
        homes.sort_unstable();
        assert_eq!(homes, (0..8).map(CpuId::new).collect::<Vec<_>>(), "{}", policy.name);
    }
}

/// An event for one member of a group dispatches the whole group: Poris §4.6.
#[test]
fn an_event_calls_the_whole_group() {
    let mut host = host(&poris::POLICY, 2, &[]);
    let above = group(&mut host, true, GroupId::ROOT);
    let [left, right] = [(); 2].map(|()| group(&mut host, false, above)).map(|g| vm(&mut host, g, 1)[0]);
    let _hogs: Vec<EntityId> = [CPU, OTHER, CPU, OTHER].map(|cpu| hog(&mut host, on(cpu))).to_vec();
    [left, right].into_iter().for_each(|e| wake(&mut host, e));
    run_through(&mut host, 40_000);
    let waits = |host: &Driver<'_>, e| home(host, e).is_none() && priority(host, e) == UNDER;
    let us = (0..4_000).map(|n| 40_000 + n * 250).find(|&us| {
        run_through(&mut host, us);
        waits(&host, left) && waits(&host, right)
    });
    let us = us.expect("both wait some day");
    host.notice(left, Notice::Interrupt);
    run_through(&mut host, us);
    assert!([left, right].iter().all(|&e| home(&host, e).is_some()));
}

/// A vCPU that blocks has no rounds left and no raised priority, as if it had never been called.
#[test]
fn rounds_end_when_their_vcpu_blocks() {
    let mut host = host(&poris::POLICY, 1, &[]);
    let above = group(&mut host, true, GroupId::ROOT);
    let vms = [(); 2].map(|()| group(&mut host, false, above)).map(|g| vm(&mut host, g, 1)[0]);
    let _hogs = [(); 2].map(|()| hog(&mut host, Params::default()));
    vms.into_iter().for_each(|e| wake(&mut host, e));
    let us = (0..2_000).map(|n| 40_000 + n * 100).find(|&us| {
        run_through(&mut host, us);
        running(&host, CPU).is_some_and(|e| vms.contains(&e) && shows(&host, e, "rounds") > 1)
    });
    let us = us.expect("rounds begin some day");
    let e = running(&host, CPU).expect("a vCPU runs");
    host.block(CPU);
    run_through(&mut host, us);
    assert_eq!((shows(&host, e, "rounds"), priority(&host, e)), (0, UNDER));
}

/// Siblings also run together on top of the current version of Credit. A vCPU that continues because of its rate limit
/// keeps its priority.
#[test]
fn it_works_over_the_credit_of_today() {
    let mut host = host(&poris_s::POLICY, 2, &[("version", 2)]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let siblings = vm(&mut host, marked, 2);
    let _hogs: Vec<EntityId> = [CPU, OTHER, OTHER].map(|cpu| hog(&mut host, on(cpu))).to_vec();
    siblings.iter().for_each(|&e| wake(&mut host, e));
    let (mut one, mut both) = (0, 0);
    for us in (0..1_000_000).step_by(500) {
        run_through(&mut host, us);
        let run = siblings.iter().filter(|&&e| home(&host, e).is_some()).count();
        one += usize::from(run == 1);
        both += usize::from(run == 2);
    }
    assert!(both > 10 * one && both > 400, "{both} together, {one} alone");
}

#[test]
fn a_place_is_where_affinity_allows() {
    let mut host = host(&ps::POLICY, 2, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let any = attach(&mut host, Params { group: marked, ..Params::default() });
    let left = attach(&mut host, Params { group: marked, ..on(CPU) });
    // `any` already has CPU 0, and `left` may run only on CPU 0. `left` is therefore not confined.
    for e in [any, left] {
        wake(&mut host, e);
    }
    run_through(&mut host, 0);
    assert_eq!([any, left].map(|e| home(&host, e)), [Some(CPU), None]);
    // Once `any` may run only on CPU 1, `left` receives CPU 0.
    host.adjust(any, Params { group: marked, ..on(OTHER) }).expect("accepted");
    run_through(&mut host, 1);
    assert_eq!([any, left].map(|e| home(&host, e)), [Some(OTHER), Some(CPU)]);
}

/// Returns in how many of 600 samples, one per millisecond, both siblings run. One hog is on CPU 0, and three hogs are
/// on CPU 1.
fn chosen_beside_hogs(policy: &'static Descriptor) -> usize {
    let mut host = host(policy, 2, &[]);
    let marked = group(&mut host, true, GroupId::ROOT);
    let siblings = [(); 2].map(|()| hog(&mut host, Params { group: marked, ..Params::default() }));
    for cpu in [CPU, OTHER, OTHER, OTHER] {
        hog(&mut host, on(cpu));
    }
    let mut together = 0;
    for us in (0..600_000).step_by(1_000) {
        run_through(&mut host, us);
        let run = siblings.map(|e| home(&host, e).is_some());
        together += usize::from(run == [true, true]);
    }
    together
}

#[test]
fn a_chosen_vcpu_calls_its_siblings() {
    let alone = chosen_beside_hogs(&rs::POLICY);
    for policy in [&poris::POLICY, &poris_s::POLICY, &ps::POLICY, &hybrid::POLICY] {
        let together = chosen_beside_hogs(policy);
        assert!(together > alone + 100, "{}: {together} of 600 samples, {alone} without", policy.name);
    }
}

#[test]
fn rounds_are_counted_and_have_their_length() {
    for (round, length) in [(ms(1), 1_000), (500_000, 500)] {
        let mut host = host(&poris::POLICY, 1, &[("round", round), ("latency", ms(15))]);
        let above = group(&mut host, true, GroupId::ROOT);
        let vms = [(); 2].map(|()| group(&mut host, false, above)).map(|g| vm(&mut host, g, 1)[0]);
        let _hogs = [(); 2].map(|()| hog(&mut host, Params::default()));
        run_through(&mut host, 1_000);
        for e in vms {
            wake(&mut host, e);
        }
        run_through(&mut host, 40_000);
        let (mut longest, mut before) = (0, (None, 0));
        for us in (40_000..200_000).step_by(100) {
            run_through(&mut host, us);
            let now = running(&host, CPU);
            let rounds = now.map_or(0, |e| shows(&host, e, "rounds"));
            longest = longest.max(rounds);
            if rounds > 0 && before.0 != now && before.0.is_some() {
                assert!(turn(&host, CPU) <= length, "at {us} us");
            }
            before = (now, rounds);
        }
        assert_eq!(longest, 5_000 / i64::try_from(length).expect("short"), "four vCPUs: turns of 5 ms");
    }
}

#[test]
fn packing_decides_which_vcpus_run_together() {
    // VMs of 1, 2, 3 and 1 vCPUs on four CPUs.
    for (word, expected) in [(0, [0, 1, 0, 1]), (1, [0, 0, 1, 0]), (2, [0, 0, 1, 1])] {
        let mut host = host(&poris::POLICY, 4, &[("packing", word)]);
        let above = group(&mut host, true, GroupId::ROOT);
        let vms = [1, 2, 3, 1].map(|size| {
            let g = group(&mut host, false, above);
            vm(&mut host, g, size)
        });
        for (vm, expected) in vms.iter().zip(expected) {
            assert!(vm.iter().all(|&e| shows(&host, e, "subgroup") == expected), "packing {word}");
        }
    }
}

/// Returns whether two siblings exchange CPUs when CPU 0 becomes free. One sibling waits on CPU 1 behind a vCPU of the
/// highest priority. The other sibling, which is OVER, waits on CPU 0.
fn exchange(policy: &'static Descriptor, allowed: bool) -> bool {
    let all = [("latency", ms(60)), ("affinity-exchange", i64::from(allowed))];
    let has = |name| policy.knobs.iter().any(|knob| knob.name == name);
    let knobs: Vec<(&str, i64)> = all.into_iter().filter(|&(name, _)| has(name)).collect();
    let mut host = host(policy, 2, &knobs);
    let [ours, theirs] = [(); 2].map(|()| group(&mut host, true, GroupId::ROOT));
    let light = GroupParams { gang: true, weight: Weight::xen(64).expect("in range"), ..GroupParams::default() };
    host.adjust_group(ours, light).expect("accepted");
    let (siblings, others) = (vm(&mut host, ours, 2), vm(&mut host, theirs, 2));
    let _hogs: Vec<EntityId> = (0..2).map(|_| hog(&mut host, on(OTHER))).collect();
    wake(&mut host, siblings[0]);
    run_through(&mut host, 61_000);
    assert_eq!(home(&host, siblings[0]), Some(CPU));
    // The other VM runs on both CPUs with the highest priority. The accounting finds that the sibling on CPU 0 has
    // overspent its credit.
    wake(&mut host, others[1]);
    wake(&mut host, others[0]);
    run_through(&mut host, 90_500);
    assert_eq!([others[0], others[1]].map(|e| home(&host, e)), [Some(CPU), Some(OTHER)], "{}", policy.name);
    assert!(priority(&host, siblings[0]) < UNDER);
    wake(&mut host, siblings[1]);
    run_through(&mut host, 90_500);
    assert_eq!(home(&host, siblings[1]), None);
    host.block(CPU);
    run_through(&mut host, 90_500);
    home(&host, siblings[1]) == Some(CPU)
}

#[test]
fn siblings_exchange_their_cpus() {
    for (policy, exchanges) in
        [(&ps::POLICY, true), (&poris_s::POLICY, true), (&poris::POLICY, true), (&hybrid::POLICY, false)]
    {
        assert_eq!(exchange(policy, true), exchanges, "{}", policy.name);
        assert!(!exchange(policy, false), "{}", policy.name);
    }
}
