//! Executed programs and ended processes, as the kernel's process connector reports them.
//!
//! The connector is a netlink socket (include/uapi/linux/cn_proc.h, drivers/connector/cn_proc.c). It reports the processes
//! of the initial PID namespace, and ignores requests from any other namespace.

use crate::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, send, socket_with};
use std::collections::BTreeSet;

/// Size of the receive buffer in bytes. An event needs about 800 bytes, so the buffer has room for about 10,000 events.
const BUFFER: usize = 8 << 20;
/// Maximum size of a message. Unit: bytes. A message of the connector has about 76 bytes.
const MESSAGE_MOST: usize = 1024;
/// Number of messages that one call reads at most. Further messages wait for the next call.
const READ_MOST: usize = 65_536;

/// The connector's group and value of process events, `CN_IDX_PROC` and `CN_VAL_PROC`.
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN` and `PROC_CN_MCAST_IGNORE`.
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// `PROC_EVENT_NONE`: the reply to a request.
const REPLY: u32 = 0;
/// `PROC_EVENT_EXEC` and `PROC_EVENT_EXIT`.
const EXEC: u32 = 0x0000_0002;
const EXIT: u32 = 0x8000_0000;

/// Sizes of `struct nlmsghdr`, of `struct cn_msg`, and of `struct proc_event` before its data. Unit: bytes.
const HEADER: usize = 16;
const CONNECTOR_HEADER: usize = 20;
const EVENT_HEADER: usize = 16;
/// `NLMSG_DONE`, the type of all messages of the connector.
const DONE: u16 = 3;

const REMEDY: &str = "run as root (CAP_NET_ADMIN), outside of containers, on a kernel with CONFIG_PROC_EVENTS";

/// A subscription to the executed programs and the ended processes of this machine. The events wait in a buffer until
/// [`read`](ProcessEvents::read).
#[derive(Debug)]
pub struct ProcessEvents {
    socket: OwnedFd,
    /// Whether events were lost since the buffer was last empty.
    has_lost: bool,
}

/// What has happened since the last look.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProcessNews {
    /// Pids of processes that have executed a program. They may have ended since.
    pub executed: BTreeSet<u32>,
    /// Pids of processes whose first thread has ended.
    pub ended: BTreeSet<u32>,
    /// Whether events were lost. What /proc shows from now on includes them.
    pub has_lost: bool,
}

impl ProcessEvents {
    /// Subscribes to the events from now on.
    ///
    /// # Errors
    /// The caller lacks permission, runs in a namespace of its own, or the kernel has no connector.
    pub fn open() -> Result<ProcessEvents> {
        ProcessEvents::with_buffer(BUFFER)
    }

    fn with_buffer(bytes: usize) -> Result<ProcessEvents> {
        let failed = |errno: Errno| match errno {
            Errno::AFNOSUPPORT => absent("this process may not use netlink sockets"),
            // No socket of the kernel listens in the network namespace of this process, or at all.
            Errno::CONNREFUSED | Errno::PROTONOSUPPORT | Errno::NOENT => absent("the kernel does not offer it here"),
            other => Error::from(other, "subscribe to the events of processes", REMEDY),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR)).map_err(failed)?;
        // Only the forced size exceeds the usual limit, net.core.rmem_max. With a smaller buffer, events are lost sooner.
        if set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
            let _ = set_socket_recv_buffer_size(&socket, bytes);
        }
        bind(&socket, &SocketAddrNetlink::new(0, PROCESSES)).map_err(failed)?;
        let events = ProcessEvents { socket, has_lost: false };
        events.request(&[LISTEN]).map_err(failed)?;
        events.await_reply()?;
        // Kernels before 6.6 ignore the filter, and report all events.
        events.request(&[LISTEN, EXEC | EXIT]).map_err(failed)?;
        Ok(events)
    }

    /// Sends a request to the connector.
    fn request(&self, words: &[u32]) -> rustix::io::Result<()> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let length = |bytes: usize| u32::try_from(bytes).expect("a request is short");
        let mut message = Vec::new();
        // struct nlmsghdr: length, type and flags, sequence number, port.
        message.extend(length(HEADER + CONNECTOR_HEADER + body.len()).to_ne_bytes());
        message.extend(DONE.to_ne_bytes());
        message.extend([0; 10]);
        // struct cn_msg: group and value, sequence number and acknowledged number, length, flags.
        [PROCESSES, PROCESSES, 0, own_number()].iter().for_each(|word| message.extend(word.to_ne_bytes()));
        message.extend(u16::try_from(body.len()).expect("a request is short").to_ne_bytes());
        message.extend([0; 2]);
        message.extend(body);
        send(&self.socket, &message, SendFlags::empty()).map(drop)
    }

    /// Checks that the kernel has accepted the first request. The kernel replies before `send` returns, so the reply is
    /// in the buffer, perhaps after events for other listeners.
    fn await_reply(&self) -> Result<()> {
        loop {
            match self.receive() {
                Ok(Some(Message::Reply { number, errno: 0 })) if number == own_number() => return Ok(()),
                Ok(Some(Message::Reply { number, errno })) if number == own_number() => {
                    let refused = std::io::Error::from_raw_os_error(errno);
                    return Err(Error::from(refused, "subscribe to the events of processes", REMEDY));
                }
                Ok(_) => {}
                Err(Errno::AGAIN) => return Err(absent("this process runs in a PID or user namespace of its own")),
                // The reply may be among the lost messages; but then, events arrive.
                Err(Errno::NOBUFS) => return Ok(()),
                Err(errno) => return Err(Error::from(errno, "subscribe to the events of processes", REMEDY)),
            }
        }
    }

    /// Returns the events since the last call.
    pub fn read(&mut self) -> ProcessNews {
        let mut news = ProcessNews::default();
        for _ in 0..READ_MOST {
            match self.receive() {
                Ok(Some(Message::Executed(pid))) => drop(news.executed.insert(pid)),
                Ok(Some(Message::Ended(pid))) => drop(news.ended.insert(pid)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // After a loss, the kernel discards all events until the buffer is empty (netlink_overrun and
                    // netlink_rcv_wake, net/netlink/af_netlink.c), which is now.
                    news.has_lost = std::mem::take(&mut self.has_lost);
                    break;
                }
                // ENOBUFS. Any other error is a loss, too.
                Err(_) => self.has_lost = true,
            }
        }
        news
    }

    /// Receives a message; `None` if it is not from the kernel, or not about processes.
    fn receive(&self) -> rustix::io::Result<Option<Message>> {
        let mut buffer = [0; MESSAGE_MOST];
        let (_, length, sender) = recvfrom(&self.socket, &mut buffer, RecvFlags::empty())?;
        let sender = sender.and_then(|address| SocketAddrNetlink::try_from(address).ok());
        let is_of_kernel = sender.is_some_and(|address| address.pid() == 0);
        Ok(buffer.get(..length).filter(|_| is_of_kernel).and_then(parse))
    }
}

impl Drop for ProcessEvents {
    fn drop(&mut self) {
        // Kernels before 6.6 count the listeners, and go on reporting to one that does not unsubscribe.
        let _ = self.request(&[IGNORE]);
    }
}

/// A message of the connector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Executed(u32),
    Ended(u32),
    Reply { number: u32, errno: i32 },
}

/// Returns the content of a message; `None` if it is incomplete, or about anything else.
fn parse(bytes: &[u8]) -> Option<Message> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let event = HEADER + CONNECTOR_HEADER;
    let data = event + EVENT_HEADER;
    if [word(HEADER)?, word(HEADER + 4)?] != [PROCESSES; 2] {
        return None;
    }
    match word(event)? {
        REPLY => Some(Message::Reply { number: word(HEADER + 12)?.wrapping_sub(1), errno: word(data)?.cast_signed() }),
        EXEC => Some(Message::Executed(word(data + 4)?)),
        // The process ends with its last thread, but without its first thread it is no client of Tactus.
        EXIT if word(data)? == word(data + 4)? => Some(Message::Ended(word(data)?)),
        _ => None,
    }
}

/// Returns the number of requests of this process. A reply, which all listeners get, has the next number as the
/// acknowledged one.
fn own_number() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

fn absent(why: &str) -> Error {
    Error::Absent { what: "the process connector".to_string(), why: why.to_string(), remedy: REMEDY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};
    use crate::clock;
    use sched::Nanos;
    use std::process::{Command, Stdio};

    /// Variable of a test that runs in a PID namespace of its own.
    const APART: &str = "TACTUS_TEST_APART";

    fn open(bytes: usize) -> Option<ProcessEvents> {
        match ProcessEvents::with_buffer(bytes) {
            Ok(events) => Some(events),
            Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
                eprintln!("SKIPPED: {refused}");
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn soon(what: &str, mut is_it: impl FnMut() -> bool) {
        let end = clock::now() + Nanos::s(10);
        while !is_it() {
            assert!(clock::now() < end, "{what}");
            clock::sleep(Nanos::ms(1));
        }
    }

    /// Runs a program that ends at once, and returns its pid.
    fn run() -> u32 {
        let mut child = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn a_program_that_is_executed_and_its_end_are_reported() {
        let Some(mut events) = open(BUFFER) else { return };
        assert!(!events.read().has_lost);
        let child = Child::start(Work::Sleep).unwrap();
        let pid = child.pid();
        assert!(!events.read().executed.contains(&pid), "it has executed nothing");
        drop(child);
        soon("the end is reported", || events.read().ended.contains(&pid));
        let pid = run();
        let mut all = ProcessNews::default();
        soon("the program and its end are reported", || {
            let news = events.read();
            all.executed.extend(news.executed);
            all.ended.extend(news.ended);
            all.executed.contains(&pid) && all.ended.contains(&pid)
        });
        // The end of a thread is not the end of its process.
        std::thread::spawn(|| {}).join().unwrap();
        clock::sleep(Nanos::ms(20));
        assert!(!events.read().ended.contains(&own_number()));
    }

    #[test]
    fn lost_events_are_noticed_once_and_later_events_are_reported() {
        // The kernel's minimum has room for a few events.
        let Some(mut events) = open(1) else { return };
        for _ in 0..100 {
            run();
        }
        let lost = events.read();
        assert!(lost.has_lost && lost.executed.len() < 100, "{lost:?}");
        // Programs of other tests may fill the small buffer again.
        soon("the loss is reported once", || !events.read().has_lost);
        soon("an event after the loss is reported", || {
            let pid = run();
            events.read().executed.contains(&pid)
        });
    }

    #[test]
    fn a_burst_of_events_that_fits_the_buffer_loses_nothing() {
        let Some(mut events) = open(BUFFER) else { return };
        let begin = clock::now();
        let pids: BTreeSet<u32> = (0..500).map(|_| run()).collect();
        let (took, mut news) = (clock::now().since(begin), events.read());
        soon("the last end is reported", || {
            news.ended.extend(events.read().ended);
            pids.is_subset(&news.ended)
        });
        eprintln!("500 programs ran in {took}");
        assert!(!news.has_lost && pids.is_subset(&news.executed));
    }

    #[test]
    fn in_a_pid_namespace_of_its_own_a_process_is_refused_and_does_not_wait() {
        if std::env::var_os(APART).is_some() {
            let refused = ProcessEvents::open().unwrap_err();
            assert!(matches!(refused, Error::Absent { .. }), "{refused}");
            println!("refused: {refused}");
            return;
        }
        if open(BUFFER).is_none() {
            return;
        }
        let name = "process_events::tests::in_a_pid_namespace_of_its_own_a_process_is_refused_and_does_not_wait";
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
        let done = command.args(["--exact", name, "--nocapture"]).env(APART, "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("namespace of its own"), "{said}");
    }

    #[test]
    fn an_incomplete_message_is_nothing() {
        let mut bytes = vec![0_u8; HEADER + CONNECTOR_HEADER + EVENT_HEADER + 8];
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        put(HEADER, PROCESSES);
        put(HEADER + 4, PROCESSES);
        put(HEADER + CONNECTOR_HEADER, EXIT);
        put(HEADER + CONNECTOR_HEADER + EVENT_HEADER, 7);
        put(HEADER + CONNECTOR_HEADER + EVENT_HEADER + 4, 7);
        assert_eq!(parse(&bytes), Some(Message::Ended(7)));
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "{length}");
        }
        bytes[HEADER + 4] = 2;
        assert_eq!(parse(&bytes), None, "a message of another connector");
    }
}
