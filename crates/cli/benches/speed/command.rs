//! The speed of the command `tactus sim` including its report, relative to the bare event loop in the same run.

use crate::events::{CPUS, SET_B, set_b};
use crate::{Spread, bare_loop};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Simulated time of set B. Unit: s.
pub(crate) const SECONDS: u64 = 100;
/// Minimum speed of the command on set B, relative to the bare loop.
const COMMAND_LEAST: f64 = 0.5;
/// Number of consecutive runs of each program. Only the fastest run counts, so that load from other processes has
/// little effect.
const TRIES: usize = 3;

const TWO_LEVELS: &str = include_str!("../../../../scenarios/bench-two-level.toml");

/// The files that the commands read.
pub(crate) struct Inputs(TempDir);

impl Inputs {
    pub(crate) fn new() -> Inputs {
        let inputs = Inputs(TempDir::new().expect("there is room for a temporary directory"));
        for (name, content) in [("ts_B_n100_u3.6.csv", SET_B), ("bench-two-level.toml", TWO_LEVELS)] {
            std::fs::write(inputs.0.path().join(name), content).expect("it can be written");
        }
        inputs
    }

    /// Returns the command `tactus sim --tasks` on set B under EDF.
    pub(crate) fn task_set(&self) -> Command {
        let mut command = self.sim();
        command.arg("--tasks").arg(self.0.path().join("ts_B_n100_u3.6.csv"));
        command.args(["--policy", "edf", "--cpus", &CPUS.to_string(), "--seconds", &SECONDS.to_string()]);
        command
    }

    /// Returns the command `tactus sim` with the two-level scenario.
    pub(crate) fn two_levels(&self) -> Command {
        let mut command = self.sim();
        command.arg(self.0.path().join("bench-two-level.toml"));
        command
    }

    fn sim(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tactus"));
        command.args(["sim", "--width", "120"]);
        command
    }
}

/// Prints the speed of both commands, relative to the bare loop.
pub(crate) fn compare(runs: usize) {
    let (set, inputs) = (set_b(), Inputs::new());
    let (mut bare, mut command, mut two_levels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        bare.push(fastest(|| {
            std::hint::black_box(bare_loop::run(&set, CPUS, SECONDS * 1_000_000_000));
        }));
        command.push(fastest(|| finish(inputs.task_set())));
        two_levels.push(fastest(|| finish(inputs.two_levels())));
    }
    let ratio = |mine: &[f64], other: &[f64]| Spread::of(mine.iter().zip(other).map(|(a, b)| a / b).collect());
    let speed = ratio(&bare, &command);
    let met = if speed.median >= COMMAND_LEAST { "met" } else { "NOT met" };
    println!("command: `tactus sim` with its report, laws on; the bare loop runs set B over {SECONDS} s");
    let show = |name: &str, times: Vec<f64>| {
        let Spread { least, median, most } = Spread::of(times);
        println!("  {name:<22} {median:7.3} s  ({least:.3} to {most:.3})");
    };
    let times = ratio(&two_levels, &bare);
    show("bare event loop", bare);
    show("--tasks, set B", command);
    show("bench-two-level.toml", two_levels);
    println!(
        "  speed on set B         {:7.2} of the bare loop  ({:.2} to {:.2}); at least {COMMAND_LEAST:.2}: {met}",
        speed.median, speed.least, speed.most
    );
    println!("  time of two levels     {:7.2} bare loops  ({:.2} to {:.2})", times.median, times.least, times.most);
}

fn finish(mut command: Command) {
    let status = command.stdout(Stdio::null()).status().expect("the command is built");
    assert!(status.success(), "the command failed: {status}");
}

/// Returns the minimum time of several consecutive runs. Unit: s.
fn fastest(mut run: impl FnMut()) -> f64 {
    let mut timed = || {
        let start = std::time::Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..TRIES).map(|_| timed()).fold(f64::INFINITY, f64::min)
}
