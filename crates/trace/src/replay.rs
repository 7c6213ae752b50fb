//! [`Replay`]: passes the inputs of a trace to a new [`Machine`], and compares the machine's actions with the recorded
//! actions.
//!
//! A trace does not record every call of [`Machine::settle`]. A settle is implied
//!
//! - before an action that does not belong to the previous settle, and
//! - at the end of an instant, if a change, a refused request or an input other than a freeze has happened since the
//!   last settle.
//!
//! A driver records every other settle as [`Event::Settled`]. [`SettleMarks`] identifies these settles.
//!
//! The machine must have the policy, knobs, topology and kicks of the recorded machine.

use crate::event::{Event, Request, Sink, Trace};
use sched::{Action, CpuId, EntityId, Input, Instant, Machine, Refused, State, Wake};
use std::fmt;

/// Replays a whole trace on `machine`, which must not have processed any event. Returns the machine in the state after
/// the trace.
///
/// # Errors
/// The first difference between the trace and the machine.
pub fn replay(machine: Machine, trace: &Trace) -> Result<Machine, Divergence> {
    let cpus = machine.topology().cpus;
    if cpus != trace.header.cpus {
        let reason = format!("the trace has {} CPUs, the machine {cpus}", trace.header.cpus);
        return Err(Divergence { number: 0, at: Instant::ZERO, reason });
    }
    let mut replay = Replay::new(machine);
    trace.show(&mut replay);
    replay.finish()
}

/// A difference between a trace and a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// Number of the event, from 1; 0 for the header.
    pub number: u64,
    /// Instant of the event.
    pub at: Instant,
    /// Description of the difference.
    pub reason: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} at {}: {}", self.number, self.at, self.reason)
    }
}

impl std::error::Error for Divergence {}

/// Replays events as they arrive, without storing them.
#[derive(Debug)]
pub struct Replay {
    machine: Machine,
    number: u64,
    last: Instant,
    /// Whether an input or a change awaits a settle.
    is_unsettled: bool,
    /// Number of actions of the last settle that the trace has confirmed.
    confirmed: usize,
    error: Option<Divergence>,
}

impl Replay {
    /// Creates a replay on `machine`, which must not have processed any event.
    #[must_use]
    pub fn new(machine: Machine) -> Replay {
        Replay { machine, number: 0, last: Instant::ZERO, is_unsettled: false, confirmed: 0, error: None }
    }

    /// Ends the replay after the last event, and returns the machine in the state after the trace.
    ///
    /// # Errors
    /// The first difference between the trace and the machine.
    pub fn finish(mut self) -> Result<Machine, Divergence> {
        if self.error.is_none()
            && let Err(reason) = self.confirm_all()
        {
            self.error = Some(Divergence { number: self.number, at: self.last, reason });
        }
        self.error.map_or(Ok(self.machine), Err)
    }

    fn take(&mut self, at: Instant, event: &Event) -> Result<(), String> {
        if at < self.last {
            return Err(format!("time goes back from {}", self.last));
        }
        if at > self.last {
            if self.is_unsettled {
                self.settle(self.last)?;
            }
            self.confirm_all()?;
            self.last = at;
        }
        match event {
            Event::Action(action) => return self.confirm(at, action),
            Event::Settled => return self.settle(at),
            Event::Input(input) => {
                self.confirm_all()?;
                self.give(at, *input)?;
            }
            Event::Attach { entity, params, .. } => {
                self.confirm_all()?;
                let attached = self.machine.attach(at, **params);
                same("attaches", attached.map_err(refusal)?, *entity)?;
            }
            Event::Adjust { entity, params } => {
                self.confirm_all()?;
                self.expect_attached(*entity)?;
                self.machine.adjust(at, *entity, **params).map_err(refusal)?;
            }
            Event::Detach { entity } => {
                self.confirm_all()?;
                self.expect_stoppable(*entity)?;
                self.machine.detach(at, *entity);
            }
            Event::GroupCreated { group, parent, params, .. } => {
                self.confirm_all()?;
                let created = self.machine.create_group(at, **params, *parent);
                same("creates", created.map_err(refusal)?, *group)?;
            }
            Event::GroupAdjusted { group, params } => {
                self.confirm_all()?;
                self.machine.adjust_group(at, *group, **params).map_err(refusal)?;
            }
            Event::GroupRemoved { group } => {
                self.confirm_all()?;
                self.machine.remove_group(at, *group).map_err(refusal)?;
            }
            Event::Refused(request) => {
                self.confirm_all()?;
                self.request(at, request)?;
            }
            // No settle follows the end of the run.
            Event::End => self.is_unsettled = false,
            _ => {}
        }
        self.is_unsettled |= awaits_settle(event);
        Ok(())
    }

