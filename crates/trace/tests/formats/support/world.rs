//! Worlds of two levels: one world written by hand, and random worlds with consistent levels.

use super::Random;
use sched::{Action, CpuId, EntityId, Input, Instant, Nanos, Wake};
use trace::{Event, Header, MachineHeader, MachineId, WorldHeader, WorldSink, WorldTrace};

pub const HOST: MachineId = MachineId(0);
pub const SHOP: MachineId = MachineId(1);
pub const BOOKS: MachineId = MachineId(2);

pub fn e(index: u32) -> EntityId {
    EntityId::new(index, 0)
}

pub fn machine(name: &str, policy: &str, cpus: usize, host: Option<MachineId>) -> MachineHeader {
    MachineHeader { name: name.into(), header: Header { policy: policy.into(), cpus, seed: 7 }, host }
}

/// A builder of traces. Events are on CPU 0 by default.
pub struct Story {
    pub trace: WorldTrace,
    pub now: Instant,
}

impl Story {
    pub fn new(machines: Vec<MachineHeader>) -> Story {
        Story { trace: WorldTrace::new(WorldHeader { machines }), now: Instant::ZERO }
    }

    pub fn at_ms(&mut self, ms: u64) -> &mut Story {
        self.now = Instant::ZERO + Nanos::ms(ms);
        self
    }

    pub fn say(&mut self, machine: MachineId, event: Event) -> &mut Story {
        self.trace.record(machine, self.now, &event);
        self
    }

    pub fn attach(&mut self, machine: MachineId, index: u32, name: &str) -> &mut Story {
        self.say(machine, Event::Attach { entity: e(index), name: name.into(), params: Box::default() })
    }

    pub fn vcpu(&mut self, host: MachineId, index: u32, guest: MachineId, cpu: usize) -> &mut Story {
        self.say(host, Event::Vcpu { entity: e(index), guest, cpu: CpuId::new(cpu) })
    }

    pub fn wake(&mut self, machine: MachineId, index: u32) -> &mut Story {
        self.say(machine, Event::Input(Input::Wake { entity: e(index), why: Wake::Timer }))
    }

    pub fn run_on(&mut self, machine: MachineId, cpu: usize, index: u32) -> &mut Story {
        self.say(machine, Event::Action(Action::Run { cpu: CpuId::new(cpu), entity: e(index), until: Instant::NEVER }))
    }

    pub fn run(&mut self, machine: MachineId, index: u32) -> &mut Story {
        self.run_on(machine, 0, index)
    }

    pub fn stop_on(&mut self, machine: MachineId, cpu: usize, index: u32) -> &mut Story {
        self.say(machine, Event::Action(Action::Stop { cpu: CpuId::new(cpu), entity: e(index) }))
    }

    pub fn stop(&mut self, machine: MachineId, index: u32) -> &mut Story {
        self.stop_on(machine, 0, index)
    }

    pub fn block(&mut self, machine: MachineId, index: u32) -> &mut Story {
        self.say(machine, Event::Input(Input::Block { cpu: CpuId::new(0) })).stop(machine, index)
    }

    pub fn freeze(&mut self, machine: MachineId) -> &mut Story {
        self.say(machine, Event::Input(Input::Freeze { cpu: CpuId::new(0), preempted: false }))
    }

    pub fn thaw(&mut self, machine: MachineId) -> &mut Story {
        self.say(machine, Event::Input(Input::Thaw { cpu: CpuId::new(0), stolen: Nanos::ZERO }))
    }
}

