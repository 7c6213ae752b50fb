//! [`Prioritised`]: raises interactive tasks in the guest while they are interactive.
//!
//! The original attributes are in a file in /run before a task is raised. The agent restores the tasks when it ends, its guard does
//! when the agent is killed, and the next agent does what both have left.

use crate::failure::Failure;
use crate::options::Prioritise;
use sched::Nanos;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use sys::attributes::{self, Attributes, Policy};
use sys::clock;
use sys::shared::{Lock, Locked, Words};
use sys::thread::{self, Identity};

/// The directory with the file and its lock.
const DIRECTORY: &str = "/run/tactus-guest";
/// Maximum number of tasks that are raised at a time.
const TASKS_MOST: usize = 256;
/// Time in which the guard of a former agent has restored its tasks.
const RELEASED: Nanos = Nanos::s(1);
/// Words of each task in the file: the tid, or 0; the start time; the original class and nice value; the original slice in ns, or 0.
const WORDS: usize = 4;
/// The classes of tasks that are raised.
const OTHER: u64 = 0;
const BATCH: u64 = 1;

/// The tasks that are raised.
pub(crate) struct Prioritised {
    /// `None`: no task is raised.
    table: Option<Table>,
    how: Prioritise,
    raised: HashMap<u32, Entry>,
    /// Tasks that are not raised: they have another class, or the kernel refused.
    left: HashSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: usize,
    identity: Identity,
    original: Attributes,
}

impl Prioritised {
    /// Begins without raised tasks. Restores those that a former agent has left.
    pub(crate) fn begin(how: Prioritise) -> Result<Prioritised, Failure> {
        let table = match how {
            Prioritise::None => {
                restore_left();
                None
            }
            Prioritise::Nice | Prioritise::Fifo => Some(Table::create(Path::new(DIRECTORY))?),
        };
        Ok(Prioritised { table, how, raised: HashMap::new(), left: HashSet::new() })
    }

    /// Returns the attributes of a raised task before it was raised.
    pub(crate) fn original(&self, tid: u32) -> Option<Attributes> {
        self.raised.get(&tid).map(|entry| entry.original)
    }

    /// Raises the urgent tasks, and restores the others.
    pub(crate) fn follow(&mut self, urgent: impl Iterator<Item = u32>) {
        let Some(table) = &self.table else { return };
        let urgent: HashSet<u32> = urgent.collect();
        self.left.retain(|tid| urgent.contains(tid));
        self.raised.retain(|tid, entry| {
            let stays = urgent.contains(tid);
            if !stays {
                restore_one(entry.identity, entry.original);
                table.clear(entry.place);
            }
            stays
        });
        for tid in urgent {
            if self.raised.contains_key(&tid) || self.left.contains(&tid) {
                continue;
            }
            match raise(table, tid, self.how, self.raised.len()) {
                Some(entry) => drop(self.raised.insert(tid, entry)),
                None => drop(self.left.insert(tid)),
            }
        }
    }
}

impl Drop for Prioritised {
    fn drop(&mut self) {
        for entry in self.raised.values() {
            restore_one(entry.identity, entry.original);
            self.table.iter().for_each(|table| table.clear(entry.place));
        }
    }
}

/// Raises a task. `None`: it keeps its attributes.
fn raise(table: &Table, tid: u32, how: Prioritise, count: usize) -> Option<Entry> {
    let status = thread::status(tid).ok()?;
    let identity = Identity { tid, start_time: status.start_time };
    let original = attributes::get(tid).ok()?;
    let is_usual = matches!(original.policy, Policy::Other { .. } | Policy::Batch { .. });
    // A child that begins while its parent is raised has nice 0: a nice task would escape its nice value by a fork.
    if !is_usual || original.nice() > Some(0) || count == TASKS_MOST {
        return None;
    }
    let wanted = match how {
        Prioritise::Fifo => Attributes::raised(1),
        // Its children begin at nice 0, and not at −20.
        _ => Attributes { reset_on_fork: true, ..original.with_nice(-20) },
    };
    let place = table.note(identity, original)?;
    if attributes::apply(tid, wanted).is_err() {
        table.clear(place);
        return None;
    }
    Some(Entry { place, identity, original })
}

