//! Tests on the real kernel, with child processes.

use super::*;
use crate::dispatch::{Enclosure, enclose};
use crate::kernel::priority;
use crate::linux::Linux;
use crate::table::{Beating, ControlGroup, Entry, Original, Row};
use sched::{CpuSet, Nanos};
use std::process::{Command, Stdio};
use sys::attributes::{Attributes, Policy};
use sys::cgroup::Hierarchy;
use sys::child::{Child, Work};
use sys::shared::Words;
use sys::thread::{State, Thread};
use sys::{affinity, attributes, clock, freezer};

fn restore(kernel: &Linux, table: &Table) -> Restored {
    super::restore(kernel, table, clock::sleep)
}

/// A table in a file of its own.
struct Place {
    table: Table,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let words = Words::create(&directory.path().join("words"), Table::words(16)).unwrap();
        let me = Thread::open(std::process::id()).unwrap().identity();
        Place { table: Table::create(Box::new(words), &sys::kernel::boot_id().unwrap(), me), _directory: directory }
    }

    /// Records thread `tid`, the first thread of its process, with its current values as originals and `confined` as
    /// its confinement.
    fn record(&self, tid: u32, confined: CpuSet) -> (Row, Entry) {
        let thread = Thread::open(tid).unwrap().identity();
        let original = Original {
            attributes: Some(attributes::get(tid).unwrap()),
            affinity: affinity::get(tid).unwrap(),
            follows_cpuset: false,
        };
        let entry = Entry { thread, leader: thread, original, confined, reserved: None };
        (self.table.record(&entry).unwrap(), entry)
    }
}

/// Freezes process `pid` as the daemon does; `None` where this is not permitted.
fn enclosed(kernel: &Linux, place: &Place, pid: u32) -> Option<Enclosure<Linux>> {
    match enclose(kernel, &place.table, pid, &|| {}) {
        Ok(mut enclosure) => {
            enclosure.set_frozen(true, kernel, &place.table).unwrap();
            Some(enclosure)
        }
        Err(refused) => {
            eprintln!("SKIPPED: {refused}");
            None
        }
    }
}

/// Returns the path of the thread's group in the freezer hierarchy; empty without one.
fn freezer_path(tid: u32) -> String {
    Hierarchy::one_or_mount("freezer").and_then(|freezer| freezer.path_of(tid)).unwrap_or_default()
}

/// Returns two CPUs, each as a set; `None` on a machine with one CPU.
fn two_cpus() -> Option<[CpuSet; 2]> {
    let allowed = affinity::get(std::process::id()).unwrap();
    let mut cpus = allowed.iter().map(CpuSet::one);
    let two = cpus.next().zip(cpus.next()).map(|(first, second)| [first, second]);
    if two.is_none() {
        eprintln!("SKIPPED: there is one CPU only");
    }
    two
}

/// Raises thread `tid` as the daemon does. Returns whether raising is permitted.
fn raise(tid: u32, priority: u32) -> bool {
    match attributes::set(tid, Attributes::raised(priority)) {
        Ok(()) => true,
        Err(refused @ sys::Error::NotPermitted { .. }) => {
            eprintln!("SKIPPED: {refused}");
            false
        }
        Err(other) => panic!("{other}"),
    }
}

fn state_becomes(tid: u32, wanted: impl Fn(State) -> bool) -> bool {
    (0..500).any(|_| {
        clock::sleep(Nanos::ms(1));
        wanted(Thread::open(tid).unwrap().status().unwrap().state)
    })
}

/// A shell process that ends when the value is dropped.
struct Shell(std::process::Child);

impl Shell {
    /// Runs `script`, which prints a line when the test may continue, and ends when its input ends.
    fn run(script: &str) -> Shell {
        let begun = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Shell(begun.unwrap())
    }

    fn write(&mut self, words: &str) {
        use std::io::Write;
        self.0.stdin.as_mut().unwrap().write_all(words.as_bytes()).unwrap();
    }

