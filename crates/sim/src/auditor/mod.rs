//! [`Auditor`]: an independent judge of the laws that take time to break.
//!
//! It sees a run as anybody could who reads its trace, and shares no code with machine or policies: who waits, runs
//! and is held is found out again from the events. It judges laws 2, 3, 5, 11 and 12, quotas and caps; the
//! tests add what only they know (shares, deadlines of known sets).

mod limits;
mod shares;
#[cfg(test)]
mod tests;

use limits::Limits;
use sched::{Conserving, CpuId, CpuSet, EntityId, Host, Instant, Nanos, Params};
pub use shares::fair_shares;
use trace::{Event, Sink};

/// What a run is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Law 11: within which CPUs, and how soon, an idle CPU finds work.
    pub conserving: Conserving,
    /// Law 12: how long anybody may wait; `None`: not judged.
    pub starvation: Option<Nanos>,
    /// Whether the policy keeps quotas (`cpu.max`).
    pub quotas: bool,
    /// Whether the policy keeps caps (Xen).
    pub caps: bool,
    /// How late kicks, alarms and slice ends may reach the machine; nothing is the policy's fault within this time.
    pub late: Nanos,
}

/// A law that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Its number in ARCHITECTURE.md; 0 for a quota or cap.
    pub law: u8,
    /// When it was seen.
    pub at: Instant,
    /// Who did what, in words.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "law {} at {}: {}", self.law, self.at, self.what)
    }
}

/// How many findings are kept in words.
const KEPT_MOST: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Blocked,
    Waiting,
    Running(CpuId),
}

/// An entity under observation.
#[derive(Clone, Debug)]
struct Subject {
    id: EntityId,
    params: Params,
    place: Where,
    held: bool,
    /// Since when it waits, or has been allowed to.
    waits_since: Instant,
    runs_since: Instant,
    last_cpu: Option<CpuId>,
    on_cpu: Nanos,
    /// Whether it is counted among those who wait.
    counted: bool,
}

/// A CPU under observation.
#[derive(Clone, Copy, Debug)]
struct Seat {
    runs: Option<EntityId>,
    /// Since when it has idled although somebody it may run waits.
    neglects_since: Option<Instant>,
    /// How many wait whom this CPU in particular should run.
    waiting: u32,
    reported: bool,
}

/// Judges a run from its events. Hand it to the driver as a [`Sink`], then ask for [`findings`](Auditor::findings).
#[derive(Debug)]
pub struct Auditor {
    host: Host,
    expected: Expected,
    now: Instant,
    subjects: Vec<Option<Subject>>,
    seats: Vec<Seat>,
    /// How many wait whom any CPU should run.
    waiting_anywhere: u32,
    limits: Limits,
    findings: Vec<Finding>,
    count: u64,
}

impl Auditor {
    /// A judge of a run from its very start.
    #[must_use]
    pub fn new(host: Host, expected: Expected) -> Auditor {
        let seat = Seat { runs: None, neglects_since: None, waiting: 0, reported: false };
        Auditor {
            host,
            expected,
            now: Instant::ZERO,
            subjects: Vec::new(),
            seats: vec![seat; host.cpus],
            waiting_anywhere: 0,
            limits: Limits::default(),
            findings: Vec::new(),
            count: 0,
        }
    }

    /// The first laws that were broken, in order of time.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many times a law was broken.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// CPU time of `e` so far, from its runs alone.
    #[must_use]
    pub fn on_cpu(&self, e: EntityId) -> Nanos {
        let Some(subject) = self.subject(e) else { return Nanos::ZERO };
        match subject.place {
            Where::Running(_) => subject.on_cpu + self.now.since(subject.runs_since),
            Where::Blocked | Where::Waiting => subject.on_cpu,
        }
    }

    /// Law 5: compares the machine's account of `e` with the time seen.
    pub fn check_charged(&mut self, e: EntityId, charged: Nanos) {
        let seen = self.on_cpu(e);
        if seen != charged {
            self.find(5, format!("{e} ran for {seen} and was charged {charged}"));
        }
    }

    fn find(&mut self, law: u8, what: String) {
        self.count += 1;
        if self.findings.len() < KEPT_MOST {
            self.findings.push(Finding { law, at: self.now, what });
        }
    }

    fn subject(&self, e: EntityId) -> Option<&Subject> {
        self.subjects.get(e.index())?.as_ref().filter(|subject| subject.id == e)
    }

    fn subject_mut(&mut self, e: EntityId) -> Option<&mut Subject> {
        self.subjects.get_mut(e.index())?.as_mut().filter(|subject| subject.id == e)
    }

    // ---- Law 11 ----

