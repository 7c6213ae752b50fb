//! [`Inventory`]: the VMs that run on this host, according to /proc.
//!
//! A VM is found by the command line of its process: QEMU, Firecracker and Cloud Hypervisor name the VM there. Any other
//! process can be [added](Inventory::add) by its pid. The domains of libvirt have their own names and UUIDs.
//!
//! The kernel reports the programs that are executed and the processes that end. Where it refuses to, /proc is scanned at
//! each look.

use crate::complaint::complain;
use crate::recognition::{PID, is_proper, monitor_of, recognise};
use api::{Kind, Process};
use sched::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use sys::process_events::{ProcessEvents, ProcessNews};
use sys::thread::{self, Identity, Thread};

/// Interval between two scans of /proc while the kernel reports the events of processes. The kernel may lose an event
/// without notice if it is short of memory, and a process that forks without executing a program causes no event.
const SCAN: Nanos = Nanos::s(5);
/// Range of the pause between two examinations of a process by scans. A shell becomes a VM when it executes the VM's
/// program, so a process is examined again; the pause doubles each time.
const PAUSE: (Nanos, Nanos) = (Nanos::ms(50), Nanos::s(30));

/// A running VM.
#[derive(Debug)]
pub(crate) struct Found {
    /// Id in the interface.
    pub(crate) id: String,
    /// Whether the next process of the VM has the same id. Otherwise, the id ends with the process.
    pub(crate) is_lasting: bool,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) process: Process,
    /// The first thread of the process, so that a later process with the same pid is not mistaken for the VM.
    pub(crate) thread: Thread,
    /// Socket of the VM's monitor.
    pub(crate) monitor: Option<PathBuf>,
    /// Tids of the threads of vCPUs that have no names of vCPUs, as the monitor says.
    pub(crate) vcpus: Vec<u32>,
}

impl Found {
    pub(crate) fn identity(&self) -> Identity {
        self.thread.identity()
    }

    /// Returns the present real user ID of the process; `None` if it has ended.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.thread.owner().ok().map(|owner| owner.real)
    }

    /// Returns the present user of the VM. A program may change its user after its start. After its end, the last known one.
    pub(crate) fn user(&self) -> u32 {
        self.owner().unwrap_or(self.process.user)
    }

    /// Returns whether this is a VM, and not a process that was named by its pid.
    pub(crate) fn is_vm(&self) -> bool {
        self.is_lasting || self.kind != Kind::Process
    }
}

/// A running domain of libvirt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Domain {
    pub(crate) pid: u32,
    pub(crate) uuid: String,
    pub(crate) name: String,
}

/// A program whose process is a VM, according to a label file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    /// Name of the program: the last part of its path.
    pub(crate) program: String,
    /// Id and name of the VM.
    pub(crate) name: String,
    /// Users that may run it.
    pub(crate) users: Vec<u32>,
}

/// A change of the inventory.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The VM with this id was found.
    Appeared(String),
    /// The VM with this id, whose process had this pid, has ended.
    Ended(String, u32),
}

/// The VMs that run on this host.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// The running VMs, by id.
    pub(crate) vms: BTreeMap<String, Found>,
    /// The processes that were examined and are no VMs.
    others: BTreeMap<u32, Other>,
    /// The events of processes. `None`: /proc is scanned at each look.
    events: Option<ProcessEvents>,
    /// The domains of libvirt, by pid.
    domains: BTreeMap<u32, Domain>,
    programs: Vec<Program>,
    /// Pids of domains that are to be examined.
    due: BTreeSet<u32>,
    /// Instant of the next scan.
    next_scan: Instant,
    /// What limits the inventory.
    warning: Option<String>,
}

/// A process that was examined and is no VM.
#[derive(Debug)]
struct Other {
    /// Instant of the next examination.
    next: Instant,
    /// Pause after it.
    pause: Nanos,
    /// Whether it is a VM whose id an earlier process has.
    has_taken_id: bool,
}

