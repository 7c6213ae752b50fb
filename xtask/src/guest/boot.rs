//! Boots a kernel in QEMU with software emulation, which needs no privilege, /dev/kvm or network.

use super::beside::{Beside, Host, Output};
use super::debian;
use super::disturbance::Disturbance;
use super::kernel::Kernel;
use crate::step::clock;
use crate::stream::read_lines;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
/// Name of the socket on which QEMU takes commands (QMP), in the folder of the machine.
const CONTROL: &str = "control";
/// Commands that interrupt the guest.
const NMI: &[u8] = br#"{"execute": "qmp_capabilities"} {"execute": "inject-nmi"}"#;
/// Maximum time for which a guest prints where its tasks wait.
const STACKS: Duration = Duration::from_secs(20);
/// Interval between reads of the time that an emulator has waited, if its guest prints nothing.
const READ: Duration = Duration::from_secs(1);

/// Time base of a guest's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Time {
    /// The clock of the host. Load on the host disturbs the guest.
    Host,
    /// Executed instructions, two nanoseconds each, or one in Debian, whose programs are larger; idle time is skipped. The
    /// guest runs more slowly, but independently of load on the host.
    Executed,
}

/// What a guest boots besides its kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum System {
    /// An archive in memory with `init` and the programs of the job.
    Archive,
    /// A disk with Debian: systemd and libvirt.
    Debian,
}

/// A virtual machine to boot.
pub(crate) struct Machine<'m> {
    /// Kernel of the machine.
    pub(crate) kernel: &'m Kernel,
    pub(crate) system: System,
    /// Folder with the machine's archive or disk. The outputs of the machine are written to this folder.
    pub(crate) folder: &'m Path,
    pub(crate) time: Time,
    /// Number of CPUs, with [`System::Archive`].
    pub(crate) cpus: u32,
    /// Whether the machine's CPUs can run virtual machines.
    pub(crate) is_hypervisor: bool,
    /// Time after which the machine is stopped.
    pub(crate) limit: Duration,
    /// Work on the host while the machine runs.
    pub(crate) beside: Option<Beside>,
}

/// Outcome of a guest.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    /// Output of the job.
    pub(crate) output: String,
    /// Uptime of the guest at the start of the job, as reported by the guest.
    pub(crate) up: Option<String>,
    /// Share of the time that the other load of the host has taken from the emulator. Unit: percent.
    pub(crate) disturbed: f64,
    /// What was wrong with the work on the host.
    pub(crate) beside: Result<(), String>,
}

/// End of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The job ended with this code.
    Exited(i32),
    /// The guest ended without a report on its job.
    Died,
    /// The guest was stopped at its time limit.
    TooLong,
}

