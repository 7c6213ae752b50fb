//! [`Qmp`]: a connection to the monitor of a VM of QEMU (qemu.org, docs/interop/qmp-spec.rst).

use serde_json::{Value, json};
use std::fmt;
use std::io::{self, BufRead, BufReader, Lines, Read, Take, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use sys::local_socket;

/// Maximum length of the replies through one connection. Unit: bytes.
const REPLIES_MOST: u64 = 1 << 20;

/// A connection to a monitor, which serves no other client meanwhile.
#[derive(Debug)]
pub(crate) struct Qmp {
    stream: UnixStream,
    lines: Lines<BufReader<Take<UnixStream>>>,
}

/// Why a command of a monitor failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// QEMU refuses the command, for this reason.
    Refused(String),
    /// The monitor does not answer.
    Silent(io::Error),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Refused(reason) => write!(f, "QEMU refuses: {reason}"),
            Failed::Silent(error) => write!(f, "the monitor does not answer: {error}"),
        }
    }
}

impl Qmp {
    /// Connects to the monitor at `socket` of process `pid`. A reply takes at most `limit`.
    ///
    /// # Errors
    /// Another process has the socket, the monitor serves another client, or it does not answer.
    pub(crate) fn connect(socket: &Path, pid: u32, limit: Duration) -> io::Result<Qmp> {
        let stream = UnixStream::connect(socket)?;
        // The owner of the VM chooses the path, which may name a socket of another program.
        let peer = local_socket::peer(&stream).map_err(io::Error::other)?;
        if peer.pid != pid {
            return Err(wrong("the socket is of another process"));
        }
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let lines = BufReader::new(stream.try_clone()?.take(REPLIES_MOST)).lines();
        let mut monitor = Qmp { stream, lines };
        monitor.reply(|reply| reply.get("QMP").map(|_| Value::Null))?;
        match monitor.execute("qmp_capabilities", &Value::Null) {
            Ok(_) => Ok(monitor),
            Err(Failed::Silent(error)) => Err(error),
            Err(Failed::Refused(_)) => Err(wrong("the monitor refuses")),
        }
    }

    /// Executes a command. Without arguments, these are null.
    pub(crate) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, Failed> {
        let line = line(command, arguments);
        (&self.stream).write_all(line.as_bytes()).map_err(Failed::Silent)?;
        self.answer()
    }

    /// Passes a descriptor to QEMU, which knows it as `name` from now on.
    pub(crate) fn pass(&mut self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), Failed> {
        let line = line("getfd", &json!({ "fdname": name }));
        local_socket::send_with(&self.stream, line.as_bytes(), descriptor).map_err(Failed::Silent)?;
        self.answer().map(drop)
    }

    /// Returns the tids of the threads of the vCPUs, by their numbers.
    pub(crate) fn vcpus(&mut self) -> Result<Vec<u32>, Failed> {
        let reply = self.execute("query-cpus-fast", &Value::Null)?;
        let cpus = reply.as_array().ok_or_else(|| Failed::Silent(wrong("the reply is no list of CPUs")))?;
        let tid = |cpu: &Value| u32::try_from(cpu.get("thread-id")?.as_u64()?).ok();
        Ok(cpus.iter().filter_map(tid).collect())
    }

    /// Waits for the event with this name, and with `field` in its data.
    pub(crate) fn hear(&mut self, event: &str, (field, value): (&str, &str)) -> Result<(), Failed> {
        let is_it = |reply: &Value| reply["event"] == event && reply["data"][field] == value;
        self.reply(|reply| is_it(reply).then_some(Value::Null)).map(drop).map_err(Failed::Silent)
    }

    fn answer(&mut self) -> Result<Value, Failed> {
        let answer = self.reply(|reply| {
            let refused = || Some(Err(reply.get("error")?.get("desc")?.as_str()?.to_string()));
            reply.get("return").map(|value| Ok(value.clone())).or_else(refused)
        });
        answer.map_err(Failed::Silent)?.map_err(Failed::Refused)
    }

    /// Reads replies until one is `found`.
    fn reply<T>(&mut self, found: impl Fn(&Value) -> Option<T>) -> io::Result<T> {
        loop {
            let line = self.lines.next().ok_or_else(|| wrong("the monitor has ended"))??;
            let reply: Value = serde_json::from_str(&line)?;
            if let Some(it) = found(&reply) {
                return Ok(it);
            }
            if reply.get("event").is_none() {
                return Err(wrong("the monitor refuses"));
            }
        }
    }
}

fn line(command: &str, arguments: &Value) -> String {
    let command = match arguments {
        Value::Null => json!({ "execute": command }),
        arguments => json!({ "execute": command, "arguments": arguments }),
    };
    format!("{command}\n")
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}