/// Gives a task its attributes back, unless another program has changed them meanwhile.
fn restore_one(identity: Identity, original: Attributes) {
    let Ok(thread) = thread::Thread::open_as(identity) else { return };
    let Ok(now) = attributes::get(thread.tid()) else { return };
    let is_ours = now.reset_on_fork && (now == Attributes::raised(1) || now.nice() == Some(-20));
    let wanted = if is_ours { original } else { Attributes { reset_on_fork: original.reset_on_fork, ..now } };
    if wanted != now {
        // The task may have ended.
        let _ = attributes::apply(thread.tid(), wanted);
    }
}

/// The original attributes of raised tasks, in a file that survives the agent.
pub(crate) struct Table {
    words: Words,
    /// Held while an agent has the file.
    _lock: Lock,
}

impl Table {
    fn path(directory: &Path) -> PathBuf {
        directory.join("prioritised")
    }

    fn create(directory: &Path) -> Result<Table, Failure> {
        sys::shared::own_directory(directory)?;
        let path = directory.join("lock");
        let end = clock::now().saturating_add(RELEASED);
        let mut locked = Lock::try_lock(&path)?;
        while matches!(locked, Locked::Held(_)) && clock::now() < end {
            clock::sleep(Nanos::ms(10));
            locked = Lock::try_lock(&path)?;
        }
        let Locked::Ours(lock) = locked else {
            return Err(Failure::Refused("another agent runs".to_string(), "end it: only one agent runs in a guest"));
        };
        let path = Table::path(directory);
        if path.exists() {
            restore_from(&path);
            std::fs::remove_file(&path).map_err(|error| Failure::Io("remove a former file of raised tasks", error))?;
        }
        Ok(Table { words: Words::create(&path, TASKS_MOST * WORDS)?, _lock: lock })
    }

    /// Notes the original attributes of a task. Returns the place. `None`: the table is full.
    fn note(&self, identity: Identity, original: Attributes) -> Option<usize> {
        let place = (0..TASKS_MOST).find(|place| self.words[place * WORDS].load(Ordering::Acquire) == 0)?;
        let [tid, start, attributes, slice] = [0, 1, 2, 3].map(|word| &self.words[place * WORDS + word]);
        start.store(identity.start_time, Ordering::Relaxed);
        attributes.store(encoded(original), Ordering::Relaxed);
        slice.store(original.slice.map_or(0, Nanos::as_ns), Ordering::Relaxed);
        // The task counts from here on.
        tid.store(u64::from(identity.tid), Ordering::Release);
        Some(place)
    }

    fn clear(&self, place: usize) {
        self.words[place * WORDS].store(0, Ordering::Release);
    }
}

/// Restores the tasks that a former agent has left. Returns false if an agent runs: it has done so.
pub(crate) fn restore_left() -> bool {
    let directory = Path::new(DIRECTORY);
    match Lock::try_lock(&directory.join("lock")) {
        Ok(Locked::Ours(_lock)) => restore_from(&Table::path(directory)),
        Ok(Locked::Held(_)) => return false,
        // No agent has raised a task since the boot.
        Err(_) => {}
    }
    true
}

fn restore_from(path: &Path) {
    let Ok(words) = Words::open(path, TASKS_MOST * WORDS) else { return };
    for place in 0..TASKS_MOST {
        let [tid, start_time, attributes, slice] =
            [0, 1, 2, 3].map(|word| words[place * WORDS + word].load(Ordering::Acquire));
        if let (Ok(tid @ 1..), Some(original)) = (u32::try_from(tid), decoded(attributes)) {
            let slice = (slice != 0).then_some(Nanos::ns(slice));
            restore_one(Identity { tid, start_time }, Attributes { slice, ..original });
        }
        words[place * WORDS].store(0, Ordering::Release);
    }
}

/// The class in the upper half, the nice value plus 20 in the next byte, and reset-on-fork in the lowest bit.
fn encoded(original: Attributes) -> u64 {
    let class = if matches!(original.policy, Policy::Batch { .. }) { BATCH } else { OTHER };
    let nice = original.nice().unwrap_or(0) + 20;
    class << 32 | u64::from(nice.unsigned_abs()) << 8 | u64::from(original.reset_on_fork)
}

