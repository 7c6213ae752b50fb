//! [`Tally`]: the numbers of checks that passed, failed and were skipped.

use std::fmt;
use std::ops::AddAssign;

/// Numbers of checks by outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    pub(crate) const PASSED: Tally = Tally { passed: 1, failed: 0, skipped: 0 };
    pub(crate) const FAILED: Tally = Tally { passed: 0, failed: 1, skipped: 0 };
    pub(crate) const SKIPPED: Tally = Tally { passed: 0, failed: 0, skipped: 1 };

    /// Sums up the result lines of `cargo test`. A call that failed without a failed test counts as one failure: the
    /// code does not compile, or a test ended its process.
    pub(crate) fn of_cargo_test(text: &str, success: bool) -> Tally {
        let mut sum = Tally::default();
        for tally in text.lines().filter_map(result_line) {
            sum += tally;
        }
        if !success && sum.failed == 0 {
            sum.failed = 1;
        }
        sum
    }
}

impl Tally {
    /// Returns the totals in the last line of pytest's output: `1 failed, 40 passed, 2 skipped in 30.00s`. A call that
    /// failed without a failed test counts as one failure.
    pub(crate) fn of_pytest(text: &str, success: bool) -> Tally {
        let last = text.trim_end().lines().last().unwrap_or_default();
        let counts = last.trim_matches(|c| c == '=' || c == ' ').split(" in ").next().unwrap_or_default();
        let count = |words: &[&str]| -> u64 {
            let parts = counts.split(", ").filter_map(|part| part.split_once(' '));
            parts.filter(|(_, what)| words.contains(what)).filter_map(|(number, _)| number.parse::<u64>().ok()).sum()
        };
        let mut tally = Tally {
            passed: count(&["passed"]),
            failed: count(&["failed", "error", "errors"]),
            skipped: count(&["skipped"]),
        };
        if !success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

impl Tally {
    /// Returns the totals of `node --test` with the reporter `tap`: `# pass 3`. A call that failed without a failed test
    /// counts as one failure.
    pub(crate) fn of_node_test(text: &str, success: bool) -> Tally {
        let count = |what: &str| {
            let line = text.lines().rev().find_map(|line| line.strip_prefix(what));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        let mut tally = Tally { passed: count("# pass "), failed: count("# fail "), skipped: count("# skipped ") };
        if !success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// Parses a result line: `test result: ok. 5 passed; 0 failed; 1 ignored; …`
fn result_line(line: &str) -> Option<Tally> {
    let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |what: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|number| number.trim().parse().ok())
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")? })
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "running 3 tests\n\
        test result: FAILED. 5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
        test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    #[test]
    fn result_lines_add_up_and_ignored_tests_count_as_skipped() {
        assert_eq!(Tally::of_cargo_test(TWO, false), Tally { passed: 8, failed: 1, skipped: 2 });
        assert_eq!(Tally::of_cargo_test(TWO, false).to_string(), "8 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn the_last_line_of_pytest_has_the_totals() {
        let text = "..F.\nFAILED a::b\n1 failed, 40 passed, 2 skipped, 1 warning in 30.31s (0:00:30)\n";
        assert_eq!(Tally::of_pytest(text, false), Tally { passed: 40, failed: 1, skipped: 2 });
        assert_eq!(Tally::of_pytest("=== 3 passed, 1 error in 0.1s ===", false).failed, 1);
        assert_eq!(Tally::of_pytest("ImportError", false), Tally::FAILED);
    }

    #[test]
    fn the_totals_of_node_are_comments_of_tap() {
        let text = "ok 1 - a\n# tests 4\n# suites 0\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todos 0\n";
        assert_eq!(Tally::of_node_test(text, false), Tally { passed: 2, failed: 1, skipped: 1 });
        assert_eq!(Tally::of_node_test("SyntaxError", false), Tally::FAILED);
    }

    #[test]
    fn a_call_that_does_not_compile_is_one_failure() {
        assert_eq!(Tally::of_cargo_test("error: could not compile", false), Tally::FAILED);
        assert_eq!(Tally::of_cargo_test("", true), Tally::default());
    }
}
