//! CPUs that go offline and online while a scheduler keeps promises.

use crate::Line;
use crate::core;
use crate::load::hogs;
use crate::scheduler::{Scheduler, is_loaded, loads, wait_for_load};
use anyhow::{Context, Result, ensure};
use sched::{CpuId, CpuSet, Nanos};
use std::fs;
use sys::child::Child;
use sys::usage::Meter;
use sys::{affinity, clock};

/// The CPU that goes offline.
const CPU: usize = 1;
const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";
/// Maximum time without a promise of a core: until the agents dispatch.
const BACK: Nanos = Nanos::ms(200);

/// The state of the CPU, which is online again after the value is dropped.
struct Switch;

impl Switch {
    fn set(&self, is_online: bool) -> Result<()> {
        fs::write(SWITCH, if is_online { "1" } else { "0" }).with_context(|| format!("cannot write {SWITCH}"))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It is usually online.
        let _ = self.set(true);
    }
}

/// Returns the CPU time of each hog in `time`. Unit: ms.
fn pass(hogs: &[(Child, Meter)], time: Nanos) -> Result<Vec<u64>> {
    let read = || hogs.iter().map(|(_, meter)| Ok(meter.read()?.ran.as_ns() / 1_000_000)).collect::<Result<Vec<u64>>>();
    let before = read()?;
    clock::sleep(time);
    Ok(read()?.iter().zip(before).map(|(after, before)| after - before).collect())
}

fn has_one_cpu() -> Result<bool> {
    let has_one = sys::cpus::online()?.len() < 2;
    if has_one {
        println!("  left out: this machine has one CPU");
    }
    Ok(has_one)
}

pub(crate) fn bridge(line: &Line) -> Result<()> {
    of_session(line, false)
}

pub(crate) fn port(line: &Line) -> Result<()> {
    of_session(line, true)
}

/// Three promises fit on two CPUs, one of them to a thread that may only use the CPU that goes. Two fit on one CPU.
fn of_session(line: &Line, is_native: bool) -> Result<()> {
    if has_one_cpu()? {
        return Ok(());
    }
    let hogs = hogs(5)?;
    affinity::set(hogs[0].0.pid(), &CpuSet::one(CpuId::new(CPU)))?;
    let slices = [3, 5, 4];
    let mut args: Vec<String> = ["--policy", "edf"].map(String::from).to_vec();
    args.extend(is_native.then(|| "--native".to_string()));
    for (slice, (hog, _)) in slices.iter().zip(&hogs) {
        let pid = hog.pid();
        args.extend(["--promise".to_string(), format!("{pid}={slice}ms/10ms")]);
        if !is_native {
            args.extend(["--pid".to_string(), pid.to_string()]);
        }
    }
    let scheduler = Scheduler::start(line, &args.iter().map(String::as_str).collect::<Vec<_>>())?;
    let switch = Switch;
    let kept = |ran: &[u64], count: usize| (0..count).all(|at| ran[at] >= slices[at] * 90);
    clock::sleep(Nanos::ms(300));
    let both = pass(&hogs, Nanos::s(1))?;
    let before = loads()?;
    switch.set(false)?;
    let offline = wait_for_load(before)?;
    clock::sleep(Nanos::ms(300));
    let one = pass(&hogs, Nanos::s(1))?;
    let before = loads()?;
    switch.set(true)?;
    let online = wait_for_load(before)?;
    clock::sleep(Nanos::ms(300));
    let again = pass(&hogs, Nanos::s(1))?;
    let (summary, errors) = scheduler.end_with_errors()?;
    println!("  CPU times in 1 s: {both:?} ms with two CPUs, {one:?} with one, {again:?} with two again");
    println!("  loaded again after {offline} and {online}; {summary}");
    ensure!(kept(&both, 3), "the promises are not kept: {both:?}");
    ensure!(kept(&one, 2), "the promises that fit on one CPU are not kept: {one:?}");
    ensure!(kept(&again, 3), "the promises are not kept with two CPUs again: {again:?}");
    ensure!(one[2] < 300 && errors.contains(&format!("refused: thread {}:", hogs[2].0.pid())), "{one:?}: {errors}");
    ensure!(summary["cpu_changes"] == 2, "the session has not begun again twice: {summary}");
    Ok(())
}

/// The port of `bmq`, which has no promises.
pub(crate) fn bmq(line: &Line) -> Result<()> {
    if has_one_cpu()? {
        return Ok(());
    }
    let (hogs, switch) = (hogs(3)?, Switch);
    let scheduler = Scheduler::start(line, &["--policy", "bmq", "--native"])?;
    for is_online in [false, true] {
        let before = loads()?;
        switch.set(is_online)?;
        wait_for_load(before)?;
        let ran = pass(&hogs, Nanos::s(1))?;
        println!("  CPU times in 1 s: {ran:?} ms");
        ensure!(ran.iter().all(|time| *time > 0), "a hog does not run: {ran:?}");
    }
    let summary = scheduler.end()?;
    ensure!(summary["cpu_changes"] == 2, "the session has not begun again twice: {summary}");
    Ok(())
}

/// The agents of a core keep the promise from the removal of the scheduler until it is loaded again.
pub(crate) fn core(line: &Line) -> Result<()> {
    if line.tactus.is_none() || has_one_cpu()? {
        println!("  left out: two CPUs and the option --tactus are needed");
        return Ok(());
    }
    let (hogs, switch) = (hogs(3)?, Switch);
    affinity::set(hogs[0].0.pid(), &CpuSet::one(CpuId::new(CPU)))?;
    let mut core = core::start(line, hogs[0].0.pid(), &["--slice", "5ms", "--period", "10ms"])?;
    for is_online in [false, true] {
        let before = loads()?;
        switch.set(is_online)?;
        let ran = pass(&hogs, Nanos::s(1))?[0];
        let least = Nanos::s(1).saturating_sub(BACK).as_ns() / 2_000_000;
        let loaded = wait_for_load(before)?;
        clock::sleep(Nanos::ms(500));
        let by_kernel = pass(&hogs, Nanos::s(1))?[0];
        let ops = fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
        println!(
            "  5ms/10ms, CPU {CPU} {}: {ran} ms in the first second; loaded again {loaded} later; then {by_kernel} ms in 1 s",
            if is_online { "online" } else { "offline" }
        );
        ensure!(ran >= least, "the promise did not go on within {BACK}: {ran} ms in 1 s");
        ensure!(is_loaded()? && ops.trim() == "tactus_edf", "the core's scheduler is not loaded, but {ops:?}");
        ensure!(by_kernel >= 490, "the kernel does not keep the promise: {by_kernel} ms in 1 s");
    }
    let report = core.end()?;
    ensure!(report.contains("the kernel has removed the scheduler of the promises"), "no warning: {report}");
    Ok(())
}
