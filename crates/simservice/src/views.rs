//! What clients see of a simulated host.

use crate::host::{Observing, SimulatedHost};
use crate::recorder::{Observed, ThreadName};
use crate::stretches::Stretch;
use api::{
    Cpu, CpuTime, CpuTimeline, Cpus, Demand, Host, Instead, Kind, Measured, Observation, ObservedThread, Phase,
    Process, PromisedPart, RunThread, State, ThreadDemand, ThreadUsage, ThreadUsages, Timeline, Usage, Usages, Vm,
    VmDemand, Waits,
};
use sched::{CpuId, Instant, Nanos};
use std::collections::BTreeMap;

/// Number of threads that ran instead of an observed thread and are named.
const INSTEAD_MOST: usize = 8;
/// Clock tick of the start times of processes.
const TICK: Nanos = Nanos::ms(10);

impl SimulatedHost {
    /// Returns whether a promise to the VM is in force.
    pub(crate) fn is_promised(&self, index: usize) -> bool {
        let vm = &self.vms[index];
        let is_desired = vm.is_present && !vm.desired.paused && vm.desired.promise.is_some();
        is_desired && vm.members.iter().all(|&member| self.session.promise(member).is_some())
    }

    /// Returns the measurements of the promise to a VM, summed over its CPUs.
    pub(crate) fn measured(&self, index: usize) -> Measured {
        let mut sum = Measured::default();
        if !self.is_promised(index) {
            return sum;
        }
        let recorder = self.recorder.borrow();
        let ids = self.vms[index].members.iter().filter_map(|&member| self.session.entity(member));
        for thread in ids.filter_map(|id| recorder.thread(id)) {
            let of_thread = &thread.periods.measured;
            sum.periods += of_thread.periods;
            sum.judged += of_thread.judged;
            sum.missed += of_thread.missed;
            sum.due_ns += of_thread.due_ns;
            sum.delivered_ns += of_thread.delivered_ns;
            sum.short_ns += of_thread.short_ns;
            sum.shortfalls.add(&of_thread.shortfalls);
        }
        sum
    }

    pub(crate) fn state(&self, index: usize) -> State {
        let vm = &self.vms[index];
        let is_promised = self.is_promised(index);
        let is_kept = || {
            let recorder = self.recorder.borrow();
            let mut ids = vm.members.iter().filter_map(|&member| self.session.entity(member));
            ids.all(|id| recorder.thread(id).is_none_or(|thread| thread.periods.is_kept()))
        };
        let policy = || self.session.run().choice.name().to_string();
        let (mut reason, mut remedy) = (None, None);
        let phase = match &vm.desired {
            desired if desired.is_empty() => Phase::None,
            desired if desired.paused => Phase::Paused,
            _ if self.failure.is_some() => {
                reason = self.failure.as_ref().map(|why| why.reason.to_string());
                Phase::Waiting
            }
            desired if desired.promise.is_some() && !is_promised => {
                let why = no_reservations(&policy());
                (reason, remedy) = (Some(why.0), Some(why.1));
                Phase::Refused
            }
            _ if is_promised && !is_kept() => Phase::NotKept,
            _ => Phase::Kept,
        };
        State { phase, mechanism: is_promised.then(policy), reason, remedy }
    }

    /// Returns a VM that has arrived.
    pub(crate) fn vm(&self, index: usize) -> Vm {
        let vm = &self.vms[index];
        let recorder = self.recorder.borrow();
        let owner = &recorder.owners[index];
        let pid = owner.pid.unwrap_or_default();
        let start_time = owner.came.since(Instant::ZERO).as_ns() / TICK.as_ns();
        let is_vm = vm.kind != Kind::Process;
        let of_members = vm.members.iter().filter_map(|&member| self.session.entity(member));
        let vcpus = of_members.filter_map(|id| recorder.thread(id)).map(|thread| thread.tid);
        Vm {
            id: vm.id(pid),
            name: vm.name.clone(),
            kind: vm.kind,
            process: vm.is_present.then(|| Process { pid, start_time, user: sys::privileges::user() }),
            vcpus: vcpus.filter(|_| is_vm).collect(),
            generation: vm.generation,
            desired: vm.desired.clone(),
            source: vm.source,
            state: self.state(index),
            measured: self.measured(index),
        }
    }

    /// Returns the indices of the present VMs, by name.
    pub(crate) fn present(&self) -> Vec<usize> {
        let mut present: Vec<usize> = (0..self.vms.len()).filter(|&index| self.vms[index].is_present).collect();
        present.sort_by(|&one, &other| self.vms[one].name.cmp(&self.vms[other].name));
        present
    }

