//! What clients see: the host, VMs and their states.

use super::Reconciler;
use crate::carried::Wanted;
use crate::inventory::Found;
use crate::managed_host::PerCpu;
use crate::standing::{Periods, Standing};
use crate::terms;
use api::{Cpu, Cpus, History, Host, Kind, Phase, Problem, PromisedPart, State, Vm};
use daemon::live::Client;
use sched::{CpuId, EntityId, Reservation};
use std::collections::BTreeMap;
use sys::clock;
use sys::topology::{self, CpuPosition};

impl Reconciler {
    pub(super) fn state(&self, id: &str) -> State {
        let Wanted { desired, problem, .. } = self.wanted(id);
        let standing = self.standings.get(id);
        let refused = standing.and_then(|standing| standing.refused.as_ref()).or(problem.as_ref());
        let phase = match (Some(&desired).filter(|desired| !desired.is_empty()), standing) {
            (None, _) if problem.is_some() => Phase::Refused,
            (None, _) => Phase::None,
            (Some(_), None) => Phase::Absent,
            (Some(desired), _) if desired.paused => Phase::Paused,
            (Some(_), Some(_)) if self.link.core().is_none() => Phase::Waiting,
            (Some(_), Some(standing)) if standing.refused.is_some() => Phase::Refused,
            (Some(_), Some(standing)) if !standing.short.is_empty() => Phase::NotKept,
            _ => Phase::Kept,
        };
        let waits = (phase == Phase::Waiting).then(|| self.link.reason().to_string());
        let mechanism = standing.and_then(|standing| standing.enforced.request());
        State {
            phase,
            mechanism: mechanism.map(|request| match standing {
                Some(standing) if standing.is_in_kernel => terms::IN_KERNEL.to_string(),
                _ => terms::word(request.by).to_string(),
            }),
            reason: refused.map(|why| why.reason.to_string()).or(waits),
            remedy: refused.map(|why| why.remedy.to_string()).filter(|remedy| !remedy.is_empty()),
        }
    }

    pub(super) fn vm(&self, id: &str) -> Option<Vm> {
        let (found, record) = (self.inventory.vms.get(id), self.store.get(id));
        let name = found.map(|vm| &vm.name).or(record.map(|record| &record.name))?.clone();
        let Wanted { desired, source, .. } = self.wanted(id);
        Some(Vm {
            id: id.to_string(),
            name,
            kind: found.map_or(Kind::Process, |vm| vm.kind),
            process: found.map(|vm| vm.process),
            vcpus: found.map(|vm| vm.vcpus.clone()).unwrap_or_default(),
            generation: record.map_or(0, |record| record.generation),
            desired,
            source,
            state: self.state(id),
            measured: self.standings.get(id).map(|standing| standing.measured).unwrap_or_default(),
        })
    }

    /// Returns all VMs, by name.
    pub(crate) fn list(&self) -> Vec<Vm> {
        let mut all: Vec<Vm> = self.ids().iter().filter_map(|id| self.vm(id)).collect();
        all.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        all
    }

    /// Returns the periods of the promises in force, by id of the VM.
    pub(crate) fn periods(&self) -> BTreeMap<String, Periods> {
        let periods = |(id, standing): (&String, &Standing)| Some((id.clone(), standing.periods()?));
        self.standings.iter().filter_map(periods).collect()
    }

    /// Returns the VM with this id or name, or the process `pid:NUMBER`.
    ///
    /// # Errors
    /// There is no such VM, or several VMs have the name.
    pub(crate) fn show(&mut self, vm: &str) -> Result<Vm, Problem> {
        let (id, is_new) = self.find(vm)?;
        let shown = self.vm(&id).ok_or_else(|| missing(vm))?;
        if is_new {
            self.inventory.forget(&id);
            self.standings.remove(&id);
        }
        Ok(shown)
    }

    /// Returns the measurements of the promise to the VM with this id, for each of its CPUs.
    pub(crate) fn per_cpu(&mut self, id: &str) -> PerCpu {
        // Events that the core has not reported yet would count later.
        self.read_news(clock::now());
        let Some(standing) = self.standings.get(id) else { return PerCpu::new() };
        let of = |e: &EntityId| (*e, standing.of_entities.get(e).copied().unwrap_or_default());
        standing.enforced.entities().iter().map(of).collect()
    }