    /// Checks that an input does not contradict the machine's state, and passes the input to the machine.
    fn give(&mut self, at: Instant, input: Input) -> Result<(), String> {
        match input {
            Input::Wake { entity, why } => {
                self.expect_attached(entity)?;
                if self.machine.state(entity) != State::Blocked {
                    return Err(format!("{entity} wakes, but it is not blocked"));
                }
                if let Wake::By { waker, .. } | Wake::New { parent: Some(waker) } = why {
                    self.expect_attached(waker)?;
                }
            }
            Input::Event { entity, .. } => {
                self.expect_attached(entity)?;
                if self.machine.state(entity) == State::Blocked {
                    return Err(format!("{entity} gets a notice, but it is blocked"));
                }
            }
            Input::Block { cpu } | Input::Yield { cpu } => self.expect_running(cpu)?,
            Input::YieldTo { cpu, to } => {
                self.expect_running(cpu)?;
                self.expect_attached(to)?;
            }
            Input::Expire { cpu } => {
                self.expect_running(cpu)?;
                let until = self.machine.until(cpu);
                if until > at {
                    return Err(format!("the time slice on CPU {cpu} ends at {until}, not at {at}"));
                }
            }
            Input::Kicked { cpu } => self.expect_awake(cpu)?,
            // The machine ignores an alarm that is not set or not yet due.
            Input::Alarm { alarm } => match self.machine.alarm(alarm) {
                Some((on, due)) if due <= at => self.expect_awake(on)?,
                _ => return Ok(()),
            },
            Input::Pause { entity } => self.expect_stoppable(entity)?,
            Input::Ran { cpu, .. } => self.expect_cpu(cpu)?,
            Input::Freeze { cpu, .. } => self.expect_awake(cpu)?,
            Input::Thaw { cpu, .. } => {
                self.expect_cpu(cpu)?;
                if !self.machine.is_frozen(cpu) {
                    return Err(format!("CPU {cpu} thaws, but it is not frozen"));
                }
            }
        }
        self.machine.input(at, input);
        Ok(())
    }

    /// Repeats a request that the recorded machine refused, and expects a refusal.
    fn request(&mut self, at: Instant, request: &Request) -> Result<(), String> {
        let is_refused = match request {
            Request::CreateGroup { parent, params, .. } => self.machine.create_group(at, *params, *parent).is_err(),
            Request::AdjustGroup { group, params } => self.machine.adjust_group(at, *group, *params).is_err(),
            Request::Attach { params, .. } => self.machine.attach(at, *params).is_err(),
            Request::Adjust { entity, params } => {
                self.expect_attached(*entity)?;
                self.machine.adjust(at, *entity, *params).is_err()
            }
        };
        if is_refused { Ok(()) } else { Err("the machine accepts the request".to_string()) }
    }

    /// Settles the machine, and checks that the settle has no actions.
    fn settle(&mut self, at: Instant) -> Result<(), String> {
        self.confirm_all()?;
        self.is_unsettled = false;
        self.machine.settle(at);
        self.confirmed = 0;
        self.confirm_all()
    }

    /// Compares a recorded action with the machine's next action. If the trace has confirmed all actions of the last
    /// settle, settles the machine first.
    fn confirm(&mut self, at: Instant, action: &Action) -> Result<(), String> {
        if self.confirmed == self.machine.actions().len() {
            self.is_unsettled = false;
            self.machine.settle(at);
            self.confirmed = 0;
        }
        let decided = self.machine.actions().get(self.confirmed).copied();
        self.confirmed += 1;
        match decided {
            Some(decided) if decided == *action => Ok(()),
            Some(decided) => {
                Err(format!("the trace has `{}`, the machine `{}`", Event::Action(*action), Event::Action(decided)))
            }
            None => Err(format!("the trace has `{}`, the machine nothing", Event::Action(*action))),
        }
    }

