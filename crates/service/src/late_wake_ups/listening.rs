//! [`listen`]: the thread that reads the messages of an agent.

use coordination::wire::FromGuest;
use daemon::boosts::{AgentPort, Observed};
use sched::{Instant, Nanos};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::SyncSender;
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Waiting};
use sys::{clock, thread};

/// Real-time priority of the thread: the offset of the clocks follows from the time between a hint and its receipt.
const PRIORITY: u32 = 10;
/// Maximum interval between turns.
const TURN: Nanos = Nanos::s(1);
const END: u64 = 0;
const PORT: u64 = 1;

/// A message of an agent, with the instant of its receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) message: FromGuest,
    pub(crate) at: Instant,
}

/// Where the messages of an agent come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The port of the VM, which this process has attached.
    Port(AgentPort),
    /// Another process, which has attached the port.
    Process(Observed),
}

impl Source {
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Source::Port(port) => port.as_fd(),
            Source::Process(observed) => observed.socket().as_fd(),
        }
    }

    fn resumes(&self) -> Instant {
        match self {
            Source::Port(port) => port.resumes(),
            // The other process limits what it reads.
            Source::Process(_) => Instant::ZERO,
        }
    }

    fn read(&mut self, each: impl FnMut(FromGuest, Instant)) -> bool {
        match self {
            Source::Port(port) => port.read(each),
            Source::Process(observed) => observed.read(each),
        }
    }
}

/// Passes the messages of an agent to `heard` until `end` rings or their source ends. Messages for which there is no room are dropped. The
/// calling thread gets a real-time priority.
///
/// # Errors
/// This process may not use real-time priorities.
pub(crate) fn listen(mut source: Source, end: &Bell, heard: &SyncSender<Heard>) -> sys::Result<()> {
    attributes::set(thread::current(), Attributes::raised(PRIORITY))?;
    let (alone, both) = (Waiting::new()?, Waiting::new()?);
    alone.add(end, END)?;
    both.add(end, END)?;
    both.add(source.descriptor(), PORT)?;
    loop {
        let now = clock::now();
        let event = match source.resumes() > now {
            true => alone.next(source.resumes())?,
            false => both.next(now.saturating_add(TURN))?,
        };
        match event {
            Some(END) => return Ok(()),
            Some(_) => {
                let is_open = source.read(|message, at| {
                    let _ = heard.try_send(Heard { message, at });
                });
                if !is_open {
                    return Ok(());
                }
            }
            None => {}
        }
    }
}
