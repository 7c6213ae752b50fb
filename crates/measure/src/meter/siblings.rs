//! [`Siblings`]: sibling delays, from the trace of a run. A sibling delay is a time for which a member of a gang waits
//! while another member runs.

use sched::{Action, CpuId, EntityId, GroupId, Input, Instant};
use std::collections::BTreeMap;
use trace::Durations;
use trace::{Event, Sink};

/// A member of a group.
#[derive(Clone, Copy, Debug)]
struct Sibling {
    entity: EntityId,
    group: GroupId,
    runnable: bool,
    runs: bool,
}

impl Sibling {
    fn waits(&self) -> bool {
        self.runnable && !self.runs
    }
}

/// A group that is marked as a gang.
#[derive(Clone, Debug, Default)]
struct Gang {
    running: u32,
    /// Start of the delay of each member that waits while another member runs, by entity index.
    waiting: BTreeMap<usize, Instant>,
    delays: Durations,
}

impl Gang {
    fn ends(&mut self, since: Instant, (from, now): (Instant, Instant)) {
        let delay = now.saturating_since(since.max(from));
        // A zero delay is not counted: several events at one instant count as one event.
        if !delay.is_zero() {
            self.delays.record(delay);
        }
    }
}

/// Measures *sibling delays* as a [`Sink`]. A sibling delay is a time for which a member of a gang wants to run but
/// waits while another member runs. The delay begins when both conditions hold and ends when either condition ends.
/// With asynchronous scheduling, such delays hold up threads that wait for each other. Poris (Wu et al.), section 3.2,
/// defines the lag within a VM and between the VMs of a group. Equations 5 to 7 of Poris bound this lag. The
/// measurements are complete after [`Event::End`].
#[derive(Debug, Default)]
pub struct Siblings {
    /// Start of the measurement. Delays, and parts of delays, before this instant are not counted.
    from: Instant,
    /// Parent of each group.
    parents: BTreeMap<GroupId, GroupId>,
    gangs: BTreeMap<GroupId, Gang>,
    /// For each entity index, the attached entity with this index.
    present: Vec<Option<Sibling>>,
    /// Running entity of each CPU.
    running: Vec<Option<EntityId>>,
}

impl Siblings {
    /// Returns a sink that has recorded no event, and excludes everything before `from`.
    #[must_use]
    pub fn from(from: Instant) -> Siblings {
        Siblings { from, ..Siblings::default() }
    }

    /// Returns the sibling delays of each group that is marked as a gang.
    pub fn gangs(&self) -> impl Iterator<Item = (GroupId, &Durations)> {
        self.gangs.iter().map(|(&group, gang)| (group, &gang.delays))
    }

    fn on(&self, cpu: CpuId) -> Option<EntityId> {
        self.running.get(cpu.index()).copied().flatten()
    }

    fn put(&mut self, cpu: CpuId, entity: Option<EntityId>) {
        if self.running.len() <= cpu.index() {
            self.running.resize(cpu.index() + 1, None);
        }
        self.running[cpu.index()] = entity;
    }

    /// Returns the gangs among `group` and its ancestors.
    fn gangs_of(&self, group: GroupId) -> Vec<GroupId> {
        let mut all = Vec::new();
        let mut next = Some(group);
        while let Some(group) = next {
            if self.gangs.contains_key(&group) {
                all.push(group);
            }
            next = self.parents.get(&group).copied();
        }
        all
    }

    fn change(&mut self, entity: EntityId, now: Instant, change: impl FnOnce(&mut Sibling)) {
        let found = self.present.get_mut(entity.index()).and_then(Option::as_mut);
        let Some(sibling) = found.filter(|it| it.entity == entity) else { return };
        let before = *sibling;
        change(sibling);
        let after = *sibling;
        for group in self.gangs_of(after.group) {
            self.count(group, (before, after), now);
        }
    }

    fn count(&mut self, group: GroupId, (before, after): (Sibling, Sibling), now: Instant) {
        let time = (self.from, now);
        let Some(gang) = self.gangs.get_mut(&group) else { return };
        gang.running += u32::from(after.runs);
        gang.running -= u32::from(before.runs);
        let index = after.entity.index();
        if gang.running == 0 {
            for since in std::mem::take(&mut gang.waiting).into_values() {
                gang.ends(since, time);
            }
        } else if before.waits() && !after.waits() {
            if let Some(since) = gang.waiting.remove(&index) {
                gang.ends(since, time);
            }
        } else if after.waits() {
            gang.waiting.entry(index).or_insert(now);
        }
        if after.runs && !before.runs && gang.running == 1 {
            let waits = |it: &&Sibling| it.waits() && within(&self.parents, it.group, group);
            gang.waiting.extend(self.present.iter().flatten().filter(waits).map(|it| (it.entity.index(), now)));
        }
    }

    fn attach(&mut self, entity: EntityId, group: GroupId) {
        if self.present.len() <= entity.index() {
            self.present.resize(entity.index() + 1, None);
        }
        self.present[entity.index()] = Some(Sibling { entity, group, runnable: false, runs: false });
    }

