//! [`KernelKept`]: promises that the kernel keeps, by reservations of SCHED_DEADLINE.
//!
//! Admission uses a machine and the same refusals as the dispatcher, with a policy that places no client. The machine only
//! counts the reservations: no entity ever runs in it. Every reserved thread is an entity. Beside clients of the dispatcher, a
//! reserved thread is an [interfering thread](crate::interfering).
//!
//! The kernel keeps such a promise without the daemon. The caller [observes](KernelKept::observe) the threads from
//! time to time: their CPU time, whether another process has changed their attributes, and new threads.

mod account;
mod books;
mod choice;
mod former;
mod handover;
mod thread;

pub(crate) use books::is_reserved;
pub use former::FormerReservations;

use super::admit::eligible;
use super::dispatcher::Dismissed;
use super::journal::Journal;
use super::leaving::{AllLeaving, Leaving};
use super::promises::Promises;
use super::refusal::{Refusal, would_fit};
use super::request::{KeptBy, PromiseRequest};
use super::room::{HeldPromise, NoRoom};
use super::scan::{Found, Scanned, found_in, scan};
use crate::Explanation;
use crate::interfering::{Demand, InterferingThread};
use crate::kernel::Kernel;
use crate::restore::Restoring;
use crate::table::Table;
use account::Account;
use books::Books;
use sched::{CpuId, CpuSet, Descriptor, EntityId, Instant, Knobs, Nanos, Params, PromiseState, Refused, Reservation};
use std::collections::BTreeSet;
use std::sync::Arc;
use sys::thread::Identity;
use thread::{ReservedThread, Seen};
use trace::Event;

/// Promises that the kernel keeps.
pub struct KernelKept<K: Kernel> {
    kernel: K,
    table: Arc<Table>,
    books: Books,
    policy: Descriptor,
    knobs: Knobs,
    epoch: Instant,
    /// Time by which the kernel may let a reserved thread overrun its slice.
    overrun: Nanos,
    threads: Vec<ReservedThread<K>>,
    clients: Vec<Tree>,
    /// Number of promises so far.
    promises: usize,
    is_suspended: bool,
    journal: Journal,
    left: Vec<Dismissed>,
    leaving: AllLeaving,
    warnings: Vec<Explanation>,
}

/// The process tree of a promise.
struct Tree {
    promise: usize,
    name: String,
    root: u32,
    /// The threads of the tree at the last scan.
    known: BTreeSet<Identity>,
    has_warned: bool,
}

impl<K: Kernel> std::fmt::Debug for KernelKept<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelKept").field("books", &self.books).field("table", &self.table).finish_non_exhaustive()
    }
}

impl<K: Kernel> KernelKept<K> {
    /// Returns the state without promises, for CPUs `0..cpus`. `policy` admits the promises, `epoch` is time zero of the
    /// journal, according to the kernel's clock, and `overrun` is the time by which the kernel may let a reserved thread overrun
    /// its slice.
    ///
    /// # Errors
    /// The policy does not support these knobs.
    pub fn new(
        kernel: K,
        table: Arc<Table>,
        policy: &Descriptor,
        knobs: &Knobs,
        cpus: usize,
        epoch: Instant,
        overrun: Nanos,
    ) -> Result<KernelKept<K>, Refused> {
        let books = Books::new(policy, knobs, cpus)?;
        Ok(KernelKept {
            kernel,
            table,
            books,
            policy: *policy,
            knobs: knobs.clone(),
            epoch,
            overrun,
            threads: Vec::new(),
            clients: Vec::new(),
            promises: 0,
            is_suspended: false,
            journal: Journal::new(),
            left: Vec::new(),
            leaving: AllLeaving::default(),
            warnings: Vec::new(),
        })
    }

