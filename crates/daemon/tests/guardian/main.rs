//! Live tests of the guardians. Real processes run under a daemon, or are boosted, and the daemon, the booster or a guardian is killed, stopped or
//! ended.
//!
//! This program has all roles. Besides the tests, the roles are a stand-in for the daemon (`daemon DIRECTORY PID…`) and
//! the guardian (`guardian DIRECTORY`, started by the daemon), a booster (`booster VCPU MAIN-LOOP`) and the guardian of its loans. The role `restless` is a daemon that changes its victims
//! as often as possible. The role `victim` is a process whose threads a daemon changes.

mod boosts;
mod roles;
mod tests;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test, with its name.
type Test = (&'static str, fn());

const TESTS: [Test; 15] = [
    ("all_threads_are_restored_when_the_daemon_is_killed", tests::all_threads_are_restored_when_the_daemon_is_killed),
    (
        "a_stopped_daemon_is_killed_and_all_threads_are_restored",
        tests::a_stopped_daemon_is_killed_and_all_threads_are_restored,
    ),
    (
        "at_any_instant_of_its_death_all_threads_are_restored",
        tests::at_any_instant_of_its_death_all_threads_are_restored,
    ),
    ("threads_that_were_born_since_are_restored_too", tests::threads_that_were_born_since_are_restored_too),
    ("a_guardian_that_is_killed_is_missed_and_replaced", tests::a_guardian_that_is_killed_is_missed_and_replaced),
    ("a_guardian_that_is_stopped_is_missed_and_replaced", tests::a_guardian_that_is_stopped_is_missed_and_replaced),
    ("an_orderly_end_leaves_no_guardian_and_no_table", tests::an_orderly_end_leaves_no_guardian_and_no_table),
    ("a_guardian_without_a_table_does_not_begin", tests::a_guardian_without_a_table_does_not_begin),
    (
        "a_vcpu_is_boosted_by_a_hint_and_before_a_timer_and_for_a_short_time",
        boosts::a_vcpu_is_boosted_by_a_hint_and_before_a_timer_and_for_a_short_time,
    ),
    (
        "a_vcpu_without_an_agent_is_boosted_when_its_main_loop_wakes",
        boosts::a_vcpu_without_an_agent_is_boosted_when_its_main_loop_wakes,
    ),
    (
        "an_observer_hears_the_agent_of_a_boosted_vm_and_asks_it_for_wake_ups",
        boosts::an_observer_hears_the_agent_of_a_boosted_vm_and_asks_it_for_wake_ups,
    ),
    (
        "a_guest_that_floods_its_port_stays_within_its_budget_and_its_vcpu_comes_back",
        boosts::a_guest_that_floods_its_port_stays_within_its_budget_and_its_vcpu_comes_back,
    ),
    (
        "a_booster_that_is_stopped_or_killed_leaves_no_thread_boosted",
        boosts::a_booster_that_is_stopped_or_killed_leaves_no_thread_boosted,
    ),
    (
        "after_a_kill_of_the_whole_control_group_of_a_booster_no_thread_stays_boosted",
        boosts::after_a_kill_of_the_whole_control_group_of_a_booster_no_thread_stays_boosted,
    ),
    ("a_guardian_of_loans_that_is_killed_is_replaced", boosts::a_guardian_of_loans_that_is_killed_is_replaced),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["guardian", directory, mount @ ..] => {
            let mount = mount.first().map(|number| number.parse().unwrap());
            let end = daemon::guardian::run(directory.as_ref(), mount);
            eprint!("{}", end.report);
            let code = if end.is_settled { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            end.remove_groups();
            code
        }
        ["loan-guardian", priority, booster, donors @ ..] => {
            let donors: Vec<String> = donors.iter().map(ToString::to_string).collect();
            daemon::boosts::guard(priority.parse().unwrap(), booster, &donors).unwrap();
            ExitCode::SUCCESS
        }
        ["booster", threads @ ..] => boosts::booster(threads),
        ["daemon", directory, victims @ ..] => roles::daemon(directory, victims),
        ["restless", directory, victims @ ..] => roles::restless(directory, victims),
        ["victim"] => roles::victim(),
        options => run(options),
    }
}

/// Runs the tests whose names contain one of the given words, or all tests if no word is given.
fn run(options: &[&str]) -> ExitCode {
    let mut filters = options.iter().filter(|word| !word.starts_with('-')).peekable();
    let filters: Vec<&&str> = if filters.peek().is_some() { filters.collect() } else { vec![&""] };
    let chosen: Vec<Test> =
        TESTS.into_iter().filter(|(name, _)| filters.iter().any(|filter| name.contains(**filter))).collect();
    println!("\nrunning {} tests", chosen.len());
    let mut failed = Vec::new();
    for &(name, test) in &chosen {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(name);
        }
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    let (passed, out) = (chosen.len() - failed.len(), TESTS.len() - chosen.len());
    // This line has the format of libtest, for tools that count tests.
    println!("\ntest result: {verdict}. {passed} passed; {} failed; 0 ignored; {out} filtered out\n", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
