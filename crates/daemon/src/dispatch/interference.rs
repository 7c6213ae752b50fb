//! Interfering threads beside the clients: which CPUs have room for a client and for what these threads take.

use super::dispatcher::Dispatcher;
use super::refusal::Refusal;
use crate::Explanation;
use crate::interfering::InterferingThread;
use crate::kernel::Kernel;
use sched::{CpuId, CpuSet, Instant, Nanos};

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

    /// Sets the interfering threads like [`Dispatcher::set_interfering`] if their time fits beside all clients.
    ///
    /// # Errors
    /// There is a CPU without room for it; nothing has changed.
    pub fn admit_interfering(&mut self, threads: Vec<InterferingThread>) -> Result<(), Refusal> {
        let (all, now) = (self.machine.topology().all(), self.now());
        let before = self.withheld.threads().to_vec();
        self.withheld.set_threads(threads);
        let mut fits = |cpu: &CpuId| {
            let shortest = self.shortest(*cpu);
            self.withheld.keep(&mut self.machine, *cpu, shortest, now).is_ok()
        };
        let full = all.iter().find(|cpu| !fits(cpu));
        let answer = full.map_or(Ok(()), |cpu| Err(self.no_room_above(cpu)));
        if answer.is_err() {
            self.withheld.set_threads(before);
            self.withhold(&all, now);
        }
        self.settle(None, now);
        answer
    }

    /// Returns whether [`Dispatcher::admit_interfering`] would set the interfering threads, without setting them.
    ///
    /// # Errors
    /// There is a CPU without room for their time.
    pub fn would_admit_interfering(&mut self, threads: Vec<InterferingThread>) -> Result<(), Refusal> {
        let before = self.withheld.threads().to_vec();
        self.admit_interfering(threads)?;
        self.set_interfering(before);
        Ok(())
    }

    /// Returns the refusal of threads above the clients of `cpu`.
    fn no_room_above(&self, cpu: CpuId) -> Refusal {
        let names: Vec<&str> = self.clients.iter_on(cpu).map(|(_, client)| client.name.as_str()).collect();
        let names = names.join(", ");
        let why = format!(
            "SCHED_DEADLINE runs a thread before all clients by turns, and those of CPU {cpu} ({names}) leave too little time for \
             it"
        );
        let remedy = "make a smaller promise, or use `--mechanism inherit`";
        Refusal::Mechanism(Explanation::new(why, remedy))
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
