//! Random programs: tasks that compute, sleep, wait for each other, and fork.

use super::dice::Dice;
use sched::{Class, Nanos, Params, RtPriority, Weight};
use sim::program::{Length, Object, ObjectId, Step, TimerMode};
use sim::{Application, TaskSpec};

/// Returns random parameters of a task.
pub(super) fn asked(dice: &mut Dice) -> Params {
    let weight = dice.choose(&[128, 256, 512]).and_then(Weight::xen).unwrap_or_default();
    let urgency = RtPriority::new(if dice.one_in(2) { 10 } else { 50 }).expect("it is in range");
    let class = match dice.below(12) {
        0 => Class::Fifo(urgency),
        1 => Class::RoundRobin(urgency),
        2 => Class::Batch,
        _ => Class::default(),
    };
    Params { weight, class, ..Params::default() }
}

/// Returns a random length of a run or a sleep. Its mean is about 2 ms at most.
pub(super) fn length(dice: &mut Dice) -> Length {
    let time = Nanos::us(1) + dice.span(Nanos::ms(2));
    match dice.below(3) {
        0 => Length::Fixed(time),
        1 => Length::Uniform { least: Nanos::ZERO, most: time },
        _ => Length::Exponential { mean: time },
    }
}

/// Returns an application whose tasks wait for each other without deadlock.
pub(super) fn application(dice: &mut Dice) -> Application {
    let mut application = Application::default();
    let count = 1 + dice.below(4);
    let parties = u32::try_from(count).expect("there are few");
    let mutex = match dice.below(3) {
        0 | 1 => Object::Mutex,
        _ => Object::AdaptiveMutex { spin: Nanos::us(1 + dice.below(500)) },
    };
    let mutex = application.share("mutex", mutex);
    let spin = application.share("spin", Object::Spin);
    let barrier = match dice.below(3) {
        0 => Object::Barrier { parties },
        1 => Object::SpinBarrier { parties },
        _ => Object::AdaptiveBarrier { parties, spin: Nanos::us(1 + dice.below(500)) },
    };
    let barrier = application.share("barrier", barrier);
    let shared = Shared { mutex, spin, barrier, meets: dice.one_in(3) };
    for number in 0..count {
        let mut body = vec![Step::Run(length(dice))];
        for _ in 0..1 + dice.below(4) {
            body.extend(shared.steps(dice));
        }
        if shared.meets {
            body.push(Step::Barrier(shared.barrier));
        }
        let steps = vec![Step::Repeat { times: None, body }];
        application.tasks.push(task(format!("task{number}"), dice, steps));
    }
    if dice.one_in(2) {
        pair(&mut application, dice);
    }
    if dice.one_in(3) {
        forks(&mut application, dice);
    }
    application
}

/// Returns a task with these steps, random parameters and a random delay, which may be zero.
pub(super) fn task(name: String, dice: &mut Dice, steps: Vec<Step>) -> TaskSpec {
    let delay = if dice.one_in(2) { Nanos::ZERO.into() } else { length(dice) };
    TaskSpec { name, params: asked(dice), delay, steps }
}

/// The shared objects of an application.
struct Shared {
    mutex: ObjectId,
    spin: ObjectId,
    barrier: ObjectId,
    /// Whether all tasks wait at the barrier in every round.
    meets: bool,
}

impl Shared {
    fn steps(&self, dice: &mut Dice) -> Vec<Step> {
        match dice.below(7) {
            0 => vec![Step::Sleep(length(dice))],
            1 => vec![Step::Lock(self.mutex), Step::Run(length(dice)), Step::Unlock(self.mutex)],
            2 => vec![Step::Lock(self.spin), Step::Run(length(dice)), Step::Unlock(self.spin)],
            3 => vec![
                Step::Lock(self.mutex),
                Step::Lock(self.spin),
                Step::Run(Nanos::us(3).into()),
                Step::Unlock(self.spin),
                Step::Unlock(self.mutex),
            ],
            4 => {
                let mode = [TimerMode::Relative, TimerMode::Absolute, TimerMode::Skipping];
                let mode = dice.choose(&mode).expect("there are three");
                vec![Step::Timer { timer: 0, period: Nanos::us(50) + dice.span(Nanos::ms(4)), mode }, Step::Woke]
            }
            5 => vec![Step::Yield],
            _ => vec![Step::JobBegins { deadline: Some(Nanos::ms(1)) }, Step::Run(length(dice)), Step::JobEnds],
        }
    }
}

/// Adds two tasks that answer each other, through a pipe and a semaphore or through two semaphores.
fn pair(application: &mut Application, dice: &mut Dice) {
    let (there, back) = if dice.one_in(2) {
        let there = application.share("there", Object::Pipe { capacity: 100 + dice.below(1000) });
        let back = application.share("back", Object::Semaphore { most: 2 });
        let send = Step::Send { pipe: there, bytes: 1 + dice.below(100) };
        let Step::Send { bytes, .. } = send else { unreachable!("just made") };
        ((send, Step::Receive { pipe: there, bytes }), (Step::Post(back), Step::Take(back)))
    } else {
        let there = application.share("there", Object::Semaphore { most: 1 });
        let back = application.share("back", Object::Semaphore { most: 1 });
        ((Step::Post(there), Step::Take(there)), (Step::Post(back), Step::Take(back)))
    };
    let asks = vec![Step::Run(length(dice)), there.0, back.1];
    let answers = vec![there.1, Step::Run(length(dice)), back.0];
    for (name, body) in [("asks", asks), ("answers", answers)] {
        let steps = vec![Step::Repeat { times: None, body }];
        application.tasks.push(task(name.to_string(), dice, steps));
    }
}

/// Adds a task that forks other tasks and waits for them.
fn forks(application: &mut Application, dice: &mut Dice) {
    let mut steps = vec![Step::Run(length(dice)), Step::Sleep(length(dice))];
    // The first two objects of every application are a mutex and a spin lock.
    let lock = ObjectId(u32::from(dice.one_in(2)));
    steps.extend([Step::Lock(lock), Step::Run(length(dice)), Step::Unlock(lock)]);
    let child = std::sync::Arc::new(task("child".to_string(), dice, steps));
    let children = 1 + dice.below(5);
    let mut body = vec![Step::Run(length(dice)), Step::Repeat { times: Some(children), body: vec![Step::Fork(child)] }];
    body.push(Step::Join);
    let steps = vec![Step::Repeat { times: None, body }];
    application.tasks.push(task("forks".to_string(), dice, steps));
}
