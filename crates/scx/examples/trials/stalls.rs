//! [`Stalls`]: threads that notice when a CPU serves no timer interrupts although threads are ready there. On such a CPU, an agent misses its
//! heartbeats, and no part of Tactus is the reason.

use anyhow::{Context, Result};
use sched::{CpuId, CpuSet, Instant, Nanos};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use sys::attributes::{self, Attributes};
use sys::thread::{self, State};
use sys::{affinity, clock};

/// Interval between two looks at the interrupts.
const INTERVAL: Nanos = Nanos::ms(10);
/// Time without a timer interrupt after which the threads of a CPU are looked for, and the interval between two such looks.
const STALLED: Nanos = Nanos::ms(60);
/// Priority of the observers, above that of agents and of schedulers.
const PRIORITY: u32 = 99;

/// An observer on each CPU, of all others. They end with the value.
pub(crate) struct Stalls {
    stop: Arc<AtomicBool>,
    found: Arc<Mutex<Vec<String>>>,
    observers: Vec<JoinHandle<()>>,
}

impl Stalls {
    pub(crate) fn watch() -> Result<Stalls> {
        let (stop, found) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut observers = Vec::new();
        for cpu in sys::cpus::online()?.iter() {
            let (stop, found) = (Arc::clone(&stop), Arc::clone(&found));
            let observe = move || {
                let me = thread::current();
                let prepared = attributes::set(me, Attributes::raised(PRIORITY));
                match prepared.and_then(|()| affinity::set(me, &CpuSet::one(cpu))) {
                    Ok(()) => observe_from(cpu, &stop, &found),
                    Err(error) => note(&found, format!("the interrupts are not observed from CPU {cpu}: {error}")),
                }
            };
            observers.push(std::thread::Builder::new().name("trials-stalls".to_string()).spawn(observe)?);
        }
        Ok(Stalls { stop, found, observers })
    }

    /// Returns what was noticed.
    pub(crate) fn text(&self) -> String {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_empty() { "no CPU has stood still".to_string() } else { found.join("; ") }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for observer in self.observers.drain(..) {
            observer.join().expect("an observer does not panic");
        }
    }
}

fn note(found: &Mutex<Vec<String>>, what: String) {
    found.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

/// Observes the CPUs other than `own` until `stop` is set.
fn observe_from(own: CpuId, stop: &AtomicBool, found: &Mutex<Vec<String>>) {
    let mut counts: Vec<(u64, Instant)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        clock::sleep(INTERVAL);
        let (now, Ok(present)) = (clock::now(), timer_interrupts()) else { continue };
        counts.resize(present.len(), (0, now));
        for (nth, (count, (before, since))) in present.into_iter().zip(&mut counts).enumerate() {
            if count != *before || nth == own.index() {
                (*before, *since) = (count, now);
            } else if now.since(*since) >= STALLED {
                let stalled = now.since(*since);
                // The next look at its threads.
                *since = now;
                let ready = ready_on(nth);
                if !ready.is_empty() {
                    let silent = format!("at {now}, CPU {nth} had served no timer interrupt for {stalled}");
                    note(found, format!("{silent}; ready there: {ready}"));
                }
            }
        }
    }
}

/// Returns the number of timer interrupts of each online CPU.
fn timer_interrupts() -> Result<Vec<u64>> {
    let text = fs::read_to_string("/proc/interrupts")?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("LOC:")).context("no line LOC")?;
    Ok(line.split_whitespace().map_while(|word| word.parse().ok()).collect())
}

/// Returns the names of the threads that are ready on a CPU.
fn ready_on(cpu: usize) -> String {
    let all = thread::all().unwrap_or_default().into_iter().filter_map(|tid| thread::status(tid).ok());
    let ready = all.filter(|status| status.state == State::Runnable && status.cpu == cpu);
    ready.map(|status| status.name).collect::<Vec<String>>().join(", ")
}
