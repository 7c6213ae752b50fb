//! [`World`]: a machine to which everything happens, and its small driver in virtual time.

use super::options::Dice;
use super::{Options, Stats};
use sched::{
    Action, Alarm, Class, CpuId, CpuSet, EntityId, GroupId, GroupParams, Input, Instant, Kicks, Limit, Load, Machine,
    Nanos, Params, Quota, Reservation, RtPriority, State, Wake, Weight,
};
use sim::{Auditor, Expected};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use trace::{Event, Sink};

#[derive(Clone, Copy, Debug)]
struct Member {
    id: EntityId,
    woke: bool,
    paused: bool,
}

pub(super) struct World<'a> {
    options: &'a Options,
    dice: Dice,
    machine: Machine,
    auditor: Auditor,
    now: Instant,
    members: Vec<Member>,
    groups: Vec<GroupId>,
    /// How far below the root each group is.
    depths: BTreeMap<GroupId, u32>,
    /// When the driver will notice the end of each CPU's slice, and when a kick arrives there.
    ends: Vec<Instant>,
    kicks: Vec<Instant>,
    /// When it will deliver an alarm, by number.
    alarms: BTreeMap<usize, (Instant, Alarm)>,
    hasher: DefaultHasher,
    stats: Stats,
}

impl<'a> World<'a> {
    pub(super) fn new(options: &'a Options) -> Result<World<'a>, String> {
        let kicks = if options.kick.is_zero() { Kicks::Immediate } else { Kicks::Delivered };
        // Some knobs exclude each other; the policy says so, and then there is nothing to run.
        let knobs = match (options.policy.build)(&options.host, &options.knobs) {
            Ok(_) => options.knobs.clone(),
            Err(_) => options.policy.defaults(),
        };
        let machine =
            Machine::build(options.policy, options.host, &knobs, kicks).map_err(|refused| refused.to_string())?;
        let load = Load {
            host: &options.host,
            knobs: &knobs,
            entities: options.entities,
            weight_least: WEIGHTS.iter().copied().min().unwrap_or(1).into(),
            weight_most: WEIGHTS.iter().copied().max().unwrap_or(1).into(),
            group_depth: if options.groups { GROUP_DEPTH } else { 0 },
            has_rt: options.real_time,
            has_limits: options.groups && options.limits,
            has_changes: options.changes || options.pauses || options.arrivals,
            has_sleepers: options.blocks || options.pauses || options.arrivals,
            has_affinity: options.affinities,
        };
        // A CPU may be called, find its work taken, and another be called, each time as late as can be.
        let late = (options.kick + options.late).saturating_mul(4);
        let all_default = knobs.iter().all(|(knob, value)| knob.default == value);
        let starvation = (options.policy.starvation)(&load);
        let expected = Expected {
            conserving: (options.policy.conserving)(&load),
            // Every turn of everybody may come late.
            starvation: starvation.map(|bound| bound.saturating_add(late.saturating_mul(4 * options.entities))),
            // How far an account lags behind is known for the defaults; real-time entities have no quota.
            quotas: all_default
                && (options.policy.name == "cfs" || options.policy.name == "linux" && !options.real_time),
            caps: options.policy.name == "credit" && all_default,
            late,
        };
        Ok(World {
            options,
            dice: Dice::new(options.seed ^ 0x5eed),
            machine,
            auditor: Auditor::new(options.host, expected),
            now: Instant::ZERO,
            members: Vec::new(),
            groups: vec![GroupId::ROOT],
            depths: BTreeMap::new(),
            ends: vec![Instant::NEVER; options.host.cpus],
            kicks: vec![Instant::NEVER; options.host.cpus],
            alarms: BTreeMap::new(),
            hasher: DefaultHasher::new(),
            stats: Stats::default(),
        })
    }

    pub(super) fn run(mut self) -> Result<Stats, String> {
        if self.options.groups {
            (0..4).for_each(|_| self.create_group());
        }
        for _ in 0..self.options.entities.div_ceil(2) {
            self.attach();
        }
        self.settle();
        for _ in 0..self.options.steps {
            let pause = self.dice.span(Nanos::ms(30));
            self.pass(self.now + pause);
            for _ in 0..=self.dice.below(3) {
                self.happen();
            }
            self.settle();
            if self.auditor.count() > 0 {
                break;
            }
        }
        while let Some(member) = self.members.pop() {
            self.detach(member.id);
        }
        self.settle();
        self.show(&Event::End);
        self.stats.actions = self.hasher.finish();
        match self.auditor.findings().first() {
            None => Ok(self.stats),
            Some(first) => Err(format!("{first} ({} findings in all)", self.auditor.count())),
        }
    }

    // ---- The driver ----

    fn show(&mut self, event: &Event) {
        self.auditor.record(self.now, event);
    }

    fn input(&mut self, input: Input) {
        self.show(&input.into());
        self.stats.accepted += 1;
        self.machine.input(self.now, input);
    }

    fn settle(&mut self) {
        let actions = self.machine.settle(self.now).to_vec();
        for action in actions {
            (self.now.as_ns(), format!("{action:?}")).hash(&mut self.hasher);
            self.show(&action.into());
            match action {
                Action::Stop { cpu, .. } => self.ends[cpu.index()] = Instant::NEVER,
                Action::Run { cpu, until, .. } | Action::Extend { cpu, until } => {
                    let late = self.dice.span(self.options.late);
                    self.ends[cpu.index()] = until.saturating_add(late);
                }
                Action::Kick { cpu } => {
                    let delay = self.dice.span(self.options.kick);
                    self.kicks[cpu.index()] = self.now + delay;
                }
                Action::Held { .. } => {}
                Action::SetAlarm { alarm, number, at, .. } => {
                    let late = self.dice.span(self.options.late);
                    self.alarms.insert(number, (at + late, alarm));
                }
                Action::ClearAlarm { number, .. } => drop(self.alarms.remove(&number)),
            }
        }
    }

    /// Lets all that is due until `end` happen; then it is `end`.
    fn pass(&mut self, end: Instant) {
        loop {
            let timers = self.ends.iter().chain(&self.kicks).min().copied().unwrap_or(Instant::NEVER);
            let next = self.alarms.values().map(|&(at, _)| at).min().unwrap_or(Instant::NEVER).min(timers);
            if next > end {
                break;
            }
            self.now = next;
            for cpu in self.options.host.iter() {
                if self.ends[cpu.index()] == next {
                    self.ends[cpu.index()] = Instant::NEVER;
                    self.input(Input::Expire { cpu });
                }
            }
            for cpu in self.options.host.iter() {
                if self.kicks[cpu.index()] == next {
                    self.kicks[cpu.index()] = Instant::NEVER;
                    self.input(Input::Kicked { cpu });
                }
            }
            let due: Vec<_> =
                self.alarms.iter().filter(|(_, (at, _))| *at == next).map(|(&number, _)| number).collect();
            for number in due {
                if let Some((_, alarm)) = self.alarms.remove(&number) {
                    self.input(Input::Alarm { alarm });
                }
            }
            self.settle();
        }
        self.now = end;
    }

    // ---- What happens ----

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
        let members = self.members.iter().filter(|member| wanted(self.machine.state(member.id)));
        members.map(|member| member.id).collect()
    }

