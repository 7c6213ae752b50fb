//! [`Shared`]: an object of a machine, with its content and the queues of tasks that wait for it.

use super::serving::Serving;
use super::{Object, ObjectId};
use crate::network::Packet;
use sched::{EntityId, Nanos};
use std::collections::VecDeque;

/// Waiting tasks in order of arrival, each with the number of bytes to read or write; 0 if the object holds no bytes.
pub(crate) type Queue = VecDeque<(EntityId, u64)>;

/// How tasks wait for a lock or at a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitMode {
    Sleep,
    Spin,
    /// Waiting tasks spin in user space for this CPU time, then block.
    SpinThenSleep(Nanos),
}

/// The content of an object.
#[derive(Debug)]
pub(crate) enum Held {
    Lock {
        owner: Option<EntityId>,
        mode: WaitMode,
    },
    Condition,
    Barrier {
        parties: u32,
        mode: WaitMode,
    },
    Semaphore {
        count: u32,
        most: u32,
    },
    Pipe {
        capacity: u64,
        filled: u64,
    },
    Port {
        window: u64,
        unread: u64,
    },
    /// The bytes that have arrived, by flow, in order of arrival.
    Inbox {
        room: u64,
        filled: u64,
        parts: VecDeque<(u32, u64)>,
    },
    Ring(Box<Serving>),
}

/// An object of a machine.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) held: Held,
    /// Waiting tasks. For a pipe, only the waiting readers.
    pub(crate) waiters: Queue,
    /// Tasks that wait to write into a pipe or port.
    pub(crate) writers: Queue,
}

impl Shared {
    pub(crate) fn new(name: &str, object: Object) -> Shared {
        let held = match object {
            Object::Mutex => Held::Lock { owner: None, mode: WaitMode::Sleep },
            Object::Spin => Held::Lock { owner: None, mode: WaitMode::Spin },
            Object::AdaptiveMutex { spin } => Held::Lock { owner: None, mode: WaitMode::SpinThenSleep(spin) },
            Object::Condition => Held::Condition,
            Object::Barrier { parties } => Held::Barrier { parties, mode: WaitMode::Sleep },
            Object::SpinBarrier { parties } => Held::Barrier { parties, mode: WaitMode::Spin },
            Object::AdaptiveBarrier { parties, spin } => Held::Barrier { parties, mode: WaitMode::SpinThenSleep(spin) },
            Object::Semaphore { most } => Held::Semaphore { count: 0, most },
            Object::Pipe { capacity } => Held::Pipe { capacity, filled: 0 },
            Object::Port { window } => Held::Port { window, unread: 0 },
            Object::Inbox { room } => Held::Inbox { room, filled: 0, parts: VecDeque::new() },
            Object::Ring(ring) => Held::Ring(Box::new(Serving::new(ring))),
        };
        Shared { name: name.to_string(), held, waiters: Queue::new(), writers: Queue::new() }
    }

    /// Returns the owner of a lock. `None`: the lock is free, or the object is not a lock.
    pub(crate) fn owner(&self) -> Option<EntityId> {
        match self.held {
            Held::Lock { owner, .. } => owner,
            _ => None,
        }
    }

    /// Gives the lock to `to`. `None`: frees the lock.
    pub(crate) fn give(&mut self, to: Option<EntityId>) {
        let Held::Lock { owner, .. } = &mut self.held else { unreachable!("only locks are given") };
        *owner = to;
    }

    /// Returns how tasks wait for the object.
    pub(crate) fn wait_mode(&self) -> WaitMode {
        match self.held {
            Held::Lock { mode, .. } | Held::Barrier { mode, .. } => mode,
            _ => WaitMode::Sleep,
        }
    }

    /// Returns whether the object is a spin lock of a kernel, whose waiters never sleep.
    pub(crate) fn is_spin_lock(&self) -> bool {
        matches!(self.held, Held::Lock { mode: WaitMode::Spin, .. })
    }

    /// Returns whether the object is a lock.
    pub(crate) fn is_lock(&self) -> bool {
        matches!(self.held, Held::Lock { .. })
    }

    /// Returns the noun for the object in messages.
    pub(crate) fn noun(&self) -> &'static str {
        match self.held {
            Held::Lock { mode: WaitMode::Spin, .. } => "spin lock",
            Held::Lock { .. } => "mutex",
            Held::Condition => "condition",
            Held::Barrier { .. } => "barrier",
            Held::Semaphore { .. } => "semaphore",
            Held::Pipe { .. } => "pipe",
            Held::Port { .. } => "port",
            Held::Inbox { .. } => "inbox",
            Held::Ring(_) => "ring",
        }
    }

    /// Decrements a semaphore. Returns false if its value is zero.
    pub(crate) fn take(&mut self) -> bool {
        let Held::Semaphore { count, .. } = &mut self.held else { return false };
        let taken = *count > 0;
        *count -= u32::from(taken);
        taken
    }

    /// Increments a semaphore without waiters, up to its maximum.
    pub(crate) fn post(&mut self) {
        if let Held::Semaphore { count, most } = &mut self.held {
            *count = (*count + 1).min(*most);
        }
    }

    /// Reads for the first reader of a pipe, or else writes for the first writer. Returns this task, or `None` if
    /// neither can continue.
    pub(crate) fn pass(&mut self) -> Option<EntityId> {
        let Held::Pipe { capacity, filled } = &mut self.held else { return None };
        if let Some(&(reader, bytes)) = self.waiters.front()
            && bytes <= *filled
        {
            *filled -= bytes;
            self.waiters.pop_front();
            return Some(reader);
        }
        let &(writer, bytes) = self.writers.front()?;
        if bytes > *capacity - *filled {
            return None;
        }
        *filled += bytes;
        self.writers.pop_front();
        Some(writer)
    }

    /// Returns the packets in a ring.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let ring = if let Held::Ring(ring) = &self.held { Some(ring) } else { None };
        ring.into_iter().flat_map(|ring| ring.packets())
    }

    /// Removes an ended or detached task from the queues.
    pub(crate) fn forget(&mut self, entity: EntityId) {
        self.waiters.retain(|&(waiter, _)| waiter != entity);
        self.writers.retain(|&(waiter, _)| waiter != entity);
    }
}

/// Returns an object of a machine.
pub(crate) fn at(objects: &mut [Shared], id: ObjectId) -> &mut Shared {
    &mut objects[id.0 as usize]
}
