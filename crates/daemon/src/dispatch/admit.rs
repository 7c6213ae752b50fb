//! Admission control: a promise is made only if it can be kept.

use super::Dispatcher;
use super::adopt::{Found, Inherited, Known, find};
use super::client::Client;
use crate::Explanation;
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Full, Original};
use sched::{CpuId, CpuSet, EntityId, Limit, Nanos, Params, Refused, Reservation};
use std::fmt;
use sys::attributes::Attributes;
use sys::thread::{Identity, State};
use trace::Event;

/// The shortest period; in shorter ones the turns would take most of the time.
pub const PERIOD_LEAST: Nanos = Nanos::us(100);
/// The shortest slice.
pub const SLICE_LEAST: Nanos = Nanos::us(10);
/// Longer slices are divided into equal parts of at most this, so that real-time throttling, which counts per second, never
/// sees a CPU occupied for long.
const SLICE_MOST: Nanos = Nanos::ms(100);

/// A request for a promise to a process and its descendants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromiseRequest {
    /// Name of the client in messages.
    pub name: String,
    /// CPU time in every period, summed over its threads and CPUs.
    pub reservation: Reservation,
    /// Number of CPUs used at a time. Range: 1 …; the slice is at most this many periods.
    pub cpus: usize,
    /// The CPUs it may use.
    pub affinity: CpuSet,
}

