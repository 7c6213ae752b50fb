//! [`Reconciler`]: makes the core keep what is desired for the VMs that run.
//!
//! The reconciler works by levels, not by edges: it compares what is desired with what the core keeps whenever a VM
//! appears, a promise ends, or the core is connected again. It alone talks to the core.

mod changes;
mod managed;
mod views;

use crate::audit::Audit;
use crate::carried::{Carried, Wanted};
use crate::complaint::complain;
use crate::core_link::CoreLink;
use crate::enforced::Enforced;
use crate::events::{Events, now_ms};
use crate::history::Recorded;
use crate::inventory::{Change, Found, Inventory};
use crate::monitors::Monitors;
use crate::standing::{RETRY, Standing};
use crate::store::{Lifetime, Store};
use api::{Happened, Source, State};
use daemon::Explanation;
use sched::{EntityId, Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use sys::clock;
use trace::Event;

/// Interval between two readings of the news of the core while no promise is in force. Otherwise, each look reads them.
const NEWS_IDLE: Nanos = Nanos::ms(500);

/// Makes the core keep what is desired for the VMs that run.
#[derive(Debug)]
pub(crate) struct Reconciler {
    link: CoreLink,
    inventory: Inventory,
    monitors: Monitors,
    carried: Carried,
    store: Store,
    audit: Audit,
    events: Arc<Events>,
    boot: String,
    /// The running VMs, by id.
    standings: BTreeMap<String, Standing>,
    /// States as they were last reported in an event.
    reported: BTreeMap<String, State>,
    /// Whether a promise has ended, so that a refused one may fit now.
    has_room: bool,
    /// Whether the state of a VM may have changed since the last report.
    has_changed: bool,
    /// Instant of the next reading of the news of the core.
    next_news: Instant,
    recorded: Recorded,
    /// Part of a CPU that all VMs of a user other than root may be promised together, if the user sets it. Unit: percent.
    user_quota: u32,
}

impl Reconciler {
    pub(crate) fn new(
        link: CoreLink,
        carried: Carried,
        store: Store,
        audit: Audit,
        events: Arc<Events>,
        boot: String,
        user_quota: u32,
    ) -> Reconciler {
        let (inventory, standings) = (Inventory::open(), BTreeMap::new());
        let mut reconciler = Reconciler {
            link,
            inventory,
            monitors: Monitors::start(),
            carried,
            store,
            audit,
            events,
            boot,
            standings,
            reported: BTreeMap::new(),
            has_room: false,
            has_changed: true,
            next_news: Instant::ZERO,
            recorded: Recorded::default(),
            user_quota,
        };
        reconciler.restore_processes();
        reconciler
    }

    /// Adds the processes with a desired state that are no VMs. Removes the desired states of those that have ended.
    fn restore_processes(&mut self) {
        let processes = self.store.iter().filter_map(|(id, record)| Some((id.clone(), record.process.clone()?)));
        for (id, Lifetime { boot, start_time }) in processes.collect::<Vec<_>>() {
            // The id is `pid:NUMBER`; that of a VM without a name ends with `-NUMBER`.
            let pid = id.rsplit([':', '-']).next().unwrap_or_default();
            let added = self.inventory.add(&format!("pid:{pid}")).filter(|(added, _)| *added == id);
            let is_it = |vm: &Found| boot == self.boot && vm.process.start_time == start_time;
            if added.is_some() && self.inventory.vms.get(&id).is_some_and(is_it) {
                self.standings.insert(id, Standing::default());
            } else {
                self.inventory.forget(&id);
                self.forget(&id);
            }
        }
    }

    /// Looks at the host and the core, and makes the core keep what is desired.
    pub(crate) fn look(&mut self, now: Instant) {
        // A VM that appears now gets what its files want now.
        self.follow_carried();
        self.follow_vms(now);
        self.follow_monitors();
        let was_connected = self.link.core().is_some();
        if self.link.look(now, &self.events) {
            self.adopt_roster();
        }
        self.has_changed |= self.link.core().is_some() != was_connected;
        if self.next_news <= now {
            self.read_news(now);
            let has_promises = self.standings.values().any(|standing| standing.enforced.request().is_some());
            self.next_news = now.saturating_add(if has_promises { Nanos::ZERO } else { NEWS_IDLE });
        }
        let promised = self.standings.iter().filter(|(_, standing)| standing.enforced.request().is_some());
        self.recorded.record(now_ms(), promised.map(|(id, standing)| (id, &standing.measured)));
        self.retry_refused(now);
        if let Err(error) = self.audit.sync() {
            complain(&format!("cannot write the audit log: {error}"));
        }
        if self.has_changed {
            self.report_states();
        }
    }

    /// Follows the VMs that appear and end.
    fn follow_vms(&mut self, now: Instant) {
        for change in self.inventory.follow(now) {
            self.has_changed = true;
            match change {
                Change::Appeared(id) => self.appeared(&id),
                Change::Ended(id, pid) => {
                    let standing = self.standings.remove(&id);
                    if let (Some(core), Some(true)) = (self.link.core(), standing.map(|it| it.enforced.has_share())) {
                        core.end_share(pid);
                    }
                    self.has_room = true;
                    // A process that is no VM does not come back.
                    if self.store.get(&id).is_some_and(|record| record.process.is_some()) {
                        self.forget(&id);
                    }
                    self.events.push(Some(&id), Happened::Ended);
                }
            }
        }
    }

    /// Follows the changes of what the running VMs carry.
    fn follow_carried(&mut self) {
        if !self.carried.has_changed() {
            return;
        }
        self.has_changed = true;
        let before: Vec<(String, Wanted)> = self.inventory.vms.keys().map(|id| (id.clone(), self.wanted(id))).collect();
        self.carried.read(&mut self.inventory);
        for (id, before) in before {
            let Wanted { desired, source, .. } = self.wanted(&id);
            if desired != before.desired {
                let by = source.map_or("nothing", Source::word).to_string();
                let generation = self.store.get(&id).map_or(0, |record| record.generation);
                self.events.push(Some(&id), Happened::Changed { by, desired, before: before.desired, generation });
                self.enforce(&id);
                // A smaller promise leaves room for others.
                self.has_room = true;
            }
        }
    }

    fn appeared(&mut self, id: &str) {
        let Some(vm) = self.inventory.vms.get(id) else { return };
        let happened = Happened::Appeared { name: vm.name.clone(), pid: vm.process.pid };
        self.events.push(Some(id), happened);
        self.monitors.ask(vm);
        self.standings.insert(id.to_string(), Standing::default());
        self.enforce(id);
    }

    /// Takes over the threads of vCPUs that monitors have named.
    fn follow_monitors(&mut self) {
        for answer in self.monitors.answers().collect::<Vec<_>>() {
            let vm = self.inventory.vms.get_mut(&answer.id).filter(|vm| vm.identity() == answer.leader);
            if let Some(vm) = vm {
                vm.vcpus = answer.tids;
                self.enforce(&answer.id);
            }
        }
    }

    /// Removes the desired state of a process that has ended.
    fn forget(&mut self, id: &str) {
        if self.store.get(id).is_none() {
            return;
        }
        self.store.put(id, None, None);
        if let Err(error) = self.store.commit() {
            complain(&format!("cannot remove the desired state of {id}: {error}"));
        }
    }

    /// Takes over what the core keeps, after a new connection, and makes it what is desired.
    fn adopt_roster(&mut self) {
        let Some(core) = self.link.core() else { return };
        let mut roster = core.read_roster();
        for (id, vm) in &mut self.inventory.vms {
            let identity = vm.identity();
            let of_vm = roster.promises.iter().position(|it| it.process.is(identity));
            let share = roster.shares.iter().position(|it| it.process.is(identity));
            let promise = of_vm.map(|at| roster.promises.swap_remove(at));
            let share = share.map(|at| roster.shares.swap_remove(at).share);
            if let Some(promise) = &promise {
                // An earlier service has asked the monitor. Without them, the promise would end and begin again.
                vm.vcpus.clone_from(&promise.request.vcpus);
            }
            let short = promise.as_ref().map(|it| it.short.iter().copied().collect()).unwrap_or_default();
            let before = self.standings.remove(id).unwrap_or_default();
            self.standings.insert(id.clone(), before.reconnected(Enforced::of(promise, share), short));
        }
        // Promises that an earlier service has made, and that nothing here desires.
        roster.promises.iter().flat_map(|it| &it.entities).for_each(|&e| core.dismiss(e));
        roster.shares.iter().for_each(|it| core.end_share(it.process.pid));
        let ids: Vec<String> = self.inventory.vms.keys().cloned().collect();
        ids.iter().for_each(|id| self.enforce(id));
    }

    /// Returns what is desired for a VM: what a client has set, or else what the VM carries.
    fn wanted(&self, id: &str) -> Wanted {
        match self.store.get(id) {
            Some(record) => Wanted { desired: record.desired.clone(), source: Some(Source::Client), problem: None },
            None => self.inventory.vms.get(id).map(|vm| self.carried.of(vm)).unwrap_or_default(),
        }
    }

    /// Makes the core keep what is desired for a running VM.
    fn enforce(&mut self, id: &str) {
        self.has_changed = true;
        let desired = self.wanted(id).desired;
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return };
        let Some(standing) = self.standings.get_mut(id) else { return };
        let record = self.store.get(id);
        // The owner of a process chooses its command line, and with it the id of its VM.
        let other = record.and_then(|record| record.user).filter(|user| *user != vm.user());
        let outcome = match other {
            Some(user) if !desired.is_empty() => Err(of_another_user(vm, user)),
            _ => standing.become_desired(core, vm, &desired).map_err(|refusal| refusal.reason()),
        };
        standing.next = clock::now().saturating_add(standing.pause);
        standing.pause = standing.pause.saturating_add(standing.pause).min(RETRY.1);
        if outcome.is_ok() {
            standing.pause = RETRY.0;
        }
        standing.refused = outcome.err();
    }

    /// Tries the desired states again that are not in force: at once if there is new room, and otherwise from time to time.
    fn retry_refused(&mut self, now: Instant) {
        let has_room = std::mem::take(&mut self.has_room);
        let is_due = |standing: &Standing| standing.refused.is_some() && (has_room || standing.next <= now);
        let refused = self.standings.iter().filter(|(_, standing)| is_due(standing));
        let ids: Vec<String> = refused.map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.enforce(id));
    }

    /// Reads the events and dismissals of the core.
    fn read_news(&mut self, now: Instant) {
        let Some(core) = self.link.core() else { return };
        let news = core.read_news();
        let is_of_state = |(_, event): &(Instant, Event)| matches!(event, Event::Kept { .. });
        self.has_changed |= !news.dismissed.is_empty() || news.events.iter().any(is_of_state);
        let mut standings: Vec<&mut Standing> = self.standings.values_mut().collect();
        let mut of: BTreeMap<EntityId, usize> = BTreeMap::new();
        for (at, standing) in standings.iter_mut().enumerate() {
            standing.measured.lost += news.lost;
            of.extend(standing.enforced.entities().iter().map(|&e| (e, at)));
        }
        for (at, event) in &news.events {
            let (Event::Period { entity, .. } | Event::Kept { entity, .. }) = event else { continue };
            if let Some(&of) = of.get(entity) {
                standings[of].hear(event, *at);
            }
        }
        for standing in &mut standings {
            let entities = standing.enforced.entities();
            let is_in_kernel = !entities.is_empty() && entities.iter().all(|e| news.in_kernel.contains(e));
            self.has_changed |= std::mem::replace(&mut standing.is_in_kernel, is_in_kernel) != is_in_kernel;
        }
        for dismissed in &news.dismissed {
            match of.get(&dismissed.entity) {
                Some(&at) => standings[at].dismissed(core, dismissed, now),
                // The VM has ended.
                None => self.has_room = true,
            }
        }
    }

    /// Reports the states that have changed.
    fn report_states(&mut self) {
        let states: BTreeMap<String, State> = self.ids().into_iter().map(|id| (id.clone(), self.state(&id))).collect();
        self.reported.keys().filter(|id| !states.contains_key(*id)).for_each(|id| self.recorded.forget(id));
        for (id, state) in &states {
            if self.reported.get(id) != Some(state) {
                self.events.push(Some(id), Happened::State(state.clone()));
            }
        }
        self.reported = states;
        self.has_changed = false;
    }

    /// Returns the ids of all VMs that run or have a desired state.
    fn ids(&self) -> BTreeSet<String> {
        self.inventory.vms.keys().chain(self.store.iter().map(|(id, _)| id)).cloned().collect()
    }
}

/// Returns the refusal of a desired state that was set for a VM of `user`.
fn of_another_user(vm: &Found, user: u32) -> Explanation {
    let why = format!("the VM runs for user {}, and its desired state was set for user {user}", vm.user());
    Explanation::new(why, "set it again if the VM is the same")
}
