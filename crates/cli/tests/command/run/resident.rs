//! Resident cores: the front ends come and go, and the promises stay.

use super::super::Place;
use super::{HOG, Now, PATIENCE, assert_restored, crowded_hog, hogs, last_cpu, share, soon, turn};
use daemon::directory::Directory;
use daemon::dispatch::{KeptBy, PromiseRequest, RaiseBy};
use daemon::kernel::CpuShare;
use daemon::live::{Client, Failure, ProcessId};
use sched::{CpuId, CpuSet, Nanos, Reservation};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use sys::child::Child;
use sys::clock;
use sys::process::Process;
use sys::thread::Thread;

/// The arguments of a resident core.
pub(super) const ARGUMENTS: [&str; 5] = ["core", "--listen", "core.sock", "--directory", "live"];

/// A resident core in a directory of its own.
pub(super) struct Resident {
    pub(super) begun: std::process::Child,
    pub(super) process: Process,
    pub(super) place: Place,
}

impl Resident {
    pub(super) fn begin() -> Resident {
        Resident::at(Place::new())
    }

    fn at(place: Place) -> Resident {
        let command = place.command(&ARGUMENTS);
        Resident::of(place, command)
    }

    /// Starts a core by `command` in `place`.
    pub(super) fn of(place: Place, mut command: Command) -> Resident {
        let begun = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let process = Process::open(begun.id()).unwrap();
        let resident = Resident { begun, process, place };
        soon("the core listens", || UnixStream::connect(resident.place.0.path().join("core.sock")).is_ok());
        resident
    }

    pub(super) fn attach(&self) -> Client {
        match Client::attach(&self.place.0.path().join("core.sock"), policies::find) {
            Ok(client) => client,
            Err(failure) => panic!("{}", failure.reason()),
        }
    }

    /// Ends the core in order. Asserts that it leaves nothing.
    pub(super) fn end(mut self) {
        self.process.terminate().unwrap();
        assert!(self.process.ends_within(PATIENCE));
        assert_eq!(self.begun.wait().unwrap().code(), Some(0));
        self.assert_nothing_left();
        assert!(!self.place.0.path().join("core.sock").exists());
    }

    pub(super) fn assert_nothing_left(&self) {
        let directory = Directory::at(self.place.0.path().join("live"));
        soon("the table is removed", || directory.open_table().unwrap().is_none());
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // After a failed assertion, the guardian restores the clients.
        let _ = self.process.kill();
        let _ = self.begun.wait();
    }
}

pub(super) fn request(slice: Nanos, period: Nanos) -> PromiseRequest {
    PromiseRequest {
        affinity: CpuSet::one(CpuId::new(last_cpu())),
        ..PromiseRequest::new("vm", Reservation::new(slice, period))
    }
}

#[test]
fn a_promise_is_kept_without_a_front_end_and_the_next_one_finds_and_changes_it() {
    let Some(_turn) = turn() else { return };
    let (hog, _others) = crowded_hog();
    let before = Now::of(hog.pid());
    let resident = Resident::begin();
    let process = ProcessId::from(Thread::open(hog.pid()).unwrap().identity());
    let first = resident.attach();
    assert_eq!(first.pid(), resident.process.pid());
    let entities = first.admit_process(&request(Nanos::ms(4), Nanos::ms(10)), process).unwrap();
    drop(first);
    let alone = share(hog.pid(), Nanos::s(1));
    assert!(alone >= 39, "{alone} % of the CPU without a front end");
    let second = resident.attach();
    let roster = second.read_roster();
    let [promise] = &roster.promises[..] else { panic!("{roster:?}") };
    assert_eq!((promise.process, &promise.entities), (process, &entities));
    assert_eq!(promise.request.reservation, Reservation::new(Nanos::ms(4), Nanos::ms(10)));
    second.adjust(entities[0], Nanos::ms(12), Nanos::ms(20)).unwrap();
    let changed = second.read_roster().promises[0].request.reservation;
    assert_eq!((changed.slice, changed.period), (Nanos::ms(12), Nanos::ms(20)));
    let more = share(hog.pid(), Nanos::s(1));
    assert!(more >= 59, "{more} % of the CPU after the change");
    // A later process with the same pid is another one.
    let reused = ProcessId { start_time: Some(1), ..process };
    let refused = second.admit_process(&request(Nanos::ms(1), Nanos::ms(10)), reused);
    let refused = refused.unwrap_err().reason();
    assert!(refused.reason.contains(&format!("there is no process {}", hog.pid())), "{refused}");
    second.dismiss(entities[0]);
    assert_eq!(second.read_roster().promises, []);
    soon("the hog is as before", || Now::of(hog.pid()) == before);
    resident.end();
    assert!(second.is_over());
}

#[test]
fn when_a_resident_core_ends_or_is_killed_all_threads_are_restored() {
    let Some(_turn) = turn() else { return };
    let _others = hogs();
    for is_killed in [false, true] {
        let hog = Child::start(HOG).unwrap();
        let before = Now::of_all(&[hog.pid()]);
        let mut resident = Resident::begin();
        let front = resident.attach();
        let by_attributes = KeptBy::Dispatcher(RaiseBy::Attributes);
        let request = PromiseRequest { by: by_attributes, ..request(Nanos::ms(4), Nanos::ms(10)) };
        front.admit(&request, hog.pid()).unwrap();
        soon("it is raised", || Now::of_all(&[hog.pid()]) != before);
        let begin = clock::now();
        if is_killed {
            resident.process.kill().unwrap();
        } else {
            resident.process.terminate().unwrap();
        }
        assert_restored(begin, &[hog.pid()], &before);
        assert!(resident.process.ends_within(PATIENCE));
        assert_eq!(resident.begun.wait().unwrap().code(), (!is_killed).then_some(0));
        resident.assert_nothing_left();
        soon("the front end notices", || front.is_over());
        // A core that was killed leaves its socket, and the next one replaces it.
        if is_killed {
            let listening = resident.place.0.path().join("core.sock");
            assert!(listening.exists());
            assert!(matches!(Client::attach(&listening, policies::find), Err(Failure::Refused(_))));
            let place = std::mem::replace(&mut resident.place, Place::new());
            Resident::at(place).end();
        } else {
            assert!(!resident.place.0.path().join("core.sock").exists());
        }
    }
}

#[test]
fn a_share_is_on_the_roster_and_a_second_core_does_not_start() {
    let Some(_turn) = turn() else { return };
    let resident = Resident::begin();
    let mut second = resident.place.command(&ARGUMENTS);
    let said = second.stdin(Stdio::null()).output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("another process listens at core.sock"), "{said}");
    let hog = Child::start(HOG).unwrap();
    let front = resident.attach();
    let share = CpuShare { weight: None, cap_percent: Some(50) };
    match front.share(hog.pid(), share) {
        Ok(()) => {
            drop(front);
            let front = resident.attach();
            let roster = front.read_roster();
            assert_eq!(
                roster.shares.iter().map(|it| (it.process.pid, it.share)).collect::<Vec<_>>(),
                [(hog.pid(), share)]
            );
            front.end_share(hog.pid());
            assert_eq!(front.read_roster().shares, []);
        }
        Err(refused) => eprintln!("SKIPPED: {}", refused.reason()),
    }
    resident.end();
}
