//! The front ends of a core: which of them the command thread serves, and for how long.

use super::commands::Commands;
use super::connection::{Connection, VERSION};
use super::failure::Failure;
use super::fault::StalledThread;
use super::handover::{NotReplaced, State};
use super::keeper::FRONT_END;
use super::message::{Message, Opening};
use super::resident_options::ResidentOptions;
use super::setup::Setup;
use super::shared::{RaisedPriority, Shared, at_agent_priority};
use crate::Explanation;
use sched::Nanos;
use std::io;
use sys::event::{Bell, Waiting};
use sys::{attributes, clock};

/// Maximum time between two beats of the command thread while it waits.
const BEAT: Nanos = Nanos::ms(500);
/// Maximum time for a front end that enters to send its greeting.
const GREETING: Nanos = Nanos::s(1);

/// Maximum time for the rest of a message of a front end that another one can replace.
const MESSAGE: Nanos = Nanos::s(2);
/// Pause after a connection that could not be accepted, for example because too many files are open.
const RETRY: Nanos = Nanos::ms(100);

/// Event sources of the command thread.
const COMMAND: u64 = 0;
const REQUEST: u64 = 1;
const OVER: u64 = 2;
const VISITOR: u64 = 3;
const REPLACEMENT: u64 = 4;

/// The front ends of a core.
pub(super) enum FrontEnds<'f> {
    /// The front end that has started the core. Its end is the end of the core.
    Only(&'f mut Connection),
    /// The front ends that connect to the entrance of a resident core with the parameters `setup`.
    Of { options: &'f ResidentOptions<'f>, setup: &'f Setup },
}

/// The reason why a front end is served no longer.
enum Left {
    /// The core ends.
    CoreEnds,
    /// Another front end takes its place.
    Replaced(Connection),
}

/// Carries out commands until a front end requests the end of the core, until the only front end closes its connection,
/// until the core fails, or until `end` rings. First continues the promises of `former`, the former program of this
/// process.
///
/// # Errors
/// The kernel refuses to wait, or to transfer messages.
pub(super) fn serve(
    shared: &Shared<'_>,
    former: Option<(State, RaisedPriority)>,
    front_ends: FrontEnds<'_>,
    end: &Bell,
) -> Result<(), Failure> {
    let waiting = Waiting::new()?;
    waiting.add(end, REQUEST)?;
    waiting.add(&shared.notification, OVER)?;
    let commands = match former {
        Some((former, _raised)) => Commands::of_former(shared, end, former),
        None => Commands::new(shared, end),
    };
    // Commands are carried out soon, also beside busy threads. A refusal costs only time.
    let _ = attributes::run_promptly();
    let service = Service { shared, commands, waiting };
    let epoch = at_agent_priority(|| shared.lock().epoch());
    let outcome = match front_ends {
        FrontEnds::Only(connection) => {
            shared.keeper_events.add_hang_up(&*connection, FRONT_END)?;
            let begun = connection.send(&Message::Ready { epoch }, || service.commands.goes_on());
            begun.and_then(|()| service.converse(connection, None)).map(drop)
        }
        FrontEnds::Of { options, setup } => {
            service.waiting.add(options.entrance, VISITOR)?;
            service.waiting.add(options.replacement.request, REPLACEMENT)?;
            (options.ready)();
            let opening = Opening::new(setup);
            let attached = Message::Attached { pid: std::process::id(), epoch, opening: opening.clone() };
            service.receive(&Visits { options, opening, attached })
        }
    };
    match outcome {
        Err(error) if !is_an_end(&error) => {
            let why = format!("cannot exchange messages with the front end: {error}");
            Err(Failure::Failed(Explanation::new(why, "")))
        }
        _ => Ok(()),
    }
}

/// Returns whether `error` is the end of a connection: closed by one of the processes, or not awaited any longer.
fn is_an_end(error: &io::Error) -> bool {
    use io::ErrorKind as Is;
    matches!(
        error.kind(),
        Is::UnexpectedEof
            | Is::ConnectionAborted
            | Is::BrokenPipe
            | Is::ConnectionReset
            | Is::WouldBlock
            | Is::TimedOut
    )
}

/// What a resident core has for its front ends.
struct Visits<'f> {
    options: &'f ResidentOptions<'f>,
    /// The parameters of the core.
    opening: Opening,
    /// The message to each front end that enters.
    attached: Message,
}

/// The command thread, with the events that it waits for.
struct Service<'a, 'k> {
    shared: &'a Shared<'k>,
    commands: Commands<'a, 'k>,
    waiting: Waiting,
}

impl Service<'_, '_> {
    /// Waits for the next event. Returns its number; `None` if it is time to beat.
    fn next_event(&self) -> io::Result<Option<u64>> {
        self.shared.stall(StalledThread::Commands);
        let until = clock::now().saturating_add(BEAT).min(self.commands.end_of_service());
        self.waiting.next(until).map_err(io::Error::other)
    }