    /// Returns the CPUs, and what is promised of each.
    pub(crate) fn cpus(&self) -> Cpus {
        let core = self.link.core();
        let places: BTreeMap<EntityId, CpuId> = core.map(Client::read_places).unwrap_or_default().into_iter().collect();
        let (mut of_cpus, mut anywhere) = (BTreeMap::<CpuId, Vec<PromisedPart>>::new(), Vec::new());
        let mut by_name: Vec<(&String, &Standing)> = self.standings.iter().collect();
        by_name.sort_by_key(|(id, _)| (self.name(id), *id));
        for (id, standing) in by_name {
            let (Some(request), entities) = (standing.enforced.request(), standing.enforced.entities()) else {
                continue;
            };
            let Reservation { slice, period, .. } = request.reservation;
            let parts = period.as_ns().max(1).saturating_mul(entities.len() as u64);
            let part = PromisedPart { vm: id.clone(), ppm: slice.as_ns().saturating_mul(1_000_000) / parts };
            for entity in entities {
                match places.get(entity) {
                    Some(cpu) => of_cpus.entry(*cpu).or_default().push(part.clone()),
                    None => anywhere.push(part.clone()),
                }
            }
        }
        let cpu = |position: CpuPosition| {
            let promises = of_cpus.remove(&position.cpu).unwrap_or_default();
            let CpuPosition { cpu, core, package, llc, node } = position;
            let promised_ppm = promises.iter().map(|part| part.ppm).sum();
            Cpu { cpu: cpu.index(), core, package, llc, node, promised_ppm, promises }
        };
        let cpus = topology::positions().unwrap_or_default().into_iter().map(cpu).collect();
        let promisable_percent = core.and_then(|core| terms::promisable_percent(core.setup()));
        Cpus { promisable_percent, cpus, anywhere }
    }

    /// Returns the measurements of the promises since `since_ms`.
    pub(crate) fn history(&self, since_ms: u64) -> History {
        let ids = self.ids();
        let mut named: Vec<(&str, &str)> = ids.iter().filter_map(|id| Some((id.as_str(), self.name(id)?))).collect();
        named.sort_by_key(|&(id, name)| (name, id));
        self.recorded.since(since_ms, named.into_iter())
    }

    /// Returns the host.
    pub(crate) fn host(&self) -> Host {
        let core = self.link.core();
        Host {
            version: env!("CARGO_PKG_VERSION").to_string(),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            promisable_percent: core.and_then(|core| terms::promisable_percent(core.setup())),
            policy: core.and_then(|core| terms::policy(core.setup())),
            mechanisms: core.map(|core| terms::mechanisms(core.setup())).unwrap_or_default(),
            core: core.map(Client::pid),
            reason: core.is_none().then(|| self.link.reason().to_string()),
            simulated: false,
            warnings: self.warnings(),
        }
    }

    /// Returns the warnings of the service and of its core.
    fn warnings(&self) -> Vec<String> {
        let of_core = self.link.core().map(Client::warnings).unwrap_or_default();
        let ours = self.inventory.warning().map(str::to_string);
        ours.into_iter().chain(of_core.iter().map(ToString::to_string)).collect()
    }

    /// Finds a VM. Returns its id, and whether the inventory has it only because of this call.
    pub(super) fn find(&mut self, vm: &str) -> Result<(String, bool), Problem> {
        let ids = self.ids();
        // The owner of a process chooses its command line, so an id may be the name of another VM.
        let is_it = |id: &&String| *id == vm || self.name(id).is_some_and(|name| name == vm);
        let named: Vec<&String> = ids.iter().filter(is_it).collect();
        match named[..] {
            [only] => return Ok((only.clone(), false)),
            [] => {}
            _ => {
                let all: Vec<&str> = named.iter().map(|id| id.as_str()).collect();
                let remedy = format!("use one of the ids {}, or pid:NUMBER", all.join(", "));
                let detail = format!("{} VMs have the name or the id {vm}", all.len());
                return Err(Problem::new(409, "Conflict", detail, remedy));
            }
        }
        let (id, is_new) = self.inventory.add(vm).ok_or_else(|| missing(vm))?;
        if is_new && self.inventory.vms.get(&id).is_some_and(Found::is_vm) {
            // The VM has not been noticed before.
            self.appeared(&id);
            return Ok((id, false));
        }
        if is_new {
            self.standings.entry(id.clone()).or_default();
        }
        Ok((id, is_new))
    }

    pub(super) fn name(&self, id: &str) -> Option<&str> {
        let found = self.inventory.vms.get(id).map(|vm| &vm.name);
        found.or(self.store.get(id).map(|record| &record.name)).map(String::as_str)
    }
}

pub(super) fn missing(vm: &str) -> Problem {
    let remedy = "use a name or an id of `tactus list`, or pid:NUMBER for a process";
    Problem::new(404, "Not Found", format!("there is no VM {vm}"), remedy)
}
