//! Boosts of real threads by hints, with processes in place of a VM and a socket in place of its port; the booster and the guardian of its loans
//! are stopped and killed.

use coordination::wire::{FromGuest, FromHost, Hint, SIZE, Sources, VERSION};
use coordination::{Boost, Coordination, EXPIRY, GuestChoice, Protocol};
use daemon::boosts::{Boosted, COMMAND, CarrierWatch, Observed, Options, Over, VmThreads, serve};
use daemon::guardian::this_program;
use sched::{Class, CpuId, CpuSet, Instant, Nanos, RtPriority};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, ExitCode, Stdio};
use sys::attributes::{self, Attributes, Policy};
use sys::cgroup::Hierarchy;
use sys::child::{Child, Work};
use sys::event::Bell;
use sys::process::Process;
use sys::thread::{self, Identity, Thread};
use sys::{affinity, clock};

/// Real-time priority of the boost.
const PRIORITY: u8 = 8;
/// Its effective priority, and that of the main loop, in /proc/TID/stat.
const BOOSTED: i32 = -1 - PRIORITY as i32;
const CARRIES: i32 = BOOSTED - 1;
/// Priority of the observer: a boost is shorter than an ordinary thread may wait for a CPU.
const OBSERVER: u32 = 50;
/// Maximum time after which no thread is boosted any more, from the last hint on: the expiry, 2 ms, and the way to the observer.
const LAPSED: Nanos = Nanos::ms(20);
/// Maximum time until a change is seen on a busy host.
const SEEN: Nanos = Nanos::ms(500);

/// A VM: vCPUs that always run, and a main loop.
struct Vm {
    /// The first vCPU.
    vcpu: Child,
    _others: Vec<Child>,
    main_loop: Child,
    threads: VmThreads,
}

impl Vm {
    /// A VM with one vCPU.
    fn start() -> Vm {
        Vm::start_on(&affinity::get(thread::current()).unwrap().iter().last().map(|cpu| vec![cpu]).unwrap())
    }

    /// A VM with a vCPU on each of these CPUs.
    fn start_on(cpus: &[CpuId]) -> Vm {
        Vm::start_with(cpus, Work::Sleep)
    }

    /// A VM whose main loop has this work.
    fn start_with(cpus: &[CpuId], work: Work) -> Vm {
        let start = |work, cpu| {
            let child = Child::start(work).unwrap();
            affinity::set(child.pid(), &CpuSet::one(cpu)).unwrap();
            // The tests may run at another nice value.
            attributes::set(child.pid(), Attributes::of(Policy::Other { nice: 0 })).unwrap();
            let start_time = thread::status(child.pid()).unwrap().start_time;
            let identity = Identity { tid: child.pid(), start_time };
            (child, identity)
        };
        let spin = Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO };
        let (mut children, vcpus): (Vec<Child>, Vec<Identity>) = cpus.iter().map(|&cpu| start(spin, cpu)).unzip();
        let (main_loop, other) = start(work, cpus[0]);
        let vcpu = children.remove(0);
        Vm { vcpu, _others: children, main_loop, threads: VmThreads { vcpus, carriers: vec![other] } }
    }

    fn priority(&self) -> i32 {
        thread::status(self.vcpu.pid()).unwrap().priority
    }

    /// Waits until the vCPU has this priority, at most until `end`.
    fn awaits(&self, wanted: i32, end: Instant) -> Instant {
        while self.priority() != wanted {
            assert!(clock::now() < end, "the vCPU has priority {} instead of {wanted}", self.priority());
            clock::sleep(Nanos::us(200));
        }
        clock::now()
    }
}

fn with(budget: Nanos) -> Coordination {
    let priority = RtPriority::new(PRIORITY).unwrap();
    let boost = Boost::like(Class::RoundRobin(priority)).unwrap();
    // Only the budget ends a boost that is renewed.
    Coordination { boost, budget, limit: Nanos::s(1), window: Nanos::s(1), ..Coordination::new(Protocol::S0) }
}

fn hint(number: u32, is_urgent: bool, expiry: Option<Instant>) -> FromGuest {
    hint_of(0, number, is_urgent, expiry)
}