/// Why a request was refused. A refusal changes nothing.
#[derive(Debug)]
pub enum Refusal {
    /// It is invalid, or does not fit beside the existing promises.
    Promise(Refused),
    /// A period or a slice is too short.
    TooShort {
        /// Which one: the period or the slice.
        what: &'static str,
        /// The requested value.
        asked: Nanos,
        /// The smallest value.
        least: Nanos,
    },
    /// A combination that is not supported.
    Unsupported {
        /// What is wrong.
        reason: &'static str,
        /// The remedy, in the imperative.
        remedy: &'static str,
    },
    /// The process does not exist (any more).
    Gone(u32),
    /// It is a kernel thread.
    KernelThread {
        /// Its pid.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It is a process of Tactus, or an ancestor.
    Ourselves(u32),
    /// It has a promise already.
    Already {
        /// Its pid.
        pid: u32,
        /// The name of the client.
        name: String,
    },
    /// The kernel refuses permission.
    NotPermitted(sys::Error),
    /// There are too many threads.
    Full(Full),
}

impl Refusal {
    /// What is wrong, and the remedy.
    #[must_use]
    pub fn reason(&self) -> Explanation {
        match self {
            Refusal::Promise(refused) => refused.explain(),
            Refusal::TooShort { what, asked, least } => {
                Explanation::new(format!("the {what} is too short ({asked})"), format!("use at least {least}"))
            }
            Refusal::Unsupported { reason, remedy } => Explanation::new(*reason, *remedy),
            Refusal::Gone(pid) => Explanation::new(
                format!("there is no process {pid}; it has ended, or never existed"),
                "use the pid of a running process",
            ),
            Refusal::KernelThread { pid, name } => {
                Explanation::new(format!("process {pid} ({name}) is a kernel thread"), "use a user process")
            }
            Refusal::Ourselves(pid) => {
                Explanation::new(format!("process {pid} is tactus itself, or its ancestor"), "use another process")
            }
            Refusal::Already { pid, name } => Explanation::new(
                format!("process {pid} has a promise already, as {name}"),
                "make one promise per process",
            ),
            Refusal::NotPermitted(error) => Explanation::new(error.reason(), error.remedy().unwrap_or_default()),
            Refusal::Full(full) => Explanation::new(full.to_string(), full.remedy()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl std::error::Error for Refusal {}

impl PromiseRequest {
    /// Checks the request as far as no other promise and no process matters.
    ///
    /// # Errors
    /// It would be refused everywhere.
    pub fn check(&self) -> Result<(), Refusal> {
        self.per_cpu().map(drop)
    }

    /// Its equal part on each CPU.
    #[must_use]
    pub fn share(&self) -> Reservation {
        let cpus = self.cpus.max(1) as u64;
        Reservation { slice: Nanos::ns(self.reservation.slice.as_ns().div_ceil(cpus)), ..self.reservation }
    }

    /// The reservation on each CPU: a long slice is divided into equal parts with equally divided periods.
    pub(super) fn per_cpu(&self) -> Result<Reservation, Refusal> {
        let Reservation { slice, period, .. } = self.reservation;
        let cpus = self.cpus.max(1) as u64;
        if self.reservation.deadline.is_some() {
            return Err(Refusal::Promise(Refused::Unsupported {
                reason: "a deadline before the end of the period is not kept on a real host",
                remedy: "leave the deadline out",
            }));
        }
        if period < PERIOD_LEAST {
            return Err(Refusal::TooShort { what: "period", asked: period, least: PERIOD_LEAST });
        }
        if self.cpus > 1 && self.reservation.limit == Limit::Hard {
            return Err(Refusal::Unsupported {
                reason: "a hard limit stops whole processes, so it cannot be kept on several CPUs",
                remedy: "use one CPU, or a soft limit",
            });
        }
        if slice > period.saturating_mul(cpus) {
            return Err(Refusal::Promise(Refused::SliceAbovePeriod { slice, period: period.saturating_mul(cpus) }));
        }
        let each = self.share().slice;
        if each < SLICE_LEAST {
            return Err(Refusal::TooShort { what: "slice", asked: slice, least: SLICE_LEAST.saturating_mul(cpus) });
        }
        let parts = each.as_ns().div_ceil(SLICE_MOST.as_ns());
        let slice = Nanos::ns(each.as_ns().div_ceil(parts));
        Ok(Reservation { slice, period: Nanos::ns(period.as_ns() / parts), ..self.reservation })
    }

    /// Expresses a refusal of the reservation per CPU in terms of the request.
    fn refused(&self, refused: Refused) -> Refusal {
        match refused {
            Refused::Utilisation { free_ppm, on, .. } if self.cpus == 1 => {
                Refusal::Promise(Refused::Utilisation { asked: self.reservation, free_ppm, on })
            }
            other => Refusal::Promise(other),
        }
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// Makes the promise `request` to process `pid` and its descendants; `ours` are processes that must not be touched. Returns the
    /// client's entities, one per CPU, and the CPUs whose agents are to be called.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn admit(
        &mut self,
        request: &PromiseRequest,
        pid: u32,
        ours: &[u32],
    ) -> Result<(Vec<EntityId>, CpuSet), Refusal> {
        let reservation = request.per_cpu()?;
        let leader = self.examine(pid, ours)?;
        let allowed = self.kernel.affinity(&leader).map_err(refusal)?.and(&request.affinity);
        let tree = self.trees;
        let processes = vec![self.kernel.identity(&leader)];
        let found = find(&self.kernel, &Known { tree, processes, threads: Vec::new(), reported: Vec::new() });
        // A thread with two clients would record one client's changes as the other's originals.
        if let Some((of, name)) = found.iter().find_map(|new| Some((new.leader.tid, self.holder(new.identity)?))) {
            return Err(Refusal::Already { pid: of, name: name.to_string() });
        }
        let entities = self.attach(request, reservation, allowed, tree)?;
        self.trees += 1;
        // Raising is tried only after the originals are recorded.
        let answer = self.adopt_all(tree, found, Inherited::Nothing).and_then(|()| self.try_raise(&leader));
        if let Err(refused) = answer {
            let now = self.now();
            entities.iter().for_each(|&e| self.leave(e, now));
            self.left.retain(|left| !entities.contains(&left.entity));
            self.settle(None, now);
            return Err(refused);
        }
        self.begin(&entities);
        Ok((entities, self.take_calls()))
    }

    /// Checks whether process `pid` may become a client.
    fn examine(&self, pid: u32, ours: &[u32]) -> Result<K::Thread, Refusal> {
        if ours.contains(&pid) {
            return Err(Refusal::Ourselves(pid));
        }
        let leader = self.kernel.open(pid).map_err(refusal)?;
        let status = self.kernel.status(&leader).map_err(refusal)?;
        if status.is_kernel {
            return Err(Refusal::KernelThread { pid, name: status.name });
        }
        if status.state == State::Dead {
            return Err(Refusal::Gone(pid));
        }
        let process = self.kernel.process(&leader).map_err(refusal)?;
        if process != pid {
            return Err(Refusal::Unsupported {
                reason: "the number is that of a thread, not of a process",
                remedy: "use the pid of its process",
            });
        }
        match self.holder(self.kernel.identity(&leader)) {
            Some(name) => Err(Refusal::Already { pid, name: name.to_string() }),
            None => Ok(leader),
        }
    }

    /// The name of the client that thread `identity` belongs to.
    fn holder(&self, identity: Identity) -> Option<&str> {
        let mut all = self.clients.iter().map(|(_, client)| client);
        all.find(|client| client.members.iter().any(|it| it.identity == identity)).map(|client| client.name.as_str())
    }

    /// Attaches one entity per CPU to the machine.
    fn attach(
        &mut self,
        request: &PromiseRequest,
        reservation: Reservation,
        allowed: CpuSet,
        tree: usize,
    ) -> Result<Vec<EntityId>, Refusal> {
        let now = self.now();
        let mut entities: Vec<EntityId> = Vec::with_capacity(request.cpus);
        let mut free = allowed;
        for nth in 0..request.cpus.max(1) {
            let params = Params { reservation: Some(reservation), affinity: free, ..Params::default() };
            let attached = self.machine.attach(now, params);
            let e = match attached {
                Ok(e) => e,
                Err(refused) => {
                    entities.iter().for_each(|&e| self.leave(e, now));
                    self.left.retain(|left| !entities.contains(&left.entity));
                    return Err(request.refused(refused));
                }
            };
            let cpu = self.machine.allowed(e).first().unwrap_or(CpuId::new(0));
            free.remove(cpu);
            let name = if request.cpus > 1 { format!("{}/{nth}", request.name) } else { request.name.clone() };
            self.journal.note(now, Event::Attach { entity: e, name: name.clone(), params: Box::new(params) });
            self.clients.insert(e, Client::new(name, tree, cpu, reservation));
            entities.push(e);
        }
        Ok(entities)
    }

    /// Raises a thread and lowers it again, to check the permission before a promise is made.
    fn try_raise(&self, leader: &K::Thread) -> Result<(), Refusal> {
        let before = self.kernel.attributes(leader).map_err(refusal)?;
        self.kernel.schedule(leader, Attributes::raised(priority::AMONG_OTHERS)).map_err(refusal)?;
        self.kernel.schedule(leader, before).map_err(refusal)
    }

    /// Starts to serve the entities: a client with a runnable thread wakes up, any other is awaited.
    fn begin(&mut self, entities: &[EntityId]) {
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

    /// Adopts new threads and processes of a tree. Returns the CPUs whose agents are to be called.
    ///
    /// # Errors
    /// The kernel refuses permission, or there are too many threads; threads adopted before that stay adopted.
    pub fn adopt(&mut self, tree: usize, found: Vec<Found<K::Thread>>) -> Result<CpuSet, Refusal> {
        self.adopt_all(tree, found, Inherited::FromBeginner)?;
        Ok(self.take_calls())
    }

    pub(super) fn adopt_all(
        &mut self,
        tree: usize,
        found: Vec<Found<K::Thread>>,
        inherited: Inherited,
    ) -> Result<(), Refusal> {
        let mut refused = None;
        for new in found {
            // It may have been adopted since it was found, or belong to another client.
            if self.holder(new.identity).is_some() {
                continue;
            }
            let entities = self.clients.iter().filter(|(_, client)| client.tree == tree);
            let Some((e, _)) = entities.min_by_key(|(_, client)| client.members.len()) else { break };
            if let Some(original) = self.original(e, &new, inherited) {
                // A refused thread does not keep the others out.
                let answer = self.adopt_thread(e, new, original);
                refused = refused.or(answer.err());
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn adopt_thread(&mut self, e: EntityId, new: Found<K::Thread>, original: Original) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(e) else { return Ok(()) };
        let confined = CpuSet::one(client.cpu);
        // A child of a raised thread has lost its own class. The class is set again before the thread is recorded: restoring could
        // not tell the lost class from a value that another process has set.
        match self.kernel.attributes(&new.thread) {
            Ok(found) if found != original.attributes => {
                self.kernel.schedule(&new.thread, original.attributes).or_else(unless_gone)?;
            }
            _ => {}
        }
        let entry = Entry { thread: new.identity, leader: new.leader, original, confined };
        let row = self.table.record(&entry).map_err(Refusal::Full)?;
        match self.kernel.set_affinity(&new.thread, &confined) {
            Ok(()) => {}
            Err(sys::Error::Gone(_)) => {
                self.table.forget(row);
                return Ok(());
            }
            Err(refused) => {
                self.table.forget(row);
                return Err(refusal(refused));
            }
        }
        let (identity, leader) = (new.identity, new.leader);
        let had = match self.kernel.usage(&new.thread) {
            Ok(had) => Some(had),
            Err(sys::Error::Gone(_)) => None,
            Err(refused) => {
                // It belongs to its client all the same, and is restored with the other threads.
                client.add(new, original, row, None);
                return Err(refusal(refused));
            }
        };
        client.add(new, original, row, had);
        // If it is runnable, only its agent can find out that its client is not blocked any more.
        self.call.insert(client.cpu);
        // From here on it is treated like its siblings.
        client.set_level_of_last(&self.kernel);
        if client.stopped && identity == leader {
            client.set_stopped(true, &self.kernel, &self.table);
        }
        if client.awaited {
            client.set_awaited_of_last(&self.kernel);
        }
        Ok(())
    }
}

/// An ended thread is no error.
fn unless_gone(error: sys::Error) -> Result<(), Refusal> {
    match error {
        sys::Error::Gone(_) => Ok(()),
        other => Err(refusal(other)),
    }
}

fn refusal(error: sys::Error) -> Refusal {
    match error {
        sys::Error::Gone(tid) => Refusal::Gone(tid),
        other => Refusal::NotPermitted(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(slice: Nanos, period: Nanos, cpus: usize, limit: Limit) -> PromiseRequest {
        let reservation = Reservation { limit, ..Reservation::new(slice, period) };
        PromiseRequest { name: "a".to_string(), reservation, cpus, affinity: CpuSet::ALL }
    }

    fn reservation(slice: Nanos, period: Nanos, cpus: usize) -> (Nanos, Nanos) {
        let reservation = request(slice, period, cpus, Limit::Soft).per_cpu().unwrap();
        (reservation.slice, reservation.period)
    }

    #[test]
    fn long_slices_are_dealt_in_equal_parts_and_none_is_lost() {
        assert_eq!(reservation(Nanos::ms(2), Nanos::ms(10), 1), (Nanos::ms(2), Nanos::ms(10)));
        assert_eq!(reservation(Nanos::ms(100), Nanos::s(1), 1), (Nanos::ms(100), Nanos::s(1)));
        assert_eq!(reservation(Nanos::s(60), Nanos::s(600), 1), (Nanos::ms(100), Nanos::s(1)));
        // A day and a half in three days.
        let day = Nanos::s(86_400);
        assert_eq!(reservation(day + Nanos::s(43_200), day.saturating_mul(3), 2), (Nanos::ms(100), Nanos::ms(400)));
        for slice in [Nanos::ns(100_000_001), Nanos::ms(333), Nanos::s(7) + Nanos::ns(1)] {
            let period = slice.saturating_mul(3) + Nanos::ns(17);
            let (part, every) = reservation(slice, period, 1);
            let parts = period.as_ns() / every.as_ns();
            assert!(
                part <= SLICE_MOST && part.saturating_mul(parts) >= slice,
                "{slice} every {period}: {part} every {every}"
            );
        }
    }

    #[test]
    fn an_impossible_request_is_refused_with_a_remedy() {
        let refused = |request: PromiseRequest| request.per_cpu().unwrap_err().to_string();
        let (soft, hard) = (Limit::Soft, Limit::Hard);
        let short = refused(request(Nanos::us(9), Nanos::ms(1), 1, soft));
        assert_eq!(short, "the slice is too short (9us); use at least 10us");
        let short = refused(request(Nanos::us(9), Nanos::us(99), 1, soft));
        assert_eq!(short, "the period is too short (99us); use at least 100us");
        let much = refused(request(Nanos::ms(21), Nanos::ms(10), 2, soft));
        assert_eq!(much, "slice (21ms) is longer than the period (20ms); use at most 20ms");
        let several = refused(request(Nanos::ms(2), Nanos::ms(10), 2, hard));
        assert!(several.ends_with("; use one CPU, or a soft limit"), "{several}");
        let mut early = request(Nanos::ms(2), Nanos::ms(10), 1, soft);
        assert!(early.check().is_ok());
        early.reservation.deadline = Some(Nanos::ms(5));
        assert!(early.check().unwrap_err().to_string().ends_with("; leave the deadline out"));
    }
}
