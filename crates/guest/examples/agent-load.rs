//! The load of an agent in its guest: its CPU time beside a task that wakes 200 and 2,000 times a second, and how many of its timers it
//! announces in time. Fails if the agent takes more than the promised part of a CPU.
//!
//! Usage: agent-load AGENT, as root.

#[path = "../tests/host/mod.rs"]
mod host;

use coordination::wire::FromGuest;
use host::Host;
use sched::Nanos;
use std::process::{Command, ExitCode, Stdio};
use sys::child::{Child, Work};
use sys::clock;
use sys::usage::Meter;

/// Sleep of the task, wake-ups a second, and maximum CPU time of the agent in parts of a thousand of a CPU.
const RATES: [(Nanos, u64, u64); 2] = [(Nanos::us(4_950), 200, 10), (Nanos::us(450), 2_000, 50)];
/// Time after which a kernel that has just booted has tested its ciphers.
const BOOTED: Nanos = Nanos::s(30);
/// CPU time of the task in each period.
const BUSY: Nanos = Nanos::us(50);
/// Time until the task is known to be interactive, and time that is measured.
const WARM_UP: Nanos = Nanos::s(2);
const LENGTH: Nanos = Nanos::s(10);

/// Measures one rate. Returns the CPU time of the agent in parts of a million of a CPU.
fn measure(agent: &str, idle: Nanos) -> u64 {
    let port = std::env::temp_dir().join("agent-load-port");
    let mut host = Host::attach(&port);
    let mut process = Command::new(agent)
        .arg("--port")
        .arg(&port)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the agent is there");
    host.hear_hello();
    host.welcome();
    // The reader wakes, too.
    let pause = idle.saturating_mul(20);
    let _task = Child::start(Work::Spin { busy: BUSY, idle }).expect("a process starts");
    let meter = Meter::open(process.id()).expect("the agent runs");
    let read = || meter.read().expect("the agent runs");
    host.read_for(WARM_UP, pause);
    let (begin, before) = (clock::now(), read());
    let messages = host.read_for(LENGTH, pause);
    let (length, used) = (clock::now().since(begin), read().ran - before.ran);
    let announced = messages.iter().filter(|it| matches!(it, FromGuest::Hint(hint) if hint.expiry.is_some())).count();
    process.kill().expect("it runs");
    process.wait().expect("it is killed");
    let ppm = used.as_ns() * 1_000_000 / length.as_ns();
    println!(
        "{} hints, {announced} with a timer, in {length}; the agent used {}.{:02} % of the CPU",
        messages.len(),
        ppm / 10_000,
        ppm % 10_000 / 100
    );
    ppm
}

fn main() -> ExitCode {
    let agent = std::env::args().nth(1).expect("the path of the agent is the argument");
    clock::sleep(BOOTED);
    let mut is_kept = true;
    for (idle, rate, most) in RATES {
        print!("{rate} wake-ups a second: ");
        let ppm = measure(&agent, idle);
        if ppm > most * 1_000 {
            println!("more than {most} thousandths");
            is_kept = false;
        }
    }
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
