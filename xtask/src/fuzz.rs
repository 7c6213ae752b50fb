//! `cargo xtask fuzz`: checks the laws of the policies, or the promises of the daemon, on random inputs. One step of
//! `cargo xtask test` fuzzes for a minute of CPU time.

use crate::program::{FUZZ, FUZZ_DAEMON, Program};
use crate::seed;
use crate::step::{Failure, Outcome, Tally};
use crate::stream::{pass_on, stream};
use anyhow::Result;
use clap::Args;
use std::panic::resume_unwind;
use std::process::{Command, ExitCode};
use std::thread;

/// Targets and extent of a fuzzing campaign.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Fuzz {
    /// Duration in minutes, divided among the policies (default: 1).
    #[arg(long)]
    minutes: Option<f64>,
    /// Fuzz the daemon and guardian on simulated hosts where one of the two fails, instead of the policies.
    #[arg(long, conflicts_with_all = ["policy", "steps", "cpus", "entities", "worlds"])]
    daemon: bool,
    /// Fuzz two-level worlds instead of single machines.
    #[arg(long, conflicts_with_all = ["policy", "steps", "cpus", "entities"])]
    worlds: bool,
    /// Fuzz only this policy (default: all policies).
    #[arg(long)]
    policy: Option<String>,
    /// First seed; later seeds follow in ascending order (default: the current time in seconds).
    #[arg(long)]
    first: Option<u64>,
    /// Run only this seed, once; a failing run prints its seed.
    #[arg(long, conflicts_with_all = ["minutes", "first"])]
    seed: Option<u64>,
    /// Length of the run in nanoseconds (only with `--worlds` and a seed).
    #[arg(long, requires = "worlds", requires = "seed")]
    length_ns: Option<u64>,
    /// Number of rounds of inputs (only with a seed).
    #[arg(long, requires = "seed")]
    steps: Option<u64>,
    /// Number of CPUs (only with a seed).
    #[arg(long, requires = "seed")]
    cpus: Option<u16>,
    /// Maximum number of entities at a time (only with a seed).
    #[arg(long, requires = "seed")]
    entities: Option<u64>,
}

impl Fuzz {
    fn program(&self) -> Program {
        if self.daemon { FUZZ_DAEMON } else { FUZZ }
    }

    /// Returns the command-line arguments of the fuzzer.
    fn arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
        };
        option("minutes", self.minutes.map(|n| n.to_string()));
        option("policy", self.policy.clone());
        option("first", self.first.map(|n| n.to_string()));
        option("seed", self.seed.map(|n| n.to_string()));
        option("length-ns", self.length_ns.map(|n| n.to_string()));
        option("steps", self.steps.map(|n| n.to_string()));
        option("cpus", self.cpus.map(|n| n.to_string()));
        option("entities", self.entities.map(|n| n.to_string()));
        words.extend(self.worlds.then(|| "--worlds".to_string()));
        words
    }

    /// Returns the command line that repeats this campaign.
    fn replay(&self) -> String {
        let daemon = if self.daemon { " --daemon" } else { "" };
        format!("cargo xtask fuzz{daemon} {}", self.arguments().join(" "))
    }
}

/// Runs a campaign in a release build.
pub(crate) fn run(fuzz: &Fuzz) -> Result<ExitCode> {
    pass_on(Command::new(fuzz.program().build_in("release")?).args(fuzz.arguments()))
}

