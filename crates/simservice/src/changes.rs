//! Changes of desired states that clients request.

use crate::host::{KeyedChange, SimulatedHost};
use crate::room;
use crate::views::no_reservations;
use api::{Desired, Happened, Limit, Mechanism, Problem, Promise, Source, Vm};
use sched::{GroupParams, Nanos, Params, Refused, Reservation};
use service::{ChangeRequest, check_values};

/// Maximum number of changes with idempotency keys that are kept.
const KEYS_MOST: usize = 1_024;

/// What a desired state means for the machine.
#[derive(Debug)]
struct Wanted {
    /// The parameters of each CPU of the VM.
    members: Vec<(usize, Params)>,
    /// The parameters of the group of the VM.
    group: Option<(usize, GroupParams)>,
}

impl SimulatedHost {
    /// Returns the index of the present VM with this id or name, or of the process `pid:NUMBER`.
    pub(crate) fn find(&self, vm: &str) -> Result<usize, Problem> {
        let is_it = |&index: &usize| self.vms[index].name == vm || self.id(index) == vm;
        self.present().into_iter().find(is_it).ok_or_else(|| {
            let remedy = "use a name or an id of `tactus list`";
            Problem::new(404, "Not Found", format!("there is no VM {vm}"), remedy)
        })
    }

    /// Makes a change.
    pub(crate) fn change(&mut self, request: &ChangeRequest) -> Result<Vm, Problem> {
        self.complete_instant();
        self.follow();
        if let Some(repeated) = self.repeated(request) {
            return repeated;
        }
        let index = self.find(&request.vm)?;
        self.check(index, request)?;
        let wanted = self.wanted(index, &request.desired)?;
        self.would_fit(index, &wanted, &request.desired)?;
        self.apply(&wanted).map_err(|refused| room::problem(&refused, None))?;
        let id = self.id(index);
        self.changes += 1;
        let vm = &mut self.vms[index];
        vm.members.iter().for_each(|&member| self.session.drop_changes(member));
        let before = std::mem::replace(&mut vm.desired, request.desired.clone());
        let is_empty = request.desired.is_empty();
        vm.generation = if is_empty { 0 } else { self.changes };
        vm.source = (!is_empty).then_some(Source::Client);
        let (by, desired, generation) = (request.by.to_string(), request.desired.clone(), vm.generation);
        self.events.push(Some(&id), Happened::Changed { by: by.clone(), desired, before, generation });
        if let Some(key) = request.key.clone() {
            if self.keyed.len() == KEYS_MOST {
                self.keyed.pop_front();
            }
            self.keyed.push_back(KeyedChange { by, key, vm: index, desired: request.desired.clone() });
        }
        self.report_states();
        Ok(self.vm(index))
    }

    /// Returns the VM as it would be after a change, without changing it.
    pub(crate) fn would_change(&mut self, request: &ChangeRequest) -> Result<Vm, Problem> {
        let index = self.find(&request.vm)?;
        self.check(index, request)?;
        let wanted = self.wanted(index, &request.desired)?;
        self.would_fit(index, &wanted, &request.desired)?;
        let source = Some(Source::Client).filter(|_| !request.desired.is_empty());
        Ok(Vm { desired: request.desired.clone(), source, ..self.vm(index) })
    }

    /// Returns the reply to a request with a key that the client has used; `None`: the request is new.
    fn repeated(&self, request: &ChangeRequest) -> Option<Result<Vm, Problem>> {
        let (by, key) = (request.by.to_string(), request.key.as_deref()?);
        let keyed = self.keyed.iter().rfind(|keyed| keyed.by == by && keyed.key == key)?;
        let is_same = self.find(&request.vm) == Ok(keyed.vm) && request.desired == keyed.desired;
        if is_same {
            return Some(Ok(self.vm(keyed.vm)));
        }
        let detail = format!("the idempotency key belongs to another change, of {}", self.vms[keyed.vm].name);
        Some(Err(Problem::new(422, "Unprocessable Content", detail, "use a new key for each change")))
    }

    /// Checks the values of a change, that the client may make it, and that no other client was faster.
    fn check(&self, index: usize, request: &ChangeRequest) -> Result<(), Problem> {
        let vm = &self.vms[index];
        check_values(&request.desired)?;
        if request.by.role() != Some(certs::Role::Admin) {
            let detail = format!("{} may not change the VMs of this simulated host", request.by);
            return Err(Problem::new(403, "Forbidden", detail, "ask the user of the simulation"));
        }
        if request.generation.is_some_and(|wanted| wanted != vm.generation) {
            let detail = format!("{} has generation {}: another client has changed it", vm.name, vm.generation);
            return Err(Problem::new(412, "Precondition Failed", detail, "read it again, and repeat the change"));
        }
        if let Some(why) = &self.failure {
            return Err(conflict(why.reason.to_string(), "start the simulation again"));
        }
        if vm.members.is_empty() && !request.desired.is_empty() {
            let detail = format!("{} is an application of several tasks, and only VMs and tasks change", vm.name);
            return Err(conflict(detail, "give the application a VM of its own in the scenario"));
        }
        Ok(())
    }

