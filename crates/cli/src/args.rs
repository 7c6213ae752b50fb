//! What can be typed.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 fine; 1 failed, such as a file that cannot be written; 2 bad input, nothing was \
    run or written; 130 interrupted.";

const RUN_EXIT_CODES: &str = "Threads of who was promised something are raised while their slice lasts (SCHED_FIFO), and are what they were before \
    as soon as the run ends, however it ends: a guardian sees to that.

Exit codes: the command's own; 0 fine; 1 failed; 2 bad input or refused, nothing was changed or run; 130 interrupted.";

const DOCTOR_EXIT_CODES: &str = "It tries everything on processes of its own, and leaves this machine as it was.

Exit codes: 0 promises can be kept here; 1 they cannot, or the examination failed; 2 bad input; 130 interrupted.";

const RESTORE_EXIT_CODES: &str = "What somebody else has set since stays as it is.

Exit codes: 0 every thread is what it was, or there was nothing to restore; 1 some could not be restored; 2 a dispatcher is \
    at work, nothing was done; 130 interrupted.";

/// A CPU scheduler for virtual machines, and the simulator to try its policies in.
#[derive(Parser, Debug)]
#[command(name = "tactus", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Simulate a scenario, or a set of periodic tasks, under one policy or several
    #[command(after_help = EXIT_CODES)]
    Sim(Box<Sim>),
    /// Keep a promise of CPU time: to a command, to processes that run already, or to all of a scenario
    #[command(after_help = RUN_EXIT_CODES)]
    Run(Box<Run>),
    /// Simulate a scenario and keep its promises for real: what was predicted beside what was observed
    #[command(after_help = RUN_EXIT_CODES)]
    Compare(Compare),
    /// List the scheduling policies, or explain one
    #[command(after_help = EXIT_CODES)]
    Policies(Policies),
    /// List the machines whose costs a scenario can take, or show one with the source of every figure
    #[command(after_help = EXIT_CODES)]
    Costs(Costs),
    /// Reproduce the figures and tables of papers: what they claim beside what is measured
    #[command(after_help = EXIT_CODES)]
    Lab(Lab),
    /// Show what it is about: three kinds of work as the kernel schedules them, and under promises
    #[command(after_help = EXIT_CODES)]
    Demo(Demo),
    /// Examine this machine: what it is like, which mechanisms of enforcement work on it, how late its timers are
    #[command(after_help = DOCTOR_EXIT_CODES)]
    Doctor(Doctor),
    /// Make threads what they were before, where a dispatcher and its guardian have died
    #[command(after_help = RESTORE_EXIT_CODES)]
    Restore(Restore),
    /// Guard the dispatcher whose table of originals is in DIRECTORY: it begins this itself
    #[command(hide = true)]
    Guardian {
        /// Where the table is
        directory: PathBuf,
    },
    /// Be a process of a live run that works: told when on standard input, telling of it on standard output
    #[command(hide = true)]
    Work(Work),
    /// Be a process of a live run that becomes a command once its gate is opened
    #[command(hide = true)]
    Launch(Launch),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// The scenario, a TOML file (docs/scenarios.md)
    #[arg(required_unless_present = "tasks", conflicts_with = "tasks")]
    pub(crate) scenario: Option<PathBuf>,

    /// A set of periodic tasks instead: CSV with the columns id, period_us, wcet_us
    #[arg(long, value_name = "SET.csv", requires = "cpus", requires = "seconds", help_heading = "Task sets")]
    pub(crate) tasks: Option<PathBuf>,
    /// CPUs for the task set
    #[arg(long, value_name = "N", requires = "tasks", help_heading = "Task sets",
        value_parser = clap::value_parser!(u16).range(1..=sched::id::CPUS_MAX as i64))]
    pub(crate) cpus: Option<u16>,
    /// How long the task set runs
    #[arg(long, value_name = "N", requires = "tasks", help_heading = "Task sets",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) seconds: Option<u64>,
    /// Give each task a CPU of its own, first fit by decreasing utilisation, instead of all CPUs to all tasks
    #[arg(long, requires = "tasks", help_heading = "Task sets")]
    pub(crate) partitioned: bool,
    /// List every job with its release, deadline and completion (with --json)
    #[arg(long, requires = "json", help_heading = "Task sets")]
    pub(crate) jobs: bool,

    /// The policy instead of the scenario's, or several to compare
    #[arg(long, value_name = "P[,P...]", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Set a knob of the policy; see `tactus policies NAME`
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) knob: Vec<String>,
    /// The policy of all guests, instead of their own
    #[arg(long, value_name = "P", conflicts_with = "tasks")]
    pub(crate) guest_policy: Option<String>,
    /// Set a knob of the guests' policy
    #[arg(long, value_name = "NAME=VALUE", requires = "guest_policy")]
    pub(crate) guest_knob: Vec<String>,
    /// The seed of the run, or the first of several
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Run it with N seeds, one after the other: medians and 95 % intervals
    #[arg(long, value_name = "N", conflicts_with_all = ["tasks", "trace", "ftrace", "svg", "gantt_from", "gantt_to"],
        value_parser = clap::value_parser!(u16).range(1..=measure::statistics::RUNS_MAX as i64))]
    pub(crate) seeds: Option<u16>,
    /// Simulate every combination of values: policy=credit,poris or vm.NAME.count=1..8; may be given for several axes
    #[arg(long, value_name = "AXIS=VALUES", help_heading = "Sweeps",
        conflicts_with_all = ["tasks", "trace", "ftrace", "svg", "gantt_from", "gantt_to", "xenmon"])]
    pub(crate) vary: Vec<String>,
    /// Write every number of a sweep to FILE: a line for each, with its axes, name and metric
    #[arg(long, value_name = "FILE", requires = "vary", help_heading = "Sweeps")]
    pub(crate) csv: Option<PathBuf>,
    /// On how many threads the runs of several seeds or of a sweep are played; as many as there are CPUs
    #[arg(short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// How long to run, instead of the scenario's length: 500ms, 10s, 5min
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "tasks")]
    pub(crate) length: Option<String>,
    /// Leave out so much of the beginning in all that is measured, instead of the scenario's warm-up: 1s
    #[arg(long, value_name = "TIME", conflicts_with = "tasks")]
    pub(crate) warm_up: Option<String>,
    /// Report what each VM did as Xen's XenMon does: CPU, waited and blocked time, executions and I/O per second
    #[arg(long, conflicts_with = "tasks")]
    pub(crate) xenmon: bool,
    /// Write FILE.txt as the kernel's ftrace would, and FILE.VM.txt for each guest
    #[arg(long, value_name = "FILE.txt")]
    pub(crate) ftrace: Option<PathBuf>,
    /// Have the run judged by the laws of scheduling, and fail if one is broken
    #[arg(long)]
    pub(crate) audit: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// What comes out of a run.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Print the result as JSON (docs/report.md)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Write everything that happens to FILE: .txt as text, .json for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw who ran when to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
    /// Where the picture begins
    #[arg(long, value_name = "TIME", help_heading = "Output")]
    pub(crate) gantt_from: Option<String>,
    /// Where the picture ends
    #[arg(long, value_name = "TIME", help_heading = "Output")]
    pub(crate) gantt_to: Option<String>,
    /// How wide tables and pictures are, in characters; as the terminal, or 100
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: Option<u16>,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A scenario with real commands, pids or workloads in it, a TOML file (docs/scenarios.md)
    #[arg(conflicts_with_all = ["period", "slice", "hard", "cpus", "affinity", "pid", "command"],
        required_unless_present_any = ["pid", "command"])]
    pub(crate) scenario: Option<PathBuf>,
    /// The command to run under the promise, with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "pid")]
    pub(crate) command: Vec<String>,

    /// The period: 500us, 10ms, 10min
    #[arg(long, value_name = "TIME", required_unless_present = "scenario", help_heading = "Promise")]
    pub(crate) period: Option<String>,
    /// CPU time in every period, for all its threads and whatever they begin
    #[arg(long, value_name = "TIME", required_unless_present = "scenario", help_heading = "Promise")]
    pub(crate) slice: Option<String>,
    /// No more than that: stop it until the next period once its slice is used
    #[arg(long, help_heading = "Promise")]
    pub(crate) hard: bool,
    /// On how many CPUs its slice is dealt out at a time
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Promise",
        value_parser = clap::value_parser!(u16).range(1..=sched::id::CPUS_MAX as i64))]
    pub(crate) cpus: u16,
    /// The CPUs it may be put on: 2, 0-3,8
    #[arg(long, value_name = "LIST", help_heading = "Promise")]
    pub(crate) affinity: Option<sched::CpuSet>,
    /// A process that runs already, instead of a command; may be given again
    #[arg(long, value_name = "PID", help_heading = "Promise")]
    pub(crate) pid: Vec<u32>,

    /// How long the promise is kept: 500ms, 10s, 5min; else until all have ended, or it is interrupted
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) length: Option<String>,
    /// Where the table of originals is, instead of the usual place
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// The scenario, a TOML file (docs/scenarios.md)
    pub(crate) scenario: PathBuf,
    /// How long to run, instead of the scenario's length: 500ms, 10s, 5min
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) length: Option<String>,
    /// Print the result as JSON (docs/report.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// How wide the table is, in characters; as the terminal, or 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: Option<u16>,
}

