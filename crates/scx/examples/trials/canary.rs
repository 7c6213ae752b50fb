//! Schedulers with a fault: the kernel removes them, and the agents of a core keep its promises.

use crate::core::{self, Core};
use crate::load::hogs;
use crate::scheduler::{Scheduler, is_loaded, scheduler_ends_within};
use crate::{Line, observe};
use anyhow::{Context, Result, bail, ensure};
use orders::{Order, Report};
use sched::Nanos;
use scx::canary::{Canary, Faults};
use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use sys::clock;
use sys::usage::Meter;

/// Maximum time until the kernel removes a scheduler that lets a thread wait: its `timeout_ms`, the interval of checks, which is half
/// of it, and the removal.
const REMOVED: Nanos = Nanos::s(8);
/// Number of hogs: the share of each is less than a promise.
const HOGS: usize = 6;
/// Maximum time without a promise of a core.
const BACK: Nanos = Nanos::ms(200);
/// Maximum time until agents keep a promise, from the start of their core on.
const BEGUN: Nanos = Nanos::s(20);
/// Folder of a core whose `tactus-scx` is this program.
const FOLDER: &str = "/run/tactus-canary";

/// Waits until a scheduler has ended. Returns the reason, and the time.
fn ending(canary: &Canary) -> Result<(String, Nanos)> {
    let begin = clock::now();
    loop {
        let passed = clock::now().since(begin);
        if let Some(ending) = canary.ending()? {
            return Ok((ending.text(), passed));
        }
        ensure!(passed < REMOVED, "the kernel has not removed it");
        clock::sleep(Nanos::ms(5));
    }
}

fn pass(meter: &Meter, time: Nanos) -> Result<Nanos> {
    let before = meter.read()?.ran;
    clock::sleep(time);
    Ok(meter.read()?.ran.saturating_sub(before))
}

/// The kernel removes a scheduler that forgets a thread, which runs again.
pub(crate) fn forgets(_: &Line) -> Result<()> {
    let hogs = hogs(2)?;
    let (hog, meter) = &hogs[0];
    let canary = Canary::load(Faults { victim: hog.pid().cast_signed(), never_kicks: 0 })?;
    clock::sleep(Nanos::ms(200));
    let forgotten = pass(meter, Nanos::ms(500))?;
    let (reason, after) = ending(&canary)?;
    drop(canary);
    scheduler_ends_within(Nanos::s(1)).context("the scheduler is still loaded")?;
    let then = pass(meter, Nanos::s(1))?;
    println!("  {forgotten} in 0.5 s while it was forgotten; {after} later: {reason}; then {then} in 1 s");
    ensure!(forgotten.is_zero(), "the thread was not forgotten");
    ensure!(reason.contains("stall"), "another reason: {reason}");
    ensure!(then >= Nanos::ms(200), "the thread does not run again: {then} in 1 s");
    Ok(())
}

/// Agents of a core keep its promise beside a foreign scheduler that never kicks a CPU, until the kernel removes it and afterwards.
pub(crate) fn never_kicks(line: &Line) -> Result<()> {
    if line.tactus.is_none() {
        println!("  left out: the option --tactus is needed");
        return Ok(());
    }
    let hogs = hogs(HOGS)?;
    let (hog, meter) = &hogs[0];
    let mut core = Core::by_agents(line, hog.pid(), &["--slice", "5ms", "--period", "10ms"])?;
    let end = clock::now().saturating_add(BEGUN);
    while pass(meter, Nanos::ms(200))? < Nanos::ms(95) {
        ensure!(clock::now() < end, "the agents do not keep the promise");
    }
    let canary = Canary::load(Faults { victim: 0, never_kicks: 1 })?;
    let beside = pass(meter, Nanos::ms(500))?;
    let (reason, after) = ending(&canary)?;
    drop(canary);
    let then = pass(meter, Nanos::s(1))?;
    core.end()?;
    println!("  5ms/10ms: {beside} in 0.5 s beside it; {after} later: {reason}; then {then} in 1 s");
    ensure!(beside >= Nanos::ms(245) && then >= Nanos::ms(490), "the agents have not kept the promise");
    ensure!(reason.contains("stall"), "another reason: {reason}");
    Ok(())
}

