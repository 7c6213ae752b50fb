//! Measures the cost of the system calls on the path between a timer and a dispatch, on this machine: `cargo run -p sys
//! --example costs`.
//!
//! A child is almost always busy, first on the CPU of the measuring thread, then on another CPU. Except for the calls
//! of the freezer, the measuring thread has a higher priority than the child. A measurement for which a privilege is
//! missing is skipped.

use sched::{CpuSet, Nanos};
use sys::attributes::{self, Attributes};
use sys::cgroup::Hierarchy;
use sys::child::{Child, Work};
use sys::freezer::{self, State};
use sys::usage::{Meter, StateMeter};
use sys::{Result, affinity, clock, thread};

/// Prints the median and the 99th percentile of the duration of `call`.
fn time(name: &str, times: usize, mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let begin = clock::now();
        call()?;
        took.push(clock::now().saturating_since(begin));
        clock::sleep(Nanos::us(200));
    }
    took.sort_unstable();
    let at = |percent: usize| took[(times - 1) * percent / 100].to_string();
    println!("  {name:<40} p50 {:>10}  p99 {:>10}", at(50), at(99));
    Ok(())
}

fn measure(child: &Child) -> Result<()> {
    let me = thread::current();
    let (meter, state) = (Meter::open(child.pid())?, StateMeter::open(child.pid())?);
    let (mine, before) = (attributes::get(me)?, attributes::get(child.pid())?);
    if let Err(refused) = attributes::set(me, Attributes::raised(98)) {
        println!("  SKIPPED: {refused}");
    }
    time("nothing", 500, || Ok(()))?;
    time("CPU time, by schedstat", 500, || meter.read().map(drop))?;
    time("state, by stat", 500, || state.read().map(drop))?;
    let raised = Attributes::raised(97);
    if attributes::apply(child.pid(), raised).is_ok() {
        let lowered = Attributes { reset_on_fork: true, ..before };
        let mut up = true;
        time("sched_setattr between 97 and SCHED_OTHER", 500, || {
            up = !up;
            attributes::apply(child.pid(), if up { raised } else { lowered })
        })?;
        attributes::apply(child.pid(), before)?;
    }
    attributes::set(me, mine)?;
    for hierarchy in [Hierarchy::one_or_mount("freezer"), Hierarchy::two()] {
        if let Err(error) = hierarchy.and_then(|hierarchy| freeze(&hierarchy, child)) {
            println!("  SKIPPED: {error}");
        }
    }
    Ok(())
}

fn freeze(hierarchy: &Hierarchy, child: &Child) -> Result<()> {
    let home = hierarchy.group_of(child.pid())?;
    let group = home.create(&format!("tactus-costs-{}", std::process::id()))?;
    group.add_process(child.pid())?;
    time(&format!("until frozen, version {:?}", group.version()), 50, || {
        freezer::freeze(&group)?;
        freezer::wait(&group, State::Frozen, Nanos::s(5))?;
        freezer::thaw(&group)
    })?;
    group.remove()
}

fn main() -> Result<()> {
    let cpus: Vec<_> = affinity::get(thread::current())?.iter().take(2).collect();
    for (nth, &cpu) in cpus.iter().enumerate() {
        println!("{}", if nth == 0 { "on the same CPU:" } else { "on another CPU:" });
        affinity::set(thread::current(), &CpuSet::one(cpus[0]))?;
        let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::us(100) })?;
        affinity::set(child.pid(), &CpuSet::one(cpu))?;
        measure(&child)?;
    }
    Ok(())
}
