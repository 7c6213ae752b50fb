//! `tactus release` beside a living dispatcher and after a dead one, and the command line of the guardian.

use super::{Done, Place};
use daemon::directory::Directory;
use daemon::table::{Entry, Original, Table};
use expect_test::expect_file;
use sched::{CpuSet, Nanos};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};
use sys::attributes::{self, Attributes};
use sys::child::{Child, Work};
use sys::process::Process;
use sys::shared::Words;
use sys::thread::{Identity, Thread};
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
    fn new(boot: &str, dispatcher: Identity) -> Left {
        let place = Place::new();
        Left::within(place, "", boot, dispatcher)
    }

    /// Leaves the table in the subdirectory `folder` of `place`.
    fn within(place: Place, folder: &str, boot: &str, dispatcher: Identity) -> Left {
        let child = Child::start(Work::Sleep).expect("a child can be begun");
        let thread = Thread::open(child.pid()).expect("it is there").identity();
        let attributes = attributes::get(child.pid()).expect("it is there");
        let affinity = affinity::get(child.pid()).expect("it is there");
        let original = Original { attributes: Some(attributes), affinity, follows_cpuset: false };
        let confined = CpuSet::one(original.affinity.first().expect("it runs somewhere"));
        let folder = place.0.path().join(folder);
        std::fs::create_dir_all(&folder).expect("there is room");
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).expect("it is ours");
        let words = Words::create(&folder.join("table"), Table::words(4)).expect("there is room");
        let table = Table::create(Box::new(words), boot, dispatcher);
        table.record(&Entry { thread, leader: thread, original, confined, reserved: None }).expect("there is room");
        match attributes::set(child.pid(), Attributes::raised(97)) {
            Ok(()) => {}
            Err(refused) => eprintln!("SKIPPED: {refused}"),
        }
        affinity::set(child.pid(), &confined).expect("it is ours");
        Left { child, original, place }
    }

    /// Leaves the table of a dispatcher that has ended.
    fn here() -> Left {
        Left::new(&boot(), ended())
    }

    fn is_restored(&self) -> bool {
        let attributes = attributes::get(self.child.pid()).expect("it is there");
        let affinity = affinity::get(self.child.pid()).expect("it is there");
        Original { attributes: Some(attributes), affinity, ..self.original } == self.original
    }

    fn release(&self, args: &[&str]) -> Done {
        self.place.run(&[&["release", "--directory", "."], args].concat())
    }

    fn table_is_there(&self) -> bool {
        self.place.files().contains(&"table".to_string())
    }
}

fn boot() -> String {
    sys::kernel::boot_id().expect("the kernel says")
}

/// Returns the identity of a process that has ended.
fn ended() -> Identity {
    let child = Child::start(Work::Sleep).expect("a child can be begun");
    identity(&child)
}

fn identity(child: &Child) -> Identity {
    Thread::open(child.pid()).expect("it is there").identity()
}

#[test]
fn what_was_left_is_restored_once_and_then_there_is_nothing() {
    let left = Left::here();
    let done = left.release(&[]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.starts_with(&format!("thread {}: ", left.child.pid())), "{}", done.stdout);
    assert!(done.stdout.contains("1 thread restored, 0 as before"), "{}", done.stdout);
    assert!(left.is_restored() && !left.table_is_there());
    let again = left.release(&[]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "Nothing to restore: no table was left in ..\n"));
}

#[test]
fn its_help_says_what_its_exit_codes_mean_and_the_guardian_is_not_for_people() {
    expect_file!["release-help.out"].assert_eq(&Place::new().run(&["release", "--help"]).stdout);
    assert!(!Place::new().run(&[]).stdout.contains("\n  guardian"));
}

