//! Tests of the model and of its frames, over a service that is a value.

mod frames;
mod keys;
mod rates;
mod threads;

use super::model::{Effect, Key, Model};
use super::order::Order;
use super::requests::Reply;
use super::sample::{Sample, Service};
use super::worker;
use api::{
    Alternatives, Caller, CpuTime, Desired, Error, Histogram, Host, Kind, Limit, Measured, Mechanism, Phase, Problem,
    Process, Promise, Source, State, Usage, Usages, Vm,
};
use sched::{Instant, Nanos};
use std::sync::{Arc, Mutex, MutexGuard};

/// The longest promise that the service below accepts for a period of 10 ms. Unit: ns.
const SLICE_MOST: u64 = 7_000_000;

fn promise(slice_ms: u64, period_ms: u64) -> Promise {
    Promise {
        slice_ns: slice_ms * 1_000_000,
        period_ns: period_ms * 1_000_000,
        cpus: 1,
        gang: false,
        limit: Limit::Soft,
        mechanism: Mechanism::Auto,
    }
}

fn vm(name: &str, number: u32, desired: Desired, phase: Phase) -> Vm {
    let is_in_force = matches!(phase, Phase::Kept | Phase::NotKept);
    let mechanism = (is_in_force && desired.promise.is_some()).then(|| "inherit".to_string());
    Vm {
        id: format!("id-{name}"),
        name: name.to_string(),
        kind: Kind::Qemu,
        process: (phase != Phase::Absent).then_some(Process { pid: 4_000 + number, start_time: 1, user: 64_055 }),
        vcpus: Vec::new(),
        generation: 3,
        source: (!desired.is_empty()).then_some(Source::Client),
        desired,
        state: State { phase, mechanism, reason: None, remedy: None },
        measured: Measured::default(),
    }
}

fn measured(periods: u64, missed: u64) -> Measured {
    let mut shortfalls = Histogram::default();
    shortfalls.0[0] = periods - missed;
    shortfalls.0[3] = missed;
    let due_ns = periods * 2_000_000;
    let short_ns = missed * 500_000;
    let (judged, delivered_ns) = (periods, due_ns - short_ns);
    Measured { periods, judged, missed, due_ns, delivered_ns, short_ns, shortfalls, lost: 0 }
}

/// Returns the VMs after `seconds`, as a service with a core reports them.
fn sample(seconds: u64) -> Sample {
    let desired = |promise: Option<Promise>| Desired { promise, ..Desired::default() };
    let gang = Promise { cpus: 2, gang: true, limit: Limit::Hard, ..promise(4, 20) };
    let mut vms = vec![
        vm("build", 1, Desired { weight: Some(50), cap_percent: Some(150), ..Desired::default() }, Phase::Kept),
        vm("database", 2, desired(Some(promise(2, 10))), Phase::Kept),
        vm("idle", 3, Desired::default(), Phase::None),
        vm("router", 4, desired(Some(gang)), Phase::NotKept),
        vm("video", 5, desired(Some(promise(9, 10))), Phase::Refused),
        vm("web", 6, Desired { paused: true, ..desired(Some(promise(1, 10))) }, Phase::Paused),
    ];
    vms[1].measured = measured(1_000 + seconds * 100, 0);
    vms[3].measured = measured(500 + seconds * 50, 100 + seconds * 20);
    vms[4].state.reason = Some("9ms in 10ms does not fit: CPU 1 has 70 % left".to_string());
    vms[4].state.remedy = Some("use a slice of at most 7ms, or a period of at least 12.857143ms".to_string());
    let time = |ms: u64| CpuTime { ran_ns: ms * 1_000_000, waited_ns: ms * 100_000, dispatches: ms };
    let usages = vms.iter().filter_map(|vm| {
        let pid = vm.process?.pid;
        let ms = seconds * u64::from(pid - 4_000) * 100;
        Some(Usage { id: vm.id.clone(), pid, vcpus: 2, of_vcpus: time(ms), of_others: time(ms / 10) })
    });
    let usages = Usages { at_ns: seconds * 1_000_000_000, vms: usages.collect() };
    let host = Host {
        version: "1.2.3".to_string(),
        cpus: 4,
        promisable_percent: Some(90),
        policy: None,
        mechanisms: vec!["inherit".to_string()],
        core: Some(77),
        reason: None,
        simulated: false,
        warnings: vec!["the kernel reports no events of processes".to_string()],
    };
    let caller = Caller { name: "uid:0".to_string(), role: "admin".to_string() };
    Sample { host, caller, vms, usages }
}