    /// Returns the numbers in the next line of the shell's output.
    fn hear(&mut self) -> Vec<u32> {
        use std::io::Read;
        let out = self.0.stdout.as_mut().unwrap();
        let mut line = String::new();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        line.split(' ').map(|word| word.parse().unwrap()).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn everything_that_is_ours_is_changed_back_and_a_second_time_changes_nothing() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let originals = [
        Attributes::of(Policy::Other { nice: 3 }),
        Attributes::of(Policy::Batch { nice: 0 }),
        Attributes::of(Policy::Idle),
        Attributes { reset_on_fork: true, ..Attributes::of(Policy::Other { nice: 0 }) },
        Attributes::of(Policy::RoundRobin { priority: 2 }),
        Attributes::of(Policy::Deadline {
            runtime: Nanos::us(100),
            deadline: Nanos::ms(5),
            period: Nanos::ms(10),
            reclaim: false,
            overrun: false,
        }),
    ];
    for (nth, original) in originals.into_iter().enumerate() {
        let child = Child::start(Work::Spin { busy: Nanos::us(100), idle: Nanos::ms(1) }).unwrap();
        let before = freezer_path(child.pid());
        match attributes::set(child.pid(), original) {
            Ok(()) => {}
            Err(refused @ (sys::Error::NotPermitted { .. } | sys::Error::Call { .. })) => {
                eprintln!("SKIPPED: {refused}");
                continue;
            }
            Err(other) => panic!("{other}"),
        }
        let (row, entry) = place.record(child.pid(), first);
        let enclosure = enclosed(&kernel, &place, child.pid());
        let is_raised = raise(child.pid(), if nth % 2 == 0 { priority::RAISED } else { priority::AMONG_OTHERS });
        affinity::set(child.pid(), &first).unwrap();
        if enclosure.is_some() {
            assert!(state_becomes(child.pid(), |state| state == State::Uninterruptible));
        }
        let restored = restore(&kernel, &place.table);
        let [done] = &restored.threads[..] else { panic!("{restored:?}") };
        assert!(restored.is_settled() && done.end() == End::Restored, "{done}");
        assert_eq!((&done.stop, &done.affinity), (&Outcome::AsBefore, &Outcome::Restored), "{done}");
        assert!(restored.groups.iter().all(|group| group.outcome == Outcome::Restored), "{restored:?}");
        assert_eq!(done.attributes == Outcome::Restored, is_raised);
        assert_eq!(attributes::get(child.pid()).unwrap(), original);
        assert_eq!(affinity::get(child.pid()).unwrap(), entry.original.affinity);
        assert!(state_becomes(child.pid(), |state| state != State::Uninterruptible));
        assert_eq!(freezer_path(child.pid()), before, "it is back in its group");
        let again = restore(&kernel, &place.table);
        assert_eq!(again.count(End::AsBefore), 1, "{again}");
        // A SCHED_DEADLINE thread cannot be confined.
        if !matches!(original.policy, Policy::Deadline { .. }) {
            let held = kernel.open_as(entry.thread).unwrap();
            affinity::set(child.pid(), &first).unwrap();
            assert_eq!(restore_entry(&kernel, row, &entry, &held).affinity, Outcome::Restored);
        }
        place.table.forget(row);
        enclosure.iter().flat_map(Enclosure::rows).for_each(|row| place.table.forget(row));
    }
}

#[test]
fn a_thread_that_is_given_back_is_not_changed_again() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    let (row, _) = place.record(child.pid(), first);
    affinity::set(child.pid(), &first).unwrap();
    assert_eq!(restore(&kernel, &place.table).count(End::Restored), 1);
    place.table.set_given_back(row);
    // Another process may choose the CPU of the earlier confinement.
    affinity::set(child.pid(), &first).unwrap();
    let restored = restore(&kernel, &place.table);
    assert!(restored.is_settled() && restored.threads.is_empty(), "{restored:?}");
    assert_eq!(affinity::get(child.pid()).unwrap(), first);
    // The next thread in the row is restored.
    place.table.forget(row);
    assert_eq!(place.record(child.pid(), first).0, row);
    assert_eq!(restore(&kernel, &place.table).threads.len(), 1);
}

