//! From the events of the host, checks the boosts of a VM's vCPUs against the budget and the limit. Also checks the
//! parameters of vCPUs without a boost. The checks share no code with the coordinator.

use coordination::Coordination;
use sched::{EntityId, Instant, Nanos, Params};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Default, Debug)]
struct Member {
    boosted: bool,
    runs: bool,
    /// Requested parameters without a boost, and current parameters.
    base: Params,
    has: Params,
    /// Whether a change of the vCPU's parameters by the coordinator is pending.
    turns: bool,
    /// Boosted CPU time since the vCPU last woke or last had no boost.
    held: Nanos,
}

/// The boosts of one VM.
#[derive(Debug)]
pub(super) struct Boosts {
    with: Coordination,
    members: BTreeMap<EntityId, Member>,
    /// End of the current window, and boosted time in this window.
    closes: Instant,
    had: Nanos,
    upto: Instant,
    /// Violation found at this instant.
    pub(super) wrong: Option<String>,
}

impl Boosts {
    pub(super) fn new(with: Coordination) -> Boosts {
        let (members, upto) = (BTreeMap::new(), Instant::ZERO);
        Boosts { with, members, closes: Instant::NEVER, had: Nanos::ZERO, upto, wrong: None }
    }

    /// Adds a vCPU of the VM with the requested `params`.
    pub(super) fn comes(&mut self, entity: EntityId, params: Params, now: Instant) {
        if self.members.is_empty() {
            (self.upto, self.closes) = (now, now.saturating_add(self.with.window));
        }
        self.members.insert(entity, Member { base: params, has: params, ..Member::default() });
    }

    pub(super) fn runs(&mut self, entity: EntityId, runs: bool) {
        self.members.entry(entity).or_default().runs = runs;
    }

    pub(super) fn wakes(&mut self, entity: EntityId) {
        self.members.entry(entity).or_default().held = Nanos::ZERO;
    }

    /// Records that a vCPU is boosted, or is no longer boosted.
    pub(super) fn told(&mut self, entity: EntityId, boosted: bool) {
        let member = self.members.entry(entity).or_default();
        member.boosted = boosted;
        member.turns = boosted || member.has != member.base;
        if !boosted {
            member.held = Nanos::ZERO;
        }
    }

    /// Records a request for new parameters of a vCPU.
    pub(super) fn asked(&mut self, entity: EntityId, params: &Params) {
        let member = self.members.entry(entity).or_default();
        member.has = *params;
        if !std::mem::take(&mut member.turns) {
            member.base = *params;
        } else if !member.boosted && member.has != member.base {
            let (has, base) = (member.has, member.base);
            self.wrong = Some(format!("{entity:?} is not boosted any more and has {has:?}, but {base:?} is asked"));
        }
    }

    /// Advances to `now`. Returns one of the violations found, if any.
    pub(super) fn count(&mut self, now: Instant) -> Option<String> {
        let Coordination { budget, window, limit, .. } = self.with;
        let mut wrong = None;
        if self.upto < now
            && let Some((entity, member)) = self.members.iter_mut().find(|(_, member)| member.turns)
        {
            member.turns = false;
            wrong = Some(format!("{entity:?} has a boost event without a change of its parameters"));
        }
        while self.upto < now && self.closes != Instant::NEVER {
            let upto = now.min(self.closes);
            let (time, before) = (upto.since(self.upto), self.had);
            for (entity, member) in self.members.iter_mut().filter(|(_, member)| member.boosted && member.runs) {
                self.had += time;
                member.held += time;
                // A violation is reported once, when the limit is first exceeded.
                if member.held > limit && member.held.saturating_sub(time) <= limit {
                    let held = member.held;
                    wrong = Some(format!("{entity:?} ran boosted for {held} without letting go, but may for {limit}"));
                }
            }
            if self.had > budget && before <= budget {
                let had = self.had;
                wrong = Some(format!(
                    "a VM ran boosted for {had} of the window until {}, but may for {budget}",
                    self.closes
                ));
            }
            self.upto = upto;
            if upto == self.closes {
                self.had = Nanos::ZERO;
                self.closes = self.closes.saturating_add(window);
            }
        }
        wrong
    }
}
