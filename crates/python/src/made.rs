//! [`PyPolicy`]: a policy in Python. The same machine runs the policy under the same laws as a policy in Rust.

use crate::cx::{Context, SCOPE, Scope, broken_law};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use run::Choice;
use sched::{
    Alarm, AlarmBase, AlarmKind, AlarmOwner, AlarmSlots, CpuId, Cx, Decision, EntityId, Instant, MadePolicy, Nanos,
    Notice, Params, Policy, Refused, StopReason, Stopped, Topology, Wake,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of alarm slots of the policy, of each CPU and of each entity.
const ALARMS: &[AlarmKind] = &[AlarmKind::Timer; 4];

/// The first failure of a policy in Python.
pub(crate) enum Failed {
    /// A method raised an exception.
    Raised { method: &'static str, error: PyErr },
    /// The machine found a broken law.
    BrokeLaw(String),
}

/// The place for the failure of a policy, shared by the policy and the run.
#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<Failed>>>);

impl Failure {
    fn set(&self, failed: Failed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn take(&self) -> Option<Failed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the choice of `class`, which is called without arguments for each machine.
pub(crate) fn made(class: &Bound<'_, PyAny>) -> PyResult<(Choice, Failure)> {
    let name: String = class.py().import("tactus_sched.policy")?.call_method1("name_of", (class,))?.extract()?;
    let (class, failure) = (class.clone().unbind(), Failure::default());
    let of_machine = failure.clone();
    let build = move |topology: &Topology| {
        let built = Python::attach(|py| {
            let object = class.bind(py).call0()?;
            object.call_method1("start", (topology.cpus,))?;
            Methods::of(&object)
        });
        let methods = match built {
            Ok(methods) => Some(methods),
            Err(error) => {
                of_machine.set(Failed::Raised { method: "start", error });
                None
            }
        };
        Ok(Box::new(PyPolicy { methods, known: Vec::new(), failure: of_machine.clone() }) as Box<dyn Policy>)
    };
    let alarms = AlarmSlots { policy: ALARMS, cpu: ALARMS, entity: ALARMS, group: &[] };
    Ok((Choice::made(MadePolicy { name, alarms, build }), failure))
}

/// The bound methods of a policy.
struct Methods {
    object: Py<PyAny>,
    /// Whether the class overrides the method; the base class's method does nothing.
    has_event: bool,
    has_plan: bool,
    has_charge: bool,
}

impl Methods {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Methods> {
        let base = object.py().import("tactus_sched.policy")?.getattr("Policy")?;
        let class = object.get_type();
        let overrides = |name: &str| -> PyResult<bool> { Ok(!class.getattr(name)?.is(&base.getattr(name)?)) };
        Ok(Methods {
            has_event: overrides("event")?,
            has_plan: overrides("plan")?,
            has_charge: overrides("charge")?,
            object: object.clone().unbind(),
        })
    }
}

/// A policy whose methods are in Python. After a failure, it refuses nothing and idles, until the run ends.
struct PyPolicy {
    /// `None`: the policy could not be made.
    methods: Option<Methods>,
    known: Vec<Option<EntityId>>,
    failure: Failure,
}

impl PyPolicy {
    /// Calls `of` with the policy's object and a context. `None`: the policy has failed.
    fn call<T>(
        &self,
        cx: &mut Cx<'_>,
        method: &'static str,
        of: impl FnOnce(&Bound<'_, PyAny>, Bound<'_, Context>) -> PyResult<T>,
    ) -> Option<T> {
        let methods = self.methods.as_ref().filter(|_| !self.failure.is_set())?;
        let scope = Scope { cx: cx.as_class(0, AlarmBase::default()), known: &self.known };
        let done = SCOPE.set(scope, || Python::attach(|py| of(methods.object.bind(py), Bound::new(py, Context)?)));
        match (broken_law(), done) {
            (Some(message), _) => self.failure.set(Failed::BrokeLaw(message)),
            (None, Ok(done)) => return Some(done),
            (None, Err(error)) => self.failure.set(Failed::Raised { method, error }),
        }
        None
    }

    fn forget(&mut self, e: EntityId) {
        if let Some(known) = self.known.get_mut(e.index()) {
            *known = None;
        }
    }
}

fn wake_name(why: Wake) -> &'static str {
    match why {
        Wake::New { .. } => "new",
        Wake::By { sync: false, .. } => "by",
        Wake::By { sync: true, .. } => "by-sync",
        Wake::Interrupt => "interrupt",
        Wake::Timer => "timer",
        Wake::Resumed => "resumed",
    }
}

fn stop_name(why: StopReason) -> &'static str {
    match why {
        StopReason::Blocked => "blocked",
        StopReason::Yielded => "yielded",
        StopReason::Expired => "expired",
        StopReason::Kicked => "kicked",
    }
}

/// Returns `text` with an unlimited lifetime. Equal texts are stored once, so a policy that refuses many requests with
/// the same words stores these words once.
fn kept(text: String) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = all.get(text.as_str()) {
        return kept;
    }
    let leaked: &'static str = text.leak();
    all.insert(leaked);
    leaked
}

/// Returns the answer of a method that may refuse a request by raising `Refused`.
fn answer(object: &Bound<'_, PyAny>, done: PyResult<()>) -> PyResult<Result<(), Refused>> {
    let Err(error) = done else { return Ok(Ok(())) };
    let py = object.py();
    let class = py.import("tactus_sched.policy")?.getattr("Refused")?;
    if !error.value(py).is_instance(&class)? {
        return Err(error);
    }
    let text = |name| -> PyResult<&'static str> { Ok(kept(error.value(py).getattr(name)?.extract()?)) };
    Ok(Err(Refused::Unsupported { reason: text("reason")?, remedy: text("remedy")? }))
}

/// Returns the decision that `pick` returned: `None`, an entity, or an entity with the end of its time slice.
fn decision(known: &[Option<EntityId>], picked: &Bound<'_, PyAny>) -> PyResult<Decision> {
    if picked.is_none() {
        return Ok(Decision::IDLE);
    }
    let (entity, until) = match picked.extract::<(usize, Option<u64>)>() {
        Ok(pair) => pair,
        Err(_) => (picked.extract::<usize>()?, None),
    };
    let entity = known.get(entity).copied().flatten();
    let entity = entity.ok_or_else(|| PyValueError::new_err("pick() returned an entity that does not exist"))?;
    Ok(Decision { run: Some(entity), until: until.map_or(Instant::NEVER, Instant::at_ns) })
}

impl Policy for PyPolicy {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if self.known.len() <= e.index() {
            self.known.resize(e.index() + 1, None);
        }
        self.known[e.index()] = Some(e);
        let attached = self.call(cx, "attach", |object, context| {
            answer(object, object.call_method1(intern!(object.py(), "attach"), (e.index(), context)).map(drop))
        });
        let attached = attached.unwrap_or(Ok(()));
        if attached.is_err() {
            self.forget(e);
        }
        attached
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.call(cx, "detach", |object, context| {
            object.call_method1(intern!(object.py(), "detach"), (e.index(), context)).map(drop)
        });
        self.forget(e);
    }

    fn adjust(&mut self, e: EntityId, _old: &Params, cx: &mut Cx<'_>) -> Result<(), Refused> {
        let adjusted = self.call(cx, "adjust", |object, context| {
            answer(object, object.call_method1(intern!(object.py(), "adjust"), (e.index(), context)).map(drop))
        });
        adjusted.unwrap_or(Ok(()))
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        self.call(cx, "wake", |object, context| {
            object.call_method1(intern!(object.py(), "wake"), (e.index(), wake_name(why), context)).map(drop)
        });
    }

    fn event(&mut self, e: EntityId, what: Notice, cx: &mut Cx<'_>) {
        if !self.methods.as_ref().is_some_and(|methods| methods.has_event) {
            return;
        }
        let what = match what {
            Notice::Interrupt => "interrupt",
            Notice::SpinWait { .. } => "spin-wait",
        };
        self.call(cx, "event", |object, context| {
            object.call_method1(intern!(object.py(), "event"), (e.index(), what, context)).map(drop)
        });
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        self.call(cx, "sleep", |object, context| {
            object.call_method1(intern!(object.py(), "sleep"), (e.index(), context)).map(drop)
        });
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        if !self.methods.as_ref().is_some_and(|methods| methods.has_charge) {
            return;
        }
        self.call(cx, "charge", |object, context| {
            object.call_method1(intern!(object.py(), "charge"), (e.index(), ran.as_ns(), context)).map(drop)
        });
    }

    fn yield_to(&mut self, from: EntityId, to: EntityId, cx: &mut Cx<'_>) -> bool {
        let granted = self.call(cx, "yield_to", |object, context| {
            object.call_method1(intern!(object.py(), "yield_to"), (from.index(), to.index(), context))?.is_truthy()
        });
        granted.unwrap_or(false)
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        let (owner, index) = match alarm.owner {
            AlarmOwner::Policy => ("policy", 0),
            AlarmOwner::Cpu(cpu) => ("cpu", cpu.index()),
            AlarmOwner::Entity(entity) => ("entity", entity.index()),
            AlarmOwner::Group(group) => ("group", group.index()),
        };
        self.call(cx, "alarm", |object, context| {
            object.call_method1(intern!(object.py(), "alarm"), (owner, index, alarm.slot, context)).map(drop)
        });
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        if !self.methods.as_ref().is_some_and(|methods| methods.has_plan) {
            return;
        }
        self.call(cx, "plan", |object, context| {
            object.call_method1(intern!(object.py(), "plan"), (context,)).map(drop)
        });
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        let (entity, why) = (prev.entity.index(), stop_name(prev.why));
        self.call(cx, "put", |object, context| {
            object.call_method1(intern!(object.py(), "put"), (cpu.index(), entity, why, context)).map(drop)
        });
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let picked = self.call(cx, "pick", |object, context| {
            decision(&self.known, &object.call_method1(intern!(object.py(), "pick"), (cpu.index(), context))?)
        });
        picked.unwrap_or(Decision::IDLE)
    }
}
