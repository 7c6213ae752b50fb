//! [`Vm`]: a virtual machine, or a process that is treated like one.

use crate::{Desired, Histogram};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The virtual machines of the host, by name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Vms {
    /// The running VMs, and those with a desired state that do not run.
    pub vms: Vec<Vm>,
}

/// The VMs that have changed since the last message of a stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LiveVms {
    /// Time of the message. Unit: ms since 1970-01-01 00:00 UTC.
    pub at_ms: u64,
    /// The VMs that have changed. In the first message of a stream: all VMs.
    pub vms: Vec<Vm>,
    /// Ids of the VMs that neither run nor have a desired state any more.
    pub gone: Vec<String>,
}

/// A virtual machine, or a process that is treated like one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Vm {
    /// Id in the interface: the UUID; for a VM without a UUID, its name; for a process, `pid:NUMBER`.
    pub id: String,
    /// Name of the VM, or of the process.
    pub name: String,
    /// Program of the VM.
    pub kind: Kind,
    /// The process. Absent: the VM does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// Tids of the threads of vCPUs whose names do not say so, as the monitor of the VM says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vcpus: Vec<u32>,
    /// Number of changes of the desired state. The `ETag` of the VM.
    pub generation: u64,
    /// The desired state.
    pub desired: Desired,
    /// Where the desired state comes from. Absent: nothing is desired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The observed state.
    pub state: State,
    /// Measurements of the promise.
    pub measured: Measured,
}

/// Where the desired state of a VM comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A client has set it.
    Client,
    /// A label file of the operator.
    LabelFile,
    /// The metadata of the VM's domain of libvirt.
    Libvirt,
    /// The scenario of a simulated host.
    Scenario,
}

impl Source {
    /// Returns the source as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Source::Client => "client",
            Source::LabelFile => "label-file",
            Source::Libvirt => "libvirt",
            Source::Scenario => "scenario",
        }
    }
}

/// The program that runs a VM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// QEMU.
    Qemu,
    /// Firecracker.
    Firecracker,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// No known VM: a process with its descendants.
    Process,
    /// None: the VM is one of a simulated host.
    Simulated,
}

impl Kind {
    /// Returns the kind as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Qemu => "qemu",
            Kind::Firecracker => "firecracker",
            Kind::CloudHypervisor => "cloud-hypervisor",
            Kind::Process => "process",
            Kind::Simulated => "simulated",
        }
    }
}

/// The process of a VM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, ToSchema)]
pub struct Process {
    /// Pid of the process.
    pub pid: u32,
    /// Start time of the process, in clock ticks since the boot of the host.
    pub start_time: u64,
    /// Real user ID of the process.
    pub user: u32,
}

/// The observed state of a VM.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct State {
    /// Whether the desired state is in force.
    pub phase: Phase,
    /// What keeps the promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// Reason why the desired state is not in force, or why the VM does not have what it carries since the latest change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What would put it in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Whether the desired state of a VM is in force.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nothing is desired.
    None,
    /// The desired state is in force, and the promise is kept.
    Kept,
    /// The desired state is in force, and more than a quarter of the latest periods were short.
    NotKept,
    /// The desired state cannot be in force. The service tries again when another promise ends.
    Refused,
    /// The VM is paused: nothing is in force.
    Paused,
    /// The VM does not run.
    Absent,
    /// The service has no core at present.
    Waiting,
}

impl Phase {
    /// Returns the phase as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Phase::None => "none",
            Phase::Kept => "kept",
            Phase::NotKept => "not-kept",
            Phase::Refused => "refused",
            Phase::Paused => "paused",
            Phase::Absent => "absent",
            Phase::Waiting => "waiting",
        }
    }
}

/// Measurements of a promise. Of a VM: since the promise was last put in force, summed over its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct Measured {
    /// Number of ended periods.
    pub periods: u64,
    /// Number of these periods in which the VM was runnable throughout.
    pub judged: u64,
    /// Number of judged periods in which the VM received less CPU time than was due.
    pub missed: u64,
    /// CPU time that was due in all periods. Unit: ns.
    pub due_ns: u64,
    /// CPU time that was delivered in all periods. Unit: ns.
    pub delivered_ns: u64,
    /// CPU time that was missing at the ends of the judged periods. Unit: ns.
    #[serde(default)]
    pub short_ns: u64,
    /// Numbers of judged periods by the CPU time that was missing at their end.
    #[serde(default)]
    pub shortfalls: Histogram,
    /// Number of events that were lost, because the service did not read them in time.
    pub lost: u64,
}

impl Measured {
    /// Counts a period, in which `delivered_ns` of `due_ns` were delivered. It is judged if the VM was runnable throughout.
    pub fn count(&mut self, due_ns: u64, delivered_ns: u64, throughout: bool) {
        self.periods += 1;
        self.due_ns += due_ns;
        self.delivered_ns += delivered_ns;
        if throughout {
            self.judged += 1;
            self.missed += u64::from(delivered_ns < due_ns);
            let short_ns = due_ns.saturating_sub(delivered_ns);
            self.short_ns += short_ns;
            self.shortfalls.record(short_ns);
        }
    }

    /// Returns the measurements since `before`, an earlier state of them.
    #[must_use]
    pub fn since(&self, before: &Measured) -> Measured {
        Measured {
            periods: self.periods.saturating_sub(before.periods),
            judged: self.judged.saturating_sub(before.judged),
            missed: self.missed.saturating_sub(before.missed),
            due_ns: self.due_ns.saturating_sub(before.due_ns),
            delivered_ns: self.delivered_ns.saturating_sub(before.delivered_ns),
            short_ns: self.short_ns.saturating_sub(before.short_ns),
            shortfalls: self.shortfalls.since(&before.shortfalls),
            lost: self.lost.saturating_sub(before.lost),
        }
    }
}