    /// The CPUs that should run `subject`: `None` for any.
    fn responsible(&self, subject: &Subject) -> Option<CpuSet> {
        let allowed = subject.params.affinity.and(&self.host.all());
        match self.expected.conserving {
            Conserving::Never => Some(CpuSet::EMPTY),
            Conserving::Global { .. } if allowed == self.host.all() => None,
            Conserving::Global { .. } => Some(allowed),
            Conserving::PerCpu { .. } => Some(subject.last_cpu.map_or(CpuSet::EMPTY, CpuSet::one).and(&allowed)),
            Conserving::Domain { .. } => {
                let near = |cpu: &CpuId| subject.last_cpu.is_some_and(|last| self.host.share_cache(last, *cpu));
                Some(self.host.iter().filter(near).collect::<CpuSet>().and(&allowed))
            }
        }
    }

    /// Counts `e` among those who wait, or no longer.
    fn count_waiting(&mut self, e: EntityId) {
        let Some(subject) = self.subject(e) else { return };
        let waits = subject.place == Where::Waiting && !subject.held;
        if waits == subject.counted {
            return;
        }
        let responsible = self.responsible(subject);
        let change = |count: &mut u32| *count = if waits { *count + 1 } else { *count - 1 };
        match responsible {
            None => change(&mut self.waiting_anywhere),
            Some(cpus) => cpus.iter().for_each(|cpu| change(&mut self.seats[cpu.index()].waiting)),
        }
        self.subject_mut(e).expect("it was just seen").counted = waits;
    }

    /// Runs `change` on `e` with `e` out of the counts.
    fn change(&mut self, e: EntityId, change: impl FnOnce(&mut Subject)) {
        let Some(subject) = self.subject(e) else { return };
        if subject.counted {
            let place = subject.place;
            self.subject_mut(e).expect("it was just seen").place = Where::Blocked;
            self.count_waiting(e);
            self.subject_mut(e).expect("it was just seen").place = place;
        }
        if let Some(subject) = self.subject_mut(e) {
            change(subject);
        }
        self.count_waiting(e);
    }

    /// Time passes: what was true since the last event was true all along.
    fn pass(&mut self, at: Instant) {
        let (Conserving::Global { slack } | Conserving::Domain { slack } | Conserving::PerCpu { slack }) =
            self.expected.conserving
        else {
            self.now = at;
            return;
        };
        let allowance = slack.saturating_add(self.expected.late);
        for cpu in self.host.iter() {
            let seat = &mut self.seats[cpu.index()];
            let neglects = seat.runs.is_none() && self.waiting_anywhere + seat.waiting > 0;
            if !neglects {
                (seat.neglects_since, seat.reported) = (None, false);
                continue;
            }
            let since = *seat.neglects_since.get_or_insert(self.now);
            if at.since(since) > allowance && !seat.reported {
                seat.reported = true;
                let now = std::mem::replace(&mut self.now, since);
                self.find(11, format!("CPU {cpu} idles until {at} at least although it could run {}", self.waiters()));
                self.now = now;
            }
        }
        self.now = at;
    }

    fn waiters(&self) -> String {
        let waiting = self.subjects.iter().flatten().filter(|subject| subject.counted);
        waiting.take(5).map(|subject| subject.id.to_string()).collect::<Vec<_>>().join(", ")
    }

    // ---- Laws 2, 3 and 12 ----

    fn run(&mut self, cpu: CpuId, e: EntityId) {
        if let Some(other) = self.seats[cpu.index()].runs.replace(e) {
            self.find(3, format!("{e} runs on CPU {cpu}, on which {other} runs"));
        }
        let Some(subject) = self.subject(e) else {
            return self.find(8, format!("{e} runs and is not attached"));
        };
        if let Where::Running(other) = subject.place {
            self.find(3, format!("{e} runs on CPU {cpu} and on CPU {other}"));
            return;
        }
        let (place, held, allowed) = (subject.place, subject.held, subject.params.affinity.contains(cpu));
        if place != Where::Waiting || held || !allowed {
            self.find(2, format!("{e} runs on CPU {cpu}; it was {place:?}, held: {held}, allowed there: {allowed}"));
        }
        self.judge_wait(e);
        let now = self.now;
        self.change(e, |subject| {
            subject.place = Where::Running(cpu);
            subject.runs_since = now;
            subject.last_cpu = Some(cpu);
        });
    }

    fn judge_wait(&mut self, e: EntityId) {
        let Some(bound) = self.expected.starvation else { return };
        let Some(subject) = self.subject(e) else { return };
        if subject.place == Where::Waiting && !subject.held {
            let waited = self.now.since(subject.waits_since);
            if waited > bound.saturating_add(self.expected.late) {
                self.find(12, format!("{e} waited for {waited}; at most {bound} is promised"));
            }
        }
    }

    /// `e` leaves its CPU for `to`.
    fn leave(&mut self, e: EntityId, to: Where) {
        let now = self.now;
        let mut ran = Nanos::ZERO;
        self.change(e, |subject| {
            if let Where::Running(_) = subject.place {
                ran = now.since(subject.runs_since);
                subject.on_cpu += ran;
            }
            subject.place = to;
            subject.waits_since = now;
        });
        if let Some(subject) = self.subject(e).filter(|_| !ran.is_zero()) {
            self.limits.ran(subject.params.group, ran);
        }
    }

