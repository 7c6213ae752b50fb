//! The core and its front end: the death and the stop of either, and messages that the core refuses.

use super::super::Place;
use super::{HOG, Live, Now, PATIENCE, assert_restored, crowded_hog, share, soon, turn};
use daemon::directory::Directory;
use daemon::live::VERSION;
use sched::Nanos;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use sys::child::{Child, Work};
use sys::process::Process;
use sys::{clock, launch};

#[test]
fn a_front_end_reports_the_death_of_its_core_and_ends_its_command() {
    let Some(_turn) = turn() else { return };
    let script = "echo $$ > pid; exec sleep 60";
    let mut live = Live::begin(&["--period", "10ms", "--slice", "3ms", "--", "sh", "-c", script]);
    let pid = || std::fs::read_to_string(live.path("pid")).ok()?.strip_suffix('\n')?.parse::<u32>().ok();
    soon("the command runs", || pid().is_some());
    let command = Process::open(pid().unwrap()).unwrap();
    let core = live.core();
    core.kill().unwrap();
    let done = live.done();
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let said =
        format!("the daemon failed, and all threads are restored: the core, process {}, has ended: ", core.pid());
    assert!(done.stderr.contains(&said) && done.stderr.contains("signal: 9"), "{}", done.stderr);
    assert!(command.has_ended());
    live.assert_nothing_left();
}

#[test]
fn while_the_front_end_is_stopped_the_promise_is_kept_and_lost_events_are_counted() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    // Short periods, so that two seconds have more events than the journal.
    let live = Live::promise(&["--period", "100us", "--slice", "40us"], &[hog.pid()]);
    let core = live.core();
    live.process.stop().unwrap();
    // Without the promise, the hog has a quarter of the CPU.
    let share = share(hog.pid(), Nanos::s(2));
    assert!(!core.has_ended(), "{}", live.said("stderr"));
    live.process.cont().unwrap();
    let done = live.end();
    assert!(share >= 39, "{share} %, and not 40 %");
    assert!(done.stdout.contains(" events are missing, because the buffer was full."), "{}", done.stdout);
    assert!(!done.stderr.contains("is not kept"), "{}", done.stderr);
}

#[test]
fn threads_are_restored_when_the_front_end_dies_even_while_the_command_thread_hangs() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let before = Now::of_all(&[hog.pid()]);
    let promise = ["--period", "10ms", "--slice", "4ms", "--mechanism", "fifo", "--stall", "commands:1s"];
    let mut live = Live::promise(&promise, &[hog.pid()]);
    let core = live.core();
    // The guardian kills a core whose command thread hangs, but only after five seconds.
    clock::sleep(Nanos::ms(1_100));
    let begin = clock::now();
    live.process.kill().unwrap();
    assert_restored(begin, &[hog.pid()], &before);
    assert!(!core.has_ended(), "{}", live.said("stderr"));
    assert_eq!(live.done().code, Some(137));
    live.assert_nothing_left();
    assert_eq!(Now::of_all(&[hog.pid()]), before, "it stays so");
}

/// A core without a front end of this program: the test sends bytes.
struct Bare {
    begun: std::process::Child,
    process: Process,
    socket: UnixStream,
    place: Place,
}

/// Returns the greeting of a program with messages of this version.
fn greeting(version: u32) -> [u8; 12] {
    [&b"TACTUSMS"[..], &version.to_le_bytes()].concat().try_into().unwrap()
}

/// The command that requests all warnings, with its length, and the reply without warnings.
const WARNINGS: [u8; 5] = [1, 0, 0, 0, 9];
const NO_WARNINGS: [u8; 3] = [1, 7, 0];

impl Bare {
    fn begin() -> Bare {
        let place = Place::new();
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command = place.command(&["core"]);
        let number = launch::inherit(&mut command, OwnedFd::from(theirs));
        let begun = command.arg(number.to_string()).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        drop(command);
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        // The child is not reaped yet, so its pid is not reused.
        let process = Process::open(begun.id()).unwrap();
        Bare { begun, process, socket, place }
    }