#[test]
fn a_process_that_an_earlier_program_has_stopped_goes_on() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let child = Child::start(Work::Sleep).unwrap();
    let (row, _) = place.record(child.pid(), affinity::get(child.pid()).unwrap());
    // In a table of version 2, the second word of a row states a stop.
    let file = std::fs::File::options().write(true).open(place._directory.path().join("words")).unwrap();
    for (word, value) in [(1, 2_u64), (64 + sched::id::CPUS_MAX as u64 + 1, 1)] {
        std::os::unix::fs::FileExt::write_all_at(&file, &value.to_ne_bytes(), 8 * word).unwrap();
    }
    assert!(place.table.is_stopped(row));
    child.process().stop().unwrap();
    assert!(state_becomes(child.pid(), |state| state == State::Stopped));
    let restored = restore(&kernel, &place.table);
    assert_eq!((&restored.threads[0].stop, restored.is_settled()), (&Outcome::Restored, true), "{restored:?}");
    assert!(state_becomes(child.pid(), |state| state == State::Sleeping) && !place.table.is_stopped(row));
}

#[test]
fn a_process_that_another_program_stops_or_moves_meanwhile_stays_so() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let [stopped, moved] = [(); 2].map(|()| Child::start(Work::Sleep).unwrap());
    let before = freezer_path(stopped.pid());
    let Some(_) = enclosed(&kernel, &place, stopped.pid()) else { return };
    enclosed(&kernel, &place, moved.pid()).unwrap();
    stopped.process().stop().unwrap();
    let hierarchy = Hierarchy::one_or_mount("freezer").unwrap();
    let home = hierarchy.open(&before).unwrap();
    let elsewhere = home.create(&format!("tactus-test-{}", moved.pid())).unwrap();
    elsewhere.add_process(moved.pid()).unwrap();
    let there = freezer_path(moved.pid());
    let restored = restore(&kernel, &place.table);
    assert!(restored.is_settled(), "{restored:?}");
    assert_eq!((freezer_path(stopped.pid()), freezer_path(moved.pid())), (before.clone(), there));
    assert!(state_becomes(stopped.pid(), |state| state == State::Stopped));
    elsewhere.remove().unwrap();
    let left = home.names().unwrap();
    let pids = [stopped.pid(), moved.pid()];
    assert!(!pids.iter().any(|pid| left.iter().any(|name| name.starts_with(&format!("tactus-{pid}-")))), "{left:?}");
}

#[test]
fn a_group_of_version_2_is_thawed_only_if_tactus_has_frozen_it() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let child = Child::start(Work::Sleep).unwrap();
    let hierarchy = Hierarchy::two().inspect_err(|error| eprintln!("SKIPPED: {error}"));
    let Ok(home) = hierarchy.and_then(|two| two.group_of(child.pid())) else { return };
    let scope = home.create(&format!("tactus-test-{}", child.pid())).inspect_err(|error| eprintln!("SKIPPED: {error}"));
    let Ok(scope) = scope else { return };
    scope.add_process(child.pid()).unwrap();
    let row = place.table.record_group(ControlGroup::Found { id: scope.id().unwrap() }).unwrap();
    freezer::freeze(&scope).unwrap();
    freezer::wait(&scope, freezer::State::Frozen, Nanos::s(5)).unwrap();
    let restored = restore(&kernel, &place.table);
    assert_eq!((&restored.groups[0].outcome, restored.is_settled()), (&Outcome::AsBefore, true));
    assert_eq!(freezer::state(&scope).unwrap(), freezer::State::Frozen, "another program has frozen it");
    place.table.set_frozen(row, true);
    let restored = restore(&kernel, &place.table);
    assert_eq!((&restored.groups[0].outcome, restored.is_settled()), (&Outcome::Restored, true));
    assert_eq!(freezer::state(&scope).unwrap(), freezer::State::Thawed);
    assert_eq!(restore(&kernel, &place.table).groups[0].outcome, Outcome::AsBefore);
    assert_eq!(scope.processes().unwrap(), [child.pid()], "no process is moved");
}

#[test]
fn a_value_that_another_process_has_set_since_is_left() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, second]) = two_cpus() else { return };
    let child = Child::start(Work::Sleep).unwrap();
    place.record(child.pid(), first);
    affinity::set(child.pid(), &second).unwrap();
    let theirs = Attributes::of(Policy::Batch { nice: 9 });
    attributes::set(child.pid(), theirs).unwrap();
    let restored = restore(&kernel, &place.table);
    assert_eq!((restored.count(End::Left), restored.is_settled()), (1, true), "{restored}");
    assert_eq!((attributes::get(child.pid()).unwrap(), affinity::get(child.pid()).unwrap()), (theirs, second));
    let words = restored.threads[0].to_string();
    assert_eq!(words.matches("another process").count(), 2, "{words}");
}

