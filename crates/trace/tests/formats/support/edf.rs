//! Consistent traces for the tests: periodic virtual machines on a few CPUs, scheduled by earliest deadline first or in
//! turns.

use sched::{Action, CpuId, EntityId, Input, Instant, Limit, Nanos, Params, Reservation, Wake};
use trace::{Event, Header, Sink, Trace};

/// A virtual machine that needs `slice` in every `period`, from `arrival` on.
#[derive(Clone, Copy, Debug)]
pub struct Vm {
    pub name: &'static str,
    pub period: Nanos,
    pub slice: Nanos,
    pub arrival: Nanos,
}

/// The order in which tasks run.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// The task with the earliest deadline first.
    Deadline,
    /// The tasks take turns of at most this duration. A free CPU goes to the task that has waited longest.
    Turns(Nanos),
}

/// Figure 2 of the VSched paper: (period, slice) of (50, 20), (100, 10) and (1000, 300) ms, arriving at 0, 30 and 60
/// ms.
pub const FIGURE_2: [Vm; 3] = [
    Vm { name: "VM1", period: Nanos::ms(50), slice: Nanos::ms(20), arrival: Nanos::ZERO },
    Vm { name: "VM2", period: Nanos::ms(100), slice: Nanos::ms(10), arrival: Nanos::ms(30) },
    Vm { name: "VM3", period: Nanos::ms(1000), slice: Nanos::ms(300), arrival: Nanos::ms(60) },
];

struct Task {
    vm: Vm,
    id: EntityId,
    next_release: Instant,
    /// Deadline and remaining work of each open job, oldest first.
    open: Vec<(Instant, Nanos)>,
    on: Option<CpuId>,
    /// Sequence number of the last wake-up, dispatch or end of a turn. The task with the lowest number has waited
    /// longest.
    turn: u64,
    turn_end: Instant,
}

struct Run {
    trace: Trace,
    now: Instant,
    tasks: Vec<Task>,
    turns: u64,
    order: Order,
}

/// Returns the trace of `vms` on `cpus` CPUs until `end`.
pub fn run(vms: &[Vm], cpus: usize, order: Order, end: Instant) -> Trace {
    let policy = match order {
        Order::Deadline => "edf",
        Order::Turns(_) => "turns",
    };
    let mut run = Run {
        trace: Trace::new(Header { policy: policy.into(), cpus, seed: 1 }),
        now: Instant::ZERO,
        tasks: Vec::new(),
        turns: 0,
        order,
    };
    for (index, vm) in vms.iter().enumerate() {
        let id = EntityId::new(u32::try_from(index).unwrap(), 0);
        let start = Instant::ZERO + vm.arrival;
        let promise =
            Reservation { slice: vm.slice, period: vm.period, deadline: None, start: Some(start), limit: Limit::Soft };
        let params = Params { reservation: Some(promise), ..Params::default() };
        run.say(Event::Attach { entity: id, name: vm.name.into(), params: Box::new(params) });
        let open = Vec::new();
        run.tasks.push(Task { vm: *vm, id, next_release: start, open, on: None, turn: 0, turn_end: Instant::NEVER });
    }
    while run.now < end {
        run.finish_jobs();
        run.release_jobs();
        run.dispatch(cpus);
        run.advance(end);
    }
    run.say(Event::End);
    run.trace
}

impl Run {
    fn say(&mut self, event: Event) {
        self.trace.record(self.now, &event);
    }

    fn finish_jobs(&mut self) {
        for index in 0..self.tasks.len() {
            let task = &mut self.tasks[index];
            let Some(cpu) = task.on else { continue };
            let entity = task.id;
            if task.open[0].1.is_zero() {
                task.open.remove(0);
                let blocks = task.open.is_empty();
                self.say(Event::Complete { entity });
                if blocks {
                    self.tasks[index].on = None;
                    self.say(Event::Input(Input::Block { cpu }));
                    self.say(Event::Action(Action::Stop { cpu, entity }));
                }
            } else if task.turn_end <= self.now {
                self.turns += 1;
                (task.on, task.turn) = (None, self.turns);
                self.say(Event::Input(Input::Expire { cpu }));
                self.say(Event::Action(Action::Stop { cpu, entity }));
            }
        }
    }

    fn release_jobs(&mut self) {
        for index in 0..self.tasks.len() {
            let task = &mut self.tasks[index];
            if task.next_release != self.now {
                continue;
            }
            let (entity, deadline) = (task.id, self.now + task.vm.period);
            task.next_release = deadline;
            task.open.push((deadline, task.vm.slice));
            let wakes = task.open.len() == 1;
            self.say(Event::Release { entity, deadline });
            if wakes {
                self.turns += 1;
                self.tasks[index].turn = self.turns;
                self.say(Event::Input(Input::Wake { entity, why: Wake::Timer }));
            }
        }
    }

    fn dispatch(&mut self, cpus: usize) {
        let mut ready: Vec<usize> = (0..self.tasks.len()).filter(|&i| !self.tasks[i].open.is_empty()).collect();
        match self.order {
            Order::Deadline => ready.sort_by_key(|&i| (self.tasks[i].open[0].0, i)),
            Order::Turns(_) => ready.sort_by_key(|&i| (self.tasks[i].on.is_none(), self.tasks[i].turn)),
        }
        ready.truncate(cpus);
        for index in 0..self.tasks.len() {
            let entity = self.tasks[index].id;
            if !ready.contains(&index)
                && let Some(cpu) = self.tasks[index].on.take()
            {
                self.say(Event::Action(Action::Stop { cpu, entity }));
            }
        }
        for index in ready {
            if self.tasks[index].on.is_some() {
                continue;
            }
            let taken: Vec<CpuId> = self.tasks.iter().filter_map(|task| task.on).collect();
            let cpu = (0..cpus).map(CpuId::new).find(|cpu| !taken.contains(cpu)).unwrap();
            self.turns += 1;
            let (turns, until) = match self.order {
                Order::Deadline => (self.turns, Instant::NEVER),
                Order::Turns(quantum) => (self.turns, self.now + quantum),
            };
            let task = &mut self.tasks[index];
            (task.on, task.turn, task.turn_end) = (Some(cpu), turns, until);
            let entity = task.id;
            self.say(Event::Action(Action::Run { cpu, entity, until }));
        }
    }

    fn advance(&mut self, end: Instant) {
        let due = |task: &Task| {
            let done = match task.on {
                Some(_) => (self.now + task.open[0].1).min(task.turn_end),
                None => Instant::NEVER,
            };
            done.min(task.next_release)
        };
        let next = self.tasks.iter().map(due).min().unwrap_or(end).min(end);
        for task in self.tasks.iter_mut().filter(|task| task.on.is_some()) {
            task.open[0].1 -= next.since(self.now);
        }
        self.now = next;
    }
}
