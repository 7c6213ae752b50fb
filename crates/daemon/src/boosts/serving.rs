//! [`Serving`]: the thread that reads the hints of a VM, and boosts its vCPUs.

use super::agent_port::AgentPort;
use super::carrier_watch::CarrierWatch;
use super::loans::{Lent, Loans, VmThreads};
use super::observers::Observers;
use coordination::wire::FromGuest;
use coordination::{Booster, Coordination};
use sched::{Instant, Nanos};
use std::os::unix::net::UnixListener;
use std::path::Path;
use sys::event::{Bell, Waiting};
use sys::{Error, Result, clock};

/// Time from the instant at which the boosts of all vCPUs have lapsed until the guardian ends the loans: this thread comes first.
const LATE: Nanos = Nanos::ms(2);
/// Least time between two beginnings of loans: a VM may execute programs, which ends its loans, as often as it likes.
const RENEWED: Nanos = Nanos::s(1);
/// Interval between reports.
const REPORT: Nanos = Nanos::s(1);
/// The sources of events.
const END: u64 = 0;
const PORT: u64 = 1;
const LOANS: u64 = 2;
const OBSERVERS: u64 = 3;
const OBSERVER: u64 = 4;
const CARRIERS: u64 = 5;

/// How a VM is boosted.
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
#[derive(Clone, Copy)]
pub struct Options<'o> {
    /// The protocol, the boost, which is a real-time priority of at most 90, and the limits.
    pub with: Coordination,
    /// This program, which runs the guardian of loans as its command [`COMMAND`](super::COMMAND).
    pub program: &'o Path,
    /// Ends the boosts when it rings.
    pub end: &'o Bell,
    /// Receives what came of the hints, once a second, at a real-time priority. It must not block.
    pub report: &'o dyn Fn(Boosted),
    /// Socket at which another process may read what the agent says ([`Observed`](super::Observed)).
    pub observers: Option<&'o UnixListener>,
}

/// What came of the hints of a VM.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Boosted {
    /// Whether an agent is welcome now.
    pub is_welcome: bool,
    /// Number of hints.
    pub hints: u64,
    /// Number of times at which an interrupt was on its way.
    pub interrupts: u64,
    /// Number of boosts of vCPUs.
    pub boosts: u64,
    /// CPU time of the vCPUs and of the carriers while they were boosted.
    pub boosted: Nanos,
    /// Number of boosts that were refused or ended because the budget was used up.
    pub over_budget: u64,
    /// Number of bytes that were no message, and of hints that came late, twice or about a vCPU that the guest lacks.
    pub dropped: u64,
}

/// Why the boosts of a VM ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The caller has requested it.
    Requested,
    /// The VM has closed the port.
    Closed,
    /// A vCPU has ended.
    Ended,
}

/// Why the sources of events change.
enum Step {
    /// The boosts end.
    Over(Over),
    /// A loan or its guardian has ended.
    Loans,
    /// An observer has come or left, or the next one may come.
    Observer,
}

/// The thread that reads hints.
pub(super) struct Serving<'a> {
    port: AgentPort,
    carriers: Option<CarrierWatch>,
    threads: &'a VmThreads,
    options: Options<'a>,
    priority: u32,
    loans: Loans,
    booster: Booster,
    observers: Option<Observers<'a>>,
    /// Whether each vCPU is boosted.
    boosted: Vec<bool>,
    /// Instant at which the guardian ends the loans.
    lapse: Instant,
    /// Instant from which loans may begin anew.
    renews: Instant,
    /// Instant of the next report.
    reports: Instant,
    hints: u64,
    interrupts: u64,
    boosts: u64,
}