    fn stop(&mut self, cpu: CpuId, e: EntityId) {
        if self.seats[cpu.index()].runs.take() != Some(e) {
            self.find(3, format!("{e} stops on CPU {cpu}, on which it did not run"));
        }
        if self.subject(e).is_some_and(|subject| subject.place == Where::Running(cpu)) {
            self.leave(e, Where::Waiting);
        }
    }

    /// Who runs on `cpu` was said to go on: whatever happened to it at this instant, it runs.
    fn go_on(&mut self, cpu: CpuId) {
        let Some(e) = self.seats[cpu.index()].runs else {
            return self.find(3, format!("nobody runs on CPU {cpu}, and goes on"));
        };
        let now = self.now;
        if self.subject(e).is_some_and(|subject| subject.place == Where::Waiting) {
            self.change(e, |subject| (subject.place, subject.runs_since) = (Where::Running(cpu), now));
        }
    }

    fn attach(&mut self, e: EntityId, params: &Params) {
        if self.subjects.len() <= e.index() {
            self.subjects.resize(e.index() + 1, None);
        }
        self.limits.joined(params.group);
        self.subjects[e.index()] = Some(Subject {
            id: e,
            params: *params,
            place: Where::Blocked,
            held: false,
            waits_since: self.now,
            runs_since: self.now,
            last_cpu: None,
            on_cpu: Nanos::ZERO,
            counted: false,
        });
    }

    fn adjust(&mut self, e: EntityId, params: &Params) {
        let now = self.now;
        let Some(subject) = self.subject(e) else { return };
        if let Where::Running(cpu) = subject.place {
            // What it ran so far counts for the group it was in.
            self.leave(e, Where::Waiting);
            self.change(e, |subject| (subject.place, subject.runs_since) = (Where::Running(cpu), now));
        }
        self.limits.joined(params.group);
        self.change(e, |subject| {
            subject.params = *params;
            subject.waits_since = now;
        });
    }

    /// Accounts for what those who run have run so far.
    fn flush(&mut self) {
        let now = self.now;
        for subject in self.subjects.iter_mut().flatten() {
            if let Where::Running(_) = subject.place {
                let ran = now.since(std::mem::replace(&mut subject.runs_since, now));
                subject.on_cpu += ran;
                self.limits.ran(subject.params.group, ran);
            }
        }
    }

    fn end(&mut self) {
        self.flush();
        for index in 0..self.subjects.len() {
            if let Some(e) = self.subjects[index].as_ref().map(|subject| subject.id) {
                self.judge_wait(e);
            }
        }
        for what in self.limits.judge(self.now, &self.host, &self.expected) {
            self.find(0, what);
        }
    }
}

impl Sink for Auditor {
    fn record(&mut self, at: Instant, event: &Event) {
        if at < self.now {
            self.find(1, format!("it was {}, now it is {at}", self.now));
            return;
        }
        if at > self.now {
            self.pass(at);
        }
        match event {
            Event::Attach { entity, params, .. } => self.attach(*entity, params),
            Event::Adjust { entity, params } => self.adjust(*entity, params),
            Event::Detach { entity } => {
                self.leave(*entity, Where::Blocked);
                if self.subject(*entity).is_some() {
                    self.subjects[entity.index()] = None;
                }
            }
            Event::Wake { entity, .. } => {
                self.change(*entity, |subject| (subject.place, subject.waits_since) = (Where::Waiting, at));
            }
            Event::Block { cpu } => {
                if let Some(e) = self.seats[cpu.index()].runs {
                    self.leave(e, Where::Blocked);
                }
            }
            Event::Pause { entity } => self.leave(*entity, Where::Blocked),
            Event::Stop { cpu, entity } => self.stop(*cpu, *entity),
            Event::Run { cpu, entity, .. } => self.run(*cpu, *entity),
            Event::Extend { cpu, .. } => self.go_on(*cpu),
            Event::Held { entity, reasons } => {
                let held = *reasons != 0;
                self.change(*entity, |subject| (subject.held, subject.waits_since) = (held, at));
            }
            Event::GroupCreated { group, params, parent, .. } => self.limits.created(*group, *parent, params, at),
            Event::GroupAdjusted { group, params } => {
                self.flush();
                self.limits.adjusted(*group, params, at);
                for subject in self.subjects.iter_mut().flatten() {
                    subject.waits_since = at;
                }
            }
            Event::GroupRemoved { group } => self.limits.removed(*group),
            Event::End => self.end(),
            Event::Yield { .. }
            | Event::YieldTo { .. }
            | Event::Expire { .. }
            | Event::Kicked { .. }
            | Event::Kick { .. }
            | Event::Interrupt { .. }
            | Event::Alarm { .. }
            | Event::SetAlarm { .. }
            | Event::ClearAlarm { .. }
            | Event::Release { .. }
            | Event::Complete { .. } => {}
        }
    }
}
