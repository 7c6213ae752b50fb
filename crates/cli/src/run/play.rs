//! A live run from start to end: starts and ends its processes, while the daemon keeps their promises.

use super::breaches::{Breach, Breaches};
use super::end::End;
use super::measured::Measured;
use super::plan::{Plan, PlannedProcess, Source};
use super::terms::RunTerms;
use crate::failure::{Failure, refused};
use crate::output;
use crate::progress::Progress;
use daemon::Explanation;
use daemon::dispatch::{Dismissed, Others, PromiseRequest, Refusal};
use daemon::guardian::this_program;
use daemon::interfering::{InterferingThreads, descends};
use daemon::live::{Client, News};
use daemon::processes::{Launcher, Output, RunProcess, Witness};
use measure::Supply;
use run::live::{left_to_kernel, merged, relative};
use sched::{CpuSet, EntityId, Instant, Nanos, Reservation};
use std::collections::BTreeSet;
use sys::process::Process;
use sys::thread::Identity;
use sys::usage;
use sys::{clock, thread};
use trace::{Event, Job, Sink};

/// Interval between checks for events and ended processes. A line about a broken promise is at most this late.
const POLL: Nanos = Nanos::ms(100);
/// Interval in an experiment, which measures the time to the end of a process by these checks.
const POLL_OF_EXPERIMENT: Nanos = Nanos::ms(50);
/// Time that a command has to end after SIGTERM.
const GRACE: Nanos = Nanos::s(2);
/// Maximum time from the end of a process's last thread to the report of the end by the process's descriptor.
const NOTICE: Nanos = Nanos::ms(100);
/// Time for the processes to reach their gates before the start of the run. The start allows 2 ms more per process.
const PREPARATION: Nanos = Nanos::ms(20);
/// First entity number for processes without a promise. Clients have smaller numbers, because the table of originals
/// has room for fewer clients, and so have threads with a reservation of the kernel.
const WITHOUT_PROMISE: u32 = 1 << 14;
/// Maximum number of events that are stored only for the picture of a run.
const DRAWN_MOST: usize = 200_000;
/// Maximum number of events that are stored for a trace: some hundred megabytes.
const EVENTS_MOST: usize = 4_000_000;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Played {
    /// All events in order from the start of the run, with the jobs that workers report.
    pub(crate) events: Vec<(Instant, Event)>,
    /// Number of lost events: events that were overwritten before they were read, or that exceeded the limit.
    pub(crate) lost: u64,
    /// Start of the run, according to the monotonic clock.
    pub(crate) start: Instant,
    pub(crate) length: Nanos,
    pub(crate) interrupted: bool,
    /// Result of each process of the plan.
    pub(crate) ends: Vec<End>,
    /// Measurements, if they were computed during the run. Long runs need this, because they can have more
    /// events than are stored.
    pub(crate) measured: Option<Measured>,
    /// Clients that were not served to the end, with the reasons.
    pub(crate) troubles: Vec<(String, Explanation)>,
    /// Clients with threads that could not inherit a priority, with the reason.
    pub(crate) exceptions: Vec<(EntityId, String)>,
    /// Problems of the daemon that ended no promise.
    pub(crate) warnings: Vec<Explanation>,
    /// Changes of promises that the daemon has refused.
    pub(crate) refused_changes: Vec<Explanation>,
    /// Times for which a promise was not kept.
    pub(crate) breaches: Vec<Breach>,
    /// Whether this host reports the wake-ups of all clients.
    pub(crate) reports_wakeups: bool,
    /// What was observed of each process of the plan, if the plan asks for it.
    pub(crate) observed: Vec<Observed>,
    /// The clients that a scheduler in the kernel has dispatched for some time.
    pub(crate) in_kernel: BTreeSet<EntityId>,
}

/// What was observed of a process, besides its promise.
#[derive(Default, Debug)]
pub(crate) struct Observed {
    /// Output of a command.
    pub(crate) output: String,
    /// CPU time of a worker.
    pub(crate) supply: Option<Supply>,
    /// Time from the start of the process to its end.
    pub(crate) took: Nanos,
}