impl Inventory {
    /// Returns an inventory without VMs, which follows the events of processes where the kernel permits that.
    pub(crate) fn open() -> Inventory {
        match ProcessEvents::open() {
            Ok(events) => Inventory { events: Some(events), ..Inventory::default() },
            Err(error) => {
                let warning = format!("VMs are found by scans of /proc: {}", error.reason());
                complain(&format!("VMs are found by scans of /proc: {error}"));
                Inventory { warning: Some(warning), ..Inventory::default() }
            }
        }
    }

    /// Returns what limits the inventory.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Takes over the programs whose processes are VMs.
    pub(crate) fn learn_programs(&mut self, programs: Vec<Program>) {
        let programs = programs.into_iter().filter(|program| is_proper(&program.name)).collect();
        if self.programs != programs {
            self.programs = programs;
            // Any process may be such a VM.
            self.others.clear();
            self.next_scan = Instant::ZERO;
        }
    }

    /// Takes over the domains of libvirt that run.
    pub(crate) fn learn_domains(&mut self, domains: Vec<Domain>) {
        self.domains = domains.into_iter().map(|domain| (domain.pid, domain)).collect();
        for vm in self.vms.values_mut() {
            if let Some(domain) = self.domains.get(&vm.process.pid).filter(|domain| domain.uuid == vm.id) {
                vm.name.clone_from(&domain.name);
            }
        }
        // A process whose program is unknown is a VM if libvirt says so.
        self.due.extend(self.domains.keys());
    }

    /// Looks for new VMs, and for VMs that have ended.
    pub(crate) fn follow(&mut self, now: Instant) -> Vec<Change> {
        let due = std::mem::take(&mut self.due);
        for pid in &due {
            self.others.remove(pid);
        }
        let Some(events) = &mut self.events else { return self.scan(now) };
        let ProcessNews { executed, ended, has_lost } = events.read();
        if has_lost {
            // Any process may have executed the program of a VM.
            self.others.clear();
        }
        for pid in executed.iter().chain(&ended) {
            self.others.remove(pid);
        }
        if has_lost || self.next_scan <= now {
            return self.scan(now);
        }
        let changes = self.remove_ended(now, |pid| ended.contains(&pid));
        if !changes.is_empty() {
            // A child that was forked without a program may replace the VM: QEMU becomes a daemon so.
            return changes.into_iter().chain(self.scan(now)).collect();
        }
        // Another process may have the pid of one that has ended.
        self.consider((&executed | &due).into_iter(), now)
    }

    /// Scans /proc for new VMs, and for VMs that have ended.
    fn scan(&mut self, now: Instant) -> Vec<Change> {
        self.next_scan = now.saturating_add(SCAN);
        let mut changes = self.remove_ended(now, |_| true);
        let present: BTreeSet<u32> = thread::processes().unwrap_or_default().into_iter().collect();
        self.others.retain(|pid, _| present.contains(pid));
        changes.extend(self.consider(present.into_iter(), now));
        changes
    }

    /// Removes the VMs that have ended, among those whose pid `may_have_ended`.
    fn remove_ended(&mut self, now: Instant, may_have_ended: impl Fn(u32) -> bool) -> Vec<Change> {
        let has_ended = |vm: &Found| may_have_ended(vm.process.pid) && !vm.thread.is_there();
        let ended: Vec<String> = self.vms.iter().filter(|(_, vm)| has_ended(vm)).map(|(id, _)| id.clone()).collect();
        if !ended.is_empty() {
            // Another process may have had the id of a VM that has ended.
            self.others.values_mut().filter(|other| other.has_taken_id).for_each(|other| other.next = now);
        }
        ended.into_iter().filter_map(|id| self.vms.remove(&id).map(|vm| Change::Ended(id, vm.process.pid))).collect()
    }

    /// Examines the processes whose examination is due, and adds those that are VMs.
    fn consider(&mut self, pids: impl Iterator<Item = u32>, now: Instant) -> Vec<Change> {
        let known: BTreeSet<u32> = self.vms.values().map(|vm| vm.process.pid).collect();
        let mut changes = Vec::new();
        for pid in pids.filter(|pid| !known.contains(pid)) {
            let other = self.others.entry(pid).or_insert(Other { next: now, pause: PAUSE.0, has_taken_id: false });
            if now < other.next {
                continue;
            }
            (other.next, other.pause) =
                (now.saturating_add(other.pause), other.pause.saturating_add(other.pause).min(PAUSE.1));
            if let Some(vm) = examine(pid, self.domains.get(&pid), &self.programs) {
                // Of two processes with the same id, the earlier stays until it ends.
                other.has_taken_id = self.vms.contains_key(&vm.id);
                if !other.has_taken_id {
                    self.others.remove(&pid);
                    changes.push(Change::Appeared(vm.id.clone()));
                    self.vms.insert(vm.id.clone(), vm);
                }
            }
        }
        changes
    }