/// Fuzzes all policies, worlds and the daemon for one minute of CPU time in total. The first seed follows from the last
/// commit.
pub(crate) fn check() -> Result<Outcome> {
    let first = Some(seed::of_sources());
    let campaigns = [
        Fuzz { first, minutes: Some(0.65), ..Fuzz::default() },
        Fuzz { first, minutes: Some(0.25), worlds: true, ..Fuzz::default() },
        Fuzz { first, minutes: Some(0.1), daemon: true, ..Fuzz::default() },
    ];
    // The campaigns run at the same time, because each uses one CPU.
    let outcomes = thread::scope(|scope| {
        let running = campaigns.iter().map(|campaign| {
            println!("      {}", campaign.replay());
            scope.spawn(|| run_campaign(campaign))
        });
        let running: Vec<_> = running.collect();
        running.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for outcome in outcomes {
        match outcome? {
            None => tally += Tally::PASSED,
            Some(failure) => {
                tally += Tally::FAILED;
                failures.push(failure);
            }
        }
    }
    let join = |part: fn(&Failure) -> &str| failures.iter().map(part).collect::<Vec<_>>().join("\n");
    let failure = Failure { text: join(|failure| &failure.text), again: join(|failure| &failure.again) };
    Ok(Outcome::Counted(tally, (!failures.is_empty()).then_some(failure)))
}

/// Runs one campaign in a test build, which `cargo test` has already compiled.
fn run_campaign(campaign: &Fuzz) -> Result<Option<Failure>> {
    let program = match campaign.program().build() {
        Ok(program) => program,
        Err(error) => return Ok(Some(Failure { text: format!("{error:#}"), again: campaign.replay() })),
    };
    let shown = |line: &str| (!line.is_empty()).then(|| format!("      {line}"));
    let output = stream(Command::new(program).args(campaign.arguments()), shown)?;
    let again = replay_lines(&output.text).pop().unwrap_or_else(|| campaign.replay());
    Ok((!output.success).then_some(Failure { text: output.text, again }))
}

/// Returns the commands that repeat a run, from the `replay:` lines of a fuzzer's output.
fn replay_lines(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.trim().strip_prefix("replay: ")).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chore;
    use clap::Parser;

    /// Parses a command line with the parser of `cargo xtask`.
    fn parse(line: &str) -> Fuzz {
        let words = line.strip_prefix("cargo xtask ").expect("it is a call of xtask").split(' ');
        match Chore::try_parse_from(std::iter::once("xtask").chain(words)) {
            Ok(Chore::Fuzz(fuzz)) => fuzz,
            Ok(other) => panic!("{line}: {other:?}"),
            Err(error) => panic!("{line}: {error}"),
        }
    }

    /// Returns the output of a fuzzer.
    fn output(fuzz: &Fuzz) -> String {
        let program = fuzz.program().build().unwrap();
        let output = stream(Command::new(program).args(fuzz.arguments()), |_| None).unwrap();
        assert!(output.success, "{fuzz:?}\n{}", output.text);
        output.text
    }

    #[test]
    fn the_replay_line_of_each_fuzzer_is_parsed_and_repeats_the_run() {
        for line in [
            "cargo xtask fuzz --policy edf --seed 7 --steps 20 --entities 3 --cpus 2",
            "cargo xtask fuzz --policy credit --seed 11",
            "cargo xtask fuzz --worlds --seed 7 --length-ns 1234567",
            "cargo xtask fuzz --daemon --seed 7",
        ] {
            let first = output(&parse(line));
            let replay = replay_lines(&first);
            assert_eq!(replay.len(), 1, "{first}");
            // A successful run writes only to standard output, so the order of its lines is fixed.
            assert_eq!(output(&parse(&replay[0])), first, "{line}");
        }
    }

    #[test]
    fn a_campaign_is_repeated_by_the_line_it_shows() {
        for fuzz in [
            Fuzz { first: Some(5), minutes: Some(0.001), policy: Some("edf".to_string()), ..Fuzz::default() },
            Fuzz { first: Some(5), minutes: Some(0.001), worlds: true, ..Fuzz::default() },
            Fuzz { first: Some(5), minutes: Some(0.001), daemon: true, ..Fuzz::default() },
        ] {
            let again = parse(&fuzz.replay());
            assert_eq!((again.replay(), again.program()), (fuzz.replay(), fuzz.program()));
            assert!(output(&again).contains("from 5 on"), "{again:?}");
        }
    }

    #[test]
    fn options_of_other_fuzzers_are_refused() {
        for words in ["--daemon --worlds", "--worlds --policy edf", "--length-ns 5 --seed 1", "--seed 1 --minutes 2"] {
            assert!(Chore::try_parse_from(["xtask", "fuzz"].into_iter().chain(words.split(' '))).is_err(), "{words}");
        }
    }
}
