//! [`SimulatedHost`]: a run in progress, paced in real time, as the managed host of a service.

use crate::pace::{Pace, Speed};
use crate::recorder::Recorder;
use crate::room::CapRule;
use crate::vms::{self, ManagedVm};
use api::{Desired, Happened, Measured, Observation, Source};
use input::problem::Problems;
use run::{Budget, Observers, Run, Session};
use sched::{Explanation, Instant, Nanos};
use service::{Events, Recorded, now_ms};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Interval between two steps of the simulation.
pub(crate) const LOOK: Nanos = Nanos::ms(20);
/// Time that a run can last: 10 years.
const LENGTH: Nanos = Nanos::s(10 * 365 * 24 * 3_600);

/// A change that a client has made with an idempotency key.
#[derive(Debug)]
pub(crate) struct KeyedChange {
    pub(crate) by: String,
    pub(crate) key: String,
    /// Index of the VM.
    pub(crate) vm: usize,
    pub(crate) desired: Desired,
}

/// An observation in progress.
#[derive(Debug)]
pub(crate) struct Observing {
    /// Index of the VM.
    pub(crate) vm: usize,
    /// Number of the observation in the recorder.
    pub(crate) number: u64,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    pub(crate) reply: oneshot::Sender<Observation>,
}

/// A simulated host. Its time passes with the real time, and its VMs are those of a scenario. The first host of the
/// scenario is served. The run goes on beyond the length of the scenario, without end.
#[derive(Debug)]
pub struct SimulatedHost {
    pub(crate) session: Session<'static>,
    pub(crate) recorder: Rc<RefCell<Recorder>>,
    pub(crate) pace: Pace,
    /// In the order of the recorder's owners.
    pub(crate) vms: Vec<ManagedVm>,
    pub(crate) events: Arc<Events>,
    pub(crate) caps: CapRule,
    /// Number of changes of desired states so far.
    pub(crate) changes: u64,
    /// The latest changes with a key, in their order.
    pub(crate) keyed: VecDeque<KeyedChange>,
    pub(crate) recorded: Recorded,
    pub(crate) observing: Vec<Observing>,
    /// Whether all events before the present instant have happened.
    is_whole: bool,
    /// Instant of the real clock of the next report.
    next_report: Instant,
    /// Reason why the simulation cannot go on.
    pub(crate) failure: Option<Explanation>,
}

impl SimulatedHost {
    /// Begins `run` at its first instant. Events go to `events`.
    ///
    /// # Errors
    /// The policy or a guest's policy refuses its knobs, its machine or a group. The scenario has several hosts, or a
    /// workload manager, which would change the promises of clients.
    pub fn new(run: &Run, speed: Speed, events: Arc<Events>) -> Result<SimulatedHost, Explanation> {
        let mut scenario = (*run.scenario).clone();
        if scenario.hosts > 1 {
            let reason = format!("the scenario has {} hosts, and a service has one", scenario.hosts);
            return Err(Explanation::new(reason, "use hosts = 1, or leave the host out"));
        }
        if scenario.manager.is_some() {
            let reason = "the workload manager of the scenario changes the promises that clients set";
            return Err(Explanation::new(reason, "leave [manager] out"));
        }
        scenario.length = LENGTH;
        let vms = ManagedVm::all_of(&scenario);
        let names = vms.iter().map(|vm| vm.name.clone());
        let recorder = Rc::new(RefCell::new(Recorder::new(scenario.host.cpus, names)));
        let run = Run { scenario: Arc::new(scenario), ..run.clone() };
        let observers = Observers::none().host(Rc::clone(&recorder));
        let session = run.start_unmeasured(observers).map_err(|problems| explained(&problems))?;
        let mut host = SimulatedHost {
            caps: CapRule::of(&run),
            session,
            recorder,
            pace: Pace::new(speed),
            vms,
            events,
            changes: 0,
            keyed: VecDeque::new(),
            recorded: Recorded::default(),
            observing: Vec::new(),
            is_whole: false,
            next_report: Instant::ZERO,
            failure: None,
        };
        // The VMs that arrive at the first instant are there before the first request.
        host.complete_instant();
        host.follow();
        Ok(host)
    }

    /// Returns the present instant of the simulation.
    pub(crate) fn now(&self) -> Instant {
        self.session.progress().now
    }

    /// Lets the simulation go on for a bounded time, towards the instant that belongs to `now` of the real clock. Returns
    /// the pause until the next call.
    pub(crate) fn advance(&mut self, now: Instant) -> Nanos {
        if self.failure.is_some() {
            return LOOK;
        }
        let goal = self.pace.goal(now, self.now());
        self.step(goal);
        if self.is_whole || self.next_report <= now {
            self.follow();
            self.next_report = now.saturating_add(LOOK);
        }
        if self.is_whole { LOOK } else { Nanos::ZERO }
    }