impl<'a> Serving<'a> {
    pub(super) fn new(
        port: AgentPort,
        carriers: Option<CarrierWatch>,
        threads: &'a VmThreads,
        options: Options<'a>,
        priority: u32,
        loans: Loans,
    ) -> Result<Serving<'a>> {
        let (vcpus, now) = (threads.vcpus.len(), clock::now());
        let observers = options.observers.map(|listener| Observers::new(listener, vcpus)).transpose();
        let observers = observers.map_err(|source| Error::Call { what: "listen for observers".to_string(), source })?;
        Ok(Serving {
            port,
            carriers,
            threads,
            options,
            priority,
            loans,
            booster: Booster::new(options.with, vcpus, now),
            observers,
            boosted: vec![false; vcpus],
            lapse: Instant::NEVER,
            renews: Instant::ZERO,
            reports: now,
            hints: 0,
            interrupts: 0,
            boosts: 0,
        })
    }

    /// Serves the port until the end of the boosts.
    pub(super) fn run(mut self) -> Result<(Boosted, Over)> {
        let over = loop {
            match self.serve_with_sources()? {
                Step::Over(over) => break over,
                Step::Loans if !self.renew_loans()? => break Over::Ended,
                Step::Loans | Step::Observer => {}
            }
        };
        self.booster.clear();
        self.decide()?;
        Ok((self.found(), over))
    }

    /// Serves the port until the sources of events change.
    fn serve_with_sources(&mut self) -> Result<Step> {
        // With and without the port, and with and without the carriers: each pauses after it was read.
        let sets = [
            [self.sources(false, false)?, self.sources(false, true)?],
            [self.sources(true, false)?, self.sources(true, true)?],
        ];
        // A ring reports once that it is readable, and has reported it to a former set, or to none. A ring that is full reports nothing.
        self.look_for_interrupts();
        self.decide()?;
        loop {
            let now = clock::now();
            if self.reports <= now {
                (self.options.report)(self.found());
                self.reports = now.saturating_add(REPORT);
            }
            let accepts = self.observers.as_ref().map_or(Instant::NEVER, |observers| observers.resumes(now));
            let pauses = [self.port.resumes(), self.carriers.as_ref().map_or(now, CarrierWatch::resumes)];
            let next = self.booster.next().min(self.reports).min(accepts);
            let next = pauses.iter().filter(|resumes| **resumes > now).fold(next, |next, resumes| next.min(*resumes));
            let [reads_port, looks] = pauses.map(|resumes| usize::from(resumes <= now));
            let event = sets[reads_port][looks].next(next)?;
            let woken = clock::now();
            if self.lapse <= woken {
                self.forget()?;
            }
            match event {
                Some(END) => return Ok(Step::Over(Over::Requested)),
                Some(LOANS) => return Ok(Step::Loans),
                Some(PORT) if !self.read() => return Ok(Step::Over(Over::Closed)),
                Some(CARRIERS) => self.look_for_interrupts(),
                Some(event @ (OBSERVERS | OBSERVER)) => self.observe(event),
                None if accepts <= clock::now() => return Ok(Step::Observer),
                _ => {}
            }
            self.decide()?;
            if let (Some(CARRIERS), Some(carriers)) = (event, &mut self.carriers) {
                let now = clock::now();
                carriers.rest(now.since(woken), now);
            }
            if let Some(observers) = &mut self.observers
                && observers.has_changed()
            {
                if observers.observer.is_none() {
                    self.port.watch(None);
                }
                return Ok(Step::Observer);
            }
        }
    }

    /// Returns the sources of events, with those that pause or without.
    fn sources(&self, with_port: bool, with_carriers: bool) -> Result<Waiting> {
        let waiting = Waiting::new()?;
        waiting.add(self.options.end, END)?;
        waiting.add(&*self.loans.ended, LOANS)?;
        waiting.add(&self.loans.guardian, LOANS)?;
        if let Some(observers) = &self.observers {
            observers.listener(clock::now()).map_or(Ok(()), |listener| waiting.add(listener, OBSERVERS))?;
            observers.observer.iter().try_for_each(|observer| waiting.add(observer, OBSERVER))?;
        }
        if with_port {
            waiting.add(&self.port, PORT)?;
        }
        if let Some(carriers) = self.carriers.as_ref().filter(|_| with_carriers) {
            waiting.add(carriers, CARRIERS)?;
        }
        Ok(waiting)
    }

    /// A carrier may have woken.
    fn look_for_interrupts(&mut self) {
        let now = clock::now();
        if let Some(woken) = self.carriers.as_mut().and_then(|carriers| carriers.look(now)) {
            self.interrupts += 1;
            self.booster.unannounced_interrupt(now, woken.is_by_device);
        }
    }

    /// An observer connects, asks or leaves.
    fn observe(&mut self, event: u64) {
        let Some(observers) = &mut self.observers else { return };
        match event {
            OBSERVERS => observers.accept(),
            _ => self.port.watch(observers.request()),
        }
    }

    /// Begins new loans in place of those that have ended. Returns false if a vCPU has ended.
    fn renew_loans(&mut self) -> Result<bool> {
        self.forget()?;
        clock::sleep_until(self.renews);
        self.renews = clock::now().saturating_add(RENEWED);
        match Loans::begin(self.threads, self.options.program, self.priority + 3) {
            Ok(loans) => self.loans = loans,
            Err(Error::Gone(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Forgets all hints and ends all boosts, after the guardian has ended the loans: this thread was late or this process was stopped, and what
    /// the vCPUs used meanwhile was not boosted.
    fn forget(&mut self) -> Result<()> {
        let loans = &self.loans;
        loans.vcpus.iter().chain(&loans.carriers).try_for_each(|lent| lent.set(None))?;
        self.boosted.fill(false);
        self.booster.clear();
        self.decide()
    }

    /// Returns what came of the hints so far.
    fn found(&self) -> Boosted {
        Boosted {
            is_welcome: self.port.is_welcome(),
            hints: self.hints,
            interrupts: self.interrupts,
            boosts: self.boosts,
            boosted: self.booster.boosted(),
            over_budget: self.booster.over_budget(),
            dropped: self.port.skipped() + self.booster.dropped(),
        }
    }

    /// Reads messages. Returns false if the VM has closed the port.
    fn read(&mut self) -> bool {
        let Serving { port, booster, hints, observers, .. } = self;
        port.read(|message, now| {
            match message {
                FromGuest::Hello { .. } | FromGuest::Goodbye => booster.clear(),
                FromGuest::Hint(hint) => {
                    *hints += 1;
                    booster.receive(hint, now);
                }
                FromGuest::Woken(_) => {}
            }
            if let Some(observers) = observers {
                observers.pass(message, now);
            }
        })
    }

    fn decide(&mut self) -> Result<()> {
        let is_boosted = self.boosted.clone();
        let was_any = is_boosted.contains(&true);
        let of_vcpu = |(lent, &is_boosted): (&mut Lent, &bool)| if is_boosted { lent.used() } else { Nanos::ZERO };
        let used: Vec<Nanos> = self.loans.vcpus.iter_mut().zip(&is_boosted).map(of_vcpu).collect();
        if was_any {
            self.spend_carriers();
        }
        let boosted = &mut self.boosted;
        self.booster.decide(clock::now(), &used, |vcpu, boost| boosted[vcpu] = boost.is_some());
        let is_any = boosted.contains(&true);
        self.lapse = if is_any { self.booster.lapses().saturating_add(LATE) } else { Instant::NEVER };
        self.loans.lapse_at(self.lapse)?;
        if is_any && !was_any {
            self.loans.carriers.iter().try_for_each(|lent| lent.set(Some(self.priority + 1)))?;
            for lent in &mut self.loans.carriers {
                lent.used();
            }
        }
        for (vcpu, lent) in self.loans.vcpus.iter_mut().enumerate() {
            if self.boosted[vcpu] == is_boosted[vcpu] {
                continue;
            }
            // The kernel brings the CPU time of a thread up to date when its priority changes, and else at a tick.
            lent.set(self.boosted[vcpu].then_some(self.priority))?;
            let time = lent.used();
            if self.boosted[vcpu] {
                self.boosts += 1;
            } else {
                self.booster.spend(time);
            }
        }
        if was_any && !is_any {
            self.loans.carriers.iter().try_for_each(|lent| lent.set(None))?;
            self.spend_carriers();
        }
        Ok(())
    }

    /// Counts the CPU time of the carriers since the last call.
    fn spend_carriers(&mut self) {
        for lent in &mut self.loans.carriers {
            self.booster.spend(lent.used());
        }
    }
}
