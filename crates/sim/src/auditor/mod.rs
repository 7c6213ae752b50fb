//! [`Auditor`]: audits the run of one machine from its trace alone. The auditor shares no code with policies or the
//! machine. A policy's guarantees are passed to the auditor as numbers.
//!
//! ```
//! # use sim::auditor::{Auditor, Promises, Rule};
//! # use trace::{Event, Sink};
//! # use sched::{Action, Conserving, CpuId, EntityId, Input, Instant, Nanos, Params, Topology, Wake};
//! let promises = Promises { conserving: Conserving::Global { slack: Nanos::ZERO }, ..Promises::NONE };
//! let mut auditor = Auditor::new(Topology::new(1), promises);
//! let e = EntityId::new(0, 0);
//! auditor.record(Instant::ZERO, &Event::Attach { entity: e, name: "a".into(), params: Box::new(Params::default()) });
//! auditor.record(Instant::ZERO, &Event::Input(Input::Wake { entity: e, why: Wake::Timer }));
//! auditor.record(Instant::at_ns(1), &Event::Action(Action::Run { cpu: CpuId::new(0), entity: e, until: Instant::NEVER }));
//! assert_eq!(auditor.verdict().count(Rule::Law(11)), 1, "the CPU idled for 1 ns although an entity waited");
//! ```

mod boosts;
mod entities;
mod idleness;
mod jobs;
mod levels;
#[cfg(test)]
mod levels_tests;
mod limits;
mod promises;
mod reservations;
mod shares;
#[cfg(test)]
mod tests;
mod verdict;

use entities::{Entities, Entity, State};
use idleness::Idleness;
pub use jobs::JobCounts;
pub use levels::WorldAuditor;
pub use limits::LimitTolerance;
use limits::Limits;
pub use promises::{Delays, Promises};
pub use reservations::PeriodCounts;
use reservations::{Doing, Periods};
use sched::{
    Action, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Params, Reservation, Topology, Weight,
};
pub use shares::fair_shares;
use trace::{Event, Sink};
pub use verdict::{Finding, Rule, Verdict};

/// The auditor's record of a group.
#[derive(Debug)]
struct GroupBook {
    id: GroupId,
    parent: Option<GroupId>,
    /// Whether the group is a gang.
    gang: bool,
    limits: Limits,
}

/// The entity on a CPU, according to the actions that the driver received.
#[derive(Clone, Copy, Debug)]
struct Seat {
    entity: Option<EntityId>,
    since: Instant,
}

/// Audits a run from its events. Requires every event from the start of the run; [`Event::End`] ends the audit.
#[derive(Debug)]
pub struct Auditor {
    promises: Promises,
    now: Instant,
    entities: Entities,
    /// Records of the groups, by group index.
    groups: Vec<Option<GroupBook>>,
    seats: Vec<Seat>,
    idleness: Idleness,
    longest_wait: Nanos,
    verdict: Verdict,
}

impl Auditor {
    /// Creates an auditor of a machine in its initial state: no entity is attached, and all CPUs are idle.
    #[must_use]
    pub fn new(host: Topology, promises: Promises) -> Auditor {
        let root = GroupBook {
            id: GroupId::ROOT,
            parent: None,
            gang: false,
            limits: Limits::new(&GroupParams::default(), &promises.limits, Instant::ZERO),
        };
        Auditor {
            promises,
            now: Instant::ZERO,
            entities: Entities::default(),
            groups: vec![Some(root)],
            seats: vec![Seat { entity: None, since: Instant::ZERO }; host.cpus],
            idleness: Idleness::new(host, promises.conserving, promises.allowance),
            longest_wait: Nanos::ZERO,
            verdict: Verdict::default(),
        }
    }

