//! [`Qmp`]: a connection to the monitor of a VM of QEMU (qemu.org, docs/interop/qmp-spec.rst).

use sched::{Instant, Nanos};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Take, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use sys::{clock, local_socket};

/// Maximum length of the replies through one connection. Unit: bytes.
const REPLIES_MOST: u64 = 1 << 20;

/// A connection to a monitor, which serves no other client meanwhile.
#[derive(Debug)]
pub(crate) struct Qmp {
    stream: UnixStream,
    reader: BufReader<Take<UnixStream>>,
    /// The begin of a line whose rest has not come yet.
    partial: Vec<u8>,
    /// Maximum time to wait for a reply.
    limit: Nanos,
    /// Number of the last command.
    number: u64,
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
    /// Connects to the monitor at `socket` of process `pid`. The connection and each reply take at most `limit`.
    ///
    /// # Errors
    /// Another process has the socket, the monitor serves another client, or it does not answer.
    pub(crate) fn connect(socket: &Path, pid: u32, limit: Nanos) -> io::Result<Qmp> {
        let stream = local_socket::connect_within(socket, limit)?;
        // The owner of the VM chooses the path, which may name a socket of another program.
        let peer = local_socket::peer(&stream).map_err(io::Error::other)?;
        if peer.pid != pid {
            return Err(wrong("the socket is of another process"));
        }
        stream.set_write_timeout(Some(Duration::from_nanos(limit.as_ns())))?;
        let reader = BufReader::new(stream.try_clone()?.take(REPLIES_MOST));
        let mut monitor = Qmp { stream, reader, partial: Vec::new(), limit, number: 0 };
        let end = clock::now().saturating_add(limit);
        if monitor.line(end)?.get("QMP").is_none() {
            return Err(wrong("it is no monitor"));
        }
        match monitor.execute("qmp_capabilities", &Value::Null) {
            Ok(_) => Ok(monitor),
            Err(Failed::Silent(error)) => Err(error),
            Err(Failed::Refused(_)) => Err(wrong("the monitor refuses")),
        }
    }

    /// Executes a command. Without arguments, these are null.
    pub(crate) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, Failed> {
        let line = self.command(command, arguments);
        (&self.stream).write_all(line.as_bytes()).map_err(Failed::Silent)?;
        self.answer()
    }

    /// Passes a descriptor to QEMU, which knows it as `name` from now on.
    pub(crate) fn pass(&mut self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), Failed> {
        let line = self.command("getfd", &json!({ "fdname": name }));
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

    /// Waits up to `limit` for the event with this name, and with `field` in its data.
    pub(crate) fn hear(&mut self, event: &str, (field, value): (&str, &str), limit: Nanos) -> Result<(), Failed> {
        let end = clock::now().saturating_add(limit);
        loop {
            let reply = self.line(end).map_err(Failed::Silent)?;
            if reply["event"] == event && reply["data"][field] == value {
                return Ok(());
            }
        }
    }

    /// Returns the line of a command, with the next number.
    fn command(&mut self, command: &str, arguments: &Value) -> String {
        self.number += 1;
        let mut line = json!({ "execute": command, "id": self.number });
        if !arguments.is_null() {
            line["arguments"] = arguments.clone();
        }
        format!("{line}\n")
    }

    /// Waits for the answer to the last command. Events and late answers to earlier commands are skipped.
    fn answer(&mut self) -> Result<Value, Failed> {
        let end = clock::now().saturating_add(self.limit);
        loop {
            let reply = self.line(end).map_err(Failed::Silent)?;
            if reply["id"] != self.number {
                continue;
            }
            if let Some(reason) = reply.get("error") {
                return Err(Failed::Refused(reason["desc"].as_str().unwrap_or("it gives no reason").to_string()));
            }
            return Ok(reply.get("return").cloned().unwrap_or_default());
        }
    }

    /// Reads a line until `end`. The other side chooses the pieces in which it comes.
    fn line(&mut self, end: Instant) -> io::Result<Value> {
        loop {
            let left = end.saturating_since(clock::now());
            if left == Nanos::ZERO {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(Duration::from_nanos(left.as_ns())))?;
            let piece = match self.reader.fill_buf() {
                Ok([]) => return Err(wrong("the monitor has ended")),
                Ok(piece) => piece,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
                Err(error) => return Err(error),
            };
            let found = piece.iter().position(|&byte| byte == b'\n');
            let taken = found.map_or(piece.len(), |at| at + 1);
            self.partial.extend_from_slice(&piece[..taken]);
            self.reader.consume(taken);
            if found.is_some() {
                let line = std::mem::take(&mut self.partial);
                return Ok(serde_json::from_slice(&line)?);
            }
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_string())
}
