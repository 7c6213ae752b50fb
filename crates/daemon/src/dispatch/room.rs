//! [`NoRoom`]: the refusal of a promise that does not fit beside the existing promises. The refusal names the nearest
//! promises that fit, and what else would make room.

use super::request::{KeptBy, PERIOD_LONGEST, PromiseRequest, SLICE_LEAST};
use super::withheld::Withheld;
use crate::Explanation;
use crate::interfering::InterferingThread;
use sched::{
    CpuId, CpuSet, Descriptor, EntityId, GroupId, GroupParams, Instant, Kicks, Knobs, Machine, Nanos, Params, Refused,
    Reservation, Topology,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of existing promises that a message names.
const NAMED_MOST: usize = 4;

/// An existing promise on a CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldPromise {
    /// Name of the client.
    pub name: String,
    /// Number of the promise. The clients of a promise on several CPUs share this number.
    pub promise: usize,
    /// CPU of the client. `None`: the kernel runs the client on any CPU.
    pub cpu: Option<CpuId>,
    /// Reservation of the client on this CPU.
    pub reservation: Reservation,
    /// Gang of the client.
    pub gang: Option<GroupId>,
}

impl HeldPromise {
    /// Returns the CPUs that count as promised.
    fn on(&self) -> CpuSet {
        self.cpu.map_or(CpuSet::ALL, CpuSet::one)
    }
}

/// The promises when a request was refused. Admission on a machine with the same promises finds the alternatives, so
/// the alternatives are exact. They are computed on demand: the dispatcher must not wait for them.
#[derive(Clone, Serialize, Deserialize)]
pub struct NoRoom {
    pub(super) request: PromiseRequest,
    /// Existing gang that the request joins.
    pub(super) gang: Option<GroupId>,
    /// CPUs that the process may use by its own affinity.
    pub(super) own: CpuSet,
    /// Share of a CPU that one more client could reserve, and the CPU. Unit: parts per million.
    pub(super) free: (u64, Option<CpuId>),
    pub(super) held: Vec<HeldPromise>,
    /// Threads that run above all clients.
    pub(super) interfering: Vec<InterferingThread>,
    pub(super) cpus: usize,
    /// Policy that has refused the request, with its knobs. Not part of messages: see [`NoRoom::under`].
    #[serde(skip)]
    pub(super) policy: Option<(Descriptor, Knobs)>,
}

impl fmt::Debug for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoRoom").field("request", &self.request).field("held", &self.held).finish_non_exhaustive()
    }
}

/// Changes that each make room for the request. `None`: no such change makes room.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Alternatives {
    /// The longest slice that fits in the requested period. One nanosecond more does not fit.
    pub slice: Option<Nanos>,
    /// The shortest period, above the requested period, in which the requested slice fits. One nanosecond less does not
    /// fit.
    pub period: Option<Nanos>,
    /// The smallest number of CPUs, above the requested number, on which the request fits.
    pub cpus: Option<usize>,
    /// CPUs outside the requested affinity that have room for the request.
    pub affinity: Option<CpuSet>,
    /// Names of existing promises. The end of any one of them makes room.
    pub ends: Vec<String>,
    /// Threads that run above all clients. The end of any one of them makes room.
    pub threads: Vec<InterferingThread>,
}

/// A machine with the existing promises, on which requests are tried.
struct Trial {
    machine: Machine,
    /// The entities of the existing promises, in their order; `None`: the promise has ended.
    held: Vec<Option<EntityId>>,
    /// CPU and period of each existing promise.
    periods: Vec<(Option<CpuId>, Nanos)>,
    withheld: Withheld,
    /// Gangs of the existing promises, and their copies in this machine.
    gangs: BTreeMap<GroupId, GroupId>,
    /// Copy of the gang that requests join.
    joined: Option<GroupId>,
}

impl Trial {
    /// Returns the machine; `None` if the policy is unknown, or refuses the knobs, which it accepted before.
    fn new(room: &NoRoom) -> Option<Trial> {
        let (policy, knobs) = room.policy.as_ref()?;
        let machine = Machine::build(policy, Topology::new(room.cpus), knobs, Kicks::Delivered).ok()?;
        let periods = room.held.iter().map(|held| (held.cpu, held.reservation.period)).collect();
        let withheld = Withheld::new(room.interfering.clone());
        let (held, gangs, joined) = (Vec::new(), BTreeMap::new(), None);
        let mut trial = Trial { machine, held, periods, withheld, gangs, joined };
        for held in &room.held {
            let e = trial.hold(held).ok()?;
            trial.held.push(Some(e));
        }
        trial.joined = room.gang.and_then(|gang| trial.gangs.get(&gang).copied());
        Some(trial)
    }

