//! The promises and shares of a core, as its command thread has made them.

use super::message::{ProcessId, PromiseInForce, Roster, ShareInForce};
use crate::dispatch::{Others, PromiseRequest};
use crate::kernel::CpuShare;
use sched::{EntityId, Nanos};

impl Roster {
    pub(super) fn made(&mut self, entities: &[EntityId], process: ProcessId, request: PromiseRequest) {
        let gang = match request.others {
            Others::None => None,
            Others::Later => entities.first().copied(),
            Others::Of(e) => self.promise_of(e).map_or(Some(e), |it| it.gang),
        };
        self.promises.push(PromiseInForce { entities: entities.to_vec(), short: Vec::new(), process, request, gang });
    }

    /// Records a change of the promise that `e` is part of. The promises of a gang change together.
    pub(super) fn changed(&mut self, e: EntityId, slice: Nanos, period: Nanos) {
        let gang = self.promise_of(e).and_then(|it| it.gang);
        let is_changed = |it: &&mut PromiseInForce| it.entities.contains(&e) || gang.is_some() && it.gang == gang;
        for it in self.promises.iter_mut().filter(is_changed) {
            (it.request.reservation.slice, it.request.reservation.period) = (slice, period);
        }
    }

    fn promise_of(&self, e: EntityId) -> Option<&PromiseInForce> {
        self.promises.iter().find(|it| it.entities.contains(&e))
    }

    pub(super) fn shared(&mut self, process: ProcessId, share: CpuShare) {
        self.shares.push(ShareInForce { process, share });
    }

    pub(super) fn unshared(&mut self, pid: u32) {
        self.shares.retain(|it| it.process.pid != pid);
    }

    /// Records the end of the promise to `e`.
    pub(super) fn ended(&mut self, e: EntityId) {
        self.judge(|other| (other != e).then_some(true));
    }

    /// Records whether each promise counts as kept, and removes the entities without a promise, for which `is_kept` returns
    /// `None`.
    pub(super) fn judge(&mut self, is_kept: impl Fn(EntityId) -> Option<bool>) {
        for it in &mut self.promises {
            it.entities.retain(|&e| is_kept(e).is_some());
            it.short = it.entities.iter().copied().filter(|&e| is_kept(e) == Some(false)).collect();
        }
        self.promises.retain(|it| !it.entities.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Reservation;

    fn entity(index: u32) -> EntityId {
        EntityId::new(index, 0)
    }

    #[test]
    fn the_promises_of_a_gang_change_together_and_end_apart() {
        let request = |others| PromiseRequest {
            others,
            ..PromiseRequest::new("vm", Reservation::new(Nanos::ms(1), Nanos::ms(10)))
        };
        let process = ProcessId { pid: 7, start_time: Some(1) };
        let mut roster = Roster::default();
        roster.made(&[entity(0), entity(1)], process, request(Others::Later));
        roster.made(&[entity(2)], process, request(Others::Of(entity(0))));
        roster.made(&[entity(3)], process, request(Others::None));
        roster.changed(entity(2), Nanos::ms(2), Nanos::ms(20));
        roster.changed(entity(9), Nanos::ms(3), Nanos::ms(30));
        let slices =
            |roster: &Roster| roster.promises.iter().map(|it| it.request.reservation.slice).collect::<Vec<_>>();
        assert_eq!(slices(&roster), [Nanos::ms(2), Nanos::ms(2), Nanos::ms(1)]);
        roster.judge(|e| (e.index() != 1 && e.index() != 3).then_some(e.index() == 0));
        assert_eq!(roster.promises[1].short, [entity(2)]);
        assert_eq!(
            roster.promises.iter().map(|it| it.entities.clone()).collect::<Vec<_>>(),
            [vec![entity(0)], vec![entity(2)]]
        );
        roster.shared(process, CpuShare { weight: Some(200), cap_percent: None });
        roster.unshared(8);
        assert_eq!(roster.shares.len(), 1);
        roster.unshared(7);
        assert_eq!(roster.shares, []);
    }
}
