//! Dismissal of clients, at their end or on request. Suspension of all clients while no guardian is alive.

use super::client::Client;
use super::dispatcher::{Dismissed, Dispatcher};
use super::leaving::Leaving;
use super::scan::Found;
use crate::affinity::{give_back, is_original};
use crate::kernel::Kernel;
use crate::restore::{End, Restoring, ThreadRestored};
use crate::table::Original;
use sched::{CpuId, CpuSet, EntityId, Input, Instant, Nanos, State};
use sys::thread::Identity;
use trace::Event;

impl<K: Kernel> Dispatcher<K> {
    /// Stops serving, and restores all threads, because no guardian is alive. Returns the CPUs whose agents must be
    /// woken.
    pub fn suspend(&mut self) -> CpuSet {
        self.suspended = true;
        let now = self.now();
        for (_, client) in self.clients.iter_mut() {
            client.unpark_all(&self.kernel, &self.table);
        }
        for cpu in (0..self.machine.topology().cpus).map(CpuId::new) {
            self.apply(cpu, now);
        }
        for (_, client) in self.clients.iter() {
            let confined = CpuSet::one(client.cpu);
            for member in client.members.iter().filter(|member| !member.is_released) {
                // The call fails if the thread has ended, or if its original CPUs are offline. The kernel moves the
                // threads of offline CPUs itself.
                let _ = give_back(&self.kernel, &member.thread, &member.original, &confined);
            }
        }
        self.machine.topology().all()
    }

    /// Serves all clients again. Returns the CPUs whose agents must be woken.
    pub fn resume(&mut self) -> CpuSet {
        for (_, client) in self.clients.iter_mut() {
            let confined = CpuSet::one(client.cpu);
            for at in 0..client.members.len() {
                let member = &client.members[at];
                if member.is_released {
                    continue;
                }
                let Ok(now) = self.kernel.affinity(&member.thread) else { continue };
                if is_original(&self.kernel, &member.thread, now, &member.original) {
                    if now.contains(client.cpu) {
                        let _ = self.kernel.set_affinity(&member.thread, &confined);
                    }
                } else if now == confined {
                    // Another process has chosen the CPU of the client in the meantime.
                    let follows_cpuset = self.kernel.cpuset(&member.thread).is_ok_and(|cpuset| cpuset == now);
                    let original = Original { affinity: now, follows_cpuset, ..member.original };
                    client.set_original(at, original, &self.table);
                }
                // A thread that another process has moved elsewhere stays there until the next check of the masks.
            }
        }
        self.suspended = false;
        self.machine.topology().all()
    }

    /// Dismisses `e` and restores its threads. Returns the CPUs whose agents must be woken.
    pub fn dismiss(&mut self, e: EntityId) -> CpuSet {
        let now = self.now();
        self.leave(e, now);
        self.settle(None, now);
        self.take_calls()
    }

    /// Dismisses all clients.
    pub fn dismiss_all(&mut self) {
        let entities: Vec<EntityId> = self.clients.iter().map(|(e, _)| e).collect();
        for e in entities {
            self.dismiss(e);
        }
    }

    pub(super) fn leave(&mut self, e: EntityId, now: Instant) {
        self.adopt_orphans(e);
        let Some(mut client) = self.clients.remove(e) else { return };
        let tree = client.tree;
        let others: CpuSet =
            self.clients.iter().filter(|(_, other)| other.tree == tree).map(|(_, it)| it.cpu).collect();
        if !others.is_empty() {
            // A client without threads is dismissed with the last thread of the promise.
            self.call = self.call.iter().chain(others.iter()).collect();
            let released = client.members.iter().filter(|member| member.is_released);
            self.departed.extend(released.map(|member| (tree, member.identity)));
        } else {
            self.departed.retain(|(of, _)| *of != tree);
            self.unadopted.retain(|(of, _)| *of != tree);
        }
        // Thaw first: whatever fails afterwards, the processes run.
        client.set_frozen(false, &self.kernel, &self.table);
        let time = client.read(&self.kernel, &self.table).ran + std::mem::take(&mut client.owed);
        match self.state_of(e, &client) {
            State::Running(cpu) => self.input(now, Input::Ran { cpu, time }),
            _ if !time.is_zero() => self.journal.note(now, Event::Background { entity: e, time }),
            _ => {}
        }
        client.set_awaited(false, &self.kernel);
        client.stop_awaiting_parked(&self.kernel);
        client.end_timer(&self.kernel);
        client.end_loans();
        self.in_kernel.leave(client.ordered.take());
        self.give_back(&client);
        self.call.insert(client.cpu);
        self.kicked.insert(client.cpu);
        self.cpus[client.cpu.index()].stop(e);
        self.machine.detach(now, e);
        self.journal.note(now, Event::Detach { entity: e });
        self.withhold(&CpuSet::one(client.cpu), now);
        self.remove_gang_if_empty(client.gang, now);
        let Client { name, trouble, exception, members, ended, .. } = client;
        self.former.extend(members.into_iter().chain(ended));
        self.left.push(Dismissed { entity: e, name, trouble, exception });
    }

