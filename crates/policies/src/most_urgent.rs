//! The most urgent run, one on each CPU, as far as they are free to move: what SCHED_DEADLINE, SCHED_FIFO and the stop
//! class have in common.
//!
//! Every CPU has a queue. Who comes stays on its CPU unless somebody at least as urgent is there; else it goes to the
//! CPU whose most urgent is least urgent, if that is less urgent than it is. A CPU that leaves somebody waiting
//! *pushes* the most urgent of them to such a CPU; a CPU about to run something less urgent *pulls* the most urgent
//! that waits elsewhere. After every decision, nobody waits while a CPU that is open to it runs somebody less urgent.
//!
//! A CPU may be *taken* by a more urgent class: it is then open to nobody, and whoever waits there is pushed away or
//! pulled. It may be *shut* by the class itself: who is there stays there, and nobody else comes.

use sched::queue::Trees;
use sched::{CpuId, CpuSet, Cx, EntityId, Running};

/// How urgent what a CPU runs is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank<K> {
    /// Somebody of this class, or as urgent as one; the least is the most urgent.
    AlarmOwner(K),
    /// Nobody of this class or a more urgent one.
    Other,
}

/// What a more urgent class does with a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken<K> {
    No,
    /// It runs somebody who is as urgent as this.
    At(K),
    /// It runs somebody more urgent than everybody here.
    Above,
}

/// What is kept of a CPU.
#[derive(Clone, Copy, Debug)]
struct Seat<K> {
    running: Option<EntityId>,
    taken: Taken<K>,
    shut: bool,
    /// The most urgent that runs or waits here; `None`: it takes nobody.
    rank: Option<Rank<K>>,
}

/// What is kept of an entity.
#[derive(Clone, Copy, Debug)]
struct Place<K> {
    urgency: K,
    /// The CPU on whose queue it is, or where it was last.
    home: CpuId,
}

/// The queues and seats of one class; a lesser `K` is more urgent.
#[derive(Debug)]
pub(crate) struct MostUrgent<K> {
    /// By CPU: by urgency, then by order of coming.
    queues: Trees<(K, i64)>,
    /// By entity.
    places: Vec<Place<K>>,
    seats: Vec<Seat<K>>,
    /// The CPUs on which somebody waits.
    waiting: CpuSet,
    /// Of the last that went first, and the last that went last.
    first: i64,
    last: i64,
    /// Who changed its CPU, and from where, if that is noted.
    moves: Option<Vec<(EntityId, CpuId)>>,
}

impl<K: Copy + Ord> MostUrgent<K> {
    /// Empty queues; notes who changes its CPU if `noting`.
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

    /// `e`, which is attached and in no queue, runs on `cpu` already.
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

    /// The CPU `e` is on, or was last.
    pub(crate) fn home(&self, e: EntityId) -> CpuId {
        self.places[e.index()].home
    }

    pub(crate) fn urgency(&self, e: EntityId) -> K {
        self.places[e.index()].urgency
    }

    /// The last that changed its CPU and was not asked about, and where it was.
    pub(crate) fn next_move(&mut self) -> Option<(EntityId, CpuId)> {
        self.moves.as_mut()?.pop()
    }

    fn settle_at(&mut self, e: EntityId, cpu: CpuId) {
        let before = core::mem::replace(&mut self.places[e.index()].home, cpu);
        if let Some(moves) = self.moves.as_mut().filter(|_| before != cpu) {
            moves.push((e, before));
        }
    }

    // ---- Queues and seats ----

    /// The CPU in whose queue `e` is.
    pub(crate) fn queue_of(&self, e: EntityId) -> Option<CpuId> {
        self.queues.tree_of(e).map(CpuId::new)
    }