#[derive(Args, Debug)]
pub(crate) struct Policies {
    /// The one to explain
    pub(crate) name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Costs {
    /// The one to show
    pub(crate) name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// How many seconds each of the two runs takes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// Simulate it, also where promises can be kept for real
    #[arg(long)]
    pub(crate) simulated: bool,
    /// Print the result as JSON, and write no files
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// How many seconds to measure timers for
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// Print the result as JSON (docs/report.md)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// Print the result as JSON (docs/report.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the table of originals is, instead of the usual place
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Work {
    /// From one job to the next; without it, it always wants to run
    #[arg(long, value_name = "N", requires = "work_ns", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) period_ns: Option<u64>,
    /// CPU time of a job
    #[arg(long, value_name = "N", requires = "period_ns", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) work_ns: Option<u64>,
    /// From the start to the first job
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) phase_ns: u64,
    /// How many jobs it tells of
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=daemon::part::JOBS_MAX))]
    pub(crate) records: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Launch {
    /// The inherited descriptor on which it is said when to begin
    #[arg(long, value_name = "FD")]
    pub(crate) gate: i32,
    /// How many files it may have open
    #[arg(long, value_name = "N")]
    pub(crate) files: Option<u64>,
    /// The command
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) what: LabWhat,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabWhat {
    /// List the claims, and the experiments that test each
    List(LabList),
    /// Play the experiments of some claims, or of all, and say which hold; goes on where it was interrupted
    #[command(after_help = EXIT_CODES)]
    Run(LabRun),
    /// Draw the figures, and write a page of all claims, from what is recorded or was played last
    #[command(after_help = EXIT_CODES)]
    Report(LabReport),
}

