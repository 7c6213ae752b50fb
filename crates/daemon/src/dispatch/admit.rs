//! Who asks for what, and what it is told: promises are made only where they can be kept.

use super::Dispatcher;
use super::adopt::{Found, Inherited, Known, find};
use super::client::Client;
use crate::Reason;
use crate::kernel::{Kernel, priority};
use crate::table::{Entry, Full, Original};
use sched::{CpuId, CpuSet, EntityId, Limit, Nanos, Params, Refused, Reservation};
use std::fmt;
use sys::attributes::Attributes;
use sys::thread::{Identity, State};
use trace::Event;

/// The shortest period: below it, turns take more time than they give.
pub const PERIOD_LEAST: Nanos = Nanos::us(100);
/// The shortest slice.
pub const SLICE_LEAST: Nanos = Nanos::us(10);
/// Longer slices are dealt in equal parts of at most this, so that real-time throttling, which counts by the second, never
/// finds a CPU taken for long.
const PART_MOST: Nanos = Nanos::ms(100);

/// What is asked for a process and all that it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// What people call it.
    pub name: String,
    /// CPU time in every period, summed over its threads and CPUs.
    pub reservation: Reservation,
    /// On how many CPUs at a time. Range: 1 …; its slice is at most so many periods.
    pub cpus: usize,
    /// On which.
    pub affinity: CpuSet,
}

/// Why a wish was refused; nothing has changed.
#[derive(Debug)]
pub enum Refusal {
    /// It makes no sense, or does not fit beside what is promised already.
    Promise(Refused),
    /// A period or a slice too short to be kept.
    TooShort {
        /// Which: the period or the slice.
        what: &'static str,
        /// What was asked.
        asked: Nanos,
        /// The least.
        least: Nanos,
    },
    /// Something that does not go together; what would be right is in the text.
    Unsupported(&'static str),
    /// There is no such process (any more).
    Gone(u32),
    /// It is a thread of the kernel's.
    KernelThread {
        /// Which.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It is one of our own, or one that began us.
    Ourselves(u32),
    /// It has been promised something already.
    Already {
        /// Which.
        pid: u32,
        /// As what.
        name: String,
    },
    /// The kernel does not let us.
    NotPermitted(sys::Error),
    /// There are too many threads.
    Full(Full),
}

impl Refusal {
    /// Why, and what would be right.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let split = |text: String| match text.split_once("; right would be ") {
            Some((why, right)) => Reason::new(why, format!("right would be {right}")),
            None => Reason::new(text, ""),
        };
        match self {
            Refusal::Promise(refused) => {
                let explanation = refused.explain();
                Reason::new(explanation.reason, explanation.remedy)
            }
            Refusal::TooShort { what, asked, least } => {
                Reason::new(format!("the {what} is too short ({asked})"), format!("right would be at least {least}"))
            }
            Refusal::Unsupported(text) => split((*text).to_string()),
            Refusal::Gone(pid) => Reason::new(
                format!("there is no process {pid}; it has ended, or never was"),
                "right would be the pid of a process that runs",
            ),
            Refusal::KernelThread { pid, name } => Reason::new(
                format!("process {pid} ({name}) is a thread of the kernel's"),
                "right would be a process of a user's",
            ),
            Refusal::Ourselves(pid) => Reason::new(
                format!("process {pid} is this one, or one that began it"),
                "right would be another process",
            ),
            Refusal::Already { pid, name } => Reason::new(
                format!("process {pid} has been promised something already, as {name}"),
                "right would be one promise for a process",
            ),
            Refusal::NotPermitted(error) => {
                let remedy = error.remedy().map(|right| format!("right would be {right}"));
                Reason::new(error.reason(), remedy.unwrap_or_default())
            }
            Refusal::Full(full) => split(full.to_string()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason { why, remedy } = self.reason();
        f.write_str(&why)?;
        if remedy.is_empty() { Ok(()) } else { write!(f, "; {remedy}") }
    }
}

impl std::error::Error for Refusal {}

impl Wish {
    /// What the machine is asked for, for each of its CPUs: of a long slice, equal parts of a part of the period.
    pub(super) fn deal(&self) -> Result<Reservation, Refusal> {
        let Reservation { slice, period, .. } = self.reservation;
        let cpus = self.cpus.max(1) as u64;
        if period < PERIOD_LEAST {
            return Err(Refusal::TooShort { what: "period", asked: period, least: PERIOD_LEAST });
        }
        if self.cpus > 1 && self.reservation.limit == Limit::Hard {
            return Err(Refusal::Unsupported(
                "a hard limit stops whole processes, so it cannot be kept on several CPUs; right would be one CPU, or soft",
            ));
        }
        if slice > period.saturating_mul(cpus) {
            return Err(Refusal::Promise(Refused::SliceAbovePeriod { slice, period: period.saturating_mul(cpus) }));
        }
        let each = Nanos::ns(slice.as_ns().div_ceil(cpus));
        if each < SLICE_LEAST {
            return Err(Refusal::TooShort { what: "slice", asked: slice, least: SLICE_LEAST.saturating_mul(cpus) });
        }
        let parts = each.as_ns().div_ceil(PART_MOST.as_ns());
        let slice = Nanos::ns(each.as_ns().div_ceil(parts));
        Ok(Reservation { slice, period: Nanos::ns(period.as_ns() / parts), deadline: None, ..self.reservation })
    }

    /// A refusal of what was dealt, as one of what was asked.
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
    /// Promises what `wish` asks for to process `pid` and all that it begins; `ours` are processes that nothing is done to.
    /// Says which entities it is from now on, one for each CPU, and whose agents are to be called.
    ///
    /// # Errors
    /// It is refused; nothing has changed.
    pub fn admit(&mut self, wish: &Wish, pid: u32, ours: &[u32]) -> Result<(Vec<EntityId>, CpuSet), Refusal> {
        let dealt = wish.deal()?;
        let leader = self.examine(pid, ours)?;
        let allowed = self.kernel.affinity(&leader).map_err(refusal)?.and(&wish.affinity);
        let tree = self.trees;
        let processes = vec![self.kernel.identity(&leader)];
        let found = find(&self.kernel, &Known { tree, processes, threads: Vec::new(), told: Vec::new() });
        // What is somebody else's already has two masters otherwise, of whom one takes the other's doing for what it was.
        if let Some((of, name)) = found.iter().find_map(|new| Some((new.leader.tid, self.holder(new.identity)?))) {
            return Err(Refusal::Already { pid: of, name: name.to_string() });
        }
        let lanes = self.attach(wish, dealt, allowed, tree)?;
        self.trees += 1;
        // It is tried once it is written down what they were.
        let answer = self.take_all(tree, found, Inherited::Nothing).and_then(|()| self.try_raise(&leader));
        if let Err(refused) = answer {
            let now = self.now();
            lanes.iter().for_each(|&e| self.leave(e, now));
            self.left.retain(|left| !lanes.contains(&left.entity));
            self.settle(None, now);
            return Err(refused);
        }
        self.begin(&lanes);
        Ok((lanes, self.take_calls()))
    }

    /// Whether something may be done to process `pid`.
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
            return Err(Refusal::Unsupported("that is a thread, not a process; right would be the pid of its process"));
        }
        match self.holder(self.kernel.identity(&leader)) {
            Some(name) => Err(Refusal::Already { pid, name: name.to_string() }),
            None => Ok(leader),
        }
    }

