//! [`Reconciler`]: makes the core keep what is desired for the VMs that run.
//!
//! The reconciler works by levels, not by edges: it compares what is desired with what the core keeps whenever a VM
//! appears, a promise ends, or the core is connected again. It alone talks to the core.

use crate::audit::{Audit, Entry};
use crate::caller::Caller;
use crate::carried::{Carried, Wanted};
use crate::complaint::complain;
use crate::core_link::CoreLink;
use crate::enforced::Enforced;
use crate::events::Events;
use crate::inventory::{Change, Found, Inventory};
use crate::permission::{Permission, percent};
use crate::standing::{RETRY, Standing};
use crate::store::{Lifetime, Record, Store};
use crate::terms;
use api::{Alternatives, Desired, Happened, Host, Kind, Phase, Problem, Source, State, Vm};
use daemon::Explanation;
use daemon::dispatch::Refusal;
use daemon::live::Client;
use sched::{EntityId, Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use sys::clock;
use trace::Event;

/// Interval between two readings of the news of the core while no promise is in force. Otherwise, each look reads them.
const NEWS_IDLE: Nanos = Nanos::ms(500);

/// A requested change of a desired state.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Id, name or `pid:NUMBER` of the VM.
    pub(crate) vm: String,
    /// Generation that the VM must have.
    pub(crate) generation: Option<u64>,
    pub(crate) desired: Desired,
    pub(crate) by: Caller,
    /// Reason for the audit log.
    pub(crate) why: Option<String>,
}

