//! Interfering threads beside the clients: which CPUs have room for a client and for what these threads take.

use super::dispatcher::Dispatcher;
use crate::interfering::InterferingThread;
use crate::kernel::Kernel;
use sched::{CpuId, CpuSet, Instant, Nanos};
use sys::thread::Identity;

impl<K: Kernel> Dispatcher<K> {
    /// Sets the interfering threads for the next admissions and changes. Promises that exist stay, even if there is no
    /// time left for them: whether they are kept is observed.
    pub fn set_interfering(&mut self, threads: Vec<InterferingThread>) {
        if self.withheld.threads() == threads {
            return;
        }
        self.withheld.set_threads(threads);
        let now = self.now();
        self.withhold(&self.machine.topology().all(), now);
        self.settle(None, now);
    }

    /// Returns whether thread `identity` belongs to a client.
    #[must_use]
    pub fn is_member(&self, identity: &Identity) -> bool {
        self.holder(*identity).is_some()
    }

    /// Withholds time on each of `cpus` for one more client with this period. Returns the CPUs on which this time fits
    /// beside the clients. The caller places the client, and then calls [`Dispatcher::withhold`].
    pub(super) fn make_way(&mut self, cpus: &CpuSet, period: Nanos, now: Instant) -> CpuSet {
        if self.withheld.is_nothing() {
            return *cpus;
        }
        let fits = |cpu: &CpuId| {
            let shortest = self.shortest(*cpu).map_or(period, |shortest| shortest.min(period));
            self.withheld.keep(&mut self.machine, *cpu, Some(shortest), now).is_ok()
        };
        cpus.iter().filter(fits).collect()
    }

    /// Withholds no time on `cpus` until the next call of [`Dispatcher::withhold`].
    pub(super) fn release_withheld(&mut self, cpus: &CpuSet, now: Instant) {
        for cpu in cpus.iter() {
            self.withheld.keep_what_fits(&mut self.machine, cpu, None, now);
        }
    }

    /// Withholds time on each of `cpus` for the clients that are there.
    pub(super) fn withhold(&mut self, cpus: &CpuSet, now: Instant) {
        if self.withheld.is_nothing() {
            return;
        }
        for cpu in cpus.iter() {
            let shortest = self.shortest(cpu);
            self.withheld.keep_what_fits(&mut self.machine, cpu, shortest, now);
        }
    }

    /// Returns the shortest period of the clients of `cpu`.
    fn shortest(&self, cpu: CpuId) -> Option<Nanos> {
        self.clients.iter_on(cpu).map(|(_, client)| client.reservation.period).min()
    }
}