    /// What the client is called that thread `identity` belongs to.
    fn holder(&self, identity: Identity) -> Option<&str> {
        let mut all = self.clients.iter().map(|(_, client)| client);
        all.find(|client| client.members.iter().any(|it| it.identity == identity)).map(|client| client.name.as_str())
    }

    /// The promises themselves, each on a CPU of its own.
    fn attach(
        &mut self,
        wish: &Wish,
        dealt: Reservation,
        allowed: CpuSet,
        tree: usize,
    ) -> Result<Vec<EntityId>, Refusal> {
        let now = self.now();
        let mut lanes: Vec<EntityId> = Vec::with_capacity(wish.cpus);
        let mut free = allowed;
        for lane in 0..wish.cpus.max(1) {
            let params = Params { reservation: Some(dealt), affinity: free, ..Params::default() };
            let attached = self.machine.attach(now, params);
            let e = match attached {
                Ok(e) => e,
                Err(refused) => {
                    lanes.iter().for_each(|&e| self.leave(e, now));
                    self.left.retain(|left| !lanes.contains(&left.entity));
                    return Err(wish.refused(refused));
                }
            };
            let cpu = self.machine.allowed(e).first().unwrap_or(CpuId::new(0));
            free.remove(cpu);
            let name = if wish.cpus > 1 { format!("{}/{lane}", wish.name) } else { wish.name.clone() };
            self.journal.note(now, Event::Attach { entity: e, name: name.clone(), params: Box::new(params) });
            self.clients.insert(e, Client::new(name, tree, cpu, dealt));
            lanes.push(e);
        }
        Ok(lanes)
    }

    /// Raises a thread and lowers it again: whether we may is found out before anything is promised.
    fn try_raise(&self, leader: &K::Thread) -> Result<(), Refusal> {
        let before = self.kernel.attributes(leader).map_err(refusal)?;
        self.kernel.schedule(leader, Attributes::raised(priority::AMONG_OTHERS)).map_err(refusal)?;
        self.kernel.schedule(leader, before).map_err(refusal)
    }