    /// Serves one front end after another until the core ends.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    fn receive(&self, visits: &Visits<'_>) -> io::Result<()> {
        let mut visitor = None;
        while self.commands.goes_on() {
            let Some(mut connection) = visitor.take() else {
                match self.next_event()? {
                    Some(VISITOR) => visitor = self.welcome(visits),
                    Some(REPLACEMENT) => self.replace(visits),
                    _ => {}
                }
                continue;
            };
            match self.converse(&mut connection, Some(visits)) {
                Ok(Left::CoreEnds) => return Ok(()),
                Ok(Left::Replaced(other)) => {
                    let why = Explanation::new("another front end has taken over the core", "end one of them");
                    let _ = connection.send(&Message::Ended(Err(Failure::Running(why))), || false);
                    visitor = Some(other);
                }
                Err(error) if is_an_end(&error) => {}
                // The promises stay, whatever a front end sends.
                Err(error) => self.shared.warn(Explanation::new(format!("a front end was dismissed: {error}"), "")),
            }
        }
        Ok(())
    }

    /// Exchanges greetings with a waiting front end. Returns its connection; `None` if it may not enter, or does not speak
    /// this version of the messages.
    fn welcome(&self, visits: &Visits<'_>) -> Option<Connection> {
        let accepted = visits.options.entrance.accept().and_then(|stream| stream.map(Connection::new).transpose());
        let mut connection = match accepted {
            Ok(connection) => connection?,
            Err(error) => {
                self.shared.warn(Explanation::new(format!("cannot accept a front end: {error}"), ""));
                // The front end still waits, so the next attempt would follow at once.
                clock::sleep(RETRY);
                return None;
            }
        };
        let patience = clock::now().saturating_add(GREETING);
        let goes_on = || self.commands.goes_on() && clock::now() < patience;
        let has_entered =
            connection.greet(VERSION, goes_on).is_ok() && connection.send(&visits.attached, goes_on).is_ok();
        has_entered.then_some(connection)
    }

    /// Serves a front end until the core ends or, with `visits`, until another front end enters.
    ///
    /// # Errors
    /// The connection is closed, or cannot be understood.
    fn converse(&self, connection: &mut Connection, visits: Option<&Visits<'_>>) -> io::Result<Left> {
        self.waiting.add(&*connection, COMMAND).map_err(io::Error::other)?;
        // A front end that has stopped in the middle of a message must not keep out the next one.
        let patience = if visits.is_some() { MESSAGE } else { Nanos::ns(u64::MAX) };
        let mut is_reported = false;
        while self.commands.goes_on() {
            if self.commands.is_ending() && !is_reported {
                is_reported = true;
                connection.send(&Message::Ending, || self.commands.goes_on())?;
                continue;
            }
            match self.next_event()? {
                Some(COMMAND) if !self.commands.answer(connection, patience)? => return Ok(Left::CoreEnds),
                Some(VISITOR) => {
                    if let Some(visitor) = visits.and_then(|visits| self.welcome(visits)) {
                        return Ok(Left::Replaced(visitor));
                    }
                }
                Some(REPLACEMENT) => visits.into_iter().for_each(|visits| self.replace(visits)),
                _ => {}
            }
        }
        Ok(Left::CoreEnds)
    }

    /// Replaces this program, and does not return. If that is not possible, the core continues, or it fails.
    fn replace(&self, visits: &Visits<'_>) {
        let Visits { options, opening, .. } = visits;
        let _ = options.replacement.request.rings();
        let from = (options.entrance, &options.locks);
        let reason = match self.commands.replace(&options.replacement, from, opening.clone()) {
            NotReplaced::Unchanged(reason) => {
                self.shared.warn(reason.clone());
                reason
            }
            NotReplaced::Suspended(reason) => {
                self.shared.fail(reason.clone());
                reason
            }
            NotReplaced::Ending => return,
        };
        (options.complain)(&reason);
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Client;
    use super::super::connection::Received;
    use super::super::core_locks::CoreLocks;
    use super::super::entrance::Entrance;
    use super::super::handover::Replacement;
    use super::super::message::{Command, ProcessId, Reply, Roster};
    use super::super::setup::AdmissionPolicy;
    use super::super::shared::tests::shared;
    use super::*;
    use crate::directory::Directory;
    use crate::dispatch::{KeptBy, RaiseBy};
    use crate::guardian::this_program;
    use crate::kernel::CpuShare;
    use crate::linux::Linux;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    /// Ends the core even if the test fails.
    struct Ending<'b>(&'b Bell);

    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.ring();
        }
    }

    /// Maximum length of a message.
    const MOST: usize = 1 << 16;

    #[test]
    fn a_request_for_the_end_is_heard_while_the_front_end_has_sent_half_of_a_command() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let end = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                let shared = shared(&kernel, directory.path());
                serve(&shared, None, FrontEnds::Only(&mut Connection::new(ours).unwrap()), &end)
            });
            let mut front = Connection::new(theirs.try_clone().unwrap()).unwrap();
            assert!(matches!(front.receive(MOST, || true).unwrap(), Received::Message(Message::Ready { .. })));
            // A length of two bytes, and one of them.
            theirs.write_all(&[2, 0, 0, 0, 3]).unwrap();
            clock::sleep(Nanos::ms(50));
            end.ring();
            let within = clock::now() + Nanos::ms(1_500);
            while !core.is_finished() && clock::now() < within {
                clock::sleep(Nanos::ms(5));
            }
            let has_ended = core.is_finished();
            // Closing the connection ends the core in any case.
            drop((front, theirs));
            core.join().unwrap().unwrap();
            assert!(has_ended, "the core waits for the rest of the command");
        });
    }

    #[test]
    fn a_core_that_ends_on_request_answers_commands_and_makes_no_promise() {
        let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                let shared = shared(&kernel, directory.path());
                serve(&shared, None, FrontEnds::Only(&mut Connection::new(ours).unwrap()), &end)
            });
            let mut front = Connection::new(theirs).unwrap();
            let mut next = |command: Option<Command>| {
                command.iter().for_each(|command| front.send(command, || true).unwrap());
                match front.receive(MOST, || true).unwrap() {
                    Received::Message(message) => message,
                    Received::Malformed(reason) => panic!("{reason}"),
                }
            };
            assert!(matches!(next(None), Message::Ready { .. }));
            end.ring();
            assert!(matches!(next(None), Message::Ending));
            assert!(matches!(next(Some(Command::Warnings)), Message::Reply(Reply::Warnings(_))));
            let share = Command::Share {
                process: ProcessId { pid: 1, start_time: None },
                share: CpuShare { weight: None, cap_percent: None },
            };
            let Message::Reply(Reply::Changed(Err(refused))) = next(Some(share)) else { panic!("it is given") };
            assert!(format!("{refused:?}").contains("ends on request"), "{refused:?}");
            core.join().unwrap().unwrap();
        });
    }

    #[test]
    fn front_ends_of_a_resident_core_follow_one_another_and_a_later_one_replaces_an_earlier_one() {
        let (place, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
        let path = place.path().join("core.sock");
        let entrance = Entrance::at(&path, None).unwrap();
        let policy = policies::find(crate::terms::POLICY).expect("it is registered");
        let setup = Setup {
            directory: Directory::at(place.path()),
            executable: this_program().to_path_buf(),
            turns: Some(AdmissionPolicy { policy, knobs: crate::terms::knobs(policy) }),
            reservations: None,
            usual: KeptBy::Dispatcher(RaiseBy::Inheritance),
            scheduler: None,
            fault: None,
        };
        let end = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                let shared = shared(&kernel, place.path());
                let request = &Bell::new().unwrap();
                let (is_ending, program) = (&AtomicBool::new(false), PathBuf::new());
                let replacement = Replacement { request, is_ending, program, arguments: Vec::new() };
                let locks = CoreLocks::acquire(&setup.directory).unwrap();
                let (entrance, ready, complain) = (&entrance, &|| {}, &|_: &Explanation| {});
                let options = ResidentOptions { entrance, ready, replacement, complain, locks };
                serve(&shared, None, FrontEnds::Of { options: &options, setup: &setup }, &end)
            });
            let _ending = Ending(&end);
            let attach = || Client::attach(&path, policies::find).unwrap();
            let first = attach();
            assert_eq!((first.pid(), first.read_roster()), (std::process::id(), Roster::default()));
            assert_eq!(first.setup().turns.as_ref().map(|it| it.policy.name), Some(policy.name));
            // A process that sends no greeting delays the front end, and does not replace it.
            let silent = UnixStream::connect(&path).unwrap();
            assert_eq!(first.warnings(), []);
            assert!(!first.is_over());
            drop(silent);
            let second = attach();
            // The core greets the second front end, and then dismisses the first.
            let within = clock::now() + Nanos::s(10);
            while !first.is_over() && clock::now() < within {
                clock::sleep(Nanos::ms(1));
            }
            assert!(first.is_over() && !second.is_over());
            drop(second);
            // A front end that stops in the middle of a command keeps out the next one for a short time only.
            let mut stopped = UnixStream::connect(&path).unwrap();
            let mut greeted = Connection::new(stopped.try_clone().unwrap()).unwrap();
            greeted.greet(VERSION, || true).unwrap();
            assert!(matches!(greeted.receive(MOST, || true).unwrap(), Received::Message(Message::Attached { .. })));
            stopped.write_all(&[2, 0, 0, 0, 3]).unwrap();
            let third = attach();
            assert_eq!(third.warnings(), []);
            assert!(!third.is_over());
            end.ring();
            core.join().unwrap().unwrap();
            assert!(third.is_over() && third.is_ended_on_request());
        });
    }
}
