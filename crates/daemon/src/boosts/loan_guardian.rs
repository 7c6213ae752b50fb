//! The guardian of loans: a process that ends the loans to a VM when the process that boosts it hangs, is stopped or is killed.
//!
//! A killed process ends its loans as soon as its donors run, and a donor waits while the boosted thread spins on its CPU. The guardian lowers the
//! donors, and a lowered donor lends nothing. It waits for a timer that both processes share: the booster sets it to the instant at which
//! the loans lapse, and the kernel keeps it, whatever happens to the booster.

use crate::guardian::{Apart, remove_groups};
use sched::{Instant, Nanos};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use sys::attributes::{self, Attributes, Policy};
use sys::clock::Timer;
use sys::event::Waiting;
use sys::process::{self, Process};
use sys::thread::{self, Identity, Thread};
use sys::{Error, Result, clock, memory};

/// The internal command that runs [`run`].
pub const COMMAND: &str = "loan-guardian";
/// The byte that a guardian writes when it watches.
const WATCHES: u8 = b'w';
/// Maximum time in which a guardian begins to watch.
const BEGIN: Nanos = Nanos::s(2);
/// The sources of events.
const END: u64 = 0;
const ALARM: u64 = 1;

/// A guardian of loans, a child of this process. Dropping this value ends it: nothing may be lent any more. Its descriptor becomes readable
/// when the guardian ends.
pub(super) struct LoanGuardian {
    child: Child,
    process: Process,
    identity: Identity,
}

impl LoanGuardian {
    /// Starts `program` with the command [`COMMAND`]. Returns when the guardian watches.
    pub(super) fn start(program: &Path, alarm: &Timer, donors: &[Identity], priority: u32) -> Result<LoanGuardian> {
        let failed = |source: io::Error| Error::Call { what: "start the guardian of loans".to_string(), source };
        let me = Thread::open(std::process::id())?.identity();
        let words = [me].iter().chain(donors).map(|it| format!("{}:{}", it.tid, it.start_time)).collect::<Vec<_>>();
        let mut command = Command::new(program);
        command.arg0("tactus").arg(COMMAND).arg(priority.to_string()).args(words).current_dir("/");
        command.stdin(Stdio::from(alarm.share()?)).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut output = child.stdout.take().expect("it is piped");
        let opened =
            Thread::open(child.id()).and_then(|first| Ok((first.identity(), Process::open_as(first.identity())?)));
        let (identity, process) = opened.inspect_err(|_| end(&mut child))?;
        let guardian = LoanGuardian { child, process, identity };
        let answers = Waiting::new()?;
        answers.add(&output, END)?;
        let mut byte = [0];
        match answers.next(clock::now().saturating_add(BEGIN))? {
            Some(_) if output.read_exact(&mut byte).is_ok() && byte == [WATCHES] => Ok(guardian),
            Some(_) => Err(failed(io::Error::other("it has ended at once"))),
            None => Err(failed(io::ErrorKind::TimedOut.into())),
        }
    }
}

fn end(child: &mut Child) {
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for LoanGuardian {
    fn drop(&mut self) {
        end(&mut self.child);
        remove_groups(self.identity);
    }
}

impl AsFd for LoanGuardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

/// Runs a guardian of loans until the process that boosts ends. Its standard input is the shared timer. `booster`, and each of `donors`: tid
/// and start time, `TID:START`.
///
/// # Errors
/// The words are no identities, the booster has ended, or the privilege for `priority` lacks.
pub fn run(priority: u32, booster: &str, donors: &[String]) -> Result<()> {
    // A signal for the whole process group would end the guardian, too.
    process::leave_session()?;
    process::ignore_requests();
    attributes::set(thread::current(), Attributes::raised(priority))?;
    memory::lock()?;
    // Without the privilege, the guardian ends with the booster when memory is short.
    let _ = process::avoid_oom_kill();
    let donors = donors.iter().map(|word| identity(word)).collect::<Result<Vec<Identity>>>()?;
    let booster = Process::open_as(identity(booster)?)?;
    // One act can kill all processes of the booster's control group.
    let apart = Apart::begin(Thread::open(std::process::id())?.identity());
    let watched = watch(&booster, &donors);
    apart.remove();
    watched
}

/// Reports that the guardian watches, and lowers the donors at each alarm until the booster ends.
fn watch(booster: &Process, donors: &[Identity]) -> Result<()> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let alarm = Timer::shared(input.map_err(|source| Error::Call { what: "share a timer".to_string(), source })?);
    let waiting = Waiting::new()?;
    waiting.add(booster, END)?;
    waiting.add(&alarm, ALARM)?;
    let mut output = io::stdout();
    let written = output.write_all(&[WATCHES]).and_then(|()| output.flush());
    written.map_err(|source| Error::Call { what: "report that the guardian watches".to_string(), source })?;
    while waiting.next(Instant::NEVER)? != Some(END) {
        // The donors exist as long as the timer is armed, unless the booster has ended.
        if alarm.went_off() && !booster.has_ended() {
            donors.iter().for_each(|donor| lower(donor.tid));
        }
    }
    Ok(())
}

fn lower(donor: u32) {
    // A donor of a killed process may have ended.
    let _ = attributes::apply(donor, Attributes::of(Policy::Other { nice: 19 }));
}

/// Parses `TID:START`.
fn identity(word: &str) -> Result<Identity> {
    let parsed = word.split_once(':').and_then(|(tid, start)| Some((tid.parse().ok()?, start.parse().ok()?)));
    let (tid, start_time) = parsed.ok_or_else(|| Error::Absent {
        what: format!("the thread {word}"),
        why: "it is no TID:START".to_string(),
        remedy: "run the command that starts this one",
    })?;
    Ok(Identity { tid, start_time })
}