    /// Makes the promise `request` to process `pid`, after a [`scan`] without this state. `ours` are the pids of Tactus
    /// and its ancestors, which cannot become clients. Returns the entities, one per reserved thread.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit(
        &mut self,
        request: &PromiseRequest,
        pid: u32,
        ours: &[u32],
        scanned: Option<Scanned<K::Thread>>,
    ) -> Result<Vec<EntityId>, Refusal> {
        let all = self.books.topology().all();
        let reservation = choice::reservation(request, &all)?;
        let leader = self.kernel.identity(&eligible(&self.kernel, pid, ours)?);
        let scanned = scanned.filter(|scanned| scanned.leader == leader).or_else(|| scan(&self.kernel, pid));
        let found = found_in(&self.kernel, pid, &request.vcpus, scanned)?;
        let is_held = |new: &Found<K::Thread>| self.threads.iter().any(|it| it.identity == new.identity);
        if let Some(new) = found.iter().find(|new| is_held(new)) {
            let name = self.threads.iter().find(|it| it.identity == new.identity).map(|it| it.name.clone());
            return Err(Refusal::Already { pid: new.leader.tid, name: name.unwrap_or_default() });
        }
        let known: BTreeSet<Identity> = found.iter().map(|new| new.identity).collect();
        let chosen = choice::choose(pid, found, request.cpus)?;
        for new in &chosen {
            choice::check_thread(&self.kernel, new, &all)?;
        }
        let entities = self.attach(request, reservation)?;
        let (promise, now, is_served) = (self.promises, self.now(), !self.is_suspended);
        for (nth, (new, &entity)) in chosen.into_iter().zip(&entities).enumerate() {
            let name = if entities.len() > 1 { format!("{}/{nth}", request.name) } else { request.name.clone() };
            let account = Account::open(reservation, self.overrun, now);
            match ReservedThread::begin(&self.kernel, &self.table, new, (entity, promise), name, account, is_served) {
                Ok(thread) => self.threads.push(thread),
                Err(refused) => {
                    self.take_back(promise, &entities);
                    return Err(refused);
                }
            }
        }
        self.promises += 1;
        let name = request.name.clone();
        self.clients.push(Tree { promise, name, root: pid, known, has_warned: false });
        for thread in self.threads.iter().filter(|thread| thread.promise == promise) {
            let params = Box::new(self.books.params(thread.entity));
            self.journal.note(now, Event::Attach { entity: thread.entity, name: thread.name.clone(), params });
        }
        Ok(entities)
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
        let all = self.books.topology().all();
        let reservation = choice::reservation(request, &all)?;
        eligible(&self.kernel, pid, ours)?;
        let chosen =
            choice::choose(pid, found_in(&self.kernel, pid, &request.vcpus, scan(&self.kernel, pid))?, request.cpus)?;
        // A thread of the promise of before has the reservation of this promise.
        let is_new = |new: &&Found<K::Thread>| !self.threads.iter().any(|it| it.identity == new.identity);
        chosen.iter().filter(is_new).try_for_each(|new| choice::check_thread(&self.kernel, new, &all))?;
        let own = instead.and_then(|e| self.threads.iter().find(|it| it.entity == e)).map(|it| it.promise);
        would_fit(self.room(request, (0, None), own), reservation)
    }

    /// Returns whether a change of the promise that `e` is part of to `slice` in every `period` would be made, without
    /// making it.
    ///
    /// # Errors
    /// The change would be refused.
    pub fn would_adjust(&self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let promise = self.threads.iter().find(|it| it.entity == e).ok_or(Refusal::NoPromise)?.promise;
        let request = self.change(promise, slice, period);
        let part = choice::reservation(&request, &request.affinity)?;
        would_fit(self.room(&request, (0, None), Some(promise)), part)
    }

    /// Returns the reserved threads, which interfere with clients of the dispatcher.
    #[must_use]
    pub fn interfering(&self) -> Vec<InterferingThread> {
        self.threads.iter().map(|it| interfering(&it.name, it.identity.tid, it.reservation(), self.overrun)).collect()
    }

    /// Returns the interfering threads after the admission of `request` to process `pid`.
    ///
    /// # Errors
    /// SCHED_DEADLINE cannot keep such a promise.
    pub fn interfering_with(&self, request: &PromiseRequest, pid: u32) -> Result<Vec<InterferingThread>, Refusal> {
        let reservation = choice::reservation(request, &self.books.topology().all())?;
        let new = (0..request.cpus.max(1)).map(|_| interfering(&request.name, pid, reservation, self.overrun));
        Ok(self.interfering().into_iter().chain(new).collect())
    }

    /// Returns the interfering threads after a change of the promise that `e` is part of to `slice` in every `period`.
    ///
    /// # Errors
    /// There is no such promise, or SCHED_DEADLINE cannot keep it.
    pub fn interfering_after(
        &self,
        e: EntityId,
        slice: Nanos,
        period: Nanos,
    ) -> Result<Vec<InterferingThread>, Refusal> {
        let promise = self.threads.iter().find(|it| it.entity == e).ok_or(Refusal::NoPromise)?.promise;
        let part = choice::reservation(&self.change(promise, slice, period), &self.books.topology().all())?;
        let reservation = |it: &ReservedThread<K>| if it.promise == promise { part } else { it.reservation() };
        Ok(self
            .threads
            .iter()
            .map(|it| interfering(&it.name, it.identity.tid, reservation(it), self.overrun))
            .collect())
    }

    /// Returns the request for a change of a promise.
    fn change(&self, promise: usize, slice: Nanos, period: Nanos) -> PromiseRequest {
        let of_promise: Vec<&ReservedThread<K>> = self.threads.iter().filter(|it| it.promise == promise).collect();
        let (cpus, full) = (of_promise.len(), of_promise.first().map_or("", |it| it.name.as_str()));
        let name = full.rsplit_once('/').filter(|_| cpus > 1).map_or(full, |(name, _)| name);
        let (by, affinity) = (KeptBy::Kernel, self.books.topology().all());
        PromiseRequest { by, cpus, affinity, ..PromiseRequest::new(name, Reservation::new(slice, period)) }
    }

    /// Attaches an entity for each requested CPU to the machine.
    fn attach(&mut self, request: &PromiseRequest, reservation: Reservation) -> Result<Vec<EntityId>, Refusal> {
        let now = self.now();
        let mut entities: Vec<EntityId> = Vec::with_capacity(request.cpus);
        for _ in 0..request.cpus.max(1) {
            let params = Params { reservation: Some(reservation), ..Params::default() };
            match self.books.attach(now, params) {
                Ok(e) => entities.push(e),
                Err(refused) => {
                    entities.into_iter().for_each(|e| self.detach(e, now));
                    return Err(self.refusal(request, refused, None));
                }
            }
        }
        Ok(entities)
    }

    fn detach(&mut self, e: EntityId, now: Instant) {
        self.books.detach(now, e);
    }

    /// Reverts an admission that the kernel has refused.
    fn take_back(&mut self, promise: usize, entities: &[EntityId]) {
        let now = self.now();
        entities.iter().for_each(|&e| self.detach(e, now));
        let (gone, stay): (Vec<_>, Vec<_>) = self.threads.drain(..).partition(|thread| thread.promise == promise);
        self.threads = stay;
        self.restore(&gone);
    }

    /// Returns the refusal of `request` by the machine. The reservations of promise `own` count as free.
    fn refusal(&self, request: &PromiseRequest, refused: Refused, own: Option<usize>) -> Refusal {
        match refused {
            Refused::Utilisation { free_ppm, on, .. } => {
                Refusal::NoRoom(Box::new(self.room(request, (free_ppm, on), own)))
            }
            other => Refusal::Promise(other),
        }
    }

    /// Returns the room for `request`. The reservations of promise `own` count as free.
    fn room(&self, request: &PromiseRequest, free: (u64, Option<CpuId>), own: Option<usize>) -> NoRoom {
        let others = self.threads.iter().filter(|thread| Some(thread.promise) != own);
        let held = others.map(|thread| HeldPromise {
            name: thread.name.clone(),
            promise: thread.promise,
            cpu: None,
            reservation: thread.reservation(),
            gang: None,
        });
        let all = self.books.topology().all();
        let request = PromiseRequest { affinity: all, ..request.clone() };
        let (policy, cpus) = (Some((self.policy, self.knobs.clone())), self.books.topology().cpus);
        let (held, interfering) = (held.collect(), Vec::new());
        NoRoom { request, gang: None, own: all, free, held, interfering, cpus, policy }
    }

    /// Begins to restore these threads. The caller of [`Promises::take_leaving`] finds their new children.
    fn restore(&mut self, gone: &[ReservedThread<K>]) {
        let threads: Vec<Identity> = gone.iter().filter(|it| it.row.is_some()).map(|it| it.identity).collect();
        if threads.is_empty() {
            return;
        }
        let restoring = Restoring::begin(&self.kernel, &self.table, |entry| threads.contains(&entry.thread));
        let rows = gone.iter().filter_map(|it| it.row).collect();
        let mut leaders: Vec<Identity> = gone.iter().map(|it| it.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        let leaving = Leaving { restoring: None, rows, leaders, confined: CpuSet::EMPTY };
        self.leaving.add(leaving, restoring, &self.table);
    }

    /// Ends the promise to the threads that `is_over` selects, for the reason that it returns.
    fn end(&mut self, is_over: impl Fn(&ReservedThread<K>) -> Option<Option<Explanation>>) {
        let now = self.now();
        let mut gone = Vec::new();
        for mut thread in std::mem::take(&mut self.threads) {
            let Some(trouble) = is_over(&thread) else {
                self.threads.push(thread);
                continue;
            };
            thread.read(&self.kernel, now, false, &mut self.journal);
            self.journal.note(now, Event::Detach { entity: thread.entity });
            let (entity, name) = (thread.entity, thread.name.clone());
            self.left.push(Dismissed { entity, name, trouble, exception: None });
            self.detach(thread.entity, now);
            gone.push(thread);
        }
        self.restore(&gone);
        let threads = &self.threads;
        self.clients.retain(|tree| threads.iter().any(|thread| thread.promise == tree.promise));
    }

    /// Observes the threads: records their CPU time, and ends the promises to threads that have ended or that other
    /// processes have changed. Returns the instant of the next observation, according to the kernel's clock, and reasons
    /// that ended no promise.
    pub fn observe(&mut self) -> (Instant, Vec<Explanation>) {
        let now = self.now();
        let is_served = !self.is_suspended;
        let mut over: Vec<(EntityId, Option<Explanation>)> = Vec::new();
        for thread in &mut self.threads {
            let seen = thread.read(&self.kernel, now, is_served, &mut self.journal);
            if matches!(seen, Seen::Ended | Seen::Changed(_)) {
                // Nothing is left to restore: the thread has ended, or has the values of another process.
                thread.row.take().into_iter().for_each(|row| self.table.forget(row));
            }
            match seen {
                Seen::Kept => {}
                Seen::Ended => over.push((thread.entity, None)),
                Seen::Changed(why) | Seen::Unreadable(why) => over.push((thread.entity, Some(why))),
            }
        }
        if !over.is_empty() {
            self.end(|thread| over.iter().find(|(e, _)| *e == thread.entity).map(|(_, why)| why.clone()));
        }
        let next = self.threads.iter().map(|thread| thread.next_read()).min().unwrap_or(Instant::NEVER);
        let next = if next == Instant::NEVER { next } else { self.epoch.saturating_add(next.since(Instant::ZERO)) };
        (next, std::mem::take(&mut self.warnings))
    }

    /// Returns the number of reserved threads.
    #[must_use]
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Returns the process trees of the promises: the number of the promise, and the pid of the root.
    #[must_use]
    pub fn trees(&self) -> Vec<(usize, u32)> {
        self.clients.iter().map(|tree| (tree.promise, tree.root)).collect()
    }

    /// Gives the new threads and children of a tree the attributes that they would have inherited without Tactus: the kernel
    /// resets the attributes of a child of a reserved thread. `scanned` is the result of a [`scan`] of the tree without
    /// this state.
    pub fn adopt(&mut self, promise: usize, scanned: &Scanned<K::Thread>) {
        if self.is_suspended {
            return;
        }
        let Some(tree) = self.clients.iter_mut().find(|tree| tree.promise == promise) else { return };
        let mut now = BTreeSet::new();
        for new in &scanned.found {
            now.insert(new.identity);
            if tree.known.contains(&new.identity) {
                continue;
            }
            let with = |wanted: &dyn Fn(&ReservedThread<K>) -> bool| {
                self.threads.iter().find(|it| it.promise == promise && wanted(it))
            };
            let parent = with(&|it| it.leader == new.leader)
                .or_else(|| with(&|it| it.leader.tid == new.parent))
                .or_else(|| with(&|_| true));
            if let Some(parent) = parent {
                thread::bring_up(&self.kernel, &new.thread, parent);
            }
            if !std::mem::replace(&mut tree.has_warned, true) {
                self.warnings.push(choice::not_served(&tree.name, new.identity.tid));
            }
        }
        tree.known = now;
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.kernel.now().saturating_since(self.epoch)
    }

    fn try_adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> Result<(), Refusal> {
        let now = self.now();
        let thread = self.threads.iter().find(|it| it.entity == e).ok_or(Refusal::NoPromise)?;
        let promise = thread.promise;
        let of_promise = |it: &&ReservedThread<K>| it.promise == promise;
        let entities: Vec<EntityId> = self.threads.iter().filter(of_promise).map(|it| it.entity).collect();
        let request = self.change(promise, slice, period);
        let part = choice::reservation(&request, &request.affinity)?;
        let before: Vec<Params> = entities.iter().map(|&e| self.books.params(e)).collect();
        let undo = |it: &mut KernelKept<K>, count: usize| {
            for (&e, was) in entities.iter().zip(&before).take(count) {
                let again = it.books.adjust(now, e, *was);
                assert!(again.is_ok(), "an earlier promise fits again: {again:?}");
            }
        };
        for (nth, (&e, was)) in entities.iter().zip(&before).enumerate() {
            if let Err(refused) = self.books.adjust(now, e, Params { reservation: Some(part), ..*was }) {
                undo(self, nth);
                return Err(self.refusal(&request, refused, Some(promise)));
            }
        }
        let was: Vec<Reservation> = self.threads.iter().filter(of_promise).map(|it| it.reservation()).collect();
        for nth in 0..entities.len() {
            let mut threads = self.threads.iter_mut().filter(|it| it.promise == promise);
            let thread = threads.nth(nth).expect("each entity of the promise has a thread");
            let answer = thread.change(&self.kernel, &self.table, part, now, !self.is_suspended);
            if let Ok(false) = answer {
                self.journal.note(now, Event::Kept { entity: thread.entity, kept: true, missed: 0, of: 0 });
            }
            if let Err(refused) = answer {
                let earlier = self.threads.iter_mut().filter(|it| it.promise == promise).zip(was).take(nth);
                for (thread, was) in earlier {
                    // A reservation that is not larger than before is not refused, unless the thread has ended.
                    let _ = thread.change(&self.kernel, &self.table, was, now, !self.is_suspended);
                }
                undo(self, entities.len());
                return Err(refused);
            }
        }
        for e in entities {
            let params = Box::new(self.books.params(e));
            self.journal.note(now, Event::Adjust { entity: e, params });
        }
        Ok(())
    }
}

