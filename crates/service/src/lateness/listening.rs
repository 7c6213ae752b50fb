//! [`listen`]: the thread that reads the messages of an agent.

use coordination::wire::FromGuest;
use daemon::boosts::AgentPort;
use sched::{Instant, Nanos};
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

/// Passes the messages of an agent to `heard` until `end` rings or the VM closes the port. Messages for which there is no room are dropped. The
/// calling thread gets a real-time priority.
///
/// # Errors
/// This process may not use real-time priorities.
pub(crate) fn listen(mut port: AgentPort, end: &Bell, heard: &SyncSender<Heard>) -> sys::Result<()> {
    attributes::set(thread::current(), Attributes::raised(PRIORITY))?;
    let (alone, both) = (Waiting::new()?, Waiting::new()?);
    alone.add(end, END)?;
    both.add(end, END)?;
    both.add(&port, PORT)?;
    loop {
        let now = clock::now();
        let event = match port.resumes() > now {
            true => alone.next(port.resumes())?,
            false => both.next(now.saturating_add(TURN))?,
        };
        match event {
            Some(END) => return Ok(()),
            Some(_) => {
                let is_open = port.read(|message, at| {
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
