//! [`Reconciler`]: makes the core keep what is desired for the VMs that run.
//!
//! The reconciler works by levels, not by edges: it compares what is desired with what the core keeps whenever a VM
//! appears, a promise ends, or the core is connected again. It alone talks to the core.

use crate::audit::{Audit, Entry};
use crate::caller::Caller;
use crate::core_link::CoreLink;
use crate::enforced::Enforced;
use crate::events::Events;
use crate::inventory::{Change, Found, Inventory};
use crate::store::{Lifetime, Record, Store};
use crate::terms;
use api::{Alternatives, Desired, Happened, Host, Kind, Measured, Phase, Problem, State, Vm};
use daemon::Explanation;
use daemon::dispatch::{Dismissed, Refusal};
use sched::{EntityId, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trace::Event;

/// What the service knows about a running VM.
#[derive(Debug, Default)]
struct Standing {
    enforced: Enforced,
    measured: Measured,
    /// Whether the promise is kept, according to the core.
    is_short: bool,
    /// Reason why the desired state is not in force.
    refused: Option<Explanation>,
}

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
}

impl Reconciler {
    pub(crate) fn new(link: CoreLink, store: Store, audit: Audit, events: Arc<Events>, boot: String) -> Reconciler {
        let (inventory, standings) = (Inventory::default(), BTreeMap::new());
        let mut reconciler = Reconciler {
            link,
            inventory,
            store,
            audit,
            events,
            boot,
            standings,
            reported: BTreeMap::new(),
            has_room: false,
        };
        reconciler.restore_processes();
        reconciler
    }

    /// Adds the processes with a desired state that are no VMs. Removes the desired states of those that have ended.
    fn restore_processes(&mut self) {
        let processes = self.store.iter().filter_map(|(id, record)| Some((id.clone(), record.process.clone()?)));
        for (id, Lifetime { boot, start_time }) in processes.collect::<Vec<_>>() {
            let pid = id.strip_prefix("pid:").and_then(|pid| pid.parse().ok());
            let added = pid.and_then(|pid| self.inventory.add(pid));
            let is_it = |vm: &Found| boot == self.boot && vm.process.start_time == start_time;
            match added.filter(|added| self.inventory.vms.get(added).is_some_and(is_it)) {
                Some(added) if added == id => drop(self.standings.insert(id, Standing::default())),
                _ => {
                    self.inventory.forget(&id);
                    self.forget(&id);
                }
            }
        }
    }

    /// Looks at the host and the core, and makes the core keep what is desired.
    pub(crate) fn look(&mut self, now: Instant) {
        self.follow_vms(now);
        if self.link.look(now, &self.events) {
            self.adopt_roster();
        }
        self.read_news();
        if std::mem::take(&mut self.has_room) {
            self.retry_refused();
        }
        self.report_states();
    }

