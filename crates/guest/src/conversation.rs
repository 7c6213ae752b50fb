//! The conversation with the host.
//!
//! ```text
//! no port ──▶ port: hello every second ──▶ welcome: trace and hints ──▶ host closes its end: hello every second
//!                         └──▶ refused: hello every ten seconds
//! ```
//!
//! Without a host that reads hints, nothing is traced.

use crate::Failure;
use crate::follower::Follower;
use crate::options::Options;
use crate::port::{self, Port};
use coordination::Protocol;
use coordination::wire::{FromGuest, FromHost, Refusal, VCPUS_MAX, VERSION};
use sched::{Instant, Nanos};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use sys::event::Waiting;
use sys::{attributes, clock, cpus, kernel, memory, thread};

/// Interval between looks for the port, and between hellos.
const HELLO: Nanos = Nanos::s(1);
/// The same after a refusal.
const HELLO_REFUSED: Nanos = Nanos::s(10);
/// Real-time priority of the agent while it follows the trace: a hint that waits for other tasks comes late.
const PRIORITY: u32 = 1;

const END: u64 = 0;
const PORT: u64 = 1;
const TRACE: u64 = 2;

/// Talks with the host until a signal.
pub(crate) fn talk(options: &Options, end: &UnixStream) -> Result<(), Failure> {
    let mut is_told = false;
    loop {
        let waiting = Waiting::new()?;
        waiting.add(end, END)?;
        let Some(port) = open(options)? else {
            if !std::mem::replace(&mut is_told, true) {
                eprintln!("the host has attached no port; waiting for it");
            }
            if waiting.next(clock::now().saturating_add(HELLO))? == Some(END) {
                return Ok(());
            }
            continue;
        };
        is_told = false;
        if !(Conversation { options, port, hello: hello()?, next: Instant::ZERO, refused: None }).hold(&waiting)? {
            return Ok(());
        }
    }
}

/// Opens the port. `None`: the host has not attached it.
fn open(options: &Options) -> Result<Option<Port>, Failure> {
    let Some(path) = options.port.clone().or_else(port::find) else { return Ok(None) };
    match Port::open(&path) {
        Ok(port) => Ok(Some(port)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Err(Failure::Refused(
            format!("another process has {}", path.display()),
            "end it: only one agent runs in a guest",
        )),
        Err(error) => Err(Failure::Io("open the port", error)),
    }
}

/// Returns the hello of this guest.
fn hello() -> Result<FromGuest, Failure> {
    let online = cpus::online()?.iter().last().map_or(0, |last| last.index() + 1);
    let vcpus = u16::try_from(online).ok().filter(|&vcpus| vcpus <= VCPUS_MAX);
    let vcpus = vcpus
        .ok_or_else(|| Failure::Refused(format!("this guest has {online} CPUs"), "use a guest with at most 1024"))?;
    let boot = u128::from_str_radix(&kernel::boot_id()?.replace('-', ""), 16).unwrap_or_default();
    Ok(FromGuest::Hello { vcpus, versions: (VERSION, VERSION), boot })
}

struct Conversation<'o> {
    options: &'o Options,
    port: Port,
    hello: FromGuest,
    /// Instant of the next hello.
    next: Instant,
    /// The last refusal, which has been reported.
    refused: Option<Refusal>,
}

impl Conversation<'_> {
    /// Holds conversations through the open port. Returns false at a request to end, and true if the port is gone.
    fn hold(mut self, waiting: &Waiting) -> Result<bool, Failure> {
        loop {
            let Some(protocol) = self.greet(waiting)? else { return Ok(false) };
            eprintln!("the host reads hints");
            let raised = Raised::raise()?;
            let goes_on = self.follow(waiting, protocol)?;
            drop(raised);
            if !goes_on {
                return Ok(false);
            }
            eprintln!("the host has left");
            self.port.restart();
            if !self.is_there() {
                return Ok(true);
            }
        }
    }

    /// Whether the device still exists: the host may have removed it.
    fn is_there(&self) -> bool {
        self.options.port.clone().or_else(port::find).is_some_and(|path| path.exists())
    }

    /// Says hello until the host welcomes the agent. `None`: a request to end.
    fn greet(&mut self, waiting: &Waiting) -> Result<Option<Protocol>, Failure> {
        loop {
            let now = clock::now();
            if self.next <= now {
                self.port.restart();
                // Without the host's end, the port takes nothing.
                self.port.send(&[self.hello])?;
                self.next = now.saturating_add(if self.refused.is_some() { HELLO_REFUSED } else { HELLO });
            }
            // A port whose other end is closed is always readable.
            if waiting.next(self.next.min(now.saturating_add(Nanos::ms(20))))? == Some(END) {
                return Ok(None);
            }
            let (mut welcome, mut refusal) = (None, None);
            self.port.receive(|message| match message {
                FromHost::Welcome { version: VERSION, protocol, .. } => welcome = Some(protocol),
                FromHost::Welcome { .. } | FromHost::Outlook { .. } => {}
                FromHost::Refused(reason) => refusal = Some(reason),
            })?;
            if let Some(protocol) = welcome {
                (self.next, self.refused) = (Instant::ZERO, None);
                return Ok(Some(protocol));
            }
            if let Some(reason) = refusal.filter(|reason| self.refused != Some(*reason)) {
                eprintln!("the host refuses the agent: {}", text(reason));
                (self.next, self.refused) = (now.saturating_add(HELLO_REFUSED), Some(reason));
            }
        }
    }

    /// Follows the trace and sends hints. Returns false at a request to end, and true if the host has closed its end.
    fn follow(&mut self, waiting: &Waiting, protocol: Protocol) -> Result<bool, Failure> {
        let mut follower = Follower::begin(self.options, protocol)?;
        follower.add_to(waiting, TRACE)?;
        waiting.add(&self.port, PORT)?;
        let (mut hints, mut is_there) = (Vec::new(), true);
        while is_there {
            match waiting.next(follower.next())? {
                Some(END) => {
                    self.port.send(&[FromGuest::Goodbye])?;
                    return Ok(false);
                }
                Some(PORT) => {
                    // The host has nothing to say that changes a hint.
                    is_there = self.port.receive(|_| {})?;
                }
                _ => {
                    follower.turn(|hint| hints.push(FromGuest::Hint(hint)));
                    if !hints.is_empty() {
                        self.port.send(&hints)?;
                        hints.clear();
                    }
                }
            }
        }
        waiting.remove(&self.port)?;
        Ok(true)
    }
}

fn text(reason: Refusal) -> &'static str {
    match reason {
        Refusal::Version => {
            "it knows no version of the messages that this agent writes; install the agent of the host's version"
        }
        Refusal::Vcpus => {
            "the VM has another number of vCPUs than this guest; do not run the agent in a container or a nested guest"
        }
        Refusal::Detached => "the operator has detached the VM",
    }
}

/// The agent at a real-time priority, until this value is dropped.
struct Raised(attributes::Attributes);

impl Raised {
    fn raise() -> Result<Raised, Failure> {
        memory::lock()?;
        let before = attributes::get(thread::current())?;
        attributes::set(thread::current(), attributes::Attributes::raised(PRIORITY))?;
        Ok(Raised(before))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        // It lowers the agent, which is always permitted.
        let _ = attributes::set(thread::current(), self.0);
    }
}
