//! Conversations of the agent with a host, through a terminal of the kernel in place of a virtio-serial port.

mod host;

use coordination::wire::{FromGuest, FromHost, Hint, Refusal, Source};
use host::{Host, WAIT};
use sched::{CpuId, Nanos};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use sys::attributes::{self, Attributes, Policy};
use sys::child::Work;
use sys::scheduler_trace::SchedulerTrace;
use sys::{clock, thread};

/// An agent, which is killed at the end of the test.
struct Agent(Child);

impl Agent {
    fn start(port: &Path, options: &[&str]) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tactus-guest"));
        command.arg("--port").arg(port).args(options).stdin(Stdio::null());
        Agent(command.spawn().unwrap())
    }

    /// Requests the end, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        sys::process::Process::open(self.0.id()).unwrap().terminate().unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a directory and the path of a port in it. `None`: this kernel permits no trace.
fn place() -> Option<(tempfile::TempDir, PathBuf)> {
    if let Err(refused) = SchedulerTrace::begin(&[CpuId::new(0)], thread::current()) {
        eprintln!("SKIPPED: {refused}");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = directory.path().join("port");
    Some((directory, port))
}

/// Starts a task that is interactive: it runs for 0.2 ms, and sleeps for 9 ms.
fn typist() -> sys::child::Child {
    sys::child::Child::start(Work::Spin { busy: Nanos::us(200), idle: Nanos::ms(9) }).unwrap()
}

/// Whether a hint announces the timer of the typist.
fn announces(hint: &Hint) -> bool {
    let ahead = |expiry: sched::Instant| expiry > hint.sent && expiry < hint.sent + Nanos::ms(10);
    hint.choice.sleeps && hint.expiry.is_some_and(ahead)
}

#[test]
fn hints_follow_a_welcome_and_announce_the_timer_of_an_interactive_task() {
    let Some((_directory, port)) = place() else { return };
    let mut host = Host::attach(&port);
    let agent = Agent::start(&port, &[]);
    assert_eq!(usize::from(host.hear_hello()), sys::cpus::online().unwrap().iter().last().unwrap().index() + 1);
    host.say(FromHost::Refused(Refusal::Detached));
    clock::sleep(Nanos::ms(200));
    host.welcome();
    let _typist = typist();
    let first = host.hear_hint(|_| true);
    assert_eq!(first.number, 0, "nothing was published before the welcome");
    host.hear_hint(announces);
    assert_eq!(agent.end(), Some(0));
    host.hear(|message| (message == FromGuest::Goodbye).then_some(()));
}

#[test]
fn wake_ups_are_reported_to_a_host_that_asks_with_its_welcome_or_later() {
    let Some((_directory, port)) = place() else { return };
    let mut host = Host::attach(&port);
    let _agent = Agent::start(&port, &[]);
    host.hear_hello();
    let typist = typist();
    let woken_of = |host: &mut Host| {
        host.hear(|message| match message {
            // The first one may have set its timer before the trace began.
            FromGuest::Woken(wake_up) if wake_up.tid == typist.pid() => Some(wake_up).filter(|it| it.source.is_some()),
            _ => None,
        })
    };
    host.welcome();
    host.say(FromHost::Watch(Some(Nanos::ZERO)));
    let woken = woken_of(&mut host);
    assert_eq!((woken.source, woken.name.text().is_empty()), (Some(Source::Timer), false));
    assert!(woken.due <= woken.woken && woken.woken <= woken.ran && woken.ran <= clock::now(), "{woken:?}");
    host.say(FromHost::Watch(None));
    let end = clock::now() + WAIT;
    // On a busy host, the agent hears of it late.
    while host.read_for(Nanos::ms(200), Nanos::ms(1)).iter().any(|message| matches!(message, FromGuest::Woken(_))) {
        assert!(clock::now() < end, "the agent reports on");
    }
    host.say(FromHost::Watch(Some(Nanos::ZERO)));
    woken_of(&mut host);
}

#[test]
fn an_agent_goes_on_with_the_next_host() {
    let Some((_directory, port)) = place() else { return };
    // The agent starts before the port is there.
    let agent = Agent::start(&port, &[]);
    clock::sleep(Nanos::ms(100));
    let mut host = Host::attach(&port);
    host.hear_hello();
    host.welcome();
    host.hear_hint(|_| true);
    drop(host);
    let mut next = Host::attach(&port);
    next.hear_hello();
    next.welcome();
    assert_eq!(next.hear_hint(|_| true).number, 0);
    // Bytes that are no message.
    next.end.write_all(&[0xff; 100]).unwrap();
    let _typist = typist();
    next.hear_hint(announces);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn a_raised_task_is_restored_when_the_agent_ends_or_is_killed() {
    let Some((_directory, port)) = place() else { return };
    let typist = typist();
    let nice = || attributes::get(typist.pid()).unwrap().nice();
    if let Err(refused) = attributes::set(typist.pid(), Attributes::of(Policy::Other { nice: -1 })) {
        return eprintln!("SKIPPED: {refused}");
    }
    let awaits = |wanted, within: Nanos| {
        let end = clock::now() + within;
        while nice() != Some(wanted) && clock::now() < end {
            clock::sleep(Nanos::ms(5));
        }
        assert_eq!(nice(), Some(wanted));
    };
    for is_killed in [false, true] {
        let mut host = Host::attach(&port);
        let mut agent = Agent::start(&port, &["--prioritise", "nice"]);
        host.hear_hello();
        host.welcome();
        awaits(-20, WAIT);
        if is_killed {
            agent.0.kill().unwrap();
            agent.0.wait().unwrap();
        } else {
            assert_eq!(agent.end(), Some(0));
        }
        awaits(-1, Nanos::s(1));
    }
}
