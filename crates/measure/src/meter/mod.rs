//! [`Meter`]: the measurements of each entity, from the trace of a run. The meter depends on no policy and no
//! simulator, and therefore also measures live runs.

mod jobs;
mod measures;
mod member;
mod promise;
mod siblings;
mod starts;
mod xenmon;

pub use jobs::Jobs;
pub use measures::Measures;
pub use member::Member;
pub use promise::{Doing, EndedPeriods, PeriodSink, PeriodWatch, Promise};
pub use siblings::Siblings;
pub use xenmon::{Domain, DomainMeasures, HostMeasures, XenMon};

use member::tell;
use sched::{Action, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Notice, Params};
use std::collections::BTreeMap;
use trace::{Event, Sink};

/// The measurements of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuMeasures {
    /// Number of times the CPU froze with a task on it. Zero on a host. A halted idle CPU is also frozen, but loses no
    /// time.
    pub freezes: u64,
    /// Steal time: time for which the CPU was frozen with a task on it.
    pub stolen: Nanos,
}

/// The current state of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    running: Option<EntityId>,
    /// Instant from which the CPU has been frozen.
    frozen: Option<Instant>,
    got: CpuMeasures,
}

impl Cpu {
    /// Discards all measurements before `start`.
    fn begin(&mut self, start: Instant) {
        self.got = CpuMeasures::default();
        self.frozen = self.frozen.map(|since| since.max(start));
    }

    fn thaw(&mut self, now: Instant) {
        if let Some(since) = self.frozen.take().filter(|_| self.running.is_some()) {
            self.got.stolen += now.since(since);
        }
    }
}

/// Measures each entity of a run, as a [`Sink`] of its trace. The measurements are complete after [`Event::End`], or
/// once every entity has been detached.
#[derive(Debug, Default)]
pub struct Meter {
    /// All entities of the run, in order of arrival.
    members: Vec<Member>,
    /// For each entity index, the index in `members` of the attached entity with this entity index.
    present: Vec<Option<usize>>,
    /// CPUs by number, up to the last CPU with an event.
    cpus: Vec<Cpu>,
    /// Name, parent and last requested parameters of each group.
    parents: BTreeMap<GroupId, (String, GroupId, GroupParams)>,
    /// Entity of the job that the last event completed. The next event shows whether the entity's next job begins at
    /// once.
    completed: Option<EntityId>,
    /// Start of the measurement. `None` after the start.
    from: Option<Instant>,
}

impl Meter {
    /// Returns a meter that has recorded no event.
    #[must_use]
    pub fn new() -> Meter {
        Meter::default()
    }

    /// Returns a meter that excludes everything before `start`. An event counts if it occurs at `start` or later. A
    /// wait, a job or a period counts with its whole length if it ends at `start` or later. Of other time spans, the
    /// part after `start` counts.
    #[must_use]
    pub fn from(start: Instant) -> Meter {
        Meter { from: Some(start), ..Meter::default() }
    }

    /// Returns all entities of the run, in order of arrival.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the measurements of each CPU, by number, up to the last CPU with an event.
    #[must_use]
    pub fn cpus(&self) -> Vec<CpuMeasures> {
        self.cpus.iter().map(|cpu| cpu.got).collect()
    }

    /// Returns all groups of the run with their names and total measurements, including their subgroups. An entity
    /// counts in its last group.
    #[must_use]
    pub fn groups(&self) -> Vec<(GroupId, String, Measures)> {
        let mut sums: BTreeMap<GroupId, Measures> =
            self.parents.keys().map(|&group| (group, Measures::default())).collect();
        for member in &self.members {
            let mut group = member.params.group;
            while let Some((_, parent, _)) = self.parents.get(&group) {
                if let Some(sum) = sums.get_mut(&group) {
                    sum.add(&member.got);
                }
                group = *parent;
            }
        }
        sums.into_iter().map(|(group, sum)| (group, self.parents[&group].0.clone(), sum)).collect()
    }