/// Returns the trace of two VMs with a vCPU each. The vCPUs take turns of 10 ms on the only CPU of a host, until one of
/// them blocks. In the first VM, an interactive task preempts a hog. The turn of the other VM interrupts the third job
/// of the interactive task, and the job is late.
pub fn two_levels() -> WorldTrace {
    let mut story = Story::new(vec![
        machine("host", "turns", 1, None),
        machine("shop", "eevdf", 1, Some(HOST)),
        machine("books", "round-robin", 1, Some(HOST)),
    ]);
    let release = |entity, ms| Event::Release { entity, deadline: Instant::ZERO + Nanos::ms(ms) };
    story.attach(HOST, 0, "shop/0").vcpu(HOST, 0, SHOP, 0).attach(HOST, 1, "books/0").vcpu(HOST, 1, BOOKS, 0);
    story.attach(SHOP, 0, "hog").attach(SHOP, 1, "shell").attach(BOOKS, 0, "scan");
    story.freeze(SHOP).freeze(BOOKS);
    story.wake(SHOP, 0).wake(HOST, 0).wake(BOOKS, 0).wake(HOST, 1).run(HOST, 0).thaw(SHOP).run(SHOP, 0);
    story.at_ms(4).say(SHOP, release(e(1), 9)).wake(SHOP, 1).stop(SHOP, 0).run(SHOP, 1);
    story.at_ms(6).say(SHOP, Event::Complete { entity: e(1) }).block(SHOP, 1).run(SHOP, 0);
    story.at_ms(10).stop(HOST, 0).run(HOST, 1).freeze(SHOP).thaw(BOOKS).run(BOOKS, 0);
    story.at_ms(20).stop(HOST, 1).run(HOST, 0).freeze(BOOKS).thaw(SHOP);
    story.say(SHOP, release(e(1), 25)).wake(SHOP, 1).stop(SHOP, 0).run(SHOP, 1);
    story.at_ms(22).say(SHOP, Event::Complete { entity: e(1) }).block(SHOP, 1).run(SHOP, 0);
    story.at_ms(29).say(SHOP, release(e(1), 35)).wake(SHOP, 1).stop(SHOP, 0).run(SHOP, 1);
    story.at_ms(30).stop(HOST, 0).run(HOST, 1).freeze(SHOP).thaw(BOOKS);
    story.at_ms(40).stop(HOST, 1).run(HOST, 0).freeze(BOOKS).thaw(SHOP);
    story.at_ms(41).say(SHOP, Event::Complete { entity: e(1) }).block(SHOP, 1).run(SHOP, 0);
    story.at_ms(50).stop(HOST, 0).run(HOST, 1).freeze(SHOP).thaw(BOOKS);
    story.at_ms(53).block(BOOKS, 0).block(HOST, 1).freeze(BOOKS).run(HOST, 0).thaw(SHOP);
    story.at_ms(60).say(HOST, Event::End);
    story.trace
}

/// A CPU of a guest.
struct Vcpu {
    guest: MachineId,
    cpu: usize,
    on: Option<usize>,
    halted: bool,
    task: Option<usize>,
}

struct Task {
    guest: MachineId,
    index: u32,
    /// Index of the task's vCPU among all vCPUs.
    on: Option<usize>,
    ready: bool,
}

struct Walk {
    random: Random,
    story: Story,
    seats: Vec<Option<usize>>,
    vcpus: Vec<Vcpu>,
    tasks: Vec<Task>,
}

/// Returns the random trace of one host and one to four guests. Both levels agree: a task of a guest runs only while
/// its vCPU runs.
pub fn walk(seed: u64, steps: usize) -> WorldTrace {
    let mut random = Random::new(seed);
    let (cpus, guests) = (1 + random.index(3), 1 + u32::try_from(random.below(4)).unwrap());
    let mut machines = vec![machine("host", "chaos", cpus, None)];
    let sizes: Vec<usize> = (0..guests).map(|_| 1 + random.index(3)).collect();
    machines.extend(sizes.iter().zip(1..).map(|(&size, n)| machine(&format!("vm{n}"), "chaos", size, Some(HOST))));
    let mut story = Story::new(machines);
    let (mut vcpus, mut tasks) = (Vec::new(), Vec::new());
    for (&size, guest) in sizes.iter().zip((1..).map(MachineId)) {
        for cpu in 0..size {
            let index = u32::try_from(vcpus.len()).unwrap();
            story.attach(HOST, index, &format!("{guest}/{cpu}")).vcpu(HOST, index, guest, cpu).wake(HOST, index);
            story.say(guest, Event::Input(Input::Freeze { cpu: CpuId::new(cpu), preempted: false }));
            vcpus.push(Vcpu { guest, cpu, on: None, halted: false, task: None });
        }
        for index in 0..3 {
            story.attach(guest, index, &format!("task{index}"));
            tasks.push(Task { guest, index, on: None, ready: false });
        }
    }
    let mut walk = Walk { random, story, seats: vec![None; cpus], vcpus, tasks };
    for _ in 0..steps {
        if !walk.random.chance(3) {
            walk.story.now += Nanos::ns(walk.random.below(1000));
        }
        if walk.random.chance(2) { walk.host() } else { walk.guest() }
    }
    let last = walk.random.below(guests.into());
    walk.story.now += Nanos::ns(1);
    walk.story.say(MachineId(u32::try_from(last).unwrap()), Event::End);
    walk.story.trace
}