fn hint_of(vcpu: u16, number: u32, is_urgent: bool, expiry: Option<Instant>) -> FromGuest {
    let task_boost = is_urgent.then(|| with(Nanos::ZERO).boost);
    let choice = GuestChoice { runs: true, task_boost, waits: false, sleeps: !is_urgent, locked: false };
    FromGuest::Hint(Hint { vcpu, number, sent: clock::now(), choice, expiry, sources: Sources::default() })
}

/// Serves the port of a VM while `act` speaks for its agent. `None`: this process may not use real-time priorities.
fn served(budget: Nanos, act: impl FnOnce(&Vm, &mut UnixStream)) -> Option<Boosted> {
    served_with(None, budget, act)
}

/// Does the same, with observers at this socket.
fn served_with(
    observers: Option<&UnixListener>,
    budget: Nanos,
    act: impl FnOnce(&Vm, &mut UnixStream),
) -> Option<Boosted> {
    if !may_raise() {
        return None;
    }
    let (vm, (ours, mut theirs), end) = (Vm::start(), UnixStream::pair().unwrap(), Bell::new().unwrap());
    let found = std::thread::scope(|scope| {
        let serving = || {
            let options =
                Options { with: with(budget), program: this_program(), end: &end, report: &|_| {}, observers };
            serve(ours, &vm.threads, None, options).unwrap()
        };
        let serving = scope.spawn(serving);
        let acted = observing(|| act(&vm, &mut theirs));
        end.ring();
        let (found, over) = serving.join().unwrap();
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(over, Over::Requested);
        found
    });
    assert!(vm.priority() >= 0, "nothing is lent any more");
    assert_eq!(attributes::get(vm.vcpu.pid()).unwrap().nice(), Some(0), "no attribute has changed");
    Some(found)
}

/// Whether this process may use real-time priorities.
fn may_raise() -> bool {
    let trial = Child::start(Work::Sleep).unwrap();
    match attributes::set(trial.pid(), Attributes::of(Policy::Fifo { priority: 1 })) {
        Ok(()) => true,
        Err(refused) => {
            eprintln!("SKIPPED: {refused}");
            false
        }
    }
}

/// Runs `act` at the priority of the observer.
fn observing(act: impl FnOnce()) -> std::thread::Result<()> {
    let before = attributes::get(thread::current()).unwrap();
    attributes::set(thread::current(), Attributes::raised(OBSERVER)).unwrap();
    let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    attributes::set(thread::current(), before).unwrap();
    acted
}

/// The role of a process that boosts: its standard input is the port, and the words are the vCPUs and the main loop.
pub(crate) fn booster(words: &[&str]) -> ExitCode {
    let identity = |word: &&str| {
        let (tid, start_time) = word.split_once(':').unwrap();
        Identity { tid: tid.parse().unwrap(), start_time: start_time.parse().unwrap() }
    };
    let mut vcpus: Vec<Identity> = words.iter().map(identity).collect();
    let threads = VmThreads { carriers: vec![vcpus.pop().unwrap()], vcpus };
    let port = UnixStream::from(std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap());
    let end = Bell::new().unwrap();
    let options =
        Options { with: with(Nanos::ms(500)), program: this_program(), end: &end, report: &|_| {}, observers: None };
    match serve(port, &threads, None, options) {
        Ok((_, Over::Closed | Over::Ended)) => ExitCode::SUCCESS,
        other => panic!("{other:?}"),
    }
}

/// A process that boosts a VM.
struct Booster {
    process: Process,
    port: UnixStream,
    vcpus: u16,
    number: u32,
}

impl Booster {
    fn start(vm: &Vm) -> Booster {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let words = vm.threads.vcpus.iter().chain(&vm.threads.carriers);
        let words = words.map(|it| format!("{}:{}", it.tid, it.start_time));
        let mut command = Command::new(this_program());
        command.arg("booster").args(words).stdin(Stdio::from(OwnedFd::from(theirs)));
        // The process is reaped by its handle.
        let process = Process::open(command.spawn().unwrap().id()).unwrap();
        let vcpus = u16::try_from(vm.threads.vcpus.len()).unwrap();
        let mut booster = Booster { process, port: ours, vcpus, number: 0 };
        booster.port.write_all(&hello(vcpus)).unwrap();
        assert!(matches!(answer(&mut booster.port), FromHost::Welcome { .. }));
        booster
    }

