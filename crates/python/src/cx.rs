//! [`Context`]: the handle to the machine that a policy in Python receives with every call.
//!
//! The handle has no state. During a call of a policy, [`static@SCOPE`] has the machine of this thread. Outside a call, every
//! method raises `RuntimeError`.

use crate::failure::without_panic;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sched::{Alarm, AlarmBase, AlarmOwner, CpuId, CpuSet, Cx, EntityId, Held, Instant, Running, State};
use scoped_tls_hkt::{ReborrowMut, scoped_thread_local};
use std::cell::RefCell;

/// The machine during a call of a policy.
pub(crate) struct Scope<'a> {
    pub(crate) cx: Cx<'a>,
    /// Entities of the policy, by index.
    pub(crate) known: &'a [Option<EntityId>],
}

impl<'a> ReborrowMut<'a> for Scope<'_> {
    type Result = Scope<'a>;

    fn reborrow_mut(&'a mut self) -> Scope<'a> {
        Scope { cx: self.cx.as_class(0, AlarmBase::default()), known: self.known }
    }
}

scoped_thread_local!(pub(crate) static mut SCOPE: for<'a> Scope<'a>);

impl Scope<'_> {
    fn entity(&self, index: usize) -> PyResult<EntityId> {
        let known = self.known.get(index).copied().flatten();
        known.ok_or_else(|| PyValueError::new_err(format!("there is no entity {index}")))
    }

    fn cpu(&self, number: usize) -> PyResult<CpuId> {
        let cpus = self.cx.topology().cpus;
        if number < cpus {
            return Ok(CpuId::new(number));
        }
        Err(PyValueError::new_err(format!("there is no CPU {number}; use 0 to {}", cpus - 1)))
    }

    /// Returns the alarm of an owner: `policy`, `cpu` or `entity`.
    fn alarm(&self, owner: &str, index: usize, slot: u8) -> PyResult<Alarm> {
        let owner = match owner {
            "policy" => AlarmOwner::Policy,
            "cpu" => AlarmOwner::Cpu(self.cpu(index)?),
            "entity" => AlarmOwner::Entity(self.entity(index)?),
            other => {
                let message = format!("{other:?} owns no alarm; use \"policy\", \"cpu\" or \"entity\"");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(Alarm { owner, slot })
    }
}

thread_local! {
    /// The law that a call of the context has broken in this run.
    static BROKEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns the law that a call of the context has broken since the last call of this function, if any.
pub(crate) fn broken_law() -> Option<String> {
    BROKEN.take()
}

/// Calls `of` with the machine. A broken law becomes an exception, because a panic must not pass through Python.
fn within<T>(of: impl FnOnce(&mut Scope<'_>) -> PyResult<T>) -> PyResult<T> {
    if !SCOPE.is_set() {
        return Err(PyRuntimeError::new_err("a context is valid only during a call of a policy's method"));
    }
    without_panic(|| SCOPE.with(|mut scope| of(&mut scope))).unwrap_or_else(|message| {
        BROKEN.set(Some(message.clone()));
        Err(PyRuntimeError::new_err(message))
    })
}

fn held(reason: &str) -> PyResult<Held> {
    Held::ALL.into_iter().find(|held| held.name() == reason).ok_or_else(|| {
        let names = Held::ALL.map(Held::name).join(", ");
        PyValueError::new_err(format!("{reason:?} is no reason for a hold; use one of {names}"))
    })
}

/// Parameters of an entity: weight (1024 = normal), slice, period, start of the reservation and latency, and group.
type ParamsTuple = (u32, Option<u64>, Option<u64>, Option<u64>, Option<u64>, usize);

/// The handle to the machine.
#[pyclass(frozen, module = "tactus_sched")]
pub(crate) struct Context;

#[pymethods]
impl Context {
    #[getter]
    fn now(&self) -> PyResult<u64> {
        within(|scope| Ok(scope.cx.now().as_ns()))
    }

    #[getter]
    fn here(&self) -> PyResult<usize> {
        within(|scope| Ok(scope.cx.here().index()))
    }

    #[getter]
    fn cpus(&self) -> PyResult<usize> {
        within(|scope| Ok(scope.cx.topology().cpus))
    }

    fn _params(&self, entity: usize) -> PyResult<ParamsTuple> {
        within(|scope| {
            let params = scope.cx.params(scope.entity(entity)?);
            let reservation = params.reservation;
            Ok((
                params.weight.as_linux(),
                reservation.map(|it| it.slice.as_ns()),
                reservation.map(|it| it.period.as_ns()),
                reservation.and_then(|it| it.start).map(Instant::as_ns),
                params.latency.map(sched::Nanos::as_ns),
                params.group.index(),
            ))
        })
    }

    fn state(&self, entity: usize) -> PyResult<&'static str> {
        within(|scope| {
            Ok(match scope.cx.state(scope.entity(entity)?) {
                State::Blocked => "blocked",
                State::Waiting => "waiting",
                State::Running(_) => "running",
            })
        })
    }

    fn is_waiting(&self, entity: usize) -> PyResult<bool> {
        within(|scope| Ok(scope.cx.is_waiting(scope.entity(entity)?)))
    }

    fn is_held(&self, entity: usize) -> PyResult<bool> {
        within(|scope| Ok(scope.cx.is_held(scope.entity(entity)?)))
    }

    fn last_cpu(&self, entity: usize) -> PyResult<usize> {
        within(|scope| Ok(scope.cx.last_cpu(scope.entity(entity)?).index()))
    }

    fn may_run(&self, entity: usize, cpu: usize) -> PyResult<bool> {
        within(|scope| Ok(scope.cx.may_run(scope.entity(entity)?, scope.cpu(cpu)?)))
    }

    fn running(&self, cpu: usize) -> PyResult<Option<usize>> {
        within(|scope| {
            Ok(match scope.cx.running(scope.cpu(cpu)?) {
                Running::Mine { entity, .. } => Some(entity.index()),
                Running::Idle | Running::Above | Running::Below => None,
            })
        })
    }

    fn is_kicked(&self, cpu: usize) -> PyResult<bool> {
        within(|scope| Ok(scope.cx.kicked(scope.cpu(cpu)?)))
    }

    fn idle_cpu_for(&self, entity: usize) -> PyResult<Option<usize>> {
        within(|scope| Ok(scope.cx.idle_cpu_for(scope.entity(entity)?).map(CpuId::index)))
    }

    fn take_ran(&self, cpu: usize) -> PyResult<Option<(usize, u64)>> {
        within(|scope| {
            let cpu = scope.cpu(cpu)?;
            Ok(scope.cx.take_ran(cpu).map(|(entity, ran)| (entity.index(), ran.as_ns())))
        })
    }

    fn kick(&self, cpu: usize) -> PyResult<()> {
        within(|scope| {
            let cpu = scope.cpu(cpu)?;
            scope.cx.kick(cpu);
            Ok(())
        })
    }

    fn cut(&self, cpu: usize, until: u64) -> PyResult<()> {
        within(|scope| {
            let cpu = scope.cpu(cpu)?;
            scope.cx.cut(cpu, Instant::at_ns(until));
            Ok(())
        })
    }

    #[pyo3(signature = (entity, reason = "throttled"))]
    fn hold(&self, entity: usize, reason: &str) -> PyResult<()> {
        within(|scope| {
            let entity = scope.entity(entity)?;
            scope.cx.hold(entity, held(reason)?);
            Ok(())
        })
    }

    #[pyo3(signature = (entity, reason = "throttled"))]
    fn release(&self, entity: usize, reason: &str) -> PyResult<()> {
        within(|scope| {
            let entity = scope.entity(entity)?;
            scope.cx.release(entity, held(reason)?);
            Ok(())
        })
    }

    #[pyo3(signature = (entity, cpus = None))]
    fn confine(&self, entity: usize, cpus: Option<Vec<usize>>) -> PyResult<()> {
        within(|scope| {
            let entity = scope.entity(entity)?;
            let set = match cpus {
                None => CpuSet::ALL,
                Some(cpus) => {
                    let mut set = CpuSet::EMPTY;
                    for cpu in cpus {
                        set.insert(scope.cpu(cpu)?);
                    }
                    set
                }
            };
            scope.cx.confine(entity, &set);
            Ok(())
        })
    }

    #[pyo3(signature = (owner, index, at, *, on = None, slot = 0))]
    fn set_alarm(&self, owner: &str, index: usize, at: u64, on: Option<usize>, slot: u8) -> PyResult<()> {
        within(|scope| {
            let alarm = scope.alarm(owner, index, slot)?;
            let on = match on {
                Some(cpu) => scope.cpu(cpu)?,
                None => scope.cx.here(),
            };
            scope.cx.set_alarm(alarm, on, Instant::at_ns(at));
            Ok(())
        })
    }

    #[pyo3(signature = (owner, index, *, slot = 0))]
    fn clear_alarm(&self, owner: &str, index: usize, slot: u8) -> PyResult<()> {
        within(|scope| {
            let alarm = scope.alarm(owner, index, slot)?;
            scope.cx.clear_alarm(alarm);
            Ok(())
        })
    }
}
