//! [`Inventory`]: the VMs that run on this host, according to /proc.
//!
//! A VM is found by the command line of its process: QEMU, Firecracker and Cloud Hypervisor name the VM there. Any other
//! process can be [added](Inventory::add) by its pid.

use api::{Kind, Process};
use sched::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use sys::thread::{self, Identity, Thread};

/// Range of the pause between two examinations of a process. A shell becomes a VM when it executes the VM's program, so a
/// process is examined again; the pause doubles each time.
const PAUSE: (Nanos, Nanos) = (Nanos::ms(50), Nanos::s(30));

/// A running VM.
#[derive(Debug)]
pub(crate) struct Found {
    /// Id in the interface.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) process: Process,
    /// The first thread of the process, so that a later process with the same pid is not mistaken for the VM.
    thread: Thread,
}

impl Found {
    pub(crate) fn identity(&self) -> Identity {
        self.thread.identity()
    }

    /// Returns the present real user ID of the process; `None` if it has ended.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.thread.owner().ok().map(|owner| owner.real)
    }
}

/// A change of the inventory.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The VM with this id was found.
    Appeared(String),
    /// The VM with this id has ended.
    Ended(String),
}

/// The VMs that run on this host.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// The running VMs, by id.
    pub(crate) vms: BTreeMap<String, Found>,
    /// The processes that were examined and are no VMs.
    others: BTreeMap<u32, Other>,
}

/// A process that was examined and is no VM.
#[derive(Debug)]
struct Other {
    /// Instant of the next examination.
    next: Instant,
    /// Pause after it.
    pause: Nanos,
}

impl Inventory {
    /// Looks for new VMs, and for VMs that have ended.
    pub(crate) fn scan(&mut self, now: Instant) -> Vec<Change> {
        let ended: Vec<String> =
            self.vms.iter().filter(|(_, vm)| !vm.thread.is_there()).map(|(id, _)| id.clone()).collect();
        ended.iter().for_each(|id| drop(self.vms.remove(id)));
        let mut changes: Vec<Change> = ended.into_iter().map(Change::Ended).collect();
        let present: BTreeSet<u32> = thread::processes().unwrap_or_default().into_iter().collect();
        self.others.retain(|pid, _| present.contains(pid));
        let known: BTreeSet<u32> = self.vms.values().map(|vm| vm.process.pid).collect();
        for pid in present.difference(&known) {
            let other = self.others.entry(*pid).or_insert(Other { next: now, pause: PAUSE.0 });
            if now < other.next {
                continue;
            }
            (other.next, other.pause) =
                (now.saturating_add(other.pause), other.pause.saturating_add(other.pause).min(PAUSE.1));
            if let Some(vm) = examine(*pid) {
                // Of two processes with the same id, the earlier stays until it ends.
                if !self.vms.contains_key(&vm.id) {
                    self.others.remove(pid);
                    changes.push(Change::Appeared(vm.id.clone()));
                    self.vms.insert(vm.id.clone(), vm);
                }
            }
        }
        changes
    }

    /// Adds process `pid`. Returns its id; `None` if there is no such process.
    pub(crate) fn add(&mut self, pid: u32) -> Option<String> {
        if let Some(vm) = self.vms.values().find(|vm| vm.process.pid == pid && vm.thread.is_there()) {
            return Some(vm.id.clone());
        }
        let thread = Thread::open(pid).ok().filter(|thread| thread.process().is_ok_and(|process| process == pid))?;
        let (name, user) = (thread.status().ok()?.name, thread.owner().ok()?.real);
        let id = format!("pid:{pid}");
        let process = Process { pid, start_time: thread.identity().start_time, user };
        self.vms.insert(id.clone(), Found { id: id.clone(), name, kind: Kind::Process, process, thread });
        Some(id)
    }

    /// Removes a process that was added, and for which nothing is desired.
    pub(crate) fn forget(&mut self, id: &str) {
        if self.vms.get(id).is_some_and(|vm| vm.kind == Kind::Process) {
            self.vms.remove(id);
        }
    }
}

/// Returns process `pid` if it is a VM.
fn examine(pid: u32) -> Option<Found> {
    let thread = Thread::open(pid).ok()?;
    let (kind, id, name) = recognise(&thread.command_line().ok()?)?;
    let name = name.unwrap_or_else(|| format!("{}-{pid}", kind.word()));
    let user = thread.owner().ok()?.real;
    let process = Process { pid, start_time: thread.identity().start_time, user };
    Some(Found { id: id.unwrap_or_else(|| name.clone()), name, kind, process, thread })
}

