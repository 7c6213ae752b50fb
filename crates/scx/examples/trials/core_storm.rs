//! A core whose `tactus-scx` is killed or stopped at random instants under load.

use crate::Line;
use crate::core::{self, program_of};
use crate::load::{Load, hogs};
use crate::scheduler::scheduler_ends_within;
use crate::stalls::Stalls;
use anyhow::{Context, Result, bail, ensure};
use fuzz::Dice;
use sched::Nanos;
use std::io::{BufRead, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use sys::clock;
use sys::process::Process;
use sys::usage::Meter;

/// Maximum time without the promise: until the agents dispatch.
const BACK: Nanos = Nanos::ms(200);
/// Maximum time until the kernel schedules by itself after a change that a stopped program does not carry out.
const GIVEN_BACK: Nanos = Nanos::s(3);

/// A process with a hog, and another one for each line that it reads. It is killed when the value is dropped.
struct Client(Child);

impl Client {
    fn start() -> Result<Client> {
        let mut command = Command::new(std::env::current_exe()?);
        Ok(Client(command.arg("--spin").stdin(Stdio::piped()).spawn()?))
    }

    /// Has the process start another thread: a change of the promise, which the kernel must be told.
    fn begin_thread(&mut self) -> Result<()> {
        Ok(self.0.stdin.as_mut().context("it is piped")?.write_all(b"\n")?)
    }

    /// Returns the CPU time of all threads in `time`.
    fn pass(&self, time: Nanos) -> Result<Nanos> {
        let before = self.ran()?;
        clock::sleep(time);
        Ok(self.ran()?.saturating_sub(before))
    }

    fn ran(&self) -> Result<Nanos> {
        let tids = sys::thread::threads(self.0.id())?;
        tids.into_iter().try_fold(Nanos::ZERO, |sum, tid| Ok(sum + Meter::open(tid)?.read()?.ran))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It runs until then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process of a [`Client`].
pub(crate) fn spin() -> ExitCode {
    let hog = || loop {
        std::hint::spin_loop();
    };
    std::thread::spawn(hog);
    for _ in std::io::stdin().lock().lines() {
        std::thread::spawn(hog);
    }
    ExitCode::SUCCESS
}

/// The promise goes on by the agents at once if the program is killed, and by the kernel until the next change if it is stopped.
pub(crate) fn storm(line: &Line) -> Result<()> {
    if line.tactus.is_none() {
        println!("  left out: the option --tactus is needed");
        return Ok(());
    }
    for round in line.first..line.first + line.rounds {
        let mut dice = Dice::new(line.seed.wrapping_add(u64::from(round)));
        let (is_kill, delay) = (dice.one_in(2), Nanos::us(dice.below(300_000)));
        let what =
            format!("round {round} of seed {}: {} after {delay}", line.seed, if is_kill { "kill" } else { "stop" });
        let stalls = Stalls::watch()?;
        let outcome = fault(line, is_kill, delay).with_context(|| format!("{what}: {}", stalls.text()))?;
        println!("  {what}: {outcome}");
    }
    Ok(())
}

fn fault(line: &Line, is_kill: bool, delay: Nanos) -> Result<String> {
    let mut client = Client::start()?;
    let (pid, hogs) = (client.0.id(), hogs(2)?);
    let before = sys::attributes::get(pid)?;
    let mut core = core::start(line, pid, &["--slice", "5ms", "--period", "10ms"])?;
    let load = Load::start()?;
    clock::sleep(delay);
    let Some(program) = program_of(core.pid()) else { bail!("the core has no tactus-scx: {}", core.end()?) };
    let program = Process::open(program)?;
    let mut outcome = String::new();
    if is_kill {
        program.kill()?;
    } else {
        program.stop()?;
        let by_kernel = client.pass(Nanos::s(1))?;
        ensure!(by_kernel >= Nanos::ms(490), "the kernel has not kept the promise: {by_kernel} in 1 s");
        outcome = format!("{by_kernel} in 1 s by the kernel, ");
        client.begin_thread()?;
    }
    let back = client.pass(Nanos::s(1))?;
    let given_back = scheduler_ends_within(GIVEN_BACK).context("the scheduler is still loaded")?;
    let then = client.pass(Nanos::s(1))?;
    load.end()?;
    drop(hogs);
    let report = core.end()?;
    outcome +=
        &format!("{back} in 1 s after the fault, given back {given_back} later, then {then} in 1 s by the agents");
    ensure!(
        back >= (Nanos::s(1).saturating_sub(BACK)).scale(1, 2),
        "the promise did not go on within {BACK}: {outcome}"
    );
    ensure!(then >= Nanos::ms(490), "the agents do not keep the promise: {outcome}");
    ensure!(report.contains("no scheduler in the kernel dispatches the promises"), "no warning: {report}");
    ensure!(sys::attributes::get(pid)? == before, "the client has other attributes");
    Ok(outcome)
}
