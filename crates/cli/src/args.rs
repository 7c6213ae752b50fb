//! The command line.

use crate::certs_args::Certs;
use crate::core_args::Core;
use crate::failure::EXIT_CODES;
use crate::guest_args::{GUEST_EXIT_CODES, Guest, LoanGuardian, WHY_EXIT_CODES, Why};
use crate::lab_args::Lab;
use crate::live_load::LiveLoad;
use crate::raising::Raising;
use crate::scx::Scx;
use crate::service_args::{
    Events, List, Named, Observe, PageArgs, SERVICE_EXIT_CODES, SchedInfo, Serve, Set, Show, Top,
};
use crate::serving_args::Serving;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const RUN_EXIT_CODES: &str =
    "The threads of a client run at real-time priority while its slice lasts, and are restored when the \
    run ends. A guardian restores them if the run dies.

Exit codes, the first that applies: 2 invalid or refused input; 1 failure; 130 interrupted; the exit code of the only \
    process if it is a command that failed, or 128 plus the signal that ended it; 3 a promise was not kept; 0 success.";

const DOCTOR_EXIT_CODES: &str = "All trials use child processes, and restore this machine.

Exit codes: 0 promises can be kept here; 1 no promise can be kept, or the examination failed; 2 invalid input; \
    130 interrupted.";

const RELEASE_EXIT_CODES: &str =
    "Works with all processes of Tactus dead. A living daemon is asked to end, and killed \
    after 5 s. Values that another process has set since stay as they are. Root releases the table of each user in a \
    process of that user.

Exit codes: 0 every thread is restored, or there was nothing to restore; 1 some threads could not be \
    restored; 2 invalid input; 130 interrupted.";

/// A CPU scheduler for virtual machines, and a simulator of its policies.
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
    /// Keep a promise of CPU time: to a command, to running processes, or to all entities of a scenario
    #[command(after_help = RUN_EXIT_CODES)]
    Run(Box<Run>),
    /// Simulate a scenario and keep its promises on this machine: predictions beside observations
    #[command(after_help = RUN_EXIT_CODES)]
    Compare(Compare),
    /// List the scheduling policies, or explain a policy
    #[command(after_help = EXIT_CODES)]
    Policies(Policies),
    /// List the machines with known costs for scenarios, or show the costs of a machine with their sources
    #[command(after_help = EXIT_CODES)]
    Costs(Costs),
    /// Reproduce the figures and tables of papers: claims beside measurements
    #[command(after_help = EXIT_CODES)]
    Lab(Lab),
    /// Demonstrate promises: run three kinds of work under the kernel's scheduler, then under promises
    #[command(after_help = EXIT_CODES)]
    Demo(Demo),
    /// Examine this machine: its properties, the enforcement mechanisms that work, and the lateness of its timers
    #[command(after_help = DOCTOR_EXIT_CODES)]
    Doctor(Doctor),
    /// Schedule this kernel by a policy, through sched_ext (docs/sched-ext.md); `tactus scx --help` has its options
    #[command(disable_help_flag = true)]
    Scx(Scx),
    /// Serve all VMs of this host: keep what is desired for them, and answer the clients `tactus list` to `tactus events`
    #[command(after_help = SERVICE_EXIT_CODES)]
    Serve(Serve),
    /// List the VMs of the service: what is desired for each, and whether it is in force
    #[command(after_help = SERVICE_EXIT_CODES)]
    List(List),
    /// Show one VM of the service
    #[command(after_help = SERVICE_EXIT_CODES)]
    Show(Show),
    /// Observe a VM of the service for some time: what its threads use and wait for, and what runs instead of them
    #[command(after_help = SERVICE_EXIT_CODES)]
    Observe(Observe),
    /// Promise CPU time to a VM of the service, or change its share of the CPUs
    #[command(after_help = SERVICE_EXIT_CODES)]
    Set(Set),
    /// End everything that is desired for a VM of the service
    #[command(after_help = SERVICE_EXIT_CODES)]
    Unset(Named),
    /// Suspend what is desired for a VM of the service, without forgetting it
    #[command(after_help = SERVICE_EXIT_CODES)]
    Pause(Named),
    /// Put what is desired for a paused VM of the service in force again
    #[command(after_help = SERVICE_EXIT_CODES)]
    Resume(Named),
    /// Show and set what is desired for a VM of the service in the form of `virsh schedinfo`
    #[command(after_help = SERVICE_EXIT_CODES)]
    Schedinfo(SchedInfo),
    /// Follow the events of the service: VMs that appear and end, changes, and promises that stop being kept
    #[command(after_help = SERVICE_EXIT_CODES)]
    Events(Events),
    /// Show the VMs of the service in a browser on this host, and change what is promised to them
    #[command(after_help = SERVICE_EXIT_CODES)]
    Page(PageArgs),
    /// Make and revoke the certificates with which clients on other hosts reach the service
    #[command(after_help = EXIT_CODES)]
    Certs(Certs),
    /// Show what the VMs of the service are promised, receive, use and miss, as it changes, and change it by keys
    ///
    /// On a terminal, the key `?` shows the keys: among them are Enter to edit the selected VM, Space to mark several, p to pause, d to
    /// end a promise, u to undo, and q to end.
    #[command(after_help = SERVICE_EXIT_CODES)]
    Top(Top),
    /// Boost the vCPUs of a VM by the hints of the agent in its guest (docs/coordination.md)
    #[command(after_help = GUEST_EXIT_CODES)]
    Guest(Guest),
    /// Explain why tasks in a VM run late: split each late wake-up that the agent in its guest reports (docs/coordination.md)
    #[command(after_help = WHY_EXIT_CODES)]
    Why(Why),
    /// Give everything back: end the daemon, if it still lives, and restore all threads that it has changed
    #[command(after_help = RELEASE_EXIT_CODES)]
    Release(Release),
    /// (internal) Guardian of the dispatcher with the table of originals in DIRECTORY
    #[command(hide = true)]
    Guardian {
        /// Directory of the table
        directory: PathBuf,
        /// The inherited private mount of the freezer
        #[arg(value_name = "FD")]
        mount: Option<i32>,
    },
    /// (internal) Guardian of the loans to a VM: standard input is a timer
    #[command(hide = true)]
    LoanGuardian(LoanGuardian),
    /// (internal) Core of the front end at the other end of the inherited socket FD, or resident core
    #[command(hide = true)]
    Core(Core),
    /// (internal) Worker process: reads its start time from stdin, writes job records to stdout
    #[command(hide = true)]
    Work(Work),
    /// (internal) Launcher: waits at its gate, then executes a command
    #[command(hide = true)]
    Launch(Launch),
    /// (internal) Workload of live experiments: reads a track of a CD, and prints the elapsed nanoseconds
    #[command(hide = true)]
    ReadCd(ReadCd),
    /// (internal) Workload of live experiments with a scheduler in the kernel
    #[command(hide = true)]
    LiveLoad(LiveLoad),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// (internal) Write a man page for each command
    #[command(hide = true)]
    ManPages {
        /// Directory of the man pages, which exists
        directory: PathBuf,
    },
}

