//! [`Scheduler`]: a scheduler in BPF that this process has loaded.

use crate::interface::{Ending, Event};
use crate::operations;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramMut, RingBuffer, RingBufferBuilder,
};
use sched::{Instant, Nanos};
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::rc::Rc;
use sys::attributes::{self, Policy};
use sys::clock;
use sys::event::Waiting;
use sys::kernel::{SchedExt, sched_ext};
use zerocopy::FromBytes;

/// Number of changes of the online CPUs since the boot. Source: kernel/sched/ext.c (`scx_global_attrs`), Linux 7.2.
const HOTPLUGS: &str = "/sys/kernel/sched_ext/hotplug_seq";
/// Maximum time in which the kernel removes a scheduler that has ended, and interval of looks at its state.
const REMOVED: Nanos = Nanos::s(10);
const LOOK: Nanos = Nanos::ms(5);
/// Operations of a scheduler: the member with the number of changes.
const HOTPLUGS_KNOWN: &str = "hotplug_seq";
/// The buffer of events, and the number of events that have found it full.
const EVENTS: &str = "events";
const LOST: &str = ".data.lost";
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

/// What a scheduler depends on, apart from its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Basis {
    /// Number of changes of the online CPUs that the caller knows. If there are more, the kernel ends the scheduler at once.
    hotplugs: u64,
    buffer: Option<u32>,
}

impl Basis {
    /// Returns the present basis. The CPUs that are read after this call are the known ones.
    #[must_use]
    pub fn now() -> Basis {
        let hotplugs = fs::read_to_string(HOTPLUGS).ok().and_then(|text| text.trim().parse().ok());
        Basis { hotplugs: hotplugs.unwrap_or(0), buffer: None }
    }

    /// Sets the length of the buffer of events, a power of two of at least a page; `None`: that of the programs. Unit: bytes.
    #[must_use]
    pub fn with_buffer(self, buffer: Option<u32>) -> Basis {
        Basis { buffer, ..self }
    }
}

/// Waits until the kernel has removed a scheduler that has ended, for at most ten seconds.
pub fn wait_for_removal() {
    let end = clock::now().saturating_add(REMOVED);
    while clock::now() < end && matches!(sched_ext(), SchedExt::Loaded(_)) {
        clock::sleep(LOOK);
    }
}

/// Writes a value to a map, by its name and the key.
pub(crate) type Set<'a> = &'a dyn Fn(&str, &[u8], &[u8]) -> Result<(), Error>;

/// A loaded scheduler. It ends when this value is dropped or when the process ends, and all threads then return to the
/// kernel's fair class.
pub(crate) struct Scheduler {
    // The fields end in this order.
    link: Option<Link>,
    /// `None`: the scheduler reports no events.
    ring: Option<RingBuffer<'static>>,
    waiting: Waiting,
    events: Rc<RefCell<Vec<Event>>>,
    endings: MapHandle,
    object: Object,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Loads `programs` after `adapt` has set their constants, lets `prepare` write settings to maps, and starts the scheduler
    /// `name`.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub(crate) fn load(
        programs: &[u8],
        name: &str,
        basis: Basis,
        adapt: impl FnOnce(&mut OpenObject),
        prepare: impl FnOnce(Set<'_>) -> Result<(), Error>,
    ) -> Result<Scheduler, Error> {
        match sched_ext() {
            SchedExt::Absent => Err(Error::Absent),
            SchedExt::Loaded(name) => Err(Error::Taken(name)),
            SchedExt::Vacant => Scheduler::load_unseen(programs, name, basis, adapt, prepare),
        }
    }