    /// Returns the findings so far.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns the first 20 findings, in the order of their detection.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.verdict.findings()
    }

    /// Returns the longest wait that has ended. A hold, a change of parameters and [`Event::End`] also end a wait. Time
    /// for which an entity is held does not count.
    #[must_use]
    pub fn longest_wait(&self) -> Nanos {
        self.longest_wait
    }

    /// Returns the attached entities, in the order of their indices.
    #[must_use]
    pub fn attached(&self) -> Vec<EntityId> {
        self.entities.iter().map(|entity| entity.id).collect()
    }

    /// Returns the CPU time of `e` in all its runs, up to the last event. `None`: `e` is not attached.
    #[must_use]
    pub fn cpu_time(&self, e: EntityId) -> Option<Nanos> {
        self.entities.get(e).map(|entity| self.time_of(entity))
    }

    fn time_of(&self, entity: &Entity) -> Nanos {
        match entity.state {
            State::Running(cpu) => entity.ran + self.now.since(self.seats[cpu.index()].since),
            State::Blocked | State::Waiting => entity.ran,
        }
    }

    /// Returns the counts of the jobs of `e`. `None`: `e` is not attached.
    #[must_use]
    pub fn jobs(&self, e: EntityId) -> Option<JobCounts> {
        self.entities.get(e).map(|entity| entity.jobs.counts)
    }

    /// Returns the counts of the reserved periods of `e`, up to the last event. `None`: `e` is not attached or has no
    /// reservation.
    pub fn periods(&mut self, e: EntityId) -> Option<PeriodCounts> {
        self.elapse_periods(e, false);
        Some(self.entities.get(e)?.periods?.counts)
    }

    // ---- Checks on demand ----

    /// Checks that `charged`, the CPU time that the machine reports for `e`, equals the time for which `e` ran (law 5).
    /// `e` must not be running.
    pub fn check_charge(&mut self, e: EntityId, charged: Nanos) {
        let ran = self.cpu_time(e);
        if ran != Some(charged) {
            let ran = ran.map_or("nothing: it is not attached".to_string(), |ran| ran.to_string());
            self.find(Rule::Law(5), Some(e), None, format!("{e} was charged {charged} but ran {ran}"));
        }
    }

    /// Begins a window for [`check_shares`](Auditor::check_shares) at this instant.
    pub fn mark(&mut self) {
        let times: Vec<Nanos> = self.entities.iter().map(|entity| self.time_of(entity)).collect();
        for (entity, time) in self.entities.iter_mut().zip(times) {
            entity.marked = time;
        }
    }

    /// Returns the CPU time of `e` since the last [`mark`](Auditor::mark). `None`: `e` is not attached.
    #[must_use]
    pub fn since_mark(&self, e: EntityId) -> Option<Nanos> {
        let entity = self.entities.get(e)?;
        Some(self.time_of(entity) - entity.marked)
    }

    /// Checks shares since the last mark, which is `window` ago. The caller guarantees that throughout the window, all
    /// of `entities` were runnable and allowed on every CPU, and no other entity was runnable. Each of `entities` must
    /// have received its fair share by weight (see [`fair_shares`]) within `tolerance`.
    pub fn check_shares(&mut self, entities: &[(EntityId, Weight)], window: Nanos, tolerance: Nanos) {
        let weights: Vec<Weight> = entities.iter().map(|&(_, weight)| weight).collect();
        let fair = fair_shares(self.seats.len(), window, &weights);
        for (&(e, weight), fair) in entities.iter().zip(fair) {
            let got = self.since_mark(e).unwrap_or(Nanos::ZERO);
            if got.saturating_sub(fair).max(fair.saturating_sub(got)) > tolerance {
                let what = format!("{e} of weight {weight} got {got} of {window}; {fair} would be fair");
                self.find(Rule::Share, Some(e), None, what);
            }
        }
    }

    fn find(&mut self, rule: Rule, entity: Option<EntityId>, cpu: Option<CpuId>, what: String) {
        self.verdict.add(Finding { rule, at: self.now, entity, cpu, what });
    }

    // ---- Time ----

    fn advance(&mut self, at: Instant) {
        if at < self.now {
            self.find(Rule::Law(1), None, None, format!("time goes back to {at}"));
            return;
        }
        if at > self.now {
            let breach = self.idleness.elapse(at, &self.entities);
            self.now = at;
            if let Some(breach) = breach {
                let waits = self.entities.get(breach.entity).map_or(Instant::NEVER, |e| e.waits_since);
                let (cpu, slack) = (breach.cpu, self.idleness.slack());
                let what = format!(
                    "{cpu:?} idles since {}, and {} waits for it since {waits}; slack {slack}",
                    breach.idle_since, breach.entity
                );
                self.find(Rule::Law(11), Some(breach.entity), Some(cpu), what);
            }
        }
    }

    fn elapse_periods(&mut self, e: EntityId, spoil: bool) {
        let now = self.now;
        let Some(entity) = self.entities.get_mut(e) else { return };
        let doing = match entity.state {
            State::Blocked => Doing::Resting,
            State::Waiting => Doing::Wanting,
            State::Running(_) => Doing::Running,
        };
        let Some(periods) = entity.periods.as_mut() else { return };
        let worst = periods.elapse(doing, now);
        if spoil {
            periods.spoil();
        }
        if let (Some(lacking), Some(tolerance)) = (worst, self.promises.reservations)
            && lacking > tolerance
        {
            self.find(Rule::Reservation, Some(e), None, format!("{e} lacked {lacking} of its slice in a period"));
        }
    }

    fn elapse_limits(&mut self, group: GroupId, change: i32) {
        let mut next = Some(group);
        while let Some(book) = next.and_then(|group| self.groups.get_mut(group.index())).and_then(Option::as_mut) {
            let id = book.id;
            next = book.parent;
            let own = if id == group { change } else { 0 };
            if let Some((what, over)) = book.limits.elapse(self.now, change, own) {
                self.find(Rule::Limit, None, None, format!("{id} is {over} above its {what}"));
            }
        }
    }

    // ---- States ----

    /// Sets the state of `e` from now on, and begins or ends its wait.
    fn turn(&mut self, e: EntityId, state: State) {
        self.elapse_periods(e, false);
        let Some(entity) = self.entities.get_mut(e) else { return };
        entity.state = state;
        if state == State::Waiting && entity.held == 0 {
            self.begin_wait(e);
        } else {
            self.end_wait(e);
        }
    }

    fn begin_wait(&mut self, e: EntityId) {
        if self.entities.join_waiting(e, self.now) {
            self.idleness.waits(e);
        }
    }

    fn end_wait(&mut self, e: EntityId) {
        let Some(since) = self.entities.leave_waiting(e) else { return };
        let waited = self.now.since(since);
        self.longest_wait = self.longest_wait.max(waited);
        if let Some(bound) = self.promises.starvation.filter(|&bound| waited > bound) {
            let what = format!("{e} waited {waited} since {since}; the bound is {bound}");
            self.find(Rule::Law(12), Some(e), None, what);
        }
    }

    /// If `e` waits, ends its wait and begins a new wait, because parameters changed or the run ended.
    fn restart_wait(&mut self, e: EntityId) {
        if self.entities.get(e).is_some_and(Entity::is_waiting) {
            self.end_wait(e);
            self.begin_wait(e);
        }
    }

    fn run(&mut self, cpu: CpuId, e: EntityId) {
        let now = self.now;
        let Some(seat) = self.seats.get_mut(cpu.index()) else {
            return self.find(Rule::Law(2), Some(e), Some(cpu), format!("{cpu:?} is not on this machine"));
        };
        if let Some(other) = seat.entity {
            self.find(Rule::Law(3), Some(e), Some(cpu), format!("{e} runs on {cpu:?}, where {other} runs"));
            self.stop(cpu, other);
        }
        let Some(entity) = self.entities.get_mut(e) else {
            return self.find(Rule::Law(8), Some(e), Some(cpu), format!("{e} runs but is not attached"));
        };
        let (state, allowed, group) = (entity.state, entity.params.affinity.contains(cpu), entity.params.group);
        entity.last = Some(cpu);
        match state {
            State::Waiting => {}
            State::Running(there) => {
                self.find(Rule::Law(3), Some(e), Some(cpu), format!("{e} runs on {cpu:?} and on {there:?}"));
                self.stop(there, e);
            }
            State::Blocked => self.find(Rule::Law(2), Some(e), Some(cpu), format!("{e} runs but is blocked")),
        }
        if !allowed {
            self.find(Rule::Law(2), Some(e), Some(cpu), format!("{e} runs on {cpu:?}, which its affinity forbids"));
        }
        self.seats[cpu.index()] = Seat { entity: Some(e), since: now };
        self.idleness.end(cpu);
        self.turn(e, State::Running(cpu));
        self.elapse_limits(group, 1);
    }

    fn stop(&mut self, cpu: CpuId, e: EntityId) {
        let seat = self.seats.get(cpu.index()).copied();
        if seat.is_none_or(|seat| seat.entity != Some(e)) {
            return self.find(Rule::Law(3), Some(e), Some(cpu), format!("{e} stops on {cpu:?} but does not run there"));
        }
        self.vacate(cpu);
        // An entity that blocked at this instant no longer runs, although its stop action comes after the block.
        if matches!(self.entities.get(e), Some(entity) if entity.state == State::Running(cpu)) {
            self.turn(e, State::Waiting);
        }
    }

    /// Charges the entity on `cpu` for its run, and ends this run.
    fn vacate(&mut self, cpu: CpuId) {
        self.pay(cpu);
        let e = self.seats[cpu.index()].entity.take();
        self.idleness.begin(cpu, self.now);
        if let Some(entity) = e.and_then(|e| self.entities.get(e)) {
            self.elapse_limits(entity.params.group, -1);
        }
    }

    /// Charges the entity on `cpu` for its run so far.
    fn pay(&mut self, cpu: CpuId) {
        let now = self.now;
        let seat = &mut self.seats[cpu.index()];
        let since = std::mem::replace(&mut seat.since, now);
        if let Some(entity) = seat.entity.and_then(|e| self.entities.get_mut(e)) {
            entity.ran += now.since(since);
        }
    }

    /// Returns the entity on `cpu`.
    fn seated(&self, cpu: CpuId) -> Option<EntityId> {
        self.seats.get(cpu.index())?.entity
    }

    /// Blocks `e`, whatever its state. If `e` runs, its stop action is still to come.
    fn block(&mut self, e: EntityId) {
        if let Some(State::Running(cpu)) = self.entities.get(e).map(|entity| entity.state) {
            self.pay(cpu);
        }
        self.turn(e, State::Blocked);
    }

    // ---- Membership ----

    fn attach(&mut self, e: EntityId, params: Params) {
        if let Some(there) = self.entities.occupant(e) {
            self.find(Rule::Law(8), Some(e), None, format!("{e} is attached in place of {there}, which did not leave"));
            self.entities.remove(there);
        }
        let asked = self.with_start(e, &params);
        self.entities.add(e, params);
        self.observe(e, asked);
    }

    /// Returns the reservation that `e` requests now. In a gang whose members share their periods, the reservation
    /// starts with the next shared period. If `e` is the only member with a reservation, the periods start at the
    /// requested start, or else now.
    fn with_start(&self, e: EntityId, params: &Params) -> Option<Reservation> {
        let asked = params.reservation?;
        let group = self.groups.get(params.group.index()).and_then(Option::as_ref);
        if !self.promises.gang_periods || group.is_none_or(|group| group.id != params.group || !group.gang) {
            return Some(asked);
        }
        let siblings = self.entities.iter().filter(|other| other.id != e && other.params.group == params.group);
        let shared = siblings.filter_map(|sibling| sibling.periods).next();
        let start = shared.map_or(asked.start.unwrap_or(self.now), |periods| periods.next_start(self.now));
        Some(Reservation { start: Some(start), ..asked })
    }

    /// Begins to count the periods of the reservation `asked`, which `e` requests now. `None`: no reservation.
    fn observe(&mut self, e: EntityId, asked: Option<Reservation>) {
        let now = self.now;
        let Some(entity) = self.entities.get_mut(e) else { return };
        let counts = entity.periods.map_or(PeriodCounts::default(), |periods| periods.counts);
        entity.periods = asked.map(|asked| Periods::new(&asked, now, counts));
    }

    fn detach(&mut self, e: EntityId) {
        let Some(entity) = self.entities.get(e) else {
            return self.find(Rule::Law(8), Some(e), None, format!("{e} leaves but is not attached"));
        };
        let group = entity.params.group;
        self.block(e);
        // The entity may stay on its CPU until its stop action, but no longer counts for its group.
        if self.seats.iter().any(|seat| seat.entity == Some(e)) {
            self.elapse_limits(group, -1);
        }
        self.entities.remove(e);
    }

    /// Returns the parameters of `e`. `None`: `e` is not attached.
    fn params(&self, e: EntityId) -> Option<Params> {
        self.entities.get(e).map(|entity| entity.params)
    }

    fn adjust(&mut self, e: EntityId, params: Params) {
        self.elapse_periods(e, true);
        self.restart_wait(e);
        let seated = self.seats.iter().any(|seat| seat.entity == Some(e));
        let Some(entity) = self.entities.get_mut(e) else {
            return self.find(Rule::Law(8), Some(e), None, format!("{e} is adjusted but not attached"));
        };
        let old = std::mem::replace(&mut entity.params, params);
        entity.last = None;
        if old.reservation != params.reservation {
            let asked = self.with_start(e, &params);
            self.observe(e, asked);
        }
        if old.group != params.group && seated {
            self.elapse_limits(old.group, -1);
            self.elapse_limits(params.group, 1);
        }
    }

    fn create_group(&mut self, id: GroupId, parent: GroupId, params: &GroupParams) {
        if self.groups.len() <= id.index() {
            self.groups.resize_with(id.index() + 1, || None);
        }
        let limits = Limits::new(params, &self.promises.limits, self.now);
        self.groups[id.index()] = Some(GroupBook { id, parent: Some(parent), gang: params.gang, limits });
    }

    fn adjust_group(&mut self, id: GroupId, params: &GroupParams) {
        let book = self.groups.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(book) = book.filter(|book| book.id == id && id != GroupId::ROOT) {
            let _ = book.limits.elapse(self.now, 0, 0);
            book.limits.ask(params, &self.promises.limits);
            book.gang = params.gang;
        }
        let waiting: Vec<EntityId> = self.entities.waiting().map(|e| e.id).collect();
        waiting.into_iter().for_each(|e| self.restart_wait(e));
    }

    // ---- Jobs and the end ----

    fn complete(&mut self, e: EntityId) {
        let Some(entity) = self.entities.get_mut(e) else { return };
        match entity.jobs.complete(self.now) {
            None => self.find(Rule::Deadline, Some(e), None, format!("{e} completes a job that was not released")),
            Some(late) if self.promises.deadlines && !late.is_zero() => {
                self.find(Rule::Deadline, Some(e), None, format!("{e} completes a job {late} late"));
            }
            Some(_) => {}
        }
    }

    fn abort(&mut self, e: EntityId) {
        let Some(misses) = self.entities.get_mut(e).map(|entity| entity.jobs.abort()) else { return };
        if !misses || self.promises.deadlines {
            let which = if misses { "" } else { " that was not released" };
            self.find(Rule::Deadline, Some(e), None, format!("{e} aborts a job{which}"));
        }
    }

    fn end(&mut self) {
        for cpu in 0..self.seats.len() {
            self.pay(CpuId::new(cpu));
        }
        let all: Vec<EntityId> = self.entities.iter().map(|entity| entity.id).collect();
        let now = self.now;
        for e in all {
            self.restart_wait(e);
            self.elapse_periods(e, false);
            if let Some(entity) = self.entities.get_mut(e) {
                entity.jobs.close(now);
            }
        }
        for group in 0..self.groups.len() {
            if let Some(id) = self.groups[group].as_ref().map(|book| book.id) {
                self.elapse_limits(id, 0);
            }
        }
    }
}

