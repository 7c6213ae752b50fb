//! Detection of programs that cannot continue: wait cycles, applications in which all tasks wait, and uses of a lock
//! that the task does not hold.

use super::ObjectId;
use super::task_state::{TaskState, Waiting};
use super::tasks::ApplicationState;
use crate::driver::Driver;
use crate::stuck::{Stuck, Waiter};
use sched::{CpuId, EntityId, Input, Instant};

/// Maximum number of waiters in a report.
const SHOWN_MOST: usize = 20;

impl Driver<'_> {
    pub(crate) fn name_of(&self, entity: EntityId) -> String {
        let state = self.tasks.states.get(entity.index()).and_then(Option::as_ref);
        state.map_or_else(|| entity.to_string(), |state| state.name.to_string())
    }

    /// Records that the machine cannot continue, so that its world ends the run at this instant. Only the first cause
    /// is reported.
    pub(crate) fn get_stuck(&mut self, why: String, help: &'static str) {
        if self.stuck.is_some() {
            return;
        }
        self.stuck = Some(Box::new(self.stuck_now(why, help, self.waiters())));
    }

    fn stuck_now(&self, why: String, help: &'static str, mut waiters: Vec<Waiter>) -> Stuck {
        let more = waiters.len().saturating_sub(SHOWN_MOST);
        waiters.truncate(SHOWN_MOST);
        Stuck { at: self.cpus.now, machine: self.name.clone(), why, help, waiters, more }
    }

    /// Returns the tasks that wait for objects, in the order in which the tasks started.
    pub(crate) fn waiters(&self) -> Vec<Waiter> {
        self.waiters_of(|_| true)
    }

    fn waiters_of(&self, is_meant: impl Fn(&TaskState) -> bool) -> Vec<Waiter> {
        let states = self.tasks.states.iter().flatten().filter(|state| is_meant(state));
        let mut waiting: Vec<_> = states
            .filter_map(|state| match state.waiting {
                Waiting::Object(id) | Waiting::Outside(id) => Some((state.number, &**state, id)),
                _ => None,
            })
            .collect();
        waiting.sort_by_key(|(number, ..)| *number);
        let shown = |(_, state, id): (u64, &TaskState, ObjectId)| {
            let object = &self.tasks.objects[id.0 as usize];
            Waiter {
                task: state.name.to_string(),
                waits_for: format!("{} `{}`", object.noun(), object.name),
                held_by: object.owner().map(|owner| self.name_of(owner)),
                since: state.since,
            }
        };
        waiting.into_iter().map(shown).collect()
    }

    /// Detects a wait cycle: `entity` itself owns `id`, or the owner waits for `entity`, directly or through other
    /// tasks.
    pub(crate) fn check_cycle(&mut self, entity: EntityId, id: ObjectId) {
        let mut next = self.tasks.objects[id.0 as usize].owner();
        let mut ring = Vec::new();
        while let Some(owner) = next {
            if owner == entity {
                let names: Vec<String> = ring.iter().map(|&e| self.name_of(e)).collect();
                let me = self.name_of(entity);
                let why = match names.as_slice() {
                    [] => format!("{me} locks what it holds already"),
                    names => format!("{me} waits for {}, which waits for {me}", names.join(", which waits for ")),
                };
                return self.get_stuck(why, "take the locks in the same order in all tasks");
            }
            if ring.len() > self.tasks.states.len() {
                return;
            }
            ring.push(owner);
            let Some(state) = self.tasks.states[owner.index()].as_ref() else { return };
            let Waiting::Object(waits_for) = state.waiting else { return };
            next = self.tasks.objects[waits_for.0 as usize].owner();
        }
    }

    /// Detects an application whose tasks all wait for each other or for their children.
    pub(crate) fn check_application(&mut self, application: usize) {
        let ApplicationState { there, waiting, joining, is_over, may_stall, is_stalled, .. } =
            self.tasks.applications[application];
        if !is_over && !is_stalled && waiting > 0 && there == waiting + joining && !self.lock_is_free(application) {
            let why = if there == 1 {
                "it waits, and no task is left to wake it"
            } else {
                "all tasks wait, and none is left to wake them"
            };
            let right = "let a task signal, post, write, unlock or join the barrier";
            if may_stall {
                self.tasks.applications[application].is_stalled = true;
                let waiters = self.waiters_of(|state| state.application as usize == application);
                self.stalls.push(self.stuck_now(why.to_string(), right, waiters));
            } else {
                self.get_stuck(why.to_string(), right);
            }
        }
    }

    /// Returns whether a task of an application spins for a free lock, which the task acquires once it runs.
    fn lock_is_free(&self, application: usize) -> bool {
        self.tasks.states.iter().flatten().filter(|it| it.application as usize == application).any(|state| {
            let Waiting::Object(id) = state.waiting else { return false };
            let object = &self.tasks.objects[id.0 as usize];
            object.is_lock() && object.owner().is_none()
        })
    }

    /// Ends the run, because `entity`, which runs on `cpu`, unlocks or waits with a lock that it does not hold. `does`
    /// is the verb of the message.
    pub(crate) fn gives_back(&mut self, cpu: CpuId, entity: EntityId, id: ObjectId, does: &str) {
        let object = &self.tasks.objects[id.0 as usize];
        let owner =
            object.owner().map_or("no task holds it".to_string(), |owner| format!("{} holds it", self.name_of(owner)));
        let why = format!("{} {does} {} `{}`, but {owner}", self.name_of(entity), object.noun(), object.name);
        self.get_stuck(why, "lock before the unlock");
        self.cpus.cpus[cpu.index()].done = Instant::NEVER;
        self.input(Input::Block { cpu });
    }
}
