//! The progress of time: the rounds of an instant, and the visits of machines in a round. A budget can end a call
//! between two visits, or between two releases or alarms of a visit. The next call continues at that point.

use super::World;
use super::part::Part;
use crate::driver::Driver;
use crate::stuck::Stuck;
use sched::Instant;
use trace::Event;

/// The maximum number of rounds of one instant. If an instant needs more rounds, the world assumes that the instant
/// never ends.
const ROUNDS_MOST: usize = 10_000;

/// The number of instants between checks for sinks that ignore later events.
const INSTANTS_A_ROUND: u64 = 1_024;

impl World<'_> {
    /// Processes every event before `end`, and advances to `end`.
    ///
    /// # Errors
    /// The run cannot continue, for example because programs deadlock or loop without using time. The world stays at
    /// the instant of the error.
    pub fn run_until(&mut self, end: Instant) -> Result<(), Box<Stuck>> {
        let mut unlimited = u64::MAX;
        let is_there = self.run_within(end, &mut unlimited)?;
        assert!(is_there, "no run does so much");
        Ok(())
    }

    /// Runs until `end` or until `budget` is used up. Returns whether the run is at `end`. `budget` counts releases,
    /// alarms, inputs and visits of machines, and decreases by the work done. The inputs of the last visit may exceed
    /// the budget; releases and alarms never exceed it. A run in several calls gives the same events as a run in one
    /// call. Between two calls, an instant may be incomplete.
    ///
    /// # Errors
    /// The errors of [`run_until`](World::run_until).
    pub fn run_within(&mut self, end: Instant, budget: &mut u64) -> Result<bool, Box<Stuck>> {
        self.budget = *budget;
        let answer = self.run_in_budget(end);
        *budget = self.budget;
        answer
    }

    fn run_in_budget(&mut self, end: Instant) -> Result<bool, Box<Stuck>> {
        assert!(end >= self.now, "time never goes back");
        for round in 0_u64.. {
            if round.is_multiple_of(INSTANTS_A_ROUND) {
                self.release_watchers();
            }
            let next = self.guests.next().min(self.hosts.next()).min(self.halts.next());
            let next = next.min(self.reviews.next().min(self.network.next()));
            if next >= end {
                break;
            }
            if self.budget == 0 {
                return Ok(false);
            }
            if self.machines.len() == 1 && self.hosts.next() < self.network.next() {
                self.run_alone(end.min(self.network.next()))?;
                continue;
            }
            if next > self.now {
                (self.now, self.rounds) = (next, 0);
            }
            self.instant()?;
        }
        (self.now, self.rounds) = (end, 0);
        Ok(true)
    }

    /// Runs the only machine until `end`, for a bounded number of instants, or until the world has to act.
    fn run_alone(&mut self, end: Instant) -> Result<(), Box<Stuck>> {
        self.release_watchers();
        // The machine itself continues an incomplete instant.
        self.part = Part::Arrivals;
        let mut next = self.hosts.next();
        let machine = &mut self.machines[0];
        machine.budget = self.budget;
        let before = machine.inputs;
        let mut instants = 0;
        while next < end && instants < INSTANTS_A_ROUND && machine.inputs - before < machine.budget {
            instants += 1;
            self.now = next;
            machine.cpus.now = next;
            if !machine.instant() {
                break;
            }
            if machine.concerns_world() {
                self.budget = machine.budget.saturating_sub(instants + machine.inputs - before);
                return self.end_host_visit(0);
            }
            next = machine.next();
        }
        self.budget = machine.budget.saturating_sub(instants + machine.inputs - before);
        self.hosts.set(self.places[0].number, next);
        Ok(())
    }

    /// Releases sinks that ignore later events.
    fn release_watchers(&mut self) {
        let mut watchers = self.watchers.borrow_mut();
        if watchers.is_empty() {
            return;
        }
        watchers.retain(|watcher| !watcher.is_over());
        if watchers.is_empty() {
            self.machines.iter_mut().for_each(Driver::end_world_watch);
        }
    }

    /// Runs until `end` and ends the run for all sinks.
    ///
    /// # Errors
    /// The errors of [`run_until`](World::run_until). The run ends for all sinks in this case, too.
    pub fn finish(&mut self, end: Instant) -> Result<(), Box<Stuck>> {
        let answer = self.run_until(end);
        self.check_flows();
        for machine in &mut self.machines {
            machine.cpus.now = self.now;
            machine.show(|| Event::End);
        }
        answer
    }

    /// Returns the stalls of applications that [may stall](crate::Application::may_stall): the instant, and the object
    /// of each waiting task.
    pub fn stalls(&self) -> impl Iterator<Item = &Stuck> {
        self.machines.iter().flat_map(|machine| &machine.stalls)
    }

    /// Runs the next rounds of this instant, until nothing is due or the budget is used up.
    fn instant(&mut self) -> Result<(), Box<Stuck>> {
        let now = self.now;
        let mut from = self.part;
        if from != Part::Arrivals {
            self.part = Part::Arrivals;
        }
        while self.rounds < ROUNDS_MOST || from != Part::Arrivals {
            if from == Part::Arrivals {
                self.rounds += 1;
                self.arrivals();
            }
            if from != Part::Hosts {
                while self.guests.next() == now {
                    if self.budget == 0 {
                        self.part = Part::Guests;
                        return Ok(());
                    }
                    self.visit_guest(self.guests.first())?;
                }
                if self.hosts.next() != now && self.network.next() != now {
                    self.rounds = 0;
                    return Ok(());
                }
            }
            while self.hosts.next() == now {
                if self.budget == 0 {
                    self.part = Part::Hosts;
                    return Ok(());
                }
                self.last_host = self.hosts.first();
                self.visit_host(self.last_host)?;
            }
            if self.budget == 0 {
                return Ok(());
            }
            from = Part::Arrivals;
        }
        Err(Box::new(Stuck {
            at: now,
            machine: self.machines[self.last_host].name.clone(),
            why: "guests and their host answer each other without using any time".to_string(),
            help: "give the tasks a step that runs or sleeps in every round",
            waiters: Vec::new(),
            more: 0,
        }))
    }

    /// Delivers the packets, reviews the boosts and halts the vCPUs that are due now.
    #[inline]
    fn arrivals(&mut self) {
        let now = self.now;
        if self.network.next() == now {
            self.deliver();
        }
        while self.reviews.next() == now {
            self.review(self.reviews.first());
        }
        while self.halts.next() == now {
            let number = self.halts.first();
            self.halts.clear(number);
            self.halt(number);
        }
    }

    /// Visits a guest. If the budget runs out during the visit, the guest stays due, and its next visit continues this
    /// one.
    #[inline]
    fn visit_guest(&mut self, index: usize) -> Result<(), Box<Stuck>> {
        let machine = &mut self.machines[index];
        let before = machine.inputs;
        machine.cpus.now = self.now;
        machine.budget = self.budget;
        if !machine.instant() {
            self.budget = 0;
            return Ok(());
        }
        self.pass_traffic(index)?;
        if self.coordinates && self.coordination[index].is_some() {
            self.coordinate(index);
        }
        self.answer_guest(index);
        let machine = &self.machines[index];
        self.budget = machine.budget.saturating_sub(1 + machine.inputs - before);
        self.guests.set(self.places[index].number, machine.next());
        Ok(())
    }

    /// Visits a host. If the budget runs out during the visit, the host stays due, and its next visit continues this
    /// one.
    #[inline]
    fn visit_host(&mut self, index: usize) -> Result<(), Box<Stuck>> {
        let machine = &mut self.machines[index];
        let before = machine.inputs;
        machine.cpus.now = self.now;
        machine.budget = self.budget;
        if !machine.instant() {
            self.budget = 0;
            return Ok(());
        }
        self.budget = machine.budget.saturating_sub(1 + machine.inputs - before);
        self.end_host_visit(index)
    }

    /// Reacts to the events of a host at this instant.
    #[inline]
    fn end_host_visit(&mut self, index: usize) -> Result<(), Box<Stuck>> {
        self.pass_traffic(index)?;
        if self.machines[index].cpus.outbox.coordinates {
            self.coordinate_host(index);
        }
        self.answer_host(index);
        if self.halts.next() != Instant::NEVER {
            self.cut_polls(index);
        }
        self.hosts.set(self.places[index].number, self.machines[index].next());
        Ok(())
    }

    /// Sends the traffic of a machine to its next hops, and processes the work that becomes due on the machine at this
    /// instant. The budget does not bound this work, because each packet wakes few tasks.
    ///
    /// # Errors
    /// The machine cannot continue.
    #[inline]
    fn pass_traffic(&mut self, index: usize) -> Result<(), Box<Stuck>> {
        while self.machines[index].cpus.outbox.has_traffic() && self.machines[index].stuck.is_none() {
            self.ship(index);
            self.machines[index].whole_instant();
        }
        self.machines[index].stuck.take().map_or(Ok(()), Err)
    }
}