    /// Returns the name of `group` and its last requested parameters; `None` if the group never existed.
    #[must_use]
    pub fn group(&self, group: GroupId) -> Option<(&str, GroupParams)> {
        self.parents.get(&group).map(|(name, _, params)| (name.as_str(), *params))
    }

    /// Returns the parent of `group`; `None` for the root.
    #[must_use]
    pub fn parent(&self, group: GroupId) -> Option<GroupId> {
        self.parents.get(&group).map(|&(_, parent, _)| parent)
    }

    /// Returns the total measurements of all entities.
    #[must_use]
    pub fn total(&self) -> Measures {
        let mut sum = Measures::default();
        self.members.iter().for_each(|member| sum.add(&member.got));
        sum
    }

    #[inline]
    fn member(&mut self, entity: EntityId) -> Option<&mut Member> {
        let at = (*self.present.get(entity.index())?)?;
        Some(&mut self.members[at]).filter(|member| member.entity == entity)
    }

    #[inline]
    fn on(&mut self, cpu: CpuId) -> Option<&mut Member> {
        let entity = self.cpus.get(cpu.index())?.running?;
        self.member(entity)
    }

    fn attach(&mut self, entity: EntityId, name: &str, params: &Params, now: Instant) {
        if self.present.len() <= entity.index() {
            self.present.resize(entity.index() + 1, None);
        }
        self.present[entity.index()] = Some(self.members.len());
        self.members.push(Member::new(entity, name, params, now));
    }

    fn detach(&mut self, entity: EntityId, now: Instant) {
        if let Some(member) = self.member(entity) {
            member.finish(now);
            member.left = Some(now);
            self.present[entity.index()] = None;
        }
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize(cpu.index() + 1, Cpu::default());
        }
        &mut self.cpus[cpu.index()]
    }

    fn run(&mut self, cpu: CpuId, entity: EntityId, now: Instant) {
        let there = self.cpu(cpu);
        there.running = Some(entity);
        let frozen = there.frozen.is_some();
        if let Some(member) = self.member(entity) {
            member.run(cpu, frozen, now);
        }
    }

    fn freeze(&mut self, cpu: CpuId, now: Instant) {
        let there = self.cpu(cpu);
        there.got.freezes += u64::from(there.frozen.is_none() && there.running.is_some());
        there.frozen.get_or_insert(now);
        if let Some(member) = self.on(cpu) {
            member.freeze(true, now);
        }
    }

    fn thaw(&mut self, cpu: CpuId, now: Instant) {
        self.cpu(cpu).thaw(now);
        if let Some(member) = self.on(cpu) {
            member.freeze(false, now);
        }
    }

    fn end(&mut self, now: Instant) {
        self.members.iter_mut().filter(|it| it.left.is_none()).for_each(|it| it.finish(now));
        self.cpus.iter_mut().for_each(|cpu| cpu.thaw(now));
    }

    /// Continues the entity on `cpu`. The entity may begin its next job, or may have blocked and woken at this instant.
    fn extend(&mut self, cpu: CpuId) {
        let Some(member) = self.on(cpu) else { return };
        if !member.begun {
            member.dispatch();
        }
    }

    fn stop(&mut self, cpu: CpuId, entity: EntityId, now: Instant) {
        if let Some(member) = self.member(entity) {
            member.stop(now);
        }
        self.cpu(cpu).running = None;
    }

    /// Counts the next job as begun at once, unless `event`, which follows the completion, is a block or a yield of the
    /// entity.
    fn go_on(&mut self, entity: EntityId, event: &Event) {
        let stops = match *event {
            Event::Input(Input::Block { cpu } | Input::Yield { cpu }) => {
                self.on(cpu).is_some_and(|on| on.entity == entity)
            }
            _ => false,
        };
        // An entity without an open job begins no next job, but blocks at a later event.
        let next = |member: &&mut Member| member.on.is_some() && !member.open.is_empty();
        if let Some(member) = self.member(entity).filter(|member| !stops && next(member)) {
            member.dispatch();
        }
    }
}