#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("several").args(["seeds", "vary"]).multiple(true)))]
pub(crate) struct Sim {
    /// The scenario, a TOML file (docs/scenarios.md)
    #[arg(required_unless_present = "tasks", conflicts_with = "tasks")]
    pub(crate) scenario: Option<PathBuf>,

    /// A set of periodic tasks in place of a scenario: CSV with the columns id, period_us, wcet_us
    #[arg(long, value_name = "SET.csv", requires = "cpus", requires = "seconds", help_heading = "Task sets")]
    pub(crate) tasks: Option<PathBuf>,
    /// Number of CPUs for the task set
    #[arg(long, value_name = "N", requires = "tasks", help_heading = "Task sets",
        value_parser = clap::value_parser!(u16).range(1..=sched::id::CPUS_MAX as i64))]
    pub(crate) cpus: Option<u16>,
    /// Duration for the task set
    #[arg(long, value_name = "N", requires = "tasks", help_heading = "Task sets",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) seconds: Option<u64>,
    /// Assign each task to one CPU, first fit by decreasing utilisation; by default, every task may use all CPUs
    #[arg(long, requires = "tasks", help_heading = "Task sets")]
    pub(crate) partitioned: bool,
    /// List every job with its release, deadline and completion (with --json)
    #[arg(long, requires = "json", help_heading = "Task sets")]
    pub(crate) jobs: bool,

    /// The policy, in place of the scenario's; several policies are compared. scx:bmq, scx:edf and scx:gang-edf are ports for sched_ext
    #[arg(long, value_name = "P[,P...]", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Set a knob of the policy; see `tactus policies NAME`
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) knob: Vec<String>,
    /// The policy of all guests, in place of their own policies
    #[arg(long, value_name = "P", conflicts_with = "tasks")]
    pub(crate) guest_policy: Option<String>,
    /// Set a knob of the guests' policy
    #[arg(long, value_name = "NAME=VALUE", requires = "guest_policy")]
    pub(crate) guest_knob: Vec<String>,
    /// The seed of the run, or the first seed of several runs
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Run with N consecutive seeds: medians and 95 % intervals
    #[arg(long, value_name = "N", conflicts_with_all = ["tasks", "trace", "ftrace", "svg", "gantt_from", "gantt_to"],
        value_parser = clap::value_parser!(u16).range(1..=measure::statistics::RUNS_MAX as i64))]
    pub(crate) seeds: Option<u16>,
    /// Simulate every combination of values: policy=credit,poris or vm.NAME.count=1..8; may be repeated
    #[arg(long, value_name = "AXIS=VALUES", help_heading = "Sweeps",
        conflicts_with_all = ["tasks", "trace", "ftrace", "svg", "gantt_from", "gantt_to", "xenmon"])]
    pub(crate) vary: Vec<String>,
    /// Write every number of a sweep to FILE: a line per number, with its axes, name and metric
    #[arg(long, value_name = "FILE", requires = "vary", help_heading = "Sweeps")]
    pub(crate) csv: Option<PathBuf>,
    /// Number of threads for several seeds or a sweep; by default the number of CPUs
    #[arg(short = 'j', value_name = "N", requires = "several", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Duration, in place of the scenario's length: 500ms, 10s, 5min
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "tasks")]
    pub(crate) length: Option<String>,
    /// Time at the start to exclude from measurement, in place of the scenario's warm-up: 1s
    #[arg(long, value_name = "TIME", conflicts_with = "tasks")]
    pub(crate) warm_up: Option<String>,
    /// Report what Xen's XenMon measures for each VM: CPU, waited and blocked time, executions and I/O per second
    #[arg(long, conflicts_with = "tasks")]
    pub(crate) xenmon: bool,
    /// Write a trace in ftrace's text format to FILE.txt, and FILE.VM.txt for each guest
    #[arg(long, value_name = "FILE.txt")]
    pub(crate) ftrace: Option<PathBuf>,
    /// Audit the run: fail if the run breaks a law of scheduling
    #[arg(long)]
    pub(crate) audit: bool,

    #[command(flatten)]
    pub(crate) serving: Serving,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options for the output of a run.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Print the result as JSON (docs/report.md)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Write all events to FILE: .txt as text, .pftrace for Perfetto, .json for chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw the schedule to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
    /// Start of the picture
    #[arg(long, value_name = "TIME", help_heading = "Output")]
    pub(crate) gantt_from: Option<String>,
    /// End of the picture
    #[arg(long, value_name = "TIME", help_heading = "Output")]
    pub(crate) gantt_to: Option<String>,
    /// Width of tables and pictures, in characters; by default the width of the terminal, or 100
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: Option<u16>,
}