/// Makes the core keep what is desired for the VMs that run.
#[derive(Debug)]
pub(crate) struct Reconciler {
    link: CoreLink,
    inventory: Inventory,
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
                self.events.push(Some(&id), Happened::Changed { by, desired });
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
        self.standings.insert(id.to_string(), Standing::default());
        self.enforce(id);
    }

    /// Removes the desired state of a process that has ended.
    fn forget(&mut self, id: &str) {
        if self.store.get(id).is_some()
            && let Err(error) = self.store.put(id, None)
        {
            complain(&format!("cannot remove the desired state of {id}: {error}"));
        }
    }

    /// Takes over what the core keeps, after a new connection, and makes it what is desired.
    fn adopt_roster(&mut self) {
        let Some(core) = self.link.core() else { return };
        let mut roster = core.read_roster();
        for (id, vm) in &self.inventory.vms {
            let identity = vm.identity();
            let of_vm = roster.promises.iter().position(|it| it.process.is(identity));
            let share = roster.shares.iter().position(|it| it.process.is(identity));
            let promise = of_vm.map(|at| roster.promises.swap_remove(at));
            let share = share.map(|at| roster.shares.swap_remove(at).share);
            let short = promise.as_ref().map(|it| it.short.iter().copied().collect()).unwrap_or_default();
            let enforced = Enforced::of(promise, share);
            self.standings.insert(id.clone(), Standing { enforced, short, ..Standing::default() });
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
        for (_, event) in &news.events {
            let (Event::Period { entity, .. } | Event::Kept { entity, .. }) = event else { continue };
            if let Some(&at) = of.get(entity) {
                standings[at].hear(event);
            }
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

    fn state(&self, id: &str) -> State {
        let Wanted { desired, problem, .. } = self.wanted(id);
        let standing = self.standings.get(id);
        let refused = standing.and_then(|standing| standing.refused.as_ref()).or(problem.as_ref());
        let phase = match (Some(&desired).filter(|desired| !desired.is_empty()), standing) {
            (None, _) if problem.is_some() => Phase::Refused,
            (None, _) => Phase::None,
            (Some(_), None) => Phase::Absent,
            (Some(desired), _) if desired.paused => Phase::Paused,
            (Some(_), Some(_)) if self.link.core().is_none() => Phase::Waiting,
            (Some(_), Some(standing)) if standing.refused.is_some() => Phase::Refused,
            (Some(_), Some(standing)) if !standing.short.is_empty() => Phase::NotKept,
            _ => Phase::Kept,
        };
        let waits = (phase == Phase::Waiting).then(|| self.link.reason().to_string());
        let mechanism = standing.and_then(|standing| standing.enforced.request());
        State {
            phase,
            mechanism: mechanism.map(|request| terms::word(request.by).to_string()),
            reason: refused.map(|why| why.reason.to_string()).or(waits),
            remedy: refused.map(|why| why.remedy.to_string()).filter(|remedy| !remedy.is_empty()),
        }
    }

    fn vm(&self, id: &str) -> Option<Vm> {
        let (found, record) = (self.inventory.vms.get(id), self.store.get(id));
        let name = found.map(|vm| &vm.name).or(record.map(|record| &record.name))?.clone();
        let Wanted { desired, source, .. } = self.wanted(id);
        Some(Vm {
            id: id.to_string(),
            name,
            kind: found.map_or(Kind::Process, |vm| vm.kind),
            process: found.map(|vm| vm.process),
            generation: record.map_or(0, |record| record.generation),
            desired,
            source,
            state: self.state(id),
            measured: self.standings.get(id).map(|standing| standing.measured).unwrap_or_default(),
        })
    }

    /// Returns all VMs, by name.
    pub(crate) fn list(&self) -> Vec<Vm> {
        let mut all: Vec<Vm> = self.ids().iter().filter_map(|id| self.vm(id)).collect();
        all.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        all
    }

    /// Returns the VM with this id or name, or the process `pid:NUMBER`.
    ///
    /// # Errors
    /// There is no such VM, or several VMs have the name.
    pub(crate) fn show(&mut self, vm: &str) -> Result<Vm, Problem> {
        let (id, is_new) = self.find(vm)?;
        let shown = self.vm(&id).ok_or_else(|| missing(vm))?;
        if is_new {
            self.inventory.forget(&id);
            self.standings.remove(&id);
        }
        Ok(shown)
    }

    /// Returns the host.
    pub(crate) fn host(&self) -> Host {
        let core = self.link.core();
        Host {
            version: env!("CARGO_PKG_VERSION").to_string(),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            promisable_percent: core.and_then(|core| terms::promisable_percent(core.setup())),
            mechanisms: core.map(|core| terms::mechanisms(core.setup())).unwrap_or_default(),
            core: core.map(Client::pid),
            reason: core.is_none().then(|| self.link.reason().to_string()),
            warnings: self.warnings(),
        }
    }

    /// Returns the warnings of the service and of its core.
    fn warnings(&self) -> Vec<String> {
        let of_core = self.link.core().map(Client::warnings).unwrap_or_default();
        let ours = self.inventory.warning().map(str::to_string);
        ours.into_iter().chain(of_core.iter().map(ToString::to_string)).collect()
    }

    /// Finds a VM. Returns its id, and whether the inventory has it only because of this call.
    fn find(&mut self, vm: &str) -> Result<(String, bool), Problem> {
        let ids = self.ids();
        // The owner of a process chooses its command line, so an id may be the name of another VM.
        let is_it = |id: &&String| *id == vm || self.name(id).is_some_and(|name| name == vm);
        let named: Vec<&String> = ids.iter().filter(is_it).collect();
        match named[..] {
            [only] => return Ok((only.clone(), false)),
            [] => {}
            _ => {
                let all: Vec<&str> = named.iter().map(|id| id.as_str()).collect();
                let remedy = format!("use one of the ids {}, or pid:NUMBER", all.join(", "));
                let detail = format!("{} VMs have the name or the id {vm}", all.len());
                return Err(Problem::new(409, "Conflict", detail, remedy));
            }
        }
        let (id, is_new) = self.inventory.add(vm).ok_or_else(|| missing(vm))?;
        if is_new && self.inventory.vms.get(&id).is_some_and(Found::is_vm) {
            // The VM has not been noticed before.
            self.appeared(&id);
            return Ok((id, false));
        }
        if is_new {
            self.standings.entry(id.clone()).or_default();
        }
        Ok((id, is_new))
    }

    fn name(&self, id: &str) -> Option<&str> {
        let found = self.inventory.vms.get(id).map(|vm| &vm.name);
        found.or(self.store.get(id).map(|record| &record.name)).map(String::as_str)
    }

    /// Changes the desired state of a VM. What is acknowledged is on disk, and in force if the VM runs and there is a core.
    ///
    /// # Errors
    /// The request is invalid, not permitted or out of date, or the core refuses it. Nothing has changed.
    pub(crate) fn set(&mut self, wish: &Wish) -> Result<Vm, Problem> {
        let found = self.find(&wish.vm);
        let (id, is_new) = found.clone().unwrap_or_else(|_| (wish.vm.clone(), false));
        let before = self.store.get(&id).map(|record| record.desired.clone()).unwrap_or_default();
        let outcome = found.and_then(|_| self.change(&id, wish));
        let refused = outcome.as_ref().err().map(|problem| problem.detail.as_str());
        let entry = Entry { by: &wish.by, vm: &id, why: wish.why.as_deref(), from: &before, to: &wish.desired };
        if let Err(error) = self.audit.add(entry, refused) {
            complain(&format!("cannot write the audit log: {error}"));
        }
        if outcome.is_ok() {
            let (by, desired) = (wish.by.to_string(), wish.desired.clone());
            self.events.push(Some(&id), Happened::Changed { by, desired });
        }
        let shown = outcome.and_then(|()| self.vm(&id).ok_or_else(|| missing(&id)));
        if self.store.get(&id).is_none() && (is_new || shown.is_ok()) {
            self.inventory.forget(&id);
            if !self.inventory.vms.contains_key(&id) {
                self.standings.remove(&id);
            }
        }
        self.report_states();
        shown
    }

    /// Returns the VM as it would be after [`set`](Reconciler::set), without changing it. A weight and a cap are checked for
    /// their values only.
    ///
    /// # Errors
    /// The request would be refused.
    pub(crate) fn would_set(&mut self, wish: &Wish) -> Result<Vm, Problem> {
        let (id, is_new) = self.find(&wish.vm)?;
        let outcome = self.check(&id, wish).and_then(|()| self.would_enforce(&id, &wish.desired));
        let shown = outcome.and_then(|()| self.vm(&id).ok_or_else(|| missing(&id)));
        if is_new {
            self.inventory.forget(&id);
            self.standings.remove(&id);
        }
        let source = Some(Source::Client).filter(|_| !wish.desired.is_empty());
        shown.map(|vm| Vm { desired: wish.desired.clone(), source, ..vm })
    }

    /// Returns whether the core would keep `desired` for a VM, if the VM runs and there is a core.
    fn would_enforce(&self, id: &str, desired: &Desired) -> Result<(), Problem> {
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return Ok(()) };
        let Some(standing) = self.standings.get(id) else { return Ok(()) };
        standing.enforced.would_become(core, vm, desired).map_err(|refusal| problem(&refusal))
    }

    /// Checks the values of a change, that the client may make it, and that no other client was faster.
    fn check(&self, id: &str, wish: &Wish) -> Result<(), Problem> {
        terms::check(&wish.desired)?;
        self.check_permission(id, wish)?;
        let generation = self.store.get(id).map_or(0, |record| record.generation);
        if wish.generation.is_some_and(|wanted| wanted != generation) {
            let detail = format!("{id} has generation {generation}: another client has changed it");
            return Err(Problem::new(412, "Precondition Failed", detail, "read it again, and repeat the change"));
        }
        Ok(())
    }

    fn change(&mut self, id: &str, wish: &Wish) -> Result<(), Problem> {
        self.check(id, wish)?;
        let running = self.inventory.vms.get(id);
        let record = self.store.get(id);
        let generation = record.map_or(0, |record| record.generation);
        let name = self.name(id).unwrap_or(id).to_string();
        let user = running.map(Found::user).or(record.and_then(|record| record.user));
        let lifetime = running.filter(|vm| !vm.is_lasting).map(|vm| vm.process.start_time);
        let process = lifetime
            .map(|start_time| Lifetime { boot: self.boot.clone(), start_time })
            .or_else(|| record.and_then(|record| record.process.clone()));
        let desired = wish.desired.clone();
        let before = self.wanted(id).desired;
        self.try_to_enforce(id, &desired)?;
        let record = Record { name, generation, user, desired, process };
        if let Err(error) = self.store.put(id, Some(record).filter(|record| !record.desired.is_empty())) {
            let _ = self.try_to_enforce(id, &before);
            let detail = format!("the desired state cannot be stored: {error}");
            return Err(Problem::new(507, "Insufficient Storage", detail, "make room on the disk of the service"));
        }
        if self.store.get(id).is_none() {
            // What the VM carries may have no room: nothing is desired by a client all the same.
            self.enforce(id);
        }
        Ok(())
    }

    /// Checks that the client may make a change.
    fn check_permission(&self, id: &str, wish: &Wish) -> Result<(), Problem> {
        let user = wish.by.user();
        let others = self.store.iter().filter(|(other, record)| *other != id && record.user == user);
        let permission = Permission {
            by: &wish.by,
            id,
            running: self.inventory.vms.get(id),
            of_record: self.store.get(id).and_then(|record| record.user),
            before: &self.wanted(id).desired,
            wanted: &wish.desired,
            promised_percent: others.map(|(_, record)| percent(&record.desired)).sum(),
            quota_percent: self.user_quota,
        };
        permission.check()
    }

    /// Makes the core keep `desired` for a VM, if the VM runs and there is a core.
    fn try_to_enforce(&mut self, id: &str, desired: &Desired) -> Result<(), Problem> {
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return Ok(()) };
        let wanted = self.wanted(id).desired;
        let standing = self.standings.entry(id.to_string()).or_default();
        let before = standing.enforced.request().cloned();
        let outcome = standing.become_desired(core, vm, desired);
        self.has_room |= standing.enforced.request() != before.as_ref();
        match &outcome {
            Ok(()) => (standing.refused, standing.pause) = (None, RETRY.0),
            // The core does not keep the promise of before any longer.
            Err(refusal) if !standing.enforced.is_desired(core, &vm.name, &wanted) => {
                standing.refused.get_or_insert_with(|| refusal.reason());
            }
            Err(_) => {}
        }
        outcome.map_err(|refusal| problem(&refusal))
    }
}

/// Returns the refusal of a desired state that was set for a VM of `user`.
fn of_another_user(vm: &Found, user: u32) -> Explanation {
    let why = format!("the VM runs for user {}, and its desired state was set for user {user}", vm.user());
    Explanation::new(why, "set it again if the VM is the same")
}

fn missing(vm: &str) -> Problem {
    let remedy = "use a name or an id of `tactus list`, or pid:NUMBER for a process";
    Problem::new(404, "Not Found", format!("there is no VM {vm}"), remedy)
}

/// Returns the refusal of a core as a problem.
fn problem(refusal: &Refusal) -> Problem {
    let Explanation { reason, remedy } = refusal.reason();
    let alternatives = match refusal {
        Refusal::NoRoom(room) => {
            let ways = room.alternatives();
            let [slice_ns, period_ns] = [ways.slice, ways.period].map(|time| time.map(sched::Nanos::as_ns));
            Some(Box::new(Alternatives { slice_ns, period_ns, end_of: ways.ends }))
        }
        _ => None,
    };
    Problem { alternatives, ..Problem::new(409, "Conflict", reason, remedy) }
}
