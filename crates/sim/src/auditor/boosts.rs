//! Whether a VM's vCPUs run boosted for no longer than they may, and have what is asked for them where they do not, by what
//! their host's events tell: it shares no code with the coordinator.

use crate::coordination::Coordination;
use sched::{EntityId, Instant, Nanos, Params};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Default, Debug)]
struct Member {
    boosted: bool,
    runs: bool,
    /// What is asked for it when it is not boosted, and what it has.
    base: Params,
    has: Params,
    /// Whether the coordinator is about to change its parameters.
    turns: bool,
    /// CPU time it has had boosted since it last woke or was not boosted.
    held: Nanos,
}

/// The boosts of one VM.
#[derive(Debug)]
pub(super) struct Boosts {
    with: Coordination,
    members: BTreeMap<EntityId, Member>,
    /// When the current window ends, and what was had boosted in it.
    closes: Instant,
    had: Nanos,
    upto: Instant,
    /// What was wrong at this instant.
    pub(super) wrong: Option<String>,
}

impl Boosts {
    pub(super) fn new(with: Coordination) -> Boosts {
        let (members, upto) = (BTreeMap::new(), Instant::ZERO);
        Boosts { with, members, closes: Instant::NEVER, had: Nanos::ZERO, upto, wrong: None }
    }

    /// A vCPU of it has come, for which `params` are asked.
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

    /// A vCPU is boosted, or is no more.
    pub(super) fn told(&mut self, entity: EntityId, boosted: bool) {
        let member = self.members.entry(entity).or_default();
        member.boosted = boosted;
        member.turns = boosted || member.has != member.base;
        if !boosted {
            member.held = Nanos::ZERO;
        }
    }

    /// Something else is asked for a vCPU.
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

    /// It is `now`. What is wrong, if anything is.
    pub(super) fn count(&mut self, now: Instant) -> Option<String> {
        let Coordination { budget, window, limit, .. } = self.with;
        let mut wrong = None;
        if self.upto < now
            && let Some((entity, member)) = self.members.iter_mut().find(|(_, member)| member.turns)
        {
            member.turns = false;
            wrong = Some(format!("{entity:?} was said to be boosted or not, and has what it had"));
        }
        while self.upto < now && self.closes != Instant::NEVER {
            let upto = now.min(self.closes);
            let (time, before) = (upto.since(self.upto), self.had);
            for (entity, member) in self.members.iter_mut().filter(|(_, member)| member.boosted && member.runs) {
                self.had += time;
                member.held += time;
                // Each is said once, when it happens.
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
