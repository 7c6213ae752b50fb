//! [`Member`]: an entity of a run, and its state from event to event.

use super::jobs::{OpenJob, OpenJobs};
use super::measures::Measures;
use super::promise::{Doing, PeriodWatch, Promise};
use sched::{Action, CpuId, EntityId, Input, Instant, Nanos, Notice, Params};
use trace::{Durations, Event};

/// An entity of a run, with its measurements.
#[derive(Clone, Debug)]
pub struct Member {
    /// Id of the entity. Other entities may have the same index before its attachment or after its detachment.
    pub entity: EntityId,
    /// Display name of the entity.
    pub name: String,
    /// Last requested parameters of the entity.
    pub params: Params,
    /// Instant of the attachment.
    pub came: Instant,
    /// Instant of the detachment; `None`: the entity stayed until the end.
    pub left: Option<Instant>,
    /// Measurements of the entity.
    pub got: Measures,
    // The current state of the entity follows.
    runnable: bool,
    pub(super) on: Option<CpuId>,
    /// Whether the CPU of the entity is frozen.
    frozen: bool,
    last_cpu: Option<CpuId>,
    /// Whether the current job has run already.
    pub(super) begun: bool,
    waiting_since: Option<Instant>,
    /// Whether the current wait began with a wake-up.
    woken: bool,
    /// Whether the entity reports its own wake-ups.
    tells: bool,
    /// Whether `got.waits` lacks the waits in `got.wakeups`. During the run, each wait is recorded only once. At the
    /// end, the waits in `got.wakeups` are added to `got.waits`.
    is_split: bool,
    held_since: Option<Instant>,
    upto: Instant,
    /// State of the entity up to `upto`.
    did: Doing,
    pub(super) open: OpenJobs,
    judge: Judge,
    /// Time on the current CPU since the dispatch, or since the driver last reported the CPU time of the entity.
    unmeasured: Nanos,
}

impl Member {
    pub(super) fn new(entity: EntityId, name: &str, params: &Params, now: Instant) -> Member {
        Member {
            entity,
            name: name.to_string(),
            params: *params,
            came: now,
            left: None,
            got: Measures::default(),
            runnable: false,
            on: None,
            frozen: false,
            last_cpu: None,
            begun: false,
            waiting_since: None,
            woken: false,
            tells: false,
            is_split: false,
            held_since: None,
            upto: now,
            did: Doing::Blocked,
            open: OpenJobs::default(),
            judge: Judge::Meter(params.reservation.map(|reservation| PeriodWatch::new(reservation, now))),
            unmeasured: Nanos::ZERO,
        }
    }

    /// Accounts for the time since the last change.
    #[inline]
    fn advance(&mut self, now: Instant) {
        let doing = self.doing();
        if now != self.upto {
            self.pass(doing, now);
        } else if doing == self.did {
            return; // All time until `now` is accounted for.
        }
        self.did = doing;
        if let Judge::Meter(Some(watch)) = &mut self.judge {
            watch.advance(doing, now, &mut self.got.promise);
        }
    }

    #[inline]
    fn pass(&mut self, doing: Doing, now: Instant) {
        let passed = now.since(self.upto);
        match doing {
            Doing::Running => {
                self.got.delivered += passed;
                self.unmeasured += passed;
                // The entity received the CPU at the last change. Only this event shows that the entity kept the CPU
                // for some time.
                self.end_wait(self.upto);
            }
            Doing::Waiting if self.on.is_some() => self.got.stolen += passed,
            Doing::Waiting | Doing::Blocked => {}
        }
        self.upto = now;
    }

    /// Discards all measurements before `start`.
    pub(super) fn begin(&mut self, start: Instant) {
        if self.left.is_none() {
            self.advance(start);
        }
        (self.got, self.unmeasured, self.is_split) = (Measures::default(), Nanos::ZERO, false);
        self.held_since = self.held_since.map(|since| since.max(start));
    }

    /// Returns the state of the entity for its promise. An entity on a frozen CPU waits: the entity is runnable and
    /// receives no CPU time.
    #[inline]
    fn doing(&self) -> Doing {
        match (self.on, self.runnable) {
            (Some(_), _) if !self.frozen => Doing::Running,
            (Some(_), _) | (None, true) => Doing::Waiting,
            (None, false) => Doing::Blocked,
        }
    }

    /// Records that the CPU of the entity froze or thawed.
    pub(super) fn freeze(&mut self, frozen: bool, now: Instant) {
        self.advance(now);
        self.frozen = frozen;
    }

    #[inline]
    pub(super) fn wake(&mut self, now: Instant) {
        self.advance(now);
        self.runnable = true;
        self.waiting_since = Some(now);
        self.woken = true;
    }

    pub(super) fn block(&mut self, now: Instant) {
        self.advance(now);
        if self.doing() == Doing::Running {
            self.end_wait(now);
        }
        self.runnable = false;
        // An entity that blocks before it has run has waited, but its wake-up had no effect and no latency.
        self.woken = false;
        self.end_wait(now);
    }

