//! `tactus restore` after a dispatcher that did not restore its threads, and the command line of the guardian.

use super::{Done, Place};
use daemon::directory::Directory;
use daemon::table::{Entry, Original, Table};
use expect_test::expect_file;
use sched::{CpuSet, Nanos};
use serde_json::Value;
use std::process::Stdio;
use sys::attributes::{self, Attributes};
use sys::child::{Child, Work};
use sys::process::Process;
use sys::shared::Words;
use sys::thread::Thread;
use sys::{affinity, clock};

/// A process that a dead dispatcher has confined, and the directory with the table that the dispatcher left behind.
struct Left {
    child: Child,
    original: Original,
    place: Place,
}

impl Left {
    /// Starts a process, records it in a table with boot id `boot` and daemon pid `dispatcher`, and raises and confines
    /// the process.
    fn new(boot: &str, dispatcher: u32) -> Left {
        let place = Place::new();
        let child = Child::start(Work::Sleep).expect("a child can be begun");
        let thread = Thread::open(child.pid()).expect("it is there").identity();
        let attributes = attributes::get(child.pid()).expect("it is there");
        let affinity = affinity::get(child.pid()).expect("it is there");
        let original = Original { attributes: Some(attributes), affinity, follows_cpuset: false };
        let confined = CpuSet::one(original.affinity.first().expect("it runs somewhere"));
        let words = Words::create(&place.0.path().join("table"), Table::words(4)).expect("there is room");
        let dispatcher = Thread::open(dispatcher).expect("it is there").identity();
        let table = Table::create(Box::new(words), boot, dispatcher);
        table.record(&Entry { thread, leader: thread, original, confined }).expect("there is room");
        match attributes::set(child.pid(), Attributes::raised(97)) {
            Ok(()) => {}
            Err(refused) => eprintln!("SKIPPED: {refused}"),
        }
        affinity::set(child.pid(), &confined).expect("it is ours");
        Left { child, original, place }
    }

    fn here() -> Left {
        Left::new(&sys::kernel::boot_id().expect("the kernel says"), std::process::id())
    }

    fn is_restored(&self) -> bool {
        let attributes = attributes::get(self.child.pid()).expect("it is there");
        let affinity = affinity::get(self.child.pid()).expect("it is there");
        Original { attributes: Some(attributes), affinity, ..self.original } == self.original
    }

    fn restore(&self, args: &[&str]) -> Done {
        self.place.run(&[&["restore", "--directory", "."], args].concat())
    }

    fn table_is_there(&self) -> bool {
        self.place.files().contains(&"table".to_string())
    }
}

#[test]
fn what_was_left_is_restored_once_and_then_there_is_nothing() {
    let left = Left::here();
    let done = left.restore(&[]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.starts_with(&format!("thread {}: ", left.child.pid())), "{}", done.stdout);
    assert!(done.stdout.contains("1 thread restored, 0 as before"), "{}", done.stdout);
    assert!(left.is_restored() && !left.table_is_there());
    let again = left.restore(&[]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "Nothing to restore: no table was left in ..\n"));
}

#[test]
fn its_help_says_what_its_exit_codes_mean_and_the_guardian_is_not_for_people() {
    expect_file!["restore-help.out"].assert_eq(&Place::new().run(&["restore", "--help"]).stdout);
    assert!(!Place::new().run(&[]).stdout.contains("\n  guardian"));
}

#[test]
fn nothing_is_made_where_nothing_was_left() {
    let place = Place::new();
    let done = place.run(&["restore", "--json", "--directory", "no/such/place"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!((done.code, &shown["table"], &shown["settled"]), (Some(0), &"nothing".into(), &true.into()));
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn as_json_each_property_of_each_thread_is_told_of() {
    let left = Left::here();
    let done = left.restore(&["--json"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!((&shown["table"], &shown["settled"], &shown["restored"]), (&"replayed".into(), &true.into(), &1.into()));
    let thread = &shown["threads"][0];
    assert_eq!((&thread["tid"], &thread["newborn"]), (&left.child.pid().into(), &false.into()));
    let outcomes = ["affinity", "stop"].map(|property| thread[property]["outcome"].as_str());
    // On a machine with one CPU, the confinement does not differ from the original affinity.
    let affinity = if left.original.affinity.len() == 1 { "as_before" } else { "restored" };
    assert_eq!(outcomes, [Some(affinity), Some("as_before")]);
    assert_eq!(thread["original_attributes"], left.original.attributes.expect("it has attributes").to_string());
}

#[test]
fn while_a_dispatcher_is_at_work_nothing_is_done() {
    let left = Left::here();
    let held = Directory::at(left.place.0.path()).lock().expect("the lock is free");
    let done = left.restore(&[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
    let me = std::process::id();
    assert!(done.stderr.contains(&format!("as process {me}")) && done.stderr.contains("help:"), "{}", done.stderr);
    assert!(!left.is_restored() && left.table_is_there());
    drop(held);
    assert_eq!(left.restore(&[]).code, Some(0));
}

#[test]
fn a_table_of_an_earlier_boot_is_removed_and_no_thread_changed() {
    let left = Left::new("an earlier boot of the machine", std::process::id());
    let done = left.restore(&[]);
    assert!(done.code == Some(0) && done.stdout.contains("an earlier boot of this machine"), "{done:?}");
    assert!(!left.is_restored() && !left.table_is_there());
}

#[test]
fn what_is_no_table_is_said_with_its_path_and_stays() {
    let place = Place::new();
    place.file("table", [7; 100_000]);
    let done = place.run(&["restore", "--directory", "."]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    let words = "table cannot be read: it does not start like a table of originals";
    assert!(done.stderr.contains(words), "{}", done.stderr);
    assert!(place.files().contains(&"table".to_string()));
}

#[test]
fn a_guardian_restores_when_its_dispatcher_dies_and_not_when_it_is_asked_to_end() {
    let dispatcher = Child::start(Work::Sleep).expect("a child can be begun");
    let left = Left::new(&sys::kernel::boot_id().expect("the kernel says"), dispatcher.pid());
    let mut command = left.place.command(&["guardian", "."]);
    let guardian = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    // The guardian is not reaped yet, so its pid is not reused.
    let process = Process::open(guardian.id()).expect("it is there");
    let table = Directory::at(left.place.0.path()).open_table().expect("it can be read").expect("it is there");
    let end = clock::now() + Nanos::s(2);
    while table.guardian().is_none() {
        assert!(clock::now() < end, "it does not begin");
        clock::sleep(Nanos::ms(1));
    }
    process.terminate().expect("it is ours");
    assert!(!process.ends_within(Nanos::ms(150)) && !left.is_restored());
    dispatcher.process().kill().expect("it is ours");
    assert!(process.ends_within(Nanos::s(1)), "it ends when it has restored");
    let done = Done::from(guardian.wait_with_output().expect("it has ended"));
    assert!(left.is_restored() && !left.table_is_there());
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""));
    assert!(done.stderr.contains("has ended: 1 thread restored"), "{}", done.stderr);
}