    /// Attaches the client of an existing promise.
    fn hold(&mut self, held: &HeldPromise) -> Result<EntityId, Refused> {
        let group = match held.gang.map(|gang| (gang, self.gangs.get(&gang))) {
            None => GroupId::ROOT,
            Some((_, Some(&group))) => group,
            Some((gang, None)) => {
                let group = self.create_gang()?;
                self.gangs.insert(gang, group);
                group
            }
        };
        self.attach(held.reservation, held.on(), group)
    }

    fn create_gang(&mut self) -> Result<GroupId, Refused> {
        let params = GroupParams { gang: true, ..GroupParams::default() };
        self.machine.create_group(Instant::ZERO, params, GroupId::ROOT)
    }

    fn attach(&mut self, reservation: Reservation, affinity: CpuSet, group: GroupId) -> Result<EntityId, Refused> {
        let reservation = Some(Reservation { start: None, ..reservation });
        self.machine.attach(Instant::ZERO, Params { reservation, affinity, group, ..Params::default() })
    }

    /// Returns the CPUs on which the request, with this reservation per CPU, would be admitted.
    fn place(&mut self, request: &PromiseRequest, reservation: Reservation) -> Result<CpuSet, Refused> {
        let (mut answer, mut taken, mut entities) = (Ok(()), CpuSet::EMPTY, Vec::new());
        let group = match self.joined {
            Some(joined) => joined,
            None if request.gang => self.create_gang()?,
            None => GroupId::ROOT,
        };
        let affinity = self.make_way(&request.affinity, reservation);
        for _ in 0..request.cpus.max(1) {
            let free = affinity.minus(&taken);
            let attached = if free.is_empty() {
                let on = request.affinity.minus(&taken).first();
                Err(Refused::Utilisation { asked: reservation, free_ppm: 0, on })
            } else {
                self.attach(reservation, free, group)
            };
            let e = match attached {
                Ok(e) => e,
                Err(refused) => {
                    answer = Err(refused);
                    break;
                }
            };
            // An entity that may run on several CPUs excludes no other entity from them.
            let on = self.machine.allowed(e);
            for cpu in on.iter().filter(|_| on.len() == 1) {
                taken.insert(cpu);
            }
            entities.push(e);
        }
        entities.into_iter().for_each(|e| self.machine.detach(Instant::ZERO, e));
        self.withhold_nothing();
        if request.gang && self.joined.is_none() {
            self.machine.remove_group(Instant::ZERO, group).expect("its members have left");
        }
        answer.map(|()| taken)
    }

    /// Returns the CPUs among `affinity` on which the interfering threads leave room for clients with `reservation` beside
    /// the existing promises, and withholds the time of these threads there.
    fn make_way(&mut self, affinity: &CpuSet, reservation: Reservation) -> CpuSet {
        if self.withheld.is_nothing() {
            return *affinity;
        }
        let cpus = self.machine.topology().all().and(affinity);
        let fits = |cpu: &CpuId| {
            let held = self.periods.iter().zip(&self.held);
            let here = held.filter(|((on, _), e)| *on == Some(*cpu) && e.is_some()).map(|((_, period), _)| *period);
            let shortest = here.chain([reservation.period]).min();
            self.withheld.keep(&mut self.machine, *cpu, shortest, Instant::ZERO).is_ok()
        };
        cpus.iter().filter(fits).collect()
    }

    fn withhold_nothing(&mut self) {
        if self.withheld.is_nothing() {
            return;
        }
        for cpu in self.machine.topology().all().iter() {
            self.withheld.keep_what_fits(&mut self.machine, cpu, None, Instant::ZERO);
        }
    }

    fn fits(&mut self, request: &PromiseRequest) -> bool {
        request.per_cpu().is_ok_and(|reservation| self.place(request, reservation).is_ok())
    }

    /// Returns whether the request fits without promise number `promise` of `room`. Attaches the promise again.
    fn fits_without(&mut self, room: &NoRoom, promise: usize) -> bool {
        let of_promise = |at: &usize| room.held[*at].promise == promise;
        for at in (0..room.held.len()).filter(of_promise) {
            self.held[at].take().into_iter().for_each(|e| self.machine.detach(Instant::ZERO, e));
        }
        let fits = self.fits(&room.request);
        for at in (0..room.held.len()).filter(of_promise) {
            self.held[at] = Some(self.hold(&room.held[at]).expect("it was there before"));
        }
        fits
    }

    /// Returns whether the request fits without interfering thread number `at` of `room`.
    fn fits_without_thread(&mut self, room: &NoRoom, at: usize) -> bool {
        let mut others = room.interfering.clone();
        others.remove(at);
        self.withheld.set_threads(others);
        let fits = self.fits(&room.request);
        self.withheld.set_threads(room.interfering.clone());
        fits
    }
}