    /// Dismisses the clients of `cpu` that cannot be served, and those of promises without threads. A client without
    /// threads gets the next new threads of its promise.
    pub(super) fn dismiss_troubled(&mut self, cpu: CpuId, now: Instant) {
        loop {
            let mut over =
                self.clients.iter_on(cpu).filter(|(_, client)| client.trouble.is_some() || !self.has_threads(client));
            let Some(e) = over.next().map(|(e, _)| e) else { return };
            drop(over);
            self.adopt_orphans(e);
            if self.clients.get(e).is_some_and(|client| client.trouble.is_none() && self.has_threads(client)) {
                // The known threads have ended, but their adopted children still run.
                continue;
            }
            self.leave(e, now);
            self.settle(None, now);
        }
    }

    /// Returns whether the client, or another client of its promise, has a thread that is served.
    fn has_threads(&self, client: &Client<K>) -> bool {
        client.has_threads() || {
            let mut others = self.clients.iter().filter(|(_, other)| other.tree == client.tree);
            others.any(|(_, other)| other.has_threads())
        }
    }

    /// Restores the threads of a dismissed client. Later scans find its new children. The scans do not hold the
    /// dispatcher, because the agents would wait during a scan of many processes.
    pub(super) fn give_back(&mut self, client: &Client<K>) {
        let groups = client.enclosure.rows();
        if client.members.is_empty() && groups.is_empty() {
            return;
        }
        let goes_on = self.clients.iter().any(|(_, other)| other.tree == client.tree);
        let mut leaders: Vec<Identity> = client.members.iter().map(|member| member.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        let restoring = if goes_on {
            // Other clients of the promise still have threads of these processes, so select single threads.
            let threads: Vec<Identity> = client.members.iter().map(|member| member.identity).collect();
            Restoring::begin(&self.kernel, &self.table, |entry| threads.contains(&entry.thread))
        } else {
            Restoring::begin(&self.kernel, &self.table, |entry| leaders.contains(&entry.leader))
        };
        // A later restoration must not take a change by another process for the confinement.
        let is_back = |thread: &&ThreadRestored| thread.end() != End::Failed;
        restoring
            .threads()
            .iter()
            .filter(is_back)
            .filter_map(|it| it.row)
            .for_each(|row| self.table.set_given_back(row));
        let restoring = restoring.with_groups(&self.table, &groups);
        let rows = client.members.iter().map(|member| member.row).chain(groups).collect();
        let leaving = Leaving { restoring: None, rows, leaders, confined: client.confined };
        self.leaving.add(leaving, restoring, &self.table);
    }

    /// Takes the unfinished restorations of dismissed clients. The caller continues them with [`Restoring::look`]
    /// without holding the dispatcher, and then [returns](Dispatcher::keep_leaving) them.
    pub fn take_leaving(&mut self) -> Vec<(usize, Restoring)> {
        self.leaving.take()
    }

    /// Takes back restorations after a scan. If a restoration is finished, the rows of its threads are removed from the
    /// table, except those of threads that could not be restored. Returns the pause until the next scan, if a scan is
    /// needed.
    pub fn keep_leaving(&mut self, looked_at: impl IntoIterator<Item = (usize, Restoring)>) -> Option<Nanos> {
        self.leaving.keep(looked_at, &self.table)
    }

    /// Returns whether a dismissed client may still have threads inside a fork.
    #[must_use]
    pub fn has_leaving(&self) -> bool {
        self.leaving.iter().next().is_some()
    }

    /// Returns whether process `pid` is an ancestor or descendant of a dismissed client that may still have threads
    /// inside a fork.
    #[must_use]
    pub fn is_leaving(&self, pid: u32) -> bool {
        self.leaving.includes(&self.kernel, pid)
    }

    /// Returns, for each dismissed client with a possible parent of `new`, the CPUs to which its threads were confined.
    pub(super) fn left_behind(&self, new: &Found<K::Thread>) -> impl Iterator<Item = CpuSet> {
        let (leader, parent) = (new.leader, new.parent);
        let began = move |it: &Identity| *it == leader || it.tid == parent;
        let all = self.leaving.iter().filter(move |leaving| leaving.leaders.iter().any(began));
        all.map(|leaving| leaving.confined)
    }
}
