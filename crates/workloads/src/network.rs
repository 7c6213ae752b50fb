//! What an application uses beyond its own machine: a network and disks, and its parts elsewhere.
//!
//! An application that uses them is a [`Plan`]: what runs on its own machine, its [`Peer`]s elsewhere, and the [`Link`]s between their
//! ports and inboxes.

use sim::Application;
use sim::program::ObjectId;

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Device {
    /// The network.
    Network,
    /// The disk.
    Disk,
    /// A drive that no other application uses. The driver of the disk drives it, too.
    Drive,
}

/// Where a part of an application runs that is not on the application's own machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// Outside, where each task has a CPU to itself.
    Outside,
    /// In the guest of a VM.
    Vm(String),
}

/// A part of an application on another machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// Where.
    pub at: At,
    /// What runs there.
    pub application: Application,
}

/// A port or an inbox of one part of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Which part: 0 is on its own machine, then its peers.
    pub part: usize,
    /// Which of its objects.
    pub object: ObjectId,
}

/// A way for data from a port to an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The port.
    pub from: End,
    /// The inbox.
    pub to: End,
    /// Over which device.
    pub over: Device,
    /// The receiver acknowledges every so many full packets; `None`: the sender learns at once what was read.
    pub acks: Option<u32>,
    /// Whether what was dropped is sent again.
    pub reliable: bool,
}

/// An application, wherever its parts run.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Plan {
    /// What runs on its own machine.
    pub application: Application,
    /// What runs elsewhere.
    pub peers: Vec<Peer>,
    /// What connects them.
    pub links: Vec<Link>,
    /// Which part its metric is about.
    pub measured: usize,
    /// Where all parts send to each other in every round: how much each sends to each other. Unit: bytes.
    pub exchange: Option<u64>,
}

impl Plan {
    /// One on its own machine alone.
    #[must_use]
    pub fn alone(application: Application) -> Plan {
        Plan { application, ..Plan::default() }
    }

    /// Connects a port of one part with an inbox of another over the network, by packets that are sent again where they are lost.
    pub fn link(&mut self, name: impl Into<String>, from: (usize, ObjectId), to: (usize, ObjectId)) -> &mut Link {
        let end = |(part, object)| End { part, object };
        let link =
            Link { name: name.into(), from: end(from), to: end(to), over: Device::Network, acks: None, reliable: true };
        self.links.push(link);
        self.links.last_mut().expect("just added")
    }

    /// A disk for tasks of its own machine: what is sent by the port comes back in the inbox when the request is done.
    pub fn disk(&mut self, name: impl Into<String>, port: ObjectId, inbox: ObjectId) {
        self.link(name, (0, port), (0, inbox)).over = Device::Disk;
    }

    /// Whether it uses `device`.
    #[must_use]
    pub fn uses(&self, device: Device) -> bool {
        self.links.iter().any(|link| link.over == device)
    }
}

/// How a workload of a scenario reaches beyond its machine.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reach {
    /// What runs elsewhere, each task with the application's name before its own.
    pub peers: Vec<Peer>,
    /// What connects them.
    pub links: Vec<Link>,
    /// Which part its metric is about: 0 is on its own machine, then its peers.
    pub measured: usize,
    /// Where all parts send to each other in every round: how much each sends to each other. Unit: bytes.
    pub exchange: Option<u64>,
}

impl Reach {
    /// Whether it uses `device`.
    #[must_use]
    pub fn uses(&self, device: Device) -> bool {
        self.links.iter().any(|link| link.over == device)
    }

    /// Whether what drives `device` handles something for it.
    #[must_use]
    pub fn passes(&self, device: Device) -> bool {
        self.uses(device) || device == Device::Disk && self.uses(Device::Drive)
    }

    /// Whether its metric is about what runs outside.
    #[must_use]
    pub fn is_measured_outside(&self) -> bool {
        self.peer_measured().is_some_and(|peer| peer.at == At::Outside)
    }

    fn peer_measured(&self) -> Option<&Peer> {
        self.peers.get(self.measured.checked_sub(1)?)
    }
}
