//! Admission control: a promise is made only if it can be kept.

use super::adopt::Inherited;
use super::client::Client;
use super::dispatcher::Dispatcher;
use super::enclosure::Enclosure;
use super::kernel_kept::is_reserved;
use super::member::RaiseBy;
use super::refusal::{Refusal, would_fit};
use super::request::{KeptBy, Others, PromiseRequest};
use super::room::{HeldPromise, NoRoom};
use super::scan::{Found, Scanned, THREADS_MOST, found_in, scan};
use crate::kernel::{Kernel, priority};
use sched::{CpuId, CpuSet, EntityId, GroupId, GroupParams, Instant, Nanos, Params, Refused, Reservation};
use sys::attributes::Attributes;
use sys::thread::{Identity, State};
use trace::Event;

/// A new promise, of which one thread is adopted.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Entities of the clients, one per CPU.
    pub entities: Vec<EntityId>,
    /// Number of the process tree.
    pub tree: usize,
    /// CPUs whose agents must be woken.
    pub call: CpuSet,
}

/// Checks that process `pid` may have a promise by any mechanism, and returns a handle to its first thread. `ours` are the
/// pids of Tactus and its ancestors, which have none.
pub(super) fn eligible<K: Kernel>(kernel: &K, pid: u32, ours: &[u32]) -> Result<K::Thread, Refusal> {
    if ours.contains(&pid) {
        return Err(Refusal::Ourselves(pid));
    }
    let leader = kernel.open(pid).map_err(Refusal::from)?;
    let status = kernel.status(&leader).map_err(Refusal::from)?;
    if status.is_kernel {
        return Err(Refusal::KernelThread { pid, name: status.name });
    }
    if status.state == State::Dead {
        return Err(Refusal::Gone(pid));
    }
    let process = kernel.process(&leader).map_err(Refusal::from)?;
    if process != pid {
        return Err(Refusal::Unsupported {
            reason: "the number is that of a thread, not of a process",
            remedy: "use the pid of its process",
        });
    }
    // With file capabilities, the kernel would permit any user to change any process.
    let (owner, user) = (kernel.owner(&leader).map_err(Refusal::from)?, kernel.user());
    if user != 0 && owner.real != user {
        return Err(Refusal::Foreign { pid, user: owner.real });
    }
    Ok(leader)
}

impl<K: Kernel> Dispatcher<K> {
    /// Checks whether process `pid` may become a client, with the result of an earlier [`scan`]. `ours` are the pids of
    /// Tactus and its ancestors, which cannot become clients.
    ///
    /// # Errors
    /// The request would be refused.
    pub fn check(
        &self,
        request: &PromiseRequest,
        pid: u32,
        ours: &[u32],
        scanned: Option<&Scanned<K::Thread>>,
    ) -> Result<(), Refusal> {
        request.per_cpu()?;
        self.examine(pid, ours)?;
        scanned.map_or(Ok(()), |scanned| self.is_free(&scanned.found))
    }

    /// Returns whether process `pid` would get the promise `request`, in place of the promise that `instead` is part of,
    /// without making it. `ours` are the pids of Tactus and its ancestors.
    ///
    /// # Errors
    /// The request would be refused.
    pub fn would_admit(
        &self,
        request: &PromiseRequest,
        pid: u32,
        ours: &[u32],
        instead: Option<EntityId>,
    ) -> Result<(), Refusal> {
        let reservation = request.per_cpu()?;
        let leader = eligible(&self.kernel, pid, ours)?;
        if let Some(limit) = self.kernel.realtime_limit(&leader).map_err(Refusal::from)? {
            return Err(Refusal::Limited { pid, limit });
        }
        let own = self.kernel.affinity(&leader).map_err(Refusal::from)?.and(&self.machine.topology().all());
        let allowed = own.and(&request.affinity);
        if allowed.len() < request.cpus {
            return Err(Refusal::TooFewCpus { pid, asked: request.cpus, allowed: Box::new(allowed) });
        }
        let mut room = self.no_room(PromiseRequest { affinity: allowed, ..request.clone() }, own, (0, None));
        let tree = instead.and_then(|e| self.clients.get(e)).map(|client| client.tree);
        room.held.retain(|held| Some(held.promise) != tree);
        would_fit(room, reservation)
    }