    /// What they want from here on is the machine's business. Who does nothing now is waited for.
    fn begin(&mut self, lanes: &[EntityId]) {
        let now = self.now();
        for &e in lanes {
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

    /// Takes in what was found of a tree of processes. Says whose agents are to be called.
    ///
    /// # Errors
    /// The kernel does not let us, or there are too many threads; what was taken in before stays so.
    pub fn adopt(&mut self, tree: usize, found: Vec<Found<K::Thread>>) -> Result<CpuSet, Refusal> {
        self.take_all(tree, found, Inherited::FromBeginner)?;
        Ok(self.take_calls())
    }

    pub(super) fn take_all(
        &mut self,
        tree: usize,
        found: Vec<Found<K::Thread>>,
        inherited: Inherited,
    ) -> Result<(), Refusal> {
        let mut refused = None;
        for new in found {
            // It may have been taken in since it was found, or belong to another promise.
            if self.holder(new.identity).is_some() {
                continue;
            }
            let lanes = self.clients.iter().filter(|(_, client)| client.tree == tree);
            let Some((e, _)) = lanes.min_by_key(|(_, client)| client.members.len()) else { break };
            if let Some(original) = self.original(e, &new, inherited) {
                // One that cannot be had keeps none of the others out.
                let answer = self.take_in(e, new, original);
                refused = refused.or(answer.err());
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn take_in(&mut self, e: EntityId, new: Found<K::Thread>, original: Original) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(e) else { return Ok(()) };
        let confined = CpuSet::one(client.cpu);
        // Begun by a raised thread it has lost its own class. It is given that back before it is written down: whoever
        // restores could not tell that from what somebody else has set.
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
                // It is its client's all the same, to be given back with the others.
                client.add(new, original, row, None);
                return Err(refusal(refused));
            }
        };
        client.add(new, original, row, had);
        // If it wants to run, nobody but its agent finds out that its client does not sleep any more.
        self.call.insert(client.cpu);
        // From here on it is like its siblings.
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

/// Who has ended needs nothing.
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

    fn wish(slice: Nanos, period: Nanos, cpus: usize, limit: Limit) -> Wish {
        let reservation = Reservation { limit, ..Reservation::new(slice, period) };
        Wish { name: "a".to_string(), reservation, cpus, affinity: CpuSet::ALL }
    }

    fn dealt(slice: Nanos, period: Nanos, cpus: usize) -> (Nanos, Nanos) {
        let dealt = wish(slice, period, cpus, Limit::Soft).deal().unwrap();
        (dealt.slice, dealt.period)
    }

    #[test]
    fn long_slices_are_dealt_in_equal_parts_and_none_is_lost() {
        assert_eq!(dealt(Nanos::ms(2), Nanos::ms(10), 1), (Nanos::ms(2), Nanos::ms(10)));
        assert_eq!(dealt(Nanos::ms(100), Nanos::s(1), 1), (Nanos::ms(100), Nanos::s(1)));
        assert_eq!(dealt(Nanos::s(60), Nanos::s(600), 1), (Nanos::ms(100), Nanos::s(1)));
        // A day and a half in three.
        let day = Nanos::s(86_400);
        assert_eq!(dealt(day + Nanos::s(43_200), day.saturating_mul(3), 2), (Nanos::ms(100), Nanos::ms(400)));
        for slice in [Nanos::ns(100_000_001), Nanos::ms(333), Nanos::s(7) + Nanos::ns(1)] {
            let period = slice.saturating_mul(3) + Nanos::ns(17);
            let (part, every) = dealt(slice, period, 1);
            let parts = period.as_ns() / every.as_ns();
            assert!(
                part <= PART_MOST && part.saturating_mul(parts) >= slice,
                "{slice} every {period}: {part} every {every}"
            );
        }
    }

    #[test]
    fn what_cannot_be_dealt_says_what_would_be_right() {
        let refused = |wish: Wish| wish.deal().unwrap_err().to_string();
        let (soft, hard) = (Limit::Soft, Limit::Hard);
        let short = refused(wish(Nanos::us(9), Nanos::ms(1), 1, soft));
        assert_eq!(short, "the slice is too short (9us); right would be at least 10us");
        let short = refused(wish(Nanos::us(9), Nanos::us(99), 1, soft));
        assert_eq!(short, "the period is too short (99us); right would be at least 100us");
        let much = refused(wish(Nanos::ms(21), Nanos::ms(10), 2, soft));
        assert_eq!(much, "slice (21ms) is longer than the period (20ms); use at most 20ms");
        let several = refused(wish(Nanos::ms(2), Nanos::ms(10), 2, hard));
        assert!(several.ends_with("right would be one CPU, or soft"), "{several}");
    }
}
