//! The service with a VM of QEMU whose threads have no names: its monitor knows the threads of the vCPUs.

use super::service::Service;
use super::{soon, turn};
use std::process::{Child, Command, Stdio};

/// A VM. Dropping this value ends it, also after a failed assertion: the next VM with its name would be another one.
struct Vm(Child);

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_vcpus_of_a_vm_without_names_of_threads_are_known_from_its_monitor() {
    let Some(_turn) = turn() else { return };
    let service = Service::begin();
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-name", "nameless", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "16", "-nodefaults"]);
    qemu.args(["-display", "none", "-qmp", "unix:qmp.sock,server=on,wait=off"]).current_dir(service.place.0.path());
    let begun = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let vm = match begun {
        Ok(qemu) => Vm(qemu),
        Err(error) => return eprintln!("SKIPPED: qemu-system-x86_64: {error}"),
    };
    let pid = vm.0.id();
    soon("the VM is found", || service.client(&["show", "nameless"]).code == Some(0));
    service.json(&["set", "nameless", "--slice", "6ms", "--period", "20ms", "--cpus", "2"]);
    let vcpus = || -> Vec<u32> {
        serde_json::from_value(service.json(&["show", "nameless"])["vcpus"].clone()).unwrap_or_default()
    };
    soon("the monitor has answered", || vcpus().len() == 2);
    let tids = vcpus();
    let usage = service.get("/v1/vms/nameless/usage");
    for thread in usage["threads"].as_array().unwrap() {
        let is_vcpu = tids.contains(&u32::try_from(thread["tid"].as_u64().unwrap()).unwrap());
        assert_eq!(thread["is_vcpu"], is_vcpu, "{usage}");
    }
    // The threads that serve the vCPUs are above them; the kernel reports the priority 95 as -96.
    let is_at = |tid: u32, priority: i32| sys::thread::status(tid).unwrap().priority == -1 - priority;
    soon("the first vCPU is at 95", || is_at(tids[0], 95));
    soon("the emulator is above", || is_at(pid, 96) || is_at(pid, 97));
    // The next service does not ask again, and ends no promise.
    let place = service.kill();
    let service = Service::at(place, &[]);
    let shown = service.json(&["show", "nameless"]);
    assert_eq!((&shown["state"]["phase"], &shown["vcpus"]), (&"kept".into(), &serde_json::json!(tids)));
    drop(vm);
    service.end();
}
