//! The smallest driver there can be: a machine, its alarms and its clock, for tests that want to decide everything else.

use sched::{
    Action, Alarm, CpuId, Descriptor, EntityId, GroupId, GroupParams, Host, Input, Instant, Kicks, Knobs, Limit,
    Machine, Nanos, Params, Quota, Reservation, RtPriority, State, Wake, Weight,
};
use std::collections::BTreeMap;

pub(crate) struct Driver {
    pub(crate) machine: Machine,
    pub(crate) now: Instant,
    pub(crate) alarms: BTreeMap<usize, (Instant, Alarm)>,
}

impl Driver {
    pub(crate) fn new(policy: &Descriptor, host: Host, knobs: &Knobs) -> Driver {
        let machine = Machine::build(policy, host, knobs, Kicks::Immediate).expect("it takes these knobs");
        Driver { machine, now: Instant::ZERO, alarms: BTreeMap::new() }
    }

    pub(crate) fn group(&mut self) -> GroupId {
        let quota = Some(Quota::new(Nanos::ms(5), Nanos::ms(10)).expect("it is in range"));
        let params = GroupParams { quota, cap_percent: Some(40), ..GroupParams::default() };
        self.machine.create_group(self.now, params, GroupId::ROOT).expect("it can have a group")
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.machine.input(self.now, input);
    }

    pub(crate) fn settle(&mut self) {
        for action in self.machine.settle(self.now) {
            match *action {
                Action::SetAlarm { alarm, number, at, .. } => drop(self.alarms.insert(number, (at, alarm))),
                Action::ClearAlarm { number, .. } => drop(self.alarms.remove(&number)),
                _ => {}
            }
        }
    }

    /// The next slice end or alarm, after now.
    pub(crate) fn next(&self) -> Instant {
        let ends = self.machine.host().iter().map(|cpu| self.machine.until(cpu));
        let alarms = self.alarms.values().map(|&(at, _)| at);
        ends.chain(alarms).min().unwrap_or(Instant::NEVER)
    }

    /// Delivers all that is due by now: slice ends, then alarms.
    pub(crate) fn deliver(&mut self) {
        for cpu in self.machine.host().iter() {
            if self.machine.running(cpu).is_some() && self.machine.until(cpu) <= self.now {
                self.input(Input::Expire { cpu });
            }
        }
        while let Some((&number, &(_, alarm))) = self.alarms.iter().find(|(_, (at, _))| *at <= self.now) {
            self.alarms.remove(&number);
            self.input(Input::Alarm { alarm });
        }
    }

    /// Lets what is due next happen; says whether anything was.
    pub(crate) fn step(&mut self) -> bool {
        let next = self.next();
        if next == Instant::NEVER {
            return false;
        }
        self.now = next.max(self.now);
        self.deliver();
        self.settle();
        true
    }

    pub(crate) fn wake(&mut self, entity: EntityId) {
        self.input(Input::Wake { entity, why: Wake::Timer });
    }

    pub(crate) fn waits(&self, e: EntityId) -> bool {
        self.machine.state(e) == State::Waiting && !self.machine.is_held(e)
    }

    pub(crate) fn busy(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.machine.host().iter().filter(|&cpu| self.machine.running(cpu).is_some())
    }
}

/// Parameters that make the features of every policy matter: weights, reservations, a real-time class.
pub(crate) fn params(policy: &Descriptor, i: usize, group: GroupId) -> Params {
    let reservation =
        |slice, period, limit| Reservation { slice: Nanos::ms(slice), period: Nanos::ms(period), start: None, limit };
    let reservation = match i % 3 {
        0 => Some(reservation(1, 10, Limit::Hard)),
        1 => Some(reservation(2, 7, Limit::Soft)),
        _ => None,
    };
    let urgency = RtPriority::new(10).expect("it is in range");
    let class = match (policy.name, i % 3) {
        ("linux", 1) => sched::Class::RoundRobin(urgency),
        _ => sched::Class::Normal,
    };
    let weight =
        [Weight::NORMAL, Weight::nice(5).expect("it is in range"), Weight::nice(-5).expect("it is in range")][i % 3];
    let group = if i.is_multiple_of(2) { group } else { GroupId::ROOT };
    Params { weight, reservation: reservation.filter(|_| i < 12), class, group, ..Params::default() }
}