    /// Returns what a desired state means for the machine.
    fn wanted(&self, index: usize, desired: &Desired) -> Result<Wanted, Problem> {
        let (vm, scenario) = (&self.vms[index], &self.session.run().scenario);
        let weight = vm.weight_of(desired);
        let promise = desired.promise.as_ref();
        let gang = vm.group.is_some_and(|group| self.session.group_params(group).gang);
        promise.map_or(Ok(()), |promise| self.check_promise(index, promise, gang))?;
        let member = |&member: &usize| {
            let present = *self.session.host_machine().params(self.session.entity(member)?);
            let reservation = promise.filter(|_| !desired.paused).map(|promise| {
                let former = [present.reservation, scenario.entities[member].params.reservation];
                reservation(promise, &former)
            });
            let params = Params { weight, reservation, group: present.group, ..scenario.entities[member].params };
            Some((member, params))
        };
        let members = vm.members.iter().filter_map(member).collect();
        let cap = desired.cap_percent.filter(|_| !desired.paused);
        let of_group = |group: usize| {
            let params = GroupParams { weight, ..self.session.group_params(group) };
            if cap == vm.desired.cap_percent.filter(|_| !vm.desired.paused) {
                return Some((group, params));
            }
            Some((group, self.caps.with(params, cap)?))
        };
        let group = vm.group.and_then(of_group);
        if cap.is_some() && group.is_none() {
            let policy = self.session.run().choice.name();
            let detail = match vm.group {
                Some(_) => format!("the policy {policy} has no caps"),
                None => format!("{} is no VM, and only VMs have caps", vm.name),
            };
            return Err(conflict(detail, "leave the cap out, or start the simulation with --policy credit"));
        }
        Ok(Wanted { members, group })
    }

    /// Checks the parts of a promise that a simulated VM cannot change.
    fn check_promise(&self, index: usize, promise: &Promise, gang: bool) -> Result<(), Problem> {
        let vm = &self.vms[index];
        let cpus = vm.members.len();
        if usize::from(promise.cpus) != cpus {
            let number = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            let (has, asked) = (number(cpus, "vCPU"), number(promise.cpus.into(), "CPU"));
            let detail = format!("{} has {has}, and the promise is on {asked}", vm.name);
            let remedy = format!("use {} (--cpus {cpus})", number(cpus, "CPU"));
            return Err(Problem::new(422, "Unprocessable Content", detail, remedy));
        }
        if promise.mechanism != Mechanism::Auto {
            let detail = "a simulated host has no mechanisms of a kernel";
            return Err(conflict(detail.to_string(), "leave the mechanism out"));
        }
        if promise.gang != gang {
            let (what, remedy) = if gang { ("a gang", "add --gang") } else { ("no gang", "leave --gang out") };
            return Err(conflict(format!("{} is {what} in the scenario, which does not change", vm.name), remedy));
        }
        Ok(())
    }

    /// Checks that the policy would admit `wanted`, on a copy of the host.
    fn would_fit(&self, index: usize, wanted: &Wanted, desired: &Desired) -> Result<(), Problem> {
        let Some(mut trial) = self.session.trial() else { return Ok(()) };
        if let Err(refused) = room::adjust(&mut trial, &wanted.members) {
            let room = room::alternatives(&mut trial, &wanted.members, index, &self.vms);
            return Err(room::problem(&refused, Some(room)));
        }
        let is_promised = desired.promise.is_some() && !desired.paused;
        if is_promised && !wanted.members.iter().all(|&(member, _)| trial.keeps(member)) {
            let (reason, remedy) = no_reservations(self.session.run().choice.name());
            return Err(conflict(reason, &remedy));
        }
        Ok(())
    }

    /// Requests `wanted` at the present instant: all of it, or nothing.
    fn apply(&mut self, wanted: &Wanted) -> Result<(), Refused> {
        let params = |host: &SimulatedHost, member: usize| {
            host.session.entity(member).map(|id| *host.session.host_machine().params(id))
        };
        let before: Vec<Option<Params>> = wanted.members.iter().map(|&(member, _)| params(self, member)).collect();
        let mut outcome = Ok(());
        let mut done = 0;
        for (&(member, wanted), before) in wanted.members.iter().zip(&before) {
            if Some(wanted) != *before {
                outcome = self.session.request(member, wanted);
            }
            if outcome.is_err() {
                break;
            }
            done += 1;
        }
        if let (Ok(()), Some((group, params))) = (&outcome, wanted.group)
            && params != self.session.group_params(group)
        {
            outcome = self.session.request_group(group, params);
        }
        if outcome.is_err() {
            for (&(member, _), before) in wanted.members[..done].iter().zip(&before) {
                // What was admitted before has room again.
                before.map(|before| self.session.request(member, before).ok());
            }
        }
        outcome
    }
}

/// Returns the reservation of one CPU of a promise: one of `former` if it is the same, so that its periods go on.
fn reservation(promise: &Promise, former: &[Option<Reservation>]) -> Reservation {
    let slice = Nanos::ns(promise.slice_ns / u64::from(promise.cpus));
    let limit = if promise.limit == Limit::Hard { sched::Limit::Hard } else { sched::Limit::Soft };
    let new = Reservation { limit, ..Reservation::new(slice, Nanos::ns(promise.period_ns)) };
    let is_same = |it: &Reservation| (it.slice, it.period, it.limit) == (new.slice, new.period, new.limit);
    former.iter().flatten().copied().find(is_same).unwrap_or(new)
}

fn conflict(detail: String, remedy: &str) -> Problem {
    Problem::new(409, "Conflict", detail, remedy)
}