    /// Checks that no thread of `found` belongs to a client. Otherwise, the values set for one client would be recorded
    /// as originals for the other client.
    fn is_free(&self, found: &[Found<K::Thread>]) -> Result<(), Refusal> {
        let mut ours: Vec<(Identity, u32)> = found.iter().map(|new| (new.identity, new.leader.tid)).collect();
        ours.sort_unstable();
        let pid_of = |thread: Identity| Some(ours[ours.binary_search_by_key(&thread, |(it, _)| *it).ok()?].1);
        let mut held = self.clients.iter().filter_map(|(_, client)| {
            let pid = client.members.iter().find_map(|member| pid_of(member.identity))?;
            Some(Refusal::Already { pid, name: client.name.clone() })
        });
        held.next().map_or(Ok(()), Err)
    }

    /// Makes the promise `request` to process `pid` and its descendants. `ours` are the pids of Tactus and its
    /// ancestors, which cannot become clients. Returns the client's entities, one per CPU, and the CPUs whose agents
    /// must be woken. The threads stay at their original level until they have [loans](Dispatcher::without_loan). A hard
    /// limit needs [`Dispatcher::admit_scanned`].
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit(
        &mut self,
        request: &PromiseRequest,
        pid: u32,
        ours: &[u32],
    ) -> Result<(Vec<EntityId>, CpuSet), Refusal> {
        let Admission { entities, tree, mut call } = self.admit_scanned(request, pid, ours, None, Enclosure::none())?;
        while let Some(further) = self.adopt_further(tree, usize::MAX)? {
            call = call.iter().chain(further.iter()).collect();
        }
        Ok((entities, call))
    }

    /// Makes a promise like [`Dispatcher::admit`], after a [`scan`] without the dispatcher, for which the agents would
    /// otherwise wait. For the same reason, only one thread is adopted: the caller adopts the others by
    /// [`Dispatcher::adopt_further`]. Threads that have started since are adopted like all new threads. The client freezes
    /// through `enclosure`.
    ///
    /// # Errors
    /// The request is refused; nothing has changed. The caller [releases](super::release_groups) the groups of the
    /// enclosure.
    pub fn admit_scanned(
        &mut self,
        request: &PromiseRequest,
        pid: u32,
        ours: &[u32],
        scanned: Option<Scanned<K::Thread>>,
        enclosure: Enclosure<K>,
    ) -> Result<Admission, Refusal> {
        let KeptBy::Dispatcher(by) = request.by else {
            return Err(Refusal::Unsupported {
                reason: "the kernel keeps such a promise",
                remedy: "use another mechanism",
            });
        };
        let reservation = request.per_cpu()?;
        let leader = self.examine(pid, ours)?;
        let own = self.kernel.affinity(&leader).map_err(Refusal::from)?.and(&self.machine.topology().all());
        let allowed = own.and(&request.affinity);
        if allowed.len() < request.cpus {
            return Err(Refusal::TooFewCpus { pid, asked: request.cpus, allowed: Box::new(allowed) });
        }
        let tree = self.trees;
        // The pid may have been reused since the scan.
        let identity = self.kernel.identity(&leader);
        let scanned = scanned.filter(|scanned| scanned.leader == identity).or_else(|| scan(&self.kernel, pid));
        let mut found = found_in(&self.kernel, pid, &request.vcpus, scanned)?;
        if found.len() > THREADS_MOST {
            return Err(Refusal::TooManyThreads { most: THREADS_MOST });
        }
        self.is_free(&found)?;
        // If possible, the client gets a CPU that all its threads may use.
        let masks = found.iter().filter_map(|new| self.kernel.affinity(&new.thread).ok());
        let common = masks.fold(allowed, |common, mask| common.and(&mask));
        let preferred = if common.len() < request.cpus { allowed } else { common };
        let entities = self.attach(request, reservation, (preferred, own), (tree, by))?;
        self.trees += 1;
        self.unadopted.push((tree, found.split_off(found.len().min(1))));
        // Try to raise a thread only after the originals are recorded.
        let answer = self.adopt_all(tree, found, Inherited::Nothing).and_then(|()| match by {
            RaiseBy::Inheritance => Ok(()),
            RaiseBy::Attributes => self.try_raise(&leader),
        });
        if let Err(refused) = answer {
            self.withdraw(tree);
            return Err(refused);
        }
        // A hard limit concerns one CPU, and therefore one entity.
        if let Some(client) = entities.first().and_then(|&e| self.clients.get_mut(e)) {
            client.enclosure = enclosure;
        }
        self.begin(&entities);
        Ok(Admission { entities, tree, call: self.take_calls() })
    }

