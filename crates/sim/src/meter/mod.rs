//! [`Meter`]: what everybody got, from the trace of a run. It knows no policy and no simulator, so it measures a live
//! run just as well.

mod jobs;
mod promise;
mod waits;

pub use jobs::Jobs;
pub use promise::Promise;
pub use waits::Waits;

use crate::floor::Counts;
use jobs::Deadlines;
use promise::{Doing, Watch};
use sched::{CpuId, EntityId, GroupId, Instant, Nanos, Params};
use std::collections::BTreeMap;
use trace::{Event, Sink};

/// What one entity, or all of a group, got.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// CPU time.
    pub delivered: Nanos,
    /// Times a job began or resumed running; without jobs, times it began to run.
    pub dispatches: u64,
    /// Times it was taken off its CPU with work left.
    pub preemptions: u64,
    /// Times it resumed on another CPU than the one it was taken off.
    pub migrations: u64,
    /// Every time from being woken or taken off a CPU to running; zero if it ran at once. Time held counts.
    pub waits: Waits,
    /// Those of them that began when it was woken, or what it tells of them itself: of each job that it slept for, the time from
    /// the release to its beginning.
    pub wakeups: Waits,
    /// Time it was runnable, but held by its policy.
    pub held: Nanos,
    /// Its jobs.
    pub jobs: Jobs,
    /// Its reservation.
    pub promise: Promise,
}

impl Measures {
    /// The same of both together: sums, and the worst of the worst.
    pub fn add(&mut self, other: &Measures) {
        self.delivered += other.delivered;
        self.dispatches += other.dispatches;
        self.preemptions += other.preemptions;
        self.migrations += other.migrations;
        self.waits.add(&other.waits);
        self.wakeups.add(&other.wakeups);
        self.held += other.held;
        self.jobs.add(&other.jobs);
        self.promise.add(&other.promise);
    }

    /// The columns of the EDF oracle table.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            releases: self.jobs.releases,
            completions: self.jobs.completions,
            misses: self.jobs.misses,
            preemptions: self.preemptions,
            dispatches: self.dispatches,
            migrations: self.migrations,
        }
    }
}

/// Somebody who was there, and what he got.
#[derive(Clone, Debug)]
pub struct Member {
    /// The id; others may have had its index before or after.
    pub entity: EntityId,
    /// What people call it.
    pub name: String,
    /// What was asked for it at last.
    pub params: Params,
    /// When it came.
    pub came: Instant,
    /// When it left; `None`: it stayed to the end.
    pub left: Option<Instant>,
    /// What it got.
    pub got: Measures,
    // What is true of it now.
    runnable: bool,
    on: Option<CpuId>,
    last_cpu: Option<CpuId>,
    /// Whether its current job has run already.
    begun: bool,
    waiting_since: Option<Instant>,
    /// Whether it waits since it was woken.
    woken: bool,
    /// Whether it tells of its wake-ups itself.
    tells: bool,
    held_since: Option<Instant>,
    upto: Instant,
    deadlines: Deadlines,
    watch: Option<Watch>,
    /// Time on a CPU of which nobody has said yet how much of it was CPU time.
    unmeasured: Nanos,
}

impl Member {
    fn new(entity: EntityId, name: &str, params: &Params, now: Instant) -> Member {
        Member {
            entity,
            name: name.to_string(),
            params: *params,
            came: now,
            left: None,
            got: Measures::default(),
            runnable: false,
            on: None,
            last_cpu: None,
            begun: false,
            waiting_since: None,
            woken: false,
            tells: false,
            held_since: None,
            upto: now,
            deadlines: Deadlines::default(),
            watch: params.reservation.map(|reservation| Watch::new(reservation, now)),
            unmeasured: Nanos::ZERO,
        }
    }

    /// Accounts for the time since the last change.
    fn advance(&mut self, now: Instant) {
        let doing = match (self.on, self.runnable) {
            (Some(_), _) => Doing::Running,
            (None, true) => Doing::Waiting,
            (None, false) => Doing::Blocked,
        };
        if doing == Doing::Running {
            self.got.delivered += now.since(self.upto);
            self.unmeasured += now.since(self.upto);
        }
        self.upto = now;
        if let Some(watch) = &mut self.watch {
            watch.advance(doing, now, &mut self.got.promise);
        }
    }

    fn wake(&mut self, now: Instant) {
        self.advance(now);
        self.runnable = true;
        self.waiting_since = Some(now);
        self.woken = true;
    }

    fn block(&mut self, now: Instant) {
        self.advance(now);
        self.runnable = false;
        // It was woken in vain.
        self.woken = false;
        self.end_wait(now);
    }

