//! The threads of one client share its slices.

use super::scene::Scene;
use daemon::dispatch::RaiseBy;
use sched::Nanos;
use sim::{Periodic, Workload};
use sys::usage::Usage;

fn share(of: &Usage, all: &[Usage]) -> u64 {
    let sum: Nanos = all.iter().fold(Nanos::ZERO, |sum, one| sum + one.ran);
    of.ran.as_ns() * 100 / sum.as_ns()
}

#[test]
fn threads_that_always_want_to_run_get_equal_parts_of_the_slices() {
    for by in [RaiseBy::Inheritance, RaiseBy::Attributes] {
        // Slices with several turns, and slices shorter than a turn.
        for (slice, period) in [(Nanos::ms(8), Nanos::ms(20)), (Nanos::us(500), Nanos::ms(5))] {
            let threads: Vec<(&str, Workload)> = (0..4).map(|_| ("worker", Workload::Hog)).collect();
            let all = Scene::new(by, 1).run(slice, period, &threads);
            let shares: Vec<u64> = all.iter().map(|one| share(one, &all)).collect();
            assert!(shares.iter().all(|share| (22..=28).contains(share)), "{by:?} {slice}: {shares:?}");
        }
    }
}

#[test]
fn a_thread_that_sleeps_in_between_is_not_kept_waiting_by_siblings_that_never_do() {
    let sleeper = Workload::Periodic(Periodic::new(Nanos::ms(20), Nanos::us(100)));
    let threads = [("worker", Workload::Hog), ("worker", Workload::Hog), ("sleeper", sleeper)];
    let all = Scene::new(RaiseBy::Inheritance, 1).run(Nanos::ms(16), Nanos::ms(20), &threads);
    let jobs = 2_000 / 20;
    assert!(all[2].ran >= Nanos::us(100).saturating_mul(jobs - 1), "{all:?}");
    // At most the turns of the two others, and the end of the period, in which no thread of the client runs.
    assert!(all[2].waited <= Nanos::ms(8).saturating_mul(jobs), "{all:?}");
}

#[test]
fn threads_that_serve_the_vcpus_run_above_them() {
    let serves = Workload::Periodic(Periodic::new(Nanos::ms(5), Nanos::us(100)));
    let waited = |vcpu: &str| {
        let threads = [("qemu-system-x86", serves), (vcpu, Workload::Hog)];
        let all = Scene::new(RaiseBy::Inheritance, 1).run(Nanos::ms(18), Nanos::ms(20), &threads);
        assert!(all[0].ran >= Nanos::us(100).saturating_mul(390), "{all:?}");
        all[0].waited
    };
    let (above, beside) = (waited("CPU 0/KVM"), waited("worker"));
    assert!(above.as_ns() * 3 < beside.as_ns(), "{above} above the vCPU, {beside} beside a thread like any other");
}

#[test]
fn threads_that_serve_the_vcpus_do_not_take_their_slices() {
    let threads = [("qemu-system-x86", Workload::Hog), ("CPU 0/KVM", Workload::Hog)];
    let all = Scene::new(RaiseBy::Inheritance, 1).run(Nanos::ms(10), Nanos::ms(20), &threads);
    let vcpu = share(&all[1], &all);
    assert!((25..=50).contains(&vcpu), "{vcpu} %: {all:?}");
}