impl Sink for Auditor {
    fn record(&mut self, at: Instant, event: &Event) {
        self.advance(at);
        match *event {
            Event::GroupCreated { group, parent, ref params, .. } => self.create_group(group, parent, params),
            Event::GroupAdjusted { group, ref params } => self.adjust_group(group, params),
            Event::GroupRemoved { group } => {
                if let Some(book) = self.groups.get_mut(group.index()) {
                    *book = None;
                }
            }
            Event::Attach { entity, ref params, .. } => self.attach(entity, **params),
            Event::Adjust { entity, ref params } => self.adjust(entity, **params),
            Event::Detach { entity } => self.detach(entity),
            Event::Input(Input::Wake { entity, .. }) => self.turn(entity, State::Waiting),
            Event::Input(Input::Block { cpu }) => {
                if let Some(e) = self.seated(cpu) {
                    self.block(e);
                }
            }
            Event::Input(Input::Pause { entity }) => self.block(entity),
            Event::Input(Input::Yield { cpu } | Input::YieldTo { cpu, .. }) => {
                if let Some(e) = self.seated(cpu) {
                    self.elapse_periods(e, true);
                }
            }
            Event::Release { entity, deadline } => {
                if let Some(entity) = self.entities.get_mut(entity) {
                    entity.jobs.release(deadline);
                }
            }
            Event::Complete { entity } => self.complete(entity),
            Event::Aborted { entity, .. } => self.abort(entity),
            Event::Action(Action::Stop { cpu, entity }) => self.stop(cpu, entity),
            Event::Action(Action::Run { cpu, entity, until }) => {
                self.check_slice(cpu, until);
                self.run(cpu, entity);
            }
            Event::Action(Action::Extend { cpu, until }) => {
                self.check_slice(cpu, until);
                self.go_on(cpu);
            }
            Event::Action(Action::Held { entity, reasons }) => self.hold(entity, reasons),
            Event::Action(Action::SetAlarm { alarm, at: due, .. }) if due <= at => {
                self.find(Rule::Law(7), None, None, format!("{alarm:?} is set to {due}, which is past"));
            }
            Event::End => self.end(),
            // No rule uses the remaining events.
            Event::Input(_)
            | Event::Action(Action::Kick { .. } | Action::SetAlarm { .. } | Action::ClearAlarm { .. })
            | Event::Settled
            | Event::Refused(_)
            | Event::Background { .. }
            | Event::Period { .. }
            | Event::Kept { .. }
            | Event::Woke { .. }
            | Event::Irq { .. }
            | Event::Skipped { .. }
            | Event::Sent { .. }
            | Event::SpinWait { .. }
            | Event::Boosted { .. }
            | Event::Served { .. }
            | Event::Arrived { .. }
            | Event::Lost { .. }
            | Event::Vcpu { .. } => {}
        }
    }
}

