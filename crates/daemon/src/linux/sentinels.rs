//! The sentinels: one thread on each CPU. A sentinel runs when no raised thread wants its CPU, and wakes the agent of
//! the CPU.

use crate::kernel::priority;
use sched::{CpuId, CpuSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Gate};
use sys::{Error, Result, affinity, thread};

/// State that a sentinel shares with its [`Sentinels`].
#[derive(Debug)]
struct Post {
    gate: Gate,
    cpu: CpuId,
    wanted: AtomicBool,
    dismissed: AtomicBool,
    bell: Arc<Bell>,
}

impl Post {
    /// Runs a sentinel. When the sentinel has passed the gate, the sentinel has the CPU, so no thread of higher
    /// priority wants the CPU.
    fn keep(&self) {
        loop {
            self.gate.pass();
            if self.dismissed.load(Ordering::SeqCst) {
                return;
            }
            // While the CPU is offline, the sentinel runs elsewhere, and knows nothing about the CPU.
            if affinity::keep_to(self.cpu) && self.wanted.swap(false, Ordering::SeqCst) {
                self.bell.ring();
            }
        }
    }
}

/// The sentinels of a host, one per CPU with an agent. Dropping this value ends the sentinels. A sentinel must run once
/// more before it can end, so restore all raised threads first.
#[derive(Debug)]
pub struct Sentinels {
    /// Posts of the sentinels, indexed by CPU.
    posts: Vec<Option<Arc<Post>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Sentinels {
    /// Starts one sentinel on each CPU in `agents`. Each sentinel rings the bell of the agent on its CPU.
    ///
    /// # Errors
    /// There are too many threads, or this process lacks the privilege for real-time priorities.
    pub fn start(agents: impl IntoIterator<Item = (CpuId, Arc<Bell>)>) -> Result<Sentinels> {
        let mut sentinels = Sentinels { posts: Vec::new(), threads: Vec::new() };
        for (cpu, bell) in agents {
            let post = Post { gate: Gate::new(), cpu, wanted: false.into(), dismissed: false.into(), bell };
            let post = Arc::new(post);
            let length = sentinels.posts.len().max(cpu.index() + 1);
            sentinels.posts.resize(length, None);
            sentinels.posts[cpu.index()] = Some(Arc::clone(&post));
            let (say, heard) = mpsc::channel();
            let body = move || {
                let is_ready = enter(cpu);
                let is_fine = is_ready.is_ok();
                // The starting thread waits for this message.
                let _ = say.send(is_ready);
                if is_fine {
                    post.keep();
                }
            };
            let begun = Builder::new().name(format!("tactus-quiet-{cpu}")).spawn(body);
            let begun =
                begun.map_err(|source| Error::Call { what: format!("begin the sentinel of CPU {cpu}"), source })?;
            sentinels.threads.push(begun);
            heard.recv().expect("a sentinel says how it begins")?;
        }
        Ok(sentinels)
    }

    /// Starts or stops waiting until no raised thread wants `cpu`. The sentinel then rings the bell of the agent of
    /// `cpu` once. Makes no system call if the gate of the sentinel is already open.
    pub fn await_quiet(&self, cpu: CpuId, wanted: bool) {
        if let Some(Some(post)) = self.posts.get(cpu.index()) {
            post.wanted.store(wanted, Ordering::SeqCst);
            if wanted {
                post.gate.open();
            }
        }
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for post in self.posts.iter().flatten() {
            post.dismissed.store(true, Ordering::SeqCst);
            post.gate.open();
        }
        for thread in self.threads.drain(..) {
            // The body of a sentinel never panics.
            let _ = thread.join();
        }
    }
}

/// Confines the calling thread to `cpu`, at the priority of the sentinels.
fn enter(cpu: CpuId) -> Result<()> {
    let me = thread::current();
    // First the priority: an ordinary thread may wait long for a busy CPU.
    attributes::set(me, Attributes::raised(priority::SENTINEL))?;
    affinity::set(me, &CpuSet::one(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Nanos;
    use sys::clock;

    /// Keeps `cpu` busy with a thread of priority `of` for `length`, and returns the result of `meanwhile`.
    fn while_busy<T>(cpu: CpuId, of: u32, length: Nanos, meanwhile: impl FnOnce() -> T) -> T {
        let (say, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                affinity::set(thread::current(), &CpuSet::one(cpu)).unwrap();
                attributes::set(thread::current(), Attributes::raised(of)).unwrap();
                let end = clock::now() + length;
                say.send(()).unwrap();
                while clock::now() < end {
                    std::hint::spin_loop();
                }
            });
            begun.recv().unwrap();
            meanwhile()
        })
    }

    fn rung_within(bell: &Bell, limit: Nanos) -> u64 {
        let end = clock::now() + limit;
        loop {
            let rings = bell.rings();
            if rings > 0 || clock::now() >= end {
                return rings;
            }
            clock::sleep(Nanos::us(200));
        }
    }

    #[test]
    fn the_bell_is_rung_once_when_no_raised_thread_wants_the_cpu() {
        let cpus = affinity::get(thread::current()).unwrap();
        // The test runs on the first CPU, because the busy thread occupies the CPU of the sentinel.
        let Some(cpu) = cpus.iter().nth(1) else { return eprintln!("SKIPPED: there is one CPU only") };
        let bell = Arc::new(Bell::new().unwrap());
        let sentinels = match Sentinels::start([(cpu, Arc::clone(&bell))]) {
            Ok(sentinels) => sentinels,
            Err(refused @ Error::NotPermitted { .. }) => return eprintln!("SKIPPED: {refused}"),
            Err(other) => panic!("{other}"),
        };
        let of_this_thread = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    affinity::set(thread::current(), &CpuSet::one(cpus.first().unwrap())).unwrap();
                    for _ in 0..3 {
                        sentinels.await_quiet(cpu, true);
                        sentinels.await_quiet(cpu, true);
                        assert_eq!(rung_within(&bell, Nanos::s(1)), 1, "it is quiet already");
                    }
                    let rings = while_busy(cpu, priority::RAISED, Nanos::ms(30), || {
                        sentinels.await_quiet(cpu, true);
                        rung_within(&bell, Nanos::ms(15))
                    });
                    assert_eq!(rings, 0, "a raised thread wants the CPU");
                    assert_eq!(rung_within(&bell, Nanos::s(1)), 1);
                    while_busy(cpu, priority::RAISED, Nanos::ms(20), || {
                        sentinels.await_quiet(cpu, true);
                        sentinels.await_quiet(cpu, false);
                    });
                    assert_eq!(rung_within(&bell, Nanos::ms(20)), 0, "it was called off");
                    sentinels.await_quiet(CpuId::new(sched::id::CPUS_MAX - 1), true);
                })
                .join()
        });
        assert!(of_this_thread.is_ok());
    }
}
