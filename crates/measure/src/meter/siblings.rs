//! [`Siblings`]: sibling delays and start skews, from the trace of a run. A sibling delay is a time for which a member of
//! a gang waits while another member runs. A start skew is the time between the starts of the members in a period.

use super::starts::Starts;
use sched::{Action, CpuId, EntityId, GroupId, Input, Instant, Params};
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
    starts: Starts,
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
/// defines the lag within a VM and between the VMs of a group. Equations 5 to 7 of Poris bound this lag.
///
/// Measures *start skews* of gangs with reservations, too. The members of a gang have common periods, from the start of
/// the first member on. A member starts in a period when it first runs there, or at the beginning of the period if it
/// runs at that time. The start skew of a period is the time from the first start to the last, over the members that
/// were runnable from the beginning of the period until their start. A member without a start counts with the end of the
/// period. A period with fewer than two such members has no start skew.
///
/// The measurements are complete after [`Event::End`].
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

    /// Returns the start skews of each gang whose members have reservations: one duration per period.
    pub fn start_skews(&self) -> impl Iterator<Item = (GroupId, &Durations)> {
        self.gangs.iter().filter_map(|(&group, gang)| Some((group, gang.starts.skews()?)))
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
            self.advance(group, now, before);
            self.count(group, (before, after), now);
        }
    }

    /// Begins the period of a gang that contains `now`. `before` is the state of a member that changes now.
    fn advance(&mut self, group: GroupId, now: Instant, before: Sibling) {
        let Some(gang) = self.gangs.get_mut(&group).filter(|gang| gang.starts.is_over(now)) else { return };
        let members = self.present.iter().flatten().filter(|it| within(&self.parents, it.group, group));
        let states = members.map(|it| if it.entity == before.entity { &before } else { it });
        gang.starts.begin(self.from, now, states.map(|it| (it.entity.index(), it.runnable, it.runs)));
    }

    fn count(&mut self, group: GroupId, (before, after): (Sibling, Sibling), now: Instant) {
        let time = (self.from, now);
        let Some(gang) = self.gangs.get_mut(&group) else { return };
        gang.running += u32::from(after.runs);
        gang.running -= u32::from(before.runs);
        let index = after.entity.index();
        gang.starts.change(index, now, after.runnable, after.runs);
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

    fn attach(&mut self, entity: EntityId, params: &Params, now: Instant) {
        let group = params.group;
        // The periods of a gang follow one another from the start of its first member.
        for gang in self.gangs_of(group) {
            let is_first = !self.present.iter().flatten().any(|it| within(&self.parents, it.group, gang));
            if let (Some(gang), Some(reservation)) = (self.gangs.get_mut(&gang), &params.reservation) {
                gang.starts.promise(reservation, now, is_first);
            }
        }
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

    /// Applies new parameters of `entity`. An entity that moves to another group leaves its gangs.
    fn adjust(&mut self, entity: EntityId, params: &Params, now: Instant) {
        let found = self.present.get(entity.index()).copied().flatten();
        let Some(before) = found.filter(|it| it.entity == entity) else { return };
        if before.group == params.group {
            for gang in self.gangs_of(params.group) {
                if let (Some(gang), Some(reservation)) = (self.gangs.get_mut(&gang), &params.reservation) {
                    gang.starts.promise(reservation, now, false);
                }
            }
            return;
        }
        self.leave(entity, now);
        self.attach(entity, params, now);
        self.change(entity, now, |it| (it.runnable, it.runs) = (before.runnable, before.runs));
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
            Event::Attach { entity, ref params, .. } => self.attach(entity, params, now),
            Event::Adjust { entity, ref params } => self.adjust(entity, params, now),
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
    use sched::{GroupParams, Nanos, Params, Reservation, Wake};

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

    /// Returns the start skews of a gang of two members with a period of 10 ms, in which these events occur, in ms.
    fn skews(events: &[(u64, Event)]) -> (u64, Nanos, Nanos) {
        let mut siblings = Siblings::from(ms(20));
        let params = Box::new(GroupParams { gang: true, ..GroupParams::default() });
        let (group, parent) = (GANG, GroupId::ROOT);
        siblings.record(ms(0), &Event::GroupCreated { group, name: "g".to_string(), parent, params });
        let reservation = Some(Reservation::new(Nanos::ms(2), Nanos::ms(10)));
        for n in 0..2 {
            let params = Box::new(Params { group: GANG, reservation, ..Params::default() });
            siblings.record(ms(0), &Event::Attach { entity: entity(n), name: "e".to_string(), params });
            siblings.record(ms(0), &wake(n));
        }
        events.iter().for_each(|(at, event)| siblings.record(ms(*at), event));
        let (_, skews) = siblings.start_skews().next().unwrap();
        (skews.count(), skews.total(), skews.longest())
    }

    fn wake(n: u32) -> Event {
        Event::Input(Input::Wake { entity: entity(n), why: Wake::Timer })
    }

    /// The period before 20 ms is not measured.
    #[test]
    fn the_start_skew_of_a_period_is_the_time_between_the_starts_of_its_runnable_members() {
        let both = |at: u64, later: u64| {
            [(at, run(0, 0)), (later, run(1, 1)), (later + 2, stop(0, 0)), (later + 2, stop(1, 1))]
        };
        let next = [(40, stop(0, 0))];
        let all = [&both(11, 17)[..], &both(21, 22), &both(31, 34), &next].concat();
        assert_eq!(skews(&all), (2, Nanos::ms(4), Nanos::ms(3)));
        // A member that runs at the beginning of a period starts there.
        let over = [(15, run(0, 0)), (23, run(1, 1)), (24, stop(0, 0)), (24, stop(1, 1)), (30, run(0, 0))];
        assert_eq!(skews(&over), (1, Nanos::ms(3), Nanos::ms(3)));
        let stopped = [(15, run(0, 0)), (20, stop(0, 0)), (22, run(0, 0)), (23, run(1, 1)), (30, stop(0, 0))];
        assert_eq!(skews(&stopped), (1, Nanos::ms(1), Nanos::ms(1)));
        // A member without a start counts with the end of the period.
        let never = [(11, run(0, 0)), (12, stop(0, 0)), (24, run(0, 0)), (25, stop(0, 0)), (30, run(0, 0))];
        assert_eq!(skews(&never), (1, Nanos::ms(6), Nanos::ms(6)));
        assert_eq!(skews(&[(11, run(0, 0)), (12, stop(0, 0)), (45, run(0, 0)), (51, run(1, 1))]).0, 1, "40 to 50 ms");
    }

    #[test]
    fn a_member_that_sleeps_at_the_beginning_of_a_period_has_no_start_skew() {
        let block = |cpu| Event::Input(Input::Block { cpu: CpuId::new(cpu) });
        let asleep = [
            (11, run(0, 0)),
            (11, run(1, 1)),
            (12, block(1)),
            (12, stop(1, 1)),
            (13, stop(0, 0)),
            (21, run(0, 0)),
            (25, wake(1)),
            (25, run(1, 1)),
            (30, stop(0, 0)),
        ];
        assert_eq!(skews(&asleep).0, 0);
    }

    #[test]
    fn members_that_move_to_another_gang_have_its_periods() {
        let other = GroupId::new(5, 0);
        let params = Box::new(GroupParams { gang: true, ..GroupParams::default() });
        let created = Event::GroupCreated { group: other, name: "h".to_string(), parent: GroupId::ROOT, params };
        let adjusted = |n| {
            let reservation = Some(Reservation::new(Nanos::ms(2), Nanos::ms(20)));
            let params = Box::new(Params { group: other, reservation, ..Params::default() });
            Event::Adjust { entity: entity(n), params }
        };
        let mut siblings = two_and_another();
        for (at, event) in [
            (3, created),
            (3, adjusted(0)),
            (3, adjusted(1)),
            (25, run(0, 0)),
            (29, run(1, 1)),
            (30, stop(0, 0)),
            (30, stop(1, 1)),
            (43, run(0, 0)),
        ] {
            siblings.record(ms(at), &event);
        }
        let of: Vec<(GroupId, u64, Nanos)> =
            siblings.start_skews().map(|(group, skews)| (group, skews.count(), skews.total())).collect();
        assert_eq!(of, [(other, 1, Nanos::ms(4))], "the period from 23 to 43 ms");
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
