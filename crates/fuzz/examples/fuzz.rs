//! The fuzzer of policies and worlds; `cargo xtask fuzz` runs it.
#![expect(clippy::disallowed_methods, reason = "how long to fuzz is real time")]

use clap::Parser;
use fuzz::{Options, Stats, WorldOptions, WorldStats, check, check_world};
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Fuzzes each policy until its share of the time ends, or until the policy breaks a law.
#[derive(Parser, Debug)]
struct Arguments {
    /// Duration in minutes, divided among the policies.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Fuzz only this policy.
    #[arg(long)]
    policy: Option<String>,
    /// First seed; later seeds follow in ascending order (default: the current time in seconds).
    #[arg(long)]
    first: Option<u64>,
    /// Run only this seed, once.
    #[arg(long, conflicts_with_all = ["minutes", "first"])]
    seed: Option<u64>,
    /// Fuzz two-level worlds instead of single machines.
    #[arg(long, conflicts_with = "policy")]
    worlds: bool,
    /// Length of the run in nanoseconds (only with `--worlds` and a seed).
    #[arg(long, requires = "worlds", requires = "seed")]
    length_ns: Option<u64>,
    /// Number of rounds of inputs (only with a seed).
    #[arg(long, requires = "seed")]
    steps: Option<u64>,
    /// Number of CPUs (only with a seed).
    #[arg(long, requires = "seed", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Option<u16>,
    /// Maximum number of entities at a time (only with a seed).
    #[arg(long, requires = "seed")]
    entities: Option<u64>,
}

impl Arguments {
    /// Returns the seed of the first run of a campaign.
    fn first(&self) -> u64 {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        self.first.unwrap_or(clock.as_secs())
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| minutes.is_finite() && *minutes > 0.0);
    minutes.ok_or_else(|| "use a number of minutes above zero".to_string())
}

/// Maximum duration of one run, including its repetition and shrinking.
const RUN_MOST: Duration = Duration::from_secs(300);

/// Ends the process if a run takes too long, and prints the options of the run with the command line that replays it.
#[derive(Clone, Debug, Default)]
struct Watchdog(Arc<Mutex<Option<(Instant, String)>>>);

impl Watchdog {
    fn start() -> Watchdog {
        let watchdog = Watchdog::default();
        let watched = watchdog.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                watched.check();
            }
        });
        watchdog
    }

    /// Records the start of a run with these options.
    fn watch(&self, options: &dyn Display) {
        *self.0.lock().expect("no holder of the lock panics") = Some((Instant::now(), options.to_string()));
    }

    fn check(&self) {
        if let Some((start, options)) = &*self.0.lock().expect("no holder of the lock panics")
            && start.elapsed() > RUN_MOST
        {
            println!("{options}\nFAILED\nthe run does not end within {} s", RUN_MOST.as_secs());
            std::process::exit(1);
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let watchdog = Watchdog::start();
    if arguments.worlds {
        return if worlds(&arguments, &watchdog) { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let named = |name: &String| match policies::find(name) {
        Some(policy) => vec![policy],
        None => {
            let known: Vec<_> = policies::ALL.iter().map(|policy| policy.name).collect();
            eprintln!("there is no policy `{name}`\nhelp: use one of {}", known.join(", "));
            std::process::exit(2);
        }
    };
    let chosen = arguments.policy.as_ref().map_or_else(|| policies::ALL.to_vec(), named);
    let quiet = std::panic::take_hook();
    let mut failed = false;
    for policy in &chosen {
        if let Some(seed) = arguments.seed {
            let drawn = Options::draw(policy, seed).with(arguments.steps, arguments.entities);
            let options = match arguments.cpus {
                Some(cpus) => drawn.on(cpus.into()),
                None => drawn,
            };
            println!("{options}");
            watchdog.watch(&options);
            failed |= report(check(&options));
            continue;
        }
        std::panic::set_hook(Box::new(|_| {}));
        let share = Duration::from_secs_f64(arguments.minutes * 60.0 / chosen.len() as f64);
        failed |= campaign(policy, arguments.first(), share, &watchdog);
    }
    std::panic::set_hook(quiet);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Fuzzes worlds with one seed, or with consecutive seeds. Returns whether a law was broken.
fn worlds(arguments: &Arguments, watchdog: &Watchdog) -> bool {
    if let Some(seed) = arguments.seed {
        let mut options = WorldOptions::draw(seed);
        options.length = arguments.length_ns.map_or(options.length, sched::Nanos::ns);
        println!("{options}");
        watchdog.watch(&options);
        return match check_world(options) {
            Ok(WorldStats { inputs, events }) => {
                println!("kept every law: {inputs} inputs accepted, events {events:016x}");
                false
            }
            Err(what) => {
                println!("FAILED\n{what}");
                true
            }
        };
    }
    let (first, start) = (arguments.first(), Instant::now());
    let share = Duration::from_secs_f64(arguments.minutes * 60.0);
    println!("worlds: seeds from {first} on");
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (mut runs, mut inputs) = (0, 0);
    let mut failed = false;
    while start.elapsed() < share && !failed {
        let options = WorldOptions::draw(first + runs);
        watchdog.watch(&options);
        match check_world(options) {
            Ok(stats) => inputs += stats.inputs,
            Err(what) => {
                println!("{options}\nFAILED\n{what}");
                failed = true;
            }
        }
        runs += 1;
    }
    std::panic::set_hook(quiet);
    println!("worlds: {runs} runs, {inputs} inputs accepted{}", if failed { "" } else { ", every law kept" });
    failed
}

fn report(outcome: Result<Stats, Box<fuzz::Failure>>) -> bool {
    match outcome {
        Ok(Stats { accepted, refused, actions }) => {
            println!("kept every law: {accepted} inputs accepted, {refused} requests refused, actions {actions:016x}");
            false
        }
        Err(failure) => {
            println!("FAILED\n{failure}");
            true
        }
    }
}

/// Runs consecutive seeds from `first` until the time limit. Returns whether a law was broken.
fn campaign(policy: &'static sched::Descriptor, first: u64, share: Duration, watchdog: &Watchdog) -> bool {
    println!("{}: seeds from {first} on", policy.name);
    let (start, mut accepted, mut runs) = (Instant::now(), 0, 0);
    while start.elapsed() < share {
        let options = Options::draw(policy, first + runs);
        watchdog.watch(&options);
        match check(&options) {
            Ok(stats) => accepted += stats.accepted,
            failed @ Err(_) => {
                println!("{options}");
                return report(failed);
            }
        }
        runs += 1;
        if std::io::stdout().is_terminal() {
            print!(
                "\r{}: {runs} runs, {accepted} inputs, {:.0} s left ",
                policy.name,
                (share.saturating_sub(start.elapsed())).as_secs_f64()
            );
            let _ = std::io::stdout().flush();
        }
    }
    println!("\r{}: {runs} runs, {accepted} inputs accepted, every law kept", policy.name);
    false
}
