//! Tests of the model and of its frames, over a service that is a value.

mod frames;
mod keys;
mod rates;

use super::model::{Effect, Key, Model};
use super::order::Order;
use super::requests::{Outcome, Reply, Request, Trouble};
use super::sample::Sample;
use api::{
    Alternatives, Caller, CpuTime, Desired, Error, Histogram, Host, Kind, Limit, Measured, Mechanism, Phase, Problem,
    Process, Promise, Source, State, Usage, Usages, Vm,
};
use sched::{Instant, Nanos};

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
    let time = |ms: u64| CpuTime { ran_ns: ms * 1_000_000, waited_ns: ms * 100_000 };
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
        mechanisms: vec!["inherit".to_string()],
        core: Some(77),
        reason: None,
        warnings: vec!["the kernel reports no events of processes".to_string()],
    };
    let caller = Caller { name: "uid:0".to_string(), role: "admin".to_string() };
    Sample { host, caller, vms, usages }
}

/// A model, and the service that answers it.
pub(super) struct Session {
    pub(super) model: Model,
    vms: Vec<Vm>,
    is_ended: bool,
}

impl Session {
    /// Begins with the second of two samples.
    pub(super) fn begin() -> Session {
        let mut model = Model::new(sample(0), Nanos::s(2), Order::Name, Instant::at_ns(0));
        model.tick(at(2));
        model.reply(Reply::Sample(Ok(Box::new(sample(2)))));
        Session { model, vms: sample(2).vms, is_ended: false }
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
            let reply = match effect {
                Effect::Ask(Request::Check { number, changes }) => {
                    let outcomes = changes.into_iter().map(|change| Outcome {
                        result: self.answer(&change.id, change.generation, &change.desired, true),
                        change,
                    });
                    Reply::Checked { number, outcomes: outcomes.collect() }
                }
                Effect::Ask(Request::Apply { number, action, changes }) => {
                    let outcomes = changes.into_iter().map(|change| Outcome {
                        result: self.answer(&change.id, change.generation, &change.desired, false),
                        change,
                    });
                    Reply::Applied { number, action, outcomes: outcomes.collect() }
                }
                Effect::Quit | Effect::Interrupt => {
                    self.is_ended = true;
                    continue;
                }
            };
            let effects = self.model.reply(reply);
            self.carry_out(effects);
        }
    }

    /// Answers as a service: refuses other generations, and a slice above [`SLICE_MOST`] in a period of 10 ms.
    fn answer(&mut self, id: &str, generation: u64, desired: &Desired, is_check: bool) -> Result<Box<Vm>, Trouble> {
        let vm = self.vms.iter_mut().find(|vm| vm.id == id).expect("the model knows only these VMs");
        let refused = |problem: Problem, now: &Vm| Err(Trouble::new(Error::Refused(problem), || Some(now.clone())));
        if vm.generation != generation {
            let detail = format!("{id} has generation {}: another client has changed it", vm.generation);
            return refused(Problem::new(412, "Precondition Failed", detail, "read it again"), vm);
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
            return refused(problem, vm);
        }
        let phase = match desired {
            _ if desired.paused => Phase::Paused,
            _ if desired.is_empty() => Phase::None,
            _ => Phase::Kept,
        };
        let state = State { phase, mechanism: None, reason: None, remedy: None };
        let changed = Vm { generation: generation + 1, desired: desired.clone(), state, ..vm.clone() };
        if !is_check {
            vm.clone_from(&changed);
        }
        Ok(Box::new(changed))
    }

    fn vm(&self, name: &str) -> &Vm {
        self.vms.iter().find(|vm| vm.name == name).unwrap()
    }

    fn slice_of(&self, name: &str) -> Option<u64> {
        self.vm(name).desired.promise.as_ref().map(|promise| promise.slice_ns)
    }

    /// Changes a VM as another client does.
    fn change_meanwhile(&mut self, name: &str, desired: Desired) {
        let vm = self.vms.iter_mut().find(|vm| vm.name == name).unwrap();
        (vm.generation, vm.desired) = (vm.generation + 1, desired);
    }
}

/// Returns an instant after `seconds`.
fn at(seconds: u64) -> Instant {
    Instant::at_ns(seconds * 1_000_000_000)
}
