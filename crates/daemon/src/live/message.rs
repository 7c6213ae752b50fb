//! The messages between the core and its front end.

use super::failure::Failure;
use super::fault::Fault;
use super::setup::{AdmissionPolicy, Setup};
use crate::Explanation;
use crate::directory::Directory;
use crate::dispatch::{Dismissed, KeptBy, NoRoom, PromiseRequest, Refusal};
use crate::kernel::CpuShare;
use sched::{CpuId, Descriptor, EntityId, Instant, Nanos, PromiseState};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use sys::thread::Identity;
use trace::Event;

/// The first message of the front end: the parameters of the core.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    directory: Vec<u8>,
    turns: Option<NamedPolicy>,
    reservations: Option<NamedPolicy>,
    scheduler: Option<Vec<u8>>,
    fault: Option<Fault>,
    usual: KeptBy,
}

/// An admission policy, by name, and the values of its knobs.
type NamedPolicy = (String, Vec<(String, i64)>);

/// A command of the front end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// Make a promise to a process. Reply: [`Reply::Admitted`].
    Admit { request: Box<PromiseRequest>, process: ProcessId },
    /// Change the promise that `entity` is part of. Reply: [`Reply::Changed`].
    Adjust { entity: EntityId, slice: Nanos, period: Nanos },
    /// Give a process a share of the CPUs. Reply: [`Reply::Changed`].
    Share { process: ProcessId, share: CpuShare },
    /// End the share of process `pid`. Reply: [`Reply::Done`].
    EndShare { pid: u32 },
    /// End the promise to `entity`. Reply: [`Reply::Done`].
    Dismiss { entity: EntityId },
    /// Report the events since the last such command. Reply: [`Reply::Journal`].
    ReadJournal,
    /// Report the clients that were dismissed since the last such command. Reply: [`Reply::Dismissed`].
    TakeDismissed,
    /// Report whether this host reports wake-ups of `entity`. Reply: [`Reply::ReportsWakeups`].
    ReportsWakeups { entity: EntityId },
    /// Report the promise state of `entity`. Reply: [`Reply::Promise`].
    Promise { entity: EntityId },
    /// Report all warnings. Reply: [`Reply::Warnings`].
    Warnings,
    /// Restore all threads and end. No reply except [`Message::Ended`].
    End,
    /// Report the events and the dismissed clients in one command, for a front end that polls. Reply: [`Reply::News`].
    ReadNews,
    /// Report the promises and the shares in force. Reply: [`Reply::Roster`].
    ReadRoster,
    /// Report whether a promise to a process would be made, in place of the promise that `instead` is part of. Reply:
    /// [`Reply::Changed`].
    WouldAdmit { request: Box<PromiseRequest>, process: ProcessId, instead: Option<EntityId> },
    /// Report whether the promise that `entity` is part of would be changed. Reply: [`Reply::Changed`].
    WouldAdjust { entity: EntityId, slice: Nanos, period: Nanos },
    /// Report the CPU of each promise that is kept by turns. Reply: [`Reply::Places`].
    ReadPlaces,
}

/// A process in a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ProcessId {
    /// Pid of the process.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot. `None`: whatever process has the pid.
    pub start_time: Option<u64>,
}

impl ProcessId {
    /// Returns whether this is the process with the first thread `leader`.
    #[must_use]
    pub fn is(&self, leader: Identity) -> bool {
        self.pid == leader.tid && self.start_time.is_none_or(|start_time| start_time == leader.start_time)
    }
}

impl From<Identity> for ProcessId {
    fn from(Identity { tid, start_time }: Identity) -> ProcessId {
        ProcessId { pid: tid, start_time: Some(start_time) }
    }
}

/// A promise in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PromiseInForce {
    /// The entities of the promise that are still served.
    pub entities: Vec<EntityId>,
    /// The entities to which the promise does not count as kept.
    pub short: Vec<EntityId>,
    /// The process.
    pub process: ProcessId,
    /// The request, with the present slice and period.
    pub request: PromiseRequest,
    /// The first entity of the promise that began the gang. `None`: the promise is in no gang with others.
    pub gang: Option<EntityId>,
}

/// A share of the CPUs in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShareInForce {
    /// The process.
    pub process: ProcessId,
    /// The share.
    pub share: CpuShare,
}

/// What a core keeps.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Roster {
    /// The promises, in the order in which they were made.
    pub promises: Vec<PromiseInForce>,
    /// The shares, in the order in which they were given.
    pub shares: Vec<ShareInForce>,
}

