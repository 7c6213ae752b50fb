//! The simulated host as the managed host of a service.

use crate::host::{Observing, SimulatedHost};
use api::{Cpus, Demand, History, Host, Observation, Problem, Process, ThreadUsages, Timeline, Usages, Vm};
use sched::{Instant, Nanos};
use service::{ChangeRequest, ManagedHost, PerCpu, Reading};
use tokio::sync::oneshot;

impl ManagedHost for SimulatedHost {
    fn look(&mut self, now: Instant) -> Nanos {
        self.advance(now)
    }

    fn host(&self) -> Host {
        self.host_view()
    }

    fn list(&self) -> Vec<Vm> {
        self.present().into_iter().map(|index| self.vm(index)).collect()
    }

    fn show(&mut self, vm: &str) -> Result<Vm, Problem> {
        self.find(vm).map(|index| self.vm(index))
    }

    fn cpus(&self) -> Cpus {
        self.cpus_view()
    }

    fn history(&self, since_ms: u64) -> History {
        let present = self.present();
        let named: Vec<(String, &str)> =
            present.into_iter().map(|index| (self.id(index), self.vms[index].name.as_str())).collect();
        self.recorded.since(since_ms, named.iter().map(|(id, name)| (id.as_str(), *name)))
    }

    fn per_cpu(&mut self, id: &str) -> PerCpu {
        let Some(index) = self.find(id).ok().filter(|&index| self.is_promised(index)) else { return PerCpu::new() };
        let recorder = self.recorder.borrow();
        let ids = self.vms[index].members.iter().filter_map(|&member| self.session.entity(member));
        ids.filter_map(|id| Some((id, recorder.thread(id)?.periods.measured))).collect()
    }

    fn set(&mut self, requests: &[ChangeRequest]) -> Vec<Result<Vm, Problem>> {
        requests.iter().map(|request| self.change(request)).collect()
    }

    fn would_set(&mut self, request: &ChangeRequest) -> Result<Vm, Problem> {
        self.would_change(request)
    }

    fn usages(&mut self) -> Reading<Usages> {
        Reading::done(self.usages_view())
    }

    fn usage_of_threads(&mut self, vm: Vm) -> Reading<ThreadUsages> {
        match self.find(&vm.id) {
            Ok(index) => Reading::done(self.thread_usages(index)),
            Err(problem) => Reading::later(async { Err(problem) }),
        }
    }

    fn observe(&mut self, vm: Vm, _: Process, length: Nanos) -> Reading<Observation> {
        let index = match self.find(&vm.id) {
            Ok(index) => index,
            Err(problem) => return Reading::later(async { Err(problem) }),
        };
        let (reply, observed) = oneshot::channel();
        let from = self.now();
        self.recorder.borrow_mut().advance(from);
        let number = self.recorder.borrow_mut().observe(index);
        self.observing.push(Observing { vm: index, number, from, until: from.saturating_add(length), reply });
        let ends = |_| Problem::new(503, "Service Unavailable", "the simulation ends", "start it again");
        Reading::later(async move { observed.await.map_err(ends) })
    }

    fn demand(&mut self, length: Nanos) -> Reading<Demand> {
        Reading::done(self.demand_view(length))
    }

    fn timeline(&mut self, length: Nanos) -> Reading<Timeline> {
        Reading::done(self.timeline_view(length))
    }
}
