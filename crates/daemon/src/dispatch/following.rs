//! Clients follow the affinity of their threads. Another process, the thread itself or a change of the cpuset may give a
//! served thread other CPUs than the CPU of its client. These CPUs become the original affinity of the thread, so that
//! Tactus never undoes the change. The thread is then served within them:
//!
//! 1. by its client, if the client's CPU is among them;
//! 2. by another client of the same promise, on a CPU among them;
//! 3. by its client on another CPU, if all threads of the client may use that CPU and admission control admits the
//!    client there.
//!
//! Otherwise, the thread leaves the promise. With its last thread, the client is dismissed.

use super::dispatcher::Dispatcher;
use super::journal::Ledger;
use super::member::Level;
use super::refusal::Refusal;
use crate::Explanation;
use crate::affinity::{changed_by_others, give_back, present, within};
use crate::kernel::Kernel;
use crate::table::Original;
use sched::{CpuId, CpuSet, EntityId, Input, Instant, Nanos, Params, State};
use sys::thread::Identity;
use trace::Event;

/// Returns the threads of `confined` that may run on other CPUs than their client's CPU. A tid may have been reused;
/// [`Dispatcher::follow`] checks the identity.
pub fn moved_threads<K: Kernel>(kernel: &K, confined: &[(Identity, CpuId)]) -> Vec<Identity> {
    let is_moved = |(identity, cpu): &&(Identity, CpuId)| {
        kernel.affinity_of(identity.tid).is_ok_and(|found| found != CpuSet::one(*cpu))
    };
    confined.iter().filter(is_moved).map(|(identity, _)| *identity).collect()
}

/// What a served thread may use, now that another process may have changed its affinity.
struct Wish {
    thread: Identity,
    original: Original,
    /// CPU to which Tactus has confined the thread.
    confined: CpuSet,
}

impl<K: Kernel> Dispatcher<K> {
    /// Returns the served threads, each with the CPU to which it is confined. Empty while service is suspended.
    #[must_use]
    pub fn confined(&self) -> Vec<(Identity, CpuId)> {
        let served = self.clients.iter().filter(|(_, client)| !self.suspended && client.trouble.is_none());
        let threads = served.flat_map(|(_, client)| {
            let members = client.members.iter().filter(|member| member.is_served());
            members.map(|member| (member.identity, client.cpu))
        });
        threads.collect()
    }

    /// Follows the affinity of these threads. Returns the CPUs whose agents must be woken, and, for each thread that has
    /// left its promise since the last call, the reason.
    pub fn follow(&mut self, moved: &[Identity]) -> (CpuSet, Vec<Explanation>) {
        let now = self.now();
        moved.iter().for_each(|&thread| self.follow_thread(thread, now));
        (self.take_calls(), std::mem::take(&mut self.reasons))
    }

    /// Follows the affinity of the threads of those clients of `cpu` that
    /// [have such threads](super::client::Client::has_moved_threads).
    pub(super) fn follow_moved(&mut self, cpu: CpuId, now: Instant) {
        if self.suspended {
            return;
        }
        let mut moved: Vec<Identity> = Vec::new();
        for at in 0..self.clients.count_on(cpu) {
            let Some((_, client)) = self.clients.nth_on(cpu, at) else { continue };
            if std::mem::take(&mut client.has_moved_threads) {
                moved.extend(client.members.iter().map(|member| member.identity));
            }
        }
        moved.into_iter().for_each(|thread| self.follow_thread(thread, now));
    }

    /// Returns the client of a thread that is served, and the index of the thread.
    fn served(&self, thread: Identity) -> Option<(EntityId, usize)> {
        let mut clients = self.clients.iter().filter(|(_, client)| client.trouble.is_none());
        clients.find_map(|(e, client)| {
            let at = client.members.iter().position(|member| member.identity == thread && member.is_served())?;
            Some((e, at))
        })
    }

    fn follow_thread(&mut self, thread: Identity, now: Instant) {
        let Some((e, at)) = self.served(thread).filter(|_| !self.suspended) else { return };
        let Some(client) = self.clients.get(e) else { return };
        let (member, confined) = (&client.members[at], CpuSet::one(client.cpu));
        // The next read of the CPU time detects the end of a thread.
        let Ok(found) = present(&self.kernel, &member.thread, &confined) else { return };
        if found == confined {
            return;
        }
        let Ok(cpuset) = self.kernel.cpuset(&member.thread) else { return };
        let original = changed_by_others(&member.original, &confined, found, &cpuset);
        let permitted = within(&original.affinity, &cpuset);
        let is_alone = client.members.iter().filter(|member| member.is_served()).count() == 1;
        let wish = Wish { thread, original, confined };
        if permitted.contains(client.cpu) {
            self.confine(e, &wish);
            return;
        }
        let sibling = self.sibling_on(e, &permitted);
        if let Some(to) = sibling.filter(|_| !is_alone) {
            self.transfer(e, to, &wish);
            return;
        }
        let Err(why) = self.move_client(e, &wish, permitted, now) else { return };
        match sibling {
            Some(to) => {
                self.transfer(e, to, &wish);
                if let Some(client) = self.clients.get_mut(e) {
                    let what = format!("no thread of {} may run on CPU {}: {why}", client.name, client.cpu);
                    client.trouble = Some(Explanation::new(what, "let a thread run there, or make a smaller promise"));
                }
            }
            None => self.end_service(e, &wish, &why),
        }
    }