    /// Loads without a look at the scheduler that is loaded. The kernel displaces none.
    ///
    /// # Errors
    /// The kernel refuses a program, or another scheduler is loaded.
    pub(crate) fn load_unseen(
        programs: &[u8],
        name: &str,
        basis: Basis,
        adapt: impl FnOnce(&mut OpenObject),
        prepare: impl FnOnce(Set<'_>) -> Result<(), Error>,
    ) -> Result<Scheduler, Error> {
        let me = sys::thread::current();
        let before = attributes::get(me)?;
        // The kernel checks the programs for seconds, and a busy host would make them many.
        if let Policy::Other { .. } = before.policy {
            attributes::apply(me, before.with_nice(NICE_LEAST))?;
        }
        let loaded = Scheduler::load_now(programs, name, basis, adapt, prepare);
        attributes::apply(me, before)?;
        loaded
    }

    fn load_now(
        programs: &[u8],
        name: &str,
        basis: Basis,
        adapt: impl FnOnce(&mut OpenObject),
        prepare: impl FnOnce(Set<'_>) -> Result<(), Error>,
    ) -> Result<Scheduler, Error> {
        let mut object = ObjectBuilder::default().open_memory(programs).map_err(refused("read the programs"))?;
        operations::leave_out_lacking(&mut object, programs, name).map_err(refused("read the types of the kernel"))?;
        operations::set(&mut object, programs, name, HOTPLUGS_KNOWN, basis.hotplugs)
            .map_err(refused("read the types of the kernel"))?;
        if let Some(length) = basis.buffer
            && let Some(mut events) = object.maps_mut().find(|map| map.name() == EVENTS)
        {
            events.set_max_entries(length).map_err(refused("set the length of the buffer"))?;
        }
        adapt(&mut object);
        let mut object = object.load().map_err(refused("load the programs"))?;
        prepare(&|map, key, value| {
            map_of(&object, map)?.update(key, value, MapFlags::ANY).map_err(refused("write the settings"))
        })?;
        let mut scheduler = object.maps_mut().find(|map| map.name() == name).expect("the object has the scheduler");
        let link = scheduler.attach_struct_ops().map_err(refused("start the scheduler"))?;
        let events = Rc::new(RefCell::new(Vec::new()));
        let waiting = Waiting::new()?;
        let reported = object.maps().any(|map| map.name() == EVENTS).then(|| map_of(&object, EVENTS)).transpose()?;
        if let Some(reported) = &reported {
            // Each turn reads all events, so the kernel need not look for others before the next wait.
            waiting.add_edges(reported.as_fd(), 0)?;
        }
        let ring = reported.map(|reported| ring(&reported, Rc::clone(&events))).transpose();
        let ring = ring.map_err(refused("open the events"))?;
        Ok(Scheduler { link: Some(link), ring, waiting, events, endings: map_of(&object, "endings")?, object })
    }

    /// Ends the scheduler. Its maps stay.
    pub(crate) fn end(&mut self) {
        self.link = None;
    }

    /// Returns a map of the programs.
    ///
    /// # Errors
    /// This process has too many open files.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        map_of(&self.object, name)
    }

    /// Returns the position of a program, for [`Scheduler::program`].
    pub(crate) fn position(&self, name: &str) -> usize {
        self.object.progs().position(|program| program.name() == name).expect("the object has the program")
    }

    pub(crate) fn program(&self, position: usize) -> ProgramMut<'_> {
        self.object.progs_mut().nth(position).expect("the object has the program")
    }

    /// Returns the number of events that have found the buffer full.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn lost(&self) -> Result<u64, Error> {
        let bytes = self.map(LOST)?.lookup(&ZERO, MapFlags::ANY).map_err(refused("read the counts"))?;
        let lost = bytes.and_then(|bytes| Some(u64::read_from_prefix(&bytes).ok()?.0));
        Ok(lost.unwrap_or(0))
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

fn map_of(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == name).expect("the object has the map");
    MapHandle::try_from(&map).map_err(refused("open a map"))
}

/// Returns the reader of the events, which appends them to `to`.
fn ring(events: &MapHandle, to: Rc<RefCell<Vec<Event>>>) -> libbpf_rs::Result<RingBuffer<'static>> {
    reader(events, Event::from_bytes, to)
}

/// Returns the reader of a ring buffer, which appends what `read` makes of the entries to `to`.
pub(crate) fn reader<T: 'static>(
    map: &MapHandle,
    read: fn(&[u8]) -> Option<T>,
    to: Rc<RefCell<Vec<T>>>,
) -> libbpf_rs::Result<RingBuffer<'static>> {
    let mut builder = RingBufferBuilder::new();
    builder.add(map, move |bytes| {
        to.borrow_mut().extend(read(bytes));
        0
    })?;
    builder.build()
}