fn decoded(word: u64) -> Option<Attributes> {
    let nice = i32::try_from(word >> 8 & 0xff).ok().filter(|nice| *nice < 40)? - 20;
    let policy = match word >> 32 {
        OTHER => Policy::Other { nice },
        BATCH => Policy::Batch { nice },
        _ => return None,
    };
    Some(Attributes { reset_on_fork: word & 1 != 0, ..Attributes::of(policy) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::child::{Child, Work};

    #[test]
    fn attributes_are_encoded_and_decoded() {
        for nice in [-20, -1, 0, 19] {
            for policy in [Policy::Other { nice }, Policy::Batch { nice }] {
                for reset_on_fork in [false, true] {
                    let original = Attributes { reset_on_fork, ..Attributes::of(policy) };
                    assert_eq!(decoded(encoded(original)), Some(original));
                }
            }
        }
        assert_eq!((decoded(2 << 32), decoded(40 << 8)), (None, None));
    }

    /// Returns a table in a directory of this test; `None`: nice values cannot be lowered.
    fn table(directory: &Path) -> Option<Prioritised> {
        let child = Child::start(Work::Sleep).unwrap();
        if let Err(refused) = attributes::set(child.pid(), Attributes::of(Policy::Other { nice: -20 })) {
            eprintln!("SKIPPED: {refused}");
            return None;
        }
        let table = Table::create(directory).unwrap();
        Some(Prioritised { table: Some(table), how: Prioritise::Nice, raised: HashMap::new(), left: HashSet::new() })
    }

    #[test]
    fn a_task_is_raised_while_it_is_urgent_and_restored_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut prioritised) = table(directory.path()) else { return };
        let children = [0, -3].map(|nice| {
            let child = Child::start(Work::Sleep).unwrap();
            attributes::set(child.pid(), Attributes::of(Policy::Other { nice })).unwrap();
            child
        });
        let nice = |child: &Child| attributes::get(child.pid()).unwrap().nice();
        let [first, second] = &children;
        prioritised.follow([first.pid(), second.pid()].into_iter());
        assert_eq!([nice(first), nice(second)], [Some(-20), Some(-20)]);
        assert_eq!(prioritised.original(second.pid()).and_then(|original| original.nice()), Some(-3));
        prioritised.follow([second.pid()].into_iter());
        assert_eq!([nice(first), nice(second)], [Some(0), Some(-20)]);
        // Another program changes it.
        prioritised.follow([first.pid(), second.pid()].into_iter());
        let others = Attributes { reset_on_fork: true, ..Attributes::of(Policy::Other { nice: 7 }) };
        attributes::set(first.pid(), others).unwrap();
        drop(prioritised);
        assert_eq!([nice(first), nice(second)], [Some(7), Some(-3)]);
        assert!(!attributes::get(first.pid()).unwrap().reset_on_fork);
    }

    #[test]
    fn what_a_killed_agent_has_left_is_restored() {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut prioritised) = table(directory.path()) else { return };
        let child = Child::start(Work::Sleep).unwrap();
        attributes::set(child.pid(), Attributes::of(Policy::Other { nice: -3 })).unwrap();
        let nice_one = Child::start(Work::Sleep).unwrap();
        attributes::set(nice_one.pid(), Attributes::of(Policy::Other { nice: 3 })).unwrap();
        prioritised.follow([child.pid(), nice_one.pid()].into_iter());
        assert_eq!(attributes::get(nice_one.pid()).unwrap().nice(), Some(3));
        // The agent ends without its destructors.
        prioritised.raised.clear();
        drop(prioritised);
        let nice = || attributes::get(child.pid()).unwrap().nice();
        assert_eq!(nice(), Some(-20));
        let _next = Table::create(directory.path()).unwrap();
        assert_eq!(nice(), Some(-3));
        assert!(matches!(Table::create(directory.path()), Err(Failure::Refused(..))), "only one agent has the file");
    }
}