    fn end_wait(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.got.waits.record(now.since(since));
            if std::mem::take(&mut self.woken) && !self.tells {
                self.got.wakeups.record(now.since(since));
            }
        }
    }

    /// It has begun a job, as it tells itself: from now on that is what counts.
    fn woke(&mut self, late: Nanos) {
        if !std::mem::replace(&mut self.tells, true) {
            self.got.wakeups = Waits::default();
        }
        self.got.wakeups.record(late);
    }

    /// The job at hand begins or goes on.
    fn dispatch(&mut self) {
        self.got.dispatches += 1;
        self.begun = true;
    }

    /// Of the time on its CPU since that was last said, so much was CPU time.
    fn ran(&mut self, time: Nanos, now: Instant) {
        self.advance(now);
        self.got.delivered = self.got.delivered.saturating_sub(self.unmeasured) + time;
        self.unmeasured = Nanos::ZERO;
    }

    /// A period ended, as who enforces the reservation saw it: from now on that is what is judged.
    fn period(&mut self, due: Nanos, delivered: Nanos, throughout: bool) {
        if self.watch.take().is_some() {
            self.got.promise = Promise::default();
        }
        self.got.promise.end(due, delivered, throughout);
    }

    fn run(&mut self, cpu: CpuId, now: Instant) {
        self.advance(now);
        self.unmeasured = Nanos::ZERO;
        self.on = Some(cpu);
        self.end_wait(now);
        if self.last_cpu.replace(cpu).is_some_and(|last| last != cpu) && self.begun {
            self.got.migrations += 1;
        }
        self.dispatch();
    }

    fn stop(&mut self, now: Instant) {
        self.advance(now);
        self.on = None;
        if self.runnable {
            self.got.preemptions += u64::from(self.begun);
            self.waiting_since.get_or_insert(now);
        }
    }

    fn hold(&mut self, held: bool, now: Instant) {
        match (held, self.held_since) {
            (true, None) => self.held_since = Some(now),
            (false, Some(since)) => {
                self.got.held += now.since(since);
                self.held_since = None;
            }
            _ => {}
        }
    }

    fn complete(&mut self, now: Instant) {
        let jobs = &mut self.got.jobs;
        jobs.completions += 1;
        self.begun = false;
        if let Some(deadline) = self.deadlines.pop().filter(|&deadline| now > deadline) {
            jobs.misses += 1;
            jobs.worst_lateness = jobs.worst_lateness.max(now.since(deadline));
        }
    }

    fn adjust(&mut self, params: &Params, now: Instant) {
        self.advance(now);
        if params.reservation != self.params.reservation {
            self.watch = params.reservation.map(|reservation| Watch::new(reservation, now));
        }
        self.params = *params;
    }

    /// The end of its stay, or of the run.
    fn finish(&mut self, now: Instant) {
        self.block(now);
        self.on = None;
        self.hold(false, now);
        self.got.jobs.unfinished_late = self.deadlines.before(now);
    }
}

/// Measures everybody in a run, as a [`Sink`] of its trace. Complete after [`Event::End`] or once everybody left.
#[derive(Debug, Default)]
pub struct Meter {
    /// Everybody who was ever there, in order of arrival.
    members: Vec<Member>,
    /// By entity index, who has it now.
    present: Vec<Option<usize>>,
    /// By CPU, who runs there now.
    running: Vec<Option<EntityId>>,
    parents: BTreeMap<GroupId, (String, GroupId)>,
    /// Whose job was completed by the last event: what follows tells whether the next one begins at once.
    completed: Option<EntityId>,
}

impl Meter {
    /// A meter that has seen nothing.
    #[must_use]
    pub fn new() -> Meter {
        Meter::default()
    }

    /// Everybody who was ever there, in order of arrival.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The groups there were, their names and what all of each got together, with its subgroups. Entities count where
    /// they were last.
    #[must_use]
    pub fn groups(&self) -> Vec<(GroupId, String, Measures)> {
        let mut sums: BTreeMap<GroupId, Measures> =
            self.parents.keys().map(|&group| (group, Measures::default())).collect();
        for member in &self.members {
            let mut group = member.params.group;
            while let Some((_, parent)) = self.parents.get(&group) {
                if let Some(sum) = sums.get_mut(&group) {
                    sum.add(&member.got);
                }
                group = *parent;
            }
        }
        sums.into_iter().map(|(group, sum)| (group, self.parents[&group].0.clone(), sum)).collect()
    }