/// The options of a promise, which a share excludes.
const PROMISE: [&str; 7] = ["period", "slice", "hard", "cpus", "gang", "affinity", "mechanism"];

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A scenario with commands, pids or workloads, a TOML file (docs/scenarios.md)
    #[arg(conflicts_with_all = ["period", "slice", "hard", "cpus", "gang", "affinity", "weight", "cap", "pid", "command"],
        required_unless_present_any = ["pid", "command"])]
    pub(crate) scenario: Option<PathBuf>,
    /// The command for the promise, with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "pid")]
    pub(crate) command: Vec<String>,

    /// The period: 500us, 10ms, 10min
    #[arg(long, value_name = "TIME", required_unless_present_any = ["scenario", "weight", "cap"], requires = "slice",
        help_heading = "Promise")]
    pub(crate) period: Option<String>,
    /// CPU time per period, for all threads and descendants
    #[arg(long, value_name = "TIME", required_unless_present_any = ["scenario", "weight", "cap"], requires = "period",
        help_heading = "Promise")]
    pub(crate) slice: Option<String>,
    /// Hard limit: when the slice is used up, freeze the process until the next period
    #[arg(long, help_heading = "Promise")]
    pub(crate) hard: bool,
    /// Number of CPUs on which the process runs at the same time; they share the slice
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Promise",
        value_parser = clap::value_parser!(u16).range(1..=sched::id::CPUS_MAX as i64))]
    pub(crate) cpus: u16,
    /// Gang: the parts of the slice begin at the same time on all CPUs of --cpus, and of all processes of --pid
    #[arg(long, help_heading = "Promise")]
    pub(crate) gang: bool,
    /// The allowed CPUs: 2, 0-3,8
    #[arg(long, value_name = "LIST", help_heading = "Promise")]
    pub(crate) affinity: Option<sched::CpuSet>,
    /// A running process, in place of a command; may be repeated
    #[arg(long, value_name = "PID", help_heading = "Promise")]
    pub(crate) pid: Vec<u32>,
    /// How clients receive their CPU time
    #[arg(long, value_enum, value_name = "MECHANISM", default_value_t, help_heading = "Promise")]
    pub(crate) mechanism: Raising,
    /// Have a scheduler in the kernel dispatch the promises, through sched_ext, while the kernel has it loaded
    /// (docs/sched-ext.md)
    #[arg(long, help_heading = "Promise", conflicts_with_all = ["weight", "cap"])]
    pub(crate) sched_ext: bool,

    /// In place of a promise: weight relative to other control groups; an ordinary group has 100
    #[arg(long, value_name = "N", help_heading = "Share", value_parser = clap::value_parser!(u32).range(1..=i64::from(api::WEIGHT_MOST)),
        conflicts_with_all = PROMISE)]
    pub(crate) weight: Option<u32>,
    /// In place of a promise: at most this part of a CPU in every 10 ms (below 10: in every 100 ms); 150 is one and a
    /// half CPUs
    #[arg(long, value_name = "PERCENT", help_heading = "Share", value_parser = clap::value_parser!(u32).range(1..=i64::from(api::CAP_MOST)),
        conflicts_with_all = PROMISE)]
    pub(crate) cap: Option<u32>,

    /// Duration of the run: 500ms, 10s, 5min; by default the scenario's length, or until all processes have ended
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) length: Option<String>,
    /// Report what Xen's XenMon measures for each client: CPU, waited and blocked time, executions per second
    #[arg(long)]
    pub(crate) xenmon: bool,
    /// Directory of the table of originals, in place of the default
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) directory: Option<PathBuf>,
    /// Fault injection: the agent, holder, keeper or commands thread of the core stalls after TIME
    #[arg(long, value_name = "THREAD:TIME", hide = true)]
    pub(crate) stall: Option<String>,
    /// Fault injection: after TIME, all calls of CALL by the core fail with ERROR, such as sched_setattr:EPERM:300ms
    #[arg(long, value_name = "CALL:ERROR:TIME", hide = true, conflicts_with = "stall")]
    pub(crate) fail: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// The scenario, a TOML file (docs/scenarios.md)
    pub(crate) scenario: PathBuf,
    /// Duration, in place of the scenario's length: 500ms, 10s, 5min
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) length: Option<String>,
    /// Print the result as JSON (docs/report.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Width of the table, in characters; by default the width of the terminal, or 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub(crate) width: Option<u16>,
}

