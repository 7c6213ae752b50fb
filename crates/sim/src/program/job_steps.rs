//! [`Step::Jobs`](super::Step::Jobs): a task releases jobs at given instants and completes them in order.
//!
//! Releases and aborts need no CPU: the driver processes them when they are due. A task with an open job is runnable. At
//! the end of a job the task blocks, and wakes at once if its next job is open. A policy therefore handles each job as a
//! wake-up of its own.

use super::jobs::{JobState, NextEvents};
use super::tasks::StepOutcome;
use crate::costs::Handling;
use crate::cpus::JobEvent;
use crate::driver::Driver;
use sched::{CpuId, EntityId, Input, Instant, Params, Reservation, State, Wake};
use trace::Event;

impl Driver<'_> {
    /// Prepares the jobs of `entity`, which has just been attached, if its program consists of jobs.
    pub(super) fn prepare_jobs(&mut self, entity: EntityId) {
        let state = self.tasks.of(entity);
        let (code, began) = (state.code, state.began);
        if let Some(jobs) = self.tasks.library.jobs_of(code) {
            self.tasks.of(entity).jobs = Some(Box::new(JobState::new(jobs, began)));
        }
    }

    fn jobs(&mut self, entity: EntityId) -> &mut JobState {
        self.tasks.of(entity).jobs.as_mut().expect("the task has jobs")
    }

    /// Processes the aborts and releases of `entity` that are due. If CPUs take time to handle the events of jobs, the
    /// releases follow after the aborts of all tasks at this instant. Returns false if `entity` has no jobs.
    pub(super) fn jobs_due(&mut self, entity: EntityId) -> bool {
        if self.tasks.of(entity).jobs.is_none() {
            return false;
        }
        while self.jobs(entity).next_events().abort <= self.cpus.now {
            self.abort_job(entity);
        }
        if self.cpus.costs.handling == Handling::NONE {
            self.release_due_jobs(entity);
        } else {
            self.cpus.releases.clear(entity.index());
            self.tasks.releasing.push(entity);
        }
        true
    }

    /// Processes the releases that follow after the aborts of this instant.
    #[cold]
    pub(crate) fn release_all_due_jobs(&mut self) {
        for entity in std::mem::take(&mut self.tasks.releasing) {
            if self.tasks.jobs_of(entity).is_some() {
                self.release_due_jobs(entity);
            }
        }
    }

    /// Processes the releases of `entity` that are due, and schedules the next release or abort.
    fn release_due_jobs(&mut self, entity: EntityId) {
        loop {
            let now = self.cpus.now;
            let NextEvents { release, abort } = self.jobs(entity).next_events();
            // After a delay by the timer slack, several jobs may be due.
            if release <= now && release <= abort {
                self.release_job(entity, release);
            } else if abort <= now {
                self.abort_job(entity);
            } else {
                break;
            }
        }
        self.expect_job_event(entity);
    }

    /// Schedules the next release or abort of `entity`.
    fn expect_job_event(&mut self, entity: EntityId) {
        let NextEvents { release, abort } = self.jobs(entity).next_events();
        match release.min(abort) {
            Instant::NEVER => self.cpus.releases.clear(entity.index()),
            due => self.set_timer(entity, due),
        }
    }

    fn release_job(&mut self, entity: EntityId, release: Instant) {
        let state = self.jobs(entity);
        let deadline = release.saturating_add(state.jobs.deadline);
        let wakes = !state.has_open();
        state.released += 1;
        self.cpus.counts.releases += 1;
        self.show(|| Event::Release { entity, deadline });
        if wakes {
            self.wake_for_job(entity, JobEvent::Released);
        }
    }

    /// Wakes `entity` for its oldest open job, which `event` activates. A reservation of the entity then begins at the
    /// release of this job, so that `edf` schedules the job by its own deadline.
    fn wake_for_job(&mut self, entity: EntityId, event: JobEvent) {
        let state = self.jobs(entity);
        let (start, is_first) = (Some(state.oldest()), state.ended == 0);
        let params = *self.machine.params(entity);
        if let Some(reservation) = params.reservation {
            let reservation = Some(Reservation { start, ..reservation });
            // A policy that refuses the change keeps the old period.
            let _ = self.adjust(entity, Params { reservation, ..params });
        }
        self.interrupt_for_job(entity, event);
        self.wake_task(entity, if is_first { Wake::New { parent: None } } else { Wake::Timer });
    }

    /// Ends a burst of `entity` on `cpu`: the job starts after the costs of its dispatch, or it completes.
    pub(super) fn job_step(&mut self, cpu: CpuId, entity: EntityId) -> StepOutcome {
        // The step never ends.
        self.tasks.of(entity).next -= 1;
        let now = self.cpus.now;
        let state = self.jobs(entity);
        let (release, work, deadline) = (state.oldest(), state.jobs.work, state.jobs.deadline);
        if state.started.is_none() {
            state.started = Some(now);
            self.show(|| Event::Woke { entity, late: now.saturating_since(release) });
            return self.burst(cpu, entity, work);
        }
        self.cpus.count_completion(now.saturating_since(release.saturating_add(deadline)));
        self.show(|| Event::Complete { entity });
        self.block_task(cpu);
        self.end_open_job(entity);
        self.expect_job_event(entity);
        StepOutcome::Wait
    }

    fn abort_job(&mut self, entity: EntityId) {
        let now = self.cpus.now;
        let executed = self.jobs(entity).started.is_some_and(|started| started < now);
        self.cpus.counts.unfinished_late += 1;
        self.show(|| Event::Aborted { entity, executed });
        match self.machine.state(entity) {
            State::Running(cpu) => {
                self.cpus.ends.clear(cpu.index());
                self.block_task(cpu);
            }
            State::Waiting => self.input(Input::Pause { entity }),
            State::Blocked => {}
        }
        self.end_open_job(entity);
    }

    /// Ends the oldest open job of `entity`, which is blocked. If the next job is open, `entity` wakes.
    fn end_open_job(&mut self, entity: EntityId) {
        self.interrupt_for_job(entity, JobEvent::Ended);
        let state = self.jobs(entity);
        state.ended += 1;
        state.started = None;
        if state.has_open() {
            self.wake_for_job(entity, JobEvent::Succeeded);
        }
    }

    /// Interrupts the CPU of `entity` for an event of its jobs. A job that would start at this instant does not.
    fn interrupt_for_job(&mut self, entity: EntityId, event: JobEvent) {
        let now = self.cpus.now;
        let Some(interrupted) = self.cpus.handle_job_event(entity, event).filter(|it| *it != entity) else { return };
        if let Some(state) = self.tasks.jobs_of(interrupted)
            && state.started == Some(now)
        {
            state.started = None;
            self.cpus.restart_burst(interrupted);
        }
    }
}