impl Sink for Meter {
    fn record(&mut self, now: Instant, event: &Event) {
        self.take(now, event);
    }
}

impl Meter {
    /// Records the next event, like [`Sink::record`]. Returns whether the event can change an entity or a CPU. Alarms,
    /// kicks and settles, a quarter of the events of a host, change neither.
    pub fn take(&mut self, now: Instant, event: &Event) -> bool {
        if self.completed.is_some() | self.from.is_some() {
            self.catch_up(now, event);
        }
        match *event {
            Event::Action(Action::SetAlarm { .. } | Action::ClearAlarm { .. } | Action::Kick { .. })
            | Event::Input(Input::Alarm { .. } | Input::Kicked { .. })
            | Event::Settled => return false,
            Event::Action(Action::Run { cpu, entity, .. }) => self.run(cpu, entity, now),
            Event::Action(Action::Stop { cpu, entity }) => self.stop(cpu, entity, now),
            Event::Input(Input::Block { cpu }) => {
                if let Some(member) = self.on(cpu) {
                    member.block(now);
                }
            }
            Event::Input(Input::Wake { entity, .. }) => {
                if let Some(member) = self.member(entity) {
                    member.wake(now);
                }
            }
            Event::Release { entity, deadline } => {
                if let Some(member) = self.member(entity) {
                    member.release(deadline, now);
                }
            }
            Event::Complete { entity } => {
                self.completed = Some(entity);
                if let Some(member) = self.member(entity) {
                    member.complete(now);
                }
            }
            Event::Aborted { entity, .. } => {
                if let Some(member) = self.member(entity) {
                    member.abort();
                }
            }
            Event::Action(Action::Extend { cpu, .. }) => self.extend(cpu),
            _ => self.record_rest(now, event),
        }
        true
    }

    /// Decides from the next event whether the entity's next job has begun at once, and whether the measurement starts.
    fn catch_up(&mut self, now: Instant, event: &Event) {
        if let Some(entity) = self.completed.take() {
            self.go_on(entity, event);
        }
        if let Some(start) = self.from.take_if(|start| *start <= now) {
            self.begin(start);
        }
    }

    /// Starts the measurement at `start`.
    #[cold]
    fn begin(&mut self, start: Instant) {
        self.members.iter_mut().for_each(|member| member.begin(start));
        self.cpus.iter_mut().for_each(|cpu| cpu.begin(start));
    }

    /// Records the events that do not occur with every job.
    fn record_rest(&mut self, now: Instant, event: &Event) {
        match *event {
            Event::GroupCreated { group, ref name, parent, ref params } => {
                self.parents.insert(group, (name.clone(), parent, **params));
            }
            Event::GroupAdjusted { group, ref params } => {
                if let Some((_, _, asked)) = self.parents.get_mut(&group) {
                    *asked = **params;
                }
            }
            Event::Attach { entity, ref name, ref params } => self.attach(entity, name, params, now),
            Event::Detach { entity } => self.detach(entity, now),
            Event::Input(Input::Ran { cpu, time }) => {
                if let Some(member) = self.on(cpu) {
                    member.ran(time, now);
                }
            }
            Event::Input(Input::Freeze { cpu, .. }) => self.freeze(cpu, now),
            Event::Input(Input::Thaw { cpu, .. }) => self.thaw(cpu, now),
            Event::End => self.end(now),
            Event::Adjust { entity, .. }
            | Event::Input(Input::Pause { entity })
            | Event::Background { entity, .. }
            | Event::Period { entity, .. }
            | Event::Kept { entity, .. }
            | Event::Woke { entity, .. }
            | Event::SpinWait { entity, .. }
            | Event::Input(Input::Event { entity, what: Notice::SpinWait { .. } })
            | Event::Action(Action::Held { entity, .. }) => {
                if let Some(member) = self.member(entity) {
                    tell(member, event, now);
                }
            }
            // A removed group keeps the measurements of its members; other events change no entity's state.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
