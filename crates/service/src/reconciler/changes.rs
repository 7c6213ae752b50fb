//! Changes of desired states that clients request.

use super::Reconciler;
use super::views::missing;
use crate::audit::Entry;
use crate::complaint::complain;
use crate::inventory::Found;
use crate::managed_host::ChangeRequest;
use crate::permission::{Permission, percent};
use crate::standing::RETRY;
use crate::store::{KeyedChange, Lifetime, Record};
use crate::terms;
use api::{Alternatives, Desired, Happened, Phase, Problem, Source, State, Vm};
use daemon::Explanation;
use daemon::dispatch::Refusal;
use daemon::live::Client;
use std::collections::BTreeSet;
use sys::clock;

/// A request whose change, if it is one, is not on disk yet.
#[derive(Debug)]
struct Pending {
    id: String,
    /// Whether the inventory has the VM only because of the request.
    is_new: bool,
    /// What clients desired before.
    before: Desired,
    effect: Effect,
    /// The reply, if the changes can be stored.
    reply: Result<Vm, Problem>,
}

/// Effect of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    /// It has changed a desired state.
    Changed,
    /// It was refused, and has changed nothing.
    Refused,
    /// It repeats an earlier request, and has changed nothing.
    Repeated,
}

impl Reconciler {
    /// Changes the desired states of VMs, one request after another. Returns the VMs, each as it was after its change. What
    /// is acknowledged is on disk, and in force if the VM runs and there is a core.
    ///
    /// # Errors
    /// The request is invalid, not permitted or out of date, the core refuses it, or the disk is full. It has changed nothing.
    pub(crate) fn set(&mut self, requests: &[ChangeRequest]) -> Vec<Result<Vm, Problem>> {
        let mut pending: Vec<Pending> = requests.iter().map(|request| self.make(request)).collect();
        if let Err(error) = self.store.commit() {
            self.undo(requests, &mut pending, &not_stored(&error));
        }
        let finish = |(request, pending): (&ChangeRequest, Pending)| self.finish(request, pending);
        let replies = requests.iter().zip(pending).map(finish).collect();
        self.report_states();
        replies
    }

    /// Makes a change, and leaves it to the caller to bring it to the disk.
    fn make(&mut self, request: &ChangeRequest) -> Pending {
        let repeated = self.repeated(request);
        let found = self.find(&request.vm);
        let (id, is_new) = found.clone().unwrap_or_else(|_| (request.vm.clone(), false));
        let before = self.desired_by_clients(&id);
        let former = self.vm(&id);
        let (effect, reply) = match repeated {
            Some(Ok(vm)) => (Effect::Repeated, Ok(vm)),
            Some(Err(problem)) => (Effect::Refused, Err(problem)),
            None => match found.and_then(|_| self.change(&id, request)) {
                Ok(()) => (Effect::Changed, self.vm(&id).or_else(|| former.map(gone)).ok_or_else(|| missing(&id))),
                Err(problem) => (Effect::Refused, Err(problem)),
            },
        };
        Pending { id, is_new, before, effect, reply }
    }

    fn desired_by_clients(&self, id: &str) -> Desired {
        self.store.get(id).map(|record| record.desired.clone()).unwrap_or_default()
    }

    /// Undoes all changes after a failure to store them, which `problem` explains. The store has the content of before.
    fn undo(&mut self, requests: &[ChangeRequest], pending: &mut [Pending], problem: &Problem) {
        let changed: BTreeSet<String> =
            pending.iter().filter(|it| it.effect == Effect::Changed).map(|it| it.id.clone()).collect();
        for id in &changed {
            // The state of before may be one that is refused, so it does not replace this one.
            let _ = self.try_to_enforce(id, &Desired::default());
            self.enforce(id);
        }
        // The replies to the requests behind the first change may depend on it.
        let first = pending.iter().position(|it| it.effect == Effect::Changed).unwrap_or(pending.len());
        for (request, it) in requests.iter().zip(pending).skip(first) {
            let is_stored =
                || request.key.as_deref().and_then(|key| self.store.keyed(&request.by.to_string(), key)).is_some();
            if it.effect == Effect::Repeated && is_stored() {
                it.reply = self.show(&it.id);
                continue;
            }
            it.before = self.desired_by_clients(&it.id);
            (it.effect, it.reply) = (Effect::Refused, Err(problem.clone()));
        }
    }

    /// Reports what a request has done, and returns the reply.
    fn finish(&mut self, request: &ChangeRequest, pending: Pending) -> Result<Vm, Problem> {
        let Pending { id, is_new, before, effect, reply } = pending;
        if effect != Effect::Repeated {
            let refused = reply.as_ref().err().map(|problem| problem.detail.as_str());
            let (by, why) = (&request.by, request.why.as_deref());
            let entry = Entry { by, vm: &id, why, from: &before, to: &request.desired };
            if let Err(error) = self.audit.add(entry, refused) {
                complain(&format!("cannot write the audit log: {error}"));
            }
        }
        if effect == Effect::Changed {
            let (by, desired) = (request.by.to_string(), request.desired.clone());
            let generation = self.store.get(&id).map_or(0, |record| record.generation);
            self.events.push(Some(&id), Happened::Changed { by, desired, before, generation });
        }
        if self.store.get(&id).is_none() && (is_new || reply.is_ok()) {
            self.inventory.forget(&id);
            if !self.inventory.vms.contains_key(&id) {
                self.standings.remove(&id);
            }
        }
        reply
    }

