//! Traces of a machine under a policy that makes random decisions within the laws. Each trace comes with the true
//! states of the entities.

use super::Random;
use sched::{
    AlarmSlots, CpuId, Cx, Decision, EntityId, Held, Input, Instant, Kicks, Machine, Nanos, Notice, Params, Policy,
    Refused, StopReason, Stopped, Topology, Wake,
};
use trace::timeline::State;
use trace::{Event, Header, Sink, Trace};

/// A policy that picks, idles, kicks and holds at random.
struct Chaos {
    random: Random,
    all: Vec<EntityId>,
    waiting: Vec<EntityId>,
}

impl Chaos {
    fn kick_random_cpu(&mut self, cx: &mut Cx<'_>) {
        let cpu = CpuId::new(self.random.index(cx.topology().cpus));
        cx.kick(cpu);
    }
}

impl Policy for Chaos {
    fn attach(&mut self, e: EntityId, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.all.push(e);
        Ok(())
    }

    fn detach(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.all.retain(|&other| other != e);
    }

    fn adjust(&mut self, _e: EntityId, _old: &Params, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn wake(&mut self, e: EntityId, _why: Wake, cx: &mut Cx<'_>) {
        self.waiting.push(e);
        self.kick_random_cpu(cx);
    }

    fn sleep(&mut self, e: EntityId, _cx: &mut Cx<'_>) {
        self.waiting.retain(|&other| other != e);
    }

    fn charge(&mut self, _e: EntityId, _ran: Nanos, _cx: &mut Cx<'_>) {}

    fn yield_to(&mut self, _from: EntityId, _to: EntityId, _cx: &mut Cx<'_>) -> bool {
        self.random.chance(2)
    }

    fn plan(&mut self, cx: &mut Cx<'_>) {
        if !self.all.is_empty() && self.random.chance(3) {
            let (e, why) = (self.random.pick(&self.all), self.random.pick(&Held::ALL));
            if self.random.chance(2) { cx.hold(e, why) } else { cx.release(e, why) }
        }
        if self.random.chance(3) {
            self.kick_random_cpu(cx);
        }
    }

    fn put(&mut self, _cpu: CpuId, prev: Stopped, _cx: &mut Cx<'_>) {
        if prev.why != StopReason::Blocked {
            self.waiting.push(prev.entity);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let fit: Vec<EntityId> =
            self.waiting.iter().copied().filter(|&e| cx.may_run(e, cpu) && !cx.is_held(e)).collect();
        if fit.is_empty() || self.random.chance(5) {
            return Decision::IDLE;
        }
        let e = self.random.pick(&fit);
        self.waiting.retain(|&other| other != e);
        if self.random.chance(3) {
            return Decision::forever(e);
        }
        Decision::until(e, cx.now() + Nanos::ns(1 + self.random.below(3000)))
    }
}

/// The true states from an instant until the next entry.
#[derive(Debug)]
pub struct Truth {
    pub at: Instant,
    /// Attached entities and their states. `State::Held(0)` stands for every held state.
    pub states: Vec<(EntityId, State)>,
}

/// A trace, and the true states after each instant of the trace, in order.
#[derive(Debug)]
pub struct Walk {
    pub trace: Trace,
    pub truths: Vec<Truth>,
    /// CPU time of every entity attached at the end, according to the machine.
    pub charged: Vec<(EntityId, Nanos)>,
}

struct Walker {
    random: Random,
    machine: Machine,
    trace: Trace,
    now: Instant,
    present: Vec<EntityId>,
    open_jobs: Vec<EntityId>,
}

/// Runs `steps` random steps on a random machine.
pub fn walk(seed: u64, steps: usize) -> Walk {
    let mut random = Random::new(seed);
    let cpus = 1 + random.index(4);
    let kicks = random.pick(&[Kicks::Immediate, Kicks::Delivered]);
    let policy = Chaos { random: Random::new(random.next()), all: Vec::new(), waiting: Vec::new() };
    let machine = Machine::new(Box::new(policy), AlarmSlots::NONE, Topology::new(cpus), kicks);
    let trace = Trace::new(Header { policy: "chaos".into(), cpus, seed });
    let mut walker = Walker { random, machine, trace, now: Instant::ZERO, present: Vec::new(), open_jobs: Vec::new() };
    let mut truths: Vec<Truth> = Vec::new();
    for _ in 0..steps {
        if !walker.random.chance(4) {
            walker.now += Nanos::ns(walker.random.below(1000));
        }
        for _ in 0..walker.random.below(4) {
            walker.step();
        }
        walker.settle();
        let truth = walker.truth();
        truths.pop_if(|last| last.at == truth.at);
        truths.push(truth);
    }
    walker.trace.record(walker.now, &Event::End);
    // A pause charges the CPU time of each entity up to the end. The trace has ended, so the pauses are not recorded.
    for &e in &walker.present {
        walker.machine.input(walker.now, Input::Pause { entity: e });
    }
    let charged = walker.present.iter().map(|&e| (e, walker.machine.charged(e))).collect();
    Walk { trace: walker.trace, truths, charged }
}

impl Walker {
    fn input(&mut self, input: Input) {
        self.trace.record(self.now, &input.into());
        self.machine.input(self.now, input);
    }

    fn settle(&mut self) {
        let actions = self.machine.settle(self.now).to_vec();
        for action in actions {
            self.trace.record(self.now, &action.into());
        }
    }

    fn truth(&self) -> Truth {
        let state = |&e: &EntityId| match self.machine.state(e) {
            sched::State::Running(cpu) => (e, State::Running(cpu)),
            sched::State::Blocked => (e, State::Blocked),
            sched::State::Waiting if self.machine.is_held(e) => (e, State::Held(0)),
            sched::State::Waiting => (e, State::Waiting),
        };
        Truth { at: self.now, states: self.present.iter().map(state).collect() }
    }

    fn step(&mut self) {
        let cpu = CpuId::new(self.random.index(self.machine.topology().cpus));
        let runs_there = self.machine.running(cpu);
        match self.random.below(12) {
            0 if self.present.len() < 8 => self.attach(),
            1 if self.random.chance(4) => self.detach(),
            2 if runs_there.is_some() => self.input(Input::Block { cpu }),
            3 if runs_there.is_some() => self.input(Input::Yield { cpu }),
            4 if runs_there.is_some() && self.machine.until(cpu) <= self.now => self.input(Input::Expire { cpu }),
            5 => self.input(Input::Kicked { cpu }),
            6 if runs_there.is_some() => {
                let to = self.random.pick(&self.present);
                self.input(Input::YieldTo { cpu, to });
            }
            _ if self.present.is_empty() => self.attach(),
            7 => {
                let entity = self.random.pick(&self.present);
                self.input(Input::Pause { entity });
            }
            8 => self.job(),
            _ => {
                let entity = self.random.pick(&self.present);
                match self.machine.state(entity) {
                    sched::State::Blocked => self.input(Input::Wake { entity, why: Wake::Timer }),
                    _ => self.input(Input::Event { entity, what: Notice::Interrupt }),
                }
            }
        }
    }

    fn attach(&mut self) {
        let params = Params::default();
        let entity = self.machine.attach(self.now, params).unwrap();
        self.trace.record(self.now, &Event::Attach { entity, name: format!("vm{entity}"), params: Box::new(params) });
        self.present.push(entity);
    }

    fn detach(&mut self) {
        let Some(index) = self.present.len().checked_sub(1).map(|last| self.random.index(last + 1)) else { return };
        let entity = self.present.swap_remove(index);
        self.open_jobs.retain(|&owner| owner != entity);
        self.machine.detach(self.now, entity);
        self.trace.record(self.now, &Event::Detach { entity });
    }

    fn job(&mut self) {
        let entity = self.random.pick(&self.present);
        let open = self.open_jobs.iter().position(|&owner| owner == entity);
        if let Some(index) = open
            && self.random.chance(2)
        {
            self.open_jobs.swap_remove(index);
            self.trace.record(self.now, &Event::Complete { entity });
        } else {
            let deadline = self.now + Nanos::ns(self.random.below(5000));
            self.open_jobs.push(entity);
            self.trace.record(self.now, &Event::Release { entity, deadline });
        }
    }
}

/// Returns the trace with one to three faults: events lost, repeated, exchanged or delayed.
pub fn damaged(random: &mut Random, mut trace: Trace) -> Trace {
    for _ in 0..=random.below(3) {
        let (at, other) = (random.index(trace.events.len()), random.index(trace.events.len()));
        match random.below(4) {
            0 => drop(trace.events.remove(at)),
            1 => trace.events.insert(at, trace.events[other].clone()),
            2 => {
                let (left, right) = (trace.events[at].1.clone(), trace.events[other].1.clone());
                (trace.events[at].1, trace.events[other].1) = (right, left);
            }
            _ => trace.events[at..].iter_mut().for_each(|(time, _)| *time = Instant::NEVER),
        }
    }
    trace
}
