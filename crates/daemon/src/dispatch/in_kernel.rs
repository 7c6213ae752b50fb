//! Dispatch in the kernel: while a scheduler for promises is loaded there (sched_ext), it dispatches the clients, and the agents
//! do not.
//!
//! The machine goes on admitting the promises and placing the clients. A client that the kernel dispatches counts as blocked in the
//! machine, so it has no turns, and its threads stay at their original level. Its affinity and its rows in the table are as
//! before. If the scheduler in the kernel ends, the agents dispatch again at once.
//!
//! The kernel dispatches all clients of a CPU or none of them: threads that agents raise precede all others, whatever their
//! deadlines. It dispatches all clients of a gang or none of them, because their periods begin together.
//!
//! The caller carries out the [orders](Dispatcher::kernel_orders). They follow from what was ordered before and what is in force
//! now, so no change of a promise needs to know of them.

use super::client::Client;
use super::dispatcher::Dispatcher;
use super::ordered::{InKernel, Ordered};
use super::role::Role;
use super::turn::PERIODS_TOLD_MOST;
use crate::kernel::Kernel;
use orders::{MEMBERS_MAX, Order, PERIOD_MAX};
use sched::{CpuId, CpuSet, EntityId, GroupId, Input, Instant, Nanos, State};
use std::collections::{BTreeMap, BTreeSet};

/// Periods that the scheduler in the kernel has ended, all with the same result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelPeriods {
    /// Number of the promise in the orders.
    pub promise: i32,
    /// CPU time that was due in each.
    pub due: Nanos,
    /// CPU time that was delivered in each.
    pub delivered: Nanos,
    /// Whether the client was runnable throughout.
    pub throughout: bool,
    /// Number of the periods.
    pub count: u64,
}

impl<K: Kernel> Client<K> {
    /// Returns whether the kernel can dispatch the client.
    fn suits_kernel(&self) -> bool {
        let served = self.members.iter().filter(|member| member.is_served()).count();
        served <= MEMBERS_MAX && self.reservation.period <= PERIOD_MAX
    }