    /// Who waits on `cpu`, the most urgent first.
    pub(crate) fn waiting_on(&self, cpu: CpuId) -> impl Iterator<Item = EntityId> + '_ {
        self.queues.iter(cpu.index()).map(|(_, e)| e)
    }

    /// Whether anybody waits anywhere.
    pub(crate) fn anybody_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn running(&self, cpu: CpuId) -> Option<EntityId> {
        self.seats[cpu.index()].running
    }

    fn runs_on(&self, e: EntityId) -> Option<CpuId> {
        let home = self.places[e.index()].home;
        (self.running(home) == Some(e)).then_some(home)
    }

    /// How urgent the first that waits on `cpu` is.
    pub(crate) fn best(&self, cpu: CpuId) -> Rank<K> {
        self.queues.first(cpu.index()).map_or(Rank::Other, |((urgency, _), _)| Rank::AlarmOwner(urgency))
    }

    /// Whether anybody of this urgency waits on `cpu`.
    pub(crate) fn has_equal(&self, cpu: CpuId, urgency: K) -> bool {
        let mut as_urgent = self.waiting_on(cpu).take_while(|&e| self.urgency(e) <= urgency);
        as_urgent.any(|e| self.urgency(e) == urgency)
    }

    fn rank(&self, e: EntityId) -> Rank<K> {
        Rank::AlarmOwner(self.places[e.index()].urgency)
    }

    /// How urgent what `cpu` runs is, if it is not taken by somebody more urgent than all.
    fn running_rank(&self, cpu: CpuId) -> Rank<K> {
        let seat = &self.seats[cpu.index()];
        match (seat.running, seat.taken) {
            (Some(e), _) => self.rank(e),
            (None, Taken::At(urgency)) => Rank::AlarmOwner(urgency),
            (None, _) => Rank::Other,
        }
    }

    /// Notes how urgent `cpu` is now.
    fn update(&mut self, cpu: CpuId) {
        let best = self.best(cpu);
        match best {
            Rank::AlarmOwner(_) => self.waiting.insert(cpu),
            Rank::Other => self.waiting.remove(cpu),
        };
        let rank = best.min(self.running_rank(cpu));
        let seat = &mut self.seats[cpu.index()];
        seat.rank = (!seat.shut && seat.taken != Taken::Above).then_some(rank);
    }

    /// Takes `e` out of its queue, if it is in one.
    pub(crate) fn unqueue(&mut self, e: EntityId) {
        if let Some(cpu) = self.queue_of(e) {
            self.queues.remove(e);
            self.update(cpu);
        }
    }

    /// Puts `e`, which waits, before its equals on `cpu`.
    pub(crate) fn queue_first(&mut self, e: EntityId, cpu: CpuId) {
        self.first -= 1;
        self.queue(e, cpu, self.first);
    }

    /// Puts `e`, which waits, after its equals on `cpu`.
    pub(crate) fn queue_last(&mut self, e: EntityId, cpu: CpuId) {
        self.last += 1;
        self.queue(e, cpu, self.last);
    }

    fn queue(&mut self, e: EntityId, cpu: CpuId, order: i64) {
        self.queues.push(cpu.index(), (self.places[e.index()].urgency, order), e);
        self.settle_at(e, cpu);
        self.update(cpu);
    }

    /// Finds a CPU for `e`, puts it after its equals there, and calls the CPU if it is more urgent than who runs.
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

    /// `e` runs on `cpu` no more.
    pub(crate) fn put(&mut self, cpu: CpuId, e: EntityId) {
        assert_eq!(self.seats[cpu.index()].running.take(), Some(e), "who stops was picked");
        self.update(cpu);
    }

    /// Nobody of this class comes to `cpu` or leaves it, or they do again.
    pub(crate) fn set_shut(&mut self, cpu: CpuId, shut: bool) {
        self.seats[cpu.index()].shut = shut;
        self.update(cpu);
    }

    pub(crate) fn is_shut(&self, cpu: CpuId) -> bool {
        self.seats[cpu.index()].shut
    }

    // ---- The decision ----

    /// Who runs on `cpu`, which no more urgent class takes: the most urgent, if it is more urgent than `than`. Others go elsewhere.
    pub(crate) fn pick(&mut self, cpu: CpuId, than: Rank<K>, cx: &mut Cx<'_>) -> Option<EntityId> {
        self.seats[cpu.index()].taken = Taken::No;
        self.update(cpu);
        if self.is_shut(cpu) {
            return None;
        }
        self.pull(cpu, self.best(cpu).min(than), cx);
        let (_, e) = self.queues.first(cpu.index()).filter(|&((urgency, _), _)| Rank::AlarmOwner(urgency) < than)?;
        self.queues.remove(e);
        self.seats[cpu.index()].running = Some(e);
        self.update(cpu);
        self.push(cpu, cx);
        Some(e)
    }

    /// A more urgent class takes `cpu`: whoever waits there goes elsewhere, if it can.
    pub(crate) fn take(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        self.take_as(cpu, Taken::Above, cx);
    }

    /// `cpu` runs somebody of another class who is as urgent as this.
    pub(crate) fn take_at(&mut self, cpu: CpuId, urgency: K, cx: &mut Cx<'_>) {
        self.take_as(cpu, Taken::At(urgency), cx);
    }

    fn take_as(&mut self, cpu: CpuId, taken: Taken<K>, cx: &mut Cx<'_>) {
        let seat = &mut self.seats[cpu.index()];
        assert_eq!(seat.running, None, "one class to a CPU");
        if core::mem::replace(&mut seat.taken, taken) != taken {
            self.update(cpu);
        }
        self.push(cpu, cx);
    }

    // ---- Places ----

    /// The CPU for `e`, which has just become runnable: the one it was on, unless somebody at least as urgent is there and
    /// another CPU is less urgent. A CPU that is shut keeps who was there.
    pub(crate) fn place(&self, e: EntityId, cx: &Cx<'_>) -> CpuId {
        let Place { home, .. } = self.places[e.index()];
        let home = cx.may_run(e, home).then_some(home);
        let stays = home.filter(|&home| {
            let seat = &self.seats[home.index()];
            seat.shut || seat.rank.is_some_and(|there| there > self.rank(e))
        });
        let anywhere = || home.or_else(|| cx.allowed(e).first()).expect("every entity may run somewhere");
        stays.or_else(|| self.least_urgent(e, cx)).unwrap_or_else(anywhere)
    }

    /// The least urgent CPU that `e` may run on and that is open, if it is less urgent than `e`: of the idle ones, else of
    /// all, the one `e` was on, else one near to that.
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

    /// Moves whoever waits on `cpu`, the most urgent first, to CPUs that run somebody less urgent.
    fn push(&mut self, cpu: CpuId, cx: &mut Cx<'_>) {
        while self.waiting.contains(cpu) && !self.is_shut(cpu) {
            let Some(least) = self.seats.iter().filter_map(|seat| seat.rank).max() else { return };
            let mut urgent = self.waiting_on(cpu).take_while(|&e| self.rank(e) < least);
            let Some((e, to)) = urgent.find_map(|e| Some((e, self.least_urgent(e, cx)?))) else { return };
            drop(urgent);
            assert_ne!(to, cpu, "what it runs is more urgent");
            self.move_to(e, to, cx);
        }
    }

    /// Gives `e`, which waits and has just become more urgent or more free to move, a CPU that runs somebody less
    /// urgent: its own first.
    pub(crate) fn push_one(&mut self, e: EntityId, cx: &mut Cx<'_>) {
        let Some(cpu) = self.queue_of(e).filter(|&cpu| !self.is_shut(cpu)) else { return };
        if self.seats[cpu.index()].taken != Taken::Above && self.rank(e) < self.running_rank(cpu) {
            cx.kick(cpu);
        } else if let Some(to) = self.least_urgent(e, cx) {
            self.move_to(e, to, cx);
        }
    }

    /// Moves `e`, which waits, to the queue of `to`, after its equals, and calls that CPU.
    fn move_to(&mut self, e: EntityId, to: CpuId, cx: &mut Cx<'_>) {
        self.unqueue(e);
        self.enqueue_on(e, to, cx);
    }

    /// Takes the most urgent that waits elsewhere and may run on `cpu` over to it, if it is more urgent than `than`.
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

    /// Who has just been queued on `cpu` and will run there as soon as it picks.
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
        assert_eq!(
            (queues.best(cpu), queues.queue_of(a), queues.anybody_waits()),
            (Rank::AlarmOwner(1), Some(cpu), true)
        );
    }

    #[test]
    fn who_changes_its_cpu_is_noted() {
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
