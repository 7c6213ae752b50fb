//! The common part of the stop, deadline and real-time classes. The most urgent entities run, one per CPU, as far as
//! affinities allow.
//!
//! Every CPU has a run queue. The urgency of a CPU is the urgency of its most urgent entity, running or waiting. A
//! woken entity stays on its CPU if the entity is more urgent than that CPU. Otherwise the entity moves to the least
//! urgent CPU, if that CPU is less urgent than the entity. After a pick, a CPU *pushes* its waiting entities, the most
//! urgent first, to less urgent CPUs. A CPU about to run a less urgent entity *pulls* the most urgent entity that waits
//! on another CPU. Once all kicks have arrived, no entity waits while a CPU that accepts this entity runs a less urgent
//! entity.
//!
//! A more urgent class may *take* a CPU. A taken CPU accepts no entity, and its waiting entities are pushed or pulled
//! to other CPUs. The class itself may *shut* a CPU. The entities on a shut CPU stay on that CPU, and no other entity
//! moves to it.

use sched::queue::Trees;
use sched::{CpuId, CpuSet, Cx, EntityId, Running};

/// The urgency of an entity, or of the most urgent entity on a CPU. The minimum is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank<K> {
    /// An entity with this urgency, of this class or of another class.
    Urgency(K),
    /// No entity of this class or of a more urgent class.
    Other,
}

/// The use of a CPU by another class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken<K> {
    No,
    /// The CPU runs an entity of another class with this urgency.
    At(K),
    /// The CPU runs an entity that is more urgent than all entities of this class.
    Above,
}

/// The state of a CPU.
#[derive(Clone, Copy, Debug)]
struct Seat<K> {
    running: Option<EntityId>,
    taken: Taken<K>,
    shut: bool,
    /// Urgency of the most urgent entity that runs or waits on this CPU; `None`: the CPU accepts no entity.
    rank: Option<Rank<K>>,
}

/// The state of an entity.
#[derive(Clone, Copy, Debug)]
struct Place<K> {
    urgency: K,
    /// CPU on which the entity waits or runs, or did so last.
    home: CpuId,
}

/// The queues of one class and the states of its CPUs. A smaller `K` is more urgent.
#[derive(Debug)]
pub(crate) struct MostUrgent<K> {
    /// Queue of each CPU, by urgency, then by order of arrival.
    queues: Trees<(K, i64)>,
    /// State of each entity, by index.
    places: Vec<Place<K>>,
    seats: Vec<Seat<K>>,
    /// CPUs with a waiting entity.
    waiting: CpuSet,
    /// Order number of the entity most recently enqueued before all entities of equal urgency.
    first: i64,
    /// Order number of the entity most recently enqueued after all entities of equal urgency.
    last: i64,
    /// Entities that migrated and their previous CPUs, if migrations are recorded.
    moves: Option<Vec<(EntityId, CpuId)>>,
}

impl<K: Copy + Ord> MostUrgent<K> {
    /// Creates empty queues. If `noting`, migrations are recorded.
    pub(crate) fn new(cpus: usize, noting: bool) -> MostUrgent<K> {
        let seat = Seat { running: None, taken: Taken::No, shut: false, rank: Some(Rank::Other) };
        MostUrgent {
            queues: Trees::new(cpus),
            places: Vec::new(),
            seats: vec![seat; cpus],
            waiting: CpuSet::EMPTY,
            first: 0,
            last: 0,
            moves: noting.then(Vec::new),
        }
    }

    // ---- Membership ----

    pub(crate) fn attach(&mut self, e: EntityId, urgency: K, home: CpuId) {
        let place = Place { urgency, home };
        if self.places.len() <= e.index() {
            self.places.resize(e.index() + 1, place);
        }
        self.places[e.index()] = place;
        self.queues.reserve(e, (urgency, 0));
        if let Some(moves) = &mut self.moves {
            moves.reserve(2 * self.places.len() - moves.len().min(2 * self.places.len()));
        }
    }

    /// Records that `e`, which is attached and in no queue, already runs on `cpu`.
    pub(crate) fn adopt(&mut self, e: EntityId, cpu: CpuId) {
        self.seats[cpu.index()].running = Some(e);
        self.settle_at(e, cpu);
        self.update(cpu);
    }

    /// Sets the urgency of `e`, which is in no queue.
    pub(crate) fn set_urgency(&mut self, e: EntityId, urgency: K) {
        self.places[e.index()].urgency = urgency;
        if let Some(cpu) = self.runs_on(e) {
            self.update(cpu);
        }
    }

    /// Returns the CPU on which `e` waits or runs, or did so last.
    pub(crate) fn home(&self, e: EntityId) -> CpuId {
        self.places[e.index()].home
    }