impl Machine<'_> {
    /// Returns the command that starts QEMU. The kernel of the host kills QEMU when the calling thread ends.
    fn command(&self) -> Command {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", QEMU]);
        // Tactus finds the threads of vCPUs by their names, and adds its port behind a free root port.
        if self.beside.is_some() {
            command.args("-name guest,debug-threads=on -device pcie-root-port,id=free,slot=1".split(' '));
        }
        command.args("-machine q35 -nodefaults -no-user-config -display none".split(' '));
        command.args(["-cpu", if self.is_hypervisor { "max,+svm" } else { "max" }]);
        // With several threads, the emulation sometimes crashes or hangs a guest that modifies its own code.
        command.args("-nic none -no-reboot -accel tcg,thread=single".split(' '));
        if self.time == Time::Executed {
            let shift = if self.system == System::Debian { 0 } else { 1 };
            command.args(["-icount", &format!("shift={shift},sleep=off")]);
        }
        command.arg("-kernel").arg(&self.kernel.image);
        let boots = match self.system {
            System::Archive => {
                command.args(["-smp", &self.cpus.to_string(), "-m", "512", "-initrd", &file("archive")]);
                "rdinit=/init".to_string()
            }
            System::Debian => {
                // The driver of NVMe disks is built into the kernel. The disk stays as it is, for another attempt.
                let drive = format!("file={},format=raw,if=none,id=disk,snapshot=on", file("disk"));
                // A virtual CPU that itself emulates VMs keeps a second one from running for up to 0.3 s (QEMU 7.2).
                command.args(["-smp", "1", "-m", "1024"]);
                command.args(["-drive", &drive, "-device", "nvme,drive=disk,serial=disk"]);
                format!("root=/dev/nvme0n1 rootwait rootfstype=ext4 rw systemd.unit={}", debian::TARGET)
            }
        };
        // After an NMI, the kernel prints the stacks of all tasks and CPUs (kernel-parameters.txt, v7.2), and ends.
        let options = "console=ttyS0 quiet panic=-1 oops=panic unknown_nmi_panic panic_print=0x41";
        command.args(["-append", &format!("{options} {boots}")]);
        command.args(["-serial", &format!("file:{}", file("console"))]);
        // The path of a socket has at most 107 bytes, so it is relative.
        command.current_dir(self.folder).args(["-qmp", &format!("unix:{CONTROL},server=on,wait=off")]);
        command.args(["-chardev", "stdio,id=output,signal=off"]);
        command.args(["-chardev", &format!("file,id=status,path={}", file("status"))]);
        if self.kernel.has_virtio {
            let ports = ["output", "status"].map(|name| format!("virtserialport,chardev={name},name={name}"));
            command.args(["-device", "virtio-serial-pci", "-device", &ports[0], "-device", &ports[1]]);
        } else {
            command.args(["-serial", "chardev:output", "-serial", "chardev:status"]);
        }
        command
    }

    /// Boots the machine and waits for its end. Passes each line of the job's output to `hear` immediately.
    pub(crate) fn run(&self, hear: &mut dyn FnMut(&str)) -> Result<Ran> {
        let begin = clock();
        let errors = File::create(self.folder.join("qemu"))?;
        let mut command = self.command();
        // Keep standard input open, because QEMU closes the output port at the end of its standard input.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut qemu = command.spawn().context("cannot run setpriv (package util-linux)")?;
        let mut disturbance = Disturbance::watch(qemu.id());
        let heard = Output::default();
        let host = Host { emulator: qemu.id(), output: &heard };
        let (output, in_time, beside) = std::thread::scope(|scope| {
            let host = &host;
            let beside = self.beside.map(|work| scope.spawn(move || work(host)));
            let mut hear = |line: &str| {
                heard.add(line);
                hear(line);
            };
            let ran = self.hear_until_end(&mut qemu, &mut disturbance, &mut hear, begin);
            heard.end();
            let beside = beside.map_or(Ok(()), |beside| beside.join().expect("the work does not panic"));
            ran.map(|(output, in_time)| (output, in_time, beside))
        })?;
        fs::write(self.folder.join("printed"), &output)?;
        let status = fs::read_to_string(self.folder.join("status")).unwrap_or_default();
        let word = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::to_string);
        let end = match word("exit ").and_then(|code| code.parse().ok()) {
            Some(code) => End::Exited(code),
            None if in_time => End::Died,
            None => End::TooLong,
        };
        Ok(Ran { end, output, up: word("up "), disturbed: disturbance.percent(), beside })
    }

    /// Passes the lines of the guest to `hear` until its end or its time limit. Returns its output, and whether it ended in time.
    fn hear_until_end(
        &self,
        qemu: &mut Child,
        disturbance: &mut Disturbance,
        hear: &mut dyn FnMut(&str),
        begin: Instant,
    ) -> Result<(String, bool)> {
        let (sender, lines) = mpsc::channel();
        let reader = read_lines(qemu.stdout.take().context("it is piped")?, sender);
        let mut output = String::new();
        let in_time = loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            disturbance.read();
            match lines.recv_timeout(left.min(READ)) {
                Ok(line) => {
                    hear(&line);
                    output.push_str(&line);
                    output.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) if left <= READ => break false,
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        if !in_time {
            // Without the stacks, the report says only that the guest did not end.
            if let Ok(_control) = self.ask_for_stacks() {
                let asked = clock();
                while lines.recv_timeout(STACKS.saturating_sub(asked.elapsed())).is_ok() {}
            }
            qemu.kill()?;
        }
        qemu.wait()?;
        reader.join().expect("a reader of lines does not panic");
        Ok((output, in_time))
    }

    /// Has the guest print where its tasks wait, to the file `console`, and end. QEMU carries out the commands while the
    /// returned connection is open.
    fn ask_for_stacks(&self) -> std::io::Result<UnixStream> {
        let mut control = UnixStream::connect(self.folder.join(CONTROL))?;
        control.write_all(NMI)?;
        Ok(control)
    }

    /// Returns the last lines of the outputs of the kernel and QEMU.
    pub(crate) fn last_words(&self) -> String {
        let tails = ["console", "qemu"].map(|name| {
            let bytes = fs::read(self.folder.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        });
        tails.join("\n").trim().to_string()
    }
}