/// A service whose host is a value. It refuses other generations, and a slice above [`SLICE_MOST`] in a period of 10 ms.
#[derive(Clone, Debug)]
struct Simulation(Arc<Mutex<Vec<Vm>>>);

impl Simulation {
    fn new() -> Simulation {
        Simulation(Arc::new(Mutex::new(sample(2).vms)))
    }

    fn vms(&self) -> MutexGuard<'_, Vec<Vm>> {
        self.0.lock().unwrap()
    }

    /// Returns the VM with this name.
    fn vm(&self, name: &str) -> Vm {
        self.vms().iter().find(|vm| vm.name == name).unwrap().clone()
    }

    fn slice_of(&self, name: &str) -> Option<u64> {
        self.vm(name).desired.promise.map(|promise| promise.slice_ns)
    }

    /// Changes a VM as another client does.
    fn change_meanwhile(&self, name: &str, desired: Desired) {
        let mut vms = self.vms();
        let vm = vms.iter_mut().find(|vm| vm.name == name).unwrap();
        (vm.generation, vm.desired) = (vm.generation + 1, desired);
    }
}

impl Service for Simulation {
    fn sample(&self) -> Result<Sample, Error> {
        Ok(Sample { vms: self.vms().clone(), ..sample(2) })
    }

    fn show(&self, id: &str) -> Result<Vm, Error> {
        Ok(self.vms().iter().find(|vm| vm.id == id).expect("the model knows only these VMs").clone())
    }

    fn would_set(&self, id: &str, generation: u64, desired: &Desired) -> Result<Vm, Error> {
        let vm = self.show(id)?;
        if vm.generation != generation {
            let detail = format!("{id} has generation {}: another client has changed it", vm.generation);
            return Err(Error::Refused(Problem::new(412, "Precondition Failed", detail, "read it again")));
        }
        let is_too_long = |promise: &Promise| promise.slice_ns > SLICE_MOST * promise.period_ns / 10_000_000;
        if let Some(promise) = desired.promise.as_ref().filter(|promise| is_too_long(promise)) {
            let detail = format!("{} in {} does not fit", Nanos::ns(promise.slice_ns), Nanos::ns(promise.period_ns));
            let mut problem = Problem::new(409, "Conflict", detail, "use a shorter slice");
            problem.alternatives = Some(Box::new(Alternatives {
                slice_ns: Some(SLICE_MOST * promise.period_ns / 10_000_000),
                period_ns: Some((promise.slice_ns * 10_000_000).div_ceil(SLICE_MOST)),
                end_of: vec!["database".to_string()],
            }));
            return Err(Error::Refused(problem));
        }
        let phase = match desired {
            _ if desired.paused => Phase::Paused,
            _ if desired.is_empty() => Phase::None,
            _ => Phase::Kept,
        };
        let state = State { phase, mechanism: None, reason: None, remedy: None };
        Ok(Vm { desired: desired.clone(), state, ..vm })
    }

    fn set(&self, id: &str, generation: u64, desired: &Desired) -> Result<Vm, Error> {
        let vm = Vm { generation: generation + 1, ..self.would_set(id, generation, desired)? };
        self.vms().iter_mut().filter(|it| it.id == id).for_each(|it| it.clone_from(&vm));
        Ok(vm)
    }
}

/// A model, and the service that answers it.
pub(super) struct Session {
    pub(super) model: Model,
    service: Simulation,
    is_ended: bool,
}

impl Session {
    /// Begins with the second of two samples.
    pub(super) fn begin() -> Session {
        let mut model = Model::new(sample(0), Nanos::s(2), Order::Name, Instant::at_ns(0));
        model.tick(at(2));
        model.reply(Reply::Sample(Ok(Box::new(sample(2)))));
        Session { model, service: Simulation::new(), is_ended: false }
    }

    /// Types keys, and lets the service answer each of them.
    fn type_keys(&mut self, keys: &[Key]) {
        for key in keys {
            let effects = self.model.key(*key);
            self.carry_out(effects);
        }
    }

    fn type_text(&mut self, text: &str) {
        let keys: Vec<Key> = text.chars().map(Key::Letter).collect();
        self.type_keys(&keys);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(request) => {
                    let effects = self.model.reply(worker::reply(&self.service, request));
                    self.carry_out(effects);
                }
                Effect::Quit | Effect::Interrupt => self.is_ended = true,
            }
        }
    }
}

/// Returns an instant after `seconds`.
fn at(seconds: u64) -> Instant {
    Instant::at_ns(seconds * 1_000_000_000)
}
