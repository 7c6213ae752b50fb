//! [`Client`]: a front end's handle on its core.

use super::COMMAND;
use super::connection::{Connection, Received, VERSION};
use super::failure::Failure;
use super::message::{Command, Message, News, Opening, ProcessId, Reply, Roster};
use super::setup::Setup;
use crate::Explanation;
use crate::dispatch::{Dismissed, PromiseRequest, Refusal};
use crate::guardian::this_program;
use crate::kernel::CpuShare;
use sched::{CpuId, Descriptor, EntityId, Instant, Nanos, PromiseState};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use sys::event::Waiting;
use sys::process::Process;
use sys::{clock, launch};
use trace::Event;

/// Maximum length of a message of the core: far above the length of a full journal. Unit: bytes.
const MESSAGE_MOST: usize = 1 << 26;
/// Maximum time for the core to start. The core may have to wait for the end of another one.
const START: Nanos = Nanos::s(30);
/// Maximum time for a resident core to admit a front end. The core may be carrying out a command.
const ATTACHMENT: Nanos = Nanos::s(10);
/// Maximum time for the core to answer or to end. A promise to a thousand threads takes seconds on a slow machine. The
/// guardian kills a core whose command thread hangs in less time.
const ANSWER: Nanos = Nanos::s(30);
/// Maximum time from the death of a core to the restoration of all threads by its guardian.
const RESTORATION: Nanos = Nanos::s(2);
/// Maximum time from the moment when a core closes its connection to the end of its process.
const DEATH: Nanos = Nanos::s(2);
/// Interval between two checks whether all threads are restored.
const LOOK: Nanos = Nanos::ms(10);

/// What the front end knows about the end of the core.
#[derive(Debug)]
enum Phase {
    /// The core serves commands.
    Serves,
    /// Another process has requested the end of the core, which still answers commands.
    IsEnding,
    /// The core has reported its end.
    Ended(Result<(), Failure>),
    /// The connection is broken.
    Broken(io::Error),
}

/// A front end's handle on its core. When the handle on a core that this front end has started is dropped, the core
/// restores all threads and ends. A resident core keeps its promises.
#[derive(Debug)]
pub struct Client {
    setup: Setup,
    /// The core that this front end has started; `None` for a resident core.
    child: Option<Child>,
    process: Process,
    epoch: Instant,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    /// Absent after the end of the core.
    connection: Option<Connection>,
    /// Event set with the connection.
    readable: Waiting,
    phase: Phase,
}

/// Runs `front` while a core with the parameters `setup` serves its commands, and then ends the core.
///
/// # Errors
/// See [`Failure`].
pub fn serve<R>(setup: &Setup, front: impl FnOnce(&Client) -> R) -> Result<R, Failure> {
    let client = Client::start(setup)?;
    let answer = front(&client);
    client.end()?;
    Ok(answer)
}