    /// Adopts up to `most` further threads that the admission of process tree `tree` has found. Returns the CPUs whose
    /// agents must be woken; `None` if all threads are adopted, or all clients of the tree were dismissed. The tree
    /// identifies the admission, because one of its clients may be dismissed between two steps.
    ///
    /// # Errors
    /// A thread cannot be adopted: the promise is withdrawn, and nothing has changed.
    pub fn adopt_further(&mut self, tree: usize, most: usize) -> Result<Option<CpuSet>, Refusal> {
        let Some(at) = self.unadopted.iter().position(|(of, _)| *of == tree) else { return Ok(None) };
        let rest = &mut self.unadopted[at].1;
        let some: Vec<_> = rest.drain(..rest.len().min(most)).collect();
        if some.is_empty() {
            self.unadopted.swap_remove(at);
            return Ok(None);
        }
        match self.adopt_all(tree, some, Inherited::Nothing) {
            Ok(()) => Ok(Some(self.take_calls())),
            Err(refused) => {
                self.withdraw(tree);
                Err(refused)
            }
        }
    }

    /// Takes back a promise whose threads cannot be adopted.
    fn withdraw(&mut self, tree: usize) {
        let now = self.now();
        let entities: Vec<EntityId> =
            self.clients.iter().filter(|(_, client)| client.tree == tree).map(|(e, _)| e).collect();
        for &e in &entities {
            let Some(client) = self.clients.get_mut(e) else { continue };
            // The caller releases the groups.
            client.set_frozen(false, &self.kernel, &self.table);
            client.enclosure = Enclosure::none();
            self.leave(e, now);
        }
        self.left.retain(|left| !entities.contains(&left.entity));
        self.settle(None, now);
    }

    /// Checks that process `pid` may become a client, and returns a handle to its first thread.
    fn examine(&self, pid: u32, ours: &[u32]) -> Result<K::Thread, Refusal> {
        let leader = eligible(&self.kernel, pid, ours)?;
        if let Some(limit) = self.kernel.realtime_limit(&leader).map_err(Refusal::from)? {
            return Err(Refusal::Limited { pid, limit });
        }
        match self.holder(self.kernel.identity(&leader)) {
            Some(name) => Err(Refusal::Already { pid, name: name.to_string() }),
            None => Ok(leader),
        }
    }

    /// Returns the name of the client that thread `identity` belongs to.
    pub(super) fn holder(&self, identity: Identity) -> Option<&str> {
        let mut all = self.clients.iter().map(|(_, client)| client);
        all.find(|client| client.members.iter().any(|it| it.identity == identity)).map(|client| client.name.as_str())
    }

    /// Attaches one entity per requested CPU to the machine, as a gang on request. The process may use the CPUs `own`,
    /// and the entities the CPUs `allowed` among them. `tree` is the number of the process tree, and `by` how its threads are
    /// raised.
    fn attach(
        &mut self,
        request: &PromiseRequest,
        reservation: Reservation,
        (allowed, own): (CpuSet, CpuSet),
        (tree, by): (usize, RaiseBy),
    ) -> Result<Vec<EntityId>, Refusal> {
        let now = self.now();
        let mut entities: Vec<EntityId> = Vec::with_capacity(request.cpus);
        let gang = self.gang_of(request, now)?;
        let mut free = self.make_way(&allowed, reservation.period, now);
        let group = gang.unwrap_or(GroupId::ROOT);
        let first = reservation.start.unwrap_or(now).max(now);
        let start = |nth: usize| match (gang, request.stagger) {
            // The journal states the phase of a gang. All members have the same start.
            (Some(_), _) => Some(first),
            (None, Nanos::ZERO) => reservation.start,
            (None, stagger) => Some(first.saturating_add(stagger.saturating_mul(nth as u64))),
        };
        for nth in 0..request.cpus.max(1) {
            let asked = Some(Reservation { start: start(nth), ..reservation });
            let params = Params { reservation: asked, group, affinity: free, ..Params::default() };
            let attached = if free.is_empty() {
                let on = allowed.iter().find(|&cpu| entities.iter().all(|&e| !self.machine.allowed(e).contains(cpu)));
                Err(Refused::Utilisation { asked: reservation, free_ppm: 0, on })
            } else {
                self.machine.attach(now, params)
            };
            let e = match attached {
                Ok(e) if is_reserved(e) => {
                    self.machine.detach(now, e);
                    self.abandon(&entities, gang, &allowed, now);
                    let (reason, remedy) = ("there are too many clients", "make promises for fewer CPUs (--cpus)");
                    return Err(Refusal::Unsupported { reason, remedy });
                }
                Ok(e) => e,
                Err(refused) => {
                    self.abandon(&entities, gang, &allowed, now);
                    return Err(match refused {
                        Refused::Utilisation { free_ppm, on, .. } => {
                            let request = PromiseRequest { affinity: allowed, ..request.clone() };
                            Refusal::NoRoom(Box::new(self.no_room(request, own, (free_ppm, on))))
                        }
                        other => Refusal::Promise(other),
                    });
                }
            };
            let cpu = self.machine.allowed(e).first().unwrap_or(CpuId::new(0));
            free.remove(cpu);
            let name = if request.cpus > 1 { format!("{}/{nth}", request.name) } else { request.name.clone() };
            self.journal.note(now, Event::Attach { entity: e, name: name.clone(), params: Box::new(params) });
            let client = Client::new(name, tree, cpu, request.affinity, reservation);
            self.clients.insert(e, Client { by, gang, records_sleeps: request.records_sleeps, ..client });
            entities.push(e);
        }
        self.withhold(&allowed, now);
        Ok(entities)
    }