    /// Returns the members of the promise in the kernel: the tids, and whether the threads are helpers.
    fn members_in_kernel(&self) -> impl Iterator<Item = (u32, bool)> {
        let has_helpers = self.has_helpers();
        let served = self.members.iter().filter(|member| member.is_served());
        served.map(move |member| (member.identity.tid, has_helpers && member.role == Role::Other))
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// Notes that the scheduler in the kernel is loaded, without promises.
    pub fn begin_in_kernel(&mut self) {
        self.in_kernel.is_loaded = true;
    }

    /// Notes that the scheduler in the kernel has ended. The agents dispatch all clients from now on. Returns the CPUs whose
    /// agents must be woken.
    pub fn end_in_kernel(&mut self) -> CpuSet {
        self.in_kernel.is_loaded = false;
        let (_, call) = self.kernel_orders();
        call
    }

    /// Returns the orders for the scheduler in the kernel since the last call. Clients change over to the kernel, or back to
    /// their agents, in this call. Also returns the CPUs whose agents must be woken.
    pub fn kernel_orders(&mut self) -> (Vec<Order>, CpuSet) {
        let now = self.now();
        let wanted = if self.in_kernel.is_loaded { self.suited_cpus() } else { CpuSet::EMPTY };
        for cpu in (0..self.machine.topology().cpus).map(CpuId::new) {
            let is_wanted = wanted.contains(cpu);
            for at in 0..self.clients.count_on(cpu) {
                let Some((e, client)) = self.clients.nth_on(cpu, at) else { continue };
                match (client.is_in_kernel, is_wanted) {
                    (false, true) => self.hand_over(e, now),
                    (true, false) => self.take_back(e),
                    _ => {}
                }
                self.order(e);
            }
        }
        // A thread leaves one part of a promise before it joins another, on whatever CPUs they are, and a gang changes before a
        // promise begins in it.
        let mut orders = std::mem::take(&mut self.in_kernel.orders);
        orders.sort_by_key(|order| match order {
            Order::End { .. } | Order::Leave { .. } => 0,
            Order::Change { .. } => 1,
            Order::Begin { .. } | Order::Join { .. } => 2,
        });
        (if self.in_kernel.is_loaded { orders } else { Vec::new() }, self.take_calls())
    }

    /// Returns the CPUs whose clients the kernel can dispatch.
    fn suited_cpus(&self) -> CpuSet {
        let cpus = (0..self.machine.topology().cpus).map(CpuId::new);
        let suits = |cpu: &CpuId| self.clients.iter_on(*cpu).all(|(_, client)| client.suits_kernel());
        let mut suited: CpuSet = cpus.filter(suits).collect();
        loop {
            // A gang with a client on another CPU.
            let out: BTreeSet<GroupId> = {
                let others = self.clients.iter().filter(|(_, client)| !suited.contains(client.cpu));
                others.filter_map(|(_, client)| client.gang).collect()
            };
            let is_out = |client: &Client<K>| client.gang.is_some_and(|gang| out.contains(&gang));
            let mut has_changed = false;
            for (_, client) in self.clients.iter().filter(|(_, client)| is_out(client)) {
                has_changed |= suited.remove(client.cpu);
            }
            if !has_changed {
                return suited;
            }
        }
    }

    /// Detects threads of clients in the kernel that have ended, which no agent does. Returns the CPUs whose agents must be woken.
    pub fn look_in_kernel(&mut self) -> CpuSet {
        let now = self.now();
        for cpu in (0..self.machine.topology().cpus).map(CpuId::new) {
            let mut has_some = false;
            for at in 0..self.clients.count_on(cpu) {
                let Some((e, client)) = self.clients.nth_on(cpu, at) else { continue };
                if client.is_in_kernel {
                    self.charge_until_now(e, now);
                    has_some = true;
                }
            }
            if has_some {
                self.follow_moved(cpu, now);
                self.dismiss_troubled(cpu, now);
            }
        }
        self.take_calls()
    }

    /// Notes periods of a promise in the kernel.
    pub fn note_in_kernel(&mut self, periods: KernelPeriods) {
        let KernelPeriods { promise, due, delivered, throughout, count } = periods;
        let now = self.now();
        let is_it = |client: &Client<K>| client.ordered.as_ref().is_some_and(|ordered| ordered.promise == promise);
        let Some(e) = self.clients.iter().find(|(_, client)| is_it(client)).map(|(e, _)| e) else { return };
        for _ in 0..count.min(PERIODS_TOLD_MOST) {
            self.judge(e, due, delivered, throughout, now);
        }
    }

    /// Returns whether the kernel dispatches client `e`.
    #[must_use]
    pub fn is_in_kernel(&self, e: EntityId) -> bool {
        self.clients.get(e).is_some_and(|client| client.is_in_kernel)
    }

    /// Returns the clients that the kernel dispatches.
    #[must_use]
    pub fn in_kernel(&self) -> Vec<EntityId> {
        self.clients.iter().filter(|(_, client)| client.is_in_kernel).map(|(e, _)| e).collect()
    }

    /// The kernel dispatches `e` from now on.
    fn hand_over(&mut self, e: EntityId, now: Instant) {
        let Some(client) = self.clients.get(e) else { return };
        match self.state_of(e, client) {
            State::Running(cpu) => {
                self.charge_until_now(e, now);
                self.block(cpu, now);
            }
            State::Waiting => self.input(now, Input::Pause { entity: e }),
            State::Blocked => {}
        }
        let Some(client) = self.clients.get_mut(e) else { return };
        client.end_timer(&self.kernel);
        client.unpark_all(&self.kernel, &self.table);
        (client.is_blocked, client.is_in_kernel, client.ledger) = (true, true, None);
        let cpu = client.cpu;
        self.settle(None, now);
        self.apply(cpu, now);
        self.call.insert(cpu);
    }

    /// The agent of the CPU dispatches `e` from now on.
    fn take_back(&mut self, e: EntityId) {
        let Some(client) = self.clients.get_mut(e) else { return };
        client.is_in_kernel = false;
        let ordered = client.ordered.take();
        self.in_kernel.leave(ordered);
        self.begin(&[e]);
    }

    /// Orders what makes the promise to `e` in the kernel the one in force.
    fn order(&mut self, e: EntityId) {
        let is_suspended = self.suspended;
        let InKernel { promises, orders, .. } = &mut self.in_kernel;
        let Some(client) = self.clients.get_mut(e) else { return };
        let is_wanted = client.is_in_kernel && !is_suspended && client.trouble.is_none();
        let (cpu, reservation, gang) = (client.cpu, client.reservation, client.gang);
        if let Some(ordered) = client.ordered.take_if(|ordered| !is_wanted || ordered.cpu != cpu) {
            orders.push(Order::End { promise: ordered.promise });
        }
        if !is_wanted {
            return;
        }
        let has_all = |ordered: &Ordered| {
            let is_known = |(tid, is_helper): (u32, bool)| ordered.members.get(&tid) == Some(&is_helper);
            client.members_in_kernel().all(is_known) && client.members_in_kernel().count() == ordered.members.len()
        };
        let is_same = |ordered: &Ordered| ordered.reservation == reservation && ordered.gang == gang;
        if client.ordered.as_ref().is_some_and(|ordered| is_same(ordered) && has_all(ordered)) {
            return;
        }
        let number = gang.and_then(|gang| u32::try_from(gang.index()).ok());
        let members: BTreeMap<u32, bool> = client.members_in_kernel().collect();
        let ordered = client.ordered.get_or_insert_with(|| {
            *promises += 1;
            orders.push(Order::begin(*promises, cpu, reservation, number));
            Ordered { promise: *promises, cpu, reservation, gang, members: BTreeMap::new() }
        });
        let promise = ordered.promise;
        if !is_same(ordered) {
            let (slice_ns, period_ns) = (reservation.slice.as_ns(), reservation.period.as_ns());
            orders.push(Order::Change { promise, slice_ns, period_ns, gang: number });
            (ordered.reservation, ordered.gang) = (reservation, gang);
        }
        let stays = |(tid, is_helper): &(&u32, &bool)| members.get(tid) == Some(is_helper);
        let left = ordered.members.iter().filter(|it| !stays(it));
        orders.extend(left.map(|(&tid, _)| Order::Leave { tid }));
        let new = members.iter().filter(|(tid, is_helper)| ordered.members.get(tid) != Some(is_helper));
        orders.extend(new.map(|(&tid, &is_helper)| Order::Join { promise, tid, is_helper }));
        ordered.members = members;
    }
}
