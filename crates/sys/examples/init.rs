//! The first program of a guest kernel that `cargo xtask vm-test` boots: mounts what programs expect, runs one job, tells the
//! host how it ended, and switches the machine off.
//!
//! The job is the file `/job`, one word in each line. What it says goes to the virtio port `output`. The port `status` gets
//! how long the machine had been up when the job began (`up SECONDS`) and how it ended (`exit CODE`, for a signal 128 more
//! than its number). A host that does not read `exit` there knows that the guest died.

use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::system::{RebootCommand, reboot};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::process::{Command, Stdio};

/// What is mounted, where, and whether programs can do without.
const MOUNTS: &[(&str, &str, bool)] = &[
    ("proc", "/proc", false),
    ("sysfs", "/sys", false),
    ("devtmpfs", "/dev", false),
    ("tmpfs", "/run", false),
    ("tmpfs", "/tmp", false),
    ("cgroup2", "/sys/fs/cgroup", false),
    // What the fair servers have is told there alone.
    ("debugfs", "/sys/kernel/debug", true),
];

fn main() {
    if std::process::id() != 1 {
        eprintln!("this is the first program of a guest kernel; right would be `cargo xtask vm-test`, which boots one");
        std::process::exit(2);
    }
    if let Err(error) = run() {
        // The console, which the host keeps in a file.
        eprintln!("the guest could not run its job: {error}");
    }
    rustix::fs::sync();
    let off = reboot(RebootCommand::PowerOff);
    eprintln!("the guest could not be switched off: {off:?}");
}

fn run() -> Result<(), Box<dyn Error>> {
    for &(kind, place, optional) in MOUNTS {
        if let Err(error) = mounted(kind, place).or_else(|error| if optional { Ok(()) } else { Err(error) }) {
            return Err(format!("cannot mount {kind} at {place}: {error}").into());
        }
    }
    // As every host's first program does: who makes groups may divide CPU time among them.
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset")?;
    let output = port("output")?;
    let mut status = port("status")?;
    let job = fs::read_to_string("/job")?;
    let mut words = job.lines();
    let mut command = Command::new(words.next().ok_or("/job names no program")?);
    command.args(words).env_clear().env("PATH", "/bin").env("HOME", "/").current_dir("/");
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let up = fs::read_to_string("/proc/uptime")?;
    writeln!(status, "up {}", up.split(' ').next().unwrap_or_default())?;
    let code = match command.spawn() {
        Ok(child) => ended(child.id())?,
        Err(error) => return Err(format!("cannot begin {command:?}: {error}").into()),
    };
    writeln!(status, "exit {code}")?;
    Ok(())
}

fn mounted(kind: &str, place: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(place)?;
    mount(kind, place, kind, MountFlags::empty(), None)?;
    Ok(())
}

/// The virtio port that the host calls `name`.
fn port(name: &str) -> Result<File, Box<dyn Error>> {
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        if fs::read_to_string(entry.path().join("name")).is_ok_and(|found| found.trim_end() == name) {
            let device = std::path::Path::new("/dev").join(entry.file_name());
            return Ok(OpenOptions::new().write(true).open(device)?);
        }
    }
    Err(format!("there is no virtio port `{name}`").into())
}

/// Waits for the end of process `pid`, and meanwhile takes leave of all that lost their parents, as the first process must.
fn ended(pid: u32) -> Result<i32, Box<dyn Error>> {
    let wanted = i32::try_from(pid).ok().and_then(Pid::from_raw);
    loop {
        match waitpid(None, WaitOptions::empty()) {
            Ok(Some((found, status))) if Some(found) == wanted => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                return Ok(status.exit_status().or(signal).unwrap_or(1));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("cannot wait for process {pid}: {error}").into()),
        }
    }
}
