//! [`HintPort`]: the port through which the agent in a VM sends hints. [`ObservedVm`]: a VM whose port another process has.
//!
//! A VM of QEMU gets a virtio-serial port while it runs, by QMP. QEMU inherits one end of a pair of sockets, so no path and no right in the
//! file system is needed. Without ioeventfd, QEMU passes a message on while the vCPU writes it, and no other thread of QEMU must run first:
//! beside a busy host, a message takes 0.04 ms instead of 4 ms.

use crate::inventory::{Found, Inventory};
use crate::qmp::{Failed, Qmp};
use coordination::wire::VCPUS_MAX;
use daemon::Explanation;
use daemon::boosts::{Observed, VmThreads};
use daemon::dispatch::Role;
use sched::Nanos;
use serde_json::{Value, json};
use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use sys::thread::{self, Identity, Thread};
use sys::{clock, local_socket};

/// Name of the port in the guest.
const NAME: &str = "tactus.hints";
/// Id of the port and its character device in QEMU, and that of the bus that is added for it.
const PORT: &str = "tactus-hints";
const BUS: &str = "tactus-serial";
/// Maximum time to wait for a reply of the monitor. A VM on a busy host answers late.
const REPLY: Nanos = Nanos::s(5);
/// Maximum time in which a guest releases the bus. Linux waits 5 s after the attention button of a native PCIe slot (pciehp).
const UNPLUG: Nanos = Nanos::s(20);
/// Maximum number of threads on the way of interrupts: the owner of the VM chooses their names.
const CARRIERS_MOST: usize = 64;
/// Interval between attempts to remove the character device of a removed port, and their maximum number.
const RELEASE: Nanos = Nanos::ms(10);
const RELEASES: u32 = 200;

/// How a VM gets a place for the port.
const PLACE: &str =
    "start the VM with -device virtio-serial-pci,ioeventfd=off, or with a free -device pcie-root-port,id=ID";

/// The port of a VM for hints.
#[derive(Debug)]
pub struct HintPort {
    /// This end of the port.
    pub stream: UnixStream,
    /// The threads of the VM.
    pub threads: VmThreads,
    /// Name of the VM.
    pub name: String,
    /// The first thread of the VM.
    leader: Identity,
    /// Keeps other processes from the same VM, which may observe it through this socket. The kernel frees it when this process ends.
    pub observers: UnixListener,
    /// What slows messages down, and the remedy.
    pub warning: Option<Explanation>,
    /// The monitor of a VM that got its port from it.
    added: Option<PathBuf>,
}

impl HintPort {
    /// Attaches a port to the running VM with this id, name or pid. `given`: the socket of a port that the VM has already, such as one of
    /// libvirt's.
    ///
    /// # Errors
    /// There is no such VM, another process has attached a port to it, its monitor cannot be asked, or QEMU refuses the port. The VM is as
    /// before then, unless its monitor stops answering.
    pub fn attach(vm: &str, given: Option<&Path>) -> Result<HintPort, Explanation> {
        let vm = find(vm)?;
        let (leader, pid) = (vm.identity(), vm.identity().tid);
        let lock = lock(&vm)?;
        if let Some(socket) = given {
            let stream = connect(socket, pid)?;
            let threads = threads(&vm, vcpus_of(&vm))?;
            return Ok(HintPort {
                stream,
                threads,
                name: vm.name,
                leader,
                observers: lock,
                warning: None,
                added: None,
            });
        }
        match vm.monitor.as_deref().map(|socket| Qmp::connect(socket, pid, REPLY)) {
            Some(Ok(mut monitor)) => {
                let refused =
                    |failed: Failed| Explanation::new(format!("cannot attach a port to {}: {failed}", vm.name), "");
                let threads = threads(&vm, Some(monitor.vcpus().map_err(refused)?))?;
                let (ours, theirs) = UnixStream::pair().map_err(|error| Explanation::new(error.to_string(), ""))?;
                let warning = add(&mut monitor, &theirs).map_err(|failed| refused_port(&vm.name, &failed))?;
                let (name, added) = (vm.name, vm.monitor);
                Ok(HintPort { stream: ours, threads, name, leader, observers: lock, warning, added })
            }
            Some(Err(error)) => Err(unreachable(&vm.name, Some(&error))),
            None => Err(unreachable(&vm.name, None)),
        }
    }