impl Played {
    /// Returns whether every promise was kept, and every client served to the end.
    pub(crate) fn is_kept(&self) -> bool {
        self.breaches.is_empty() && self.troubles.is_empty()
    }
}

/// A running process.
struct Running {
    index: usize,
    /// Child of this run. `None`: the process existed before the run, and stays.
    child: Option<RunProcess>,
    process: Process,
    /// CPU time of a process without a promise since it joined the run. `None`: the process has a promise.
    had: Option<Nanos>,
    had_before: Nanos,
    witness: Option<Witness>,
}

/// Runner of a plan, with a daemon or without.
pub(crate) struct Player<'a> {
    /// Handle on the core. `None`: only the kernel schedules the processes.
    front: Option<&'a Client>,
    /// Terms of the promises, if there is a core.
    terms: Option<&'a RunTerms>,
    plan: &'a Plan,
    launcher: Launcher,
    /// Time zero of the daemon, according to the monotonic clock.
    epoch: Instant,
    /// Start of the run, according to the monotonic clock.
    start: Instant,
    running: Vec<Running>,
    ends: Vec<End>,
    reported: Vec<(EntityId, Vec<Job>)>,
    /// Events of processes without a promise.
    alone: Vec<(Instant, Event)>,
    events: Vec<(Instant, Event)>,
    /// Measurements of events during the run. `None`: the events are measured at the end, together with the jobs
    /// that workers report then.
    measured: Option<Measured>,
    in_kernel: BTreeSet<EntityId>,
    lost: u64,
    left: Vec<Dismissed>,
    breaches: Breaches,
    interfering: InterferingThreads,
    reports_wakeups: bool,
    /// Changes of promises that are not requested yet, the next one last: instant, index of the process, and reservation.
    changes: Vec<(Instant, usize, Reservation)>,
    /// Refused changes of promises.
    refused: Vec<Explanation>,
    observed: Vec<Observed>,
}

/// Runs `plan`. Without a daemon, only the kernel schedules the processes. `what` is the text of the progress bar.
pub(crate) fn play(daemon: Option<(&Client, &RunTerms)>, plan: &Plan, what: &str) -> Result<Played, Failure> {
    let (front, terms) = daemon.unzip();
    let ready = PREPARATION.saturating_add(Nanos::ms(2).saturating_mul(plan.processes.len() as u64));
    let mut player = Player {
        front,
        terms,
        plan,
        launcher: Launcher::of(this_program().to_path_buf()),
        epoch: front.map_or_else(clock::now, |front| front.epoch()),
        start: clock::now().saturating_add(ready),
        running: Vec::new(),
        ends: plan.processes.iter().map(|it| End { name: it.name.clone(), ..End::default() }).collect(),
        reported: Vec::new(),
        alone: Vec::new(),
        events: Vec::new(),
        measured: (!plan.processes.iter().any(|planned| matches!(planned.source, Source::Work(_))))
            .then(|| Measured::new(plan.is_monitored)),
        lost: 0,
        in_kernel: BTreeSet::new(),
        left: Vec::new(),
        breaches: Breaches::default(),
        interfering: InterferingThreads::default(),
        reports_wakeups: true,
        changes: plan.changes(),
        refused: Vec::new(),
        observed: plan.processes.iter().map(|_| Observed::default()).collect(),
    };
    let length = plan.length.filter(|_| !plan.is_observed);
    let progress = length.map(|length| Progress::new(what.to_string(), length));
    let outcome = player.run(progress.as_ref());
    if let Some(progress) = progress {
        progress.finish(&format!("{what}: done"));
    }
    let length = clock::now().saturating_since(player.start);
    // Ends all processes that the run started, even after a failure.
    let ended = player.end_all();
    outcome?;
    // Without an experiment, the results of the other processes are still of use.
    if plan.is_observed {
        ended?;
    }
    Ok(player.into_played(plan.length.map_or(length, |most| most.min(length))))
}

