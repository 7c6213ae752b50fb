//! The connections between the machines of a scenario: a network, a disk, and the drivers that handle packets and requests.

use input::source::Span;
use sched::Nanos;
use sim::program::{Length, Notify};
use workloads::mean;
use workloads::network::Device;

/// The name of the machine on which everything runs that is none of the scenario's machines: clients, peers.
pub const OUTSIDE: &str = "outside";

/// `[network]`.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkSpec {
    /// From one machine to another, one way.
    pub latency: Length,
    /// The same between machines of one host; `None`: as between others.
    pub local: Option<Length>,
    /// What the link of each machine of the scenario carries, each way; with several hosts, that of each host. Unit: bytes in a second. `None`: any amount.
    pub bandwidth: Option<u64>,
    /// The most that a packet carries. Unit: bytes.
    pub packet: u32,
    /// Packets that may wait before a link; more are dropped. `None`: any number.
    pub room: Option<u32>,
    /// The driver that handles the packets of VMs.
    pub drivers: Drivers,
    /// CPU time of a guest's kernel for each packet that it receives.
    pub received: Length,
    /// Packets that may wait for that; more are dropped.
    pub ring: u32,
    /// Where it is.
    pub place: Span,
}

impl NetworkSpec {
    /// The time until each of several equally fast nodes has `bytes` from each other node, and the time that the busiest link needs for all
    /// of it. CPU time is left out, and random latencies count with their mean. `plugs`: the link of each node.
    #[must_use]
    pub fn exchange(&self, plugs: &[usize], bytes: u64) -> (Nanos, Nanos) {
        let passing = |bytes| self.bandwidth.map_or(Nanos::ZERO, |rate| Nanos::s(1).scale(bytes, rate));
        let on = |plug: usize| plugs.iter().filter(|&&other| other == plug).count() as u64;
        let away = |plug: usize| plugs.len() as u64 - on(plug);
        let most = |of: &dyn Fn(usize) -> u64| plugs.iter().map(|&plug| of(plug)).max().unwrap_or(0);
        let own = most(&away);
        if own == 0 {
            return (mean(self.local.unwrap_or(self.latency)), Nanos::ZERO);
        }
        // The links pass packet by packet, so the second one is behind by one.
        let last = bytes.min(self.packet.into());
        let alone = passing(bytes.saturating_mul(own)) + mean(self.latency) + passing(last);
        (alone, passing(bytes.saturating_mul(most(&|plug| on(plug) * away(plug)))))
    }
}

/// `[disk]`: one, which all on a host share.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskSpec {
    /// Seek and rotation of each request.
    pub service: Length,
    /// What it transfers. Unit: bytes in a second. `None`: any amount at once.
    pub bandwidth: Option<u64>,
    /// The driver that handles the requests of VMs.
    pub drivers: Drivers,
    /// Where it is.
    pub place: Span,
}

/// The driver that handles the packets or requests of VMs.
#[derive(Clone, PartialEq, Debug)]
pub struct Drivers {
    /// Where the driver runs.
    pub way: Way,
    /// CPU time of each event. In the hypervisor: always the same.
    pub event: Length,
    /// When the driver is notified.
    pub notify: Notify,
    /// The delay of the notification, in which more may come (coalescing).
    pub delay: Nanos,
    /// Whether it notifies guests once per pass over all waiting packets, rather than of each packet at once.
    pub passes: bool,
    /// CPU time of the VM to notify the driver, beside the call to its host.
    pub kick: Nanos,
}

/// One way to drive a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// A thread of the host for each VM, for this device alone.
    Vhost,
    /// The main thread of each VM's emulator, for all devices that it drives.
    Emulator,
    /// The kernel of a VM on the same host (Xen's split drivers).
    Split {
        /// Their names, at most one on each host. Each has a guest.
        domains: Vec<String>,
    },
    /// The hypervisor, by interrupts.
    Hypervisor,
    /// No driver outside the VM: the device is the VM's own.
    Direct,
}

/// The name of the host's thread that drives `device` for a VM; `None`: no such thread.
#[must_use]
pub fn thread_of(vm: &str, way: &Way, device: Device) -> Option<String> {
    Some(match (way, device) {
        (Way::Emulator, _) => format!("emulator-{vm}"),
        (Way::Vhost, Device::Network) => format!("vhost-{vm}"),
        (Way::Vhost, Device::Disk | Device::Drive) => format!("iothread-{vm}"),
        (Way::Split { .. } | Way::Hypervisor | Way::Direct, _) => return None,
    })
}

/// The name of the kernel thread that drives `device` in a driver domain.
#[must_use]
pub fn backend_of(device: Device) -> &'static str {
    match device {
        Device::Network => "netback",
        Device::Disk | Device::Drive => "blkback",
    }
}

/// The name of the kernel thread that receives packets in a guest.
pub const RECEIVER: &str = "network";