    fn leave(&mut self, entity: EntityId, now: Instant) {
        self.change(entity, now, |it| (it.runnable, it.runs) = (false, false));
        if let Some(place) = self.present.get_mut(entity.index()) {
            *place = None;
        }
    }
}

/// Returns whether `inner` is `outer` or one of its descendants.
fn within(parents: &BTreeMap<GroupId, GroupId>, inner: GroupId, outer: GroupId) -> bool {
    let mut next = Some(inner);
    while let Some(group) = next {
        if group == outer {
            return true;
        }
        next = parents.get(&group).copied();
    }
    false
}

impl Sink for Siblings {
    fn record(&mut self, now: Instant, event: &Event) {
        match *event {
            Event::GroupCreated { group, parent, ref params, .. } => {
                self.parents.insert(group, parent);
                if params.gang {
                    self.gangs.insert(group, Gang::default());
                }
            }
            Event::Attach { entity, ref params, .. } => self.attach(entity, params.group),
            Event::Detach { entity } => self.leave(entity, now),
            Event::Input(Input::Wake { entity, .. }) => self.change(entity, now, |it| it.runnable = true),
            Event::Input(Input::Pause { entity }) => self.change(entity, now, |it| it.runnable = false),
            Event::Input(Input::Block { cpu }) => {
                if let Some(entity) = self.on(cpu) {
                    self.change(entity, now, |it| it.runnable = false);
                }
            }
            Event::Action(Action::Run { cpu, entity, .. }) => {
                self.put(cpu, Some(entity));
                self.change(entity, now, |it| it.runs = true);
            }
            Event::Action(Action::Stop { cpu, entity }) => {
                self.put(cpu, None);
                self.change(entity, now, |it| it.runs = false);
            }
            Event::End => {
                let there: Vec<EntityId> = self.present.iter().flatten().map(|it| it.entity).collect();
                there.into_iter().for_each(|entity| self.leave(entity, now));
            }
            // Other events change no entity's state.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{GroupParams, Nanos, Params, Wake};

    const GANG: GroupId = GroupId::new(1, 0);
    const VM: GroupId = GroupId::new(2, 0);

    fn entity(n: u32) -> EntityId {
        EntityId::new(n, 0)
    }

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    /// Returns a sink that has recorded two members of a gang and an entity outside the gang; all are runnable. One of
    /// the members belongs to a VM in the gang.
    fn two_and_another() -> Siblings {
        let mut siblings = Siblings::from(Instant::ZERO);
        let group = |group, parent, gang| Event::GroupCreated {
            group,
            name: "g".to_string(),
            parent,
            params: Box::new(GroupParams { gang, ..GroupParams::default() }),
        };
        siblings.record(ms(0), &group(GANG, GroupId::ROOT, true));
        siblings.record(ms(0), &group(VM, GANG, false));
        for (n, group) in [(0, GANG), (1, VM), (2, GroupId::ROOT)] {
            let params = Params { group, ..Params::default() };
            siblings
                .record(ms(0), &Event::Attach { entity: entity(n), name: "e".to_string(), params: Box::new(params) });
            siblings.record(ms(0), &Event::Input(Input::Wake { entity: entity(n), why: Wake::Timer }));
        }
        siblings
    }

    fn run(cpu: u32, n: u32) -> Event {
        Event::Action(Action::Run { cpu: CpuId::new(cpu as usize), entity: entity(n), until: Instant::NEVER })
    }

    fn stop(cpu: u32, n: u32) -> Event {
        Event::Action(Action::Stop { cpu: CpuId::new(cpu as usize), entity: entity(n) })
    }

    fn delays(siblings: &Siblings) -> (u64, Nanos, Nanos) {
        let (_, delays) = siblings.gangs().next().unwrap();
        (delays.count(), delays.total(), delays.longest())
    }

    #[test]
    fn a_member_that_waits_while_another_runs_is_delayed() {
        let mut siblings = two_and_another();
        for (at, event) in [(1, run(0, 0)), (1, run(1, 2)), (6, stop(1, 2)), (6, run(1, 1)), (8, stop(0, 0))] {
            siblings.record(ms(at), &event);
        }
        // Entity 1 is delayed from 1 to 6 ms. Entity 0 is delayed from 8 ms until entity 1 stops at 9 ms.
        siblings.record(ms(9), &stop(1, 1));
        siblings.record(ms(30), &Event::End);
        assert_eq!(delays(&siblings), (2, Nanos::ms(6), Nanos::ms(5)));
    }

    #[test]
    fn a_member_that_sleeps_or_runs_with_its_siblings_is_not_delayed() {
        let mut siblings = two_and_another();
        for (at, event) in [(1, run(0, 0)), (1, run(1, 1)), (6, Event::Input(Input::Block { cpu: CpuId::new(1) }))] {
            siblings.record(ms(at), &event);
        }
        siblings.record(ms(6), &stop(1, 1));
        siblings.record(ms(7), &run(1, 2));
        siblings.record(ms(30), &Event::End);
        assert_eq!(delays(&siblings).0, 0);
    }
}
