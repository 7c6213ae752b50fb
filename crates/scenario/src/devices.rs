//! Connections between the machines of a scenario: a network, disks, and the drivers that handle packets and requests.

use input::source::Span;
use sched::{CpuSet, Nanos};
use sim::program::{Length, Notify};
use workloads::mean;
use workloads::network::Device;

/// Name of the machine for clients and peers outside the scenario's machines.
pub const OUTSIDE: &str = "outside";

/// The settings of `[network]`.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkSpec {
    /// One-way latency between two machines. With `local`: between two machines that are not on the same host.
    pub latency: Length,
    /// One-way latency between two machines of one host. `None`: equal to `latency`.
    pub local: Option<Length>,
    /// Bandwidth of each link, in each direction. With one host, every machine of the scenario has a link. With several
    /// hosts, every host has a link. Unit: bytes per second. `None`: unlimited.
    pub bandwidth: Option<u64>,
    /// Maximum size of a packet. Unit: bytes.
    pub packet: u32,
    /// Maximum number of packets that wait in front of a link; further packets are dropped. `None`: unlimited.
    pub room: Option<u32>,
    /// Driver that handles the packets of VMs.
    pub drivers: Drivers,
    /// CPU time of a guest's kernel per received packet.
    pub received: Length,
    /// Maximum number of packets that wait for the guest's kernel; further packets are dropped.
    pub ring: u32,
    /// Span of the network in the file.
    pub place: Span,
}

impl NetworkSpec {
    /// Returns the time until each of several equally fast nodes has received `bytes` from every other node. Also
    /// returns the time that the busiest link needs for all data. CPU time is excluded, and random latencies count with
    /// their mean. `plugs`: the link of each node.
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
        // Links forward packet by packet, so the receiver's link finishes one packet after the sender's link.
        let last = bytes.min(self.packet.into());
        let alone = passing(bytes.saturating_mul(own)) + mean(self.latency) + passing(last);
        (alone, passing(bytes.saturating_mul(most(&|plug| on(plug) * away(plug)))))
    }
}

/// The settings of `[disk]`. Each host has one disk, which its machines share.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskSpec {
    /// Service time per request, independent of the request's size, such as seek and rotation time.
    pub service: Length,
    /// Bandwidth of the disk. Unit: bytes per second. `None`: unlimited.
    pub bandwidth: Option<u64>,
    /// Driver that handles the requests of VMs.
    pub drivers: Drivers,
    /// Span of the disk in the file.
    pub place: Span,
}

/// The driver that handles the packets or requests of VMs.
#[derive(Clone, PartialEq, Debug)]
pub struct Drivers {
    /// Location of the driver.
    pub way: Way,
    /// CPU time per event. Constant if the driver is in the hypervisor.
    pub event: Length,
    /// Whether every arriving packet or request notifies the driver, or only one that arrives while the driver waits.
    pub notify: Notify,
    /// Delay of a notification, during which further events may arrive (coalescing).
    pub delay: Nanos,
    /// Whether the driver notifies guests once per pass over all waiting packets. Otherwise, the driver notifies a
    /// guest of each packet immediately.
    pub passes: bool,
    /// CPU time that the VM needs to notify the driver, excluding the call to its host.
    pub kick: Nanos,
}

/// The location of a device's driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// One host thread per VM, for this device only.
    Vhost,
    /// The main thread of each VM's emulator, for all devices that it drives.
    Emulator,
    /// The kernel of a VM on the same host (Xen's split drivers).
    Split {
        /// Names of the driver domains, at most one per host. Each domain has a guest.
        domains: Vec<String>,
        /// vCPUs of the driver domain on which the driver runs. The domain has at least one of them.
        affinity: CpuSet,
    },
    /// The hypervisor, which handles each event in an interrupt.
    Hypervisor,
    /// No driver outside the VM. The device belongs to the VM.
    Direct,
}

/// Returns the name of the host's thread that drives `device` for a VM. `None`: no thread of the host drives the
/// device.
#[must_use]
pub fn thread_of(vm: &str, way: &Way, device: Device) -> Option<String> {
    Some(match (way, device) {
        (Way::Emulator, _) => format!("emulator-{vm}"),
        (Way::Vhost, Device::Network) => format!("vhost-{vm}"),
        (Way::Vhost, Device::Disk | Device::Drive) => format!("iothread-{vm}"),
        (Way::Split { .. } | Way::Hypervisor | Way::Direct, _) => return None,
    })
}

/// Returns the name of the kernel thread that drives `device` in a driver domain.
#[must_use]
pub fn backend_of(device: Device) -> &'static str {
    match device {
        Device::Network => "netback",
        Device::Disk | Device::Drive => "blkback",
    }
}

/// Name of the kernel thread that receives packets in a guest.
pub const RECEIVER: &str = "network";
