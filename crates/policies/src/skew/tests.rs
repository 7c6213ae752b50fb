//! Tests of `cosched-strict` and `cosched-relaxed` against the rules of VMware's papers of 2008 and 2013, in virtual
//! time.

use crate::fixture::{
    awake, gang, host_under, is_running as runs, member as of, run_through_us as run_through, scripted as asleep, shows,
};
use crate::{cosched_relaxed, cosched_strict};
use sched::{CpuId, CpuSet, Descriptor, EntityId, GroupParams, Nanos, Params, Wake, Weight};
use sim::Driver;

const STRICT: &Descriptor = &cosched_strict::POLICY;
const RELAXED: &Descriptor = &cosched_relaxed::POLICY;
const VERSION_3: (&str, i64) = ("version", 1);

fn host<'a>(policy: &'static Descriptor, cpus: usize, knobs: &[(&str, i64)]) -> Driver<'a> {
    host_under(policy, sched::Topology::new(cpus), knobs)
}

fn on(cpu: usize) -> Params {
    Params { affinity: CpuSet::one(CpuId::new(cpu)), ..Params::default() }
}

fn vm(host: &mut Driver<'_>, vcpus: usize) -> Vec<EntityId> {
    let group = gang(host);
    (0..vcpus).map(|_| awake(host, of(group))).collect()
}

/// Returns the states of entities as a string: `ha.` means that the first two entities run and the third does not. `-`
/// marks a stopped entity.
fn states(host: &Driver<'_>, all: &[(char, EntityId)]) -> String {
    let sign = |&(name, e): &(char, EntityId)| match (runs(host, e), host.machine().is_held(e)) {
        (true, _) => name,
        (_, true) => '-',
        (_, false) => '.',
    };
    all.iter().map(sign).collect()
}

/// Returns a column of the picture in an essay: the entities on the two CPUs, and the stopped entities.
fn column(host: &Driver<'_>, all: &[(char, EntityId)]) -> String {
    let name = |e| all.iter().find(|&&(_, other)| other == e).expect("it is one of them").0;
    let runs = |cpu| host.machine().running(CpuId::new(cpu)).map_or('.', name);
    let stopped: String = all.iter().filter(|&&(_, e)| host.machine().is_held(e)).map(|&(name, _)| name).collect();
    format!("{}{} {stopped}", runs(0), runs(1)).trim_end().to_string()
}

/// Asserts the column at each of these instants, in microseconds.
fn assert_columns(host: &mut Driver<'_>, all: &[(char, EntityId)], expected: &[(u64, &str)]) {
    for &(us, wanted) in expected {
        run_through(host, us);
        assert_eq!(column(host, all), wanted, "at {us} us");
    }
}

/// Returns a host of two CPUs with a hog and a VM of two vCPUs, as in the pictures of the essays.
fn hog_and_vm<'a>(policy: &'static Descriptor, knobs: &[(&str, i64)]) -> (Driver<'a>, [(char, EntityId); 3]) {
    let mut host = host(policy, 2, knobs);
    let hog = awake(&mut host, Params::default());
    let vcpus = vm(&mut host, 2);
    (host, [('h', hog), ('a', vcpus[0]), ('b', vcpus[1])])
}

#[test]
fn strict_the_picture_of_the_essay() {
    let (mut host, all) = hog_and_vm(STRICT, &[]);
    let expected = [
        (0, "ha"),
        (4_999, "ha"),
        (5_000, "h. ab"),
        (5_999, "h. ab"),
        (6_001, "ab"),
        (55_999, "ab"),
        (56_001, "hb"),
        (60_999, "hb"),
        (61_001, "h. ab"),
        (105_999, "h. ab"),
        (106_001, "ab"),
    ];
    assert_columns(&mut host, &all, &expected);
}

