//! Changes of desired states that clients request.

use super::Reconciler;
use super::views::missing;
use crate::audit::Entry;
use crate::caller::Caller;
use crate::complaint::complain;
use crate::inventory::Found;
use crate::permission::{Permission, percent};
use crate::standing::RETRY;
use crate::store::{Lifetime, MadeChange, Record};
use crate::terms;
use api::{Alternatives, Desired, Happened, Problem, Source, Vm};
use daemon::Explanation;
use daemon::dispatch::Refusal;

/// A requested change of a desired state.
#[derive(Clone, Debug)]
pub(crate) struct ChangeRequest {
    /// Id, name or `pid:NUMBER` of the VM.
    pub(crate) vm: String,
    /// Generation that the VM must have.
    pub(crate) generation: Option<u64>,
    pub(crate) desired: Desired,
    pub(crate) by: Caller,
    /// Reason for the audit log.
    pub(crate) why: Option<String>,
    /// Key of the client for this change. A repeated request with the same key changes nothing.
    pub(crate) key: Option<String>,
}

/// A change that has been made, and that may not be on disk yet.
#[derive(Debug)]
struct Made {
    id: String,
    /// Whether the inventory has the VM only because of the request.
    is_new: bool,
    /// What clients desired before.
    before: Desired,
    /// What was desired before: by clients, or else by what the VM carries.
    wanted: Desired,
    /// Whether the request repeats an earlier one, and has changed nothing.
    is_repeated: bool,
    /// The VM after the change, or the reason why nothing has changed.
    outcome: Result<Vm, Problem>,
}

impl Reconciler {
    /// Changes the desired states of VMs, one request after another. Returns the VMs, each as it was after its change. What
    /// is acknowledged is on disk, and in force if the VM runs and there is a core.
    ///
    /// # Errors
    /// The request is invalid, not permitted or out of date, the core refuses it, or the disk is full. It has changed nothing.
    pub(crate) fn set(&mut self, requests: &[ChangeRequest]) -> Vec<Result<Vm, Problem>> {
        let made: Vec<Made> = requests.iter().map(|request| self.make(request)).collect();
        let lost = self.store.commit().err().map(|error| not_stored(&error));
        if lost.is_some() {
            for made in made.iter().rev().filter(|made| made.outcome.is_ok() && !made.is_repeated) {
                let _ = self.try_to_enforce(&made.id, &made.wanted);
            }
        }
        let finish = |(request, made): (&ChangeRequest, Made)| self.finish(request, made, lost.as_ref());
        let replies = requests.iter().zip(made).map(finish).collect();
        self.report_states();
        replies
    }

    /// Makes a change, and leaves it to the caller to bring it to the disk.
    fn make(&mut self, request: &ChangeRequest) -> Made {
        let repeated = self.repeated(request);
        let found = self.find(&request.vm);
        let (id, is_new) = found.clone().unwrap_or_else(|_| (request.vm.clone(), false));
        let before = self.store.get(&id).map(|record| record.desired.clone()).unwrap_or_default();
        let wanted = self.wanted(&id).desired;
        let is_repeated = repeated.is_some();
        let outcome = repeated.unwrap_or_else(|| {
            found.and_then(|_| self.change(&id, request)).and_then(|()| self.vm(&id).ok_or_else(|| missing(&id)))
        });
        Made { id, is_new, before, wanted, is_repeated, outcome }
    }

    /// Reports a change, and returns the reply. `lost` is the reason why the change is not on disk.
    fn finish(&mut self, request: &ChangeRequest, made: Made, lost: Option<&Problem>) -> Result<Vm, Problem> {
        let Made { id, is_new, before, is_repeated, outcome, .. } = made;
        let outcome = outcome.and_then(|vm| lost.map_or(Ok(vm), |problem| Err(problem.clone())));
        if !is_repeated {
            let refused = outcome.as_ref().err().map(|problem| problem.detail.as_str());
            let (by, why) = (&request.by, request.why.as_deref());
            let entry = Entry { by, vm: &id, why, from: &before, to: &request.desired };
            if let Err(error) = self.audit.add(entry, refused) {
                complain(&format!("cannot write the audit log: {error}"));
            }
            if outcome.is_ok() {
                let (by, desired) = (by.to_string(), request.desired.clone());
                self.events.push(Some(&id), Happened::Changed { by, desired });
            }
        }
        if self.store.get(&id).is_none() && (is_new || outcome.is_ok()) {
            self.inventory.forget(&id);
            if !self.inventory.vms.contains_key(&id) {
                self.standings.remove(&id);
            }
        }
        outcome
    }

