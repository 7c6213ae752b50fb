//! The first program of a guest kernel that `cargo xtask vm-test` boots: mounts what programs expect, runs one job, tells the
//! host how it ended, and switches the machine off.
//!
//! The job is the file `/job`, one word in each line. What it says goes to the virtio port `output`. The port `status` gets
//! how long the machine had been up when the job began (`up SECONDS`) and how it ended (`exit CODE`, for a signal 128 more
//! than its number). A host that does not read `exit` there knows that the guest died. Where the kernel has no virtio of its
//! own, the second and third serial line are the ports.

use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::system::{RebootCommand, reboot};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
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
    let (mut output, mut status) = (port("output", "/dev/ttyS1")?, port("status", "/dev/ttyS2")?);
    let job = fs::read_to_string("/job")?;
    let mut words = job.lines();
    let mut command = Command::new(words.next().ok_or("/job names no program")?);
    command.args(words).env_clear().env("PATH", "/bin").env("HOME", "/").current_dir("/");
    // Through a pipe: a serial line is a terminal, to which programs speak in another way.
    let (said, speaking) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(speaking.try_clone()?).stderr(speaking);
    let copied = std::thread::spawn(move || copy(said, &mut output));
    let up = fs::read_to_string("/proc/uptime")?;
    writeln!(status, "up {}", up.split(' ').next().unwrap_or_default())?;
    let child = command.spawn().map_err(|error| format!("cannot begin {command:?}: {error}"))?;
    // It holds the other end of the pipe.
    drop(command);
    let code = ended(child.id())?;
    end_all()?;
    copied.join().expect("copying does not panic")?;
    writeln!(status, "exit {code}")?;
    Ok(())
}

/// Not the standard library's: that splices, which a virtio port takes for the end.
fn copy(mut from: impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            read => to.write_all(&bytes[..read])?,
        }
    }
}

/// Kills all that the job left behind, so that nobody speaks any more.
fn end_all() -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|pid| !pid.is_init()) {
            // It may be gone, or the kernel's own, which does not mind.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}

fn mounted(kind: &str, place: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(place)?;
    mount(kind, place, kind, MountFlags::empty(), None)?;
    Ok(())
}

/// The virtio port that the host calls `name`, or this serial line.
fn port(name: &str, line: &str) -> Result<File, Box<dyn Error>> {
    for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten() {
        let entry = entry?;
        if fs::read_to_string(entry.path().join("name")).is_ok_and(|found| found.trim_end() == name) {
            return opened(&format!("/dev/{}", entry.file_name().to_string_lossy()));
        }
    }
    opened(line)
}

fn opened(device: &str) -> Result<File, Box<dyn Error>> {
    OpenOptions::new().write(true).open(device).map_err(|error| format!("cannot write to {device}: {error}").into())
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