/// Returns a number in `good..bad`, or in `bad..good`, that is good, and whose neighbour towards `bad` is not.
fn border(mut good: u64, mut bad: u64, mut is_good: impl FnMut(u64) -> bool) -> u64 {
    while good.abs_diff(bad) > 1 {
        let middle = good.midpoint(bad);
        *(if is_good(middle) { &mut good } else { &mut bad }) = middle;
    }
    good
}

impl NoRoom {
    /// Limits the alternatives to the CPUs with an agent.
    #[must_use]
    pub(crate) fn among(mut self, served: &CpuSet) -> NoRoom {
        self.own = self.own.and(served);
        self
    }

    /// Completes a refusal from another process with the policy and the knobs of that process.
    #[must_use]
    pub(crate) fn under(self, policy: Descriptor, knobs: Knobs) -> NoRoom {
        NoRoom { policy: Some((policy, knobs)), ..self }
    }

    /// Returns the reason why a machine with the existing promises refuses the request, with `reservation` per CPU.
    /// `None`: the machine admits the request.
    pub(super) fn refused(&self, reservation: Reservation) -> Option<Refused> {
        Trial::new(self)?.place(&self.request, reservation).err()
    }

    /// Returns what would have kept the promise.
    pub(crate) fn by(&self) -> KeptBy {
        self.request.by
    }

    /// Returns the existing promises.
    #[must_use]
    pub fn held(&self) -> &[HeldPromise] {
        &self.held
    }

    /// Returns the threads that run above all clients.
    #[must_use]
    pub fn interfering(&self) -> &[InterferingThread] {
        &self.interfering
    }

    /// Returns the changes that make room for the request.
    #[must_use]
    pub fn alternatives(&self) -> Alternatives {
        let Some(mut trial) = Trial::new(self) else { return Alternatives::default() };
        let request = &self.request;
        let with = |slice: Nanos, period: Nanos| {
            let reservation = Reservation { slice, period, ..request.reservation };
            PromiseRequest { reservation, ..request.clone() }
        };
        let Reservation { slice, period, .. } = request.reservation;
        let least = SLICE_LEAST.saturating_mul(request.cpus.max(1) as u64);
        let slices = trial
            .fits(&with(least, period))
            .then(|| border(least.as_ns(), slice.as_ns(), |slice| trial.fits(&with(Nanos::ns(slice), period))));
        let periods = (period < PERIOD_LONGEST && trial.fits(&with(slice, PERIOD_LONGEST))).then(|| {
            border(PERIOD_LONGEST.as_ns(), period.as_ns(), |period| trial.fits(&with(slice, Nanos::ns(period))))
        });
        let mut cpus = request.cpus.max(1) + 1..=request.affinity.len();
        let cpus = cpus.find(|&cpus| trial.fits(&PromiseRequest { cpus, ..request.clone() }));
        let elsewhere = self.own.minus(&request.affinity);
        let elsewhere = PromiseRequest { affinity: elsewhere, ..request.clone() };
        let affinity = elsewhere.per_cpu().ok().and_then(|each| trial.place(&elsewhere, each).ok());
        let mut promises: Vec<usize> = self.held.iter().map(|held| held.promise).collect();
        promises.sort_unstable();
        promises.dedup();
        let ends = promises.into_iter().filter(|&promise| trial.fits_without(self, promise));
        let ends = ends.map(|promise| self.name(promise)).collect();
        let threads = (0..self.interfering.len()).filter(|&at| trial.fits_without_thread(self, at));
        let threads = threads.map(|at| self.interfering[at].clone()).collect();
        Alternatives { slice: slices.map(Nanos::ns), period: periods.map(Nanos::ns), cpus, affinity, ends, threads }
    }

    /// Returns the name of a promise. The clients of a promise on several CPUs have the name, `/` and a number.
    fn name(&self, promise: usize) -> String {
        let mut names = self.held.iter().filter(|held| held.promise == promise).map(|held| held.name.as_str());
        let first = names.next().unwrap_or_default();
        let several = names.next().and_then(|_| first.rsplit_once('/'));
        several.map_or(first, |(name, _)| name).to_string()
    }