    /// Returns the reply to a request with the key of a change that the client has made; `None`: the request is new.
    fn repeated(&mut self, request: &ChangeRequest) -> Option<Result<Vm, Problem>> {
        let made = self.store.made(&request.by.to_string(), request.key.as_deref()?)?.clone();
        let vm = match self.show(&request.vm) {
            Ok(vm) => vm,
            Err(problem) => return Some(Err(problem)),
        };
        if vm.id == made.vm && request.desired == made.desired {
            return Some(Ok(vm));
        }
        let detail = format!("the idempotency key belongs to another change, of {}", made.vm);
        Some(Err(Problem::new(422, "Unprocessable Content", detail, "use a new key for each change")))
    }

    /// Returns the VM as it would be after [`set`](Reconciler::set), without changing it. A weight and a cap are checked for
    /// their values only.
    ///
    /// # Errors
    /// The request would be refused.
    pub(crate) fn would_set(&mut self, request: &ChangeRequest) -> Result<Vm, Problem> {
        let (id, is_new) = self.find(&request.vm)?;
        let outcome = self.check(&id, request).and_then(|()| self.would_enforce(&id, &request.desired));
        let shown = outcome.and_then(|()| self.vm(&id).ok_or_else(|| missing(&id)));
        if is_new {
            self.inventory.forget(&id);
            self.standings.remove(&id);
        }
        let source = Some(Source::Client).filter(|_| !request.desired.is_empty());
        shown.map(|vm| Vm { desired: request.desired.clone(), source, ..vm })
    }

    /// Returns whether the core would keep `desired` for a VM, if the VM runs and there is a core.
    fn would_enforce(&self, id: &str, desired: &Desired) -> Result<(), Problem> {
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return Ok(()) };
        let Some(standing) = self.standings.get(id) else { return Ok(()) };
        standing.enforced.would_become(core, vm, desired).map_err(|refusal| problem(&refusal))
    }

    /// Checks the values of a change, that the client may make it, and that no other client was faster.
    fn check(&self, id: &str, request: &ChangeRequest) -> Result<(), Problem> {
        if self.link.only_observes() {
            let remedy = "start the service without --observe, and without `observe` in its configuration file";
            return Err(Problem::new(409, "Conflict", self.link.reason().to_string(), remedy));
        }
        terms::check(&request.desired)?;
        self.check_permission(id, request)?;
        let generation = self.store.get(id).map_or(0, |record| record.generation);
        if request.generation.is_some_and(|wanted| wanted != generation) {
            let detail = format!("{id} has generation {generation}: another client has changed it");
            return Err(Problem::new(412, "Precondition Failed", detail, "read it again, and repeat the change"));
        }
        Ok(())
    }

    fn change(&mut self, id: &str, request: &ChangeRequest) -> Result<(), Problem> {
        self.check(id, request)?;
        let running = self.inventory.vms.get(id);
        let record = self.store.get(id);
        let generation = record.map_or(0, |record| record.generation);
        let name = self.name(id).unwrap_or(id).to_string();
        let user = running.map(Found::user).or(record.and_then(|record| record.user));
        let lifetime = running.filter(|vm| !vm.is_lasting).map(|vm| vm.process.start_time);
        let process = lifetime
            .map(|start_time| Lifetime { boot: self.boot.clone(), start_time })
            .or_else(|| record.and_then(|record| record.process.clone()));
        let desired = request.desired.clone();
        self.try_to_enforce(id, &desired)?;
        let record = Record { name, generation, user, desired, process };
        let record = Some(record).filter(|record| !record.desired.is_empty());
        let made = request.key.clone().map(|key| {
            let (by, desired) = (request.by.to_string(), request.desired.clone());
            MadeChange { by, key, vm: id.to_string(), desired }
        });
        self.store.put(id, record, made);
        if self.store.get(id).is_none() {
            // What the VM carries may have no room: nothing is desired by a client all the same.
            self.enforce(id);
        }
        Ok(())
    }

    /// Checks that the client may make a change.
    fn check_permission(&self, id: &str, request: &ChangeRequest) -> Result<(), Problem> {
        let user = request.by.user();
        let others = self.store.iter().filter(|(other, record)| *other != id && record.user == user);
        let permission = Permission {
            by: &request.by,
            id,
            running: self.inventory.vms.get(id),
            of_record: self.store.get(id).and_then(|record| record.user),
            before: &self.wanted(id).desired,
            wanted: &request.desired,
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

/// Returns the refusal of a change that cannot be stored.
fn not_stored(error: &std::io::Error) -> Problem {
    let detail = format!("the desired state cannot be stored: {error}");
    Problem::new(507, "Insufficient Storage", detail, "make room on the disk of the service")
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