impl Player<'_> {
    fn run(&mut self, progress: Option<&Progress>) -> Result<(), Failure> {
        let mut coming: Vec<(Instant, usize)> =
            self.plan.processes.iter().enumerate().map(|(index, planned)| (planned.arrival, index)).collect();
        coming.sort_unstable();
        coming.reverse();
        let end = self.plan.length.map_or(Instant::NEVER, |length| self.start.saturating_add(length));
        let poll = if self.plan.is_observed { POLL_OF_EXPERIMENT } else { POLL };
        loop {
            let now = clock::now();
            // Processes with arrival zero exist before the start.
            let due = now.saturating_add(PREPARATION.saturating_add(poll));
            while let Some((_, index)) = coming.pop_if(|(arrival, _)| self.moment(*arrival) <= due.min(end)) {
                self.begin(index)?;
            }
            self.look()?;
            self.change_due(now);
            self.dismiss_leaving(now);
            if let Some(progress) = progress {
                progress.passed(now.saturating_since(self.start));
            }
            let over = self.front.is_some_and(|front| front.is_over()) || output::is_interrupted();
            if now >= end || over || (coming.is_empty() && !self.is_awaited()) {
                return Ok(());
            }
            let next = [coming.last().map(|(arrival, _)| *arrival), self.changes.last().map(|(at, ..)| *at)];
            let next = next.into_iter().flatten().min().map_or(Instant::NEVER, |at| self.moment(at));
            clock::sleep_until(now.saturating_add(poll).min(end).min(next.max(now.saturating_add(Nanos::ms(1)))));
        }
    }

    /// Returns whether a running process has still to end. An experiment with commands ends with them.
    fn is_awaited(&self) -> bool {
        let is_command = |index: usize| matches!(self.plan.processes[index].source, Source::Command(_));
        let awaits_commands = self.plan.is_observed && (0..self.plan.processes.len()).any(is_command);
        self.running.iter().any(|running| !awaits_commands || is_command(running.index))
    }

    /// Converts an instant of the run into the monotonic clock.
    fn moment(&self, at: Instant) -> Instant {
        self.start.saturating_add(at.since(Instant::ZERO))
    }

    /// Converts an instant of the monotonic clock into the daemon's time.
    fn counted(&self, at: Instant) -> Instant {
        Instant::ZERO + at.saturating_since(self.epoch)
    }

    fn begin(&mut self, index: usize) -> Result<(), Failure> {
        let planned = &self.plan.processes[index];
        let said = |reason: Explanation| refused(&reason);
        let output = match (self.plan.is_observed, self.plan.json) {
            (true, _) => Output::Captured,
            (false, true) => Output::ToStandardError,
            (false, false) => Output::Inherited,
        };
        // A worker runs for two seconds longer than the run, or for about an hour if the run has no length.
        let length = self.plan.length.unwrap_or(Nanos::s(3_600)).saturating_add(Nanos::s(2));
        let mut child = match &planned.source {
            Source::Pid(_) => None,
            Source::Command(argv) => Some(self.launcher.command(&planned.name, argv, output).map_err(said)?),
            Source::Work(work) => Some(self.launcher.work(&planned.name, *work, length).map_err(said)?),
        };
        let pid = match (&planned.source, &child) {
            (Source::Pid(pid), _) => *pid,
            (_, Some(child)) => child.pid(),
            _ => unreachable!("every part without a pid was started"),
        };
        let process = Process::open(pid).map_err(|error| match error {
            sys::Error::Gone(_) => refused(&Refusal::Gone(pid).reason()),
            other => refused(&other.into()),
        })?;
        let had_before = cpu_time(pid);
        let is_worker = matches!(planned.source, Source::Work(_));
        let witness = (self.plan.is_observed && is_worker).then(|| Witness::of(pid)).transpose().map_err(said)?;
        let entities = self.promise(index, planned, pid)?;
        if let (Some(front), Some(share)) = (self.front, planned.share) {
            front.share(pid, share).map_err(|refusal| self.plan.refused(index, &refusal))?;
        }
        let goes = self.moment(planned.arrival);
        if let Some(child) = &mut child {
            if entities.is_empty() {
                self.confine(planned, pid).map_err(|error| said(error.into()))?;
            }
            child.go(goes).map_err(said)?;
        }
        self.ends[index].pid = pid;
        self.ends[index].is_foreign = child.is_none();
        let had = entities.is_empty().then_some(Nanos::ZERO);
        if entities.is_empty() {
            let entity = EntityId::new(WITHOUT_PROMISE + u32::try_from(index).expect("processes are few"), 0);
            self.ends[index].entities = vec![entity];
        } else {
            self.ends[index].entities = entities;
        }
        self.running.push(Running { index, child, process, had, had_before, witness });
        Ok(())
    }

    /// Confines a started process without a promise to its CPUs. The daemon confines the other processes.
    fn confine(&self, planned: &PlannedProcess, pid: u32) -> sys::Result<()> {
        let affinity = self.plan.description.entities[planned.entities.start].params.affinity;
        if affinity == CpuSet::ALL { Ok(()) } else { sys::affinity::set(pid, &affinity) }
    }

    /// Requests the promise of the process from the daemon, if the plan has a promise for the process and a daemon
    /// runs.
    fn promise(&mut self, index: usize, planned: &PlannedProcess, pid: u32) -> Result<Vec<EntityId>, Failure> {
        let (Some(front), Some(request)) = (self.front, &planned.request) else { return Ok(Vec::new()) };
        let by = self.terms.map_or(request.by, |terms| terms.by(planned));
        let start = request.reservation.start.map(|start| self.counted(self.moment(start)));
        let others = match request.others {
            Others::Later => self.gang_of(index).map_or(Others::Later, Others::Of),
            others => others,
        };
        let reservation = Reservation { start, ..request.reservation };
        let records_sleeps = self.plan.records_sleeps;
        let request = PromiseRequest { by, reservation, others, records_sleeps, ..request.clone() };
        let entities = front.admit(&request, pid).map_err(|refusal| self.plan.refused(index, &refusal))?;
        self.reports_wakeups &= entities.iter().all(|&e| front.reports_wakeups(e));
        self.read();
        Ok(entities)
    }

    /// Returns an entity with a promise in the gang of process `index`.
    fn gang_of(&self, index: usize) -> Option<EntityId> {
        let description = &self.plan.description;
        let gang = |index: usize| {
            let planned = &self.plan.processes[index];
            planned.request.as_ref().and_then(|_| description.gang_of(planned.entities.start))
        };
        let mut others = self.ends.iter().enumerate().filter(|(other, _)| gang(*other) == gang(index));
        others.find_map(|(_, end)| end.entities.first().copied())
    }

    /// Requests the changes of promises that are due at `now`. The promises of a gang change together, so one request
    /// suffices.
    fn change_due(&mut self, now: Instant) {
        let Some(front) = self.front else { return };
        let (description, start) = (&self.plan.description, self.start);
        let mut changed = Vec::new();
        while let Some((at, index, to)) =
            self.changes.pop_if(|(at, ..)| start.saturating_add(at.since(Instant::ZERO)) <= now)
        {
            let planned = &self.plan.processes[index];
            let gang = description.gang_of(planned.entities.start);
            let is_served = self.running.iter().any(|running| running.index == index && running.had.is_none());
            if !is_served || (gang.is_some() && changed.contains(&(at, gang))) {
                continue;
            }
            changed.push((at, gang));
            if let Err(refusal) = front.adjust(self.ends[index].entities[0], to.slice, to.period) {
                let Explanation { reason, remedy } = refusal.reason();
                let what =
                    format!("The change of {} at {} is refused: {reason}", planned.name, at.since(Instant::ZERO));
                self.refused.push(Explanation::new(what, remedy));
            }
        }
    }

    /// Reads new events and dismissals.
    fn read(&mut self) {
        let Some(front) = self.front else { return };
        let News { events, lost, dismissed, in_kernel } = front.read_news();
        self.lost += lost;
        self.in_kernel.extend(in_kernel);
        self.left.extend(dismissed);
        let begun = self.counted(self.start);
        let (ends, plan, interfering) = (&self.ends, self.plan, &mut self.interfering);
        let of_run = self.running.iter().map(|running| running.process.pid());
        let processes: Vec<u32> = of_run.chain([std::process::id(), front.pid()]).collect();
        // The clients include the descendants of these processes, and those that Tactus has raised by their attributes.
        let is_ours = |thread: &Identity| descends(thread, &processes);
        for (at, event) in &events {
            let at = Instant::ZERO + at.saturating_since(begun);
            let above = || interfering.look(is_ours, clock::sleep);
            self.breaches.hear(at, event, |entity| name_of(ends, plan, entity), above);
        }
        if let Some(measured) = &mut self.measured {
            let begun = Instant::ZERO + self.start.saturating_since(self.epoch);
            let end = self.plan.length.map_or(Instant::NEVER, |length| begun.saturating_add(length));
            for (at, event) in in_time(events.iter().cloned(), end) {
                measured.record(Instant::ZERO + at.saturating_since(begun), &relative(event, begun));
            }
        }
        let is_all_needed = self.measured.is_none() || self.plan.is_traced;
        let most = if is_all_needed { EVENTS_MOST } else { DRAWN_MOST };
        let room = most.saturating_sub(self.events.len());
        if is_all_needed {
            self.lost += events.len().saturating_sub(room) as u64;
        }
        self.events.extend(events.into_iter().take(room));
    }

    /// Reads new events and dismissals, and handles ended processes.
    fn look(&mut self) -> Result<(), Failure> {
        self.read();
        self.drop_dismissed();
        for running in &mut self.running {
            if running.had.is_some() {
                let had = cpu_time(running.process.pid()).saturating_sub(running.had_before);
                running.had = running.had.max(Some(had));
            }
        }
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].process.has_ended() {
                let running = self.running.swap_remove(at);
                let end = &mut self.ends[running.index];
                (end.has_ended_early, end.status) = (true, running.process.exit_status());
                self.end(running)?;
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Stops waiting for processes that existed before the run and whose promise has ended. The run still waits for
    /// processes that it started.
    fn drop_dismissed(&mut self) {
        let (left, ends) = (&self.left, &self.ends);
        let is_left = |entity: &EntityId| left.iter().any(|left| left.entity == *entity);
        let is_troubled = |entity: &EntityId| left.iter().any(|left| left.entity == *entity && left.trouble.is_some());
        self.running.retain(|running| {
            let entities = &ends[running.index].entities;
            let over = running.had.is_none() && entities.iter().all(is_left);
            // The daemon may notice the end of a process before its descriptor does.
            let has_ended = || !entities.iter().any(is_troubled) && running.process.ends_within(NOTICE);
            running.child.is_some() || !over || has_ended()
        });
    }

    fn dismiss_leaving(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.running.len() {
            let leaves = self.plan.processes[self.running[at].index].leaves;
            if leaves.is_some_and(|leaves| self.moment(leaves) <= now) {
                let running = self.running.swap_remove(at);
                // An error at the end of one process does not affect the other processes.
                let _ = self.end(running);
            } else {
                at += 1;
            }
        }
    }

    /// Ends a promise. If the run started the process, ends the process, and reads the jobs that a worker reports.
    fn end(&mut self, running: Running) -> Result<(), Failure> {
        let Running { index, child, had, witness, .. } = running;
        if let (Some(front), None) = (self.front, had) {
            self.ends[index].entities.clone().into_iter().for_each(|e| front.dismiss(e));
        }
        if let (Some(front), Some(_)) = (self.front, self.plan.processes[index].share) {
            front.end_share(self.ends[index].pid);
        }
        if let Some(child) = child.as_ref().filter(|child| child.is_command()) {
            self.ask_to_end(child);
        }
        let now = self.counted(clock::now());
        let took = clock::now().saturating_since(self.moment(self.plan.processes[index].arrival));
        let outcome = child.map(RunProcess::end).transpose().map_err(|reason| refused(&reason))?;
        let supply = witness.map(Witness::end).transpose().map_err(|reason| refused(&reason))?;
        let output = outcome.as_ref().map(|outcome| outcome.output.clone()).unwrap_or_default();
        self.observed[index] = Observed { output, supply, took };
        if let Some(had) = had {
            let time = outcome.as_ref().and_then(|outcome| outcome.cpu_time).unwrap_or(had);
            let (entity, planned) = (self.ends[index].entities[0], &self.plan.processes[index]);
            let described = &self.plan.description.entities[planned.entities.start];
            let end = self.plan.length.map_or(now, |length| self.counted(self.start.saturating_add(length)).min(now));
            let stay = (self.counted(self.moment(planned.arrival)), end);
            self.alone.extend(left_to_kernel(entity, &described.name, &described.params, stay, time));
            self.alone.push((now, Event::Detach { entity }));
        }
        if let Some(outcome) = outcome {
            let jobs = outcome.jobs.iter().map(|job| Job {
                released: self.counted(job.released),
                deadline: self.counted(job.deadline),
                woke: job.woke.map(|at| self.counted(at)),
                done: job.done.map(|at| self.counted(at)),
            });
            self.reported.push((self.ends[index].entities[0], jobs.collect()));
            self.ends[index].status = Some(outcome.status);
            self.lost += outcome.lost;
        }
        Ok(())
    }

    /// Requests the end of a command with SIGTERM, and reads events until the command has ended, for at most [`GRACE`].
    fn ask_to_end(&mut self, child: &RunProcess) {
        // The process may have ended already.
        let _ = child.terminate();
        let end = clock::now().saturating_add(GRACE);
        while !child.process().has_ended() && clock::now() < end {
            clock::sleep(Nanos::ms(10));
            self.read();
        }
    }

    /// Ends all processes. Returns the first error; the remaining processes end all the same.
    fn end_all(&mut self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for running in std::mem::take(&mut self.running) {
            outcome = outcome.and(self.end(running));
        }
        self.read();
        outcome
    }

    fn into_played(self, length: Nanos) -> Played {
        let begun = self.counted(self.start);
        let end = begun.saturating_add(length);
        let Player {
            events,
            reported,
            lost,
            ends,
            left,
            reports_wakeups,
            start,
            mut measured,
            alone,
            front,
            breaches,
            refused,
            observed,
            in_kernel,
            ..
        } = self;
        if let Some(measured) = &mut measured {
            for (at, event) in merged(in_time(alone.iter().cloned(), end), &[], begun, end) {
                measured.record(at, &event);
            }
        }
        let events = merged(in_time(events.into_iter().chain(alone), end), &reported, begun, end);
        let exceptions = left.iter().filter_map(|left| Some((left.entity, left.exception.clone()?))).collect();
        let troubles = left.into_iter().filter_map(|left| Some((left.name, left.trouble?))).collect();
        let warnings = front.map(|front| front.warnings()).unwrap_or_default();
        let interrupted = output::is_interrupted() || front.is_some_and(|front| front.is_ended_on_request());
        Played {
            events,
            lost,
            start,
            measured,
            length,
            interrupted,
            ends,
            troubles,
            exceptions,
            warnings,
            refused_changes: refused,
            breaches: breaches.all,
            reports_wakeups,
            observed,
            in_kernel,
        }
    }
}

/// Returns the events of a run that ends at `end`. A process whose departure is recorded after `end` leaves at `end`.
/// All other later events are dropped.
fn in_time(events: impl Iterator<Item = (Instant, Event)>, end: Instant) -> impl Iterator<Item = (Instant, Event)> {
    let of_run = events.filter(move |(at, event)| *at <= end || matches!(event, Event::Detach { .. }));
    of_run.map(move |(at, event)| (at.min(end), event))
}

/// Returns the name of an entity in the description of the run.
fn name_of(ends: &[End], plan: &Plan, entity: EntityId) -> String {
    let place = ends.iter().enumerate().find_map(|(index, end)| {
        let nth = end.entities.iter().position(|&e| e == entity)?;
        Some(plan.processes[index].entities.start + nth)
    });
    place.map_or_else(|| format!("{entity}"), |at| plan.description.entities[at].name.clone())
}

/// Returns the CPU time of a process's living threads.
fn cpu_time(pid: u32) -> Nanos {
    let threads = thread::threads(pid).unwrap_or_default();
    let had = threads.into_iter().filter_map(|tid| Some(usage::Meter::open(tid).ok()?.read().ok()?.ran));
    had.fold(Nanos::ZERO, |sum, ran| sum + ran)
}
