//! Workloads of the victims. Each victim runs this program with the arguments `work KIND STORM`, where STORM is the pid
//! of the storm.

use crate::victims::Kind;
use anyhow::Result;
use sched::Nanos;
use std::io::Write;
use std::thread;
use sys::attributes::{self, Attributes, Policy};
use sys::child::{Child, Work};
use sys::{affinity, clock, process};

/// Works until this process is killed, or the storm ends.
pub(crate) fn work(kind: Kind, storm: u32) -> Result<()> {
    process::end_with(storm)?;
    match kind {
        Kind::Hog | Kind::Waiting => {}
        Kind::Threads => drop(thread::spawn(|| live(Nanos::ms(1), Nanos::ms(4)))),
        Kind::Children | Kind::Polite => be(Policy::Other { nice: 5 })?,
        Kind::Batch => {
            be(Policy::Batch { nice: 3 })?;
            drop(thread::spawn(|| live(Nanos::ms(1), Nanos::ms(19))));
        }
        Kind::RealTime => be(Policy::Fifo { priority: 1 })?,
        Kind::Pinned => {
            let mine = affinity::get(sys::thread::current())?;
            let last = mine.iter().last().into_iter().collect();
            affinity::set(sys::thread::current(), &last)?;
        }
        Kind::Mixed => mix()?,
    }
    ready()?;
    match kind {
        Kind::Hog => live(Nanos::ms(1), Nanos::ZERO),
        Kind::Polite | Kind::Pinned => live(Nanos::ms(2), Nanos::ms(4)),
        Kind::Threads => bear_threads(),
        Kind::Children => bear_children(),
        Kind::Batch => live(Nanos::ms(3), Nanos::ms(17)),
        Kind::RealTime | Kind::Mixed => live(Nanos::ms(1), Nanos::ms(9)),
        Kind::Waiting => live(Nanos::ZERO, Nanos::ms(50)),
    }
}

fn be(policy: Policy) -> Result<()> {
    Ok(attributes::set(sys::thread::current(), Attributes::of(policy))?)
}

/// Starts threads with different classes.
fn mix() -> Result<()> {
    let (sender, receiver) = std::sync::mpsc::channel();
    for policy in [Policy::Other { nice: 7 }, Policy::RoundRobin { priority: 2 }, Policy::Idle] {
        let sender = sender.clone();
        drop(thread::spawn(move || {
            // If the class is refused, the sender is dropped unused, and the receiver counts too few messages.
            if be(policy).is_ok() {
                let _ = sender.send(());
                drop(sender);
                live(Nanos::ms(1), Nanos::ms(19));
            }
        }));
    }
    drop(sender);
    anyhow::ensure!(receiver.iter().count() == 3, "a thread could not be scheduled as it was to be");
    Ok(())
}

/// Reports that the setup is complete.
fn ready() -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(b"ready\n")?;
    Ok(out.flush()?)
}

/// Alternates between using a CPU and sleeping.
fn live(busy: Nanos, idle: Nanos) -> ! {
    loop {
        spin(busy);
        if !idle.is_zero() {
            clock::sleep(idle);
        }
    }
}

fn spin(busy: Nanos) {
    let end = clock::now().saturating_add(busy);
    while clock::now() < end {
        std::hint::spin_loop();
    }
}

/// Starts short-lived threads.
fn bear_threads() -> ! {
    loop {
        clock::sleep(Nanos::ms(10));
        let young = [1, 2, 3].map(|length| thread::spawn(move || spin(Nanos::ms(length))));
        for thread in young {
            thread.join().expect("it does not panic");
        }
    }
}

/// Starts short-lived processes.
fn bear_children() -> ! {
    loop {
        // If there are too many processes, no child starts. This does no harm.
        let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(1) });
        clock::sleep(Nanos::ms(12));
        drop(child);
    }
}
