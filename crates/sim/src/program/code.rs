//! [`Library`]: the programs of a machine. The steps of all programs are in one array. Two numbers give the position of
//! a task: its program and its next step.

use super::{Jobs, Length, ObjectId, Step, TaskSpec, TimerMode};
use sched::{Nanos, Params};
use std::sync::Arc;

/// Maximum number of nested loops of a program.
pub(crate) const LOOPS_MOST: usize = 4;

/// A program of a machine's library, by the index of its first step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodeId(u32);

/// A step, or the start or end of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Run(Length),
    Sleep(Length),
    Timer {
        timer: u8,
        period: Nanos,
        mode: TimerMode,
    },
    RunUntil {
        timer: u8,
        period: Nanos,
        grain: Nanos,
    },
    /// [`Step::DropLate`] in the loop on `level`. The loop ends at `after`.
    DropLate {
        timer: u8,
        period: Nanos,
        late: Nanos,
        level: u8,
        after: u32,
    },
    Resume {
        timer: u8,
        pause: Length,
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
    /// The three parts of [`Step::Serve`].
    Fetch(ObjectId),
    Handle(ObjectId),
    SendOn(ObjectId),
    Yield,
    /// A recipe of the library, by index.
    Fork(u32),
    Join,
    /// Requested parameters, by index in the library.
    Ask(u32),
    /// A group of the application. 0 is the group in which the application was started.
    EnterGroup(u32),
    JobBegins(Option<Nanos>),
    JobEnds,
    /// Jobs of the library, by index.
    Jobs(u32),
    Woke,
    /// The start of the loop on `level`, with `times` rounds. With zero rounds, the task continues at `after`.
    Enter {
        level: u8,
        times: u64,
        after: u32,
    },
    /// The end of a round of the loop on `level`. The next round begins at `to`. A loop with `u64::MAX` rounds never
    /// ends.
    Again {
        level: u8,
        to: u32,
    },
    Exit,
    Quit,
}

/// A task that can be forked.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) params: Params,
    pub(crate) delay: Length,
    pub(crate) code: CodeId,
}

/// The programs of a machine.
#[derive(Debug, Default)]
pub(crate) struct Library {
    /// All programs in sequence, so that a step takes one array access.
    ops: Vec<Op>,
    /// Start of the last program.
    last: usize,
    recipes: Vec<Recipe>,
    wishes: Vec<Params>,
    jobs: Vec<Arc<Jobs>>,
}

impl Library {
    /// Adds a program. Adds `base`, the index of the application's first object on its machine, to every [`ObjectId`].
    pub(crate) fn add(&mut self, steps: &[Step], base: u32) -> CodeId {
        let mut ops = Vec::new();
        self.lay(steps, base, 0, &mut ops);
        ops.push(Op::Exit);
        // Tasks with equal programs usually follow each other, and then share one program.
        if self.ops[self.last..] != *ops {
            self.last = self.ops.len();
            self.ops.append(&mut ops);
        }
        CodeId(number(self.last))
    }

    /// Returns the step at position `next` of a program.
    #[inline]
    pub(crate) fn op(&self, code: CodeId, next: u32) -> Op {
        self.ops[code.0 as usize + next as usize]
    }

    pub(crate) fn recipe(&self, number: u32) -> &Recipe {
        &self.recipes[number as usize]
    }

    pub(crate) fn wish(&self, number: u32) -> &Params {
        &self.wishes[number as usize]
    }

    /// Returns the jobs of a program that consists of jobs.
    pub(super) fn jobs_of(&self, code: CodeId) -> Option<Arc<Jobs>> {
        match self.op(code, 0) {
            Op::Jobs(number) => Some(Arc::clone(&self.jobs[number as usize])),
            _ => None,
        }
    }

    fn release_jobs(&mut self, jobs: &Arc<Jobs>) -> Op {
        self.jobs.push(Arc::clone(jobs));
        Op::Jobs(number(self.jobs.len() - 1))
    }

    fn fork(&mut self, task: &TaskSpec, base: u32) -> Op {
        let code = self.add(&task.steps, base);
        self.recipes.push(Recipe { name: task.name.clone(), params: task.params, delay: task.delay, code });
        Op::Fork(number(self.recipes.len() - 1))
    }

    fn ask(&mut self, params: Params) -> Op {
        self.wishes.push(params);
        Op::Ask(number(self.wishes.len() - 1))
    }

    fn lay(&mut self, steps: &[Step], base: u32, level: u8, ops: &mut Vec<Op>) {
        let moved = |id: ObjectId| ObjectId(id.0 + base);
        for step in steps {
            let op = match *step {
                Step::Run(length) => Op::Run(length),
                Step::Sleep(length) => Op::Sleep(length),
                Step::Timer { timer, period, mode } => Op::Timer { timer, period, mode },
                Step::RunUntil { timer, period, grain } => Op::RunUntil { timer, period, grain },
                Step::DropLate { timer, period, late } => match level.checked_sub(1) {
                    Some(level) => Op::DropLate { timer, period, late, level, after: 0 },
                    None => continue,
                },
                Step::Resume { timer, pause } => Op::Resume { timer, pause },
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
                Step::Serve(id) => {
                    ops.extend([Op::Fetch(moved(id)), Op::Handle(moved(id))]);
                    Op::SendOn(moved(id))
                }
                Step::Yield => Op::Yield,
                Step::Fork(ref child) => self.fork(child, base),
                Step::Join => Op::Join,
                Step::Ask(ref params) => self.ask(**params),
                Step::EnterGroup(group) => Op::EnterGroup(group.map_or(0, |group| group + 1)),
                Step::JobBegins { deadline } => Op::JobBegins(deadline),
                Step::JobEnds => Op::JobEnds,
                Step::Jobs(ref jobs) => self.release_jobs(jobs),
                Step::Woke => Op::Woke,
                Step::Exit => Op::Exit,
                Step::Quit => Op::Quit,
                Step::Repeat { times, ref body } => {
                    assert!(usize::from(level) < LOOPS_MOST, "loops are nested at most {LOOPS_MOST} deep");
                    let enter = ops.len();
                    ops.push(Op::Enter { level, times: times.unwrap_or(u64::MAX), after: 0 });
                    self.lay(body, base, level + 1, ops);
                    let to = number(enter + 1);
                    ops.push(Op::Again { level, to });
                    let end = number(ops.len());
                    close(&mut ops[enter..], level, end);
                    continue;
                }
            };
            ops.push(op);
        }
    }
}

/// Sets the end of the loop on level `its` in each step that may leave this loop. `ops`: the steps from the start of
/// the loop.
fn close(ops: &mut [Op], its: u8, end: u32) {
    for op in ops {
        if let Op::Enter { level, after, .. } | Op::DropLate { level, after, .. } = op
            && *level == its
        {
            *after = end;
        }
    }
}

/// Converts the index of a step, recipe or request to 32 bits.
fn number(place: usize) -> u32 {
    u32::try_from(place).expect("there are fewer than 2^32")
}