    pub(crate) fn host_view(&self) -> Host {
        let run = self.session.run();
        let (policy, speed) = (run.choice.name().to_string(), self.pace.speed());
        let reserve = run.choice.knobs.iter().find(|(knob, _)| knob.name == "reserve").map(|(_, value)| value);
        let promisable = reserve.and_then(|reserve| u32::try_from(100 - reserve).ok());
        let title = format!("this host is simulated: {} under {policy}, at speed {speed}", run.scenario.name);
        let slow = self.pace.has_lagged().then(|| {
            format!("the simulation is too slow for the speed {speed}: its time passes more slowly than requested")
        });
        Host {
            version: env!("CARGO_PKG_VERSION").to_string(),
            cpus: run.scenario.host.cpus,
            promisable_percent: promisable,
            policy: Some(service::host_policy(&policy, &run.choice.knobs)),
            mechanisms: vec![policy],
            core: self.failure.is_none().then(std::process::id),
            reason: self.failure.as_ref().map(|why| why.reason.to_string()),
            simulated: true,
            warnings: std::iter::once(title).chain(slow).collect(),
        }
    }

    pub(crate) fn cpus_view(&self) -> Cpus {
        let topology = self.session.run().scenario.host;
        let machine = self.session.host_machine();
        let (mut of_cpus, mut anywhere) = (BTreeMap::<CpuId, Vec<PromisedPart>>::new(), Vec::new());
        for index in self.present().into_iter().filter(|&index| self.is_promised(index)) {
            for &member in &self.vms[index].members {
                let (Some(id), Some(promise)) = (self.session.entity(member), self.session.promise(member)) else {
                    continue;
                };
                let ppm = promise.slice.scale(1_000_000, promise.period.as_ns()).as_ns();
                let (part, allowed) = (PromisedPart { vm: self.id(index), ppm }, machine.allowed(id));
                match allowed.first().filter(|_| allowed.len() == 1) {
                    Some(cpu) => of_cpus.entry(cpu).or_default().push(part),
                    None => anywhere.push(part),
                }
            }
        }
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let cpu = |cpu: CpuId| {
            let promises = of_cpus.remove(&cpu).unwrap_or_default();
            let (core, llc) = (number(cpu.index() / topology.smt), number(cpu.index() / topology.llc));
            let promised_ppm = promises.iter().map(|part| part.ppm).sum();
            Cpu { cpu: cpu.index(), core, package: 0, llc: Some(llc), node: None, promised_ppm, promises }
        };
        let cpus = topology.iter().map(cpu).collect();
        Cpus { promisable_percent: self.host_view().promisable_percent, cpus, anywhere }
    }

    pub(crate) fn usages_view(&self) -> Usages {
        let usage = |index: usize| {
            let (id, threads) = (self.id(index), self.threads_of(index));
            let (mut of_vcpus, mut of_others) = (CpuTime::default(), CpuTime::default());
            for thread in &threads {
                let sum = if thread.is_vcpu { &mut of_vcpus } else { &mut of_others };
                sum.add(&thread.time);
            }
            let vcpus = threads.iter().filter(|thread| thread.is_vcpu).count();
            let pid = self.recorder.borrow().owners[index].pid.unwrap_or_default();
            Usage { id, pid, vcpus: u32::try_from(vcpus).unwrap_or(u32::MAX), of_vcpus, of_others }
        };
        Usages { at_ns: self.now_ns(), vms: self.present().into_iter().map(usage).collect() }
    }

    /// Returns the threads of a VM, by tid.
    pub(crate) fn threads_of(&self, index: usize) -> Vec<ThreadUsage> {
        let recorder = self.recorder.borrow();
        let vm = &self.vms[index];
        let vcpus: Vec<_> = vm.members.iter().filter_map(|&member| self.session.entity(member)).collect();
        let usage = |thread: &crate::recorder::Thread| ThreadUsage {
            tid: thread.tid,
            name: thread.name.clone(),
            is_vcpu: vm.kind != Kind::Process && vcpus.contains(&thread.entity),
            cpu: thread.cpu.index(),
            time: thread.time,
        };
        let own = recorder.threads().filter(|thread| thread.owner == Some(index));
        let mut threads: Vec<ThreadUsage> = own.map(usage).collect();
        threads.sort_by_key(|thread| thread.tid);
        threads
    }

    pub(crate) fn thread_usages(&self, index: usize) -> ThreadUsages {
        ThreadUsages { at_ns: self.now_ns(), threads: self.threads_of(index) }
    }

    /// Returns which thread has run on each CPU in the last `length`.
    pub(crate) fn timeline_view(&self, length: Nanos) -> Timeline {
        let now = self.now();
        let from = Instant::ZERO + now.since(Instant::ZERO).saturating_sub(length);
        let recorder = self.recorder.borrow();
        let (names, mut indices, mut threads) = (recorder.names(), BTreeMap::new(), Vec::new());
        let mut cpus = Vec::new();
        for (cpu, stretches) in recorder.stretches.between(from, now).into_iter().enumerate() {
            let relative = |stretch: Stretch| {
                let next = threads.len();
                let index = *indices.entry(stretch.tid).or_insert(next);
                if index == next {
                    threads.push(self.run_thread(stretch.tid, names.get(&stretch.tid)));
                }
                [stretch.from.since(from).as_ns(), stretch.until.since(from).as_ns(), index as u64]
            };
            let stretches = stretches.into_iter().map(relative).collect();
            cpus.push(CpuTimeline { cpu, stretches });
        }
        let (from_ns, length_ns) = (from.since(Instant::ZERO).as_ns(), now.since(from).as_ns());
        Timeline { from_ns, length_ns, cpus, threads, unrecorded: None, lost: 0 }
    }

