//! Load for a scheduler under trial: messages between threads, hogs, and a thread that wakes every millisecond.

use anyhow::{Context, Result};
use sched::{Instant, Nanos};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use sys::child::{Child, Work};
use sys::clock;
use sys::usage::Meter;

/// Number of pairs of threads that send messages to each other.
const PAIRS: usize = 4;
pub(crate) const HOG: Work = Work::Spin { busy: Nanos::ms(10), idle: Nanos::ZERO };

/// Pairs of threads that send messages to each other, beside two hogs. They end with the value.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    messages: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    hogs: Vec<(Child, Meter)>,
}

impl Load {
    pub(crate) fn start() -> Result<Load> {
        let (stop, messages) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for _ in 0..PAIRS {
            let (mut one, mut other) = UnixStream::pair().context("cannot connect two threads")?;
            let (stopped, count) = (Arc::clone(&stop), Arc::clone(&messages));
            threads.push(std::thread::spawn(move || {
                let mut byte = [0];
                while !stopped.load(Ordering::Relaxed)
                    && one.write_all(&byte).is_ok()
                    && one.read_exact(&mut byte).is_ok()
                {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }));
            threads.push(std::thread::spawn(move || {
                let mut byte = [0];
                while other.read_exact(&mut byte).is_ok() && other.write_all(&byte).is_ok() {}
            }));
        }
        let hogs = hogs(2)?;
        Ok(Load { stop, messages, threads, hogs })
    }

    /// Ends the load. Returns the number of messages and the CPU time of the hogs.
    pub(crate) fn end(mut self) -> Result<(u64, Vec<Nanos>)> {
        let times = self.hogs.iter().map(|(_, meter)| Ok(meter.read()?.ran)).collect::<Result<Vec<_>>>();
        self.stop();
        Ok((self.messages.load(Ordering::Relaxed), times?))
    }

    fn stop(&mut self) {
        self.hogs.clear();
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a thread of the load does not panic");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts hogs, with meters of their CPU time.
pub(crate) fn hogs(count: usize) -> Result<Vec<(Child, Meter)>> {
    let start = |_| {
        let hog = Child::start(HOG)?;
        let meter = Meter::open(hog.pid())?;
        Ok((hog, meter))
    };
    (0..count).map(start).collect()
}

/// A thread that wakes every millisecond, and the longest time between two of its wake-ups.
pub(crate) struct Probe {
    stop: Arc<AtomicBool>,
    /// The time before this instant does not count. Unit: ns.
    from: Arc<AtomicU64>,
    thread: JoinHandle<Nanos>,
}

impl Probe {
    pub(crate) fn start() -> Probe {
        let stop = Arc::new(AtomicBool::new(false));
        let from = Arc::new(AtomicU64::new(u64::MAX));
        let (stopped, begin) = (Arc::clone(&stop), Arc::clone(&from));
        let thread = std::thread::spawn(move || {
            let (mut last, mut longest) = (clock::now(), Nanos::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                clock::sleep(Nanos::ms(1));
                let (now, from) = (clock::now(), Instant::at_ns(begin.load(Ordering::Relaxed)));
                longest = longest.max(now.saturating_since(last.max(from)));
                last = now;
            }
            longest
        });
        Probe { stop, from, thread }
    }

    /// Counts from now on: before, the policy may let the thread wait.
    pub(crate) fn begin(&self) {
        self.from.store(clock::now().as_ns(), Ordering::Relaxed);
    }

    /// Ends the thread. Returns the longest time between two wake-ups.
    pub(crate) fn end(self) -> Nanos {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread does not panic")
    }
}
