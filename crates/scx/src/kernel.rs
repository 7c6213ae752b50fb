//! [`Kernel`]: the bridge in the kernel.

use crate::interface::{Batch, COMMANDS_MAX, Command, Ending, Event, Report, Settings};
use libbpf_rs::{
    Link, Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, ProgramMut, RingBuffer, RingBufferBuilder,
};
use sched::Instant;
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::rc::Rc;
use sys::event::Waiting;
use zerocopy::{FromBytes, IntoBytes};

/// The programs, compiled by the build script.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bridge.bpf.o"));
/// Where the kernel describes the loaded scheduler. Source: kernel/sched/ext.c (`scx_sched_attrs`).
const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
/// The only element of an array.
const ZERO: [u8; 4] = [0; 4];

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

fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |source| Error::Refused { step, source }
}

/// The loaded bridge. It ends when this value is dropped or when the process ends, and all threads then return to the
/// kernel's fair class.
pub struct Kernel {
    apply: ProgramMut<'static>,
    batches: Map<'static>,
    endings: Map<'static>,
    ring: RingBuffer<'static>,
    waiting: Waiting,
    events: Rc<RefCell<Vec<Event>>>,
    _link: Link,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").finish_non_exhaustive()
    }
}

impl Kernel {
    /// Loads the bridge and begins. `processes` are the managed processes; none: all. Until the first batch, the bridge
    /// dispatches by itself.
    ///
    /// # Errors
    /// The kernel has no sched_ext, another scheduler is loaded, or the kernel refuses a program.
    pub fn load(processes: &[u32]) -> Result<Kernel, Error> {
        let state = fs::read_to_string(STATE).map_err(|_| Error::Absent)?;
        if state.trim() != "disabled" {
            let name = fs::read_to_string(NAME).unwrap_or_default();
            return Err(Error::Taken(name.trim().to_string()));
        }
        let object = ObjectBuilder::default().open_memory(PROGRAMS).map_err(refused("read the programs"))?;
        let object = object.load().map_err(refused("load the programs"))?;
        // The maps and the program of the batches refer to the object, which is needed until the process ends.
        let object: &'static mut Object = Box::leak(Box::new(object));
        let settings = Settings { manages_all: u32::from(processes.is_empty()), own_pid: std::process::id() };
        let set = |map: &str, key: &[u8], value: &[u8]| {
            map_of(object, map).update(key, value, MapFlags::ANY).map_err(refused("write the settings"))
        };
        set("settings", &ZERO, settings.as_bytes())?;
        for process in processes {
            set("processes", process.as_bytes(), &1_u32.to_ne_bytes())?;
        }
        let mut bridge = object.maps_mut().find(|map| map.name() == "bridge").expect("the object has the scheduler");
        let link = bridge.attach_struct_ops().map_err(refused("start the scheduler"))?;
        let object: &'static Object = object;
        let apply = object.progs_mut().find(|program| program.name() == "bridge_apply");
        let events = Rc::new(RefCell::new(Vec::new()));
        let waiting = Waiting::new()?;
        waiting.add(map_of(object, "events").as_fd(), 0)?;
        Ok(Kernel {
            apply: apply.expect("the object has the program of the batches"),
            batches: map_of(object, "batches"),
            endings: map_of(object, "endings"),
            ring: ring(object, Rc::clone(&events)).map_err(refused("open the events"))?,
            waiting,
            events,
            _link: link,
        })
    }

    /// Waits until `end` for events.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait(&self, end: Instant) -> Result<(), Error> {
        self.waiting.next(end)?;
        Ok(())
    }

    /// Adds the unread events to `to`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self, to: &mut Vec<Event>) -> Result<(), Error> {
        self.ring.consume().map_err(refused("read the events"))?;
        to.append(&mut self.events.borrow_mut());
        Ok(())
    }

    /// Applies commands, and confirms that the user side lives.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn apply(&self, commands: &[Command]) -> Result<Report, Error> {
        let mut report = Report::default();
        let mut batches = commands.chunks(COMMANDS_MAX);
        // Without commands, an empty batch is a sign of life.
        let mut next = Some(batches.next().unwrap_or_default());
        while let Some(commands) = next {
            let batch = Batch::new(commands);
            let written = self.batches.update(&ZERO, batch.as_bytes(), MapFlags::ANY);
            written.map_err(refused("write commands"))?;
            let input = ProgramInput { context_in: Some(report.as_mut_bytes()), ..ProgramInput::default() };
            self.apply.test_run(input).map_err(refused("apply commands"))?;
            next = batches.next();
        }
        Ok(report)
    }

    /// Returns why the bridge has ended; `None`: it has not.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        let bytes = self.endings.lookup(&ZERO, MapFlags::ANY).map_err(refused("read the state"))?;
        let ending = bytes.and_then(|bytes| Ending::read_from_bytes(&bytes).ok());
        Ok(ending.filter(|ending| ending.kind != 0))
    }
}

fn map_of<'obj>(object: &'obj Object, name: &str) -> Map<'obj> {
    object.maps().find(|map| map.name() == name).expect("the object has the map")
}

/// Returns the reader of the events, which appends them to `to`.
fn ring(object: &'static Object, to: Rc<RefCell<Vec<Event>>>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let events = map_of(object, "events");
    let mut builder = RingBufferBuilder::new();
    builder.add(&events, move |bytes| {
        to.borrow_mut().extend(Event::from_bytes(bytes));
        0
    })?;
    builder.build()
}
