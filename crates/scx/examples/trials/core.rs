//! A core whose promises the kernel dispatches, until its `tactus-scx` is killed.

use crate::Line;
use crate::load::hogs;
use crate::scheduler::{is_loaded, scheduler_ends_within};
use anyhow::{Context, Result, bail, ensure};
use sched::Nanos;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use sys::clock;
use sys::process::Process;

/// Maximum time until the promises go on by the agents of the core.
const BACK: Nanos = Nanos::ms(200);

/// Returns the pid of the running `tactus-scx` that process `parent` has started.
pub(crate) fn program_of(parent: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|&pid| sys::thread::status(pid).is_ok_and(|it| it.name == "tactus-scx" && is_below(pid, parent)))
}

/// Returns whether `pid` is a descendant of `ancestor`.
fn is_below(mut pid: u32, ancestor: u32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        let Ok(status) = sys::thread::status(pid) else { return false };
        pid = status.parent;
    }
    false
}

/// A `tactus run`. It is killed when the value is dropped.
pub(crate) struct Core(Child);

impl Core {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Starts `tactus run` for a process with this promise. Agents dispatch it.
    pub(crate) fn by_agents(line: &Line, pid: u32, promise: &[&str]) -> Result<Core> {
        let mut command = Command::new(line.tactus.as_ref().context("the option --tactus is needed")?);
        command.args(["run", "--json", "--pid", &pid.to_string()]).args(promise);
        Ok(Core(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?))
    }

    /// Requests the end of the program. Returns its report.
    pub(crate) fn end(&mut self) -> Result<String> {
        let process = Process::open(self.0.id())?;
        process.terminate()?;
        ensure!(process.ends_within(Nanos::s(10)), "the core does not end");
        let mut report = String::new();
        self.0.stdout.take().context("it is piped")?.read_to_string(&mut report)?;
        self.0.stderr.take().context("it is piped")?.read_to_string(&mut report)?;
        Ok(report)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `tactus run` for a process with this promise, and waits until the kernel dispatches it.
pub(crate) fn start(line: &Line, pid: u32, promise: &[&str]) -> Result<Core> {
    let mut command = Command::new(line.tactus.as_ref().context("the option --tactus is needed")?);
    command.args(["run", "--sched-ext", "--json", "--pid", &pid.to_string()]).args(promise);
    let mut core = Core(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    let end = clock::now().saturating_add(Nanos::s(30));
    while !is_loaded()? {
        if let Some(status) = core.0.try_wait()? {
            let mut errors = String::new();
            core.0.stderr.take().context("it is piped")?.read_to_string(&mut errors)?;
            bail!("tactus run ended with {status}: {errors}");
        }
        ensure!(clock::now() < end, "no scheduler is loaded");
        clock::sleep(Nanos::ms(5));
    }
    clock::sleep(Nanos::ms(500));
    Ok(core)
}

pub(crate) fn promises(line: &Line) -> Result<()> {
    if line.tactus.is_none() {
        println!("  left out: the option --tactus is needed");
        return Ok(());
    }
    if line.leaves_out(1) {
        return Ok(());
    }
    let hogs = hogs(3)?;
    let (hog, meter) = &hogs[0];
    let before = sys::attributes::get(hog.pid())?;
    let mut core = start(line, hog.pid(), &["--slice", "5ms", "--period", "10ms"])?;
    let ops = fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
    if ops.trim() != "tactus_edf" {
        bail!("the scheduler is {ops:?}: {}", core.end()?);
    }
    let pass = |time: Nanos| -> Result<Nanos> {
        let before = meter.read()?.ran;
        clock::sleep(time);
        Ok(meter.read()?.ran.saturating_sub(before))
    };
    let by_kernel = pass(Nanos::s(2))?;
    let program = Process::open(program_of(core.0.id()).context("the core has a tactus-scx")?)?;
    program.kill()?;
    let given_back = scheduler_ends_within(Nanos::s(1)).context("the scheduler is still loaded")?;
    let by_agents = pass(Nanos::s(1))?;
    println!("  5ms/10ms: {by_kernel} in 2 s by the kernel; given back after {given_back}; then {by_agents} in 1 s");
    ensure!(by_kernel >= Nanos::ms(990), "the kernel has not kept the promise: {by_kernel} in 2 s");
    let least = (Nanos::s(1).saturating_sub(BACK)).scale(1, 2);
    ensure!(by_agents >= least, "the promise did not go on within {BACK}: {by_agents} in 1 s");
    let after = pass(Nanos::s(1))?;
    ensure!(after >= Nanos::ms(490), "the agents do not keep the promise: {after} in 1 s");
    let report = core.end()?;
    ensure!(report.contains("no scheduler in the kernel dispatches the promises"), "no warning: {report}");
    ensure!(sys::attributes::get(hog.pid())? == before, "the hog has other attributes");
    Ok(())
}
