//! Tests of the fair class between a more urgent and a less urgent class.

use super::*;
use sched::{
    Alarm, AlarmBase, Cx, Decision, GroupChange, Kicks, Machine, Policy, Refused, RtPriority, StopReason, Stopped,
};

/// A policy that runs SCHED_FIFO tasks above or below CFS. Each of these tasks runs on the lowest CPU in its affinity.
struct Stack {
    fair: Box<dyn Policy>,
    /// Class of the SCHED_FIFO tasks: 0 (above CFS) or 2 (below CFS).
    other: u8,
    waiting: Vec<Vec<EntityId>>,
}

impl Stack {
    const ABOVE: u8 = 0;
    const FAIR: u8 = 1;
    const BELOW: u8 = 2;

    fn world(host: Topology, other: u8) -> World {
        let knobs = POLICY.defaults();
        let fair = (POLICY.build)(&host, &knobs).unwrap();
        let policy = Stack { fair, other, waiting: vec![Vec::new(); host.cpus] };
        let machine = Machine::new(Box::new(policy), POLICY.alarms, host, Kicks::Immediate);
        let record = Rc::new(RefCell::new(Record::new(host.cpus)));
        let mut sim = sim::Driver::around(machine, Costs::NONE);
        sim.watch(Box::leak(Box::new(Recorder(Rc::clone(&record)))));
        World { host: sim, record }
    }

    fn is_other(e: EntityId, cx: &Cx<'_>) -> bool {
        cx.class_of(e) != Stack::FAIR
    }

    fn push(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let cpu = cx.allowed(e).first().unwrap();
        self.waiting[cpu.index()].push(e);
        cx.kick(cpu);
    }
}

impl Policy for Stack {
    fn attach(&mut self, e: EntityId, cx: &mut Cx<'_>) -> Result<(), Refused> {
        if cx.params(e).class.rt_priority().is_some() {
            cx.classify(e, self.other);
            return Ok(());
        }
        cx.classify(e, Stack::FAIR);
        self.fair.attach(e, &mut cx.as_class(Stack::FAIR, AlarmBase::default()))
    }