impl Client {
    /// Starts a core. Returns when the core serves commands.
    ///
    /// # Errors
    /// The core does not start.
    pub fn start(setup: &Setup) -> Result<Client, Failure> {
        let failed = |error: io::Error| {
            let why = format!("cannot start the core: {error}");
            Failure::Refused(Explanation::new(why, "reduce the number of processes and open files"))
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut program = Program::new(&setup.executable);
        let number = launch::inherit(&mut program, OwnedFd::from(theirs));
        program.arg0("tactus").args([COMMAND, &number.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        let connection = Connection::new(ours).map_err(failed)?;
        let readable = Waiting::new()?;
        readable.add(&connection, 0)?;
        let child = program.spawn().map_err(failed)?;
        // This process must not keep the core's end of the connection open.
        drop(program);
        // The child is not reaped yet, so its pid is not reused.
        let process = Process::open(child.id())?;
        let state = RefCell::new(State { connection: Some(connection), readable, phase: Phase::Serves });
        let mut client = Client { setup: setup.clone(), child: Some(child), process, epoch: Instant::ZERO, state };
        match client.open() {
            Some(epoch) => client.epoch = epoch,
            None => return Err(client.failure()),
        }
        Ok(client)
    }

    /// Becomes the front end of the resident core at `socket`, in place of any other. `find` returns the policy with a
    /// name.
    ///
    /// # Errors
    /// No core listens at `socket`, this process may not connect, or the core has another version.
    pub fn attach(socket: &Path, find: impl Fn(&str) -> Option<&'static Descriptor>) -> Result<Client, Failure> {
        let failed = |error: io::Error| {
            let why = format!("cannot reach a core at {}: {error}", socket.display());
            Failure::Refused(Explanation::new(why, "start `tactus core`, or use its user"))
        };
        let mut connection = Connection::new(UnixStream::connect(socket).map_err(failed)?).map_err(failed)?;
        let patience = clock::now() + ATTACHMENT;
        let goes_on = || clock::now() < patience;
        connection.greet(VERSION, goes_on).map_err(Failure::Refused)?;
        let (pid, epoch, opening) = match connection.receive(MESSAGE_MOST, goes_on).map_err(failed)? {
            Received::Message(Message::Attached { pid, epoch, opening }) => (pid, epoch, opening),
            Received::Message(Message::Ended(Err(failure))) => return Err(failure),
            Received::Message(_) => return Err(failed(ErrorKind::InvalidData.into())),
            Received::Malformed(reason) => return Err(Failure::Refused(reason)),
        };
        let setup = opening.setup(find, this_program()).map_err(Failure::Refused)?;
        let readable = Waiting::new()?;
        readable.add(&connection, 0)?;
        let state = RefCell::new(State { connection: Some(connection), readable, phase: Phase::Serves });
        Ok(Client { setup, child: None, process: Process::open(pid)?, epoch, state })
    }

    /// Returns the parameters of the core.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Sends the parameters of the core. Returns time zero of its journal; `None` if the core does not start.
    fn open(&self) -> Option<Instant> {
        let patience = clock::now() + START;
        let mut state = self.state.borrow_mut();
        let connection = state.connection.as_mut()?;
        let greeted = connection.greet(VERSION, || clock::now() < patience);
        if let Err(reason) = greeted {
            state.phase = Phase::Ended(Err(Failure::Refused(reason)));
            return None;
        }
        let sent = connection.send(&Opening::new(&self.setup), || clock::now() < patience);
        if let Err(error) = sent {
            state.phase = Phase::Broken(error);
            return None;
        }
        match state.receive(patience) {
            Some(Message::Ready { epoch }) => Some(epoch),
            _ => None,
        }
    }

    /// Returns the pid of the core.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Makes the promise `request` to process `pid` and its descendants. With a hard limit, the call takes some 10 ms more.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit(&self, request: &PromiseRequest, pid: u32) -> Result<Vec<EntityId>, Refusal> {
        self.admit_process(request, ProcessId { pid, start_time: None })
    }

    /// Makes the promise `request` as [`admit`](Client::admit) does, but never to a later process with the same pid.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit_process(&self, request: &PromiseRequest, process: ProcessId) -> Result<Vec<EntityId>, Refusal> {
        match self.ask(&Command::Admit { request: Box::new(request.clone()), process }) {
            Some(Reply::Admitted(answer)) => answer.map_err(|refusal| refusal.of(&self.setup)),
            other => Err(unanswered(other)),
        }
    }

    /// Changes the promise that `entity` is part of to `slice` in every `period`.
    ///
    /// # Errors
    /// The change is refused; nothing has changed.
    pub fn adjust(&self, entity: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        self.change(&Command::Adjust { entity, slice, period })
    }

    /// Returns whether [`admit_process`](Client::admit_process) would make the promise, in place of the promise that `instead` is
    /// part of. Nothing changes. If the promise of before has another mechanism, its time counts as taken.
    ///
    /// # Errors
    /// The request would be refused.
    pub fn would_admit(
        &self,
        request: &PromiseRequest,
        process: ProcessId,
        instead: Option<EntityId>,
    ) -> Result<(), Refusal> {
        self.change(&Command::WouldAdmit { request: Box::new(request.clone()), process, instead })
    }

    /// Returns whether [`adjust`](Client::adjust) would change the promise that `entity` is part of. Nothing changes.
    ///
    /// # Errors
    /// The change would be refused.
    pub fn would_adjust(&self, entity: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        self.change(&Command::WouldAdjust { entity, slice, period })
    }

    /// Gives process `pid` and its descendants this share of the CPUs, until [`end_share`](Client::end_share) or the end
    /// of the core. Takes some 10 ms.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn share(&self, pid: u32, share: CpuShare) -> Result<(), Refusal> {
        self.share_process(ProcessId { pid, start_time: None }, share)
    }