    /// Returns the reason for the refusal.
    #[must_use]
    pub fn reason(&self) -> String {
        let PromiseRequest { reservation, cpus, .. } = &self.request;
        let share = self.request.share();
        let (free, on) = self.free;
        let of = if *cpus > 1 { format!("each of {cpus} CPUs") } else { "a CPU".to_string() };
        let place = on.map_or(String::new(), |cpu| format!(" (on CPU {cpu})"));
        let mut text = format!(
            "{} every {} is {} of {of}, but only {} can still be promised{place}",
            reservation.slice,
            reservation.period,
            percent(ppm(&share)),
            percent(free),
        );
        let mut here: Vec<&HeldPromise> = self.held.iter().filter(|held| held.cpu == on).collect();
        here.sort_by_key(|held| std::cmp::Reverse(ppm(&held.reservation)));
        let mut words: Vec<String> = here
            .iter()
            .take(NAMED_MOST)
            .map(|held| format!("{} {}", held.name, percent(ppm(&held.reservation))))
            .collect();
        if here.len() > NAMED_MOST {
            let rest = here[NAMED_MOST..].iter().map(|held| ppm(&held.reservation)).sum();
            words.push(format!("{} more promises {}", here.len() - NAMED_MOST, percent(rest)));
        }
        if !words.is_empty() {
            let what = if on.is_some() { "this CPU is" } else { "the CPUs are" };
            text += &format!("; {what} promised to {}", list(&words, "and"));
        }
        text + &self.above_clients()
    }

    /// Returns the interfering threads as the end of a sentence.
    fn above_clients(&self) -> String {
        let may_run = |thread: &&InterferingThread| self.free.1.is_none_or(|on| thread.cpus.contains(on));
        let mut threads: Vec<&InterferingThread> = self.interfering.iter().filter(may_run).collect();
        let period = self.request.per_cpu().map_or(self.request.reservation.period, |each| each.period);
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.demand.within(period)));
        let mut words: Vec<String> = threads.iter().take(NAMED_MOST).map(ToString::to_string).collect();
        match threads.len() {
            0 => return String::new(),
            count if count > NAMED_MOST => words.push(format!("{} more threads", count - NAMED_MOST)),
            _ => {}
        }
        let time = threads.iter().fold(Nanos::ZERO, |sum, thread| sum.saturating_add(thread.demand.within(period)));
        format!("; threads above all clients may take {} of {period}: {}", time.min(period), list(&words, "and"))
    }

    /// Returns the reason, and `alternatives` as the remedy.
    #[must_use]
    pub fn explain(&self, alternatives: &Alternatives) -> Explanation {
        let Reservation { period, .. } = self.request.reservation;
        let Alternatives { slice, period: longer, cpus, affinity, ends, threads } = alternatives;
        let uses = [
            slice.map(|slice| format!("at most {slice} every {period}")),
            longer.map(|period| format!("a period of at least {period}")),
            cpus.map(|cpus| format!("{cpus} CPUs (--cpus {cpus})")),
            affinity.map(|cpus| format!("affinity {cpus}")),
        ];
        let uses: Vec<String> = uses.into_iter().flatten().collect();
        let mut named: Vec<String> = ends.iter().take(NAMED_MOST).cloned().collect();
        if ends.len() > NAMED_MOST {
            named.push(format!("one of {} others", ends.len() - NAMED_MOST));
        }
        let mut ways = Vec::new();
        if !uses.is_empty() {
            ways.push(format!("use {}", list(&uses, "or")));
        }
        if !named.is_empty() {
            ways.push(format!("end the promise to {}", list(&named, "or")));
        }
        if !threads.is_empty() {
            let named = threads.iter().take(NAMED_MOST).map(|it| format!("thread {} ({})", it.tid, it.name));
            ways.push(format!("end {}", list(&named.collect::<Vec<String>>(), "or")));
        }
        if ways.is_empty() {
            ways.push("wait until other promises end".to_string());
        }
        Explanation::new(self.reason(), ways.join("; or "))
    }
}

/// Returns the reservation as a share of a CPU, rounded up. Unit: parts per million.
fn ppm(reservation: &Reservation) -> u64 {
    let Reservation { slice, period, .. } = reservation;
    let ppm = (u128::from(slice.as_ns()) * 1_000_000).div_ceil(u128::from(period.as_ns().max(1)));
    u64::try_from(ppm).unwrap_or(u64::MAX)
}

fn percent(ppm: u64) -> String {
    format!("{}.{:02} %", ppm / 10_000, ppm % 10_000 / 100)
}

/// Joins `words` by commas, and the last two by `last`.
fn list(words: &[String], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_border_is_found_from_both_sides() {
        for edge in [1, 2, 3, 50, 99] {
            assert_eq!(border(0, 100, |number| number < edge), edge - 1);
            assert_eq!(border(100, 0, |number| number >= edge), edge);
        }
    }

    #[test]
    fn words_are_listed_as_in_a_sentence() {
        let words = ["a", "b", "c"].map(String::from);
        assert_eq!([1, 2, 3].map(|count| list(&words[..count], "or")), ["a", "a or b", "a, b or c"]);
    }
}
