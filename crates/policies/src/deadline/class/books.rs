//! Admitted bandwidth: the bandwidth of each entity, and its return after a detachment.

use super::{Deadline, RETURN};
use crate::admission::Utilisation;
use crate::deadline::account::Account;
use sched::{CpuId, Cx, EntityId, Instant, Nanos, Params, Refused, Reservation, Topology};

impl Deadline {
    /// Returns the reservation in `params`, if this class accepts it.
    pub(super) fn asked(&self, params: &Params, host: &Topology) -> Result<Reservation, Refused> {
        let asked = params.reservation.expect("only entities with a reservation are in this class");
        if asked.period < self.period_least || asked.period > self.period_most {
            let (least, most) = (self.period_least, self.period_most);
            return Err(Refused::OutOfRange { what: "period", least, most });
        }
        if self.whole_machine && !host.all().minus(&params.affinity).is_empty() {
            return Err(Refused::Unsupported {
                reason: "reservations are admitted on all CPUs together",
                remedy: "use an affinity for all of them, or whole-machine = off",
            });
        }
        Ok(asked)
    }

    /// Admits `asked` for `e`, whose earlier reservation was withdrawn.
    pub(super) fn admit(&mut self, e: EntityId, asked: &Reservation, cx: &Cx<'_>) -> Result<Utilisation, Refused> {
        let share = if self.by_density { Utilisation::density(asked) } else { Utilisation::of(asked) };
        let Deadline { tasks, leaving, servers, admission, .. } = self;
        let others = |_| {
            let members = tasks.iter().enumerate().filter(|&(index, _)| index != e.index());
            let members = members.filter_map(|(_, task)| task.as_ref()).map(|task| &task.account.share);
            let gone = leaving.iter().filter(|gone| gone.id != e).map(|gone| &gone.account.share);
            members.chain(gone).chain(servers.iter())
        };
        let full = match admission.admit(share, None, &cx.topology().all(), others) {
            Ok(_) => return Ok(share),
            Err(full) => full,
        };
        Err(Refused::Utilisation { asked: *asked, free_ppm: full.free_ppm, on: full.on })
    }

    /// Frees the bandwidth of detached entities whose 0-lag time has passed.
    pub(super) fn give_back(&mut self, cx: &mut Cx<'_>) {
        self.settle_all(cx);
        let now = cx.now();
        while let Some(at) = self.leaving.iter().position(|gone| gone.until <= now) {
            let gone = self.leaving.swap_remove(at);
            self.withdraw(&gone.account, gone.cpu, true);
        }
        self.arm_return(cx);
        self.retime_all(cx);
    }

    pub(super) fn arm_return(&self, cx: &mut Cx<'_>) {
        match self.leaving.iter().map(|gone| gone.until).min().filter(|&at| at != Instant::NEVER) {
            Some(at) => cx.set_alarm(RETURN, CpuId::default(), at.max(cx.now() + Nanos::ns(1))),
            None => cx.clear_alarm(RETURN),
        }
    }

    /// Removes a reservation from all accounts.
    pub(super) fn withdraw(&mut self, account: &Account, counted: CpuId, active: bool) {
        self.admission.release(account.share, None);
        self.reclaim.remove(counted, account.share.units(), active);
        self.shares -= account.share.units();
        self.reclaim.promised(self.shares);
    }

    /// Adds a reservation to all accounts except that of admission control, which contains the reservation already.
    pub(super) fn enter(&mut self, account: &Account, counted: CpuId, active: bool) {
        self.reclaim.add(counted, account.share.units(), active);
        self.shares += account.share.units();
        self.reclaim.promised(self.shares);
    }
}