#[test]
fn nothing_is_made_where_nothing_was_left() {
    let place = Place::new();
    let done = place.run(&["release", "--json", "--directory", "no/such/place"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    let table = &shown["tables"][0];
    assert_eq!((done.code, &table["table"], &table["settled"]), (Some(0), &"nothing".into(), &true.into()));
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn as_json_each_property_of_each_thread_is_told_of() {
    let left = Left::here();
    let done = left.release(&["--json"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!(shown["settled"], true);
    let shown = &shown["tables"][0];
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
fn a_dispatcher_that_lives_is_ended_first() {
    let dispatcher = Child::start(Work::Sleep).expect("a child can be begun");
    let left = Left::new(&boot(), identity(&dispatcher));
    let done = left.release(&["--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    let ended = &shown["tables"][0]["ended"];
    assert_eq!((&ended["pid"], &ended["killed"]), (&dispatcher.pid().into(), &false.into()));
    assert!(dispatcher.process().has_ended() && left.is_restored() && !left.table_is_there());
}

#[test]
fn a_dispatcher_that_does_not_end_is_killed() {
    let mut deaf =
        Command::new("sh").args(["-c", "trap '' TERM; while :; do sleep 1; done"]).spawn().expect("there is sh");
    let identity = Thread::open(deaf.id()).expect("it is not reaped").identity();
    let ignores_term = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", identity.tid)).expect("it is there");
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("the kernel says");
        u64::from_str_radix(ignored.trim(), 16).expect("it is a mask") & (1 << 14) != 0
    };
    while !ignores_term() {
        clock::sleep(Nanos::ms(1));
    }
    let left = Left::new(&boot(), identity);
    let begin = clock::now();
    let done = left.release(&[]);
    assert!(clock::now() >= begin + daemon::release::PATIENCE, "it has had time to end");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let said = format!("The daemon, process {}, did not end, and was killed.\n", identity.tid);
    assert!(done.stdout.starts_with(&said), "{}", done.stdout);
    assert!(left.is_restored() && deaf.wait().is_ok_and(|status| !status.success()));
}

#[test]
fn a_process_that_only_shares_the_number_of_the_dispatcher_is_left_alone() {
    let other = Child::start(Work::Sleep).expect("a child can be begun");
    let found = identity(&other);
    let left = Left::new(&boot(), Identity { start_time: found.start_time + 1, ..found });
    assert_eq!(left.release(&[]).code, Some(0));
    assert!(left.is_restored() && !other.process().has_ended());
}

#[test]
fn while_another_process_keeps_the_lock_nothing_is_done() {
    let left = Left::here();
    let held = Directory::at(left.place.0.path()).lock().expect("the lock is free");
    let done = left.release(&[]);
    assert_eq!(done.code, Some(1));
    let me = std::process::id();
    assert!(done.stdout.contains(&format!("as process {me}")), "{}", done.stdout);
    assert!(!left.is_restored() && left.table_is_there());
    drop(held);
    assert_eq!(left.release(&[]).code, Some(0));
}

#[test]
fn root_releases_the_tables_of_all_users_and_trusts_none_of_them() {
    if sys::privileges::user() != 0 {
        return eprintln!("SKIPPED: only root releases the tables of all users");
    }
    let Some(_turn) = super::run::turn() else { return };
    let other = 65_534;
    let place = Place::new();
    std::fs::set_permissions(place.0.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let session = format!("user/{other}");
    let folder = format!("{session}/tactus");
    // The table names a process of root, as if the user's dispatcher had confined it, and a dispatcher of root.
    let dispatcher = Child::start(Work::Sleep).expect("a child can be begun");
    let left = Left::within(place, &folder, &boot(), identity(&dispatcher));
    let theirs = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "60"])
        .spawn()
        .map(ReapedAtEnd);
    let Ok(theirs) = theirs else { return eprintln!("SKIPPED: there is no setpriv here to become another user") };
    super::run::soon("it sleeps as the other user", || {
        let thread = Thread::open(theirs.0.id()).expect("it is not reaped");
        thread.owner().is_ok_and(|owner| owner.real == other) && thread.status().is_ok_and(|it| it.name == "sleep")
    });
    let thread = Thread::open(theirs.0.id()).expect("it is not reaped").identity();
    let before = affinity::get(thread.tid).expect("it is there");
    let table =
        Directory::at(left.place.0.path().join(&folder)).open_table().expect("it is ours").expect("it is there");
    let original = Original { attributes: None, affinity: before, follows_cpuset: false };
    let confined = CpuSet::one(before.iter().last().expect("it runs somewhere"));
    table.record(&Entry { thread, leader: thread, original, confined, reserved: None }).expect("there is room");
    affinity::set(thread.tid, &confined).expect("root may");
    for path in [session.clone(), folder.clone(), format!("{folder}/table")] {
        chown(left.place.0.path().join(path), Some(other), Some(other)).expect("root may");
    }
    let done = left.place.run(&["release", "--all", "--json", "--run-directory", "."]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    let released = &shown["tables"][1];
    assert_eq!(released["user"], other, "{shown:#}");
    // The process of the user leaves a process of root alone.
    assert!(released["reason"].as_str().is_some_and(|why| why.contains("belongs to another user")), "{shown:#}");
    assert!(!dispatcher.process().has_ended() && !left.is_restored());
    drop(dispatcher);
    let done = left.place.run(&["release", "--all", "--json", "--run-directory", "."]);
    assert_eq!(done.code, Some(1), "a thread of root is not changed: {}", done.stderr);
    let shown: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    let released = &shown["tables"][1];
    let ends: Vec<_> = released["threads"].as_array().expect("it is a list").iter().map(|it| &it["end"]).collect();
    let expected = if before.len() == 1 { "as_before" } else { "restored" };
    assert_eq!(ends, ["failed", expected], "{shown:#}");
    assert_eq!(affinity::get(thread.tid).expect("it is there"), before);
    assert!(!left.is_restored(), "the process of root has its values still");
    let text = left.place.run(&["release", "--all", "--run-directory", "."]).stdout;
    assert!(text.contains(&format!("User {other}: thread {}: ", left.child.pid())), "{text}");
}

/// A process that is killed and reaped when the test ends.
struct ReapedAtEnd(std::process::Child);

impl Drop for ReapedAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_table_of_an_earlier_boot_is_removed_and_no_thread_changed() {
    let left = Left::new("an earlier boot of the machine", ended());
    let done = left.release(&[]);
    assert!(done.code == Some(0) && done.stdout.contains("an earlier boot of this machine"), "{done:?}");
    assert!(!left.is_restored() && !left.table_is_there());
}

#[test]
fn what_is_no_table_is_said_with_its_path_and_stays() {
    let place = Place::new();
    place.file("table", [7; 100_000]);
    let done = place.run(&["release", "--directory", "."]);
    assert_eq!(done.code, Some(1));
    let words = "table cannot be read: it does not start like a table of originals";
    assert!(done.stdout.contains(words), "{}", done.stdout);
    assert!(place.files().contains(&"table".to_string()));
}

#[test]
fn a_guardian_restores_when_its_dispatcher_dies_and_not_when_it_is_asked_to_end() {
    let dispatcher = Child::start(Work::Sleep).expect("a child can be begun");
    let left = Left::new(&boot(), identity(&dispatcher));
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