#[test]
fn relaxed_the_picture_of_the_essay() {
    let (mut host, all) = hog_and_vm(RELAXED, &[]);
    let expected = [
        (0, "ha"),
        (2_999, "ha"),
        (3_000, "hb a"),
        (3_999, "hb a"),
        (4_000, "hb"),
        (8_999, "hb"),
        (9_000, "ha b"),
        (9_999, "ha b"),
        (10_000, "ba"),
        (58_999, "ba"),
        (59_001, "bh"),
    ];
    assert_columns(&mut host, &all, &expected);
}

/// In version 3, the VM stops as a whole, but only lagging vCPUs must receive a CPU.
#[test]
fn version_3_starts_lagging_vcpus_first_and_the_others_when_they_can() {
    let (mut host, all) = hog_and_vm(RELAXED, &[VERSION_3]);
    let expected = [
        (2_999, "ha"),
        // `b` lags by 3 ms and takes the CPU of `a`. `a` has received the same CPU time as `h`, and continues when a
        // CPU is free.
        (3_000, "hb"),
        (5_999, "hb"),
        // `a` lags and takes the CPU of `b`. `b`, which has received 3 ms less than `h`, takes the CPU of `h`.
        (6_001, "ba"),
    ];
    assert_columns(&mut host, &all, &expected);
}

/// A VM alone on a host has no skew, and no vCPU is stopped.
#[test]
fn a_vm_alone_is_never_stopped() {
    for (policy, knobs) in [(STRICT, &[][..]), (RELAXED, &[]), (RELAXED, &[VERSION_3])] {
        let mut host = host(policy, 2, knobs);
        let all = vm(&mut host, 2);
        for ms in 0..500 {
            run_through(&mut host, 1_000 * ms);
            assert!(all.iter().all(|&e| runs(&host, e)), "{} at {ms} ms", policy.name);
            assert!(all.iter().all(|&e| shows(&host, e, "skew-us") == 0), "{} at {ms} ms", policy.name);
        }
    }
}

/// A vCPU whose guest idles makes progress. Waiting siblings lag, and the idle vCPU needs no CPU when the VM is
/// started.
#[test]
fn an_idle_vcpu_makes_progress_and_needs_no_cpu() {
    let mut host = host(STRICT, 1, &[]);
    let _hog = awake(&mut host, Params::default());
    let group = gang(&mut host);
    let [busy, idle] = [awake(&mut host, of(group)), asleep(&mut host, of(group))];
    run_through(&mut host, 4_000);
    assert_eq!([busy, idle].map(|e| shows(&host, e, "skew-us")), [0; 2], "counted when something happens");
    run_through(&mut host, 5_010);
    assert!(runs(&host, busy), "one CPU is enough for one, and it has had 5 ms less than the hog");
    assert!((2_480..=2_500).contains(&shows(&host, busy, "skew-us")), "it restarted at half the threshold");
}

/// While no vCPU makes progress, no lag grows.
#[test]
fn no_vcpu_lags_while_all_wait() {
    let mut host = host(STRICT, 1, &[("margin", 1_000_000_000)]);
    let _hog = awake(&mut host, Params::default());
    let all = vm(&mut host, 2);
    run_through(&mut host, 49_000);
    assert_eq!(states(&host, &[('a', all[0]), ('b', all[1])]), "..");
    assert_eq!(all.iter().map(|&e| shows(&host, e, "skew-us")).max(), Some(0));
    run_through(&mut host, 54_000);
    assert_eq!(states(&host, &[('a', all[0]), ('b', all[1])]), "a.", "then one of them makes progress");
    run_through(&mut host, 55_001);
    assert_eq!(all.iter().filter(|&&e| runs(&host, e)).count(), 1, "there is one CPU; and so they take turns");
    assert!(runs(&host, all[1]));
}