#[derive(Args, Debug)]
pub(crate) struct LabList {
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabRun {
    /// The claims, such as A1 C5, or all
    #[arg(required = true, value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
    /// With how many seeds, instead of what each experiment says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=measure::statistics::RUNS_MAX as i64))]
    pub(crate) seeds: Option<u16>,
    /// On how many threads; as many as there are CPUs
    #[arg(short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// As large as in the papers, which takes far longer
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) full: bool,
    /// A few points with one seed, to see whether they measure what is recorded
    #[arg(long, conflicts_with_all = ["record", "seeds", "json"])]
    pub(crate) smoke: bool,
    /// Write measured.json and RESULT.md of each paper; all of it has to be played
    #[arg(long, conflicts_with_all = ["full", "seeds"])]
    pub(crate) record: bool,
    /// Print the verdicts and all that was measured as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where finished runs are kept
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) results: PathBuf,
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct LabReport {
    /// Only these claims, such as A1 C5
    #[arg(value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
    /// What was played last instead of what is recorded; nothing is measured for it
    #[arg(long)]
    pub(crate) last: bool,
    /// Where the page and the pictures are written
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) results: PathBuf,
    /// The directory of the papers (docs/experiments.md)
    #[arg(long, value_name = "DIR", default_value = "papers")]
    pub(crate) papers: PathBuf,
}
