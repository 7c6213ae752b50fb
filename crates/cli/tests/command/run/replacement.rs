//! Replacement of a resident core by another program in the same process (SIGHUP).

use super::super::Place;
use super::resident::{ARGUMENTS, Resident, request};
use super::{HOG, Now, PATIENCE, Watching, assert_restored, chance, hogs, signal_to, soon, turn};
use daemon::directory::Directory;
use daemon::dispatch::{KeptBy, PromiseRequest};
use daemon::kernel::CpuShare;
use daemon::live::Client;
use sched::{CpuSet, Nanos};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use sys::attributes::{self, Attributes};
use sys::cgroup::Hierarchy;
use sys::child::Child;
use sys::process::Process;
use sys::{affinity, clock};
use trace::Event;

/// Maximum time without dispatch: the median of the replacements, and each one. In a debug build on a machine of half the
/// speed, the times are 110 to 270 ms, so the bound of each one was raised after a look.
const GAP: Nanos = Nanos::ms(200);
const GAP_OF_EACH: Nanos = Nanos::ms(400);

/// Three processes, each with a promise or a share of its own kind, and hogs.
struct Clients {
    dispatched: Child,
    reserved: Child,
    capped: Child,
    before: Vec<Now>,
    _others: Vec<Child>,
}

impl Clients {
    fn begin() -> Clients {
        let [dispatched, reserved, capped] = [0; 3].map(|_| Child::start(HOG).unwrap());
        let others = hogs();
        let before = Now::of_all(&[dispatched.pid(), reserved.pid(), capped.pid()]);
        Clients { dispatched, reserved, capped, before, _others: others }
    }

    fn pids(&self) -> [u32; 3] {
        [self.dispatched.pid(), self.reserved.pid(), self.capped.pid()]
    }

    /// Makes the promises, and gives the share if this host permits it.
    fn ask(&self, front: &Client) {
        let reserved = PromiseRequest {
            by: KeptBy::Kernel,
            affinity: CpuSet::ALL,
            ..PromiseRequest::new("reserved", request(Nanos::ms(1), Nanos::ms(20)).reservation)
        };
        front.admit(&request(Nanos::ms(4), Nanos::ms(20)), self.dispatched.pid()).unwrap();
        front.admit(&reserved, self.reserved.pid()).unwrap_or_else(|refused| panic!("{}", refused.reason()));
        if let Err(refused) = front.share(self.capped.pid(), CpuShare { weight: None, cap_percent: Some(30) }) {
            eprintln!("SKIPPED the share: {}", refused.reason());
        }
        soon("the client is confined", || self.is_dispatched());
    }

    fn is_dispatched(&self) -> bool {
        affinity::get(self.dispatched.pid()).is_ok_and(|cpus| cpus.len() == 1)
    }

    fn is_reserved(&self) -> bool {
        attributes::get(self.reserved.pid()).unwrap() == Attributes::reserved(Nanos::ms(1), Nanos::ms(20))
    }

    /// Returns the control group with the share.
    fn group(&self) -> String {
        Hierarchy::one("cpu").and_then(|cpu| cpu.path_of(self.capped.pid())).unwrap_or_default()
    }
}

fn hang_up(core: &Process) {
    signal_to("HUP", &core.pid().to_string());
}

/// Returns the pids of the guardian and its standby.
fn guardians(resident: &Resident) -> Option<[u32; 2]> {
    let table = Directory::at(resident.place.0.path().join("live")).open_table().ok().flatten()?;
    let [guardian, standby] = [table.guardian()?, table.standby()?];
    let lives = |identity| Process::open_as(identity).is_ok_and(|process| !process.has_ended());
    (guardian != standby && lives(guardian) && lives(standby)).then_some([guardian.tid, standby.tid])
}

/// Returns the number of children of process `pid` that have ended and are not reaped.
fn zombies(pid: u32) -> usize {
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_dead = |pid: &&str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        status.contains(") Z ")
    };
    all.split_whitespace().filter(is_dead).count()
}

#[test]
fn reservations_and_shares_stay_while_a_core_is_replaced_and_its_dispatch_resumes_soon() {
    let Some(_turn) = turn() else { return };
    let clients = Clients::begin();
    let resident = Resident::begin();
    let front = resident.attach();
    clients.ask(&front);
    soon("a guardian stands by", || guardians(&resident).is_some());
    let (former, group, before) = (guardians(&resident).unwrap(), clients.group(), front.read_roster());
    let mut gaps = Vec::new();
    for nth in 1..=3 {
        let watching = Watching::begin();
        let begin = clock::now();
        hang_up(&resident.process);
        // The client is confined to a CPU except between the suspension and the next admission.
        let (mut left, mut back) = (None, None);
        while back.is_none() {
            assert!(clock::now() < begin + PATIENCE, "the dispatch does not resume");
            assert!(clients.is_reserved(), "a reservation stays");
            assert_eq!(clients.group(), group, "a share stays");
            match (left, clients.is_dispatched()) {
                (None, false) => left = Some(clock::now()),
                (Some(_), true) => back = Some(clock::now()),
                _ => clock::sleep(Nanos::us(300)),
            }
        }
        drop(watching);
        let gap = back.unwrap().since(left.unwrap());
        eprintln!("replacement {nth}: no dispatch for {gap}, after {}", left.unwrap().since(begin));
        assert!(gap <= GAP_OF_EACH, "no dispatch for {gap}");
        gaps.push(gap);
        let front = resident.attach();
        assert_eq!(front.pid(), resident.process.pid());
        let after = front.read_roster();
        let of = |roster: &daemon::live::Roster| {
            roster.promises.iter().map(|it| (it.process, it.request.clone())).collect::<Vec<_>>()
        };
        assert_eq!((of(&after), &after.shares), (of(&before), &before.shares));
        let missed = front.read_news().events.into_iter().filter(|(_, event)| {
            let of_client = after.promises[0].entities[0];
            matches!(event, Event::Period { entity, delivered: Nanos::ZERO, throughout: true, .. } if *entity == of_client)
        });
        let (missed, periods) = (missed.count() as u64, gap.as_ns() / 20_000_000);
        assert!(missed >= periods, "{missed} missed periods in {gap}");
        let served = super::share(clients.dispatched.pid(), Nanos::s(1));
        assert!(served >= 19, "{served} % of the CPU after replacement {nth}");
    }
    gaps.sort_unstable();
    assert!(gaps[1] <= GAP, "no dispatch for {gaps:?}");
    soon("the guardians are of the new program", || {
        guardians(&resident).is_some_and(|now| !now.iter().any(|pid| former.contains(pid)))
    });
    soon("the former guardians are reaped", || zombies(resident.process.pid()) == 0);
    let begin = clock::now();
    resident.process.kill().unwrap();
    assert_restored(begin, &clients.pids(), &clients.before);
    soon("the share ends", || clients.group() != group || group.is_empty());
    resident.assert_nothing_left();
}

