//! Tests of the daemon and the guardian on simulated hosts. The fault is drawn from a seed, or replaces an act. Every
//! act of the daemon, and each of twelve early acts of the guardian, is replaced once by each type of fault: by `cargo test`
//! at once, and by `cargo xtask test` a fourth of the acts of the daemon for each commit.

use daemon::dispatch::RaiseBy;
use sched::Nanos;
use simhost::{Fault, Lateness};
use storms::{Options, Plan, Policies, Stats, Target, run};

/// Number of commits that replace each act once.
const SHARES: u64 = 4;

fn policies() -> Policies {
    let find = |name| policies::find(name).expect("it is registered");
    Policies { linux: find("linux"), daemon: find(daemon::terms::POLICY) }
}

/// Runs a storm. On failure, prints its options with the replay line.
fn runs(options: &Options) -> Stats {
    match run(options, &policies(), false) {
        Ok(stats) => stats,
        Err(_) => match run(options, &policies(), true) {
            Err(finding) => panic!("{options}\n{finding}"),
            Ok(_) => panic!("{options}\nthe same options failed once, but not again"),
        },
    }
}

#[test]
fn promises_are_kept_and_all_threads_restored_in_any_storm() {
    let first = 1_000_000;
    println!("seeds from {first} on");
    let sum = (first..first + 500).map(|seed| runs(&Options::draw(seed))).fold(Stats::default(), Stats::and);
    println!("{sum:?}");
    assert!(sum.faults > 150 && sum.periods > 10_000 && sum.births > 10_000 && sum.served > 500, "{sum:?}");
    assert!(sum.changes > 1_000 && sum.departures > 20, "{sum:?}");
    assert!(sum.gangs > 50 && sum.starts > 5, "{sum:?}");
}

#[test]
fn members_of_a_gang_that_are_alone_on_their_cpus_start_together() {
    let alone = |seed| Options { clients: 1, cpus: 2, gangs: true, others: false, plan: None, ..Options::draw(seed) };
    let sum = (0..60).map(|seed| runs(&alone(seed))).fold(Stats::default(), Stats::and);
    assert!(sum.gangs > 10 && sum.starts > 200, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_storm() {
    for seed in 0..20 {
        let options = Options::draw(seed);
        assert_eq!(runs(&options), runs(&options), "{options}");
    }
}

#[test]
fn a_hard_limit_excuses_the_time_of_a_fork_that_no_stop_interrupts() {
    // A thread of the client with a hard limit is inside a fork when the promise starts, and remains inside the fork
    // for several periods.
    runs(&Options::draw(2834));
}

/// Returns options with two CPUs, so that confinement to one CPU is visible. One client is soft and the other is hard,
/// and both start threads.
fn small(plan: Option<Plan>, by: RaiseBy) -> Options {
    Options {
        seed: 7,
        cpus: 2,
        clients: 2,
        length: Nanos::ms(40),
        births: true,
        orphans: false,
        others: false,
        refusals: false,
        lateness: Lateness { most: Nanos::us(50), ..Lateness::default() },
        call: Nanos::us(1),
        plan,
        by,
        cpusets: false,
        busy_in: 0,
        adjusts: false,
        gangs: false,
    }
}

/// Returns the first act that a fault replaces, and the distance to the next one. `cargo xtask test` sets the seed of the
/// sources, so each commit replaces another fourth of the acts. Without a seed, each act is replaced.
fn acts() -> (u64, u64) {
    let seed = std::env::var("TACTUS_FAULT_SEED").ok().map(|seed| seed.parse::<u64>().expect("the seed is a number"));
    seed.map_or((0, 1), |seed| (seed % SHARES, SHARES))
}

/// Runs one storm per act of the daemon, with this fault in place of the act.
fn replace_each_act_of_the_daemon(fault: Fault, by: RaiseBy) {
    let ((mut act, step), mut faults) = (acts(), 0);
    loop {
        let stats = runs(&small(Some(Plan { target: Target::Daemon, fault, act }), by));
        if stats.faults == 0 {
            break;
        }
        (act, faults) = (act + step, faults + stats.faults);
    }
    println!("{faults} acts");
    assert!(faults * step > 1_000, "the whole run is gone through: {faults}");
}

#[test]
fn a_crash_in_place_of_any_act_of_the_daemon_leaves_no_change_behind() {
    replace_each_act_of_the_daemon(Fault::Crash, RaiseBy::Inheritance);
}

#[test]
fn a_crash_in_place_of_any_act_leaves_no_change_behind_where_attributes_are_set() {
    replace_each_act_of_the_daemon(Fault::Crash, RaiseBy::Attributes);
}

#[test]
fn a_hang_in_place_of_any_act_of_the_daemon_leaves_no_change_behind() {
    replace_each_act_of_the_daemon(Fault::Hang, RaiseBy::Inheritance);
}

#[test]
fn a_hang_in_place_of_any_act_leaves_no_change_behind_where_attributes_are_set() {
    replace_each_act_of_the_daemon(Fault::Hang, RaiseBy::Attributes);
}

#[test]
fn a_fault_in_place_of_any_act_of_the_guardian_is_made_up_for() {
    for by in [RaiseBy::Inheritance, RaiseBy::Attributes] {
        for (fault, act) in (0..12).flat_map(|act| [(Fault::Crash, act), (Fault::Hang, act)]) {
            let plan = Some(Plan { target: Target::Guardian, fault, act });
            let stats = runs(&Options { length: Nanos::s(1), ..small(plan, by) });
            assert!(stats.faults >= 1, "{fault:?} in place of act {act}, raised by {by:?}: {stats:?}");
        }
    }
}