impl Walk {
    fn host(&mut self) {
        let cpu = self.random.index(self.seats.len());
        if let Some(v) = self.seats[cpu].take() {
            let (guest, at) = (self.vcpus[v].guest, CpuId::new(self.vcpus[v].cpu));
            if self.vcpus[v].task.is_none() && self.random.chance(2) {
                self.vcpus[v].halted = true;
                self.story.say(HOST, Event::Input(Input::Block { cpu: CpuId::new(cpu) }));
            }
            self.story
                .stop_on(HOST, cpu, u32::try_from(v).unwrap())
                .say(guest, Event::Input(Input::Freeze { cpu: at, preempted: false }));
            self.vcpus[v].on = None;
        }
        let v = self.random.index(self.vcpus.len());
        let vcpu = &mut self.vcpus[v];
        if vcpu.on.is_some() || self.random.chance(4) {
            return;
        }
        let index = u32::try_from(v).unwrap();
        if std::mem::take(&mut vcpu.halted) {
            self.story.wake(HOST, index);
        }
        vcpu.on = Some(cpu);
        self.seats[cpu] = Some(v);
        self.story
            .run_on(HOST, cpu, index)
            .say(vcpu.guest, Event::Input(Input::Thaw { cpu: CpuId::new(vcpu.cpu), stolen: Nanos::ZERO }));
    }

    fn guest(&mut self) {
        let t = self.random.index(self.tasks.len());
        let Task { guest, index, on, ready } = self.tasks[t];
        if !ready {
            self.tasks[t].ready = true;
            self.story.wake(guest, index);
        } else if let Some(v) = on {
            if self.vcpus[v].on.is_none() {
                return;
            }
            let cpu = self.vcpus[v].cpu;
            if self.random.chance(2) {
                self.tasks[t].ready = false;
                self.story.say(guest, Event::Input(Input::Block { cpu: CpuId::new(cpu) }));
            }
            (self.tasks[t].on, self.vcpus[v].task) = (None, None);
            self.story.stop_on(guest, cpu, index);
        } else {
            let fit = |vcpu: &Vcpu| vcpu.guest == guest && vcpu.on.is_some() && vcpu.task.is_none();
            let Some(v) = self.vcpus.iter().position(fit) else { return };
            (self.tasks[t].on, self.vcpus[v].task) = (Some(v), Some(t));
            self.story.run_on(guest, self.vcpus[v].cpu, index);
        }
    }
}

/// Returns the trace with one to three faults: events lost, repeated, exchanged, delayed or assigned to another
/// machine.
pub fn damaged(random: &mut Random, mut trace: WorldTrace) -> WorldTrace {
    for _ in 0..=random.below(3) {
        let (at, other) = (random.index(trace.events.len()), random.index(trace.events.len()));
        match random.below(5) {
            0 => drop(trace.events.remove(at)),
            1 => trace.events.insert(at, trace.events[other].clone()),
            2 => {
                let (left, right) = (trace.events[at].2.clone(), trace.events[other].2.clone());
                (trace.events[at].2, trace.events[other].2) = (right, left);
            }
            3 => trace.events[at].0 = MachineId(u32::try_from(random.below(7)).unwrap()),
            _ => trace.events[at..].iter_mut().for_each(|(_, time, _)| *time = Instant::NEVER),
        }
    }
    trace
}