/// Lines of a shell script that answers like a program which can take over a state.
const TRIAL: &str = "test \"$2\" = --handover-version && echo 1 && exit";

/// Starts a core whose program can be replaced by another file: a copy in the directory of the test.
fn begin_copy() -> (Resident, PathBuf) {
    let place = Place::new();
    let copy = place.0.path().join("tactus");
    let original = Path::new(env!("CARGO_BIN_EXE_tactus"));
    // The build and the directory may be on two file systems.
    std::fs::hard_link(original, &copy).or_else(|_| std::fs::copy(original, &copy).map(drop)).unwrap();
    let mut command = Command::new(&copy);
    command.args(ARGUMENTS).current_dir(place.0.path());
    (Resident::of(place, command), copy)
}

/// Replaces the program at `path` by a shell script.
fn install(path: &Path, script: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_core_is_not_replaced_by_a_program_that_does_not_run() {
    let Some(_turn) = turn() else { return };
    let clients = Clients::begin();
    let (mut resident, program) = begin_copy();
    let front = resident.attach();
    clients.ask(&front);
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    let makes: [&dyn Fn(&Path); 3] = [&remove, &|path| install(path, "exit 7"), &|path| install(path, "echo tactus 9")];
    for (nth, make) in makes.into_iter().enumerate() {
        make(&program);
        hang_up(&resident.process);
        soon("the reason is a warning", || front.warnings().len() == nth + 1);
        assert!(clients.is_reserved() && clients.is_dispatched());
        assert!(!front.is_over());
    }
    let begin = clock::now();
    resident.process.terminate().unwrap();
    assert_restored(begin, &clients.pids(), &clients.before);
    assert_eq!(resident.begun.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    resident.begun.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let trial = "`core --handover-version`";
    let (ended, silent) = (format!("{trial} has ended with exit status: 7"), format!("{trial} prints no version"));
    let reasons = ["No such file or directory", &ended, &silent];
    assert!(reasons.iter().all(|reason| said.contains(reason)), "{said}");
    assert!(said.contains("cannot replace the core by"), "{said}");
}

#[test]
fn all_threads_are_restored_if_the_next_program_fails_or_is_killed() {
    let Some(_turn) = turn() else { return };
    let (mut resident, program) = begin_copy();
    let clients = Clients::begin();
    clients.ask(&resident.attach());
    install(&program, &format!("{TRIAL}\nexit 1"));
    hang_up(&resident.process);
    assert!(resident.process.ends_within(PATIENCE));
    assert_restored(clock::now(), &clients.pids(), &clients.before);
    assert_eq!(resident.begun.wait().unwrap().code(), Some(1));
    resident.assert_nothing_left();
    let mut below = chance();
    for _ in 0..10 {
        let resident = Resident::begin();
        clients.ask(&resident.attach());
        soon("a guardian stands by", || guardians(&resident).is_some());
        hang_up(&resident.process);
        // A second request is ignored or carried out, but never ends the core.
        if below(2) == 0 {
            hang_up(&resident.process);
        }
        clock::sleep(Nanos::us(below(200_000)));
        assert!(!resident.process.has_ended());
        let begin = clock::now();
        // SIGTERM ends the former program, the process in between, or the new program.
        let ends: fn(&Process) -> _ = if below(2) == 0 { Process::kill } else { Process::terminate };
        ends(&resident.process).unwrap();
        assert_restored(begin, &clients.pids(), &clients.before);
        assert!(resident.process.ends_within(PATIENCE));
        resident.assert_nothing_left();
    }
}

#[test]
fn a_program_that_cannot_read_the_state_restores_all_threads_and_begins_without_promises() {
    let Some(_turn) = turn() else { return };
    let clients = Clients::begin();
    let (resident, program) = begin_copy();
    clients.ask(&resident.attach());
    // The next program finds an empty state.
    let own = env!("CARGO_BIN_EXE_tactus");
    let empty = "for last; do :; done\n: > /proc/self/fd/${last%%,*}";
    install(&program, &format!("{TRIAL}\n{empty}\nexec {own} \"$@\""));
    let begin = clock::now();
    hang_up(&resident.process);
    soon("the core is replaced", || attributes::get(clients.reserved.pid()).unwrap() == clients.before[1].attributes);
    let front = resident.attach();
    assert_eq!((front.pid(), front.read_roster()), (resident.process.pid(), daemon::live::Roster::default()));
    assert_restored(begin, &clients.pids(), &clients.before);
    clients.ask(&front);
    let begin = clock::now();
    resident.process.kill().unwrap();
    assert_restored(begin, &clients.pids(), &clients.before);
}