/// The scheduler of a core forgets the thread with the promise. After the kernel has removed it, the agents keep the promise.
pub(crate) fn of_core(line: &Line) -> Result<()> {
    let Some(tactus) = &line.tactus else {
        println!("  left out: the option --tactus is needed");
        return Ok(());
    };
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder)?;
    for (from, name) in [(tactus, "tactus"), (&std::env::current_exe()?, "tactus-scx")] {
        let to = folder.join(name);
        if !to.exists() {
            fs::copy(from, to)?;
        }
    }
    let line = Line { tactus: Some(folder.join("tactus")), ..line.clone() };
    let hogs = hogs(HOGS)?;
    let (hog, meter) = &hogs[0];
    let mut core = core::start(&line, hog.pid(), &["--slice", "5ms", "--period", "10ms"])?;
    let forgotten = pass(meter, Nanos::ms(500))?;
    let given_back = scheduler_ends_within(REMOVED).context("the kernel has not removed it")?;
    let back = pass(meter, Nanos::s(1))?;
    let then = pass(meter, Nanos::s(1))?;
    let report = core.end()?;
    println!(
        "  5ms/10ms: {forgotten} in 0.5 s while forgotten; removed {given_back} later; then {back} and {then} in 1 s"
    );
    ensure!(forgotten < Nanos::ms(100), "the thread was not forgotten: {forgotten}");
    let least = (Nanos::s(1).saturating_sub(BACK)).scale(1, 2);
    ensure!(back >= least, "the promise did not go on within {BACK}: {back} in 1 s");
    ensure!(then >= Nanos::ms(490), "the agents do not keep the promise: {then} in 1 s");
    ensure!(report.contains("no scheduler in the kernel") && report.contains("stall"), "no reason: {report}");
    Ok(())
}

/// A scheduler that is loaded second is refused, and the first one goes on.
pub(crate) fn second(line: &Line) -> Result<()> {
    let hogs = hogs(HOGS)?;
    let (hog, meter) = &hogs[0];
    let pid = hog.pid().to_string();
    let promise = format!("{pid}=4ms/10ms");
    for native in [&["--native"][..], &["--pid", &pid]] {
        let args = [&["--policy", "edf", "--promise", &promise], native].concat();
        let scheduler = Scheduler::start(line, &args)?;
        clock::sleep(Nanos::ms(300));
        let refused = Canary::load(Faults::default()).err().map(|error| error.to_string()).unwrap_or_default();
        let ran = pass(meter, Nanos::s(1))?;
        println!(
            "  {native:?}: the second is refused ({}), and {ran} received in 1 s",
            refused.lines().next().unwrap_or("")
        );
        ensure!(refused.contains("start the scheduler"), "{refused}");
        ensure!(is_loaded()? && ran >= Nanos::ms(380), "the first one has not gone on: {ran}");
        scheduler.end()?;
    }
    Ok(())
}

/// Takes orders as `tactus-scx --serve`, and forgets each thread that has a promise.
pub(crate) fn serve() -> ExitCode {
    let say = |report: Report| {
        let mut output = std::io::stdout().lock();
        let _ = output.write_all(orders::line(&report).as_bytes()).and_then(|()| output.flush());
    };
    match forget_promised(&say) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(Report::Ended { reason: format!("{error:#}"), begins_again: false });
            ExitCode::FAILURE
        }
    }
}

fn forget_promised(say: &dyn Fn(Report)) -> Result<()> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| to.send(line))
    });
    observe()?;
    let canary = Canary::load(Faults::default())?;
    say(Report::Ready);
    let mut done = 0;
    loop {
        match lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => {
                if let Order::Join { tid, .. } = orders::read(&line).map_err(anyhow::Error::msg)? {
                    canary.change(Faults { victim: tid.cast_signed(), never_kicks: 0 })?;
                }
                done += 1;
                say(Report::Done { orders: done });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if let Some(ending) = canary.ending()? {
            bail!("{}", ending.text());
        }
    }
}