    pub(crate) fn urgency(&self, e: EntityId) -> K {
        self.places[e.index()].urgency
    }

    /// Removes the last recorded migration. Returns the entity and its previous CPU.
    pub(crate) fn next_move(&mut self) -> Option<(EntityId, CpuId)> {
        self.moves.as_mut()?.pop()
    }

    fn settle_at(&mut self, e: EntityId, cpu: CpuId) {
        let before = core::mem::replace(&mut self.places[e.index()].home, cpu);
        if let Some(moves) = self.moves.as_mut().filter(|_| before != cpu) {
            moves.push((e, before));
        }
    }

    // ---- Queues and CPUs ----

    /// Returns the CPU whose queue contains `e`.
    pub(crate) fn queue_of(&self, e: EntityId) -> Option<CpuId> {
        self.queues.tree_of(e).map(CpuId::new)
    }

    /// Returns the waiting entities of `cpu`, the most urgent first.
    pub(crate) fn waiting_on(&self, cpu: CpuId) -> impl Iterator<Item = EntityId> + '_ {
        self.queues.iter(cpu.index()).map(|(_, e)| e)
    }

    /// Returns whether an entity waits on any CPU.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn running(&self, cpu: CpuId) -> Option<EntityId> {
        self.seats[cpu.index()].running
    }

    fn runs_on(&self, e: EntityId) -> Option<CpuId> {
        let home = self.places[e.index()].home;
        (self.running(home) == Some(e)).then_some(home)
    }

    /// Returns the urgency of the first waiting entity of `cpu`, or [`Rank::Other`] if no entity waits there.
    pub(crate) fn best(&self, cpu: CpuId) -> Rank<K> {
        self.queues.first(cpu.index()).map_or(Rank::Other, |((urgency, _), _)| Rank::Urgency(urgency))
    }

    /// Returns whether an entity of this urgency waits on `cpu`.
    pub(crate) fn has_equal(&self, cpu: CpuId, urgency: K) -> bool {
        let mut as_urgent = self.waiting_on(cpu).take_while(|&e| self.urgency(e) <= urgency);
        as_urgent.any(|e| self.urgency(e) == urgency)
    }

    fn rank(&self, e: EntityId) -> Rank<K> {
        Rank::Urgency(self.places[e.index()].urgency)
    }

    /// Returns the urgency of the entity that `cpu` runs. The result is [`Rank::Other`] if `cpu` runs no entity of this
    /// class and no urgency of another class is known.
    fn running_rank(&self, cpu: CpuId) -> Rank<K> {
        let seat = &self.seats[cpu.index()];
        match (seat.running, seat.taken) {
            (Some(e), _) => self.rank(e),
            (None, Taken::At(urgency)) => Rank::Urgency(urgency),
            (None, _) => Rank::Other,
        }
    }

    /// Updates the urgency of `cpu`.
    fn update(&mut self, cpu: CpuId) {
        let best = self.best(cpu);
        match best {
            Rank::Urgency(_) => self.waiting.insert(cpu),
            Rank::Other => self.waiting.remove(cpu),
        };
        let rank = best.min(self.running_rank(cpu));
        let seat = &mut self.seats[cpu.index()];
        seat.rank = (!seat.shut && seat.taken != Taken::Above).then_some(rank);
    }

    /// Removes `e` from its queue, if `e` is in a queue.
    pub(crate) fn unqueue(&mut self, e: EntityId) {
        if let Some(cpu) = self.queue_of(e) {
            self.queues.remove(e);
            self.update(cpu);
        }
    }

    /// Enqueues `e`, which waits, on `cpu`, before the entities of equal urgency.
    pub(crate) fn queue_first(&mut self, e: EntityId, cpu: CpuId) {
        self.first -= 1;
        self.queue(e, cpu, self.first);
    }

    /// Enqueues `e`, which waits, on `cpu`, after the entities of equal urgency.
    pub(crate) fn queue_last(&mut self, e: EntityId, cpu: CpuId) {
        self.last += 1;
        self.queue(e, cpu, self.last);
    }

    fn queue(&mut self, e: EntityId, cpu: CpuId, order: i64) {
        self.queues.push(cpu.index(), (self.places[e.index()].urgency, order), e);
        self.settle_at(e, cpu);
        self.update(cpu);
    }

    /// Selects a CPU for `e` and enqueues `e` on that CPU, after the entities of equal urgency. Kicks the CPU if `e` is
    /// more urgent than the running entity.
    pub(crate) fn enqueue(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let cpu = self.place(e, cx);
        self.enqueue_on(e, cpu, cx);
    }

    fn enqueue_on(&mut self, e: EntityId, cpu: CpuId, cx: &mut Cx<'_>) {
        self.queue_last(e, cpu);
        let seat = &self.seats[cpu.index()];
        if !seat.shut && seat.taken != Taken::Above && self.rank(e) < self.running_rank(cpu) {
            cx.kick(cpu);
        }
    }

    /// Records that `e` stops running on `cpu`.
    pub(crate) fn put(&mut self, cpu: CpuId, e: EntityId) {
        assert_eq!(self.seats[cpu.index()].running.take(), Some(e), "the stopped entity was picked");
        self.update(cpu);
    }

    /// Shuts or opens `cpu`. No entity of this class moves to or from a shut CPU.
    pub(crate) fn set_shut(&mut self, cpu: CpuId, shut: bool) {
        self.seats[cpu.index()].shut = shut;
        self.update(cpu);
    }

    pub(crate) fn is_shut(&self, cpu: CpuId) -> bool {
        self.seats[cpu.index()].shut
    }

    // ---- The decision ----

    /// Picks the entity to run on `cpu`, which no more urgent class takes. Returns the most urgent entity, if that
    /// entity is more urgent than `than`, and pushes the other waiting entities. A shut CPU picks no entity.
    pub(crate) fn pick(&mut self, cpu: CpuId, than: Rank<K>, cx: &mut Cx<'_>) -> Option<EntityId> {
        self.seats[cpu.index()].taken = Taken::No;
        self.update(cpu);
        if self.is_shut(cpu) {
            return None;
        }
        self.pull(cpu, self.best(cpu).min(than), cx);
        let (_, e) = self.queues.first(cpu.index()).filter(|&((urgency, _), _)| Rank::Urgency(urgency) < than)?;
        self.queues.remove(e);
        self.seats[cpu.index()].running = Some(e);
        self.update(cpu);
        self.push(cpu, cx);
        Some(e)
    }

    /// Gives `cpu` to a more urgent class, and pushes its waiting entities to other CPUs, if possible.
    pub(crate) fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.take_as(cpu, Taken::Above, cx);
    }

    /// Records that `cpu` runs an entity of another class with this urgency.
    pub(crate) fn take_at(&mut self, cpu: CpuId, urgency: K, cx: &mut Cx<'_>) {
        self.take_as(cpu, Taken::At(urgency), cx);
    }

    fn take_as(&mut self, cpu: CpuId, taken: Taken<K>, cx: &mut Cx<'_>) {
        let seat = &mut self.seats[cpu.index()];
        assert_eq!(seat.running, None, "a CPU runs one class at a time");
        if core::mem::replace(&mut seat.taken, taken) != taken {
            self.update(cpu);
        }
        self.push(cpu, cx);
    }

    // ---- Placement ----

    /// Returns the CPU for `e`, which has just become runnable. `e` stays on its last CPU if `e` may run there.
    /// Exception: that CPU is at least as urgent as `e`, and another CPU is less urgent than `e`. A shut CPU keeps its
    /// entities.
    pub(crate) fn place(&self, e: EntityId, cx: &Cx<'_>) -> CpuId {
        let Place { home, .. } = self.places[e.index()];
        let home = cx.may_run(e, home).then_some(home);
        let stays = home.filter(|&home| {
            let seat = &self.seats[home.index()];
            seat.shut || seat.rank.is_some_and(|there| there > self.rank(e))
        });
        let anywhere = || home.or_else(|| cx.allowed(e).first()).expect("an affinity contains a CPU");
        stays.or_else(|| self.least_urgent(e, cx)).unwrap_or_else(anywhere)
    }

    /// Returns the least urgent open CPU on which `e` may run, if that CPU is less urgent than `e`. Among equally
    /// urgent CPUs, an idle CPU is preferred, then the last CPU of `e`, then the CPU nearest to that CPU.
    fn least_urgent(&self, e: EntityId, cx: &Cx<'_>) -> Option<CpuId> {
        let Place { home, .. } = self.places[e.index()];
        let (mine, host) = (self.rank(e), cx.topology());
        let idles = |cpu: CpuId| cx.running(cpu) == Running::Idle && !cx.kicked(cpu);
        let distance = |cpu: CpuId| (cpu != home, !host.share_core(cpu, home), !host.share_cache(cpu, home), cpu);
        let mut best: Option<(Rank<K>, bool, CpuId)> = None;
        for cpu in host.iter() {
            let Some(rank) = self.seats[cpu.index()].rank.filter(|&rank| rank > mine) else { continue };
            if best.is_some_and(|(least, ..)| least > rank) || !cx.may_run(e, cpu) {
                continue;
            }
            let idle = rank == Rank::Other && idles(cpu);
            let better = best.is_none_or(|(least, idles, at)| {
                (rank, idle) > (least, idles) || (rank, idle) == (least, idles) && distance(cpu) < distance(at)
            });
            if better {
                best = Some((rank, idle, cpu));
            }
        }
        best.map(|(.., cpu)| cpu)
    }

    /// Pushes the entities that wait on `cpu`, the most urgent first, to less urgent CPUs.
    fn push(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        while self.waiting.contains(cpu) && !self.is_shut(cpu) {
            let Some(least) = self.seats.iter().filter_map(|seat| seat.rank).max() else { return };
            let mut urgent = self.waiting_on(cpu).take_while(|&e| self.rank(e) < least);
            let Some((e, to)) = urgent.find_map(|e| Some((e, self.least_urgent(e, cx)?))) else { return };
            drop(urgent);
            assert_ne!(to, cpu, "the CPU runs a more urgent entity");
            self.move_to(e, to, cx);
        }
    }

    /// Called after the waiting entity `e` has become more urgent or may run on more CPUs. Kicks the CPU on which `e`
    /// waits if `e` is more urgent than the entity that runs there. Otherwise moves `e` to a CPU that is less urgent
    /// than `e`, if there is one.
    pub(crate) fn push_one(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Some(cpu) = self.queue_of(e).filter(|&cpu| !self.is_shut(cpu)) else { return };
        if self.seats[cpu.index()].taken != Taken::Above && self.rank(e) < self.running_rank(cpu) {
            cx.kick(cpu);
        } else if let Some(to) = self.least_urgent(e, cx) {
            self.move_to(e, to, cx);
        }
    }

    /// Moves `e`, which waits, to the queue of `to`, after the entities of equal urgency, and kicks `to`.
    fn move_to(&mut self, e: EntityId, to: CpuId, cx: &mut Cx<'_>) {
        self.unqueue(e);
        self.enqueue_on(e, to, cx);
    }

    /// Pulls the most urgent entity that waits on another CPU and may run on `cpu`, if that entity is more urgent than
    /// `than`.
    fn pull(&mut self, cpu: CpuId, than: Rank<K>, cx: &mut Cx<'_>) {
        let mut best: Option<(Rank<K>, EntityId)> = None;
        for other in self.waiting.iter().filter(|&other| other != cpu && !self.is_shut(other)) {
            let bar = best.map_or(than, |(rank, _)| rank);
            let about_to_run = self.about_to_run(other, cx);
            let mut urgent = self.waiting_on(other).take_while(|&e| self.rank(e) < bar);
            if let Some(e) = urgent.find(|&e| Some(e) != about_to_run && cx.may_run(e, cpu)) {
                best = Some((self.rank(e), e));
            }
        }
        if let Some((_, e)) = best {
            self.unqueue(e);
            self.queue_first(e, cpu);
        }
    }

    /// Returns the entity that was just enqueued on `cpu` and will run as soon as the CPU picks.
    fn about_to_run(&self, cpu: CpuId, cx: &Cx<'_>) -> Option<EntityId> {
        let (_, head) = self.queues.first(cpu.index())?;
        let open = self.seats[cpu.index()].taken != Taken::Above;
        (open && cx.kicked(cpu) && self.rank(head) < self.running_rank(cpu)).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_waits_for_the_most_urgent_and_equals_in_order() {
        let [a, b, c] = [0, 1, 2].map(|index| EntityId::new(index, 0));
        let cpu = CpuId::new(0);
        let mut queues = MostUrgent::new(1, false);
        for (e, urgency) in [(a, 2), (b, 1), (c, 2)] {
            queues.attach(e, urgency, cpu);
        }
        [a, b, c].into_iter().for_each(|e| queues.queue_last(e, cpu));
        assert_eq!(queues.waiting_on(cpu).collect::<Vec<_>>(), [b, a, c]);
        queues.unqueue(c);
        queues.queue_first(c, cpu);
        assert_eq!(queues.waiting_on(cpu).collect::<Vec<_>>(), [b, c, a]);
        assert_eq!((queues.best(cpu), queues.queue_of(a), queues.has_waiting()), (Rank::Urgency(1), Some(cpu), true));
    }

    #[test]
    fn a_change_of_cpu_is_noted() {
        let e = EntityId::new(0, 0);
        let [here, there] = [0, 1].map(CpuId::new);
        let mut queues = MostUrgent::new(2, true);
        queues.attach(e, 1, here);
        queues.queue_last(e, here);
        assert_eq!(queues.next_move(), None);
        queues.unqueue(e);
        queues.queue_last(e, there);
        assert_eq!((queues.next_move(), queues.next_move(), queues.home(e)), (Some((e, here)), None, there));
    }
}
