//! Fault injection for `tactus run`. The storm starts one process for each workload. In each round, `tactus run` keeps
//! a promise to one of these processes. At a random instant, the storm kills or stops the core, an agent, the guardian or
//! the front end, or a thread of the core stalls. With `--calls`, a system call of the core fails, and then the run ends or
//! its core is killed. Within the promised time, every thread must have its original values.
//! After a fault of the guardian, a new guardian may run instead. While the front end is stopped, the promise is kept.
//!
//! `cargo xtask vm-test guest-storm` runs many rounds in a guest kernel. On a host, the storm changes only processes
//! that it has started: `cargo run -p storms --example storm -- --tactus target/debug/tactus --rounds 3`, as root.
//!
//! Exit code 0: all values were restored in every round. Exit code 1: a value was not restored, or another error
//! occurred. Exit code 2: invalid input. Exit code 77: no round can run on this machine, for the reason in the last
//! line.

mod calls;
mod judge;
mod rehearsal;
mod run_under_test;
mod strike;
mod unplug;
mod victims;
mod work;

use anyhow::{Context, Result, bail};
use calls::FailingCall;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use strike::Round;
use sys::attributes::{self, Attributes};
use sys::thread;
use unplug::Unplugging;
use victims::{Kind, Victims};

/// Priority of the observer: above every victim that is not raised, and below the real-time threads of Tactus.
const PRIORITY: u32 = 50;

#[derive(Parser, Debug)]
#[command(about = "Kills or stops parts of Tactus, and checks that every thread regains its values", version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Line {
    #[command(subcommand)]
    work: Option<Part>,
    #[command(flatten)]
    storm: Option<Storm>,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// (internal) Victim process: works until the storm ends
    #[command(hide = true)]
    Work { kind: Kind, storm: u32 },
    /// (internal) Executes another program, until the storm ends
    #[command(hide = true)]
    Become {
        storm: u32,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

#[derive(Args, Debug)]
struct Storm {
    /// The command under test
    #[arg(long)]
    tactus: PathBuf,
    /// Program that runs a virtual machine; the victims are then virtual machines
    #[arg(long)]
    micro_vm: Option<PathBuf>,
    /// Remove and add a CPU in each round, and neither kill nor stop a part of Tactus before
    #[arg(long)]
    unplug: bool,
    /// Let a system call of the core fail in each round
    #[arg(long, conflicts_with = "unplug")]
    calls: bool,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seed of the random numbers (default: a new seed)
    #[arg(long)]
    seed: Option<u64>,
    /// Number of the first round, to skip the rounds before it
    #[arg(long, default_value_t = 1)]
    first: u32,
}

impl Storm {
    /// Returns the options that choose the victims and the faults.
    fn kind(&self) -> String {
        let micro_vm = self.micro_vm.as_ref().map(|path| format!(" --micro-vm {}", path.display()));
        let faults = match (self.unplug, self.calls) {
            (true, _) => " --unplug",
            (_, true) => " --calls",
            _ => "",
        };
        micro_vm.unwrap_or_default() + faults
    }
}

fn main() -> ExitCode {
    let Line { work, storm } = Line::parse();
    let done = match (work, storm) {
        (Some(Part::Work { kind, storm }), _) => work::work(kind, storm).map(|()| ExitCode::SUCCESS),
        (Some(Part::Become { storm, words }), _) => turn_into(storm, &words),
        (None, Some(storm)) => run(&storm),
        (None, None) => Line::command().error(ErrorKind::MissingRequiredArgument, "use --tactus PATH").exit(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Executes another program, which ends with the storm.
fn turn_into(storm: u32, words: &[OsString]) -> Result<ExitCode> {
    sys::process::end_with(storm)?;
    let (program, arguments) = words.split_first().context("no program was named")?;
    Err(Command::new(program).args(arguments).exec()).with_context(|| format!("cannot become {}", program.display()))
}

fn run(storm: &Storm) -> Result<ExitCode> {
    // The standard library has no random numbers other than the keys of a hash map.
    let seed = storm.seed.unwrap_or_else(|| u64::from(RandomState::new().build_hasher().finish() as u32));
    println!("seed {seed}");
    let kind = storm.kind();
    println!(
        "to run it again: storm --tactus {}{kind} --rounds {} --first {} --seed {seed}",
        storm.tactus.display(),
        storm.rounds,
        storm.first
    );
    // Raised threads have reset-on-fork, so children of this process start as SCHED_OTHER.
    if let Err(error) = attributes::set(thread::current(), Attributes::raised(PRIORITY)) {
        println!("no storm here: {error}");
        return Ok(ExitCode::from(77));
    }
    let victims = Victims::gather(storm.micro_vm.as_deref(), storm.unplug)?;
    rehearsal::rehearse(&victims).context("the judge is not fit to judge")?;
    println!("{} processes; the judge sees what is done to them", victims.0.len());
    if let Some(reason) = cannot_run(storm)? {
        println!("no storm here: {reason}");
        return Ok(ExitCode::from(77));
    }
    if let Err(finding) = play(storm, seed, &victims) {
        // Printed before the victims end: a victim that is left frozen does not end.
        eprintln!("error: {finding:#}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays the rounds of the storm.
fn play(storm: &Storm, seed: u64, victims: &Victims) -> Result<()> {
    let kind = storm.kind();
    let last = storm.first.saturating_add(storm.rounds);
    let mut longest = sched::Nanos::ZERO;
    for number in storm.first..last {
        // A round that hangs the machine prints nothing else.
        let begin = |victim: usize, round: &dyn Display| {
            println!("round {number}: {}: {round}", victims.0[victim].name());
        };
        let took = if storm.unplug {
            let round = Unplugging::of(seed, number, victims.0.len());
            begin(round.victim, &round);
            round.run(&storm.tactus, victims)
        } else if storm.calls {
            let round = FailingCall::of(seed, number, victims.0.len());
            begin(round.victim, &round);
            round.run(&storm.tactus, victims)
        } else {
            let round = Round::of(seed, number, victims.0.len());
            begin(round.victim, &round);
            round.run(&storm.tactus, victims)
        };
        let took =
            took.with_context(|| format!("round {number}, alone:{kind} --seed {seed} --first {number} --rounds 1"))?;
        println!("  as before after {took}");
        longest = longest.max(took);
    }
    println!("{} rounds; all was as before after {longest} at the latest", storm.rounds);
    Ok(())
}

/// Returns the reason why this command cannot be tested.
fn cannot_run(storm: &Storm) -> Result<Option<String>> {
    let mut command = Command::new(&storm.tactus);
    command.args(["run", "--help"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(None),
        Ok(_) => Ok(Some(format!("{} has no `run` yet", storm.tactus.display()))),
        Err(error) => bail!("cannot run {}: {error}; use --tactus PATH", storm.tactus.display()),
    }
}
