//! Tests of the decayed averages against values of the kernel's documentation, and of closed forms.

use super::*;

const fn at_periods(n: u64) -> Instant {
    Instant::at_ns(n * UNIT * UNIT)
}

const BUSY: Signals = Signals { load: 1, runnable: 1, running: true };

/// Returns the averages of a task of nice 0 that has run for `n` periods.
fn after_running(n: u64) -> Averages {
    let mut averages = Averages::NONE;
    averages.update(Instant::ZERO, 1024, BUSY);
    averages.update(at_periods(n), 1024, BUSY);
    averages
}

#[test]
fn the_factors_are_those_of_the_kernel() {
    // `runnable_avg_yN_inv`, kernel/sched/sched-pelt.h.
    assert_eq!(FACTORS[..4], [0xffff_ffff, 0xfa83_b2da, 0xf525_7d14, 0xefe4_b99a]);
    assert_eq!(FACTORS[16], 0xb504_f333);
    assert_eq!(FACTORS[31], 0x82cd_8698);
}

#[test]
fn the_sum_of_all_contributions_is_the_maximum() {
    // `LOAD_AVG_MAX`: decays and adds a period until the sum no longer changes, rounding down each time.
    let (mut sum, mut before) = (UNIT, 0);
    while sum != before {
        before = sum;
        sum = decayed(sum, 1) + UNIT;
    }
    assert!(sum.abs_diff(SUM_MOST) <= UNIT / 32, "{sum}");
}

#[test]
fn half_of_the_difference_is_made_up_in_32_periods() {
    for (periods, util) in [(32, 512), (64, 768), (96, 896), (1_000, 1_023)] {
        let averages = after_running(periods);
        assert!(averages.util.abs_diff(util) <= 3, "{periods}: {}", averages.util);
        assert!(averages.runnable.abs_diff(util) <= 3 && averages.load.abs_diff(util) <= 3);
    }
}

#[test]
fn averages_halve_in_32_periods_without_work() {
    let mut averages = after_running(1_000);
    averages.update(at_periods(1_000), 1024, Signals::default());
    averages.update(at_periods(1_032), 1024, Signals::default());
    for average in [averages.load, averages.runnable, averages.util] {
        assert!(average.abs_diff(512) <= 2, "{average}");
    }
    averages.update(at_periods(1_032 + 32 * 63), 1024, Signals::default());
    assert_eq!(averages.util, 0);
}

#[test]
fn a_waiting_task_has_load_but_no_utilisation() {
    let mut averages = Averages::NONE;
    averages.update(Instant::ZERO, 335, Signals { running: false, ..BUSY });
    averages.update(at_periods(1_000), 335, BUSY);
    assert!(averages.load.abs_diff(335) <= 1 && averages.runnable >= 1_022);
    assert_eq!(averages.util, 0);
}

#[test]
fn the_result_does_not_depend_on_the_number_of_updates_within_rounding() {
    let once = after_running(50);
    let mut often = Averages::NONE;
    often.update(Instant::ZERO, 1024, BUSY);
    for n in 1..=5_000 {
        often.update(Instant::ZERO + Nanos::ns(50 * UNIT * UNIT).scale(n, 5_000), 1024, BUSY);
    }
    assert!(often.util.abs_diff(once.util) <= 2, "{} and {}", often.util, once.util);
}

#[test]
fn a_task_takes_its_averages_along() {
    let mut cpu = Averages::NONE;
    cpu.update(Instant::ZERO, 1, Signals { load: 2048, runnable: 2, running: true });
    cpu.update(at_periods(1_000), 1, Signals { load: 2048, runnable: 2, running: true });
    let mut task = after_running(1_000);
    let before = cpu;
    cpu.subtract(&task, task.load);
    assert_eq!(cpu.load, before.load - task.load);
    assert_eq!(cpu.util, before.util - task.util);
    let mut other = Averages::NONE;
    other.update(at_periods(1_000), 1, Signals::default());
    let load = task.load;
    other.add(&mut task, 1024, load);
    assert_eq!((other.load, other.util, other.runnable), (task.load, task.util, task.runnable));
}

#[test]
fn a_new_task_has_all_of_its_load_and_at_most_half_of_the_spare_capacity() {
    let mut idle = Averages::NONE;
    idle.start(1024, &Averages::NONE);
    assert_eq!((idle.load, idle.util), (1024, 512));
    let mut second = Averages::NONE;
    second.start(1024, &after_running(32));
    assert!(second.util.abs_diff(256) <= 2, "{}", second.util);
}
