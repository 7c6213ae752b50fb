//! The reference: SCHED_DEADLINE, on a CPU of the kernel's choice, beside two hogs per CPU.

use crate::received::Received;
use crate::watched::{RECORDER, Tally, judge_any_phase, record, watch};
use crate::{Promise, hogs};
use sched::{CpuSet, Nanos};
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes, Policy};
use sys::child::{Child, Work};
use sys::{affinity, clock, thread};

/// Returns the missed periods, and the CPU time per period that neither the process nor the hogs received. Unit: ns.
pub(crate) fn measure(promise: Promise, length: Nanos) -> Result<(Tally, f64), String> {
    let said = |error: sys::Error| error.to_string();
    // SCHED_DEADLINE refuses pinned threads, so the process may run on any CPU. Two hogs therefore run on every CPU.
    let cpus = affinity::get(thread::current()).map_err(said)?;
    let mut others = Vec::new();
    for cpu in cpus.iter() {
        for hog in hogs() {
            affinity::set(hog.pid(), &CpuSet::one(cpu)).map_err(said)?;
            others.push(hog);
        }
    }
    let child = Child::start(Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO }).map_err(said)?;
    let received = Received::by(others.iter().chain([&child]))?;
    let switches = watch(child.pid()).map_err(said)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            let _ = attributes::apply(thread::current(), Attributes::raised(RECORDER));
            record(switches, &over)
        });
        let Promise { period, slice } = promise;
        let policy = Policy::Deadline { runtime: slice, deadline: period, period, reclaim: false, overrun: false };
        let (begun, had) = (clock::now(), received.read()?);
        let answer = attributes::set(child.pid(), Attributes::of(policy)).map_err(said);
        if answer.is_ok() {
            clock::sleep(length);
        }
        let (end, has) = (clock::now(), received.read()?);
        drop(child);
        // The kernel keeps the bandwidth of a thread that has ended until its zero-lag time (task_non_contending,
        // kernel/sched/deadline.c, v6.18), at most a period, and refuses the next thread meanwhile.
        clock::sleep(period.max(Nanos::ms(5)));
        over.store(true, Ordering::Relaxed);
        let stretches = recorder.join().expect("a recorder does not panic")?;
        answer?;
        // The kernel does not report the phase of its periods.
        let tally = judge_any_phase(&stretches, promise, begun, end);
        let all = end.since(begun).as_ns() as f64 * cpus.len() as f64;
        let periods = end.since(begun).as_ns() as f64 / period.as_ns() as f64;
        Ok((tally, (all - (has - had).as_ns() as f64) / periods))
    })
}
