//! The resources of an application beyond its own machine: a network, disks, and parts on other machines.
//!
//! An application with such resources is a [`Plan`]: the tasks on its own machine, its [`Peer`]s on other machines, and
//! the [`Link`]s between their ports and inboxes.

use sim::Application;
use sim::program::ObjectId;

/// A device that an application uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Device {
    /// The network.
    Network,
    /// The disk.
    Disk,
    /// A drive that no other application uses. The disk's driver also handles this drive.
    Drive,
}

/// The machine of a part that does not run on the application's own machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// Outside, where each task has its own CPU.
    Outside,
    /// In the guest of a VM.
    Vm(String),
}

/// A part of an application on another machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// Machine of the part.
    pub at: At,
    /// Application of the part.
    pub application: Application,
}

/// A port or an inbox of one part of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Number of the part: 0 for the part on the application's own machine, and from 1 for the peers.
    pub part: usize,
    /// Object of the part.
    pub object: ObjectId,
}

/// A connection for data from a port to an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// Port that sends.
    pub from: End,
    /// Inbox that receives.
    pub to: End,
    /// Device that carries the data.
    pub over: Device,
    /// Number of full packets per acknowledgement. `None`: the sender is notified immediately when data is read.
    pub acks: Option<u32>,
    /// Whether the sender retransmits dropped data.
    pub reliable: bool,
}

/// An application with all its parts.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Plan {
    /// Tasks on the application's own machine.
    pub application: Application,
    /// Parts on other machines.
    pub peers: Vec<Peer>,
    /// Links between the parts.
    pub links: Vec<Link>,
    /// Number of the part that the metric measures.
    pub measured: usize,
    /// Size of a message, if every part sends a message to every other part in each round. Unit: bytes.
    pub exchange: Option<u64>,
}

impl Plan {
    /// Returns the plan of an application that runs only on its own machine.
    #[must_use]
    pub fn alone(application: Application) -> Plan {
        Plan { application, ..Plan::default() }
    }

    /// Connects a port of one part with an inbox of another over the network. Lost packets are retransmitted.
    pub fn link(&mut self, name: impl Into<String>, from: (usize, ObjectId), to: (usize, ObjectId)) -> &mut Link {
        let end = |(part, object)| End { part, object };
        let link =
            Link { name: name.into(), from: end(from), to: end(to), over: Device::Network, acks: None, reliable: true };
        self.links.push(link);
        self.links.last_mut().expect("just added")
    }

    /// Connects tasks on the application's own machine to a disk. When a request sent through `port` completes, its
    /// data arrives in `inbox`.
    pub fn disk(&mut self, name: impl Into<String>, port: ObjectId, inbox: ObjectId) {
        self.link(name, (0, port), (0, inbox)).over = Device::Disk;
    }

    /// Returns whether the plan uses `device`.
    #[must_use]
    pub fn uses(&self, device: Device) -> bool {
        self.links.iter().any(|link| link.over == device)
    }
}

/// The parts of a workload on other machines, and the links between its parts.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reach {
    /// Parts on other machines. The name of each task begins with the name of the application.
    pub peers: Vec<Peer>,
    /// Links between the parts.
    pub links: Vec<Link>,
    /// Number of the part that the metric measures: 0 for the part on the application's own machine, and from 1 for the
    /// peers.
    pub measured: usize,
    /// Size of a message, if every part sends a message to every other part in each round. Unit: bytes.
    pub exchange: Option<u64>,
}

impl Reach {
    /// Returns whether the workload uses `device`.
    #[must_use]
    pub fn uses(&self, device: Device) -> bool {
        self.links.iter().any(|link| link.over == device)
    }

    /// Returns whether the driver of `device` handles data of the workload.
    #[must_use]
    pub fn passes(&self, device: Device) -> bool {
        self.uses(device) || device == Device::Disk && self.uses(Device::Drive)
    }

    /// Returns whether the metric measures a part outside.
    #[must_use]
    pub fn is_measured_outside(&self) -> bool {
        self.peer_measured().is_some_and(|peer| peer.at == At::Outside)
    }

    fn peer_measured(&self) -> Option<&Peer> {
        self.peers.get(self.measured.checked_sub(1)?)
    }
}
