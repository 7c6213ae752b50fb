//! Insertion by laxity: the entity's tolerable delay determines its position in the queue.

use super::Credit;
use sched::{CpuId, Cx, EntityId, Nanos, Running};

impl Credit {
    /// Returns a scheduler in which the tolerable delay of an entity that wakes UNDER determines its position in the
    /// queue. `ahead`: the expected run time of each entity in front.
    pub(crate) fn by_laxity(self, ahead: Nanos) -> Credit {
        Credit { by_laxity: Some(ahead), ..self }
    }

    /// Returns the rest of the time slice of the running entity on `cpu`. The rest is a whole time slice if a class
    /// above runs, and `None` if the CPU idles or a class below runs.
    fn rest_of_turn(&self, cpu: CpuId, cx: &Cx<'_>) -> Option<Nanos> {
        match cx.running(cpu) {
            Running::Idle | Running::Below => None,
            Running::Mine { entity, .. } => {
                let end = self.vcpus[entity.index()].begun.saturating_add(self.settings.slice);
                Some(end.saturating_since(cx.now()))
            }
            Running::Above => Some(self.settings.slice),
        }
    }

    /// Returns the number of entities that may precede an entity with this `laxity` on `cpu`, and the expected wait of
    /// the entity there.
    fn place_for(&self, laxity: Nanos, cpu: CpuId, cx: &Cx<'_>) -> (usize, Nanos) {
        let each = self.by_laxity.unwrap_or(self.settings.slice);
        let Some(rest) = self.rest_of_turn(cpu, cx) else { return (0, Nanos::ZERO) };
        let fit = laxity.saturating_sub(rest).as_ns() / each.as_ns();
        let ahead = self.queues.iter(cpu).take(usize::try_from(fit).unwrap_or(usize::MAX)).count();
        (ahead, rest.saturating_add(each.saturating_mul(ahead as u64)))
    }

    /// Enqueues `e`, which wakes UNDER, on the allowed CPU with the shortest wait. Waits longer than `laxity` count as
    /// equal. If waits are equal, the home of `e` is preferred, then a CPU that shares a cache with the home. The
    /// position of `e` is the last position that `laxity` allows in front of the first less urgent entity. If `e` would
    /// be too late even at the head of the queue, `e` preempts the running entity.
    pub(crate) fn enqueue_by_laxity(&mut self, e: EntityId, laxity: Nanos, cx: &mut Cx<'_>) {
        let home = self.vcpus[e.index()].home;
        let cost = |cpu: CpuId| {
            let (_, wait) = self.place_for(laxity, cpu, cx);
            (wait.min(laxity), cpu != home, !cx.topology().share_cache(cpu, home), cpu.index())
        };
        let allowed = cx.allowed(e);
        let cpu = allowed.iter().min_by_key(|&cpu| cost(cpu)).expect("an affinity contains a CPU");
        self.set_home(e, cpu);
        let (ahead, _) = self.place_for(laxity, cpu, cx);
        let place = self.queues.insert_ahead(cpu, e, ahead);
        let late = self.rest_of_turn(cpu, cx).is_some_and(|rest| rest > laxity);
        self.tickle(e, cpu, cx);
        if late && place == 0 && matches!(cx.running(cpu), Running::Mine { .. }) {
            cx.kick(cpu);
        }
    }
}
