//! Repeats failed tests of live runs once.
//!
//! Live tests depend on the machine, which may pause for longer than a test waits: another virtual machine runs, or the
//! hypervisor stops this one. A test that fails, and passes when it is repeated without other tests, counts as passed.
//! The totals name such a test, and its first output is printed. All other tests give the same result each time, and
//! are not repeated.

use crate::root::{ALL_PACKAGES, cargo};
use crate::seed::{self, FAULT_SEED};
use crate::step::{Failure, Outcome, Tally, counted};
use anyhow::Result;

/// Crates with tests of live runs.
const LIVE: [&str; 3] = ["cli", "daemon", "sys"];
/// Maximum number of tests that are repeated. More failures have another cause than the machine.
const REPEATED_MOST: usize = 4;

/// Repeats the failed tests of `outcome`, the outcome of `cargo test`, if all of them are tests of live runs. Otherwise
/// returns `outcome` unchanged.
pub(super) fn failed_live_tests(outcome: Outcome) -> Result<Outcome> {
    let Outcome::Counted(tally, Some(failure)) = outcome else { return Ok(outcome) };
    let Some(failed) = Failed::in_output(&failure.text).filter(|failed| failed.names.len() as u64 == tally.failed)
    else {
        return Ok(Outcome::Counted(tally, Some(failure)));
    };
    println!("      {tally}; the failed tests are repeated. Output of the first run:\n{}", failure.text);
    let mut repeated = Tally::default();
    for target in &failed.targets {
        let mut command = cargo(&["test"]);
        // Without `-p cli`: other packages have no tests with these names.
        command.args(ALL_PACKAGES).args(target.split(' ').skip(2)).args(["--", "--exact"]).args(&failed.names);
        command.env(FAULT_SEED, seed::of_sources().to_string());
        let Outcome::Counted(again, None) = counted(&mut command)? else {
            return Ok(Outcome::Counted(tally, Some(failure)));
        };
        repeated += again;
    }
    Ok(failed.judge(tally, repeated, failure))
}

/// The failed tests in the output of `cargo test --no-fail-fast`.
#[derive(PartialEq, Eq, Debug)]
struct Failed {
    /// Arguments of `cargo test` that select each failed target, such as `-p cli --test command`.
    targets: Vec<String>,
    names: Vec<String>,
}

impl Failed {
    /// Returns the failed tests. `None`: there are too many, or a failed target has no tests of live runs.
    fn in_output(text: &str) -> Option<Failed> {
        let names: Vec<String> = text.lines().filter_map(failed_test).map(String::from).collect();
        let targets: Vec<String> = text.lines().filter_map(failed_target).map(String::from).collect();
        let is_live = |target: &String| LIVE.iter().any(|name| target.split(' ').nth(1) == Some(name));
        let may_be_repeated = !targets.is_empty() && targets.iter().all(is_live);
        (may_be_repeated && (1..=REPEATED_MOST).contains(&names.len())).then_some(Failed { targets, names })
    }

    /// Returns the outcome after the failed tests were repeated with the result `repeated`, without a failure.
    fn judge(&self, first: Tally, repeated: Tally, failure: Failure) -> Outcome {
        // Each failed test runs in its own target. A test with the same name in another failed target runs there, too.
        if repeated.passed < first.failed {
            return Outcome::Counted(first, Some(failure));
        }
        for name in &self.names {
            println!("      REPEATED {name}: failed, then passed");
        }
        Outcome::Counted(Tally { passed: first.passed + first.failed, failed: 0, ..first }, None)
    }
}

/// Returns the name of the test that failed according to this line: `test run::keeps::a ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    line.trim().strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Returns the target that failed according to this line of cargo's summary: `` `-p cli --test command` ``.
fn failed_target(line: &str) -> Option<&str> {
    line.trim().strip_prefix('`')?.strip_suffix('`').filter(|target| target.starts_with("-p "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "test run::keeps::a ... ok\n\
        test run::keeps::b ... FAILED\n\
        test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
        error: 1 target failed:\n    `-p cli --test command`\n";

    fn failure() -> Failure {
        Failure { text: TEXT.to_string(), again: "cargo test".to_string() }
    }

    #[test]
    fn failed_tests_of_live_targets_are_found() {
        let expected = Failed { targets: vec!["-p cli --test command".into()], names: vec!["run::keeps::b".into()] };
        assert_eq!(Failed::in_output(TEXT), Some(expected));
    }

    #[test]
    fn failures_of_other_targets_and_many_failures_are_not_repeated() {
        assert_eq!(Failed::in_output(&TEXT.replace("-p cli --test command", "-p sched --lib")), None);
        let other = format!("{TEXT}    `-p fuzz --test laws`\n");
        assert_eq!(Failed::in_output(&other), None, "one of two failed targets is not live");
        let many: String = (0..=REPEATED_MOST).map(|n| format!("test t{n} ... FAILED\n")).collect();
        assert_eq!(Failed::in_output(&(many + TEXT)), None);
        assert_eq!(Failed::in_output("error: could not compile `cli`"), None);
    }

    #[test]
    fn a_repeated_test_counts_as_passed_only_if_it_ran_and_passed() {
        let first = Tally { passed: 5, failed: 1, skipped: 0 };
        let failed = Failed::in_output(TEXT).unwrap();
        let Outcome::Counted(tally, failure_left) = failed.judge(first, Tally::PASSED, failure()) else { panic!() };
        assert_eq!((tally, failure_left.is_none()), (Tally { passed: 6, failed: 0, skipped: 0 }, true));
        let Outcome::Counted(tally, failure_left) = failed.judge(first, Tally::default(), failure()) else { panic!() };
        assert_eq!((tally, failure_left.is_some()), (first, true));
    }
}
