//! The two VMs of `tactus demo --vm`: QEMU in software emulation, each with a guest that reports its jobs.

use super::guest::{self, REPORT, Report};
use crate::failure::{Failure, usage};
use crate::output;
use anyhow::{Context, anyhow};
use daemon::dispatch::Role;
use scenario::{EntitySpec, Real, Workload};
use sched::{Instant, Nanos};
use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use sys::attributes::{self, Attributes};
use sys::{clock, launch};
use trace::Job;

/// The program of the VMs.
const QEMU: &str = "qemu-system-x86_64";
/// Maximum time from the start of a VM to the first job of its guest.
const BOOT: Nanos = Nanos::s(30);
/// Interval between two checks for the first job.
const CHECK: Nanos = Nanos::ms(20);

/// A running VM. Dropping this value ends it.
#[derive(Debug)]
struct Vm {
    name: String,
    period: Nanos,
    qemu: Child,
    reports: Arc<Mutex<Vec<Report>>>,
}

/// The running VMs.
#[derive(Debug)]
pub(super) struct Vms(Vec<Vm>);

impl Vms {
    /// Starts a VM in place of each periodic entity, which then stands for the process of this VM. Returns when all guests
    /// work.
    ///
    /// # Errors
    /// QEMU is not installed, or a guest does not start.
    pub(super) fn start(entities: &mut [EntitySpec]) -> Result<Vms, Failure> {
        // An interrupt ends the start in order, so that no disk is left.
        let _in_order = output::end_in_order();
        let mut vms = Vms(Vec::new());
        for entity in entities {
            let Workload::Periodic(jobs) = entity.workload else { continue };
            let vm = Vm::start(&entity.name, jobs.period, jobs.work)?;
            entity.real = Some(Real::Pid(vm.qemu.id()));
            vms.0.push(vm);
        }
        Ok(vms)
    }

    /// Returns the thread that runs the vCPU of the VM with process `pid`. Of another process, the first thread.
    pub(super) fn vcpu(&self, pid: u32) -> u32 {
        let is_vcpu = |tid: &u32| sys::thread::status(*tid).is_ok_and(|status| Role::of(&status.name) == Role::Vcpu);
        let is_vm = self.0.iter().any(|vm| vm.qemu.id() == pid);
        let threads = is_vm.then(|| sys::thread::threads(pid).unwrap_or_default());
        threads.into_iter().flatten().find(is_vcpu).unwrap_or(pid)
    }

    /// Returns the jobs of the VM `name` that were released in a run from `start` for `length`, with times since the start.
    pub(super) fn jobs(&self, name: &str, start: Instant, length: Nanos) -> Option<Vec<Job>> {
        let vm = self.0.iter().find(|vm| vm.name == name)?;
        let reports = vm.reports.lock().unwrap_or_else(PoisonError::into_inner);
        Some(guest::jobs(&reports, vm.period, start, start.saturating_add(length)))
    }
}

impl Vm {
    fn start(name: &str, period: Nanos, work: Nanos) -> Result<Vm, Failure> {
        let folder = tempfile::tempdir().context("cannot make a directory for the disk of a VM")?;
        let disk = folder.path().join("disk");
        std::fs::write(&disk, guest::disk(period, work)).context("cannot write the disk of a VM")?;
        let mut command = Command::new(QEMU);
        command.args(["-machine", "pc", "-accel", "tcg", "-m", "2", "-nodefaults", "-no-user-config"]);
        command.args(["-display", "none", "-debugcon", "stdio"]);
        command.args(["-name", &format!("{name},debug-threads=on")]);
        command.args(["-drive", &format!("file={},format=raw,if=ide,read-only=off", disk.display())]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        launch::end_with_thread(&mut command);
        let mut qemu = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                usage(format!("{QEMU} is not installed"), "install QEMU (Debian: apt install qemu-system-x86)")
            }
            _ => Failure::Failed(anyhow!("cannot start {QEMU}: {error}")),
        })?;
        let output = qemu.stdout.take().expect("it was asked to be a pipe");
        let mut vm = Vm { name: name.to_string(), period, qemu, reports: Arc::default() };
        let reports = Arc::clone(&vm.reports);
        let reader = thread::Builder::new().name("tactus-reports".to_string());
        reader.spawn(move || read(output, &reports)).context("cannot start a thread")?;
        vm.await_guest()?;
        // QEMU keeps its disk open, and the folder is removed.
        Ok(vm)
    }

    /// Waits for the first job.
    fn await_guest(&mut self) -> Result<(), Failure> {
        let end = clock::now().saturating_add(BOOT);
        while self.reports.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            if output::is_interrupted() {
                return Err(Failure::Interrupted);
            }
            if let Some(status) = self.qemu.try_wait().context("cannot wait for QEMU")? {
                let mut why = String::new();
                let _ = self.qemu.stderr.take().map(|mut stderr| stderr.read_to_string(&mut why));
                return Err(anyhow!("{QEMU} has ended ({status}): {}", why.trim()).into());
            }
            if clock::now() > end {
                return Err(anyhow!("the guest of {} has done nothing within {BOOT}", self.name).into());
            }
            clock::sleep(CHECK);
        }
        Ok(())
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Reads the reports of a guest until its VM ends.
fn read(mut output: ChildStdout, reports: &Mutex<Vec<Report>>) {
    // At this real-time priority, the processes of the demo do not delay the reader, so that its clock is right. It takes
    // little CPU time.
    let _ = attributes::apply(sys::thread::current(), Attributes::raised(1));
    let mut bytes = [0; REPORT];
    while output.read_exact(&mut bytes).is_ok() {
        let report = Report::parse(clock::now(), bytes);
        reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }
}
