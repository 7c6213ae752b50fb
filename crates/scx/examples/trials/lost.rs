//! Events that find the buffer full, because the user side is stopped for a short time.

use crate::Line;
use crate::load::{Load, Probe, hogs};
use crate::scheduler::{Scheduler, is_loaded, loads, wait_for_load};
use crate::{come_and_go, scheduler};
use anyhow::{Result, ensure};
use sched::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::clock;

/// Length of the buffer. It holds the events of all threads when the bridge begins, and not those of the stop.
const BUFFER: &str = "65536";
/// Time for which the user side is stopped: the bridge dispatches by itself after 160 ms, and ends after 320 ms.
const STOP: Nanos = Nanos::ms(240);
/// Maximum time in which a thread that wakes every millisecond does not run: until the bridge dispatches by itself, and while the
/// kernel changes the class of all threads twice. Set after a look at two runs, with 0.95 and 1.25 s beside 100 threads: while a
/// scheduler begins or ends, the kernel runs all threads in turns, each for a slice of its own (kernel/sched/ext.c,
/// `scx_bypass`, v7.2).
const PAUSE_MOST: Nanos = Nanos::s(2);
/// Number of stops, and number of short-lived threads between them, 20 at a time.
const STOPS: u64 = 3;
const THREADS: u32 = 3_400;

/// Threads come and go while the user side of the bridge is stopped again and again.
pub(crate) fn by_bridge(line: &Line) -> Result<()> {
    let scheduler = Scheduler::start(line, &["--policy", "eevdf", "--buffer", BUFFER])?;
    let (load, probe) = (Load::start()?, Probe::start());
    clock::sleep(Nanos::s(1));
    let process = scheduler.process()?;
    probe.begin();
    for stop in 1..=STOPS {
        let (before, has_ended) = (loads()?, AtomicBool::new(false));
        let begun = std::thread::scope(|scope| {
            // An ordinary thread, which the policy schedules.
            let ending = scope.spawn(|| {
                come_and_go(THREADS / 20);
                has_ended.store(true, Ordering::Relaxed);
            });
            clock::sleep(Nanos::ms(20));
            process.stop()?;
            clock::sleep(STOP);
            process.cont()?;
            let begun = wait_for_load(before)?;
            ending.join().expect("it does not panic");
            anyhow::Ok(begun)
        })?;
        println!("  stop {stop}: the session began again {begun} after the stop");
        ensure!(has_ended.load(Ordering::Relaxed), "the threads have not ended");
        clock::sleep(Nanos::ms(500));
        ensure!(is_loaded()?, "the scheduler is not loaded");
    }
    let (longest, (messages, times)) = (probe.end(), load.end()?);
    let summary = scheduler.end()?;
    println!("  longest pause {longest}, {messages} messages, hogs {times:?}, {summary}");
    ensure!(summary["lost"].as_u64().is_some_and(|lost| lost > 0), "no event was lost: {summary}");
    // So small a buffer may also be full while the bridge is loaded.
    ensure!(
        summary["resyncs"].as_u64().is_some_and(|count| count >= STOPS),
        "fewer than {STOPS} new sessions: {summary}"
    );
    ensure!(longest <= PAUSE_MOST, "a thread did not run for {longest}");
    Ok(())
}

/// The port needs no user side: it goes on, and the summary counts the lost events.
pub(crate) fn by_port(line: &Line) -> Result<()> {
    // The share of each would be 0.25 s of the second.
    let hogs = hogs(8)?;
    let (hog, meter) = &hogs[0];
    let promise = format!("{}=3ms/10ms", hog.pid());
    let args = ["--policy", "edf", "--native", "--promise", &promise, "--buffer", "4096"];
    let scheduler = Scheduler::start(line, &args)?;
    clock::sleep(Nanos::ms(300));
    let (before, process) = (loads()?, scheduler.process()?);
    process.stop()?;
    let ran = meter.read()?.ran;
    come_and_go(500);
    clock::sleep(Nanos::s(1));
    let ran = meter.read()?.ran.saturating_sub(ran);
    process.cont()?;
    clock::sleep(Nanos::ms(200));
    ensure!(loads()? == before && scheduler::is_loaded()?, "the scheduler was loaded again");
    let summary = scheduler.end()?;
    println!("  {ran} received while the user side was stopped; {summary}");
    ensure!(ran >= Nanos::ms(300), "the promise was not kept: {ran}");
    ensure!(summary["lost"].as_u64().is_some_and(|lost| lost > 0), "no event was lost: {summary}");
    Ok(())
}