    /// Follows the VMs that appear and end.
    fn follow_vms(&mut self, now: Instant) {
        for change in self.inventory.scan(now) {
            match change {
                Change::Appeared(id) => self.appeared(&id),
                Change::Ended(id) => {
                    self.standings.remove(&id);
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

    fn appeared(&mut self, id: &str) {
        let Some(vm) = self.inventory.vms.get(id) else { return };
        let happened = Happened::Appeared { name: vm.name.clone(), pid: vm.process.pid };
        self.events.push(Some(id), happened);
        self.standings.insert(id.to_string(), Standing::default());
        self.enforce(id);
    }

    /// Removes the desired state of a process that has ended.
    fn forget(&mut self, id: &str) {
        if let Err(error) = self.store.put(id, None) {
            eprintln!("cannot remove the desired state of {id}: {error}");
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
            let enforced = Enforced::of(promise, share);
            self.standings.insert(id.clone(), Standing { enforced, ..Standing::default() });
        }
        // Promises that an earlier service has made, and that nothing here desires.
        roster.promises.iter().flat_map(|it| &it.entities).for_each(|&e| core.dismiss(e));
        roster.shares.iter().for_each(|it| core.end_share(it.process.pid));
        let ids: Vec<String> = self.inventory.vms.keys().cloned().collect();
        ids.iter().for_each(|id| self.enforce(id));
    }

    /// Makes the core keep what is desired for a running VM.
    fn enforce(&mut self, id: &str) {
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return };
        let Some(standing) = self.standings.get_mut(id) else { return };
        let desired = self.store.get(id).map(|record| record.desired.clone()).unwrap_or_default();
        let before = standing.enforced.request().cloned();
        let outcome = standing.enforced.become_desired(core, vm, &desired);
        if standing.enforced.request() != before.as_ref() {
            (standing.measured, standing.is_short) = (Measured::default(), false);
        }
        standing.refused = outcome.err().map(|refusal| refusal.reason());
    }

    fn retry_refused(&mut self) {
        let refused = self.standings.iter().filter(|(_, standing)| standing.refused.is_some());
        let ids: Vec<String> = refused.map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.enforce(id));
    }

    /// Reads the events and dismissals of the core.
    fn read_news(&mut self) {
        let Some(core) = self.link.core() else { return };
        let news = core.read_news();
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
            if let Some(&at) = of.get(&dismissed.entity) {
                self.has_room |= standings[at].dismissed(dismissed);
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
    }

    /// Returns the ids of all VMs that run or have a desired state.
    fn ids(&self) -> BTreeSet<String> {
        self.inventory.vms.keys().chain(self.store.iter().map(|(id, _)| id)).cloned().collect()
    }

    fn state(&self, id: &str) -> State {
        let desired = self.store.get(id).map(|record| &record.desired).filter(|desired| !desired.is_empty());
        let standing = self.standings.get(id);
        let refused = standing.and_then(|standing| standing.refused.as_ref());
        let phase = match (desired, standing) {
            (None, _) => Phase::None,
            (Some(_), None) => Phase::Absent,
            (Some(desired), _) if desired.paused => Phase::Paused,
            (Some(_), Some(_)) if self.link.core().is_none() => Phase::Waiting,
            (Some(_), Some(standing)) if standing.refused.is_some() => Phase::Refused,
            (Some(_), Some(standing)) if standing.is_short => Phase::NotKept,
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
        Some(Vm {
            id: id.to_string(),
            name,
            kind: found.map_or(Kind::Process, |vm| vm.kind),
            process: found.map(|vm| vm.process),
            generation: record.map_or(0, |record| record.generation),
            desired: record.map(|record| record.desired.clone()).unwrap_or_default(),
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
        let shown = self.vm(&id).expect("it was found");
        if is_new {
            self.inventory.forget(&id);
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
            core: core.map(daemon::live::Client::pid),
            reason: core.is_none().then(|| self.link.reason().to_string()),
            warnings: core.map(|core| core.warnings().iter().map(ToString::to_string).collect()).unwrap_or_default(),
        }
    }

    /// Finds a VM. Returns its id, and whether the inventory has it only because of this call.
    fn find(&mut self, vm: &str) -> Result<(String, bool), Problem> {
        let ids = self.ids();
        if ids.contains(vm) {
            return Ok((vm.to_string(), false));
        }
        let named: Vec<&String> = ids.iter().filter(|id| self.name(id).is_some_and(|name| name == vm)).collect();
        match named[..] {
            [only] => return Ok((only.clone(), false)),
            [] => {}
            _ => {
                let all: Vec<&str> = named.iter().map(|id| id.as_str()).collect();
                let remedy = format!("use one of the ids {}", all.join(", "));
                return Err(Problem::new(409, "Conflict", format!("{} VMs have the name {vm}", all.len()), remedy));
            }
        }
        let pid = vm.strip_prefix("pid:").and_then(|pid| pid.parse().ok());
        let added = pid.and_then(|pid| self.inventory.add(pid));
        let missing = || {
            let remedy = "use a name or an id of `tactus list`, or pid:NUMBER for a process";
            Problem::new(404, "Not Found", format!("there is no VM {vm}"), remedy)
        };
        added.map(|id| (id, true)).ok_or_else(missing)
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
        terms::check(&wish.desired)?;
        let (id, is_new) = self.find(&wish.vm)?;
        let before = self.store.get(&id).map(|record| record.desired.clone()).unwrap_or_default();
        let outcome = self.change(&id, wish);
        let refused = outcome.as_ref().err().map(|problem| problem.detail.as_str());
        let entry = Entry { by: wish.by, vm: &id, why: wish.why.as_deref(), from: &before, to: &wish.desired };
        if let Err(error) = self.audit.add(entry, refused) {
            eprintln!("cannot write the audit log: {error}");
        }
        if outcome.is_ok() {
            let (by, desired) = (wish.by.to_string(), wish.desired.clone());
            self.events.push(Some(&id), Happened::Changed { by, desired });
        }
        let shown = outcome.map(|()| self.vm(&id).expect("it was found"));
        if self.store.get(&id).is_none() && (is_new || shown.is_ok()) {
            self.inventory.forget(&id);
            if !self.inventory.vms.contains_key(&id) {
                self.standings.remove(&id);
            }
        }
        self.report_states();
        shown
    }

    fn change(&mut self, id: &str, wish: &Wish) -> Result<(), Problem> {
        let running = self.inventory.vms.get(id);
        // The owner of the process may have changed since it was found.
        let owner = running.map(Found::owner);
        if !wish.by.is_admin() && owner != Some(Some(wish.by.user)) {
            let detail = format!("user {} may not change {id}", wish.by.user);
            return Err(Problem::new(403, "Forbidden", detail, "ask its owner or an administrator"));
        }
        let record = self.store.get(id);
        let generation = record.map_or(0, |record| record.generation);
        if wish.generation.is_some_and(|wanted| wanted != generation) {
            let detail = format!("{id} has generation {generation}: another client has changed it");
            return Err(Problem::new(412, "Precondition Failed", detail, "read it again, and repeat the change"));
        }
        let name = self.name(id).unwrap_or(id).to_string();
        let is_process = running.is_some_and(|vm| vm.kind == Kind::Process);
        let lifetime = running.filter(|_| is_process).map(|vm| vm.process.start_time);
        let process = lifetime
            .map(|start_time| Lifetime { boot: self.boot.clone(), start_time })
            .or_else(|| record.and_then(|record| record.process.clone()));
        let desired = wish.desired.clone();
        let before = record.map(|record| record.desired.clone()).unwrap_or_default();
        self.try_to_enforce(id, &desired)?;
        // Without its last record, a VM would begin with generation 0 again, and an outdated condition could hold. A process
        // that is no VM is not kept in memory, either.
        let is_over = process.is_some() && desired.is_empty();
        let record = Record { name, generation: generation + 1, desired, process };
        if let Err(error) = self.store.put(id, Some(record).filter(|_| !is_over)) {
            let _ = self.try_to_enforce(id, &before);
            let detail = format!("the desired state cannot be stored: {error}");
            return Err(Problem::new(507, "Insufficient Storage", detail, "make room on the disk of the service"));
        }
        Ok(())
    }

    /// Makes the core keep `desired` for a VM, if the VM runs and there is a core.
    fn try_to_enforce(&mut self, id: &str, desired: &Desired) -> Result<(), Problem> {
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return Ok(()) };
        let standing = self.standings.entry(id.to_string()).or_default();
        let before = standing.enforced.request().cloned();
        let outcome = standing.enforced.become_desired(core, vm, desired);
        if standing.enforced.request() != before.as_ref() {
            (standing.measured, standing.is_short) = (Measured::default(), false);
            self.has_room = true;
        }
        if outcome.is_ok() {
            standing.refused = None;
        }
        outcome.map_err(|refusal| problem(&refusal))
    }
}

impl Standing {
    /// Counts a period, or notes whether the promise is kept.
    fn hear(&mut self, event: &Event) {
        match *event {
            Event::Period { due, delivered, throughout, .. } => {
                self.measured.periods += 1;
                self.measured.due_ns += due.as_ns();
                self.measured.delivered_ns += delivered.as_ns();
                if throughout {
                    self.measured.judged += 1;
                    self.measured.missed += u64::from(delivered < due);
                }
            }
            Event::Kept { kept, .. } => self.is_short = !kept,
            _ => {}
        }
    }

    /// Notes that the core has dismissed an entity. Returns whether the promise has ended with it.
    fn dismissed(&mut self, dismissed: &Dismissed) -> bool {
        let has_ended = self.enforced.dismissed(dismissed.entity);
        if has_ended {
            self.refused = dismissed.trouble.clone();
        }
        has_ended
    }
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