    /// Starts a core that keeps promises by turns, with its table in the directory `live`.
    fn ready() -> Bare {
        let mut bare = Bare::begin();
        bare.send(&greeting(VERSION));
        let mut answer = [0; 12];
        bare.socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, greeting(VERSION));
        // The directory, the policy of turns without values of knobs, no reservations, no scheduler, no fault, and inheritance.
        let opening = [&[4][..], b"live", &[1, 8], b"gang-edf", &[0; 6]].concat();
        bare.send(&[&[u8::try_from(opening.len()).unwrap(), 0, 0, 0], &opening[..]].concat());
        let ready = bare.receive();
        assert_eq!(ready[0], 0, "it is ready: {ready:?}");
        bare
    }

    fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Returns the content of the next message.
    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).unwrap();
        let mut content = vec![0; u32::from_le_bytes(length) as usize];
        self.socket.read_exact(&mut content).unwrap();
        content
    }

    /// Waits for the end of the core. Returns its exit code and what it has said.
    fn done(mut self) -> (Option<i32>, String, Place) {
        assert!(self.process.ends_within(PATIENCE));
        let mut said = String::new();
        self.begun.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.begun.wait().unwrap().code(), said, self.place)
    }
}

#[test]
fn a_core_refuses_a_front_end_of_another_version_or_none_at_all() {
    let Some(_turn) = turn() else { return };
    let next = format!("sends messages of version {}, and this program of {VERSION}", VERSION + 1);
    let malformed = [&greeting(VERSION)[..], b"\x03\0\0\0\xff\xff\xff"].concat();
    let greetings: [(&[u8], &str); 3] = [
        (&greeting(VERSION + 1), &next),
        (b"GET / HTTP/1.1", "the other process is no process of Tactus"),
        (&malformed, "malformed message"),
    ];
    for (bytes, words) in greetings {
        let mut bare = Bare::begin();
        bare.send(bytes);
        let (code, said, place) = bare.done();
        assert!(code == Some(2) && said.contains(words), "{code:?}: {said}");
        assert_eq!(place.files(), [""; 0], "no directory is created");
    }
    // A core whose front end says nothing ends after a second.
    let (code, said, _) = Bare::begin().done();
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn malformed_commands_and_unknown_entities_do_no_harm() {
    let Some(_turn) = turn() else { return };
    let mut bare = Bare::ready();
    let child = Child::start(Work::Sleep).unwrap();
    let before = Now::of(child.pid());
    // A variant that does not exist, an id without a generation, and a name that is longer than its message.
    for malformed in [&[200, 1][..], &[4, 128, 128, 128, 128, 32], &[0, 255, 255, 127, 65]] {
        bare.send(&[&[u8::try_from(malformed.len()).unwrap(), 0, 0, 0], malformed].concat());
        let reply = bare.receive();
        assert_eq!(reply[..2], [1, 8], "malformed: {reply:?}");
    }
    // Adjust, Dismiss, ReportsWakeups and Promise, for an entity that does not exist.
    for (command, reply) in [
        (&[1, 255, 255, 255, 255, 15, 100, 100][..], &[1, 1, 1][..]),
        (&[4, 255, 255, 255, 255, 15], &[1, 2]),
        (&[7, 255, 255, 255, 255, 15], &[1, 5, 0]),
        (&[8, 255, 255, 255, 255, 15], &[1, 6, 0]),
    ] {
        bare.send(&[&[u8::try_from(command.len()).unwrap(), 0, 0, 0], command].concat());
        let found = bare.receive();
        assert_eq!(found[..reply.len()], *reply, "{command:?}: {found:?}");
    }
    bare.send(&WARNINGS);
    assert_eq!(bare.receive(), NO_WARNINGS, "the core serves");
    // A length above the limit: nothing that follows is a message.
    bare.send(&u32::MAX.to_le_bytes());
    let (code, said, place) = bare.done();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let directory = Directory::at(place.0.path().join("live"));
    soon("the lock is free", || directory.lock().is_ok());
    assert!(directory.open_table().unwrap().is_none());
    assert_eq!(Now::of(child.pid()), before);
}
