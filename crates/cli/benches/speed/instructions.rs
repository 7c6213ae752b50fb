//! The instructions of one decision, counted by callgrind. Other load on the machine does not affect these counts.

use crate::decisions::{crowd, round};
use std::process::{Command, Stdio};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 400;

/// Returns whether callgrind is installed. Prints a message otherwise.
pub(crate) fn has_callgrind() -> bool {
    let mut version = Command::new("valgrind");
    let has = version.arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !has {
        println!("instructions are not counted: there is no valgrind (apt-get install valgrind)");
    }
    has
}

/// Prints instructions per wake + put + pick for every policy, if callgrind is installed.
pub(crate) fn count() {
    if !has_callgrind() {
        return;
    }
    println!("instructions: wake + put + pick, mean of {ROUNDS} by callgrind, by runnable entities");
    println!("  {:<14}{}", "policy", SIZES.map(|size| format!("{size:>10}")).concat());
    for policy in policies::ALL {
        let cell =
            |size| instructions(policy.name, size).map_or("?".to_string(), |count| (count / ROUNDS as u64).to_string());
        println!("  {:<14}{}", policy.name, SIZES.map(|size| format!("{:>10}", cell(size))).concat());
    }
}

/// Returns the number of instructions of the rounds, without those of the preparation.
fn instructions(policy: &str, size: usize) -> Option<u64> {
    let mut counted = Command::new(std::env::current_exe().ok()?);
    counted.args(["count", policy, &size.to_string()]);
    callgrind(&counted, Some("*counted_rounds*"))
}

/// Returns the number of instructions of `command`, or of its functions that match a pattern. `None`: the command
/// failed, or ran no such function.
pub(crate) fn callgrind(command: &Command, function: Option<&str>) -> Option<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    if let Some(function) = function {
        valgrind.arg("--collect-atstart=no").arg(format!("--toggle-collect={function}"));
    }
    valgrind.arg(command.get_program()).args(command.get_args()).stdout(Stdio::null());
    let output = valgrind.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("Collected : "))?;
    line.rsplit(' ').next()?.parse().ok().filter(|&count| count > 0)
}

/// Executes the rounds whose instructions callgrind counts: `count POLICY SIZE`.
pub(crate) fn run(policy: &str, size: usize) {
    let policy = policies::find(policy).expect("it is registered");
    let mut crowd = crowd(policy, size);
    let blocked = crowd.sleeper;
    counted_rounds(&mut crowd, blocked);
}

#[inline(never)]
fn counted_rounds(crowd: &mut crate::decisions::Crowd, mut blocked: sched::EntityId) {
    for _ in 0..ROUNDS {
        blocked = round(crowd, blocked);
    }
    std::hint::black_box(blocked);
}
