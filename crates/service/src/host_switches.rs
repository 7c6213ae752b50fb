//! [`HostSwitches`]: the context switches of all CPUs, in the order of time.

use sys::switches::{Record, Switch, Switches};
use sys::{clock, cpus};

/// The context switches of all CPUs since a start.
#[derive(Debug)]
pub(crate) struct HostSwitches {
    of_cpus: Vec<Switches>,
    /// Records that were read, later than the last reading of all CPUs.
    later: Vec<Switch>,
    /// Number of switches that were lost, because they were not read in time.
    pub(crate) lost: u64,
}

impl HostSwitches {
    /// Records the switches from now on.
    ///
    /// # Errors
    /// The errors of [`Switches::on_cpu`].
    pub(crate) fn record() -> sys::Result<HostSwitches> {
        let of_cpus = cpus::online()?.iter().map(Switches::on_cpu).collect::<sys::Result<Vec<Switches>>>()?;
        Ok(HostSwitches { of_cpus, later: Vec::new(), lost: 0 })
    }

    /// Passes the new switches to `each`, in the order of time.
    pub(crate) fn read(&mut self, each: impl FnMut(Switch)) {
        // Later records of a CPU that is read first would precede earlier ones of the others.
        let until = clock::now();
        for of_cpu in &mut self.of_cpus {
            while let Some(record) = of_cpu.next_record() {
                match record {
                    Record::Switch(switch) => self.later.push(switch),
                    Record::Lost(count) => self.lost += count,
                }
            }
        }
        // A CPU's records at one instant stay in their order.
        self.later.sort_by_key(|switch| switch.at);
        let present = self.later.partition_point(|switch| switch.at <= until);
        self.later.drain(..present).for_each(each);
    }
}