    fn run_thread(&self, tid: u32, name: Option<&ThreadName>) -> RunThread {
        let owner = name.and_then(|name| name.owner);
        let is_vm = owner.is_some_and(|owner| self.vms[owner].kind != Kind::Process);
        // Device threads of a VM have names of their own, and its vCPUs begin with the name of the VM.
        let is_vcpu = is_vm && name.zip(owner).is_some_and(|(it, owner)| it.name.starts_with(&self.vms[owner].name));
        RunThread {
            tid,
            name: name.map(|it| it.name.clone()),
            pid: name.map(|it| it.pid),
            vm: owner.map(|owner| self.id(owner)),
            is_vcpu,
        }
    }

    /// Returns the bursts of all threads in the last `length`. The simulation has seen them already, so the reply does not
    /// take `length`.
    pub(crate) fn demand_view(&self, length: Nanos) -> Demand {
        self.recorder.borrow_mut().advance(self.now());
        let from = Instant::at_ns(self.now_ns().saturating_sub(length.as_ns()));
        let demand = |index: usize| {
            let usages = self.threads_of(index);
            let recorder = self.recorder.borrow();
            let of_thread = |usage: ThreadUsage| {
                let thread = recorder.threads().find(|thread| thread.tid == usage.tid);
                let bursts = thread.map(|thread| thread.bursts.since(from)).unwrap_or_default();
                let ThreadUsage { tid, name, is_vcpu, .. } = usage;
                ThreadDemand { tid, name, is_vcpu, is_observed: true, bursts }
            };
            let promise = self.vms[index].members.first().and_then(|&member| self.session.promise(member));
            let period_left_ns = promise.map(|promise| promise.deadline.saturating_since(self.now()).as_ns());
            VmDemand { id: self.id(index), period_left_ns, threads: usages.into_iter().map(of_thread).collect() }
        };
        let vms = self.present().into_iter().map(demand).collect();
        Demand { length_ns: length.as_ns(), vms, unrecorded: None, lost: 0 }
    }

    /// Returns what the threads of a VM have done since the start of an observation, which ends.
    pub(crate) fn observation(&self, observing: &Observing) -> Observation {
        let observed = self.recorder.borrow_mut().observed(observing.number);
        let names = self.recorder.borrow().names();
        Observation {
            from_ns: observing.from.since(Instant::ZERO).as_ns(),
            length_ns: self.now().since(observing.from).as_ns(),
            threads: self.observed_threads(observing.vm, observed, &names),
            promise: Vec::new(),
            throttled_ns: None,
            stolen_ns: None,
            unrecorded: None,
            lost: 0,
        }
    }

    fn observed_threads(
        &self,
        vm: usize,
        mut observed: Observed,
        names: &BTreeMap<u32, ThreadName>,
    ) -> Vec<ObservedThread> {
        let instead = |(tid, ran): (u32, Nanos)| {
            let (name, pid) = names.get(&tid).map(|it| (it.name.clone(), it.pid)).unzip();
            Instead { tid, name, pid, ran_ns: ran.as_ns() }
        };
        let each = |mut usage: ThreadUsage| {
            let waits = observed.remove(&usage.tid)?;
            usage.time = usage.time.since(&waits.before);
            let mut longest: Vec<(u32, Nanos)> = waits.instead.into_iter().collect();
            longest.sort_by_key(|&(tid, ran)| (std::cmp::Reverse(ran), tid));
            longest.truncate(INSTEAD_MOST);
            let all = &waits.waits;
            let waits = Waits {
                count: all.count(),
                p50_ns: all.percentile(50).as_ns(),
                p99_ns: all.percentile(99).as_ns(),
                longest_ns: all.longest().as_ns(),
                histogram: waits.histogram,
            };
            Some(ObservedThread { usage, waits: Some(waits), instead: longest.into_iter().map(instead).collect() })
        };
        self.threads_of(vm).into_iter().filter_map(each).collect()
    }

    fn now_ns(&self) -> u64 {
        self.now().since(Instant::ZERO).as_ns()
    }
}

/// Returns the reason why a policy keeps no promise, and the remedy.
pub(crate) fn no_reservations(policy: &str) -> (String, String) {
    (format!("the policy {policy} keeps no reservations"), "start the simulation with --policy edf".to_string())
}
