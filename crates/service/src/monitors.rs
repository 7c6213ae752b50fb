//! [`Monitors`]: asks VMs of QEMU for the threads of their vCPUs, by QMP.
//!
//! QEMU names these threads only with `-name NAME,debug-threads=on`, which libvirt sets. Without names, its monitor knows
//! them. A monitor serves one client at a time, so it is asked once, and left at once; while another program uses it, the
//! VM stays as it is. The monitors of libvirt belong to libvirt.

use crate::inventory::Found;
use crate::qmp::Qmp;
use daemon::dispatch::Role;
use sched::{Instant, Nanos};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use sys::clock;
use sys::thread::{self, Identity, Thread};

/// Maximum time to wait for a reply.
const REPLY: Nanos = Nanos::ms(300);
/// Pause before the first and between further attempts, and the time after which the VM is asked no more. A monitor
/// answers when QEMU has started.
const PAUSE: Nanos = Nanos::ms(200);
const PATIENCE: Nanos = Nanos::s(10);

/// The monitor of a VM.
#[derive(Debug)]
struct Monitor {
    id: String,
    /// The first thread of the VM's process.
    leader: Identity,
    socket: PathBuf,
    next: Instant,
    /// Instant of the last attempt.
    last: Instant,
}

/// The threads of the vCPUs of a VM, as its monitor says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Vcpus {
    /// Id of the VM.
    pub(crate) id: String,
    /// The first thread of its process.
    pub(crate) leader: Identity,
    /// The tids.
    pub(crate) tids: Vec<u32>,
}

/// Asks the monitors of VMs, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Monitors {
    asked: Sender<Monitor>,
    answers: Receiver<Vcpus>,
}

impl Monitors {
    /// Starts the thread. It ends with this value. Without a thread, nothing is asked.
    pub(crate) fn start() -> Monitors {
        let ((asked, monitors), (sender, answers)) = (channel(), channel());
        let _ = std::thread::Builder::new().name("monitors".to_string()).spawn(move || serve(&monitors, &sender));
        Monitors { asked, answers }
    }

    /// Asks the monitor of `vm`, if it has one that the service can find.
    pub(crate) fn ask(&self, vm: &Found) {
        let Some(socket) = vm.monitor.clone() else { return };
        let next = clock::now().saturating_add(PAUSE);
        let monitor =
            Monitor { id: vm.id.clone(), leader: vm.identity(), socket, next, last: next.saturating_add(PATIENCE) };
        // Without a thread, nothing is asked.
        let _ = self.asked.send(monitor);
    }

    /// Returns the answers since the last call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Vcpus> {
        self.answers.try_iter()
    }
}

/// Asks the monitors until no request can come any more.
fn serve(asked: &Receiver<Monitor>, answers: &Sender<Vcpus>) {
    let mut open: Vec<Monitor> = Vec::new();
    loop {
        let next = open.iter().map(|monitor| monitor.next).min();
        let left = next.map_or(Nanos::s(3_600), |next| next.saturating_since(clock::now()));
        match asked.recv_timeout(Duration::from_nanos(left.as_ns())) {
            Ok(monitor) => open.push(monitor),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock::now();
        for mut monitor in open.extract_if(.., |monitor| monitor.next <= now).collect::<Vec<_>>() {
            match vcpus(&monitor) {
                Some(Ok(tids)) => {
                    let answer = Vcpus { id: monitor.id, leader: monitor.leader, tids };
                    if answers.send(answer).is_err() {
                        return;
                    }
                }
                Some(Err(_)) if now < monitor.last => {
                    monitor.next = now.saturating_add(PAUSE);
                    open.push(monitor);
                }
                // The threads have names, the VM has ended, or its monitor does not answer.
                _ => {}
            }
        }
    }
}

/// Returns the threads of the vCPUs of a VM; `None` if they have names, or the VM has ended.
fn vcpus(monitor: &Monitor) -> Option<io::Result<Vec<u32>>> {
    let pid = monitor.leader.tid;
    Thread::open_as(monitor.leader).ok()?;
    let threads = thread::threads(pid).ok()?;
    let has_name = |tid: &u32| thread::status(*tid).is_ok_and(|status| Role::of(&status.name) == Role::Vcpu);
    if threads.iter().any(has_name) {
        return None;
    }
    // The owner of the VM chooses what its monitor says.
    Some(query(&monitor.socket, pid).map(|tids| tids.into_iter().filter(|tid| threads.contains(tid)).collect()))
}

/// Asks the monitor at `socket` of process `pid`.
fn query(socket: &Path, pid: u32) -> io::Result<Vec<u32>> {
    let mut monitor = Qmp::connect(socket, pid, REPLY)?;
    monitor.vcpus().map_err(|failed| io::Error::other(failed.to_string()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::inventory::tests::found;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command, Stdio};

    /// A VM with two vCPUs whose threads have no names, and without a guest. Dropping this value ends it.
    pub(crate) struct Qemu(Child);

    impl Qemu {
        /// Starts a VM with a monitor at `socket`. `None`: QEMU is not installed.
        pub(crate) fn start(socket: &Path, options: &[&str]) -> Option<Qemu> {
            let mut command = Command::new("qemu-system-x86_64");
            command.args("-accel tcg,thread=multi -smp 2 -m 16 -display none -nodefaults -S".split(' ')).args(options);
            command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", socket.display()));
            match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
                Ok(qemu) => Some(Qemu(qemu)),
                Err(error) => {
                    eprintln!("SKIPPED: qemu-system-x86_64: {error}");
                    None
                }
            }
        }

        pub(crate) fn pid(&self) -> u32 {
            self.0.id()
        }
    }

    impl Drop for Qemu {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn of(process: u32, socket: &Path) -> Found {
        let mut vm = found("vm", 0);
        vm.thread = Thread::open(process).unwrap();
        vm.monitor = Some(socket.to_path_buf());
        vm
    }

    fn answer(monitors: &Monitors) -> Option<Vcpus> {
        let end = clock::now() + Nanos::s(20);
        while clock::now() < end {
            if let Some(answer) = monitors.answers().next() {
                return Some(answer);
            }
            clock::sleep(Nanos::ms(20));
        }
        None
    }

    #[test]
    fn a_monitor_names_the_threads_of_vcpus_that_have_no_names() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("qmp.sock");
        let Some(qemu) = Qemu::start(&socket, &[]) else { return };
        let vm = of(qemu.pid(), &socket);
        let monitors = Monitors::start();
        monitors.ask(&vm);
        let answer = answer(&monitors).expect("the monitor answers");
        assert_eq!((answer.id.as_str(), answer.leader, answer.tids.len()), ("vm", vm.identity(), 2), "{answer:?}");
        let threads = thread::threads(qemu.pid()).unwrap();
        assert!(answer.tids.iter().all(|tid| threads.contains(tid) && *tid != qemu.pid()), "{answer:?} {threads:?}");
        // The monitor serves the next client.
        assert_eq!(query(&socket, qemu.pid()).unwrap(), answer.tids);
    }

    #[test]
    fn a_socket_of_another_process_and_a_monitor_that_says_nothing_are_left() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("other.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let error = query(&socket, std::process::id() + 1).unwrap_err().to_string();
        assert_eq!(error, "the socket is of another process");
        let begin = clock::now();
        assert!(query(&socket, std::process::id()).is_err());
        assert!(clock::now().since(begin) < Nanos::s(5), "the service does not wait for a monitor");
        drop(listener);
        assert!(query(&socket, std::process::id()).is_err());
    }
}
