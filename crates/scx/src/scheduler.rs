//! [`Scheduler`]: a scheduler in BPF that this process has loaded.

use crate::interface::{Ending, Event};
use crate::operations;
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramMut, RingBuffer, RingBufferBuilder};
use sched::Instant;
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::rc::Rc;
use sys::attributes::{self, Policy};
use sys::event::Waiting;
use zerocopy::FromBytes;

/// Where the kernel describes the loaded scheduler. Source: kernel/sched/ext.c (`scx_sched_attrs`).
const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
/// The nice value of this thread while it loads a scheduler.
const NICE_LEAST: i32 = -20;
/// The only element of an array.
pub(crate) const ZERO: [u8; 4] = [0; 4];

/// Why the bridge cannot be loaded, or has ended.
#[derive(Debug)]
pub enum Error {
    /// The kernel has no sched_ext.
    Absent,
    /// Another scheduler is loaded. It stays.
    Taken(String),
    /// The kernel refuses a step.
    Refused {
        /// What was refused.
        step: &'static str,
        /// The error of the kernel.
        source: libbpf_rs::Error,
    },
    /// The loaded scheduler refuses an order.
    Order(std::io::Error),
    /// Another system call failed.
    System(sys::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent => write!(
                f,
                "this kernel has no sched_ext\n  help: use Linux 6.13 or later with CONFIG_SCHED_CLASS_EXT and CONFIG_DEBUG_INFO_BTF"
            ),
            Error::Taken(name) => write!(
                f,
                "the scheduler {name} is loaded, and Tactus displaces no other scheduler\n  help: end its program first"
            ),
            Error::Refused { step, source } => write!(
                f,
                "cannot {step}: {source:#}\n  help: run as root; a kernel in lockdown mode (confidentiality) refuses BPF programs"
            ),
            Error::Order(error) => write!(f, "the scheduler refuses: {error}"),
            Error::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Error {
        Error::System(error)
    }
}

pub(crate) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |source| Error::Refused { step, source }
}

/// A loaded scheduler. It ends when this value is dropped or when the process ends, and all threads then return to the
/// kernel's fair class.
pub(crate) struct Scheduler {
    object: &'static Object,
    endings: Map<'static>,
    /// `None`: the scheduler reports no events.
    ring: Option<RingBuffer<'static>>,
    waiting: Waiting,
    events: Rc<RefCell<Vec<Event>>>,
    _link: Link,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Loads `programs`, lets `prepare` write settings to maps, and starts the scheduler `name`.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub(crate) fn load(
        programs: &[u8],
        name: &str,
        prepare: impl FnOnce(&dyn Fn(&str, &[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error>,
    ) -> Result<Scheduler, Error> {
        let me = sys::thread::current();
        let before = attributes::get(me)?;
        // The kernel checks the programs for seconds, and a busy host would make them many.
        if let Policy::Other { .. } = before.policy {
            attributes::apply(me, before.with_nice(NICE_LEAST))?;
        }
        let loaded = Scheduler::load_now(programs, name, prepare);
        attributes::apply(me, before)?;
        loaded
    }

    fn load_now(
        programs: &[u8],
        name: &str,
        prepare: impl FnOnce(&dyn Fn(&str, &[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error>,
    ) -> Result<Scheduler, Error> {
        let state = fs::read_to_string(STATE).map_err(|_| Error::Absent)?;
        if state.trim() != "disabled" {
            let name = fs::read_to_string(NAME).unwrap_or_default();
            return Err(Error::Taken(name.trim().to_string()));
        }
        let mut object = ObjectBuilder::default().open_memory(programs).map_err(refused("read the programs"))?;
        operations::leave_out_lacking(&mut object, programs, name).map_err(refused("read the types of the kernel"))?;
        let object = object.load().map_err(refused("load the programs"))?;
        // Maps and programs refer to the object, which is needed until the process ends.
        let object: &'static mut Object = Box::leak(Box::new(object));
        prepare(&|map, key, value| {
            map_of(object, map).update(key, value, MapFlags::ANY).map_err(refused("write the settings"))
        })?;
        let mut scheduler = object.maps_mut().find(|map| map.name() == name).expect("the object has the scheduler");
        let link = scheduler.attach_struct_ops().map_err(refused("start the scheduler"))?;
        let object: &'static Object = object;
        let events = Rc::new(RefCell::new(Vec::new()));
        let waiting = Waiting::new()?;
        let reported = object.maps().find(|map| map.name() == "events");
        if let Some(reported) = &reported {
            // Each turn reads all events, so the kernel need not look for others before the next wait.
            waiting.add_edges(reported.as_fd(), 0)?;
        }
        let ring = reported.map(|reported| ring(&reported, Rc::clone(&events))).transpose();
        Ok(Scheduler {
            object,
            endings: map_of(object, "endings"),
            ring: ring.map_err(refused("open the events"))?,
            waiting,
            events,
            _link: link,
        })
    }

    pub(crate) fn map(&self, name: &str) -> Map<'static> {
        map_of(self.object, name)
    }

    pub(crate) fn program(&self, name: &str) -> ProgramMut<'static> {
        self.object.progs_mut().find(|program| program.name() == name).expect("the object has the program")
    }

    /// Adds a source of events to those of the scheduler, which have the number 0.
    ///
    /// # Errors
    /// The source cannot be waited for.
    pub(crate) fn add(&self, source: impl AsFd, number: u64) -> Result<(), Error> {
        Ok(self.waiting.add(source, number)?)
    }

    /// Waits for events from `now`, the present time, until `end`.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(crate) fn wait(&self, now: Instant, end: Instant) -> Result<(), Error> {
        self.waiting.next_from(now, end)?;
        Ok(())
    }

    /// Adds the unread events to `to`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn read(&self, to: &mut Vec<Event>) -> Result<(), Error> {
        if let Some(ring) = &self.ring {
            ring.consume().map_err(refused("read the events"))?;
        }
        to.append(&mut self.events.borrow_mut());
        Ok(())
    }

    /// Returns why the scheduler has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn ending(&self) -> Result<Option<Ending>, Error> {
        let bytes = self.endings.lookup(&ZERO, MapFlags::ANY).map_err(refused("read the state"))?;
        let ending = bytes.and_then(|bytes| Ending::read_from_bytes(&bytes).ok());
        Ok(ending.filter(|ending| ending.kind != 0))
    }
}

fn map_of<'obj>(object: &'obj Object, name: &str) -> Map<'obj> {
    object.maps().find(|map| map.name() == name).expect("the object has the map")
}

/// Returns the reader of the events, which appends them to `to`.
fn ring(events: &Map<'static>, to: Rc<RefCell<Vec<Event>>>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let mut builder = RingBufferBuilder::new();
    builder.add(events, move |bytes| {
        to.borrow_mut().extend(Event::from_bytes(bytes));
        0
    })?;
    builder.build()
}
