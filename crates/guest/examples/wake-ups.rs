//! Wake-up latencies of an interactive task beside a hog in a guest, in seconds with and without the boosts of the host.
//!
//! Usage: wake-ups AGENT SECONDS BEFORE, as root. The agent begins after the seconds BEFORE. Prints a line at each second, and at the end, a line
//! for each second with the latencies in order.

use sched::Nanos;
use std::process::{Command, ExitCode, Stdio};
use sys::child::{Child, Work};
use sys::clock;

/// Interval of the task, as of cyclictest.
const INTERVAL: Nanos = Nanos::ms(1);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let program = args.next();
    let mut number = || args.next().and_then(|word| word.parse::<usize>().ok());
    let (Some(program), Some(seconds), Some(before)) = (program, number(), number()) else {
        eprintln!("usage: wake-ups AGENT SECONDS BEFORE");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(["--prioritise", "nice", "--cpu-most", "100"]).stdin(Stdio::null());
    let mut agent = None;
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); seconds];
    let mut next = clock::now();
    for (number, second) in latencies.iter_mut().enumerate() {
        if number == before {
            agent = Some(command.spawn().expect("the agent is there"));
        }
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
    if let Some(mut agent) = agent {
        let _ = sys::process::Process::open(agent.id()).and_then(|process| process.terminate());
        let _ = agent.wait();
    }
    for second in &mut latencies {
        second.sort_unstable();
        let words: Vec<String> = second.iter().map(u64::to_string).collect();
        println!("latencies_us {}", words.join(" "));
    }
    ExitCode::SUCCESS
}
