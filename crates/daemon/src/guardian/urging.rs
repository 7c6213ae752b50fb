//! Urging: for a short time, the waiting threads of the daemon run at the priority of the agents.
//!
//! The agents share memory with threads of a lower priority: the command thread, the keeper, and donors that start or
//! end. An agent therefore waits for the locks of these threads: the lock of the allocator, and the kernel's lock of the
//! address space (`mmap_lock`). Neither knows priority inheritance. If a client has preempted the holder, the agent
//! waits for the client, and the client runs on, because the agent does not take its turn.

use super::name::{AGENT_PREFIX, KEEPER};
use crate::kernel::priority;
use crate::table::{Beating, Table};
use sched::{CpuSet, Nanos};
use sys::attributes::{self, Attributes, Policy};
use sys::clock;
use sys::process::Process;
use sys::thread::{self, Identity, State, Thread};

/// Maximum time for which the threads are urged. It is less than the interval between two beats of the guardian.
const TIME_MOST: Nanos = Nanos::ms(40);
/// Interval between checks whether the agents have beaten.
const LOOK: Nanos = Nanos::us(500);
/// Attributes of an urged thread. They include reset-on-fork, by which they differ from those of a thread that works at
/// the priority of the agents.
const URGED: Attributes = Attributes::raised(priority::AGENT);

/// Usual attributes of the keeper.
const KEEPER_USUAL: Attributes = Attributes::raised(priority::SENTINEL);

/// The threads that are urged, each with its attributes before.
#[derive(Default, Debug)]
pub(super) struct Urging {
    threads: Vec<(Thread, Attributes)>,
}

impl Urging {
    /// Returns the threads of `daemon` that an earlier guardian has urged, and has not relaxed before its end.
    pub(super) fn of_predecessor(daemon: &Process) -> Urging {
        let left = |tid: u32| {
            let thread = Thread::open(tid).ok()?;
            let name = thread.status().ok()?.name;
            let is_urged = attributes::get(tid).is_ok_and(|found| found == URGED);
            // The agents always have this priority.
            let before = match name.as_str() {
                name if name.starts_with(AGENT_PREFIX) => return None,
                KEEPER => KEEPER_USUAL,
                _ => Attributes::of(Policy::Other { nice: attributes::nice(tid).unwrap_or(0) }),
            };
            is_urged.then_some((thread, before))
        };
        Urging { threads: thread::threads(daemon.pid()).unwrap_or_default().into_iter().filter_map(left).collect() }
    }

    /// Urges the threads of `daemon` that do not sleep, until the agents of the CPUs `late` have beaten.
    pub(super) fn urge(&mut self, daemon: &Process, table: &Table, late: &CpuSet) {
        let beats = |cpu| table.beats(Beating::Agent(cpu));
        let (before, end): (Vec<_>, _) = (late.iter().map(|cpu| (cpu, beats(cpu))).collect(), clock::now() + TIME_MOST);
        // The attributes before of these threads are recorded already.
        let held: Vec<Identity> = self.threads.iter().map(|(thread, _)| thread.identity()).collect();
        for tid in thread::threads(daemon.pid()).unwrap_or_default() {
            if clock::now() >= end {
                break;
            }
            self.threads.extend(urged(tid).filter(|(thread, _)| !held.contains(&thread.identity())));
        }
        while before.iter().any(|&(cpu, before)| beats(cpu) == before) && clock::now() < end {
            clock::sleep(LOOK);
        }
        self.relax();
    }

    /// Gives the threads their attributes back. A thread that works at the priority of the agents just now gets them back
    /// at a later call. It may also begin to do so during this call, and then return to the urged attributes. Each thread is
    /// therefore held until a call finds the attributes before.
    pub(super) fn relax(&mut self) {
        self.threads.retain(|(thread, before)| {
            let now = if thread.is_there() { attributes::get(thread.tid()).ok() } else { None };
            if now == Some(URGED) {
                // The call fails only if the thread has ended.
                let _ = attributes::apply(thread.tid(), *before);
            }
            now.is_some_and(|now| now != *before)
        });
    }
}