    fn member(&mut self, e: EntityId) -> &mut Member {
        self.members.iter_mut().find(|member| member.id == e).expect("it is a member")
    }

    fn wake(&mut self) {
        let blocked = self.in_state(|state| state == State::Blocked);
        let Some(e) = self.dice.choose(&blocked) else { return };
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
        self.input(Input::Wake { entity: e, why });
    }

    /// A CPU on which somebody runs.
    fn busy_cpu(&mut self) -> Option<CpuId> {
        let busy: Vec<_> = self.options.host.iter().filter(|&cpu| self.machine.running(cpu).is_some()).collect();
        self.dice.choose(&busy)
    }

    /// The end of the slice on `cpu` no longer matters: who ran there is off it.
    fn block(&mut self) {
        if let Some(cpu) = self.busy_cpu() {
            self.ends[cpu.index()] = Instant::NEVER;
            self.input(Input::Block { cpu });
        }
    }

    fn give_way(&mut self) {
        let Some(cpu) = self.busy_cpu() else { return };
        let waiting = self.in_state(|state| state == State::Waiting);
        match self.dice.choose(&waiting) {
            Some(to) if self.dice.one_in(2) => {
                self.input(Input::YieldTo { cpu, to });
                if self.machine.running(cpu).is_none() {
                    self.ends[cpu.index()] = Instant::NEVER;
                }
            }
            _ => {
                self.ends[cpu.index()] = Instant::NEVER;
                self.input(Input::Yield { cpu });
            }
        }
    }

    fn stop(&mut self, e: EntityId) {
        if let State::Running(cpu) = self.machine.state(e) {
            self.ends[cpu.index()] = Instant::NEVER;
        }
        self.input(Input::Pause { entity: e });
    }

    fn pause(&mut self) {
        let active = self.in_state(|state| state != State::Blocked);
        if let Some(e) = self.dice.choose(&active) {
            self.member(e).paused = true;
            self.stop(e);
        }
    }

    fn interrupt(&mut self) {
        let active = self.in_state(|state| state != State::Blocked);
        if let Some(entity) = self.dice.choose(&active) {
            self.input(Input::Event { entity });
        }
    }

    fn come_or_go(&mut self) {
        if self.dice.one_in(2) && (self.members.len() as u64) < self.options.entities {
            return self.attach();
        }
        if !self.members.is_empty() {
            let at = self.dice.below(self.members.len() as u64);
            let member = self.members.swap_remove(usize::try_from(at).expect("an index fits"));
            self.detach(member.id);
        }
    }

    fn attach(&mut self) {
        let params = self.params();
        match self.machine.attach(self.now, params) {
            Ok(id) => {
                self.stats.accepted += 1;
                self.show(&Event::Attach { entity: id, name: id.to_string(), params: Box::new(params) });
                self.members.push(Member { id, woke: false, paused: false });
            }
            Err(_) => self.stats.refused += 1,
        }
    }

