//! [`Service`]: the requests of `tactus top`, and [`Sample`]: one reading of everything that is shown.

use api::{Caller, Client, Desired, Error, Host, Usage, Usages, Vm};

/// Reason of a change by `tactus top`, for the audit log.
const REASON: &str = "tactus top";

/// A service of VMs: the interface of a host, or a simulation of it.
pub(super) trait Service {
    /// Reads the host, the VMs and their CPU time.
    fn sample(&self) -> Result<Sample, Error>;
    /// Returns the VM with this id.
    fn show(&self, id: &str) -> Result<Vm, Error>;
    /// Returns the VM as it would be after [`set`](Service::set). Nothing changes.
    fn would_set(&self, id: &str, generation: u64, desired: &Desired) -> Result<Vm, Error>;
    /// Sets the desired state of the VM with this id, if it still has `generation`. Returns the VM.
    fn set(&self, id: &str, generation: u64, desired: &Desired) -> Result<Vm, Error>;
}

impl Service for Client {
    fn sample(&self) -> Result<Sample, Error> {
        let (host, caller) = (self.host()?, self.caller()?);
        Ok(Sample { host, caller, vms: self.list()?.vms, usages: self.usages()? })
    }

    fn show(&self, id: &str) -> Result<Vm, Error> {
        Client::show(self, id)
    }

    fn would_set(&self, id: &str, generation: u64, desired: &Desired) -> Result<Vm, Error> {
        Client::would_set(self, id, Some(generation), desired)
    }

    fn set(&self, id: &str, generation: u64, desired: &Desired) -> Result<Vm, Error> {
        Client::set(self, id, Some(generation), desired, Some(REASON))
    }
}

/// The host, the VMs and their CPU time at one instant.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) host: Host,
    /// The client that has read the sample.
    pub(super) caller: Caller,
    pub(super) vms: Vec<Vm>,
    pub(super) usages: Usages,
}

impl Sample {
    pub(super) fn usage(&self, id: &str) -> Option<&Usage> {
        self.usages.vms.iter().find(|usage| usage.id == id)
    }

    pub(super) fn vm(&self, id: &str) -> Option<&Vm> {
        self.vms.iter().find(|vm| vm.id == id)
    }
}