/// Returns the kind of the VM with this command line, its UUID and its name, if the command line has them; `None` if it is
/// the command line of no VM.
fn recognise(words: &[String]) -> Option<(Kind, Option<String>, Option<String>)> {
    let program = words.first()?.rsplit('/').next()?;
    // The value of an option: `--id NAME` or `--id=NAME`. QEMU accepts one and two dashes.
    let value = |option: &str| {
        let is_option = |word: &str| word.trim_start_matches('-') == option && word.starts_with('-');
        let after = words.iter().position(|word| is_option(word)).and_then(|at| words.get(at + 1).cloned());
        let prefix = format!("--{option}=");
        after.or_else(|| words.iter().find_map(|word| word.strip_prefix(&prefix).map(str::to_string)))
    };
    match program {
        _ if program.starts_with("qemu-system-") || matches!(program, "qemu" | "kvm" | "qemu-kvm") => {
            Some((Kind::Qemu, value("uuid"), value("name").and_then(|text| guest_name(&text))))
        }
        "firecracker" => Some((Kind::Firecracker, None, value("id"))),
        "cloud-hypervisor" => {
            let uuid = value("platform")
                .and_then(|text| text.split(',').find_map(|it| it.strip_prefix("uuid=").map(str::to_string)));
            Some((Kind::CloudHypervisor, uuid, None))
        }
        _ => None,
    }
}

/// Returns the name in the value of QEMU's option `-name`: `vm1`, `vm1,process=x` or `guest=vm1,debug-threads=on`. A
/// comma within the name is doubled.
fn guest_name(text: &str) -> Option<String> {
    let text = text.replace(",,", "\0");
    let mut parts = text.split(',');
    let first = parts.next().filter(|first| !first.contains('='));
    let name = first.or_else(|| text.split(',').find_map(|part| part.strip_prefix("guest=")))?;
    Some(name.replace('\0', ",")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::child::{Child, Work};

    fn of(line: &str) -> Option<(Kind, Option<String>, Option<String>)> {
        recognise(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn vms_are_recognised_by_their_command_lines() {
        let named = |name: &str| Some(name.to_string());
        let uuid = "c7a5fdbd-edaf-9455-926a-d65c16db1809";
        for (line, kind, id, name) in [
            (
                &*format!("/usr/bin/qemu-system-x86_64 -name guest=vm1,debug-threads=on -uuid {uuid} -m 1024"),
                Kind::Qemu,
                named(uuid),
                named("vm1"),
            ),
            ("qemu-system-aarch64 --name vm,,2,process=x -nodefaults", Kind::Qemu, None, named("vm,2")),
            ("/usr/libexec/qemu-kvm -m 512", Kind::Qemu, None, None),
            ("qemu-system-x86_64 -name debug-threads=on", Kind::Qemu, None, None),
            ("/srv/jail/firecracker --id=micro-7 --api-sock /run/x", Kind::Firecracker, None, named("micro-7")),
            (
                "cloud-hypervisor --platform num_pci_segments=1,uuid=abc --cpus boot=2",
                Kind::CloudHypervisor,
                named("abc"),
                None,
            ),
        ] {
            assert_eq!(of(line), Some((kind, id, name)), "{line}");
        }
        for line in ["", "bash -c qemu-system-x86_64", "/usr/bin/qemu-img convert", "vim firecracker"] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn a_process_is_added_by_its_pid_and_ends_once() {
        let mut inventory = Inventory::default();
        inventory.scan(Instant::ZERO);
        let child = Child::start(Work::Sleep).unwrap();
        let id = inventory.add(child.pid()).unwrap();
        assert_eq!(inventory.add(child.pid()).as_ref(), Some(&id));
        assert_eq!((&*id, inventory.vms[&id].identity().tid), (&*format!("pid:{}", child.pid()), child.pid()));
        assert_eq!(inventory.scan(Instant::ZERO), []);
        drop(child);
        assert_eq!(inventory.scan(Instant::ZERO), [Change::Ended(id.clone())]);
        assert_eq!((inventory.scan(Instant::ZERO), inventory.add(u32::MAX)), (vec![], None));
    }
}
