//! [`Process`]: a port in a process of its own, and the lines between both.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Why a port does not start.
#[derive(Debug)]
pub enum StartError {
    /// The program does not exist.
    NotFound,
    /// The program has no port of this name. The text is the reason.
    NoPort(String),
    /// The program cannot be started, or is not a program with ports.
    Failed(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NotFound => f.write_str("the program with the ports is not there"),
            StartError::NoPort(text) => f.write_str(text),
            StartError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// A port in a process. The process ends when this value is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    line: String,
    reply: String,
}

impl Process {
    /// Starts `program` with the port of this name.
    ///
    /// # Errors
    /// The program is not there, cannot be started, or has no such port.
    pub fn start(program: &Path, port: &str) -> Result<Process, StartError> {
        let mut command = Command::new(program);
        command.arg(port).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StartError::NotFound,
            _ => StartError::Failed(error),
        })?;
        let (to, from) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let mut process = Process { child, to, from: BufReader::new(from), line: String::new(), reply: String::new() };
        match process.exchange("hello\n") {
            Ok(reply) if reply.trim() == port => Ok(process),
            Ok(reply) if !reply.is_empty() => {
                Err(StartError::NoPort(format!("the program answers {:?} to its first line", reply.trim())))
            }
            // The program has ended, or has not read the line.
            Ok(_) | Err(_) => {
                let complaint = process.complaint();
                let is_silent = complaint.is_empty();
                Err(StartError::NoPort(if is_silent { "the program ends at once".to_string() } else { complaint }))
            }
        }
    }

    /// Sends a line, and returns the answer.
    ///
    /// # Panics
    /// The port breaks a rule of the kernel, or the process has ended. The message has the reason.
    pub fn ask(&mut self, line: fmt::Arguments<'_>) -> &str {
        use fmt::Write as _;
        self.line.clear();
        self.line.write_fmt(line).expect("a string grows");
        self.line.push('\n');
        let line = std::mem::take(&mut self.line);
        let outcome = self.exchange(&line).map(str::len);
        match outcome {
            Ok(0) | Err(_) => panic!("the port has ended at {:?}: {}", line.trim(), self.complaint()),
            Ok(_) => {}
        }
        if let Some(broken) = self.reply.strip_prefix('!') {
            panic!("the port breaks a rule of the kernel at {:?}: {}", line.trim(), broken.trim());
        }
        self.line = line;
        &self.reply
    }

    fn exchange(&mut self, line: &str) -> io::Result<&str> {
        let to = self.to.as_mut().expect("it is open until the end");
        to.write_all(line.as_bytes())?;
        self.reply.clear();
        self.from.read_line(&mut self.reply)?;
        Ok(&self.reply)
    }

    /// Ends the process, and returns what it has written on its standard error.
    fn complaint(&mut self) -> String {
        self.to = None;
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // The text is only for a message.
            let _ = stderr.read_to_string(&mut text);
        }
        text.trim().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process ends with its input. A process that has ended already is no error.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