#[test]
fn an_ended_thread_is_skipped_and_a_later_thread_with_its_number_is_not_touched() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let [gone, kept] = [(); 2].map(|()| Child::start(Work::Sleep).unwrap());
    let (_, entry) = place.record(gone.pid(), first);
    drop(gone);
    // Record an ended thread whose tid `kept` has reused.
    let earlier = Thread::open(kept.pid()).unwrap().identity();
    let earlier = sys::thread::Identity { start_time: earlier.start_time - 1, ..earlier };
    place.table.record(&Entry { thread: earlier, leader: earlier, ..entry }).unwrap();
    affinity::set(kept.pid(), &first).unwrap();
    let restored = restore(&kernel, &place.table);
    assert_eq!((restored.count(End::Gone), restored.is_settled()), (2, true), "{restored}");
    assert_eq!(affinity::get(kept.pid()).unwrap(), first, "it is another");
    place.record(kept.pid(), first);
    assert_eq!(restore(&kernel, &place.table).count(End::Gone), 2);
    assert_eq!(restore(&kernel, &place.table).threads.len(), 3);
}

#[test]
fn one_that_cannot_be_what_it_was_is_said_and_the_rest_is_restored() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let children = [(); 2].map(|()| Child::start(Work::Sleep).unwrap());
    // No kernel has class 77.
    let (row, entry) = place.record(children[0].pid(), first);
    let unknown = Attributes::of(Policy::Unknown(77));
    place.table.forget(row);
    let original = Original { attributes: Some(unknown), ..entry.original };
    place.table.record(&Entry { original, ..entry }).unwrap();
    place.record(children[1].pid(), first);
    if !children.iter().all(|child| raise(child.pid(), priority::RAISED)) {
        return;
    }
    for _ in 0..2 {
        let restored = restore(&kernel, &place.table);
        assert_eq!((restored.count(End::Failed), restored.is_settled()), (1, false), "{restored}");
        let reason = restored.threads[0].failures().next().unwrap();
        assert!(reason.reason.contains("class 77") && reason.reason.contains("it is SCHED_OTHER"), "{reason:?}");
        let now = attributes::get(children[0].pid()).unwrap();
        assert!(matches!(now.policy, Policy::Other { .. }), "it does not stay at real-time priority: {now}");
        assert_eq!(Some(attributes::get(children[1].pid()).unwrap()), entry.original.attributes);
    }
}

#[test]
fn children_that_are_not_in_the_table_are_found_down_to_the_last() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let mut shell = Shell::run("exec 3<&0; read go; sh -c 'sh -c \"read end <&3\" & echo $$ $!; wait' & wait");
    let pid = shell.0.id();
    attributes::set(pid, Attributes::of(Policy::Other { nice: 5 })).unwrap();
    let (_, entry) = place.record(pid, first);
    let is_raised = raise(pid, priority::RAISED);
    affinity::set(pid, &first).unwrap();
    shell.write("go\n");
    let born = shell.hear();
    assert_eq!(born.len(), 2);
    let begun = if is_raised { 0 } else { 5 };
    for &child in &born {
        assert_eq!(affinity::get(child).unwrap(), first);
        assert_eq!(attributes::get(child).unwrap(), Attributes::of(Policy::Other { nice: begun }));
    }
    let restored = restore(&kernel, &place.table);
    assert!(restored.is_settled(), "{restored}");
    let mut found: Vec<u32> = restored.threads.iter().map(|thread| thread.thread.tid).collect();
    found.sort_unstable();
    let mut all = [&born[..], &[pid]].concat();
    all.sort_unstable();
    assert_eq!(found, all);
    for tid in all {
        assert_eq!(affinity::get(tid).unwrap(), entry.original.affinity, "{restored:?}");
        assert_eq!(Some(attributes::get(tid).unwrap()), entry.original.attributes, "{restored:?}");
    }
}

