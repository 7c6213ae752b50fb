//! A promise to a VM under QEMU's software emulation. The guest is the firmware, which finds nothing to boot.

use super::{Live, Now, soon, turn};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use sys::{affinity, thread};

/// A VM with two vCPUs and an I/O thread. Dropping this value kills the VM.
struct Vm(Child);

impl Vm {
    /// Starts a VM, and waits for its threads. Prints a message and returns `None` where QEMU is not installed.
    fn start() -> Option<Vm> {
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-name", "tactus-test,debug-threads=on", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "64"]);
        command.args(["-display", "none", "-serial", "none", "-monitor", "none", "-parallel", "none", "-nodefaults"]);
        command.args(["-object", "iothread,id=io0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => {
                let vm = Vm(child);
                soon("the VM has its threads", || {
                    let names = vm.threads();
                    ["CPU 0/TCG", "CPU 1/TCG", "IO io0"].iter().all(|name| names.contains_key(*name))
                });
                Some(vm)
            }
            Err(error) => {
                eprintln!("SKIPPED: qemu-system-x86_64: {error}");
                None
            }
        }
    }

    /// Returns the tids of the threads by name.
    fn threads(&self) -> BTreeMap<String, u32> {
        let tids = thread::threads(self.0.id()).unwrap();
        tids.into_iter().filter_map(|tid| Some((thread::status(tid).ok()?.name, tid))).collect()
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Both calls fail only if the VM has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_vcpus_of_a_vm_are_spread_over_its_cpus_and_its_other_threads_are_above_them() {
    let Some(_turn) = turn() else { return };
    let Some(vm) = Vm::start() else { return };
    if affinity::get(thread::current()).unwrap().len() < 2 {
        eprintln!("SKIPPED: there is one CPU");
        return;
    }
    let threads = vm.threads();
    let tids = ["CPU 0/TCG", "CPU 1/TCG", "IO io0", "qemu-system-x86"].map(|name| threads[name]);
    let before = Now::of_all(&tids);
    let live = Live::promise(&["--period", "40ms", "--slice", "30ms", "--cpus", "2"], &[vm.0.id()]);
    let [first, second, io, main] = tids;
    let cpu = |tid| affinity::get(tid).unwrap();
    assert_ne!(cpu(first), cpu(second));
    // The kernel reports real-time priority 95 as -96. A thread has its own priority between its slices.
    let is_at = |tid: u32, priority: i32| thread::status(tid).unwrap().priority == -1 - priority;
    soon("the first vCPU is at 95", || is_at(first, 95));
    // The firmware does not use the second vCPU. A parked thread is at 97.
    soon("the second vCPU is at 95 or parked", || is_at(second, 95) || is_at(second, 97));
    for served in [io, main] {
        soon("the other threads are above the vCPUs", || is_at(served, 96) || is_at(served, 97));
    }
    live.end();
    assert_eq!(Now::of_all(&tids), before);
}