    /// Takes one step towards `goal`.
    fn step(&mut self, goal: Instant) {
        match self.session.step_until(goal, Budget::STEP) {
            Ok(progress) => self.is_whole = progress.now >= goal,
            Err(problems) => {
                let Explanation { reason, remedy } = explained(&problems);
                self.failure = Some(Explanation::new(format!("the simulation has stopped: {reason}"), remedy));
                self.is_whole = true;
            }
        }
    }

    /// Completes the present instant, so that a request happens between two instants.
    pub(crate) fn complete_instant(&mut self) {
        let next = self.now().saturating_add(Nanos::ns(1));
        while !self.is_whole {
            self.step(next);
        }
    }

    /// Follows what has happened: VMs that arrive and leave, changes of the scenario, states, and observations that end.
    pub(crate) fn follow(&mut self) {
        let now = self.now();
        self.recorder.borrow_mut().advance(now);
        for index in 0..self.vms.len() {
            self.follow_presence(index);
            self.follow_scenario(index);
        }
        self.report_states();
        self.record();
        self.end_observations();
    }

    fn follow_presence(&mut self, index: usize) {
        let recorder = self.recorder.borrow();
        let (owner, vm) = (&recorder.owners[index], &mut self.vms[index]);
        let is_present = owner.threads > 0;
        let Some(pid) = owner.pid.filter(|_| is_present != vm.is_present) else { return };
        vm.is_present = is_present;
        let id = vm.id(pid);
        if is_present {
            self.events.push(Some(&id), Happened::Appeared { name: vm.name.clone(), pid });
        } else {
            self.recorded.forget(&id);
            vm.reported = None;
            self.events.push(Some(&id), Happened::Ended);
        }
    }

    /// Takes over a reservation that the scenario has changed.
    fn follow_scenario(&mut self, index: usize) {
        let vm = &self.vms[index];
        if !vm.is_present || vm.source != Some(Source::Scenario) {
            return;
        }
        let machine = self.session.host_machine();
        let reservations = vm.members.iter().map(|&member| {
            let id = self.session.entity(member)?;
            machine.params(id).reservation
        });
        let gang = vm.desired.promise.as_ref().is_some_and(|promise| promise.gang);
        let promise = vms::promise(reservations, gang);
        if promise == vm.desired.promise {
            return;
        }
        let before = vm.desired.clone();
        let desired = Desired { promise, ..before.clone() };
        let (by, generation) = (Source::Scenario.word().to_string(), vm.generation);
        let id = self.id(index);
        self.vms[index].desired = desired.clone();
        self.events.push(Some(&id), Happened::Changed { by, desired, before, generation });
    }

    /// Reports the states that have changed.
    pub(crate) fn report_states(&mut self) {
        for index in (0..self.vms.len()).filter(|&index| self.vms[index].is_present).collect::<Vec<_>>() {
            let state = self.state(index);
            if self.vms[index].reported.as_ref() != Some(&state) {
                self.events.push(Some(&self.id(index)), Happened::State(state.clone()));
                self.vms[index].reported = Some(state);
            }
        }
    }

    /// Records the measurements of the promises in force for the history.
    fn record(&mut self) {
        let promised = (0..self.vms.len()).filter(|&index| self.is_promised(index));
        let measured: Vec<(String, Measured)> = promised.map(|index| (self.id(index), self.measured(index))).collect();
        self.recorded.record(now_ms(), measured.iter().map(|(id, measured)| (id, measured)));
    }

    fn end_observations(&mut self) {
        let now = self.now();
        let (ended, open) = std::mem::take(&mut self.observing).into_iter().partition(|it| it.until <= now);
        self.observing = open;
        for observing in ended {
            let observation = self.observation(&observing);
            // A client that has left needs no reply.
            let _ = observing.reply.send(observation);
        }
    }

    /// Returns the id of a VM that has arrived.
    pub(crate) fn id(&self, index: usize) -> String {
        let pid = self.recorder.borrow().owners[index].pid.unwrap_or_default();
        self.vms[index].id(pid)
    }
}

/// Returns the first problem of a run as a reason and a remedy.
fn explained(problems: &Problems) -> Explanation {
    let first = problems.shown().first();
    Explanation::new(problems.to_string(), first.map(|problem| problem.remedy().to_string()).unwrap_or_default())
}