    /// Says that an urgent task runs on each vCPU.
    fn hint(&mut self) -> Instant {
        let sent = clock::now();
        let hints = (0..self.vcpus).flat_map(|vcpu| hint_of(vcpu, self.number, true, None).bytes());
        self.port.write_all(&hints.collect::<Vec<u8>>()).unwrap();
        self.number += 1;
        sent
    }

    /// Returns the guardian of the loans.
    fn guardian(&self) -> Process {
        let is_it = |pid: &u32| {
            let words = Thread::open(*pid).and_then(|thread| thread.command_line()).unwrap_or_default();
            words.get(1).is_some_and(|word| word == COMMAND)
                && words.iter().any(|word| word.starts_with(&format!("{}:", self.process.pid())))
        };
        let pid = thread::processes().unwrap().into_iter().find(is_it).expect("the loans have a guardian");
        Process::open(pid).unwrap()
    }
}

impl Drop for Booster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        assert!(self.process.ends_within(Nanos::s(5)));
        let _ = self.process.reap();
    }
}

fn answer(port: &mut UnixStream) -> FromHost {
    let mut bytes = [0; SIZE];
    port.read_exact(&mut bytes).unwrap();
    FromHost::read(&bytes).unwrap()
}

fn hello(vcpus: u16) -> [u8; SIZE] {
    FromGuest::Hello { vcpus, versions: (VERSION, VERSION), boot: 1 }.bytes()
}

pub(crate) fn a_vcpu_is_boosted_by_a_hint_and_before_a_timer_and_for_a_short_time() {
    let found = served(Nanos::ms(200), |vm, port| {
        port.write_all(&hello(3)).unwrap();
        assert!(matches!(answer(port), FromHost::Refused(_)), "the VM has one vCPU");
        port.write_all(&hello(1)).unwrap();
        assert!(matches!(answer(port), FromHost::Welcome { version: VERSION, .. }));
        // An urgent task runs, and no other hint follows.
        let sent = clock::now();
        port.write_all(&hint(0, true, None).bytes()).unwrap();
        vm.awaits(BOOSTED, sent + SEEN);
        let carries = thread::status(vm.main_loop.pid()).unwrap().priority;
        assert!(carries == CARRIES || clock::now() > sent + EXPIRY, "the main loop has priority {carries}");
        let end = vm.awaits(20, sent + SEEN);
        assert!(end >= sent + EXPIRY, "it ended after {}", end.since(sent));
        // The task sleeps until a timer.
        let expiry = clock::now() + Nanos::ms(60);
        port.write_all(&hint(1, false, Some(expiry)).bytes()).unwrap();
        clock::sleep(Nanos::ms(30));
        assert_eq!(vm.priority(), 20, "the timer is still ahead");
        let begin = vm.awaits(BOOSTED, expiry + SEEN);
        assert!(begin + Nanos::ms(1) >= expiry, "the boost began {} before the timer", expiry.since(begin));
        port.write_all(&hint(2, false, None).bytes()).unwrap();
        vm.awaits(20, clock::now() + SEEN);
    });
    let Some(Boosted { hints, boosts, boosted, dropped, .. }) = found else { return };
    assert_eq!((hints, boosts, dropped), (3, 2, 0));
    assert!(boosted > Nanos::ZERO && boosted <= Nanos::ms(200), "{boosted}");
}

/// The main loop sleeps until its timers, and no agent says anything.
pub(crate) fn a_vcpu_without_an_agent_is_boosted_when_its_main_loop_wakes() {
    if !may_raise() {
        return;
    }
    let cpu = affinity::get(thread::current()).unwrap().iter().last().unwrap();
    let vm = Vm::start_with(&[cpu], Work::Spin { busy: Nanos::us(20), idle: Nanos::ms(5) });
    let watch = match CarrierWatch::begin(&vm.threads) {
        Ok(watch) => watch,
        Err(refused) => return eprintln!("SKIPPED: {refused}"),
    };
    // The ring is full before the first look, and reports nothing then.
    clock::sleep(Nanos::s(2));
    let ((ours, _theirs), end) = (UnixStream::pair().unwrap(), Bell::new().unwrap());
    let (found, over) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let with = with(Nanos::ms(500));
            let options = Options { with, program: this_program(), end: &end, report: &|_| {}, observers: None };
            serve(ours, &vm.threads, Some(watch), options).unwrap()
        });
        let seen = observing(|| {
            let begin = clock::now();
            vm.awaits(BOOSTED, begin + SEEN);
            vm.awaits(20, clock::now() + LAPSED);
            clock::sleep_until(begin + Nanos::s(1));
        });
        end.ring();
        let served = serving.join().unwrap();
        seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served
    });
    assert_eq!((over, found.hints), (Over::Requested, 0));
    // Some 200 wake-ups in a second, and 0.3 ms after each.
    assert!(found.interrupts > 50 && found.boosts > 50, "{found:?}");
    assert!(found.boosted > Nanos::ms(5) && found.boosted < Nanos::ms(200), "{found:?}");
    assert!(vm.priority() >= 0, "nothing is lent any more");
}

