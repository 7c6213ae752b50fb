//! The conversation with the host.
//!
//! ```text
//! no port ──▶ port: hello every second ──▶ welcome: trace and hints ──▶ host closes its end: hello every second
//!                         └──▶ refused: hello every ten seconds
//! ```
//!
//! Without a host that reads hints, nothing is traced.

use crate::failure::Failure;
use crate::follower::Follower;
use crate::options::Options;
use crate::port::{self, Port};
use coordination::Protocol;
use coordination::wire::{FromGuest, FromHost, Hint, Refusal, VCPUS_MAX, VERSION};
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
    let waiting = Waiting::new()?;
    waiting.add(end, END)?;
    let mut is_told = false;
    loop {
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
        let hello = hello()?;
        if let Stop::End = (Conversation { options, end, port, hello, next: Instant::ZERO, refused: None }).hold()? {
            return Ok(());
        }
    }
}

/// What a host that reads hints has said.
#[derive(Clone, Copy)]
struct Welcome {
    protocol: Protocol,
    /// Least latency of the wake-ups for which the host has asked.
    watched: Option<Nanos>,
}

/// Why a conversation stops.
enum Stop {
    /// A signal has come.
    End,
    /// The host has removed the port.
    Gone,
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
    end: &'o UnixStream,
    port: Port,
    hello: FromGuest,
    /// Instant of the next hello.
    next: Instant,
    /// The last refusal, which has been reported.
    refused: Option<Refusal>,
}

impl Conversation<'_> {
    /// Holds conversations through the open port.
    fn hold(mut self) -> Result<Stop, Failure> {
        loop {
            let welcome = match self.greet()? {
                Ok(welcome) => welcome,
                Err(stop) => return Ok(stop),
            };
            eprintln!("the host reads hints");
            let raised = Raised::raise().inspect_err(|failure| eprintln!("warning: hints will be late: {failure}"));
            let is_ended = self.follow(welcome)?;
            drop(raised);
            if is_ended {
                return Ok(Stop::End);
            }
            eprintln!("the host has left");
            if self.port.dropped > 0 {
                eprintln!("warning: {} messages found no room in the port", self.port.dropped);
            }
        }
    }

    /// Returns a set with the requests to end and, if `has_port`, the port. A port whose other end is closed is always readable.
    fn events(&self, has_port: bool) -> Result<Waiting, Failure> {
        let waiting = Waiting::new()?;
        waiting.add(self.end, END)?;
        if has_port {
            waiting.add(&self.port, PORT)?;
        }
        Ok(waiting)
    }

    /// Whether the device still exists.
    fn is_there(&self) -> bool {
        !self.port.is_gone && self.options.port.clone().or_else(port::find).is_some_and(|path| path.exists())
    }

    /// Says hello until the host welcomes the agent.
    fn greet(&mut self) -> Result<std::result::Result<Welcome, Stop>, Failure> {
        let (alone, both) = (self.events(false)?, self.events(true)?);
        let mut hears = false;
        loop {
            let now = clock::now();
            if self.next <= now {
                if !self.is_there() {
                    return Ok(Err(Stop::Gone));
                }
                self.port.restart();
                // Without the host's end, the port takes nothing.
                hears = self.port.send(&[self.hello])?;
                self.next = now.saturating_add(if self.refused.is_some() { HELLO_REFUSED } else { HELLO });
            }
            match if hears { &both } else { &alone }.next(self.next)? {
                Some(END) => return Ok(Err(Stop::End)),
                Some(_) => {}
                None => continue,
            }
            let (mut welcome, mut refusal, mut watched) = (None, None, None);
            hears = self.port.receive(|message| match message {
                FromHost::Welcome { version: VERSION, protocol, .. } => welcome = Some(protocol),
                FromHost::Welcome { .. } | FromHost::Outlook { .. } => {}
                // The question may come with the welcome.
                FromHost::Watch(least) => watched = least,
                FromHost::Refused(reason) => refusal = Some(reason),
            })?;
            if let Some(protocol) = welcome {
                (self.next, self.refused) = (Instant::ZERO, None);
                return Ok(Ok(Welcome { protocol, watched }));
            }
            if let Some(reason) = refusal {
                if self.refused.replace(reason) != Some(reason) {
                    eprintln!("the host refuses the agent: {}", text(reason));
                }
                self.next = now.saturating_add(HELLO_REFUSED);
            }
        }
    }

    /// Sends and removes these messages.
    fn send(&mut self, messages: &mut Vec<FromGuest>) -> Result<(), Failure> {
        if !messages.is_empty() {
            self.port.send(messages)?;
            messages.clear();
        }
        Ok(())
    }

    /// Follows the trace and sends hints. Returns true at a request to end, and false if the host has closed its end.
    fn follow(&mut self, welcome: Welcome) -> Result<bool, Failure> {
        let mut follower = Follower::begin(self.options, welcome.protocol)?;
        follower.watch(welcome.watched);
        let waiting = self.events(true)?;
        follower.add_to(&waiting, TRACE)?;
        let (mut hints, mut messages, mut is_there) = (Vec::new(), Vec::new(), true);
        while is_there {
            match waiting.next(follower.next())? {
                Some(END) => {
                    self.port.send(&[FromGuest::Goodbye])?;
                    return Ok(true);
                }
                // Nothing else that the host says changes what the agent does.
                Some(PORT) => {
                    is_there = self.port.receive(|message| {
                        if let FromHost::Watch(least) = message {
                            follower.watch(least);
                        }
                    })?;
                }
                _ => {
                    follower.turn(|hint| hints.push(hint));
                    // The host derives the offset of the clocks from the time between a hint and its receipt.
                    let sent = clock::now();
                    messages.extend(hints.drain(..).map(|hint| FromGuest::Hint(Hint { sent, ..hint })));
                    self.send(&mut messages)?;
                    messages.extend(follower.woken().map(FromGuest::Woken));
                    self.send(&mut messages)?;
                }
            }
        }
        Ok(false)
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
