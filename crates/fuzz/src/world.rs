//! [`World`]: the inputs of a machine in a fuzz run, and the guarantees that the run must satisfy.

use super::dice::Dice;
use super::driver::{Driver, Lateness, Meter};
use super::options::{GROUP_DEPTH, Options};
use super::outcome::Run;
use super::requests;
use sched::{CpuId, EntityId, GroupId, Input, Kicks, Machine, Nanos, Notice, State, Wake};
use sim::Auditor;
use sim::auditor::{Delays, Promises};
use std::collections::BTreeMap;

/// Maximum number of groups, including the root.
const GROUPS_MOST: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Member {
    id: EntityId,
    woke: bool,
    paused: bool,
}

/// A machine and its entities.
#[derive(Debug)]
pub(super) struct World<'a> {
    options: &'a Options,
    dice: Dice,
    driver: Driver<'a>,
    members: Vec<Member>,
    groups: Vec<GroupId>,
    /// Depth of each group below the root, which has depth 0 and no entry.
    depths: BTreeMap<GroupId, u32>,
}

impl<'a> World<'a> {
    pub(super) fn new(options: &'a Options, meter: Option<Meter<'a>>) -> Result<World<'a>, String> {
        let kicks = if options.lateness.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
        let machine = Machine::build(options.policy, options.host, &options.knobs, kicks);
        let machine = machine.map_err(|refused| refused.to_string())?;
        let auditor = Auditor::new(options.host, promises(options));
        Ok(World {
            options,
            dice: Dice::new(options.seed ^ 0x5eed),
            driver: Driver::new(machine, auditor, options.lateness, options.seed ^ 0x1a7e).metered(meter),
            members: Vec::new(),
            groups: vec![GroupId::ROOT],
            depths: BTreeMap::new(),
        })
    }

    pub(super) fn run(mut self) -> Result<Run, String> {
        if self.options.groups {
            (0..4).for_each(|_| self.create_group());
        }
        for _ in 0..self.options.entities.div_ceil(2) {
            self.attach();
        }
        self.driver.settle();
        for _ in 0..self.options.steps {
            let pause = self.dice.span(Nanos::ms(30));
            self.driver.pass(self.driver.now() + pause);
            self.instant();
            if !self.driver.auditor().verdict().is_clean() {
                break;
            }
        }
        self.driver.finish();
        while let Some(member) = self.members.pop() {
            self.driver.detach(member.id);
        }
        self.driver.settle();
        let verdict = self.driver.auditor().verdict();
        if !verdict.is_clean() {
            return Err(verdict.to_string());
        }
        let (accepted, refused) = (self.driver.accepted(), self.driver.refused());
        Ok(Run { accepted, refused, log: self.driver.into_log() })
    }

    /// Passes one to five random inputs or changes to the machine at one instant, before or after the due events.
    fn instant(&mut self) {
        let due_first = self.dice.one_in(2);
        if due_first {
            self.driver.deliver();
        }
        for _ in 0..=self.dice.below(4) {
            self.happen();
            if self.dice.one_in(4) {
                self.driver.settle();
            }
        }
        self.driver.deliver();
        self.driver.settle();
    }

    // ---- Inputs ----

    fn happen(&mut self) {
        let Options { changes, arrivals, blocks, pauses, yields, groups, .. } = *self.options;
        match self.dice.below(12) {
            0..=3 => self.wake(),
            4 | 5 if blocks => self.block(),
            6 if yields => self.give_way(),
            7 if pauses => self.pause(),
            8 if changes => self.adjust(),
            9 if arrivals => self.come_or_go(),
            10 if groups && changes => self.change_groups(),
            11 => self.interrupt(),
            _ => self.wake(),
        }
    }

    fn in_state(&self, wanted: impl Fn(State) -> bool) -> Vec<EntityId> {
        let machine = self.driver.machine();
        let members = self.members.iter().filter(|member| wanted(machine.state(member.id)));
        members.map(|member| member.id).collect()
    }

    fn member(&mut self, e: EntityId) -> &mut Member {
        self.members.iter_mut().find(|member| member.id == e).expect("it is a member")
    }

    fn wake(&mut self) {
        let blocked = self.in_state(|state| state == State::Blocked);
        if let Some(e) = self.dice.choose(&blocked) {
            self.wake_up(e);
        }
    }

    fn wake_up(&mut self, e: EntityId) {
        let running = self.in_state(|state| matches!(state, State::Running(_)));
        let (another, sync) = (self.dice.choose(&running), self.dice.one_in(2));
        let Member { woke, paused, .. } = *self.member(e);
        let why = match (woke, paused, self.dice.below(3), another) {
            (false, ..) => Wake::New { parent: another },
            (_, true, ..) => Wake::Resumed,
            (_, _, 0, Some(waker)) => Wake::By { waker, sync },
            (_, _, 1, _) => Wake::Interrupt,
            _ => Wake::Timer,
        };
        let member = self.member(e);
        (member.woke, member.paused) = (true, false);
        self.driver.input(Input::Wake { entity: e, why });
        // A synchronous waker blocks in two of three cases.
        if let Wake::By { waker, sync: true } = why
            && self.options.blocks
            && let State::Running(cpu) = self.driver.machine().state(waker)
            && !self.dice.one_in(3)
        {
            self.driver.input(Input::Block { cpu });
        }
    }

    /// Returns a random CPU on which an entity runs.
    fn busy_cpu(&mut self) -> Option<CpuId> {
        let machine = self.driver.machine();
        let busy: Vec<_> = self.options.host.iter().filter(|&cpu| machine.running(cpu).is_some()).collect();
        self.dice.choose(&busy)
    }

    fn block(&mut self) {
        if let Some(cpu) = self.busy_cpu() {
            self.driver.input(Input::Block { cpu });
        }
    }

    fn give_way(&mut self) {
        let Some(cpu) = self.busy_cpu() else { return };
        let waiting = self.in_state(|state| state == State::Waiting);
        match self.dice.choose(&waiting) {
            Some(to) if self.dice.one_in(2) => self.driver.input(Input::YieldTo { cpu, to }),
            _ => self.driver.input(Input::Yield { cpu }),
        }
    }

    fn pause(&mut self) {
        let active = self.in_state(|state| state != State::Blocked);
        if let Some(e) = self.dice.choose(&active) {
            self.member(e).paused = true;
            self.driver.input(Input::Pause { entity: e });
        }
    }

    fn interrupt(&mut self) {
        let active = self.in_state(|state| state != State::Blocked);
        if let Some(entity) = self.dice.choose(&active) {
            let what = match self.dice.one_in(2) {
                true => Notice::Interrupt,
                false => Notice::SpinWait { waited: self.dice.span(Nanos::ms(30)) },
            };
            self.driver.input(Input::Event { entity, what });
        }
    }

    // ---- Changes ----

    fn come_or_go(&mut self) {
        if self.dice.one_in(2) && (self.members.len() as u64) < self.options.entities {
            return self.attach();
        }
        if !self.members.is_empty() {
            let at = self.dice.below(self.members.len() as u64);
            let member = self.members.swap_remove(usize::try_from(at).expect("an index fits"));
            // A paused entity has no uncharged time, so `detach` can compare its CPU time with the auditor's.
            if self.dice.one_in(2) {
                self.driver.input(Input::Pause { entity: member.id });
            }
            self.driver.detach(member.id);
        }
    }

    fn attach(&mut self) {
        let params = requests::params(self.options, &self.groups, self.driver.now(), &mut self.dice);
        let Some(id) = self.driver.attach(params) else { return };
        self.members.push(Member { id, woke: false, paused: false });
        // In a calm run, every entity is runnable from the start.
        if self.options.is_calm() {
            self.wake_up(id);
        }
    }

    fn adjust(&mut self) {
        let members: Vec<_> = self.members.iter().map(|member| member.id).collect();
        let Some(e) = self.dice.choose(&members) else { return };
        let old = *self.driver.machine().params(e);
        let params = requests::changed(self.options, &self.groups, self.driver.now(), old, &mut self.dice);
        self.driver.adjust(e, params);
    }

    fn create_group(&mut self) {
        let params = requests::group_params(self.options, &mut self.dice);
        let parent = self.dice.choose(&self.groups).expect("the root is always there");
        let depth = self.depths.get(&parent).map_or(1, |depth| depth + 1);
        if self.groups.len() >= GROUPS_MOST || depth > GROUP_DEPTH {
            return;
        }
        if let Some(group) = self.driver.create_group(params, parent) {
            self.groups.push(group);
            self.depths.insert(group, depth);
        }
    }

    fn change_groups(&mut self) {
        let params = requests::group_params(self.options, &mut self.dice);
        let group = self.dice.choose(&self.groups).expect("the root is always there");
        match self.dice.below(3) {
            0 => self.create_group(),
            1 if self.driver.remove_group(group) => self.groups.retain(|&other| other != group),
            1 => {}
            _ => drop(self.driver.adjust_group(group, params)),
        }
    }
}

// ---- Guarantees ----

fn promises(options: &Options) -> Promises {
    let Lateness { kick, alarm, slice } = options.lateness;
    let late = kick + alarm + slice;
    Promises {
        reservations: options.reservation_bound(),
        ..Promises::of(options.policy, &options.load(), Delays { late, turn: late })
    }
}