    #[inline]
    pub(super) fn end_wait(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            let wait = now.since(since);
            if std::mem::take(&mut self.woken) && !self.tells {
                self.got.wakeups.record(wait);
                self.is_split = true;
            } else {
                self.got.waits.record(wait);
            }
        }
    }

    /// Adds the waits that began with a wake-up to `got.waits`.
    fn unite_waits(&mut self) {
        if std::mem::take(&mut self.is_split) {
            self.got.waits.add(&self.got.wakeups);
        }
    }

    /// Records the start of a job as reported by the entity. From the first report on, only such reports count as
    /// wake-up latencies.
    fn woke(&mut self, late: Nanos) {
        if !std::mem::replace(&mut self.tells, true) {
            self.unite_waits();
            self.got.wakeups = Durations::default();
        }
        self.got.wakeups.record(late);
    }

    /// Counts a dispatch of the current job, which begins or resumes.
    pub(super) fn dispatch(&mut self) {
        self.got.dispatches += 1;
        self.begun = true;
    }

    /// Records `time` as the CPU time of the entity since its dispatch, or since the last such report.
    pub(super) fn ran(&mut self, time: Nanos, now: Instant) {
        self.advance(now);
        self.got.delivered = self.got.delivered.saturating_sub(self.unmeasured) + time;
        self.unmeasured = Nanos::ZERO;
    }

    /// Records the end of a period, as reported by the driver that enforces the reservation. From the first report on,
    /// only such reports count.
    fn period(&mut self, due: Nanos, delivered: Nanos, throughout: bool, now: Instant) {
        if matches!(self.judge, Judge::Meter(_)) {
            self.judge = Judge::Driver { changed: None, excess: Nanos::ZERO };
            self.got.promise = Promise::default();
        }
        self.got.promise.end(due, delivered, throughout);
        let Judge::Driver { changed, excess } = &mut self.judge else { return };
        let owed = std::mem::replace(excess, delivered.saturating_sub(due));
        let is_whole =
            self.params.reservation.is_some_and(|new| throughout && delivered >= due && due + owed >= new.slice);
        if let Some(since) = changed.take_if(|_| is_whole) {
            self.got.promise.changes.record(now.since(since));
        }
    }

    /// Gives `cpu`, which may be `frozen`, to the entity. Only later events show whether the entity still waits: at the
    /// same instant, the CPU may freeze or switch to another entity.
    pub(super) fn run(&mut self, cpu: CpuId, frozen: bool, now: Instant) {
        self.advance(now);
        self.unmeasured = Nanos::ZERO;
        self.on = Some(cpu);
        self.frozen = frozen;
        if self.last_cpu.replace(cpu).is_some_and(|last| last != cpu) && self.begun {
            self.got.migrations += 1;
        }
        self.dispatch();
    }

    pub(super) fn stop(&mut self, now: Instant) {
        self.advance(now);
        self.on = None;
        self.frozen = false;
        if self.runnable {
            self.got.preemptions += u64::from(self.begun);
            self.waiting_since.get_or_insert(now);
        }
    }

    fn hold(&mut self, held: bool, now: Instant) {
        match (held, self.held_since) {
            (true, None) => self.held_since = Some(now),
            (false, Some(since)) => {
                self.got.held += now.since(since);
                self.held_since = None;
            }
            _ => {}
        }
    }

    #[inline]
    pub(super) fn release(&mut self, deadline: Instant, now: Instant) {
        self.got.jobs.releases += 1;
        self.open.push(OpenJob { released: now, deadline });
    }

    #[inline]
    pub(super) fn complete(&mut self, now: Instant) {
        let jobs = &mut self.got.jobs;
        jobs.completions += 1;
        self.begun = false;
        let Some(job) = self.open.pop() else { return };
        if now > job.deadline {
            jobs.misses += 1;
            jobs.worst_lateness = jobs.worst_lateness.max(now.since(job.deadline));
        }
        self.got.responses.record(now.since(job.released));
    }

    /// Aborts the oldest open job, whose deadline has passed.
    pub(super) fn abort(&mut self) {
        self.begun = false;
        self.got.jobs.unfinished_late += u64::from(self.open.pop().is_some());
    }

    fn adjust(&mut self, params: &Params, now: Instant) {
        self.advance(now);
        if params.reservation != self.params.reservation {
            let blocked = self.doing() == Doing::Blocked;
            self.judge = match self.judge {
                Judge::Driver { excess, .. } => Judge::Driver { changed: Some(now), excess },
                Judge::Meter(_) => Judge::Meter(params.reservation.map(|reservation| match self.params.reservation {
                    Some(_) => PeriodWatch::changed(reservation, blocked, now),
                    None => PeriodWatch::new(reservation, now),
                })),
            };
        }
        self.params = *params;
    }

    /// Ends the measurement when the entity is detached or the run ends.
    pub(super) fn finish(&mut self, now: Instant) {
        self.block(now);
        self.unite_waits();
        self.on = None;
        self.frozen = false;
        self.hold(false, now);
        self.got.jobs.unfinished_late += self.open.late(now);
    }
}

/// What judges whether the periods of a reservation deliver the slice.
#[derive(Clone, Copy, Debug)]
enum Judge {
    /// The meter, from the states of the entity; `None` without a reservation.
    Meter(Option<PeriodWatch>),
    /// The driver, which reports each period. `changed` is the instant of a change of the reservation that no period has
    /// delivered in full yet. `excess` is the time that the last period delivered in excess of what was due. The driver
    /// deducts it from the next slice.
    Driver { changed: Option<Instant>, excess: Nanos },
}

/// Records the rare events of one entity.
pub(super) fn tell(member: &mut Member, event: &Event, now: Instant) {
    match event {
        Event::Adjust { params, .. } => member.adjust(params, now),
        Event::Input(Input::Pause { .. }) => member.block(now),
        Event::SpinWait { waited, .. } | Event::Input(Input::Event { what: Notice::SpinWait { waited }, .. }) => {
            member.got.spins += 1;
            member.got.spun += *waited;
        }
        Event::Action(Action::Held { reasons, .. }) => member.hold(*reasons != 0, now),
        Event::Woke { late, .. } => member.woke(*late),
        Event::Background { time, .. } => member.got.delivered += *time,
        Event::Period { due, delivered, throughout, .. } => member.period(*due, *delivered, *throughout, now),
        Event::Kept { kept, .. } => member.got.promise.judge_promise(*kept, now),
        _ => unreachable!("the meter handles all other events itself"),
    }
}
