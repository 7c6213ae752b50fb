//! Wake-up latencies of an interactive task beside a hog in a guest, in seconds with and without the boosts of the host.
//!
//! Usage: wake-ups AGENT SECONDS, as root. Prints a line at each second, and at the end, a line for each second with the latencies in order.

use sched::Nanos;
use std::process::{Command, ExitCode, Stdio};
use sys::child::{Child, Work};
use sys::clock;

/// Interval of the task, as of cyclictest.
const INTERVAL: Nanos = Nanos::ms(1);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(agent), Some(seconds)) = (args.next(), args.next().and_then(|word| word.parse::<usize>().ok())) else {
        eprintln!("usage: wake-ups AGENT SECONDS");
        return ExitCode::from(2);
    };
    let mut agent = Command::new(agent)
        .args(["--prioritise", "nice", "--cpu-most", "100"])
        .stdin(Stdio::null())
        .spawn()
        .expect("the agent is there");
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); seconds];
    let mut next = clock::now();
    for second in &mut latencies {
        // A hog lives for a minute.
        let hog = Child::start(Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO }).expect("a process starts");
        let end = next + Nanos::s(1);
        while next < end {
            next = next.max(clock::now()) + INTERVAL;
            clock::sleep_until(next);
            second.push(clock::now().saturating_since(next).as_ns() / 1_000);
        }
        println!("second");
        drop(hog);
    }
    // The agent restores what it has raised.
    let _ = sys::process::Process::open(agent.id()).and_then(|process| process.terminate());
    let _ = agent.wait();
    for second in &mut latencies {
        second.sort_unstable();
        let words: Vec<String> = second.iter().map(u64::to_string).collect();
        println!("latencies_us {}", words.join(" "));
    }
    ExitCode::SUCCESS
}
