//! The host of the operator: VMs of libvirt, a process, an address, and commands of a shell.

use anyhow::{Context, Result, ensure};
use sched::Nanos;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use sys::clock;

/// The VMs.
pub(crate) const VMS: [&str; 2] = ["vm1", "vm2"];
/// The process of the page.
const PROCESS: u32 = 4711;
/// Name and address of the host on the page.
const NAME: [&str; 2] = ["host.example", "192.0.2.1"];
/// The longest time of a command.
const PATIENCE: &str = "180s";
/// Length of a boot sector, and the signature at its end.
const SECTOR: (usize, [u8; 2]) = (512, [0x55, 0xaa]);

/// The program of a VM, in the 16-bit code of its boot sector.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    /// It halts until the next interrupt: `sti; hlt; jmp`.
    Idle,
    /// It computes for some milliseconds after each tick of its timer, every 55 ms: loops of `loop`, `sti; hlt; jmp`.
    Ticking,
    /// It loops: `jmp`.
    Busy,
}

impl Program {
    fn code(self) -> &'static [u8] {
        match self {
            Program::Idle => &[0xfb, 0xf4, 0xeb, 0xfc],
            Program::Ticking => &[0xba, 20, 0, 0xb9, 0xff, 0xff, 0xe2, 0xfe, 0x4a, 0x75, 0xf8, 0xfb, 0xf4, 0xeb, 0xf1],
            Program::Busy => &[0xeb, 0xfe],
        }
    }

    /// Writes the program to the disk of `vm`, which runs it from its next start.
    pub(crate) fn install(self, vm: &str) -> Result<()> {
        let (length, signature) = SECTOR;
        let mut disk = vec![0; 128 * length];
        disk[..self.code().len()].copy_from_slice(self.code());
        disk[length - signature.len()..length].copy_from_slice(&signature);
        Ok(fs::write(format!("/vms/{vm}.img"), disk)?)
    }
}

/// Prepares the host for the page. Returns the process of the page.
pub(crate) fn prepare() -> Result<Child> {
    fs::create_dir_all("/vms")?;
    for name in VMS {
        if name == VMS[0] { Program::Ticking } else { Program::Idle }.install(name)?;
        fs::write(format!("/vms/{name}.xml"), domain(name))?;
        run(&format!("virsh define /vms/{name}.xml && virsh start {name}"))?;
    }
    run(&format!("ip address add {}/32 dev lo", NAME[1]))?;
    fs::OpenOptions::new()
        .append(true)
        .open("/etc/hosts")?
        .write_all(format!("{} {}\n", NAME[1], NAME[0]).as_bytes())?;
    let process = process()?;
    ensure!(process.id() == PROCESS, "the process of the page has the pid {}", process.id());
    Ok(process)
}

/// Returns a domain with a vCPU, emulated by software.
fn domain(name: &str) -> String {
    format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='pc'>hvm</type></os><devices><disk type='file' device='disk'>\
         <driver name='qemu' type='raw'/><source file='/vms/{name}.img'/><target dev='hda' bus='ide'/></disk>\
         <memballoon model='none'/></devices></domain>"
    )
}

/// Starts a shell with the pid of the page. It ends with its pipe.
fn process() -> Result<Child> {
    fs::write("/proc/sys/kernel/ns_last_pid", (PROCESS - 1).to_string())?;
    let mut bash = Command::new("bash");
    bash.args(["-c", "while ! read -t 0.01; do for i in {1..100}; do :; done; done"]).stdin(Stdio::piped());
    bash.spawn().context("cannot run bash")
}

/// Runs a command line, and returns its output.
///
/// # Errors
/// The exit code is not zero.
pub(crate) fn run(line: &str) -> Result<String> {
    let (code, output) = attempt(line)?;
    ensure!(code == Some(0), "`{line}` exited with {code:?}:\n{output}");
    Ok(output)
}

/// Runs a command line. Returns its exit code and its output. The exit code is 124 if the command did not end in time.
pub(crate) fn attempt(line: &str) -> Result<(Option<i32>, String)> {
    let mut bash = Command::new("timeout");
    bash.args([PATIENCE, "bash", "-c", &format!("exec 2>&1; {line}")]).stdin(Stdio::null());
    let output = bash.output().context("cannot run timeout and bash")?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Runs a command line with a JSON object as its output.
pub(crate) fn json(line: &str) -> Result<Value> {
    let output = run(line)?;
    serde_json::from_str(&output).with_context(|| format!("`{line}` printed no JSON:\n{output}"))
}

/// Calls `is_so` until it returns true. Returns the time that this took.
///
/// # Errors
/// It has not returned true within `limit`, or the last call failed.
pub(crate) fn await_within(limit: Nanos, what: &str, is_so: &mut dyn FnMut() -> Result<bool>) -> Result<Nanos> {
    let begin = clock::now();
    loop {
        let outcome = is_so();
        let took = clock::now().since(begin);
        if matches!(outcome, Ok(true)) {
            return Ok(took);
        }
        if took > limit {
            outcome.with_context(|| format!("not within {limit}: {what}"))?;
            anyhow::bail!("not within {limit}: {what}");
        }
        clock::sleep(Nanos::ms(20));
    }
}
