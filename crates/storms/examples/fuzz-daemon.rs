//! Fuzzer for the daemon and the guardian on simulated hosts. `cargo xtask fuzz --daemon` runs this program.
#![expect(clippy::disallowed_methods, reason = "how long to fuzz is real time")]

use clap::Parser;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use storms::{Finding, Options, Policies, Stats, run};

/// Fuzzes daemon and guardian on simulated hosts until the time limit, or until a promise is broken
#[derive(Parser, Debug)]
struct Arguments {
    /// Duration in minutes.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Number of seeds to run, without a time limit.
    #[arg(long, conflicts_with = "minutes")]
    seeds: Option<u64>,
    /// First seed; later seeds follow in ascending order (default: the current time in seconds).
    #[arg(long)]
    first: Option<u64>,
    /// Run only this seed, once, and print its events.
    #[arg(long, conflicts_with_all = ["minutes", "seeds", "first"])]
    seed: Option<u64>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| minutes.is_finite() && *minutes > 0.0);
    minutes.ok_or_else(|| "use a number of minutes above zero".to_string())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let find = |name| policies::find(name).expect("it is registered");
    let policies = Policies { linux: find("linux"), daemon: find(daemon::terms::POLICY) };
    if let Some(seed) = arguments.seed {
        let options = Options::draw(seed);
        println!("{options}");
        return report(run(&options, &policies, true));
    }
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let code = campaign(&arguments, &policies);
    std::panic::set_hook(quiet);
    code
}

fn report(outcome: Result<Stats, Box<Finding>>) -> ExitCode {
    match outcome {
        Ok(stats) => {
            println!("every promise kept: {stats:?}");
            ExitCode::SUCCESS
        }
        Err(finding) => {
            println!("FAILED\n{finding}");
            ExitCode::FAILURE
        }
    }
}

/// Runs consecutive seeds until the time limit or the number of seeds is reached, or a promise is broken.
fn campaign(arguments: &Arguments, policies: &Policies) -> ExitCode {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let first = arguments.first.unwrap_or(clock.as_secs());
    println!("daemon: seeds from {first} on");
    let (start, mut sum, mut runs) = (Instant::now(), Stats::default(), 0);
    let share = Duration::from_secs_f64(arguments.minutes * 60.0);
    while arguments.seeds.map_or_else(|| start.elapsed() < share, |most| runs < most) {
        let options = Options::draw(first + runs);
        match run(&options, policies, false) {
            Ok(stats) => sum = sum.and(stats),
            Err(_) => {
                println!("\n{options}");
                // Repeat the run, with a record of its events.
                return report(run(&options, policies, true));
            }
        }
        runs += 1;
        if std::io::stdout().is_terminal() {
            print!("\r{runs} runs, {} steps ", sum.steps);
            let _ = std::io::stdout().flush();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("\r{runs} runs in {seconds:.1} s, every promise kept: {sum:?}");
    println!("{:.0} steps and {:.0} acts a second", sum.steps as f64 / seconds, sum.acts as f64 / seconds);
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_line_of_a_storm_is_parsed_and_runs_the_same_storm() {
        let options = Options::draw(1_000_003);
        let text = options.to_string();
        let line = text.lines().find_map(|line| line.strip_prefix("replay: cargo xtask fuzz --daemon ")).unwrap();
        let words = ["fuzz-daemon"].into_iter().chain(line.split_whitespace());
        let arguments = Arguments::try_parse_from(words).unwrap();
        assert_eq!(arguments.seed.map(Options::draw), Some(options));
    }
}
