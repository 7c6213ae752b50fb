//! [`Dispatcher`]: the state of the dispatcher, and how the machine's actions change this state.

use super::client::Client;
use super::clients::Clients;
use super::cpu::CpuState;
use super::journal::Journal;
use super::leaving::AllLeaving;
use super::member::{Level, Member};
use super::ordered::InKernel;
use super::scan::Found;
use super::withheld::Withheld;
use crate::Explanation;
use crate::kernel::Kernel;
use crate::table::Table;
use sched::{
    Action, Alarm, CpuId, CpuSet, Descriptor, EntityId, Input, Instant, Kicks, Knobs, Machine, Nanos, PromiseState,
    Refused, State, Topology,
};
use std::sync::Arc;
use sys::thread::Identity;
use trace::Event;

/// A pending alarm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) alarm: Alarm,
    pub(super) on: CpuId,
    pub(super) at: Instant,
}

/// A client that the dispatcher no longer serves.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Dismissed {
    /// Entity of the client.
    pub entity: EntityId,
    /// Name of the client.
    pub name: String,
    /// Reason why the client is no longer served. `None`: the client has ended, or was dismissed on request.
    pub trouble: Option<Explanation>,
    /// Reason why Tactus has set the attributes of threads of the client that could not inherit a priority. `None`: the
    /// mechanism of the promise has served all threads.
    pub exception: Option<String>,
}

/// Carries out the machine's actions on a kernel.
pub struct Dispatcher<K: Kernel> {
    pub(super) kernel: K,
    pub(super) table: Arc<Table>,
    pub(super) machine: Machine,
    /// The machine's policy and its knobs, with which a refused promise is explained.
    pub(super) policy: Descriptor,
    pub(super) knobs: Knobs,
    /// Time zero of the machine, according to the kernel's clock.
    pub(super) epoch: Instant,
    pub(super) clients: Clients<K>,
    pub(super) trees: usize,
    /// Threads that admissions have found and that are not adopted yet, with the numbers of their trees.
    pub(super) unadopted: Vec<(usize, Vec<Found<K::Thread>>)>,
    /// Threads that have left a promise that continues for other threads, with the number of its tree. They are not adopted
    /// again.
    pub(super) departed: Vec<(usize, Identity)>,
    /// Pending alarms, indexed by alarm number.
    pub(super) alarms: Vec<Option<Due>>,
    /// CPUs whose agents must be woken.
    pub(super) call: CpuSet,
    /// CPUs whose next turn must pick again.
    pub(super) kicked: CpuSet,
    pub(super) cpus: Vec<CpuState>,
    /// Whether service is suspended because no guardian is alive.
    pub(super) suspended: bool,
    pub(super) journal: Journal,
    /// CPU time that is kept free for interfering threads.
    pub(super) withheld: Withheld,
    actions: Vec<Action>,
    pub(super) left: Vec<Dismissed>,
    /// Threads of dismissed clients, until [`Dispatcher::take_former`].
    pub(super) former: Vec<Member<K>>,
    /// Reasons for threads that have left the promises to their processes.
    pub(super) reasons: Vec<Explanation>,
    /// Dismissed clients whose threads may be inside a fork.
    pub(super) leaving: AllLeaving,
    /// The scheduler in the kernel.
    pub(super) in_kernel: InKernel,
}