impl<K: Kernel> Promises for KernelKept<K> {
    fn adjust(&mut self, e: EntityId, slice: Nanos, period: Nanos) -> (Result<(), Refusal>, CpuSet) {
        (self.try_adjust(e, slice, period), CpuSet::EMPTY)
    }

    fn dismiss(&mut self, e: EntityId) -> CpuSet {
        self.end(|thread| (thread.entity == e).then_some(None));
        CpuSet::EMPTY
    }

    fn dismiss_all(&mut self) {
        self.end(|_| Some(None));
    }

    fn suspend(&mut self) -> CpuSet {
        self.is_suspended = true;
        self.threads.iter_mut().for_each(|thread| thread.suspend(&self.kernel));
        CpuSet::EMPTY
    }

    fn resume(&mut self) -> CpuSet {
        self.is_suspended = false;
        let now = self.now();
        let refused = |thread: &mut ReservedThread<K>| Some((thread.entity, thread.resume(&self.kernel, now).err()?));
        let refused: Vec<_> = self.threads.iter_mut().filter_map(refused).collect();
        self.end(|thread| {
            let found = refused.iter().find(|(e, _)| *e == thread.entity);
            found.map(|(_, why)| Some(why.clone()))
        });
        CpuSet::EMPTY
    }

    fn take_dismissed(&mut self) -> Vec<Dismissed> {
        std::mem::take(&mut self.left)
    }