    /// Returns a client of the same promise on one of `cpus`.
    fn sibling_on(&self, e: EntityId, cpus: &CpuSet) -> Option<EntityId> {
        let tree = self.clients.get(e)?.tree;
        let mut others = self.clients.iter().filter(|(other, client)| *other != e && client.tree == tree);
        others.find(|(_, client)| cpus.contains(client.cpu) && client.trouble.is_none()).map(|(other, _)| other)
    }

    /// Confines a thread of `e` to the CPU of `e`. If the kernel refuses, the thread leaves the promise.
    fn confine(&mut self, e: EntityId, wish: &Wish) {
        let Some(client) = self.clients.get_mut(e) else { return };
        let (cpu, confined) = (client.cpu, CpuSet::one(client.cpu));
        let Some(member) = client.members.iter_mut().find(|member| member.identity == wish.thread) else { return };
        if client.root == Some(member.original) {
            client.root = Some(wish.original);
        }
        let earlier = match member.record(&self.table, wish.original, confined) {
            Ok(earlier) => earlier,
            Err(full) => {
                client.trouble = Some(Refusal::Full(full).reason());
                self.call.insert(cpu);
                return;
            }
        };
        // Until this call, the user mask of the thread may still be the earlier confinement, even if the cpuset hides it.
        let answer = self.kernel.set_affinity(&member.thread, &confined);
        self.table.forget(earlier);
        match answer {
            Ok(()) | Err(sys::Error::Gone(_)) => {}
            Err(refused) => self.end_service(e, wish, &refused.reason()),
        }
    }

    /// Makes a thread of client `from` a thread of client `to`.
    fn transfer(&mut self, from: EntityId, to: EntityId, wish: &Wish) {
        let Some(client) = self.clients.get_mut(from) else { return };
        let Some(at) = client.members.iter().position(|member| member.identity == wish.thread) else { return };
        let (cpu, confined) = (client.cpu, client.confined);
        client.end_timer(&self.kernel);
        let at = client.unpark(at, &self.kernel, &self.table);
        let mut member = client.take(at);
        let _ = self.kernel.await_entry(&mut member.thread, cpu, false);
        (member.is_awaited, member.has_awaited_births) = (false, false);
        // A thread at its original level keeps the attributes that another process may have set.
        if client.level != Level::Original {
            // The call fails only if the thread has ended, or without the privilege that raised the thread.
            let _ = member.set_level(Level::Original, &self.kernel);
        }
        self.call.insert(cpu);
        let Some(client) = self.clients.get_mut(to) else { return };
        client.confined = client.confined.iter().chain(confined.iter()).collect();
        client.push(member);
        self.call.insert(client.cpu);
        self.confine(to, wish);
        let Some(client) = self.clients.get_mut(to) else { return };
        client.set_level_of_last(&self.kernel, &self.table);
        if client.awaited {
            client.set_awaited_of_last(&self.kernel);
        }
    }

    /// Returns what the other threads of `e` may use, and the CPUs of `permitted` that all of them may use.
    fn wishes(&self, e: EntityId, moved: &Wish, permitted: CpuSet) -> (Vec<Wish>, CpuSet) {
        let (mut wishes, mut common) = (Vec::new(), permitted);
        let Some(client) = self.clients.get(e) else { return (wishes, CpuSet::EMPTY) };
        let confined = CpuSet::one(client.cpu);
        for member in client.members.iter().filter(|member| member.is_served() && member.identity != moved.thread) {
            let Ok(found) = present(&self.kernel, &member.thread, &confined) else { continue };
            let is_moved = found != confined;
            let mut original = member.original;
            if is_moved && let Ok(cpuset) = self.kernel.cpuset(&member.thread) {
                original = changed_by_others(&original, &confined, found, &cpuset);
                common = common.and(&within(&original.affinity, &cpuset));
            } else if !original.follows_cpuset {
                // The cpuset of a thread that follows its cpuset may have changed since the thread was recorded.
                common = common.and(&original.affinity);
            }
            wishes.push(Wish { thread: member.identity, original, confined });
        }
        (wishes, common)
    }

