//! [`Code`]: the steps of a program laid out flat, so that where a task stands is one number.

use super::{Length, ObjectId, Step, TaskSpec, TimerMode};
use sched::{Nanos, Params};
use std::sync::Arc;

/// Loops inside each other that one program may have.
pub(crate) const LOOPS_MOST: usize = 4;

/// One step, or the end of a loop.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Run(Length),
    Sleep(Length),
    Timer {
        timer: u8,
        period: Nanos,
        mode: TimerMode,
    },
    Lock(ObjectId),
    Unlock(ObjectId),
    Wait {
        condition: ObjectId,
        mutex: ObjectId,
    },
    Signal(ObjectId),
    Broadcast(ObjectId),
    Barrier(ObjectId),
    Take(ObjectId),
    Post(ObjectId),
    Send {
        pipe: ObjectId,
        bytes: u64,
    },
    Receive {
        pipe: ObjectId,
        bytes: u64,
    },
    Yield,
    Fork(Arc<Recipe>),
    Join,
    Ask(Arc<Params>),
    JobBegins(Option<Nanos>),
    JobEnds,
    Woke,
    /// The loop on `level` begins: `times` rounds; skipped to `after` where that is none.
    Enter {
        level: u8,
        times: u64,
        after: u32,
    },
    /// A round of the loop on `level` ends; the next begins at `to`. `u64::MAX` rounds never end.
    Again {
        level: u8,
        to: u32,
    },
    Exit,
}

/// A task that can be forked.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) params: Params,
    pub(crate) delay: Length,
    pub(crate) code: Arc<Code>,
}

impl Recipe {
    fn of(task: &TaskSpec, base: u32) -> Recipe {
        let TaskSpec { ref name, params, delay, ref steps } = *task;
        Recipe { name: name.clone(), params, delay, code: Arc::new(Code::of(steps, base)) }
    }
}

/// A program, shared by all who follow it.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
}

impl Code {
    /// The steps, with every [`ObjectId`] moved up by `base`: where the objects of their application are on their machine.
    pub(crate) fn of(steps: &[Step], base: u32) -> Code {
        let mut ops = Vec::new();
        lay(steps, base, 0, &mut ops);
        ops.push(Op::Exit);
        Code { ops }
    }
}

fn lay(steps: &[Step], base: u32, level: u8, ops: &mut Vec<Op>) {
    let moved = |id: ObjectId| ObjectId(id.0 + base);
    for step in steps {
        let op = match *step {
            Step::Run(length) => Op::Run(length),
            Step::Sleep(length) => Op::Sleep(length),
            Step::Timer { timer, period, mode } => Op::Timer { timer, period, mode },
            Step::Lock(id) => Op::Lock(moved(id)),
            Step::Unlock(id) => Op::Unlock(moved(id)),
            Step::Wait { condition, mutex } => Op::Wait { condition: moved(condition), mutex: moved(mutex) },
            Step::Signal(id) => Op::Signal(moved(id)),
            Step::Broadcast(id) => Op::Broadcast(moved(id)),
            Step::Barrier(id) => Op::Barrier(moved(id)),
            Step::Take(id) => Op::Take(moved(id)),
            Step::Post(id) => Op::Post(moved(id)),
            Step::Send { pipe, bytes } => Op::Send { pipe: moved(pipe), bytes },
            Step::Receive { pipe, bytes } => Op::Receive { pipe: moved(pipe), bytes },
            Step::Yield => Op::Yield,
            Step::Fork(ref child) => Op::Fork(Arc::new(Recipe::of(child, base))),
            Step::Join => Op::Join,
            Step::Ask(ref params) => Op::Ask(Arc::new(**params)),
            Step::JobBegins { deadline } => Op::JobBegins(deadline),
            Step::JobEnds => Op::JobEnds,
            Step::Woke => Op::Woke,
            Step::Exit => Op::Exit,
            Step::Repeat { times, ref body } => {
                assert!(usize::from(level) < LOOPS_MOST, "loops are nested at most {LOOPS_MOST} deep");
                let enter = ops.len();
                ops.push(Op::Enter { level, times: times.unwrap_or(u64::MAX), after: 0 });
                lay(body, base, level + 1, ops);
                let to = u32::try_from(enter + 1).expect("a program has fewer than 2^32 steps");
                ops.push(Op::Again { level, to });
                let end = u32::try_from(ops.len()).expect("a program has fewer than 2^32 steps");
                if let Op::Enter { after, .. } = &mut ops[enter] {
                    *after = end;
                }
                continue;
            }
        };
        ops.push(op);
    }
}
