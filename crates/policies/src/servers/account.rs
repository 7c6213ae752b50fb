//! One server: a budget in every period, and the rule for a budget that the entity does not use.

use sched::{Instant, Limit, Nanos, PromiseState, Reservation};

/// The rule for a budget while its entity is blocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The budget is kept until the period ends.
    Deferrable,
    /// The budget decreases as if the entity used it.
    Periodic,
    /// The budget is lost at once. A budget that is replenished while the entity is blocked is lost, too.
    Polling,
    /// The budget is kept. The used amount is replenished one period after its use began.
    Sporadic,
}

/// Maximum number of pending replenishments of a sporadic budget. Further replenishments are merged with the last
/// pending replenishment.
const RETURNS: usize = 8;

/// A pending replenishment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Return {
    at: Instant,
    amount: Nanos,
}

/// The server of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    kind: Kind,
    budget: Nanos,
    period: Nanos,
    /// Time from the beginning of a period to the deadline of the period.
    relative_deadline: Nanos,
    /// Whether the entity continues at a less urgent level when its budget is used up.
    extra: bool,
    /// Remaining budget. The value is below zero only until the next update.
    left: i64,
    /// End of the period; meaningless for a sporadic server.
    renewal: Instant,
    pub(crate) deadline: Instant,
    /// Number of extra budgets that the server has received in this period; 0: the server uses its own budget.
    pub(crate) level: u32,
    /// Whether the server waits for a replenishment of its budget.
    pub(crate) depleted: bool,
    /// Instant of the last block of the entity.
    blocked: Instant,
    /// Start of the current use of a sporadic budget.
    begun: Instant,
    /// Amount of the current use of a sporadic budget.
    used: Nanos,
    returns: [Option<Return>; RETURNS],
}

impl Server {
    /// Returns the server for `asked`. One of its periods begins at `begin`, and no period begins before `begin`.
    pub(crate) fn new(kind: Kind, asked: &Reservation, extratime: bool, begin: Instant, now: Instant) -> Server {
        let mut server = Server {
            kind,
            budget: asked.slice,
            period: asked.period,
            relative_deadline: asked.relative_deadline(),
            extra: extratime && asked.limit == Limit::Soft,
            left: 0,
            renewal: begin,
            deadline: begin,
            level: 0,
            depleted: false,
            blocked: now,
            begun: begin,
            used: Nanos::ZERO,
            returns: [None; RETURNS],
        };
        if begin > now {
            server.give_back(Return { at: begin, amount: asked.slice });
            server.exhaust();
        } else {
            server.renew(now);
        }
        server
    }

    /// Returns the relative deadline. Under fixed priorities, a shorter relative deadline is more urgent.
    pub(crate) fn relative_deadline(&self) -> Nanos {
        self.relative_deadline
    }

    /// Returns the promise state of the current period. Above level 0, the server has used up its own budget.
    pub(crate) fn promise(&self) -> PromiseState {
        let remaining = if self.level == 0 { self.left } else { 0 };
        PromiseState { slice: self.budget, period: self.period, deadline: self.deadline, remaining }
    }

    /// Returns the remaining budget.
    pub(crate) fn left(&self) -> Nanos {
        Nanos::ns(self.left.max(0).unsigned_abs())
    }