/// All vCPUs of a VM with more vCPUs than there are CPUs make progress, with and without hogs beside the VM.
#[test]
fn a_vm_larger_than_the_host_gets_on() {
    for (policy, knobs) in [(STRICT, &[][..]), (RELAXED, &[]), (RELAXED, &[VERSION_3])] {
        for hogs in [0, 2] {
            let mut host = host(policy, 2, knobs);
            let vcpus = vm(&mut host, 5);
            let others: Vec<EntityId> = (0..hogs).map(|_| awake(&mut host, Params::default())).collect();
            run_through(&mut host, 10_000_000);
            let had = |e: &EntityId| host.machine().charged(*e).as_ns() / 1_000_000;
            let shares: Vec<u64> = vcpus.iter().map(had).collect();
            let (least, most) = (shares.iter().min().expect("five"), shares.iter().max().expect("five"));
            assert!(most - least <= 110 && *least > 2_000, "{}, {hogs} hogs: {shares:?}", policy.name);
            let beside: Vec<u64> = others.iter().map(had).collect();
            assert!(beside.iter().all(|&ms| ms > 2_000), "{}: {shares:?} beside {beside:?}", policy.name);
        }
    }
}

/// If more vCPUs wait than run, skews grow faster than they shrink. A VM still stops at most once in any interval of
/// half the threshold, which bounds the number of dispatches.
#[test]
fn stops_do_not_follow_each_other_without_end() {
    for (policy, knobs) in [(STRICT, &[][..]), (RELAXED, &[]), (RELAXED, &[VERSION_3])] {
        for vcpus in 3..=7 {
            let mut host = host(policy, 2, knobs);
            vm(&mut host, vcpus);
            run_through(&mut host, 1_000_000);
            let dispatches = host.counts().dispatches;
            assert!(dispatches < 2_000 * vcpus as u64, "{}, {vcpus} vCPUs: {dispatches} in a second", policy.name);
        }
    }
}

/// Two vCPUs of a VM that are pinned to one CPU share that CPU equally. The hog receives the other CPU.
#[test]
fn a_vm_that_is_kept_to_one_cpu_gets_on() {
    for (policy, knobs) in [(STRICT, &[][..]), (RELAXED, &[]), (RELAXED, &[VERSION_3])] {
        let mut host = host(policy, 2, knobs);
        let group = gang(&mut host);
        let vcpus = [(); 2].map(|()| awake(&mut host, Params { group, ..on(0) }));
        let hog = awake(&mut host, Params::default());
        run_through(&mut host, 4_000_000);
        let had = vcpus.map(|e| host.machine().charged(e).as_ns() / 1_000_000);
        assert!(had[0].abs_diff(had[1]) <= 60 && had[0] > 1_900, "{}: {had:?}", policy.name);
        assert!(host.machine().charged(hog) > Nanos::ms(3_900), "{}: there is a whole CPU for it", policy.name);
    }
}

/// Returns the maximum skew of the two vCPUs of a VM over 4 s, in microseconds. The VM runs on two CPUs beside three
/// hogs.
fn furthest(policy: &'static Descriptor, knobs: &[(&str, i64)]) -> i64 {
    let mut host = host(policy, 2, knobs);
    let vcpus = vm(&mut host, 2);
    let _hogs = [(); 3].map(|()| awake(&mut host, Params::default()));
    let mut furthest = 0;
    for us in (0..4_000_000).step_by(500) {
        run_through(&mut host, us);
        furthest = furthest.max(vcpus.iter().map(|&e| shows(&host, e, "skew-us")).max().unwrap_or(0));
    }
    furthest
}

#[test]
fn no_skew_goes_beyond_its_threshold() {
    let never = ("threshold", 1_000_000_000_000);
    for (policy, knobs, threshold) in [
        (STRICT, &[][..], 5_000),
        (STRICT, &[("threshold", 1_000_000)], 1_000),
        (RELAXED, &[], 3_000),
        (RELAXED, &[("threshold", 20_000_000)], 20_000),
        (RELAXED, &[VERSION_3], 3_000),
    ] {
        let skew = furthest(policy, knobs);
        assert!(skew <= threshold, "{}: {skew} us", policy.name);
    }
    let [strict, relaxed] = [STRICT, RELAXED].map(|policy| furthest(policy, &[never]));
    assert!(strict > 20_000 && relaxed > 20_000, "it is the thresholds that do it: {strict} and {relaxed} us");
}