    /// Takes back the entities of a request that is refused.
    fn abandon(&mut self, entities: &[EntityId], gang: Option<GroupId>, allowed: &CpuSet, now: Instant) {
        entities.iter().for_each(|&e| self.leave(e, now));
        self.left.retain(|left| !entities.contains(&left.entity));
        self.remove_gang_if_empty(gang, now);
        self.withhold(allowed, now);
    }

    /// Returns the gang that the clients of `request` join, if any. Creates a new gang unless the request names one.
    fn gang_of(&mut self, request: &PromiseRequest, now: Instant) -> Result<Option<GroupId>, Refusal> {
        match request.others {
            _ if !request.gang => Ok(None),
            Others::Of(e) => Ok(Some(self.gang_with(e).ok_or(Refusal::NoPromise)?)),
            Others::None | Others::Later => self.create_gang(&request.name, now).map(Some),
        }
    }

    /// Returns the gang of `e`.
    fn gang_with(&self, e: EntityId) -> Option<GroupId> {
        self.clients.get(e)?.gang
    }

    /// Creates the group of a gang with this name.
    pub(super) fn create_gang(&mut self, name: &str, now: Instant) -> Result<GroupId, Refusal> {
        let (params, parent) = (GroupParams { gang: true, ..GroupParams::default() }, GroupId::ROOT);
        let group = self.machine.create_group(now, params, parent).map_err(Refusal::Promise)?;
        let (name, params) = (name.to_string(), Box::new(params));
        self.journal.note(now, Event::GroupCreated { group, name, parent, params });
        Ok(group)
    }

    /// Removes the group of a gang without members.
    pub(super) fn remove_gang_if_empty(&mut self, gang: Option<GroupId>, now: Instant) {
        // The machine refuses to remove a group that still has members.
        if let Some(group) = gang.filter(|&group| self.machine.remove_group(now, group).is_ok()) {
            self.journal.note(now, Event::GroupRemoved { group });
        }
    }

    /// Returns the refusal of `request`, whose process may use the CPUs `own`.
    pub(super) fn no_room(&self, request: PromiseRequest, own: CpuSet, free: (u64, Option<CpuId>)) -> NoRoom {
        let held = self.clients.iter().map(|(_, client)| HeldPromise {
            name: client.name.clone(),
            promise: client.tree,
            cpu: Some(client.cpu),
            reservation: client.reservation,
            gang: client.gang,
        });
        let gang = match request.others {
            Others::Of(e) => self.gang_with(e),
            Others::None | Others::Later => None,
        };
        let (policy, cpus) = (Some((self.policy, self.knobs.clone())), self.machine.topology().cpus);
        let interfering = self.withheld.threads().to_vec();
        NoRoom { request, gang, own, free, held: held.collect(), interfering, cpus, policy }
    }

    /// Raises a thread and lowers it again, to check the permission before a promise is made.
    fn try_raise(&self, leader: &K::Thread) -> Result<(), Refusal> {
        let before = self.kernel.attributes(leader).map_err(Refusal::from)?;
        self.kernel.schedule(leader, Attributes::raised(priority::AMONG_OTHERS)).map_err(Refusal::from)?;
        self.kernel.schedule(leader, before).map_err(Refusal::from)
    }

    /// Starts to serve the entities. Reports a wake-up of each client with a runnable thread to the machine. The agents
    /// detect the wake-ups of the other clients later.
    pub(super) fn begin(&mut self, entities: &[EntityId]) {
        let now = self.now();
        for &e in entities {
            let Some(client) = self.clients.get_mut(e) else { continue };
            client.read(&self.kernel, &self.table);
            let awake =
                |thread: &K::Thread| self.kernel.status(thread).is_ok_and(|status| status.state == State::Runnable);
            self.call.insert(client.cpu);
            if client.members.iter().any(|member| awake(&member.thread)) {
                self.wake(e, now);
            }
        }
        self.settle(None, now);
    }
}
