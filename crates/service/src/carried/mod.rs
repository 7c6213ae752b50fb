//! [`Carried`]: the desired states that VMs carry, for VMs for which no client has set one.
//!
//! A VM carries a desired state in a label file of the operator, or in the metadata of its domain of libvirt.

mod label;
mod label_files;
mod libvirt;
mod trusted_file;
mod wanted;

use crate::inventory::{Found, Inventory};
use api::Source;
use label_files::LabelFiles;
use libvirt::StatusFiles;
use std::path::Path;

pub(crate) use wanted::Wanted;

/// The desired states that VMs carry.
#[derive(Debug)]
pub(crate) struct Carried {
    labels: LabelFiles,
    libvirt: StatusFiles,
    /// Whether the label files and the status files may have changed.
    changed: (bool, bool),
}

impl Carried {
    /// Returns the desired states of the label files in `labels`, and of libvirt's status files in `libvirt`. The
    /// directories need not exist.
    pub(crate) fn new(labels: &Path, libvirt: &Path) -> Carried {
        Carried { labels: LabelFiles::new(labels), libvirt: StatusFiles::new(libvirt), changed: (false, false) }
    }

    /// Returns whether a file may have changed. [`read`](Carried::read) is due then.
    pub(crate) fn has_changed(&mut self) -> bool {
        self.changed.0 |= self.labels.has_changed();
        self.changed.1 |= self.libvirt.has_changed();
        self.changed.0 || self.changed.1
    }

    /// Reads the files that may have changed, and lets `inventory` know the VMs in them.
    pub(crate) fn read(&mut self, inventory: &mut Inventory) {
        let (labels, libvirt) = std::mem::take(&mut self.changed);
        if labels {
            self.labels.read();
            inventory.learn_programs(self.labels.programs());
        }
        if libvirt {
            inventory.learn_domains(self.libvirt.read());
        }
    }

    /// Returns what `vm` carries. A label file comes before the metadata.
    pub(crate) fn of(&self, vm: &Found) -> Wanted {
        // The id of the VM is a number that another process may get.
        if !vm.is_lasting {
            return Wanted::default();
        }
        let domain = self.libvirt.get(vm.process.pid, &vm.id);
        let label = [&vm.id, &vm.name].into_iter().find_map(|label| self.labels.get(label));
        match (label, domain) {
            (Some(label), domain) => label.wanted(vm, domain.is_some()),
            (None, Some(latest)) => latest.wanted(Source::Libvirt),
            (None, None) => Wanted::default(),
        }
    }
}