#[test]
fn one_client_is_restored_and_those_of_another_are_not_taken_for_its_children() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let mut shell = Shell::run("exec 3<&0; read go; sh -c 'echo $$; read end <&3' & wait");
    let parent = shell.0.id();
    let (_, entry) = place.record(parent, first);
    affinity::set(parent, &first).unwrap();
    shell.write("go\n");
    let child = shell.hear()[0];
    place.record(child, first);
    let mut restoring = Restoring::begin(&kernel, &place.table, |found| found.leader == entry.leader);
    restoring.look(&kernel, &place.table);
    let restored = restoring.end();
    assert_eq!(restored.threads.len(), 1, "{restored:?}");
    assert_eq!(affinity::get(parent).unwrap(), entry.original.affinity);
    assert_eq!(affinity::get(child).unwrap(), first);
}

#[test]
fn two_may_restore_at_a_time() {
    let (kernel, place) = (Linux::new().unwrap(), Place::new());
    let Some([first, _]) = two_cpus() else { return };
    let children: Vec<Child> = (0..8).map(|_| Child::start(Work::Sleep).unwrap()).collect();
    let before = affinity::get(children[0].pid()).unwrap();
    for child in &children {
        place.record(child.pid(), first);
        enclosed(&kernel, &place, child.pid());
        raise(child.pid(), priority::RAISED);
        affinity::set(child.pid(), &first).unwrap();
    }
    std::thread::scope(|scope| {
        for both in [(); 2].map(|()| scope.spawn(|| restore(&kernel, &place.table))) {
            let restored = both.join().unwrap();
            assert!(restored.is_settled(), "{restored:?}");
        }
    });
    for child in &children {
        assert_eq!(affinity::get(child.pid()).unwrap(), before);
        assert!(matches!(attributes::get(child.pid()).unwrap().policy, Policy::Other { .. }));
        assert!(state_becomes(child.pid(), |state| state == State::Sleeping));
    }
}

#[test]
fn a_table_that_was_left_is_replayed_and_removed_unless_something_is_left_to_do() {
    let kernel = Linux::new().unwrap();
    let Some([first, _]) = two_cpus() else { return };
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::at(place.path());
    let lock = directory.lock().unwrap();
    assert!(matches!(replay(&kernel, &directory, &lock), Ok(Replayed::Nothing)));
    let child = Child::start(Work::Sleep).unwrap();
    let before = affinity::get(child.pid()).unwrap();
    let thread = Thread::open(child.pid()).unwrap().identity();
    let attributes = Some(attributes::get(child.pid()).unwrap());
    let original = Original { attributes, affinity: before, follows_cpuset: false };
    let entry = Entry { thread, leader: thread, original, confined: first, reserved: None };
    affinity::set(child.pid(), &first).unwrap();
    if !raise(child.pid(), priority::RAISED) {
        return;
    }
    // No kernel has class 77.
    let unknown = Some(Attributes::of(Policy::Unknown(77)));
    let table = directory.create_table(2, &lock).unwrap();
    let row = table.record(&Entry { original: Original { attributes: unknown, ..original }, ..entry }).unwrap();
    let Ok(Replayed::Done(restored)) = replay(&kernel, &directory, &lock) else { panic!("there is a table") };
    assert!(restored.count(End::Failed) == 1 && !table.is_finished(), "{restored}");
    table.forget(row);
    affinity::set(child.pid(), &first).unwrap();
    table.record(&entry).unwrap();
    let Ok(Replayed::Done(restored)) = replay(&kernel, &directory, &lock) else { panic!("there is a table") };
    assert!(restored.count(End::Restored) == 1 && table.is_finished(), "{restored}");
    assert_eq!(affinity::get(child.pid()).unwrap(), before);
    assert!(matches!(replay(&kernel, &directory, &lock), Ok(Replayed::Nothing)));

    affinity::set(child.pid(), &first).unwrap();
    let words = Words::create(&place.path().join("table"), Table::words(1)).unwrap();
    let stale = Table::create(Box::new(words), "another start of the machine", thread);
    stale.record(&entry).unwrap();
    stale.beat(Beating::Guardian);
    assert!(matches!(replay(&kernel, &directory, &lock), Ok(Replayed::Stale)));
    assert_eq!(affinity::get(child.pid()).unwrap(), first, "its threads are from another boot");
    assert!(directory.open_table().unwrap().is_none());
}
