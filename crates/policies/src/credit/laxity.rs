//! Insertion by laxity: as far back as the delay allows that an entity says it can live with.

use super::Credit;
use sched::{CpuId, Cx, EntityId, Nanos, Running};

impl Credit {
    /// The same, but that who wakes UNDER and has named a delay is queued by it. Everybody ahead of it is expected to run for
    /// `ahead`.
    pub(crate) fn by_laxity(self, ahead: Nanos) -> Credit {
        Credit { by_laxity: Some(ahead), ..self }
    }

    /// How long who runs on `cpu` may go on; `None` if it idles.
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

    /// How many may be ahead on `cpu` of somebody that can wait for `laxity`, and how long it is then expected to wait.
    fn place_for(&self, laxity: Nanos, cpu: CpuId, cx: &Cx<'_>) -> (usize, Nanos) {
        let each = self.by_laxity.unwrap_or(self.settings.slice);
        let Some(rest) = self.rest_of_turn(cpu, cx) else { return (0, Nanos::ZERO) };
        let fit = laxity.saturating_sub(rest).as_ns() / each.as_ns();
        let ahead = self.queues.iter(cpu).take(usize::try_from(fit).unwrap_or(usize::MAX)).count();
        (ahead, rest.saturating_add(each.saturating_mul(ahead as u64)))
    }

    /// Queues `e`, which wakes UNDER, where it waits the shortest: on its home, or else near it; there as far back as `laxity`
    /// allows, and preempts who runs if not even the head of the queue is soon enough.
    pub(crate) fn enqueue_by_laxity(&mut self, e: EntityId, laxity: Nanos, cx: &mut Cx<'_>) {
        let home = self.vcpus[e.index()].home;
        let cost = |cpu: CpuId| {
            let (_, wait) = self.place_for(laxity, cpu, cx);
            (wait.min(laxity), cpu != home, !cx.topology().share_cache(cpu, home), cpu.index())
        };
        let allowed = cx.allowed(e);
        let cpu = allowed.iter().min_by_key(|&cpu| cost(cpu)).expect("everybody may run somewhere");
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