pub(crate) fn an_observer_hears_the_agent_of_a_boosted_vm_and_asks_it_for_wake_ups() {
    let address = SocketAddr::from_abstract_name(format!("tactus-test-{}", std::process::id())).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    served_with(Some(&listener), Nanos::ms(500), |_, port| {
        port.write_all(&hello(1)).unwrap();
        assert!(matches!(answer(port), FromHost::Welcome { .. }));
        let observe = |least| Observed::begin(UnixStream::connect_addr(&address).unwrap(), least).unwrap();
        let mut hears = |observed: &mut Observed, said: FromGuest| {
            port.write_all(&said.bytes()).unwrap();
            let (mut heard, end) = (None, clock::now() + SEEN);
            while heard.is_none() && clock::now() < end {
                clock::sleep(Nanos::ms(1));
                assert!(observed.read(|message, at| heard = (message == said).then_some(at)));
            }
            assert!(heard.is_some_and(|at| at <= clock::now()), "{said:?} is passed on");
        };
        let mut first = observe(Nanos::ms(2));
        hears(&mut first, hint(1, false, None));
        let mut second = observe(Nanos::ms(3));
        hears(&mut second, hint(2, false, None));
        while first.read(|_, _| {}) {
            clock::sleep(Nanos::ms(1));
        }
        drop(second);
        for least in [Some(Nanos::ms(2)), Some(Nanos::ms(3)), None] {
            assert_eq!(answer(port), FromHost::Watch(least));
        }
    });
}

pub(crate) fn a_guest_that_floods_its_port_stays_within_its_budget_and_its_vcpu_comes_back() {
    let budget = Nanos::ms(20);
    let found = served(budget, |vm, port| {
        port.write_all(&hint(0, true, None).bytes()).unwrap();
        let end = clock::now() + Nanos::ms(20);
        while clock::now() < end {
            assert_eq!(vm.priority(), 20, "no hint counts before a welcome");
            clock::sleep(Nanos::us(500));
        }
        port.write_all(&hello(1)).unwrap();
        assert!(matches!(answer(port), FromHost::Welcome { .. }));
        port.set_nonblocking(true).unwrap();
        let (begin, mut number) = (clock::now(), 0);
        while clock::now() < begin + Nanos::ms(900) {
            let bytes: Vec<u8> =
                (0..1_000).flat_map(|nth| hint(number + nth, true, None).bytes()).chain([7; 9]).collect();
            // The host takes a part of them.
            let _ = port.write(&bytes);
            number += 1_000;
            clock::sleep(Nanos::ms(1));
        }
        vm.awaits(20, clock::now() + SEEN);
    });
    let Some(Boosted { hints, boosted, .. }) = found else { return };
    assert!(hints > 100, "{hints}");
    // Two windows may be touched, and a decision may be a little late.
    assert!(boosted > Nanos::ZERO && boosted <= budget.saturating_mul(3), "{boosted} of {budget} in a second");
}

pub(crate) fn a_booster_that_is_stopped_or_killed_leaves_no_thread_boosted() {
    if !may_raise() {
        return;
    }
    // No CPU is left for a donor.
    let vm = Vm::start_on(&affinity::get(thread::current()).unwrap().iter().collect::<Vec<CpuId>>());
    let acted = observing(|| {
        for round in 0..10 {
            let mut booster = Booster::start(&vm);
            booster.hint();
            vm.awaits(BOOSTED, clock::now() + SEEN);
            let sent = booster.hint();
            // The second hint is read during the boost.
            clock::sleep(Nanos::us(500 * round));
            if round % 2 == 0 {
                booster.process.stop().unwrap();
                vm.awaits(20, sent + LAPSED);
                booster.process.cont().unwrap();
                // Its loans have ended, and it begins new ones.
                let end = clock::now() + SEEN;
                while vm.priority() != BOOSTED {
                    assert!(clock::now() < end, "a booster that goes on boosts again");
                    booster.hint();
                    clock::sleep(Nanos::ms(1));
                }
                booster.process.kill().unwrap();
                vm.awaits(20, clock::now() + LAPSED);
            } else {
                booster.process.kill().unwrap();
                vm.awaits(20, sent + LAPSED);
            }
            let carries = thread::status(vm.main_loop.pid()).unwrap().priority;
            assert!(carries >= 0, "the main loop has priority {carries}");
        }
    });
    acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(attributes::get(vm.vcpu.pid()).unwrap().nice(), Some(0), "no attribute has changed");
}