impl Auditor {
    fn check_slice(&mut self, cpu: CpuId, until: Instant) {
        if until <= self.now {
            self.find(Rule::Law(1), None, Some(cpu), format!("a slice on {cpu:?} ends at {until}"));
        }
    }

    /// Continues the entity on `cpu`. This entity may have blocked and woken at this instant.
    fn go_on(&mut self, cpu: CpuId) {
        let Some(e) = self.seated(cpu) else {
            return self.find(Rule::Law(3), None, Some(cpu), format!("no entity continues on {cpu:?}"));
        };
        match self.entities.get(e).map(|entity| entity.state) {
            Some(State::Running(_)) => {}
            Some(State::Waiting) => self.turn(e, State::Running(cpu)),
            Some(State::Blocked) => {
                self.find(Rule::Law(2), Some(e), Some(cpu), format!("{e} continues but is blocked"));
            }
            None => self.find(Rule::Law(8), Some(e), Some(cpu), format!("{e} continues but is not attached")),
        }
    }

    fn hold(&mut self, e: EntityId, reasons: u8) {
        let Some(entity) = self.entities.get_mut(e) else {
            return self.find(Rule::Law(8), Some(e), None, format!("{e} is held but not attached"));
        };
        entity.held = reasons;
        if entity.state == State::Waiting {
            self.turn(e, State::Waiting);
        }
    }
}