    fn detach(&mut self, e: EntityId) {
        // Stopped first, so that all it ran has been charged. Law 5.
        self.stop(e);
        self.auditor.check_charged(e, self.machine.charged(e));
        self.stats.accepted += 1;
        self.machine.detach(self.now, e);
        self.show(&Event::Detach { entity: e });
    }

    fn adjust(&mut self) {
        let everybody: Vec<_> = self.members.iter().map(|member| member.id).collect();
        let Some(e) = self.dice.choose(&everybody) else { return };
        let wish = self.params();
        let mut params = *self.machine.params(e);
        match self.dice.below(5) {
            0 => params.weight = wish.weight,
            1 => params.affinity = wish.affinity,
            2 => params.class = wish.class,
            3 => params.group = wish.group,
            _ => params.reservation = wish.reservation,
        }
        let before = (*self.machine.params(e), self.machine.state(e));
        match self.machine.adjust(self.now, e, params) {
            Ok(()) => {
                self.stats.accepted += 1;
                self.show(&Event::Adjust { entity: e, params: Box::new(params) });
            }
            Err(_) => {
                self.stats.refused += 1;
                let after = (*self.machine.params(e), self.machine.state(e));
                assert_eq!(before, after, "what is refused changes nothing");
            }
        }
    }

    fn params(&mut self) -> Params {
        let dice = &mut self.dice;
        let mut params =
            Params { group: dice.choose(&self.groups).expect("the root is always there"), ..Params::default() };
        params.weight = dice.choose(&WEIGHTS).and_then(Weight::linux).expect("it is in range");
        if self.options.affinities && dice.one_in(2) {
            let cpus = self.options.host.iter().filter(|_| dice.one_in(2)).collect::<CpuSet>();
            params.affinity = if cpus.is_empty() { CpuSet::ALL } else { cpus };
        }
        if self.options.real_time && dice.one_in(4) {
            let urgency =
                RtPriority::new(u8::try_from(1 + dice.below(99)).expect("it is small")).expect("it is in range");
            params.class = if dice.one_in(2) { Class::Fifo(urgency) } else { Class::RoundRobin(urgency) };
        } else if dice.one_in(8) {
            params.class = if dice.one_in(2) { Class::Batch } else { Class::Idle };
        }
        if self.options.reservations && dice.one_in(2) {
            let period = Nanos::us(100) + dice.span(Nanos::ms(100));
            let slice = Nanos::ns(1) + dice.span(period.scale(1, 2));
            let limit = if dice.one_in(2) { Limit::Soft } else { Limit::Hard };
            let start = dice.one_in(8).then(|| self.now + dice.span(Nanos::ms(50)));
            params.reservation = Some(Reservation { slice, period, start, limit });
        }
        params
    }

    fn group_params(&mut self) -> GroupParams {
        let dice = &mut self.dice;
        let weight = dice.choose(&WEIGHTS).and_then(Weight::linux).expect("it is in range");
        let mut params = GroupParams { weight, ..GroupParams::default() };
        if self.options.limits && dice.one_in(2) {
            let quota = Nanos::ms(1 + dice.below(200));
            params.quota = Some(Quota::new(quota, Nanos::ms(10 + dice.below(90))).expect("it is in range"));
            params.cap_percent = Some(u32::try_from(5 + dice.below(200)).expect("it is small"));
        }
        params
    }

    fn create_group(&mut self) {
        let (params, parent) = (self.group_params(), self.dice.choose(&self.groups).expect("the root is always there"));
        let depth = self.depths.get(&parent).map_or(1, |depth| depth + 1);
        if self.groups.len() >= 8 || depth > GROUP_DEPTH {
            return;
        }
        match self.machine.create_group(self.now, params, parent) {
            Ok(group) => {
                self.stats.accepted += 1;
                self.groups.push(group);
                self.depths.insert(group, depth);
                self.show(&Event::GroupCreated { group, name: group.to_string(), parent, params });
            }
            Err(_) => self.stats.refused += 1,
        }
    }

    fn change_groups(&mut self) {
        let params = self.group_params();
        let group = self.dice.choose(&self.groups).expect("the root is always there");
        let answer = match self.dice.below(3) {
            0 => return self.create_group(),
            1 => self.machine.remove_group(self.now, group).map(|()| {
                self.groups.retain(|&other| other != group);
                Event::GroupRemoved { group }
            }),
            _ => self.machine.adjust_group(self.now, group, params).map(|()| Event::GroupAdjusted { group, params }),
        };
        match answer {
            Ok(event) => {
                self.stats.accepted += 1;
                self.show(&event);
            }
            Err(_) => self.stats.refused += 1,
        }
    }
}

/// Weights from a sixteenth to sixteen times the normal one, Linux's scale.
const WEIGHTS: [u32; 7] = [64, 335, 1024, 1024, 1024, 3121, 16_384];
/// How deep groups are nested at most.
const GROUP_DEPTH: u32 = 3;
