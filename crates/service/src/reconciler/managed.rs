//! The reconciler as the managed host of the service.

use super::Reconciler;
use crate::managed_host::{ChangeRequest, ManagedHost, PerCpu, Reading};
use crate::{demand, observation, timeline, usage};
use api::{Cpus, Demand, History, Host, Observation, Problem, Process, ThreadUsages, Timeline, Usages, Vm};
use sched::{Instant, Nanos};

/// Interval between two looks at the host and the core.
const LOOK: Nanos = Nanos::ms(50);

impl ManagedHost for Reconciler {
    fn look(&mut self, now: Instant) -> Nanos {
        Reconciler::look(self, now);
        LOOK
    }

    fn host(&self) -> Host {
        Reconciler::host(self)
    }

    fn list(&self) -> Vec<Vm> {
        Reconciler::list(self)
    }

    fn show(&mut self, vm: &str) -> Result<Vm, Problem> {
        Reconciler::show(self, vm)
    }

    fn cpus(&self) -> Cpus {
        Reconciler::cpus(self)
    }

    fn history(&self, since_ms: u64) -> History {
        Reconciler::history(self, since_ms)
    }

    fn per_cpu(&mut self, id: &str) -> PerCpu {
        Reconciler::per_cpu(self, id)
    }

    fn set(&mut self, requests: &[ChangeRequest]) -> Vec<Result<Vm, Problem>> {
        Reconciler::set(self, requests)
    }

    fn would_set(&mut self, request: &ChangeRequest) -> Result<Vm, Problem> {
        Reconciler::would_set(self, request)
    }

    fn usages(&mut self) -> Reading<Usages> {
        let vms = Reconciler::list(self);
        Reading::blocking(move || usage::of_all(&vms))
    }

    fn usage_of_threads(&mut self, vm: Vm) -> Reading<ThreadUsages> {
        Reading::blocking(move || usage::of_threads(&vm))
    }

    fn observe(&mut self, vm: Vm, process: Process, length: Nanos) -> Reading<Observation> {
        Reading::blocking(move || observation::observe(process, &vm.vcpus, length))
    }

    fn demand(&mut self, length: Nanos) -> Reading<Demand> {
        let (vms, periods) = (Reconciler::list(self), self.periods());
        Reading::blocking(move || demand::observe(&vms, &periods, length))
    }

    fn timeline(&mut self, length: Nanos) -> Reading<Timeline> {
        let vms = Reconciler::list(self);
        Reading::blocking(move || timeline::record(&vms, length))
    }
}