/// The reply to a command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Admitted(Result<Vec<EntityId>, ReportedRefusal>),
    Changed(Result<(), ReportedRefusal>),
    Done,
    Journal {
        events: Vec<(Instant, Event)>,
        lost: u64,
    },
    Dismissed(Vec<Dismissed>),
    ReportsWakeups(bool),
    Promise(Option<PromiseState>),
    Warnings(Vec<Explanation>),
    /// The message of the front end was malformed.
    Malformed(Explanation),
    News(News),
    Roster(Roster),
    /// The entities that have their turns on a CPU, each with this CPU.
    Places(Vec<(EntityId, CpuId)>),
}

/// The events and dismissals since the last report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct News {
    /// The events of the journal.
    pub events: Vec<(Instant, Event)>,
    /// Number of events that were lost because the journal was full.
    pub lost: u64,
    /// The clients that were dismissed.
    pub dismissed: Vec<Dismissed>,
    /// The entities that a scheduler in the kernel dispatches now.
    pub in_kernel: Vec<EntityId>,
}

/// A message of the core.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// The core serves commands. Time zero of its journal is `epoch`.
    Ready { epoch: Instant },
    /// The reply to the last command.
    Reply(Reply),
    /// Another process has requested the end of the core. All threads are restored, and the core answers commands for
    /// a short time.
    Ending,
    /// The core ends; nothing follows.
    Ended(Result<(), Failure>),
    /// A resident core serves commands: its pid, time zero of its journal, and its parameters.
    Attached { pid: u32, epoch: Instant, opening: Opening },
}

/// A refusal as a message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ReportedRefusal {
    Invalid(Explanation),
    NoRoom(Box<NoRoom>),
    Other(Explanation),
}

impl Opening {
    pub(super) fn new(setup: &Setup) -> Opening {
        Opening {
            directory: setup.directory.path().as_os_str().as_bytes().to_vec(),
            turns: setup.turns.as_ref().map(named),
            reservations: setup.reservations.as_ref().map(named),
            scheduler: setup.scheduler.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
            fault: setup.fault.clone(),
            usual: setup.usual,
        }
    }

    /// Returns the parameters. `find` returns the policy with a name, and `executable` is the program of the guardian.
    ///
    /// # Errors
    /// The policy is unknown, or refuses the knobs.
    pub(super) fn setup(
        self,
        find: impl Fn(&str) -> Option<&'static Descriptor>,
        executable: &Path,
    ) -> Result<Setup, Explanation> {
        let found = |named: Option<NamedPolicy>| named.map(|named| found(named, &find)).transpose();
        let (turns, reservations) = (found(self.turns)?, found(self.reservations)?);
        let directory = Directory::at(OsString::from_vec(self.directory));
        let executable = executable.to_path_buf();
        let scheduler = self.scheduler.map(|path| PathBuf::from(OsString::from_vec(path)));
        Ok(Setup { directory, executable, turns, reservations, usual: self.usual, scheduler, fault: self.fault })
    }
}

fn named(AdmissionPolicy { policy, knobs }: &AdmissionPolicy) -> NamedPolicy {
    (policy.name.to_string(), knobs.iter().map(|(knob, value)| (knob.name.to_string(), value)).collect())
}

fn found(
    (name, values): NamedPolicy,
    find: impl Fn(&str) -> Option<&'static Descriptor>,
) -> Result<AdmissionPolicy, Explanation> {
    let remedy = "use programs of the same version";
    let policy = find(&name).ok_or_else(|| Explanation::new(format!("there is no policy `{name}`"), remedy))?;
    let mut knobs = policy.defaults();
    for (name, value) in &values {
        knobs.set(name, *value).map_err(|error| error.explain())?;
    }
    Ok(AdmissionPolicy { policy, knobs })
}

impl From<Refusal> for ReportedRefusal {
    fn from(refusal: Refusal) -> ReportedRefusal {
        match refusal {
            Refusal::NoRoom(room) => ReportedRefusal::NoRoom(room),
            Refusal::Promise(_) | Refusal::Invalid(_) => ReportedRefusal::Invalid(refusal.reason()),
            other => ReportedRefusal::Other(other.reason()),
        }
    }
}

impl ReportedRefusal {
    /// Returns the refusal of a core with the parameters `setup`.
    pub(super) fn of(self, setup: &Setup) -> Refusal {
        match self {
            ReportedRefusal::Invalid(why) => Refusal::Invalid(why),
            ReportedRefusal::NoRoom(room) => Refusal::NoRoom(Box::new(match setup.admission(room.by()) {
                Some(AdmissionPolicy { policy, knobs }) => room.under(**policy, knobs.clone()),
                None => *room,
            })),
            ReportedRefusal::Other(why) => Refusal::Reported(why),
        }
    }
}
