//! Boosts of real threads by hints, with a process in place of a VM and a socket in place of its port.

use coordination::wire::{FromGuest, FromHost, Hint, SIZE, Sources, VERSION};
use coordination::{Boost, Coordination, EXPIRY, GuestChoice, Protocol};
use daemon::boosts::{Boosted, VmThreads, serve};
use sched::{Class, CpuSet, Instant, Nanos, RtPriority};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use sys::attributes::{self, Attributes, Policy};
use sys::child::{Child, Work};
use sys::event::Bell;
use sys::thread::{self, Identity};
use sys::{affinity, clock};

/// Real-time priority of the boost.
const PRIORITY: u8 = 8;
/// Its effective priority, and that of the main loop, in /proc/TID/stat.
const BOOSTED: i32 = -1 - PRIORITY as i32;
const CARRIES: i32 = BOOSTED - 1;
/// Priority of the observer: a boost is shorter than an ordinary thread may wait for a CPU.
const OBSERVER: u32 = 50;
/// The vCPUs of both tests are on one CPU, at one priority.
static CPU: Mutex<()> = Mutex::new(());
/// Maximum time until a change is seen on a busy host.
const SEEN: Nanos = Nanos::ms(500);

/// A VM: a vCPU that always runs, and a main loop.
struct Vm {
    vcpu: Child,
    main_loop: Child,
    threads: VmThreads,
}

impl Vm {
    fn start() -> Vm {
        let cpu = affinity::get(thread::current()).unwrap().iter().last().unwrap();
        let start = |work| {
            let child = Child::start(work).unwrap();
            affinity::set(child.pid(), &CpuSet::one(cpu)).unwrap();
            // The tests may run at another nice value.
            attributes::set(child.pid(), Attributes::of(Policy::Other { nice: 0 })).unwrap();
            let start_time = thread::status(child.pid()).unwrap().start_time;
            let identity = Identity { tid: child.pid(), start_time };
            (child, identity)
        };
        let (vcpu, one) = start(Work::Spin { busy: Nanos::s(60), idle: Nanos::ZERO });
        let (main_loop, other) = start(Work::Sleep);
        Vm { vcpu, main_loop, threads: VmThreads { vcpus: vec![one], carriers: vec![other] } }
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
    let task_boost = is_urgent.then(|| with(Nanos::ZERO).boost);
    let choice = GuestChoice { runs: true, task_boost, waits: false, sleeps: !is_urgent, locked: false };
    FromGuest::Hint(Hint { vcpu: 0, number, sent: clock::now(), choice, expiry, sources: Sources::default() })
}

/// Serves the port of a VM while `act` speaks for its agent. `None`: this process may not use real-time priorities.
fn served(budget: Nanos, act: impl FnOnce(&Vm, &mut UnixStream)) -> Option<Boosted> {
    let _alone = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let trial = Child::start(Work::Sleep).unwrap();
    if let Err(refused) = attributes::set(trial.pid(), Attributes::of(Policy::Fifo { priority: 1 })) {
        eprintln!("SKIPPED: {refused}");
        return None;
    }
    let (vm, (ours, mut theirs), end) = (Vm::start(), UnixStream::pair().unwrap(), Bell::new().unwrap());
    let before = attributes::get(thread::current()).unwrap();
    let found = std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(ours, &vm.threads, with(budget), &end).unwrap());
        attributes::set(thread::current(), Attributes::raised(OBSERVER)).unwrap();
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&vm, &mut theirs)));
        attributes::set(thread::current(), before).unwrap();
        end.ring();
        let found = serving.join().unwrap();
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        found
    });
    assert!(vm.priority() >= 0, "nothing is lent any more");
    assert_eq!(attributes::get(vm.vcpu.pid()).unwrap().nice(), Some(0), "no attribute has changed");
    Some(found)
}

fn answer(port: &mut UnixStream) -> FromHost {
    let mut bytes = [0; SIZE];
    port.read_exact(&mut bytes).unwrap();
    FromHost::read(&bytes).unwrap()
}

fn hello(vcpus: u16) -> [u8; SIZE] {
    FromGuest::Hello { vcpus, versions: (VERSION, VERSION), boot: 1 }.bytes()
}

#[test]
fn a_vcpu_is_boosted_by_a_hint_and_before_a_timer_and_for_a_short_time() {
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
    let Some(Boosted { hints, boosts, boosted, dropped }) = found else { return };
    assert_eq!((hints, boosts, dropped), (3, 2, 0));
    assert!(boosted > Nanos::ZERO && boosted <= Nanos::ms(200), "{boosted}");
}

#[test]
fn a_guest_that_floods_its_port_stays_within_its_budget_and_its_vcpu_comes_back() {
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