    /// What all got together.
    #[must_use]
    pub fn total(&self) -> Measures {
        let mut sum = Measures::default();
        self.members.iter().for_each(|member| sum.add(&member.got));
        sum
    }

    fn member(&mut self, entity: EntityId) -> Option<&mut Member> {
        let at = (*self.present.get(entity.index())?)?;
        Some(&mut self.members[at]).filter(|member| member.entity == entity)
    }

    fn on(&mut self, cpu: CpuId) -> Option<&mut Member> {
        let entity = (*self.running.get(cpu.index())?)?;
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

    fn run(&mut self, cpu: CpuId, entity: EntityId, now: Instant) {
        if self.running.len() <= cpu.index() {
            self.running.resize(cpu.index() + 1, None);
        }
        self.running[cpu.index()] = Some(entity);
        if let Some(member) = self.member(entity) {
            member.run(cpu, now);
        }
    }

    /// Who runs on `cpu` goes on, perhaps with its next job, or having blocked and woken at this instant.
    fn extend(&mut self, cpu: CpuId, now: Instant) {
        let Some(member) = self.on(cpu) else { return };
        member.end_wait(now);
        if !member.begun {
            member.dispatch();
        }
    }

    fn stop(&mut self, cpu: CpuId, entity: EntityId, now: Instant) {
        if let Some(member) = self.member(entity) {
            member.stop(now);
        }
        self.running[cpu.index()] = None;
    }

    /// A completion that neither a block nor a yield follows: the next job begins at once.
    fn go_on(&mut self, entity: EntityId, event: &Event) {
        let stops = match *event {
            Event::Block { cpu } | Event::Yield { cpu } => self.on(cpu).is_some_and(|on| on.entity == entity),
            _ => false,
        };
        // Who really blocks is seen to do so a moment later.
        let next = |member: &&mut Member| member.on.is_some() && !member.deadlines.is_empty();
        if let Some(member) = self.member(entity).filter(|member| !stops && next(member)) {
            member.dispatch();
        }
    }
}

impl Sink for Meter {
    fn record(&mut self, now: Instant, event: &Event) {
        if let Some(entity) = self.completed.take() {
            self.go_on(entity, event);
        }
        match *event {
            Event::GroupCreated { group, ref name, parent, .. } => {
                self.parents.insert(group, (name.clone(), parent));
            }
            Event::Attach { entity, ref name, ref params } => self.attach(entity, name, params, now),
            Event::Detach { entity } => self.detach(entity, now),
            Event::Run { cpu, entity, .. } => self.run(cpu, entity, now),
            Event::Extend { cpu, .. } => self.extend(cpu, now),
            Event::Stop { cpu, entity } => self.stop(cpu, entity, now),
            Event::Block { cpu } => {
                if let Some(member) = self.on(cpu) {
                    member.block(now);
                }
            }
            Event::Ran { cpu, time } => {
                if let Some(member) = self.on(cpu) {
                    member.ran(time, now);
                }
            }
            Event::End => self.members.iter_mut().filter(|it| it.left.is_none()).for_each(|it| it.finish(now)),
            Event::Adjust { entity, .. }
            | Event::Wake { entity, .. }
            | Event::Pause { entity }
            | Event::Release { entity, .. }
            | Event::Complete { entity }
            | Event::Background { entity, .. }
            | Event::Period { entity, .. }
            | Event::Woke { entity, .. }
            | Event::Held { entity, .. } => {
                if matches!(event, Event::Complete { .. }) {
                    self.completed = Some(entity);
                }
                if let Some(member) = self.member(entity) {
                    tell(member, event, now);
                }
            }
            // A group that is removed keeps what its members got; the rest changes nobody's state.
            _ => {}
        }
    }
}

/// What happens to one entity.
fn tell(member: &mut Member, event: &Event, now: Instant) {
    match event {
        Event::Adjust { params, .. } => member.adjust(params, now),
        Event::Wake { .. } => member.wake(now),
        Event::Pause { .. } => member.block(now),
        Event::Release { deadline, .. } => {
            member.got.jobs.releases += 1;
            member.deadlines.push(*deadline);
        }
        Event::Complete { .. } => member.complete(now),
        Event::Held { reasons, .. } => member.hold(*reasons != 0, now),
        Event::Woke { late, .. } => member.woke(*late),
        Event::Background { time, .. } => member.got.delivered += *time,
        Event::Period { due, delivered, throughout, .. } => member.period(*due, *delivered, *throughout),
        _ => unreachable!("only what happens to one entity is told"),
    }
}

#[cfg(test)]
mod tests;
