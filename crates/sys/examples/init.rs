//! The first program of a guest kernel that `cargo xtask vm-test` boots. The program mounts the usual file systems,
//! runs one job, reports the job's exit code to the host, and powers the machine off.
//!
//! The job is the file `/job`, one word per line. The output of the job goes to the virtio port `output`. The port
//! `status` receives the uptime at the start of the job (`up SECONDS`) and the job's exit code (`exit CODE`). If a
//! signal ends the job, the code is 128 plus the signal's number. If no `exit` line arrives, the host reports that the
//! guest died. On a kernel without virtio, the second and third serial ports replace the virtio ports.
//!
//! Before the job, the program loads the kernel modules in `/modules`, in the order of the file `/modules/order`.

use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::system::{RebootCommand, finit_module, reboot};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Maximum time to wait for the rest of the job's output.
const COPIED: Duration = Duration::from_secs(5);

/// File systems to mount, their mount points, and whether a failure is tolerated.
const MOUNTS: &[(&str, &str, bool)] = &[
    ("proc", "/proc", false),
    ("sysfs", "/sys", false),
    ("devtmpfs", "/dev", false),
    ("devpts", "/dev/pts", true),
    ("tmpfs", "/run", false),
    ("tmpfs", "/tmp", false),
    ("cgroup2", "/sys/fs/cgroup", false),
    // The kernel reports the bandwidth of the fair servers only in debugfs.
    ("debugfs", "/sys/kernel/debug", true),
];

fn main() {
    if std::process::id() != 1 {
        eprintln!("this program must run as init of a guest kernel; use `cargo xtask vm-test`, which boots one");
        std::process::exit(2);
    }
    if let Err(error) = run() {
        // The output goes to the console, which the host keeps in a file.
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
    // Enable the controllers of CPU time and CPUs for all control groups, as the init of other hosts does.
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset")?;
    load_modules()?;
    let (mut output, mut status) = (port("output", "/dev/ttyS1")?, port("status", "/dev/ttyS2")?);
    let job = fs::read_to_string("/job")?;
    let mut words = job.lines();
    let mut command = Command::new(words.next().ok_or("/job names no program")?);
    command.args(words).env_clear().env("PATH", "/bin").env("HOME", "/").current_dir("/");
    // The output goes through a pipe: a serial line is a terminal, and programs write to terminals differently.
    let (said, speaking) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(speaking.try_clone()?).stderr(speaking);
    let (done, copied) = std::sync::mpsc::channel();
    // The receiver may have given up.
    std::thread::spawn(move || drop(done.send(copy(said, &mut output))));
    let up = fs::read_to_string("/proc/uptime")?;
    writeln!(status, "up {}", up.split(' ').next().unwrap_or_default())?;
    let child = command.spawn().map_err(|error| format!("cannot begin {command:?}: {error}"))?;
    // Close this process's copies of the write end, so that only the job and its children hold it.
    drop(command);
    let code = ended(child.id())?;
    end_all()?;
    // A process that is left frozen does not end, and keeps the pipe open.
    if let Ok(outcome) = copied.recv_timeout(COPIED) {
        outcome?;
    }
    writeln!(status, "exit {code}")?;
    Ok(())
}

/// Loads the modules that the host has put into the archive, if any.
fn load_modules() -> Result<(), Box<dyn Error>> {
    let order = fs::read_to_string("/modules/order").unwrap_or_default();
    for name in order.lines() {
        let file = File::open(format!("/modules/{name}"))?;
        // The kernel decompresses a module itself (flag MODULE_INIT_COMPRESSED_FILE, CONFIG_MODULE_DECOMPRESS).
        let flags = if name.ends_with(".ko") { 0 } else { 4 };
        finit_module(&file, c"", flags).map_err(|error| format!("cannot load module {name}: {error}"))?;
    }
    Ok(())
}

/// Copies `from` to `to`. `std::io::copy` would use splice, which a virtio port treats as the end of the output.
fn copy(mut from: impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            read => to.write_all(&bytes[..read])?,
        }
    }
}

/// Kills all processes that the job left behind, so that no output follows.
fn end_all() -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|pid| !pid.is_init()) {
            // The process may have ended, or be a kernel thread, which signals do not reach.
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

/// Opens the virtio port with the name `name`, or the serial port `line` if the guest has no such virtio port.
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

/// Waits for the end of process `pid`, and returns its exit code, or 128 plus the number of the signal that ended it.
/// Until then, reaps all orphans, as init must.
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