    /// Adds the process with the id `pid:NUMBER`, which may be a VM. Returns its id, and whether the process was added now;
    /// `None` if there is no such process.
    pub(crate) fn add(&mut self, id: &str) -> Option<(String, bool)> {
        let pid: u32 = id.strip_prefix(PID)?.parse().ok()?;
        if let Some(vm) = self.vms.values().find(|vm| vm.process.pid == pid && vm.thread.is_there()) {
            return Some((vm.id.clone(), false));
        }
        let thread = Thread::open(pid).ok().filter(|thread| thread.process().is_ok_and(|process| process == pid))?;
        if let Some(vm) =
            examine(pid, self.domains.get(&pid), &self.programs).filter(|vm| !self.vms.contains_key(&vm.id))
        {
            let id = vm.id.clone();
            self.vms.insert(id.clone(), vm);
            return Some((id, true));
        }
        let (name, user) = (thread.status().ok()?.name, thread.owner().ok()?.real);
        let id = format!("{PID}{pid}");
        let process = Process { pid, start_time: thread.identity().start_time, user };
        let (kind, is_lasting) = (Kind::Process, false);
        let (monitor, vcpus) = (None, Vec::new());
        self.vms.insert(id.clone(), Found { id: id.clone(), is_lasting, name, kind, process, thread, monitor, vcpus });
        Some((id, true))
    }

    /// Removes a process that was added, and for which nothing is desired.
    pub(crate) fn forget(&mut self, id: &str) {
        if self.vms.get(id).is_some_and(|vm| vm.kind == Kind::Process && !vm.is_lasting) {
            self.vms.remove(id);
        }
    }
}