pub(crate) fn after_a_kill_of_the_whole_control_group_of_a_booster_no_thread_stays_boosted() {
    if !may_raise() {
        return;
    }
    for hierarchy in [Hierarchy::one("freezer"), Hierarchy::two()] {
        let name = format!("tactus-test-boosts-{}", std::process::id());
        let made = hierarchy.and_then(|hierarchy| hierarchy.open("/")?.create(&name));
        let Ok(whole) = made.inspect_err(|error| eprintln!("SKIPPED: {error}")) else { continue };
        let vm = Vm::start_on(&affinity::get(thread::current()).unwrap().iter().collect::<Vec<CpuId>>());
        let mut booster = Booster::start(&vm);
        whole.add_process(booster.process.pid()).unwrap();
        // Loans that begin anew have a guardian that begins in the group.
        let first = replace_guardian(&mut booster, &vm);
        let guardian = booster.guardian();
        assert!(groups_of(&[first.pid()]).is_empty(), "the booster removes the group of a guardian that has ended");
        let end = clock::now() + Nanos::s(10);
        while whole.processes().unwrap().contains(&guardian.pid()) {
            assert!(clock::now() < end, "the guardian leaves the group");
            clock::sleep(Nanos::ms(20));
        }
        let acted = observing(|| {
            let sent = booster.hint();
            vm.awaits(BOOSTED, sent + SEEN);
            let sent = booster.hint();
            for pid in whole.processes().unwrap() {
                Process::open(pid).unwrap().kill().unwrap();
            }
            vm.awaits(20, sent + LAPSED);
        });
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(guardian.ends_within(Nanos::s(5)), "a guardian ends with its booster");
        drop(booster);
        let left = groups_of(&[first.pid(), guardian.pid()]);
        assert!(left.is_empty(), "groups are left: {left:?}");
    }
}

/// Kills the guardian of the loans, and waits until the VM is boosted with a new one. Returns the first.
fn replace_guardian(booster: &mut Booster, vm: &Vm) -> Process {
    let first = booster.guardian();
    first.kill().unwrap();
    assert!(first.ends_within(Nanos::s(5)));
    let acted = observing(|| {
        let end = clock::now() + Nanos::s(5);
        while vm.priority() != BOOSTED {
            assert!(clock::now() < end, "a new guardian watches");
            booster.hint();
            clock::sleep(Nanos::ms(1));
        }
    });
    acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    first
}

/// Returns the names of the groups of these guardians, directly below the roots of the hierarchies.
fn groups_of(guardians: &[u32]) -> Vec<String> {
    let hierarchies = ["freezer", "memory", "pids"].map(Hierarchy::one).into_iter().chain([Hierarchy::two()]);
    let names = hierarchies.flat_map(|hierarchy| hierarchy?.open("/")?.names()).flatten();
    let is_theirs = |name: &String| guardians.iter().any(|pid| name.starts_with(&format!("tactus-guardian-{pid}-")));
    names.filter(is_theirs).collect()
}

pub(crate) fn a_guardian_of_loans_that_is_killed_is_replaced() {
    if !may_raise() {
        return;
    }
    let vm = Vm::start();
    let mut booster = Booster::start(&vm);
    let first = replace_guardian(&mut booster, &vm);
    assert!(Thread::open(first.pid()).is_err(), "the booster has reaped its guardian");
    let second = booster.guardian();
    assert_ne!(second.pid(), first.pid());
    drop(booster);
    assert!(second.ends_within(Nanos::s(5)), "a guardian ends with its booster");
    vm.awaits(20, clock::now() + SEEN);
}