    fn read_journal(&mut self, events: &mut Vec<(Instant, Event)>) -> u64 {
        self.journal.exchange(events)
    }

    fn reports_wakeups(&self, _: EntityId) -> bool {
        true
    }

    fn is_kept(&self, e: EntityId) -> Option<bool> {
        self.threads.iter().find(|thread| thread.entity == e).map(ReservedThread::is_kept)
    }

    fn promise(&self, _: EntityId) -> Option<PromiseState> {
        None
    }

    fn cpu(&self, _: EntityId) -> Option<CpuId> {
        None
    }

    fn name_of_holder(&self, thread: &Identity) -> Option<String> {
        self.threads.iter().find(|it| it.identity == *thread).map(|it| it.name.clone())
    }

    fn take_leaving(&mut self) -> Vec<(usize, Restoring)> {
        self.leaving.take()
    }

    fn keep_leaving(&mut self, looked_at: Vec<(usize, Restoring)>) -> Option<Nanos> {
        self.leaving.keep(looked_at, &self.table)
    }

    fn has_leaving(&self) -> bool {
        self.leaving.iter().next().is_some()
    }

    fn is_leaving(&self, pid: u32) -> bool {
        self.leaving.includes(&self.kernel, pid)
    }
}

/// Returns a reserved thread as an interfering thread.
fn interfering(
    name: &str,
    tid: u32,
    Reservation { slice, period, .. }: Reservation,
    overrun: Nanos,
) -> InterferingThread {
    let demand = Demand::Reserved { runtime: slice, period, overrun };
    InterferingThread { tid, name: name.to_string(), demand, cpus: CpuSet::ALL }
}