    /// Whether the VM still runs.
    #[must_use]
    pub fn vm_runs(&self) -> bool {
        Thread::open_as(self.leader).is_ok()
    }

    /// Detaches the port, if it was added. A VM that has ended has none.
    ///
    /// # Errors
    /// The monitor cannot be asked, or the guest does not release the bus of the port.
    pub fn detach(self) -> Result<(), Explanation> {
        let Some(socket) = &self.added else { return Ok(()) };
        let left = |device: &str, why: String| {
            Explanation::new(format!("the device {device} stays in {}: {why}", self.name), "attach and detach it again")
        };
        if !self.vm_runs() {
            return Ok(());
        }
        let mut monitor =
            Qmp::connect(socket, self.leader.tid, REPLY).map_err(|error| left(PORT, error.to_string()))?;
        remove_port(&mut monitor).map_err(|failed| left(PORT, failed.to_string()))?;
        remove_bus(&mut monitor).map_err(|failed| left(BUS, failed.to_string()))
    }
}

/// A VM to which another process has attached a port.
#[derive(Debug)]
pub struct ObservedVm {
    /// Name of the VM.
    pub name: String,
    /// The threads of the VM.
    pub threads: VmThreads,
    /// What the agent says.
    pub observed: Observed,
}

impl ObservedVm {
    /// Observes the running VM with this id, name or pid, and asks its agent for the wake-ups whose latency is at least `least`. `None`: no process
    /// has attached a port to the VM.
    ///
    /// # Errors
    /// There is no such VM, or the process that has attached the port passes nothing on.
    pub fn find(vm: &str, least: Nanos) -> Result<Option<ObservedVm>, Explanation> {
        let vm = find(vm)?;
        let silent = |error: io::Error| {
            let why = format!("another process has the port of {}, and passes nothing on: {error}", vm.name);
            Explanation::new(why, "end it first")
        };
        let socket = match address(&vm).and_then(|address| UnixStream::connect_addr(&address)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            connected => connected.map_err(silent)?,
        };
        // The other process drops an observer that does not read.
        let threads = threads(&vm, vcpus_of(&vm))?;
        let observed = Observed::begin(socket, least).map_err(silent)?;
        Ok(Some(ObservedVm { threads, name: vm.name, observed }))
    }
}

/// Returns the tids of the vCPUs, if the monitor of the VM can be asked.
fn vcpus_of(vm: &Found) -> Option<Vec<u32>> {
    Qmp::connect(vm.monitor.as_deref()?, vm.identity().tid, REPLY).ok()?.vcpus().ok()
}

/// Returns the address of the socket by which one process at a time has the port of a VM.
fn address(vm: &Found) -> io::Result<SocketAddr> {
    let Identity { tid, start_time } = vm.identity();
    SocketAddr::from_abstract_name(format!("tactus-hints-{tid}-{start_time}"))
}

/// Keeps other processes from attaching a port to `vm`, which would end this one.
fn lock(vm: &Found) -> Result<UnixListener, Explanation> {
    address(vm).and_then(|address| UnixListener::bind_addr(&address)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            Explanation::new(format!("another process has the port of {}", vm.name), "end it first")
        }
        _ => Explanation::new(format!("cannot lock {}: {error}", vm.name), "try again"),
    })
}

/// Finds a running VM.
fn find(vm: &str) -> Result<Found, Explanation> {
    let mut inventory = Inventory::default();
    inventory.follow(clock::now());
    let is_it = |found: &Found| found.id == vm || found.name == vm || found.process.pid.to_string() == vm;
    let ids: Vec<String> = inventory.vms.values().filter(|found| is_it(found)).map(|found| found.id.clone()).collect();
    match &ids[..] {
        [id] => Ok(inventory.vms.remove(id).expect("it was found")),
        [] => {
            Err(Explanation::new(format!("no VM with the id, name or pid {vm} runs"), "list them with `tactus list`"))
        }
        several => {
            Err(Explanation::new(format!("several VMs are called {vm}: {}", several.join(", ")), "name one by its id"))
        }
    }
}

