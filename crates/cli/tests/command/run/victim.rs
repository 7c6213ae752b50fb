//! Processes that start threads or children on request, as clients of live runs.

use super::PATIENCE;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use sys::process::Process;
use sys::thread;

/// Environment variable that makes the test binary start as a process that starts threads.
const ROLE: &str = "TACTUS_TEST_VICTIM";

/// A process that reads requests line by line, and prints a tid or pid for each request. Dropping the handle ends the
/// process.
pub(super) struct Victim {
    begun: Child,
    out: BufReader<ChildStdout>,
    /// Children of the process, for the cleanup.
    children: Vec<Process>,
}

impl Victim {
    /// Starts a process that starts a thread for every line `sleeper` or `hog`.
    pub(super) fn of_threads() -> Victim {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--ignored", "--exact", "run::victim::a_process_with_threads", "--nocapture"]);
        Victim::of(command.args(["--test-threads", "1"]).env(ROLE, "yes"))
    }

    /// Starts a shell that executes every line as a command.
    pub(super) fn of_children() -> Victim {
        let script = "while read -r line; do eval \"$line\"; done";
        Victim::of(Command::new("sh").args(["-c", script]))
    }

    fn of(command: &mut Command) -> Victim {
        let mut begun = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(begun.stdout.take().unwrap());
        Victim { begun, out, children: Vec::new() }
    }

    pub(super) fn pid(&self) -> u32 {
        self.begun.id()
    }

    /// Returns the tids of the process.
    pub(super) fn threads(&self) -> Vec<u32> {
        thread::threads(self.pid()).unwrap()
    }

    pub(super) fn tell(&mut self, line: &str) {
        writeln!(self.begun.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Returns the next number that the process prints.
    pub(super) fn hear(&mut self) -> u32 {
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some(number) = line.trim().strip_prefix("says ") {
                return number.parse().unwrap();
            }
        }
    }

    pub(super) fn ask(&mut self, line: &str) -> u32 {
        self.tell(line);
        self.hear()
    }

    /// Makes a shell start a process, and print its pid as `says $!`.
    pub(super) fn bear(&mut self, line: &str) -> u32 {
        let pid = self.ask(line);
        self.children.push(Process::open(pid).unwrap());
        pid
    }

    /// Returns the pids of the process's children, and records the children for the cleanup.
    pub(super) fn children(&mut self) -> Vec<u32> {
        let pids = thread::children(self.pid()).unwrap();
        self.children.extend(pids.iter().filter_map(|&pid| Process::open(pid).ok()));
        pids
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let more = thread::children(self.pid()).unwrap_or_default();
        self.children.extend(more.into_iter().filter_map(|pid| Process::open(pid).ok()));
        let _ = self.begun.kill();
        let _ = self.begun.wait();
        for child in &self.children {
            // The child may have ended already.
            let _ = child.kill();
            let _ = child.ends_within(PATIENCE);
        }
    }
}

#[test]
#[ignore = "a process that other tests begin"]
fn a_process_with_threads() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    println!("\nsays {}", std::process::id());
    for line in std::io::stdin().lock().lines() {
        let is_hog = line.unwrap() == "hog";
        std::thread::spawn(move || {
            println!("says {}", thread::current());
            loop {
                if is_hog {
                    std::hint::spin_loop();
                } else {
                    std::thread::park();
                }
            }
        });
    }
    std::process::exit(0)
}