#[derive(Args, Debug)]
pub(crate) struct Policies {
    /// The policy to explain
    pub(crate) name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Costs {
    /// The machine to show
    pub(crate) name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Duration of each of the two runs, in seconds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// Simulate, even if promises can be kept on this machine
    #[arg(long)]
    pub(crate) simulated: bool,
    /// Use two VMs of QEMU with guests that report their jobs, in place of the two periodic processes
    #[arg(long, conflicts_with = "simulated")]
    pub(crate) vm: bool,
    /// Print the result as JSON, and write no files
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the simulated demo in a browser until Ctrl-C: its VMs are observed and changed as those of a real host
    #[arg(long, conflicts_with_all = ["vm", "json", "seconds"])]
    pub(crate) page: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Duration of the measurement of timers, in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) seconds: u64,
    /// Also measure each mechanism that can keep a promise, beside busy processes, for N seconds each [default: 5]; from 5
    /// on, `run --mechanism auto` uses the results until the next boot
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5",
        value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) measure: Option<u64>,
    /// Print the result as JSON (docs/report.md)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Release {
    /// Release all tables on this host; users other than root can release only their own
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the result as JSON (docs/report.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Directory of the table of originals, in place of the default
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "all")]
    pub(crate) directory: Option<PathBuf>,
    /// Directory of volatile state, in place of /run
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) run_directory: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Work {
    /// Interval between jobs; without it, the worker is always busy
    #[arg(long, value_name = "N", requires = "work_ns", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) period_ns: Option<u64>,
    /// CPU time of a job
    #[arg(long, value_name = "N", requires = "period_ns", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) work_ns: Option<u64>,
    /// Time from the start to the first job
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) phase_ns: u64,
    /// Number of jobs to record
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=daemon::processes::JOBS_MAX))]
    pub(crate) records: u64,
}

#[derive(Args, Debug)]
pub(crate) struct ReadCd {
    /// Number of turns of the disc
    #[arg(long, value_name = "N")]
    pub(crate) turns: u64,
    /// Duration of a turn
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) turn_ms: u64,
    /// Capacity of the drive's buffer, in turns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) buffer: u64,
    /// Duration of a seek
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) seek_ms: u64,
    /// CPU time for the data of a turn
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) work_us: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Launch {
    /// The inherited descriptor for the start time
    #[arg(long, value_name = "FD")]
    pub(crate) gate: i32,
    /// The command
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<String>,
}