fn unreachable(vm: &str, error: Option<&io::Error>) -> Explanation {
    let why = match error {
        Some(error) => format!("its monitor cannot be asked: {error}"),
        None => "its command line names no socket of a monitor (QMP)".to_string(),
    };
    let remedy = format!(
        "give the VM a virtio-serial port {NAME} at a socket, as libvirt does with <channel type='unix'>, and name the socket: --port SOCKET"
    );
    Explanation::new(format!("cannot attach a port to {vm}: {why}"), remedy)
}

fn refused_port(vm: &str, failed: &Failed) -> Explanation {
    let remedy = match failed {
        Failed::Refused(_) => PLACE,
        Failed::Silent(_) => "try again when the VM runs",
    };
    Explanation::new(format!("cannot attach a port to {vm}: {failed}"), remedy)
}

/// Connects to the socket of a port of process `pid`.
fn connect(socket: &Path, pid: u32) -> Result<UnixStream, Explanation> {
    let failed = |why: &str| {
        let remedy = "name the socket at which QEMU listens for the other end of the port";
        Explanation::new(format!("cannot use the port {}: {why}", socket.display()), remedy)
    };
    let stream = local_socket::connect_within(socket, REPLY).map_err(|error| failed(&error.to_string()))?;
    match local_socket::peer(&stream) {
        Ok(peer) if peer.pid == pid => Ok(stream),
        Ok(peer) => Err(failed(&format!("it is of process {}, and the VM is process {pid}", peer.pid))),
        Err(error) => Err(failed(&error.to_string())),
    }
}

/// Returns the threads of a VM. `vcpus`: those of its vCPUs, if its monitor has named them.
fn threads(vm: &Found, vcpus: Option<Vec<u32>>) -> Result<VmThreads, Explanation> {
    let pid = vm.identity().tid;
    let gone = |error: sys::Error| Explanation::new(format!("the VM {} cannot be read: {error}", vm.name), "");
    let all = thread::threads(pid).map_err(gone)?;
    let named = |tid: &u32| Some((*tid, thread::status(*tid).ok()?.name));
    let names: Vec<(u32, String)> = all.iter().filter_map(named).collect();
    let vcpus = match vcpus {
        // The owner of the VM chooses what its monitor says.
        Some(vcpus) => vcpus.into_iter().filter(|tid| all.contains(tid)).collect(),
        None => {
            let mut vcpus: Vec<&(u32, String)> =
                names.iter().filter(|(_, name)| Role::of(name) == Role::Vcpu).collect();
            vcpus.sort_by_key(|(tid, name)| (number(name), *tid));
            vcpus.into_iter().map(|(tid, _)| *tid).collect::<Vec<u32>>()
        }
    };
    if vcpus.len() > usize::from(VCPUS_MAX) {
        let why = format!("{} has {} threads of vCPUs", vm.name, vcpus.len());
        return Err(Explanation::new(why, format!("use a VM with at most {VCPUS_MAX} vCPUs")));
    }
    if vcpus.is_empty() {
        let remedy = "start QEMU with -name NAME,debug-threads=on";
        return Err(Explanation::new(format!("the threads of the vCPUs of {} have no names", vm.name), remedy));
    }
    let is_vhost = |(tid, name): &&(u32, String)| *tid != pid && name.starts_with("vhost-");
    let carriers = std::iter::once(pid).chain(names.iter().filter(is_vhost).map(|(tid, _)| *tid));
    let carriers = carriers.take(CARRIERS_MOST);
    let identity = |tid: u32| Thread::open(tid).map(|thread| thread.identity()).map_err(gone);
    let all = |tids: Vec<u32>| tids.into_iter().map(identity).collect::<Result<Vec<Identity>, Explanation>>();
    Ok(VmThreads { vcpus: all(vcpus)?, carriers: all(carriers.collect())? })
}

/// Returns the first number in the name of a thread.
fn number(name: &str) -> Option<u32> {
    let digits = name.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?;
    digits.parse().ok()
}