    /// Returns the reply to a request with a key that the client has used; `None`: the request is new.
    fn repeated(&mut self, request: &ChangeRequest) -> Option<Result<Vm, Problem>> {
        let keyed = self.store.keyed(&request.by.to_string(), request.key.as_deref()?)?.clone();
        let names = [Some(keyed.vm.as_str()), Some(keyed.name.as_str()), self.name(&keyed.vm)];
        if !names.contains(&Some(request.vm.as_str())) || request.desired != keyed.desired {
            let detail = format!("the idempotency key belongs to another change, of {}", keyed.vm);
            return Some(Err(Problem::new(422, "Unprocessable Content", detail, "use a new key for each change")));
        }
        Some(self.show(&keyed.vm))
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
    fn would_enforce(&mut self, id: &str, desired: &Desired) -> Result<(), Problem> {
        match self.would_enforce_once(id, desired) {
            Err(_) if self.reconnect_if_lost() => self.would_enforce_once(id, desired),
            outcome => outcome,
        }
    }

    fn would_enforce_once(&self, id: &str, desired: &Desired) -> Result<(), Problem> {
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
        let keyed = request.key.clone().map(|key| {
            let (by, vm, name, desired) =
                (request.by.to_string(), id.to_string(), request.vm.clone(), request.desired.clone());
            KeyedChange { by, key, vm, name, desired }
        });
        self.store.put(id, record, keyed);
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
        match self.try_once(id, desired) {
            Err(_) if self.reconnect_if_lost() => self.try_once(id, desired),
            outcome => outcome,
        }
    }

    /// Connects again if the core has closed the connection, and returns whether it has. A core that is replaced has not
    /// carried out the command.
    fn reconnect_if_lost(&mut self) -> bool {
        let is_lost = self.link.core().is_some_and(Client::is_over);
        if is_lost && self.link.look(clock::now(), &self.events) {
            self.adopt_roster();
        }
        is_lost
    }

    fn try_once(&mut self, id: &str, desired: &Desired) -> Result<(), Problem> {
        let (Some(core), Some(vm)) = (self.link.core(), self.inventory.vms.get(id)) else { return Ok(()) };
        let wanted = self.wanted(id).desired;
        let standing = self.standings.entry(id.to_string()).or_default();
        let before = standing.enforced.request().cloned();
        let outcome = standing.become_desired(core, vm, desired);
        self.has_room |= standing.enforced.request() != before.as_ref();
        match &outcome {
            Ok(()) => (standing.refused, standing.pause) = (None, RETRY.0),
            // The core does not keep the promise of before any longer.
            Err(refusal) if !standing.enforced.is_desired(core, vm, &wanted) => {
                standing.refused.get_or_insert_with(|| refusal.reason());
            }
            Err(_) => {}
        }
        outcome.map_err(|refusal| problem(&refusal))
    }
}

/// Returns a VM that does not run after the end of its desired state. The service no longer knows it.
fn gone(vm: Vm) -> Vm {
    let state = State { phase: Phase::None, mechanism: None, reason: None, remedy: None };
    Vm { generation: 0, desired: Desired::default(), source: None, state, ..vm }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Audit;
    use crate::caller::Caller;
    use crate::carried::Carried;
    use crate::core_link::CoreLink;
    use crate::events::Events;
    use crate::store::Store;
    use std::sync::Arc;

    #[test]
    fn if_changes_cannot_be_stored_all_of_them_are_undone_and_refused() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let (store, audit) = (Store::open(&at("state")).unwrap(), Audit::open(&at("state")).unwrap());
        let link = CoreLink::new(Some(&at("core.sock")), |_| None);
        let carried = Carried::new(&at("labels"), &at("libvirt"));
        let events = Arc::new(Events::new());
        let mut reconciler = Reconciler::new(link, carried, store, audit, events, "boot".to_string(), 0);
        let request = |weight, generation, key: Option<&str>| ChangeRequest {
            vm: format!("pid:{}", std::process::id()),
            generation,
            desired: Desired { weight: Some(weight), ..Desired::default() },
            by: Caller::Local(sys::privileges::user()),
            why: None,
            key: key.map(str::to_string),
        };
        let mut set = |requests: &[ChangeRequest]| -> Vec<Result<(Option<u32>, u64), u16>> {
            let replies = reconciler.set(requests).into_iter();
            replies.map(|it| it.map(|vm| (vm.desired.weight, vm.generation)).map_err(|it| it.status)).collect()
        };
        assert_eq!(set(&[request(50, None, Some("a"))]), [Ok((Some(50), 1))]);
        // A directory in the place of the draft.
        let draft = at("state").join("desired.json.new");
        std::fs::create_dir(&draft).unwrap();
        let several = [request(60, None, Some("b")), request(70, Some(1), None), request(50, None, Some("a"))];
        assert_eq!(set(&several), [Err(507), Err(507), Ok((Some(50), 1))]);
        std::fs::remove_dir(&draft).unwrap();
        // The key was not used, and the generation is that of before.
        assert_eq!(set(&[request(60, Some(1), Some("b"))]), [Ok((Some(60), 2))]);
        assert_eq!(set(&[request(50, None, Some("b"))]), [Err(422)]);
        let audit = std::fs::read_to_string(at("state").join("audit.jsonl")).unwrap();
        let weights = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            (line["from"]["weight"].as_u64(), line["to"]["weight"].as_u64(), line["refused"].is_string())
        };
        let lines: Vec<_> = audit.lines().map(weights).collect();
        let of = |from, to, is_refused| (from, Some(to), is_refused);
        assert_eq!(
            lines,
            [
                of(None, 50, false),
                of(Some(50), 60, true),
                of(Some(50), 70, true),
                of(Some(50), 60, false),
                of(Some(60), 50, true)
            ]
        );
    }
}
