//! [`Witness`]: records when a thread is on a CPU, from the kernel's record of context switches. The record does not
//! depend on what schedules the thread.

use crate::Explanation;
use crate::kernel::priority;
use measure::Supply;
use sched::{Instant, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use sys::attributes::{self, Attributes};
use sys::switches::{Record, Switches, Turn, Wake};
use sys::{clock, thread};

/// Interval between reads of the record. The buffer has room for some thousand switches.
const READ: Nanos = Nanos::ms(2);

/// A witness of one thread. Dropping this value ends the record.
#[derive(Debug)]
pub struct Witness {
    over: Arc<AtomicBool>,
    recorder: Option<JoinHandle<Result<Supply, Explanation>>>,
}

impl Witness {
    /// Begins to record the switches of thread `tid`.
    ///
    /// # Errors
    /// The kernel does not record switches for this user, or the thread has ended.
    pub fn of(tid: u32) -> Result<Witness, Explanation> {
        let switches = Switches::of_thread(tid, Wake::Seldom)?;
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let recorder = Builder::new().name("tactus-witness".to_string()).spawn(move || {
            // Above ordinary threads, so that the buffer is read in time; below all threads with a promise.
            let _ = attributes::apply(thread::current(), Attributes::raised(priority::LEAST));
            record(switches, &until)
        });
        let recorder = recorder.map_err(|error| Explanation::new(format!("cannot start a witness: {error}"), ""))?;
        Ok(Witness { over, recorder: Some(recorder) })
    }

    /// Ends the record. The last interval is recorded only if the thread has left its CPU.
    ///
    /// # Errors
    /// The kernel has lost records.
    ///
    /// # Panics
    /// Never panics, because a witness ends once.
    pub fn end(mut self) -> Result<Supply, Explanation> {
        self.over.store(true, Ordering::Relaxed);
        let recorder = self.recorder.take().expect("a witness ends once");
        recorder.join().unwrap_or_else(|_| Err(Explanation::new("the recorder of a thread has failed", "report this")))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.recorder.take().map(JoinHandle::join);
    }
}

/// Records the intervals in which the thread is on a CPU, until `over` is set.
fn record(mut switches: Switches, over: &AtomicBool) -> Result<Supply, Explanation> {
    let (mut supply, mut since, mut last) = (Supply::default(), None, Instant::ZERO);
    loop {
        let is_last = over.load(Ordering::Relaxed);
        while let Some(record) = switches.next_record() {
            match record {
                Record::Lost(count) => {
                    let reason = format!("the record of a thread lacks {count} context switches");
                    return Err(Explanation::new(reason, "measure again on a host with less load"));
                }
                Record::Switch(switch) => {
                    // The clocks of two CPUs differ by some nanoseconds.
                    last = last.max(switch.at);
                    match switch.turn {
                        Turn::In => since = Some(last),
                        _ => since.take().into_iter().for_each(|since| supply.add(since, last)),
                    }
                }
            }
        }
        if is_last {
            return Ok(supply);
        }
        clock::sleep(READ);
    }
}
