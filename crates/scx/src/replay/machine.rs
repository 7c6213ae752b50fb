//! [`Replayed`]: the machine of the policy, which receives recorded events.

use super::attribution::Pair;
use super::comparison::Choice;
use crate::recording::{Header, What};
use input::problem::{Problem, Problems};
use sched::{
    Action, Alarm, AlarmOwner, CpuId, CpuSet, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Limit, Machine,
    Nanos, Params, Reservation, State, Topology, Wake,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of promises that one choice finds used up.
const USED_UP_MOST: usize = 1 << 12;

/// A promise of the recording.
struct Promise {
    entity: EntityId,
    home: CpuId,
    /// From this instant on, its time is charged in the kernel; `None`: it does not run.
    runs_since: Option<Instant>,
    /// Whether a period has begun and the thread has not come to the queue of its CPU since.
    is_under_way: bool,
    /// Time that the kernel has charged, and the machine has not: the thread ran while the machine ran another one.
    owed: Nanos,
    /// End of the last period whose slice the policy has ended.
    used_up: Option<Instant>,
    /// Index of the record at which kernel and policy have last agreed on a choice of this promise.
    agreed: usize,
    /// End of the period in which they have differed since, and the two records from which this follows.
    disputed: Option<(Instant, Pair)>,
}

/// The machine, with the promises of the recording.
pub(super) struct Replayed {
    machine: Machine,
    now: Instant,
    promises: BTreeMap<i32, Promise>,
    numbers: BTreeMap<EntityId, i32>,
    /// The promises that run in the kernel.
    runners: BTreeSet<i32>,
    /// The group of each gang, by any of its promises.
    gangs: BTreeMap<i32, GroupId>,
    /// Whether each CPU was kicked and has not chosen since.
    kicked: Vec<bool>,
    /// Since when a kicked CPU lets a promise with a slice wait.
    lets_wait: Vec<Option<(Instant, i32)>>,
    alarms: BTreeMap<Alarm, Instant>,
    due: BTreeSet<(Instant, Alarm)>,
}

/// Returns a reservation with a limit or without.
pub(super) fn reservation(slice: Nanos, period: Nanos, is_hard: bool) -> Reservation {
    let limit = if is_hard { Limit::Hard } else { Limit::Soft };
    Reservation { limit, ..Reservation::new(slice, period) }
}

impl Replayed {
    pub(super) fn new(header: &Header) -> Result<Replayed, Problems> {
        let unknown = || {
            let problem = Problem::new(format!("the policy {} of the recording has no port", header.policy));
            problem.help("replay it with the version of Tactus that has recorded it")
        };
        let port = port::find(&header.policy).ok_or_else(unknown)?;
        let policy = policies::find(port.name).ok_or_else(unknown)?;
        let knobs = port.policy_knobs().map_err(|error| Problem::new(error.to_string()))?;
        let machine = Machine::build(policy, Topology::new(header.cpus), &knobs, Kicks::Delivered);
        Ok(Replayed {
            machine: machine.map_err(|refused| Problem::new(refused.to_string()))?,
            now: Instant::ZERO,
            promises: BTreeMap::new(),
            numbers: BTreeMap::new(),
            runners: BTreeSet::new(),
            gangs: BTreeMap::new(),
            kicked: vec![false; header.cpus],
            lets_wait: vec![None; header.cpus],
            alarms: BTreeMap::new(),
            due: BTreeSet::new(),
        })
    }

    /// Passes the time up to `now`, and charges what the kernel has charged.
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.now);
        self.now = now;
        for runner in &self.runners {
            let promise = self.promises.get_mut(runner).expect("a runner has begun");
            let since = promise.runs_since.replace(now).expect("a runner runs");
            // Without a slice, nothing is charged.
            if has_slice(&self.machine, promise) {
                promise.owed += now.saturating_since(since);
            }
        }
        for cpu in self.machine.topology().iter() {
            let Some(entity) = self.machine.running(cpu) else { continue };
            let promise = self.promises.get_mut(&self.numbers[&entity]).expect("an entity has a promise");
            let time = promise.owed.min(elapsed);
            promise.owed = promise.owed.saturating_sub(time);
            self.machine.input(now, Input::Ran { cpu, time });
        }
    }

    /// Makes the decisions of this instant that need no choice of the kernel.
    pub(super) fn settle(&mut self) {
        for action in self.machine.settle(self.now) {
            match *action {
                Action::Kick { cpu } => self.kicked[cpu.index()] = true,
                Action::SetAlarm { alarm, at, .. } => {
                    if let Some(before) = self.alarms.insert(alarm, at) {
                        self.due.remove(&(before, alarm));
                    }
                    self.due.insert((at, alarm));
                }
                Action::ClearAlarm { alarm } => {
                    if let Some(before) = self.alarms.remove(&alarm) {
                        self.due.remove(&(before, alarm));
                    }
                }
                _ => {}
            }
        }
        for cpu in self.machine.topology().iter() {
            let waiting = if self.kicked[cpu.index()] { self.waiting_on(cpu) } else { None };
            let lets_wait = &mut self.lets_wait[cpu.index()];
            match waiting {
                Some(number) => drop(lets_wait.get_or_insert((self.now, number))),
                None => *lets_wait = None,
            }
        }
    }

    /// Returns a promise with a slice that waits for its CPU.
    fn waiting_on(&self, cpu: CpuId) -> Option<i32> {
        let waits = |(_, promise): &(&i32, &Promise)| {
            let state = self.machine.state(promise.entity);
            promise.home == cpu && state == State::Waiting && has_slice(&self.machine, promise)
        };
        self.promises.iter().find(waits).map(|(number, _)| *number)
    }

    // ---- Events ----

    pub(super) fn begin(
        &mut self,
        number: i32,
        reservation: Reservation,
        home: usize,
        gang: i32,
        index: usize,
    ) -> Result<(), Problems> {
        let refused = |refused: sched::Refused| {
            let problem = Problem::new(format!("the policy refuses promise {number} of the recording: {refused}"));
            problem.help("record again with promises that fit")
        };
        let group = match self.gangs.get(&gang) {
            _ if gang == 0 => GroupId::ROOT,
            Some(group) => *group,
            None => {
                let params = GroupParams { gang: true, ..GroupParams::default() };
                self.machine.create_group(self.now, params, GroupId::ROOT).map_err(refused)?
            }
        };
        if gang != 0 {
            self.gangs.insert(number, group);
        }
        // The kernel has assigned the promise already.
        let home = CpuId::new(home);
        let affinity = CpuSet::one(home);
        let params = Params { reservation: Some(reservation), affinity, group, ..Params::default() };
        let entity = self.machine.attach(self.now, params).map_err(refused)?;
        self.numbers.insert(entity, number);
        let promise = Promise {
            entity,
            home,
            runs_since: None,
            is_under_way: false,
            owed: Nanos::ZERO,
            used_up: None,
            agreed: index,
            disputed: None,
        };
        self.promises.insert(number, promise);
        Ok(())
    }

    /// Passes an event of a promise on. Returns whether it can happen in the present state of the promise.
    pub(super) fn happens(&mut self, number: i32, what: What) -> bool {
        let (now, entity) = (self.now, self.promises[&number].entity);
        let input = match (what, self.machine.state(entity)) {
            (What::Wake, State::Blocked) => Input::Wake { entity, why: Wake::Interrupt },
            (What::Sleep, State::Running(_) | State::Waiting) => Input::Pause { entity },
            (What::Yield, State::Running(cpu)) => Input::Yield { cpu },
            // The timer of a sibling may begin the period just before.
            (What::Renew, _) => Input::Alarm { alarm: period_end(entity) },
            _ => return false,
        };
        if let Input::Alarm { alarm } = input
            && let Some(before) = self.alarms.remove(&alarm)
        {
            self.due.remove(&(before, alarm));
        }
        let period = deadline_of(&self.machine, entity);
        if matches!(what, What::Yield) {
            self.promise(number).used_up = Some(period);
        }
        self.machine.input(now, input);
        if deadline_of(&self.machine, entity) != period {
            // What was charged in the last period does not count in this one.
            self.promise(number).owed = Nanos::ZERO;
        }
        self.promise(number).is_under_way = what == What::Renew;
        self.follow(number);
        true
    }

    /// The thread of a promise has come to the queue of its CPU.
    pub(super) fn come(&mut self, number: i32) {
        self.promise(number).is_under_way = false;
    }

    pub(super) fn run(&mut self, number: i32) {
        self.runners.insert(number);
        self.promise(number).runs_since = Some(self.now);
        self.follow(number);
    }

    /// A period has begun while the thread ran without a slice, or was on its way to a CPU. The kernel charges it before this CPU
    /// chooses, so the machine runs it from now on, if it would choose it. A thread that runs for another reason without a
    /// choice is a difference.
    fn follow(&mut self, number: i32) {
        let promise = &self.promises[&number];
        if !promise.is_under_way {
            return;
        }
        let (home, entity) = (promise.home, promise.entity);
        let is_charged = promise.runs_since.is_some() && has_slice(&self.machine, promise);
        if !is_charged || self.machine.running(home) == Some(entity) {
            return;
        }
        self.settle();
        if std::mem::take(&mut self.kicked[home.index()]) {
            self.machine.input(self.now, Input::Kicked { cpu: home });
            self.settle();
        }
    }

    pub(super) fn stop(&mut self, number: i32) {
        self.runners.remove(&number);
        self.promise(number).runs_since = None;
    }

    fn promise(&mut self, number: i32) -> &mut Promise {
        self.promises.get_mut(&number).expect("the recording begins it before")
    }

    // ---- Choices ----

    /// A CPU of the kernel chooses. Returns what the policy chooses.
    pub(super) fn choose(&mut self, cpu: usize) -> Option<Choice> {
        let (now, on) = (self.now, CpuId::new(cpu));
        let before = self.machine.running(on);
        if std::mem::take(&mut self.kicked[cpu]) {
            self.machine.input(now, Input::Kicked { cpu: on });
        } else if self.machine.running(on).is_some() && self.machine.until(on) <= now {
            self.machine.input(now, Input::Expire { cpu: on });
        }
        self.settle();
        if let Some(entity) = before.filter(|&entity| self.machine.running(on) != Some(entity)) {
            self.note_used_up(entity);
        }
        for _ in 0..USED_UP_MOST {
            let entity = self.machine.running(on)?;
            let choice = self.choice_of(entity);
            if self.promises[&choice.promise].used_up == Some(deadline_of(&self.machine, entity)) {
                return None;
            }
            if choice.left_ns > 0 {
                return Some(choice);
            }
            // The slice was used up before the time slice of the machine ends.
            self.promise(choice.promise).used_up = Some(deadline_of(&self.machine, entity));
            self.machine.input(now, Input::Yield { cpu: on });
            self.settle();
        }
        None
    }

    /// Notes that the slice of a promise, which has stopped, is used up, if it is.
    fn note_used_up(&mut self, entity: EntityId) {
        let state = self.machine.promise(entity).expect("it has a reservation");
        if state.remaining <= 0 {
            let number = self.numbers[&entity];
            self.promise(number).used_up = Some(state.deadline);
        }
    }

    fn choice_of(&self, entity: EntityId) -> Choice {
        let number = self.numbers[&entity];
        let state = self.machine.promise(entity).expect("it has a reservation");
        let owed = i64::try_from(self.promises[&number].owed.as_ns()).unwrap_or(i64::MAX);
        Choice { promise: number, deadline_ns: state.deadline.as_ns(), left_ns: state.remaining.saturating_sub(owed) }
    }

    /// Kernel and policy have chosen the same.
    pub(super) fn agree(&mut self, numbers: &[i32], index: usize) {
        for number in numbers {
            let promise = self.promise(*number);
            promise.agreed = index;
            // While it owes time, the rules of a sleep and of a wake-up find another account than in the kernel.
            if promise.owed.is_zero() {
                promise.disputed = None;
            }
        }
    }

    /// Kernel and policy differ on these promises, because of these two records.
    pub(super) fn dispute(&mut self, numbers: &[i32], pair: Pair) {
        for number in numbers {
            if let Some(promise) = self.promises.get_mut(number) {
                promise.disputed = Some((deadline_of(&self.machine, promise.entity), pair));
            }
        }
    }

    /// Returns the two records because of which kernel and policy have differed on the promise of this choice, in the same
    /// period, and have had different accounts since.
    pub(super) fn disputed(&self, choice: &Choice) -> Option<Pair> {
        let (period, pair) = self.promises.get(&choice.promise)?.disputed?;
        (period.as_ns() == choice.deadline_ns).then_some(pair)
    }

    /// Returns the index of the record at which kernel and policy last agreed on this promise.
    pub(super) fn agreed(&self, number: i32) -> usize {
        self.promises.get(&number).map_or(0, |promise| promise.agreed)
    }

    // ---- What is late ----

    /// Returns since when a choice of the CPU is due, if it is late, and the promise that it concerns.
    pub(super) fn late_choice(&self, cpu: usize, is_late: impl Fn(Instant) -> bool) -> Option<(Instant, i32)> {
        let on = CpuId::new(cpu);
        if let Some(entity) = self.machine.running(on)
            && is_late(self.machine.until(on))
            && self.promises[&self.numbers[&entity]].used_up != Some(deadline_of(&self.machine, entity))
            && self.choice_of(entity).left_ns <= 0
        {
            return Some((self.machine.until(on), self.numbers[&entity]));
        }
        self.lets_wait[cpu].filter(|(since, _)| is_late(*since))
    }

    /// Returns the periods that should have begun and are late, with their promises and CPUs.
    pub(super) fn late_periods(&self, is_late: impl Fn(Instant) -> bool) -> Vec<(Instant, i32, usize)> {
        let late = self.due.iter().take_while(|(at, _)| is_late(*at));
        let promise = |(at, alarm): &(Instant, Alarm)| {
            let AlarmOwner::Entity(entity) = alarm.owner else { return None };
            let number = *self.numbers.get(&entity)?;
            Some((*at, number, self.promises[&number].home.index()))
        };
        late.filter_map(promise).collect()
    }
}

fn deadline_of(machine: &Machine, entity: EntityId) -> Instant {
    machine.promise(entity).expect("it has a reservation").deadline
}

/// Whether a promise has a slice left in its period.
fn has_slice(machine: &Machine, promise: &Promise) -> bool {
    let state = machine.promise(promise.entity).expect("it has a reservation");
    state.remaining > 0 && promise.used_up != Some(state.deadline)
}

/// The alarm of `edf` at the end of a period.
const fn period_end(entity: EntityId) -> Alarm {
    Alarm { owner: AlarmOwner::Entity(entity), slot: 0 }
}