    /// Gives a share as [`share`](Client::share) does, but never to a later process with the same pid.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn share_process(&self, process: ProcessId, share: CpuShare) -> Result<(), Refusal> {
        self.change(&Command::Share { process, share })
    }

    fn change(&self, command: &Command) -> Result<(), Refusal> {
        match self.ask(command) {
            Some(Reply::Changed(answer)) => answer.map_err(|refusal| refusal.of(&self.setup)),
            other => Err(unanswered(other)),
        }
    }

    /// Ends the share of process `pid`: its processes return to their earlier control group.
    pub fn end_share(&self, pid: u32) {
        self.ask(&Command::EndShare { pid });
    }

    /// Ends the promise to `entity`.
    pub fn dismiss(&self, entity: EntityId) {
        self.ask(&Command::Dismiss { entity });
    }

    /// Replaces the content of `events` with the events since the last call. Returns the number of events that were
    /// lost because the journal was full.
    pub fn read_journal(&self, events: &mut Vec<(Instant, Event)>) -> u64 {
        let Some(Reply::Journal { events: read, lost }) = self.ask(&Command::ReadJournal) else {
            events.clear();
            return 0;
        };
        *events = read;
        lost
    }

    /// Returns the clients that were dismissed since the last call.
    #[must_use]
    pub fn take_dismissed(&self) -> Vec<Dismissed> {
        match self.ask(&Command::TakeDismissed) {
            Some(Reply::Dismissed(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Returns the events and dismissals since the last call, by one command. After the end of the core, there are none.
    #[must_use]
    pub fn read_news(&self) -> News {
        match self.ask(&Command::ReadNews) {
            Some(Reply::News(news)) => news,
            _ => News::default(),
        }
    }

    /// Returns the promises and shares in force. After the end of the core, there are none.
    #[must_use]
    pub fn read_roster(&self) -> Roster {
        match self.ask(&Command::ReadRoster) {
            Some(Reply::Roster(roster)) => roster,
            _ => Roster::default(),
        }
    }

    /// Returns the entities that have their turns on a CPU, each with this CPU. The kernel chooses the CPUs of other promises.
    #[must_use]
    pub fn read_places(&self) -> Vec<(EntityId, CpuId)> {
        match self.ask(&Command::ReadPlaces) {
            Some(Reply::Places(places)) => places,
            _ => Vec::new(),
        }
    }

    /// Returns time zero of the journal, according to the monotonic clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Returns whether this host reports wake-ups of `entity`.
    #[must_use]
    pub fn reports_wakeups(&self, entity: EntityId) -> bool {
        matches!(self.ask(&Command::ReportsWakeups { entity }), Some(Reply::ReportsWakeups(true)))
    }

    /// Returns the promise state of `entity`; `None` if the policy keeps no promise for it.
    #[must_use]
    pub fn promise(&self, entity: EntityId) -> Option<PromiseState> {
        match self.ask(&Command::Promise { entity }) {
            Some(Reply::Promise(state)) => state,
            _ => None,
        }
    }

    /// Returns the problems that did not end the core.
    #[must_use]
    pub fn warnings(&self) -> Vec<Explanation> {
        match self.ask(&Command::Warnings) {
            Some(Reply::Warnings(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Returns whether the core ends or has ended, although this front end has not requested its end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let mut state = self.state.borrow_mut();
        // Between two commands, the core reports only its end.
        while matches!(state.phase, Phase::Serves) && matches!(state.readable.next(Instant::ZERO), Ok(Some(_))) {
            state.receive(clock::now() + ANSWER);
        }
        !matches!(state.phase, Phase::Serves)
    }

    /// Returns whether another process has requested the end of the core.
    #[must_use]
    pub fn is_ended_on_request(&self) -> bool {
        matches!(self.state.borrow().phase, Phase::IsEnding | Phase::Ended(Ok(())))
    }

    /// Sends a command. Returns the reply; `None` if the core has ended.
    fn ask(&self, command: &Command) -> Option<Reply> {
        let mut state = self.state.borrow_mut();
        let patience = clock::now() + ANSWER;
        state.send(command, patience)?;
        loop {
            if let Message::Reply(reply) = state.receive(patience)? {
                return Some(reply);
            }
        }
    }

    /// Ends the core. Returns when all threads are restored.
    ///
    /// # Errors
    /// The core has failed, or its end is not in order.
    pub fn end(mut self) -> Result<(), Failure> {
        let state = self.state.get_mut();
        let patience = clock::now() + ANSWER;
        if state.send(&Command::End, patience).is_some() {
            while state.receive(patience).is_some() {}
        }
        match state.phase {
            Phase::Ended(Ok(())) => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// Returns the reason why the core has ended.
    fn failure(mut self) -> Failure {
        let state = self.state.get_mut();
        state.connection = None;
        match std::mem::replace(&mut state.phase, Phase::Ended(Ok(()))) {
            Phase::Ended(Err(failure)) => failure,
            Phase::Broken(error) => self.death(&error),
            Phase::Serves | Phase::IsEnding | Phase::Ended(Ok(())) => {
                let why = "the core has sent an unexpected message";
                Failure::NotRestored(Explanation::new(why, "use programs of the same version"))
            }
        }
    }

    /// Returns the failure of a core that died or hangs, after its guardian has restored all threads.
    fn death(&mut self, error: &io::Error) -> Failure {
        let pid = self.process.pid();
        let Some(child) = &mut self.child else {
            // The guardian of a resident core restores all threads; this process may lack the privilege to check.
            return Failure::Failed(Explanation::new(format!("the core, process {pid}, has left: {error}"), ""));
        };
        let (patience, what) = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => (LOOK, format!("did not answer within {ANSWER}")),
            // The kernel closes the connection of a dying core before the core has ended. The last thread of the core
            // may have to wait for a CPU.
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                (DEATH, format!("closed its connection, did not end within {DEATH}"))
            }
            _ => (LOOK, format!("cannot be understood ({error})")),
        };
        // A core that does not answer keeps no promises. The guardian restores its threads.
        let was_killed = !self.process.ends_within(patience) && self.process.kill().is_ok();
        let why = match child.wait() {
            _ if was_killed => format!("the core, process {pid}, {what}, and was killed"),
            Ok(status) => format!("the core, process {pid}, has ended: {status}"),
            Err(_) => format!("the core, process {pid}, has ended: {error}"),
        };
        let end = clock::now() + RESTORATION;
        while clock::now() < end {
            if matches!(self.setup.directory.open_table(), Ok(None)) {
                return Failure::Failed(Explanation::new(why, ""));
            }
            clock::sleep(LOOK);
        }
        Failure::NotRestored(Explanation::new(why, "run `tactus release`"))
    }
}

impl State {
    /// Sends a command; `None` if the core has ended.
    fn send(&mut self, command: &Command, patience: Instant) -> Option<()> {
        let connection = self.connection.as_mut()?;
        match connection.send(command, || clock::now() < patience) {
            Ok(()) => Some(()),
            Err(error) => {
                // The core may have reported its end before it closed the connection.
                while self.receive(patience).is_some() {}
                if matches!(self.phase, Phase::Serves | Phase::IsEnding) {
                    self.phase = Phase::Broken(error);
                }
                None
            }
        }
    }

    /// Receives a message; `None` if the core has ended.
    fn receive(&mut self, patience: Instant) -> Option<Message> {
        let received = self.connection.as_mut()?.receive(MESSAGE_MOST, || clock::now() < patience);
        self.phase = match received {
            Ok(Received::Message(Message::Ended(outcome))) => Phase::Ended(outcome),
            Ok(Received::Message(message)) => {
                if matches!(message, Message::Ending) {
                    self.phase = Phase::IsEnding;
                }
                return Some(message);
            }
            Ok(Received::Malformed(reason)) => Phase::Broken(io::Error::other(reason.to_string())),
            Err(error) => Phase::Broken(error),
        };
        self.connection = None;
        None
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Closing the connection ends the core.
        self.state.get_mut().connection = None;
        if let Some(child) = &mut self.child
            && self.process.ends_within(ANSWER)
        {
            let _ = child.wait();
        }
    }
}

/// Returns the refusal of a command without a suitable reply.
fn unanswered(reply: Option<Reply>) -> Refusal {
    match reply {
        Some(Reply::Malformed(reason)) => Refusal::Reported(reason),
        _ => Refusal::Reported(Explanation::new("the core has ended", "start it again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use crate::dispatch::{KeptBy, RaiseBy};
    use crate::live::AdmissionPolicy;

    /// Starts a program that exchanges greetings as a core and then runs `script` in bash, with the descriptor of its connection as
    /// `$fd`. Returns the failure.
    fn failure_of(script: &str) -> String {
        let place = tempfile::tempdir().unwrap();
        let executable = place.path().join("core");
        let text = format!(
            "#!/bin/bash\nfd=$2\nprintf 'TACTUSMS\\x{VERSION:02x}\\0\\0\\0' >&$fd\nhead -c 12 <&$fd >/dev/null\n{script}\n"
        );
        // Another process writes the file: a concurrent fork of this process would keep the file open for writing, and
        // then the file cannot be executed.
        let write = "printf %s \"$1\" > \"$0\" && chmod +x \"$0\"";
        let written = Program::new("sh").args(["-c", write]).arg(&executable).arg(text).status().unwrap();
        assert!(written.success());
        let policy = policies::find(crate::terms::POLICY).expect("it is registered");
        let setup = Setup {
            directory: Directory::at(place.path().join("state")),
            executable,
            turns: Some(AdmissionPolicy { policy, knobs: policy.defaults() }),
            reservations: None,
            usual: KeptBy::Dispatcher(RaiseBy::Inheritance),
            scheduler: None,
            fault: None,
        };
        match Client::start(&setup) {
            Err(Failure::Failed(why)) => why.reason.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_core_that_dies_slowly_is_reported_with_its_exit_status() {
        let reason = failure_of("exec {fd}>&-; sleep 0.3; exit 3");
        assert!(reason.ends_with(", has ended: exit status: 3"), "{reason}");
    }

    #[test]
    fn a_core_that_closes_its_connection_and_does_not_end_is_killed() {
        let reason = failure_of("exec {fd}>&-; exec sleep 60");
        assert!(reason.ends_with(", closed its connection, did not end within 2s, and was killed"), "{reason}");
    }
}