    /// Checks that the trace has confirmed all actions of the last settle.
    fn confirm_all(&self) -> Result<(), String> {
        match self.machine.actions().get(self.confirmed) {
            None => Ok(()),
            Some(&action) => Err(format!("the machine has `{}`, the trace nothing", Event::Action(action))),
        }
    }

    fn expect_attached(&self, entity: EntityId) -> Result<(), String> {
        if self.machine.is_attached(entity) { Ok(()) } else { Err(format!("{entity} is not attached")) }
    }

    fn expect_cpu(&self, cpu: CpuId) -> Result<(), String> {
        let cpus = self.machine.topology().cpus;
        if cpu.index() < cpus { Ok(()) } else { Err(format!("there is no CPU {cpu} among {cpus}")) }
    }

    fn expect_awake(&self, cpu: CpuId) -> Result<(), String> {
        self.expect_cpu(cpu)?;
        if self.machine.is_frozen(cpu) { Err(format!("CPU {cpu} is frozen")) } else { Ok(()) }
    }

    fn expect_running(&self, cpu: CpuId) -> Result<(), String> {
        self.expect_awake(cpu)?;
        if self.machine.running(cpu).is_some() { Ok(()) } else { Err(format!("no entity runs on CPU {cpu}")) }
    }

    /// Checks that `entity` is attached, and that its CPU is not frozen: an entity on a frozen CPU cannot stop.
    fn expect_stoppable(&self, entity: EntityId) -> Result<(), String> {
        self.expect_attached(entity)?;
        if let State::Running(cpu) = self.machine.state(entity) { self.expect_awake(cpu) } else { Ok(()) }
    }
}

impl Sink for Replay {
    fn record(&mut self, at: Instant, event: &Event) {
        if self.error.is_some() {
            return;
        }
        self.number += 1;
        if let Err(reason) = self.take(at, event) {
            self.error = Some(Divergence { number: self.number, at, reason });
        }
    }
}

fn same<T: PartialEq + fmt::Display>(does: &str, decided: T, recorded: T) -> Result<(), String> {
    if decided == recorded {
        return Ok(());
    }
    Err(format!("the machine {does} {decided}, the trace {recorded}"))
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
fn refusal(refused: Refused) -> String {
    format!("the machine refuses: {refused}")
}

/// Returns whether a driver must settle after `event`, at the same instant.
fn awaits_settle(event: &Event) -> bool {
    match event {
        Event::Input(input) => !matches!(input, Input::Freeze { .. }),
        Event::Attach { .. }
        | Event::Adjust { .. }
        | Event::Detach { .. }
        | Event::GroupCreated { .. }
        | Event::GroupAdjusted { .. }
        | Event::GroupRemoved { .. }
        | Event::Refused(_) => true,
        _ => false,
    }
}

/// Tells the driver of a machine which settles to record as [`Event::Settled`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SettleMarks {
    /// Whether an event implies a settle that has not happened yet.
    is_implied: bool,
    /// Instant of the last settle, if an event implied the settle, the settle had no actions, and no input, action or
    /// change has followed.
    silent: Option<Instant>,
}

impl SettleMarks {
    /// Processes `event`, which the caller records next. Returns whether to record [`Event::Settled`] before `event`,
    /// because a settle without actions preceded `event` at the same instant.
    #[inline]
    #[must_use]
    pub fn before(&mut self, at: Instant, event: &Event) -> bool {
        let changes = matches!(event, Event::Input(_) | Event::Action(_)) || awaits_settle(event);
        if !changes {
            return false;
        }
        self.is_implied |= awaits_settle(event);
        self.silent.take() == Some(at)
    }

    /// Processes a settle of the machine. The caller records the `actions` actions of the settle next. Returns whether
    /// to record [`Event::Settled`] now, because no action, input or change implies this settle.
    #[inline]
    #[must_use]
    pub fn settled(&mut self, at: Instant, actions: usize) -> bool {
        let is_implied = std::mem::take(&mut self.is_implied);
        self.silent = (actions == 0 && is_implied).then_some(at);
        actions == 0 && !is_implied
    }
}