/// Adds the port, whose other end is `end`. Returns what slows it down. After an error, the VM is as before if its monitor answers.
fn add(monitor: &mut Qmp, end: &UnixStream) -> Result<Option<Explanation>, Failed> {
    // A process that was killed has left its port.
    remove_port(monitor)?;
    let had_bus = has(monitor, BUS)?;
    let added = add_port(monitor, end);
    if added.is_err() {
        let _ = monitor.execute("closefd", &json!({ "fdname": PORT }));
        let _ = remove_port(monitor);
        if !had_bus {
            // The guest may never have seen it.
            let _ = remove_bus(monitor);
        }
    }
    added
}

fn add_port(monitor: &mut Qmp, end: &UnixStream) -> Result<Option<Explanation>, Failed> {
    monitor.pass(PORT, end.as_fd())?;
    let address = json!({ "type": "fd", "data": { "str": PORT } });
    let backend = json!({ "type": "socket", "data": { "addr": address, "server": false } });
    monitor.execute("chardev-add", &json!({ "id": PORT, "backend": backend }))?;
    let mut port = json!({ "driver": "virtserialport", "id": PORT, "chardev": PORT, "name": NAME });
    match add_bus(monitor) {
        Ok(()) => {
            port["bus"] = json!(format!("{BUS}.0"));
            monitor.execute("device_add", &port).map(|_| None)
        }
        // The VM may have another bus.
        Err(why) => match monitor.execute("device_add", &port) {
            Ok(_) => Ok(Some(Explanation::new(
                format!("hints are late on a busy host: the VM has no place for a bus without ioeventfd ({why})"),
                PLACE,
            ))),
            Err(_) => Err(why),
        },
    }
}

/// Adds a bus for the port: at the root, or behind a free root port.
fn add_bus(monitor: &mut Qmp) -> Result<(), Failed> {
    if has(monitor, BUS)? {
        return Ok(());
    }
    let mut device = json!({ "driver": "virtio-serial-pci", "id": BUS, "ioeventfd": false });
    let refused = match monitor.execute("device_add", &device) {
        Ok(_) => return Ok(()),
        Err(refused) => refused,
    };
    for port in free_ports(monitor) {
        device["bus"] = json!(port);
        if monitor.execute("device_add", &device).is_ok() {
            return Ok(());
        }
    }
    Err(refused)
}

/// Returns the ids of the PCI bridges without devices.
fn free_ports(monitor: &mut Qmp) -> Vec<String> {
    let Ok(buses) = monitor.execute("query-pci", &Value::Null) else { return Vec::new() };
    let devices = buses.as_array().into_iter().flatten().filter_map(|bus| bus["devices"].as_array()).flatten();
    let is_free = |device: &&Value| {
        let behind = device["pci_bridge"].get("devices").and_then(Value::as_array);
        device.get("pci_bridge").is_some() && behind.is_none_or(Vec::is_empty)
    };
    let ids = devices.filter(is_free).filter_map(|device| device["qdev_id"].as_str());
    ids.filter(|id| !id.is_empty()).map(str::to_string).collect()
}

/// Whether QEMU has a device with this id.
fn has(monitor: &mut Qmp, id: &str) -> Result<bool, Failed> {
    let found = monitor.execute("qom-list", &json!({ "path": "/machine/peripheral" }))?;
    Ok(found.as_array().is_some_and(|all| all.iter().any(|device| device["name"] == id)))
}

/// Removes the port and its character device, if they exist.
fn remove_port(monitor: &mut Qmp) -> Result<(), Failed> {
    let id = json!({ "id": PORT });
    if has(monitor, PORT)? {
        monitor.execute("device_del", &id)?;
    }
    for _ in 0..RELEASES {
        match monitor.execute("chardev-remove", &id) {
            // QEMU frees the port a little later (RCU).
            Err(Failed::Refused(reason)) if reason.contains("busy") => clock::sleep(RELEASE),
            Err(Failed::Refused(reason)) if reason.contains("not found") => return Ok(()),
            removed => return removed.map(drop),
        }
    }
    Err(Failed::Refused(format!("its character device {PORT} is busy")))
}