    fn detach(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if !Stack::is_other(e, cx) {
            self.fair.detach(e, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
        }
    }

    fn adjust(&mut self, _e: EntityId, _old: &Params, _cx: &mut Cx<'_>) -> Result<(), Refused> {
        Err(Refused::Unsupported { reason: "not needed here", remedy: "" })
    }

    fn group(&mut self, g: GroupId, change: GroupChange<'_>, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.fair.group(g, change, &mut cx.as_class(Stack::FAIR, AlarmBase::default()))
    }

    fn wake(&mut self, e: EntityId, why: Wake, cx: &mut Cx<'_>) {
        if Stack::is_other(e, cx) {
            self.push(e, cx);
        } else {
            self.fair.wake(e, why, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
        }
    }

    fn sleep(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        if Stack::is_other(e, cx) {
            self.waiting.iter_mut().for_each(|waiting| waiting.retain(|&other| other != e));
        } else {
            self.fair.sleep(e, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
        }
    }

    fn charge(&mut self, e: EntityId, ran: Nanos, cx: &mut Cx<'_>) {
        if !Stack::is_other(e, cx) {
            self.fair.charge(e, ran, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
        }
    }

    fn alarm(&mut self, alarm: Alarm, cx: &mut Cx<'_>) {
        self.fair.alarm(alarm, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
    }

    fn put(&mut self, cpu: CpuId, prev: Stopped, cx: &mut Cx<'_>) {
        if !Stack::is_other(prev.entity, cx) {
            self.fair.put(cpu, prev, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
        } else if prev.why != StopReason::Blocked {
            self.waiting[cpu.index()].insert(0, prev.entity);
        }
    }

    fn pick(&mut self, cpu: CpuId, cx: &mut Cx<'_>) -> Decision {
        let other = self.waiting[cpu.index()].first().copied();
        if self.other == Stack::BELOW || other.is_none() {
            let slice = self.fair.pick(cpu, &mut cx.as_class(Stack::FAIR, AlarmBase::default()));
            if slice.run.is_some() || other.is_none() {
                return slice;
            }
        }
        Decision::forever(self.waiting[cpu.index()].remove(0))
    }

    fn inspect(&self, e: EntityId, show: &mut dyn FnMut(&'static str, i64)) {
        self.fair.inspect(e, show);
    }
}

fn fifo() -> Params {
    class(Class::Fifo(RtPriority::new(1).unwrap()))
}

#[test]
fn no_fair_task_preempts_another_class_or_is_charged_for_it() {
    let mut world = Stack::world(Topology::new(1), Stack::ABOVE);
    let urgent = world.scripted(fifo());
    let [fair, sleeper] = [0, 0].map(|n| world.scripted(nice(n)));
    world.wake(fair);
    world.until_ms(10);
    world.wake(urgent);
    world.until_ms(20);
    world.wake(sleeper);
    world.until_ms(30);
    assert_eq!(world.running(0), Some(urgent));
    world.host.block(CpuId::new(0));
    world.settle();
    assert_eq!(world.vruntime(fair), ms(10));
    assert_eq!(world.running(0), Some(sleeper), "it slept while the other ran");
    world.until_ms(100);
    assert_eq!(world.ran(urgent), Nanos::ms(20));
    assert_eq!(world.ran(fair) + world.ran(sleeper), Nanos::ms(80));
}

#[test]
fn work_behind_another_class_is_pulled_by_idle_cpus() {
    let mut world = Stack::world(Topology::new(2), Stack::ABOVE);
    let [fair, blocker] = [0, 1].map(|cpu| world.scripted(on(&[cpu], nice(0))));
    let free = world.scripted(nice(0));
    world.wake(fair);
    world.wake(blocker);
    world.until_ms(10);
    world.wake(free);
    world.until_ms(30);
    let there = usize::try_from(world.cpu_of(free)).unwrap();
    let urgent = [0, 1].map(|cpu| world.scripted(on(&[cpu], fifo())));
    world.wake(urgent[there]);
    world.until_ms(31);
    // The other CPU becomes idle. `free`, which waits behind the urgent task, migrates to that CPU within the slack.
    let other = 1 - there;
    world.host.pause(if other == 0 { fair } else { blocker });
    world.until_ms(36);
    assert_eq!((world.running(there), world.running(other)), (Some(urgent[there]), Some(free)));
}

#[test]
fn a_lone_task_behind_another_class_is_pulled_as_well() {
    let mut world = Stack::world(Topology::new(2), Stack::ABOVE);
    let alone = world.scripted(nice(0));
    let urgent = world.scripted(on(&[0], fifo()));
    world.wake(alone);
    world.until_ms(10);
    assert_eq!(world.running(0), Some(alone));
    world.wake(urgent);
    world.until_ms(15);
    assert_eq!((world.running(0), world.running(1)), (Some(urgent), Some(alone)));
}

#[test]
fn a_task_that_wakes_behind_another_class_is_pulled_by_an_idle_cpu() {
    // Each CPU has its own cache, so the wake-up does not find the idle CPU 1.
    let mut world = Stack::world(Topology { cpus: 2, smt: 1, llc: 1 }, Stack::ABOVE);
    let urgent = world.scripted(on(&[0], fifo()));
    let e = world.scripted(nice(0));
    world.wake(urgent);
    world.until_ms(10);
    world.wake(e);
    world.settle();
    assert_eq!((world.cpu_of(e), world.running(1)), (0, None));
    world.until_ms(12);
    assert_eq!(world.running(1), Some(e));
}

#[test]
fn above_another_class_a_wakee_takes_its_cpu_at_once() {
    let mut world = Stack::world(Topology::new(2), Stack::BELOW);
    let below = [0, 1].map(|cpu| world.scripted(on(&[cpu], fifo())));
    below.into_iter().for_each(|e| world.wake(e));
    let [busy, e] = [0, 0].map(|n| world.scripted(nice(n)));
    world.until_ms(10);
    assert_eq!((world.running(0), world.running(1)), (Some(below[0]), Some(below[1])));
    world.wake(busy);
    world.settle();
    assert_eq!(world.running(0), Some(busy));
    world.wake(e);
    world.settle();
    assert_eq!(world.running(1), Some(e), "CPU 1 is as good as idle");
    world.host.block(CpuId::new(1));
    world.settle();
    assert_eq!(world.running(1), Some(below[1]));
}
