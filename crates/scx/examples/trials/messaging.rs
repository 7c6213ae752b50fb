//! Groups of threads that send messages to each other, as in `perf bench sched messaging` and hackbench: every sender of a group
//! sends to every receiver.

use anyhow::{Context, Result};
use sched::Nanos;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use sys::clock;

/// Number of senders of a group, and of receivers, and the length of a message in bytes. Source: hackbench(8).
const EACH: usize = 20;
const MESSAGE: usize = 100;

/// Running groups.
pub(crate) struct Messaging {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Messaging {
    /// Starts groups whose senders send `rounds` messages to each receiver.
    pub(crate) fn start(groups: usize, rounds: u32) -> Result<Messaging> {
        let (stop, mut threads) = (Arc::new(AtomicBool::new(false)), Vec::new());
        for _ in 0..groups {
            let mut inlets = Vec::new();
            for _ in 0..EACH {
                let (inlet, mut outlet) = UnixStream::pair().context("cannot connect two threads")?;
                inlets.push(inlet);
                // The receiver ends when all senders have ended.
                threads.push(std::thread::spawn(move || {
                    let mut message = [0; MESSAGE];
                    while outlet.read_exact(&mut message).is_ok() {}
                }));
            }
            for _ in 0..EACH {
                let to = inlets.iter().map(UnixStream::try_clone).collect::<std::io::Result<Vec<_>>>();
                let (mut to, stopped) = (to.context("too many open files")?, Arc::clone(&stop));
                threads.push(std::thread::spawn(move || {
                    let is_over = |round: &u32| *round >= rounds || stopped.load(Ordering::Relaxed);
                    for _ in (0..).take_while(|round| !is_over(round)) {
                        for inlet in &mut to {
                            // A receiver ends after its senders.
                            inlet.write_all(&[0; MESSAGE]).expect("the receiver reads");
                        }
                    }
                }));
            }
        }
        Ok(Messaging { stop, threads })
    }

    /// Ends the groups before they have sent all messages.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wait();
    }

    /// Waits until all messages have arrived.
    pub(crate) fn wait(self) {
        self.threads.into_iter().for_each(|thread| thread.join().expect("a thread of a group does not panic"));
    }
}

/// Returns how long groups take for their messages.
pub(crate) fn messaging_time(groups: usize, rounds: u32) -> Result<Nanos> {
    let begin = clock::now();
    Messaging::start(groups, rounds)?.wait();
    Ok(clock::now().since(begin))
}

/// Returns the mean time of a round trip of a byte between two threads, each of which sleeps while the other runs.
pub(crate) fn round_trip(count: u32) -> Result<Nanos> {
    let (mut one, mut other) = UnixStream::pair().context("cannot connect two threads")?;
    let answers = std::thread::spawn(move || {
        let mut byte = [0];
        while other.read_exact(&mut byte).is_ok() && other.write_all(&byte).is_ok() {}
    });
    let asks = std::thread::spawn(move || {
        let (mut byte, begin) = ([0], clock::now());
        for _ in 0..count {
            one.write_all(&byte)?;
            one.read_exact(&mut byte)?;
        }
        std::io::Result::Ok(clock::now().since(begin))
    });
    let time = asks.join().expect("the thread does not panic").context("the other thread has ended")?;
    answers.join().expect("the thread does not panic");
    Ok(Nanos::ns(time.as_ns() / u64::from(count)))
}