impl<K: Kernel> std::fmt::Debug for Dispatcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("machine", &self.machine).field("table", &self.table).finish_non_exhaustive()
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// Returns a dispatcher without promises, for CPUs `0..cpus`.
    ///
    /// # Errors
    /// The policy does not support these knobs.
    pub fn new(
        kernel: K,
        table: Arc<Table>,
        policy: &Descriptor,
        knobs: &Knobs,
        cpus: usize,
    ) -> Result<Dispatcher<K>, Refused> {
        let machine = Machine::build(policy, Topology::new(cpus), knobs, Kicks::Delivered)?;
        let epoch = kernel.now();
        Ok(Dispatcher {
            kernel,
            table,
            machine,
            policy: *policy,
            knobs: knobs.clone(),
            epoch,
            clients: Clients::new(cpus),
            trees: 0,
            unadopted: Vec::new(),
            departed: Vec::new(),
            alarms: Vec::new(),
            call: CpuSet::EMPTY,
            kicked: CpuSet::EMPTY,
            cpus: vec![CpuState::idle(); cpus],
            suspended: false,
            journal: Journal::new(),
            withheld: Withheld::default(),
            actions: Vec::with_capacity(64),
            left: Vec::new(),
            former: Vec::new(),
            reasons: Vec::new(),
            leaving: AllLeaving::default(),
            in_kernel: InKernel::default(),
        })
    }

    /// Returns the table of originals.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the machine of the dispatcher.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns time zero of the [journal](Dispatcher::read_journal), according to the kernel's clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Replaces the content of `events` with the events since the last call. Returns the number of lost events.
    pub fn read_journal(&mut self, events: &mut Vec<(Instant, Event)>) -> u64 {
        self.journal.exchange(events)
    }

    /// Returns the clients that were dismissed since the last call.
    pub fn take_dismissed(&mut self) -> Vec<Dismissed> {
        std::mem::take(&mut self.left)
    }

    /// Returns the state of client `e` after the actions carried out so far. `None`: the client is not served.
    #[must_use]
    pub fn state(&self, e: EntityId) -> Option<State> {
        self.clients.get(e).map(|client| self.state_of(e, client))
    }

    /// Returns the end of the time slice on `cpu` after the actions carried out so far; [`Instant::NEVER`] without a
    /// slice.
    #[must_use]
    pub fn until(&self, cpu: CpuId) -> Instant {
        self.cpus[cpu.index()].until()
    }

    /// Returns the level that was last set for the threads of client `e`. `None`: the client is not served.
    #[must_use]
    pub fn level(&self, e: EntityId) -> Option<Level> {
        self.clients.get(e).map(|client| client.level)
    }

    /// Returns whether client `e` has vCPUs and threads that serve them, so that its threads run at two priorities.
    #[must_use]
    pub fn has_helpers(&self, e: EntityId) -> bool {
        self.clients.get(e).is_some_and(Client::has_helpers)
    }

    /// Returns whether this host reports wake-ups of `e`. If not, the agent polls for them, and detects them late.
    #[must_use]
    pub fn reports_wakeups(&self, e: EntityId) -> bool {
        self.clients.get(e).is_some_and(|client| client.reports_wakeups)
    }

    /// Returns the promise state of `e`; `None` if `e` is no client, or if the kernel dispatches it.
    pub(super) fn client_promise(&self, e: EntityId) -> Option<PromiseState> {
        self.clients.get(e).filter(|client| !client.is_in_kernel).and_then(|_| self.machine.promise(e))
    }

    /// Returns the CPU of `e`; `None` if `e` is no client.
    pub(super) fn client_cpu(&self, e: EntityId) -> Option<CpuId> {
        self.clients.get(e).map(|client| client.cpu)
    }

    /// Returns whether the promise to `e` counts as kept; `None` if `e` is no client.
    pub(super) fn is_client_kept(&self, e: EntityId) -> Option<bool> {
        self.clients.get(e).map(|client| client.kept.is_kept())
    }

    /// Returns the interval between scans for new threads: the shortest period of the clients whose forks this host
    /// does not report. `None`: the host reports all forks.
    #[must_use]
    pub fn looking(&self) -> Option<Nanos> {
        let untold = self.clients.iter().filter(|(_, client)| !client.reports_forks);
        untold.map(|(_, client)| client.reservation.period).min()
    }

    /// Returns the machine's time.
    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.kernel.now().saturating_since(self.epoch)
    }

    pub(super) fn take_calls(&mut self) -> CpuSet {
        std::mem::replace(&mut self.call, CpuSet::EMPTY)
    }

    pub(super) fn input(&mut self, now: Instant, input: Input) {
        self.journal.note(now, Event::from(input));
        self.machine.input(now, input);
    }

    // ---- Promise state ----

    pub(super) fn left_of(&self, e: EntityId) -> i64 {
        self.machine.promise(e).map_or(0, |promise| promise.remaining)
    }

    /// Returns the end of the current period of `e`.
    pub(super) fn deadline(&self, e: EntityId) -> Instant {
        self.machine.promise(e).map_or(Instant::NEVER, |promise| promise.deadline)
    }

    // ---- Decisions ----

    pub(super) fn state_of(&self, e: EntityId, client: &Client<K>) -> State {
        if client.is_blocked {
            State::Blocked
        } else if self.cpus[client.cpu.index()].dispatched() == Some(e) {
            State::Running(client.cpu)
        } else {
            State::Waiting
        }
    }

    /// Settles the machine, and settles again while the machine kicks `here`.
    pub(super) fn settle(&mut self, here: Option<CpuId>, now: Instant) {
        loop {
            self.actions.clear();
            self.actions.extend_from_slice(self.machine.settle(now));
            let mut again = None;
            for at in 0..self.actions.len() {
                let action = self.actions[at];
                self.journal.note(now, Event::from(action));
                match action {
                    Action::Kick { cpu } if Some(cpu) == here => again = Some(cpu),
                    Action::Kick { cpu } => {
                        self.kicked.insert(cpu);
                        self.call.insert(cpu);
                    }
                    Action::SetAlarm { alarm, on, at } => self.set_alarm(Due { alarm, on, at }, here),
                    Action::ClearAlarm { alarm } => {
                        if let Some(slot) = self.alarms.get_mut(self.machine.alarm_number(alarm)) {
                            *slot = None;
                        }
                    }
                    Action::Run { cpu, entity, until } => {
                        self.cpus[cpu.index()].run(entity, until, now);
                        if let Some(client) = self.clients.get_mut(entity) {
                            client.is_dispatched = true;
                        }
                    }
                    Action::Extend { cpu, until } => self.cpus[cpu.index()].extend(until, now),
                    Action::Stop { cpu, entity } => self.cpus[cpu.index()].stop(entity),
                    // The client waits for its next period.
                    Action::Held { .. } => {}
                }
            }
            let Some(cpu) = again else { return };
            self.input(now, Input::Kicked { cpu });
        }
    }

    fn set_alarm(&mut self, due: Due, here: Option<CpuId>) {
        let number = self.machine.alarm_number(due.alarm);
        if self.alarms.len() <= number {
            self.alarms.resize(number + 1, None);
        }
        self.alarms[number] = Some(due);
        if Some(due.on) != here {
            self.call.insert(due.on);
        }
    }
}