/// Urges a thread that does not sleep. Returns the thread and its attributes before; `None` for a thread that sleeps or has
/// a priority that it needs.
fn urged(tid: u32) -> Option<(Thread, Attributes)> {
    let before = attributes::get(tid).ok()?;
    // Sentinels and lending donors must keep their priority. The keeper is urged only at its usual priority: it may also
    // work at the priority of the agents.
    if !matches!(before.policy, Policy::Other { .. }) && before != KEEPER_USUAL {
        return None;
    }
    let thread = Thread::open(tid).ok()?;
    let status = thread.status().ok()?;
    let is_low = before != KEEPER_USUAL || status.name == KEEPER;
    let waits = matches!(status.state, State::Runnable | State::Uninterruptible);
    (is_low && waits && attributes::apply(tid, URGED).is_ok()).then_some((thread, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use sched::CpuId;
    use sys::child::{Child, Work};

    #[test]
    fn a_thread_that_wants_to_run_is_urged_for_a_short_time_and_a_sleeping_thread_is_not() {
        let home = tempfile::tempdir().unwrap();
        let directory = Directory::at(home.path());
        let table = directory.create_table(1, &directory.lock().unwrap()).unwrap();
        let (spinning, sleeping) = (Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO }, Work::Sleep);
        let [busy, asleep] = [spinning, sleeping].map(|work| Child::start(work).unwrap());
        let before = Attributes::of(Policy::Other { nice: 3 });
        for child in [&busy, &asleep] {
            attributes::set(child.pid(), before).unwrap();
        }
        if let Err(refused) = attributes::set(busy.pid(), URGED) {
            return eprintln!("SKIPPED: {refused}");
        }
        attributes::set(busy.pid(), before).unwrap();
        let late = CpuSet::one(CpuId::new(0));
        for (child, is_urged) in [(&busy, true), (&asleep, false)] {
            let process = Process::open(child.pid()).unwrap();
            let begun = clock::now();
            let seen = std::thread::scope(|scope| {
                let urging = scope.spawn(|| {
                    let mut urging = Urging::default();
                    urging.urge(&process, &table, &late);
                    urging
                });
                let mut seen = false;
                while !urging.is_finished() {
                    seen |= attributes::get(child.pid()).unwrap() == URGED;
                }
                let mut urging = urging.join().unwrap();
                urging.relax();
                assert!(urging.threads.is_empty());
                seen
            });
            assert!(clock::now().since(begun) >= TIME_MOST, "no agent beats");
            assert_eq!((seen, attributes::get(child.pid()).unwrap()), (is_urged, before));
        }
    }

    #[test]
    fn a_thread_that_works_at_the_priority_of_the_agents_is_relaxed_later() {
        let child = Child::start(Work::Sleep).unwrap();
        let before = attributes::get(child.pid()).unwrap();
        let mut urging = Urging { threads: vec![(Thread::open(child.pid()).unwrap(), before)] };
        if let Err(refused) = attributes::set(child.pid(), Attributes::of(URGED.policy)) {
            return eprintln!("SKIPPED: {refused}");
        }
        urging.relax();
        assert_eq!(attributes::get(child.pid()).unwrap(), Attributes::of(URGED.policy));
        // The second time, the thread began to work at this priority while it was urged, and then returned.
        for _ in 0..2 {
            attributes::set(child.pid(), URGED).unwrap();
            urging.relax();
            assert_eq!(attributes::get(child.pid()).unwrap(), before);
        }
        urging.relax();
        assert!(urging.threads.is_empty());
    }

    #[test]
    fn threads_that_an_earlier_guardian_has_urged_are_relaxed_and_agents_are_not() {
        let before = Attributes::of(Policy::Other { nice: 2 });
        let start = |name: String, attributes| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let (done, wait) = std::sync::mpsc::channel::<()>();
            let body = move || {
                let me = thread::current();
                let set = attributes::set(me, before).and_then(|()| attributes::set(me, attributes));
                let _ = sender.send((me, set));
                // Ends when the test drops `done`.
                let _ = wait.recv();
            };
            drop(std::thread::Builder::new().name(name).spawn(body).unwrap());
            let (tid, outcome) = receiver.recv().unwrap();
            outcome.map(|()| (tid, done))
        };
        let urged = start("tactus-core".to_string(), URGED);
        let agent = start(format!("{AGENT_PREFIX}0"), URGED);
        let lent = start("tactus-donor".to_string(), Attributes::of(URGED.policy));
        let (Ok(urged), Ok(agent), Ok(lent)) = (urged, agent, lent) else { return eprintln!("SKIPPED: not permitted") };
        let me = Process::open(std::process::id()).unwrap();
        Urging::of_predecessor(&me).relax();
        let found = [&urged, &agent, &lent].map(|(tid, _)| attributes::get(*tid).unwrap());
        assert_eq!(found, [before, URGED, Attributes::of(URGED.policy)]);
    }
}
