//! [`Step`]: a check with an outcome. [`run_all`] runs several steps and prints the totals of their outcomes.

mod outcome;
mod report;
mod tally;

use crate::root::typed;
use crate::stream::{Output, stream};
use anyhow::Result;
pub(crate) use outcome::{Failure, Outcome};
use report::Report;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;
pub(crate) use tally::Tally;

/// When a step runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum When {
    /// After the step before it.
    InTurn,
    /// Beside the steps after it, at most one for each CPU at a time.
    Beside,
    /// After the step before it, with no step beside it.
    Alone,
}

/// The outcome of a step, and the time that it took in seconds.
type Ran = Result<(Outcome, f64)>;
/// The name of a step beside others, and its outcome, unless it panicked.
type Ended = (&'static str, thread::Result<Ran>);

/// A check, or several similar checks.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) when: When,
    check: Box<dyn Fn() -> Result<Outcome> + Send + Sync>,
}

impl Step {
    /// A step that runs in its turn.
    pub(crate) fn new(name: &'static str, check: impl Fn() -> Result<Outcome> + Send + Sync + 'static) -> Step {
        Step { name, when: When::InTurn, check: Box::new(check) }
    }

    /// The same step at another time.
    pub(crate) fn when(self, when: When) -> Step {
        Step { when, ..self }
    }

    fn run(&self) -> Ran {
        let begin = clock();
        Ok(((self.check)()?, begin.elapsed().as_secs_f64()))
    }
}

/// Runs the steps in order and prints the totals of their outcomes.
pub(crate) fn run_all(steps: &[Step]) -> Result<ExitCode> {
    let begin = clock();
    let mut report = Report::default();
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let mut running = 0;
        for (number, step) in steps.iter().enumerate() {
            let most = match step.when {
                When::Alone => 0,
                When::Beside => cpus - 1,
                When::InTurn => cpus,
            };
            await_at_most(most, &mut running, &ended, &mut report)?;
            println!("[{}/{}] {}", number + 1, steps.len(), step.name);
            if step.when == When::Beside {
                println!("      goes on beside the next steps");
                running += 1;
                let done = done.clone();
                scope.spawn(move || {
                    let ran = panic::catch_unwind(AssertUnwindSafe(|| step.run()));
                    // After an error of another step, no outcome is awaited.
                    let _ = done.send((step.name, ran));
                });
            } else {
                report.add(step.name, step.run()?);
            }
        }
        await_at_most(0, &mut running, &ended, &mut report)
    })?;
    Ok(report.end(begin.elapsed()))
}

/// Waits until at most `most` of the `running` steps beside others run, and reports the outcomes of those that end.
fn await_at_most(most: usize, running: &mut usize, ended: &Receiver<Ended>, report: &mut Report) -> Result<()> {
    while *running > most {
        let (name, ran) = ended.recv().expect("each step reports its end");
        *running -= 1;
        println!("[beside the others] {name}");
        report.add(name, ran.unwrap_or_else(|why| panic::resume_unwind(why))?);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "each step prints its duration, and some have a time limit")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// Runs one check, which passes if `command` succeeds.
pub(crate) fn succeeds(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, |_| None)?;
    Ok(if output.success { Outcome::Passed } else { Outcome::Failed(failure(output, command)) })
}

/// Runs `command`, a call of `cargo test`. Each test counts as a check.
pub(crate) fn counted(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, progress)?;
    let tally = Tally::of_cargo_test(&output.text, output.success);
    let failure = (tally.failed > 0).then(|| failure(output, command));
    Ok(Outcome::Counted(tally, failure))
}

/// Runs `command`, a call of pytest. Each test counts as a check.
pub(crate) fn counted_by_pytest(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, |_| None)?;
    let tally = Tally::of_pytest(&output.text, output.success);
    let failure = (tally.failed > 0).then(|| failure(output, command));
    Ok(Outcome::Counted(tally, failure))
}

/// Options of `node` for [`counted_by_node`]. A test that failed may leave a connection open, for which Node.js would wait.
pub(crate) const NODE_TEST: [&str; 4] = ["--test", "--test-reporter=tap", "--test-force-exit", "--test-timeout=600000"];

/// Runs `command`, a call of `node` with [`NODE_TEST`]. Each test counts as a check.
pub(crate) fn counted_by_node(command: &mut Command) -> Result<Outcome> {
    let output = stream(command, |_| None)?;
    let tally = Tally::of_node_test(&output.text, output.success);
    let failure = (tally.failed > 0).then(|| failure(output, command));
    Ok(Outcome::Counted(tally, failure))
}

fn failure(output: Output, command: &Command) -> Failure {
    Failure { text: output.text, again: typed(command) }
}

/// Returns `line` with an indent if this line of the output of `cargo test` names a target, a result or a failed test.
fn progress(line: &str) -> Option<String> {
    let line = line.trim();
    let telling = ["Running ", "Doc-tests ", "test result: "].iter().any(|start| line.starts_with(start));
    let failed = line.starts_with("test ") && line.ends_with("FAILED");
    (telling || failed).then(|| format!("      {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn progress_shows_targets_results_and_failures_only() {
        assert!(progress("     Running unittests src/lib.rs (target/debug/deps/sched-1)").is_some());
        assert!(progress("test queue::tests::a ... FAILED").is_some());
        assert!(progress("test queue::tests::a ... ok").is_none());
        assert!(progress("   Compiling sched v0.1.0").is_none());
    }

    #[test]
    fn a_failure_carries_the_whole_output_and_the_line_to_run_it_again() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo because; exit 1"]);
        let Ok(Outcome::Failed(failure)) = succeeds(&mut shell) else { panic!("it fails") };
        assert_eq!((failure.text.as_str(), failure.again.as_str()), ("because\n", "sh -c 'echo because; exit 1'"));
    }

    #[test]
    fn a_step_beside_others_has_ended_before_a_step_alone() {
        let (sender, receiver) = mpsc::channel();
        let step = |name: &'static str, wait: Option<mpsc::Receiver<()>>, done: Option<mpsc::Sender<()>>| {
            let (sender, wait) = (sender.clone(), wait.map(Mutex::new));
            Step::new(name, move || {
                if let Some(wait) = &wait {
                    wait.lock().unwrap().recv()?;
                }
                sender.send(name)?;
                done.iter().try_for_each(|done| done.send(()))?;
                Ok(Outcome::Passed)
            })
        };
        // The first step ends after the second one, and before the third.
        let (done, wait) = mpsc::channel();
        let steps = [
            step("beside", Some(wait), None).when(When::Beside),
            step("in turn", None, Some(done)),
            step("alone", None, None).when(When::Alone),
        ];
        run_all(&steps).unwrap();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["in turn", "beside", "alone"]);
    }

    #[test]
    fn at_most_one_step_for_each_cpu_runs_beside_others() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let step = || {
            Step::new("beside", || {
                MOST.fetch_max(RUNNING.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                succeeds(Command::new("sleep").arg("0.2"))?;
                RUNNING.fetch_sub(1, Ordering::Relaxed);
                Ok(Outcome::Passed)
            })
            .when(When::Beside)
        };
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        let steps: Vec<Step> = (0..3 * cpus).map(|_| step()).collect();
        run_all(&steps).unwrap();
        let most = MOST.load(Ordering::Relaxed);
        assert!((cpus.min(2)..=cpus).contains(&most), "{most} at a time on {cpus} CPUs");
    }
}