/// The lead that a vCPU gains while its guest idles is bounded. A vCPU that wakes after a long sleep therefore need not
/// wait long.
#[test]
fn a_vcpu_alone_for_long_need_not_wait_for_long() {
    let mut host = host(RELAXED, 2, &[]);
    let _hogs = [(); 4].map(|()| awake(&mut host, Params::default()));
    let group = gang(&mut host);
    let [_busy, sleeper] = [awake(&mut host, of(group)), asleep(&mut host, of(group))];
    run_through(&mut host, 3_000_000);
    host.wake(sleeper, Wake::Timer);
    let skew = shows(&host, sleeper, "skew-us");
    assert!(skew <= 2_000, "{skew}");
    run_through(&mut host, 3_000_000);
    assert!(!host.machine().is_held(sleeper));
    run_through(&mut host, 4_000_000);
    let charged = host.machine().charged(sleeper);
    assert!(charged >= Nanos::ms(200), "{charged} of the third of a second that is its share");
}

/// On one CPU, entities with the weights 128, 256 and 512 receive proportional shares under both policies.
#[test]
fn weights_share_a_cpu() {
    for policy in [STRICT, RELAXED] {
        let mut host = host(policy, 1, &[]);
        let weigh = |weight| Params { weight: Weight::xen(weight).expect("in range"), ..Params::default() };
        let all = [128, 256, 512].map(|weight| awake(&mut host, weigh(weight)));
        run_through(&mut host, 7_000_000);
        for (e, due) in all.into_iter().zip([1_000_u64, 2_000, 4_000]) {
            let had = host.machine().charged(e).as_ns() / 1_000_000;
            assert!(had.abs_diff(due) <= 50, "{}: {had} of {due} ms", policy.name);
        }
    }
}

/// A woken entity runs at once if the running entity leads by more than the margin. Unused time is not saved.
#[test]
fn a_sleeper_preempts_and_saves_nothing_up() {
    let mut host = host(RELAXED, 1, &[]);
    let sleeper = asleep(&mut host, Params::default());
    let hog = awake(&mut host, Params::default());
    run_through(&mut host, 1_010_000);
    host.wake(sleeper, Wake::Timer);
    run_through(&mut host, 1_010_000);
    assert!(runs(&host, sleeper), "the hog has had 10 ms since its turn began");
    run_through(&mut host, 2_000_000);
    let since = host.machine().charged(hog).as_ns() / 1_000_000 - 1_010;
    assert!((430..=550).contains(&since), "the hog got half of what came after: {since} ms");
}

/// A stopped group that ceases to be a gang releases all members. A member that leaves a stopped gang is released.
#[test]
fn an_entity_in_no_gang_is_never_stopped() {
    let (mut host, all) = hog_and_vm(STRICT, &[]);
    run_through(&mut host, 5_500);
    assert_eq!(states(&host, &all), "h--");
    let group = host.machine().params(all[1].1).group;
    host.adjust_group(group, GroupParams::default()).expect("it is accepted");
    run_through(&mut host, 5_500);
    assert!(all.iter().all(|&(_, e)| !host.machine().is_held(e)));
    assert!(runs(&host, all[2].1), "it has had least");
    let (mut host, all) = hog_and_vm(STRICT, &[]);
    run_through(&mut host, 5_500);
    host.adjust(all[1].1, Params::default()).expect("it is accepted");
    run_through(&mut host, 5_500);
    assert_eq!(column(&host, &all), "hb", "the gang's last member needs one CPU, and has had least");
}