    /// Moves client `e` with all its threads to a CPU of `permitted`.
    ///
    /// # Errors
    /// The reason why the client stays on its CPU.
    fn move_client(&mut self, e: EntityId, moved: &Wish, permitted: CpuSet, now: Instant) -> Result<(), String> {
        self.charge_until_now(e, now);
        let Some(client) = self.clients.get(e) else { return Ok(()) };
        let from = client.cpu;
        let siblings = self.clients.iter().filter(|(_, other)| other.tree == client.tree).map(|(_, other)| other.cpu);
        let permitted = permitted.and(&client.affinity).minus(&siblings.collect());
        if permitted.is_empty() {
            return Err("the promise is for other CPUs".to_string());
        }
        let (wishes, common) = self.wishes(e, moved, permitted);
        if common.is_empty() {
            return Err("other threads of the process may not run there".to_string());
        }
        let period = self.clients.get(e).map_or(Nanos::ZERO, |client| client.reservation.period);
        let free = self.make_way(&common, period, now);
        let params = Params { affinity: free, ..*self.machine.params(e) };
        let answer = if free.is_empty() {
            Err("threads above all clients may take the time of these CPUs".to_string())
        } else {
            let refused = |refused| Refusal::Promise(refused).reason().reason.into_owned();
            self.machine.adjust(now, e, params).map_err(refused)
        };
        if let Err(why) = answer {
            self.withhold(&common, now);
            return Err(why);
        }
        self.journal.note(now, Event::Adjust { entity: e, params: Box::new(params) });
        let to = self.machine.allowed(e).first().unwrap_or(from);
        let Some(client) = self.clients.get_mut(e) else { return Ok(()) };
        // A client that moves blocks on the one CPU and wakes on the other: a new period begins if the remaining slice
        // exceeds the client's share of the old period there.
        let is_runnable = !client.is_blocked;
        client.is_blocked = true;
        client.ledger = client.ledger.map(Ledger::interrupted);
        (client.slices_used_up, client.is_dispatched) = (0, false);
        client.has_unreported_sleep = false;
        client.end_timer(&self.kernel);
        client.unpark_all(&self.kernel, &self.table);
        client.set_awaited(false, &self.kernel);
        if client.level != Level::Original {
            client.set_level(Level::Original, &self.kernel, &self.table);
        }
        self.clients.move_to(e, to);
        self.withhold(&common.iter().chain([from]).collect(), now);
        let Some(client) = self.clients.get_mut(e) else { return Ok(()) };
        client.confined.insert(to);
        client.members.iter_mut().for_each(|member| member.has_awaited_births = false);
        for wish in wishes.iter().chain([moved]) {
            self.confine(e, wish);
        }
        if is_runnable {
            self.input(now, Input::Pause { entity: e });
            self.wake(e, now);
        }
        self.call.insert(from);
        self.call.insert(to);
        self.settle(None, now);
        Ok(())
    }

    /// Charges `e` for its CPU time until now.
    pub(super) fn charge_until_now(&mut self, e: EntityId, now: Instant) {
        let Some(client) = self.clients.get_mut(e) else { return };
        let since = client.read(&self.kernel, &self.table);
        let mut time = since.ran;
        let Some(client) = self.clients.get(e) else { return };
        match self.state_of(e, client) {
            State::Running(cpu) => {
                time += self.clients.get_mut(e).map_or(Nanos::ZERO, |client| std::mem::take(&mut client.owed));
                let cost = &mut self.cpus[cpu.index()].cost;
                cost.ran += time;
                cost.count(&since);
                self.input(now, Input::Ran { cpu, time });
            }
            _ if !time.is_zero() => self.journal.note(now, Event::Background { entity: e, time }),
            _ => {}
        }
    }

    /// Ends the service of a thread that cannot be served within its affinity. The affinity stays.
    fn end_service(&mut self, e: EntityId, wish: &Wish, why: &str) {
        let Some(client) = self.clients.get_mut(e) else { return };
        let Some(at) = client.members.iter().position(|member| member.identity == wish.thread) else { return };
        let cpu = client.cpu;
        let at = client.unpark(at, &self.kernel, &self.table);
        client.release(at, &self.kernel);
        let member = &mut client.members[at];
        match member.record(&self.table, wish.original, wish.confined) {
            Ok(earlier) => self.table.forget(earlier),
            Err(full) => client.trouble = Some(Refusal::Full(full).reason()),
        }
        let thread = &client.members[at].thread;
        // The calls fail if the thread has ended.
        let _ = give_back(&self.kernel, thread, &wish.original, &wish.confined);
        let found = self.kernel.affinity(thread).unwrap_or(wish.original.affinity);
        let what = format!(
            "the promise to thread {} of {} has ended: the thread may run on CPUs {found} only, and {why}",
            wish.thread.tid, client.name
        );
        let reason = Explanation::new(what, format!("let it run on CPU {cpu}, or make a smaller promise"));
        if client.has_threads() {
            self.reasons.push(reason);
        } else {
            client.trouble.get_or_insert(reason);
        }
        self.call.insert(cpu);
    }
}