/// Returns process `pid` if it is a VM. `domain` is a domain of libvirt with this pid, and `programs` are VMs, too.
fn examine(pid: u32, domain: Option<&Domain>, programs: &[Program]) -> Option<Found> {
    let thread = Thread::open(pid).ok()?;
    let words = thread.command_line().ok()?;
    // A status file may outlive its domain, so the command line must have the UUID.
    let domain = domain.filter(|domain| words.contains(&domain.uuid)).cloned();
    let of_domain = domain.map(|domain| (Kind::Qemu, Some(domain.uuid), Some(domain.name)));
    let file_name = words.first().and_then(|program| program.rsplit('/').next());
    let user = thread.owner().ok()?.real;
    let is_it = |it: &&Program| file_name == Some(it.program.as_str()) && it.users.contains(&user);
    let of_program = || programs.iter().find(is_it).map(|it| (Kind::Process, None, Some(it.name.clone())));
    let (kind, id, name) = of_domain.or_else(|| recognise(&words)).or_else(of_program)?;
    let (id, name) = (id.filter(|id| is_proper(id)), name.filter(|name| is_proper(name)));
    let is_lasting = id.is_some() || name.is_some();
    let name = name.unwrap_or_else(|| format!("{}-{pid}", kind.word()));
    let process = Process { pid, start_time: thread.identity().start_time, user };
    // A relative path is one of the directory of the VM.
    let monitor = monitor_of(&words).map(|path| PathBuf::from(format!("/proc/{pid}/cwd")).join(path));
    let id = id.unwrap_or_else(|| name.clone());
    Some(Found { id, is_lasting, name, kind, process, thread, monitor, vcpus: Vec::new() })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use sys::child::{Child, Work};
    use sys::clock;

    /// Returns a VM of `user`, whose process is this one.
    pub(crate) fn found(name: &str, user: u32) -> Found {
        let thread = Thread::open(thread::current()).unwrap();
        let process = Process { pid: thread.tid(), start_time: thread.identity().start_time, user };
        let (id, kind, is_lasting) = (name.to_string(), Kind::Qemu, true);
        Found { name: id.clone(), id, is_lasting, kind, process, thread, monitor: None, vcpus: Vec::new() }
    }

    #[test]
    fn a_process_is_added_by_its_pid_and_ends_once() {
        let mut inventory = Inventory::default();
        inventory.scan(Instant::ZERO);
        let child = Child::start(Work::Sleep).unwrap();
        let id = format!("pid:{}", child.pid());
        assert_eq!(inventory.add(&id), Some((id.clone(), true)));
        assert_eq!(inventory.add(&format!("pid:00{}", child.pid())), Some((id.clone(), false)));
        assert_eq!(inventory.vms[&id].identity().tid, child.pid());
        for wrong in ["pid:", "pid:-1", "pid:4294967296", "7", "pid:4294967295"] {
            assert_eq!(inventory.add(wrong), None, "{wrong}");
        }
        // Other tests start and end VMs at the same time.
        let ended = Change::Ended(id, child.pid());
        assert!(!inventory.scan(Instant::ZERO).contains(&ended));
        drop(child);
        assert!(inventory.scan(Instant::ZERO).contains(&ended));
        assert!(!inventory.scan(Instant::ZERO).contains(&ended));
    }

    /// A shell that executes the program of a VM when it receives a line, and ends at the second line.
    struct Shell(std::process::Child);

    impl Shell {
        fn start(name: &str) -> Shell {
            let program = format!("read line; exec -a qemu-system-x86_64 bash -c read bash -name guest={name}");
            let shell = Command::new("bash").args(["-c", &program]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
            Shell(shell.expect("bash is missing"))
        }

        fn send_line(&mut self) {
            self.0.stdin.as_mut().expect("it is a pipe").write_all(b"\n").unwrap();
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Returns an inventory that follows the events of processes; `None` where the kernel refuses to report them.
    fn following() -> Option<Inventory> {
        let inventory = Inventory::open();
        if let Some(warning) = inventory.warning() {
            eprintln!("SKIPPED: {warning}");
            return None;
        }
        Some(inventory)
    }

    /// Follows the processes until the VM `id` has appeared or ended. The instant is always the same, so no scan is due.
    fn follow_until(inventory: &mut Inventory, id: &str, is_it: impl Fn(&Change) -> bool) -> Nanos {
        let begin = clock::now();
        while !inventory.follow(Instant::ZERO).iter().any(&is_it) {
            assert!(clock::now().since(begin) < Nanos::s(10), "{id}");
            clock::sleep(Nanos::ms(1));
        }
        clock::now().since(begin)
    }

    /// Waits until word number `at` of the command line of process `pid` contains `word`.
    fn until_runs(pid: u32, at: usize, word: &str) {
        let end = clock::now() + Nanos::s(10);
        let has_word = |all: Vec<String>| all.get(at).is_some_and(|it| it.contains(word));
        while !Thread::open(pid).and_then(|it| it.command_line()).is_ok_and(has_word) {
            assert!(clock::now() < end, "process {pid} does not execute {word}");
            clock::sleep(Nanos::ms(1));
        }
    }

    #[test]
    fn a_program_is_examined_when_it_is_executed_and_the_end_of_a_vm_is_noticed_without_a_scan() {
        let Some(mut inventory) = following() else { return };
        let mut shell = Shell::start("late");
        inventory.follow(Instant::ZERO);
        assert!(!inventory.vms.contains_key("late"));
        shell.send_line();
        let appeared = follow_until(&mut inventory, "late", |change| *change == Change::Appeared("late".into()));
        let pid = shell.0.id();
        // A second process with the same id takes its place.
        let mut second = Shell::start("late");
        second.send_line();
        until_runs(second.0.id(), 0, "qemu");
        inventory.follow(Instant::ZERO);
        assert_eq!(inventory.vms["late"].process.pid, pid);
        shell.send_line();
        let ended = follow_until(&mut inventory, "late", |change| *change == Change::Ended("late".into(), pid));
        assert_eq!(inventory.vms["late"].process.pid, second.0.id());
        // The test of the command measures the promised time.
        eprintln!("appeared after {appeared}, ended after {ended}");
    }

    #[test]
    fn after_a_burst_of_20_000_processes_a_vm_is_found_and_its_end_noticed() {
        let Some(mut inventory) = following() else { return };
        let (mut ending, mut beginning) = (Shell::start("ending"), Shell::start("beginning"));
        inventory.follow(Instant::ZERO);
        ending.send_line();
        follow_until(&mut inventory, "ending", |change| *change == Change::Appeared("ending".into()));
        // More events than the receive buffer holds, so the kernel reports none of those that follow.
        let burst = "i=0; while [ $i -lt 20000 ]; do (:); i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", burst]).status().unwrap().success());
        beginning.send_line();
        ending.send_line();
        ending.0.wait().unwrap();
        clock::sleep(Nanos::ms(50));
        let changes = inventory.follow(Instant::ZERO + Nanos::s(1));
        assert!(changes.contains(&Change::Appeared("beginning".into())), "{changes:?}");
        assert!(changes.contains(&Change::Ended("ending".into(), ending.0.id())), "{changes:?}");
        assert_eq!(inventory.next_scan, Instant::ZERO + Nanos::s(1) + SCAN, "the loss was followed by a scan");
    }

    #[test]
    fn a_domain_of_libvirt_is_a_vm_with_its_own_name_if_the_command_line_has_its_uuid() {
        let uuid = "0b7c6a3e-6f0e-4d06-9a49-3a1f0c1d2e3f";
        let emulator = |last: &str| {
            let mut own = Command::new("bash");
            own.args(["-c", "read", "emulator", "-uuid", last]).stdin(Stdio::piped());
            Shell(own.spawn().expect("bash is missing"))
        };
        let (own, stale) = (emulator(uuid), emulator("none"));
        let domain = |pid, name: &str| Domain { pid, uuid: uuid.to_string(), name: name.to_string() };
        let mut inventory = Inventory::default();
        let ours = |inventory: &mut Inventory| {
            let changes = inventory.follow(Instant::ZERO);
            changes.contains(&Change::Appeared(uuid.to_string()))
        };
        until_runs(own.0.id(), 3, "emulator");
        until_runs(stale.0.id(), 3, "emulator");
        assert!(!ours(&mut inventory), "its program is unknown");
        inventory.learn_domains(vec![domain(stale.0.id(), "stale")]);
        assert!(!ours(&mut inventory), "the process of the status file has ended");
        inventory.learn_domains(vec![domain(own.0.id(), "domain")]);
        assert!(ours(&mut inventory));
        let found = |inventory: &Inventory| (inventory.vms[uuid].name.clone(), inventory.vms[uuid].is_lasting);
        assert_eq!(found(&inventory), ("domain".to_string(), true));
        inventory.learn_domains(vec![domain(own.0.id(), "renamed")]);
        assert_eq!(found(&inventory), ("renamed".to_string(), true));
    }

    #[test]
    fn a_program_of_a_label_file_is_a_vm_for_the_users_that_may_run_it() {
        let mut shell = Command::new("bash");
        shell.args(["-c", "exec -a /opt/tactus-test-batch bash -c read"]).stdin(Stdio::piped());
        let shell = Shell(shell.spawn().expect("bash is missing"));
        until_runs(shell.0.id(), 0, "tactus-test-batch");
        let mut inventory = Inventory::default();
        let program = |users: &[u32]| {
            let (program, name) = ("tactus-test-batch".to_string(), "batch".to_string());
            vec![Program { program, name, users: users.to_vec() }]
        };
        for programs in [Vec::new(), program(&[4_242])] {
            inventory.learn_programs(programs);
            inventory.follow(Instant::ZERO);
            assert!(!inventory.vms.contains_key("batch"));
        }
        inventory.learn_programs(program(&[4_242, sys::privileges::user()]));
        inventory.follow(Instant::ZERO);
        assert_eq!(inventory.vms["batch"].process.pid, shell.0.id());
        // Nothing is desired for it any longer, but it stays a VM.
        inventory.forget("batch");
        assert!(inventory.vms["batch"].is_lasting);
    }
}