/// Removes the bus, which takes the cooperation of the guest.
fn remove_bus(monitor: &mut Qmp) -> Result<(), Failed> {
    if !has(monitor, BUS)? {
        return Ok(());
    }
    monitor.execute("device_del", &json!({ "id": BUS }))?;
    if !has(monitor, BUS)? {
        return Ok(());
    }
    match monitor.hear("DEVICE_DELETED", ("device", BUS), UNPLUG) {
        Err(Failed::Silent(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err(Failed::Refused(format!("the guest does not release it within {UNPLUG}")))
        }
        heard => heard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitors::tests::Qemu;
    use std::io::Read;

    /// Starts a VM with a monitor at `socket`, and waits for the monitor. `None`: QEMU is not installed.
    fn start(socket: &Path, options: &[&str]) -> Option<Qemu> {
        let qemu = Qemu::start(socket, &[&["-machine", "q35"], options].concat())?;
        let end = clock::now() + Nanos::s(20);
        while Qmp::connect(socket, qemu.pid(), REPLY).is_err() {
            assert!(clock::now() < end, "the monitor answers");
            clock::sleep(Nanos::ms(20));
        }
        Some(qemu)
    }

    #[test]
    fn a_port_is_attached_to_a_running_vm_again_after_a_kill_and_detached() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("qmp.sock");
        let Some(qemu) = start(&socket, &["-device", "virtio-serial-pci"]) else { return };
        let pid = qemu.pid();
        let mut first = HintPort::attach(&pid.to_string(), None).unwrap();
        assert_eq!((first.threads.vcpus.len(), first.threads.carriers.len()), (2, 1), "{first:?}");
        assert_eq!(first.threads.carriers[0].tid, pid);
        let warning = first.warning.take().expect("the bus has ioeventfd");
        assert!(warning.reason.contains("hotplug"), "{warning:?}");
        let refused = HintPort::attach(&pid.to_string(), None).unwrap_err();
        assert!(refused.reason.starts_with("another process has the port"), "{refused:?}");
        // The first process is killed, which ends its lock, and the second attaches.
        let HintPort { stream: mut first, observers: lock, .. } = first;
        drop(lock);
        let second = HintPort::attach(&pid.to_string(), None).unwrap();
        assert_eq!(first.read(&mut [0]).unwrap(), 0, "QEMU has closed the port of the first");
        let mut monitor = Qmp::connect(&socket, pid, REPLY).unwrap();
        assert!(has(&mut monitor, PORT).unwrap() && !has(&mut monitor, BUS).unwrap());
        drop(monitor);
        second.detach().unwrap();
        let mut monitor = Qmp::connect(&socket, pid, REPLY).unwrap();
        assert!(!has(&mut monitor, PORT).unwrap(), "the port is detached");
        let devices = monitor.execute("query-chardev", &Value::Null).unwrap().to_string();
        assert!(!devices.contains(PORT), "{devices}");
        drop((monitor, qemu));
        let refused = HintPort::attach(&pid.to_string(), None).unwrap_err();
        assert!(refused.reason.starts_with("no VM with the id, name or pid"), "{refused:?}");
    }

    #[test]
    fn a_free_root_port_takes_a_bus_without_ioeventfd_and_a_vm_without_a_place_is_as_before() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("qmp.sock");
        let Some(qemu) = start(&socket, &["-device", "pcie-root-port,id=free,slot=1"]) else { return };
        let port = HintPort::attach(&qemu.pid().to_string(), None).unwrap();
        assert!(port.warning.is_none(), "{port:?}");
        let mut monitor = Qmp::connect(&socket, qemu.pid(), REPLY).unwrap();
        assert!(has(&mut monitor, PORT).unwrap() && has(&mut monitor, BUS).unwrap());
        drop((monitor, port, qemu));
        let Some(qemu) = start(&socket, &[]) else { return };
        let refused = HintPort::attach(&qemu.pid().to_string(), None).unwrap_err();
        assert!(refused.reason.contains("QEMU refuses") && refused.remedy.contains("pcie-root-port"), "{refused:?}");
        let mut monitor = Qmp::connect(&socket, qemu.pid(), REPLY).unwrap();
        assert!(!has(&mut monitor, PORT).unwrap() && !has(&mut monitor, BUS).unwrap());
    }

    #[test]
    fn vcpus_are_in_the_order_of_their_numbers() {
        assert_eq!(["CPU 11/KVM", "vcpu2", "ALL CPUs/TCG"].map(number), [Some(11), Some(2), None]);
    }
}
