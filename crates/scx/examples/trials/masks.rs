//! Threads whose CPUs change under load, by their affinity and by the cpuset of their control group.

use crate::Line;
use crate::load::{Load, hogs};
use crate::scheduler::Scheduler;
use anyhow::{Context, Result, ensure};
use sched::{CpuId, CpuSet, Nanos};
use std::fs;
use std::path::Path;
use sys::{affinity, clock, thread};

/// The root of the control groups, and a group of this trial.
const ROOT: &str = "/sys/fs/cgroup";
const GROUP: &str = "/sys/fs/cgroup/tactus-masks";
/// Number of changes.
const CHANGES: usize = 200;

pub(crate) fn of_threads(line: &Line) -> Result<()> {
    let scheduler = Scheduler::start(line, &["--policy", "cfs"])?;
    let load = Load::start()?;
    ensure_masks(CHANGES)?;
    load.end()?;
    scheduler.end()?;
    Ok(())
}

/// The same by the cpuset, under the bridge and under the port of `edf`. Also a thread with a promise follows.
pub(crate) fn of_groups(line: &Line) -> Result<()> {
    let group = Group::create()?;
    for policy in [&["--policy", "cfs"][..], &["--policy", "edf", "--native"]] {
        // The share of each would be less than the promise.
        let hogs = hogs(8)?;
        let pid = hogs[0].0.pid();
        fs::write(Path::new(GROUP).join("cgroup.procs"), pid.to_string()).context("cannot move the hog")?;
        let promise = format!("{pid}=3ms/10ms");
        let is_native = policy.contains(&"--native");
        let args: Vec<&str> =
            policy.iter().copied().chain(is_native.then_some(["--promise", &promise]).into_iter().flatten()).collect();
        let scheduler = Scheduler::start(line, &args)?;
        let load = Load::start()?;
        ensure_followed(pid, CHANGES, |cpu| group.set(&cpu.to_string()))?;
        load.end()?;
        // On the CPU of its promise, the thread has it again.
        group.set("0-1")?;
        clock::sleep(Nanos::ms(100));
        let before = hogs[0].1.read()?.ran;
        clock::sleep(Nanos::s(1));
        let ran = hogs[0].1.read()?.ran.saturating_sub(before);
        println!("  {policy:?}: {CHANGES} changes, then {ran} in 1 s");
        scheduler.end()?;
        ensure!(!is_native || ran >= Nanos::ms(290), "the promise is not kept after the changes: {ran}");
    }
    Ok(())
}

/// A control group, which is removed when the value is dropped.
struct Group;

impl Group {
    fn create() -> Result<Group> {
        fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+cpuset").context("this kernel has no cpusets")?;
        fs::create_dir(GROUP).with_context(|| format!("cannot create {GROUP}"))?;
        Ok(Group)
    }

    fn set(&self, cpus: &str) -> Result<()> {
        fs::write(Path::new(GROUP).join("cpuset.cpus"), cpus).context("cannot set the cpuset")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = fs::remove_dir(GROUP);
    }
}

/// Changes the mask of a hog again and again, and checks the CPU on which it runs.
pub(crate) fn ensure_masks(rounds: usize) -> Result<()> {
    let hog = &hogs(1)?[0].0;
    ensure_followed(hog.pid(), rounds, |cpu| Ok(affinity::set(hog.pid(), &CpuSet::one(cpu))?))
}

/// Moves a hog from CPU to CPU again and again, and checks the CPU on which it runs.
fn ensure_followed(pid: u32, rounds: usize, set: impl Fn(CpuId) -> Result<()>) -> Result<()> {
    let cpus = sys::cpus::online()?.len();
    for round in 0..rounds {
        let cpu = CpuId::new(round % cpus);
        set(cpu)?;
        clock::sleep(Nanos::ms(5));
        let status = thread::status(pid)?;
        ensure!(status.cpu == cpu.index(), "round {round}: it is on CPU {}, and may only use {cpu}", status.cpu);
    }
    Ok(())
}