    /// Returns the instant of the next update while the entity is runnable.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        match self.kind {
            Kind::Sporadic => self.returns.iter().flatten().map(|coming| coming.at).min(),
            _ => Some(self.renewal),
        }
    }

    /// Charges `ran` to the budget.
    pub(crate) fn charge(&mut self, ran: Nanos) {
        self.left = self.left.saturating_sub_unsigned(ran.as_ns());
        if self.level == 0 {
            self.used += ran;
        }
        if self.left <= 0 && !self.depleted {
            self.exhaust();
        }
    }

    /// Updates the budget when the entity blocks.
    pub(crate) fn block(&mut self, now: Instant) {
        self.blocked = now;
        match self.kind {
            Kind::Sporadic => self.end_use(),
            Kind::Polling if self.level == 0 && !self.depleted => self.exhaust(),
            Kind::Polling | Kind::Deferrable | Kind::Periodic => {}
        }
    }

    /// Updates the budget when the entity wakes.
    pub(crate) fn wake(&mut self, now: Instant) {
        if self.kind == Kind::Sporadic {
            self.collect(now);
            self.begin_use(now);
            return;
        }
        if now >= self.renewal {
            self.renew(now);
        }
        if self.level > 0 || self.depleted {
            return;
        }
        let begin = Instant::ZERO + self.renewal.since(Instant::ZERO).saturating_sub(self.period);
        match self.kind {
            Kind::Polling if begin < now && self.blocked < now => self.exhaust(),
            Kind::Periodic => {
                let drained = now.since(self.blocked.max(begin));
                self.left = self.left.saturating_sub_unsigned(drained.as_ns());
                if self.left <= 0 {
                    self.exhaust();
                }
            }
            Kind::Polling | Kind::Deferrable | Kind::Sporadic => {}
        }
    }

    /// Updates the budget at the instant that [`next_event`](Server::next_event) returned, while the entity is
    /// runnable.
    pub(crate) fn renew_at(&mut self, now: Instant) {
        match self.kind {
            Kind::Sporadic => {
                let lacked = self.depleted || self.level > 0;
                self.collect(now);
                if lacked && !self.depleted && self.level == 0 {
                    self.begin_use(now);
                }
            }
            _ if now >= self.renewal => self.renew(now),
            _ => {}
        }
    }

    /// Begins the period that contains `now`, with a full budget.
    fn renew(&mut self, now: Instant) {
        let passed = now.since(self.renewal).as_ns() / self.period.as_ns();
        let begin = self.renewal.saturating_add(self.period.saturating_mul(passed));
        self.renewal = begin.saturating_add(self.period);
        self.deadline = begin.saturating_add(self.relative_deadline);
        self.left = self.budget.as_ns().cast_signed();
        (self.level, self.depleted) = (0, false);
    }

    /// Handles a used-up budget. The entity continues at a less urgent level with another budget, or waits.
    fn exhaust(&mut self) {
        self.end_use();
        if self.extra {
            self.level = self.level.saturating_add(1);
            self.left = self.budget.as_ns().cast_signed();
        } else {
            (self.left, self.depleted) = (0, true);
        }
    }

    // ---- Sporadic ----

    fn begin_use(&mut self, now: Instant) {
        self.begun = now;
        self.deadline = now.saturating_add(self.relative_deadline);
    }

    /// Ends the use of a sporadic budget. The used amount is replenished a period after its use began.
    fn end_use(&mut self) {
        let amount = std::mem::replace(&mut self.used, Nanos::ZERO);
        if self.kind == Kind::Sporadic && !amount.is_zero() {
            self.give_back(Return { at: self.begun.saturating_add(self.period), amount });
        }
    }

    fn give_back(&mut self, coming: Return) {
        let free = self.returns.iter().position(Option::is_none).unwrap_or(RETURNS - 1);
        let later = self.returns[free]
            .map_or(coming, |last| Return { at: last.at.max(coming.at), amount: last.amount + coming.amount });
        self.returns[free] = Some(later);
    }

    /// Adds the due replenishments.
    fn collect(&mut self, now: Instant) {
        let mut amount = Nanos::ZERO;
        for slot in &mut self.returns {
            if let Some(coming) = slot.filter(|coming| coming.at <= now) {
                amount += coming.amount;
                *slot = None;
            }
        }
        if amount.is_zero() {
            return;
        }
        if self.level > 0 || self.depleted {
            (self.level, self.depleted, self.left) = (0, false, 0);
        }
        let full = self.budget.as_ns().cast_signed();
        self.left = self.left.saturating_add_unsigned(amount.as_ns()).min(full);
    }
}
