//! Storms: seeded worlds in which the daemon keeps its promises and one of its processes fails at any of its acts. While
//! nobody has failed, promises are kept; a second after, everybody is what they were.
//!
//! ```text
//! a client that wants to run throughout a period gets its slice by its end
//! nobody gets more than its slice at real-time priority, nor, where its limit is hard, at all
//! 1 s after a fault: policy, priority, nice, affinity and stop of every thread that lives are what they would be without us
//! ```
//!
//! What the world itself brings late excuses as much, and so does the time that our own threads take. What somebody else has
//! set in between is left, or what it was before that, where we had to set it again.

mod judge;
mod neighbours;
mod options;
mod session;

pub use options::{Options, Plan, Who};

use daemon::dispatch::Wish;
use judge::Judge;
use neighbours::{Ledger, NUMBERS, Neighbours};
use sched::{CpuSet, Descriptor, Instant, Limit, Nanos, Reservation};
use session::Session;
use sim::Workload;
use simhost::{Dice, Settings, SimulatedKernel};
use std::fmt;
use sys::thread::Owner;

/// How long everybody may take to be what they were.
const WITHIN: Nanos = Nanos::s(1);
/// How many of the last things done are told with a finding.
const TOLD: usize = 60;

/// The policies of the host and of the daemon: `linux` and `edf`.
#[derive(Clone, Copy, Debug)]
pub struct Policies {
    /// The host's.
    pub linux: &'static Descriptor,
    /// The daemon's.
    pub edf: &'static Descriptor,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub what: String,
    /// When.
    pub at: Instant,
    /// What was done before, the last of it.
    pub before: Vec<(Instant, String)>,
}

impl Finding {
    fn new(host: &SimulatedKernel, what: String) -> Finding {
        let world = host.world();
        let recorded = world.recorded();
        Finding { what, at: world.now(), before: recorded[recorded.len().saturating_sub(TOLD)..].to_vec() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, what) in &self.before {
            writeln!(f, "  {at} {what}")?;
        }
        write!(f, "at {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Finding {}

/// What a storm came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Instants that the host decided about.
    pub steps: u64,
    /// Turns that daemon and guardian took.
    pub turns: u64,
    /// Calls and stores they made.
    pub acts: u64,
    /// Periods that were judged.
    pub periods: u64,
    /// Clients that were served.
    pub served: u64,
    /// Wishes and adoptions that were refused.
    pub refused: u64,
    /// Threads and processes that began.
    pub births: u64,
    /// Faults that happened.
    pub faults: u64,
    /// Threads of which it could not be told at the end whether they were still in a fork.
    pub unsure: u64,
}

impl Stats {
    /// Both.
    #[must_use]
    pub fn and(self, other: Stats) -> Stats {
        Stats {
            steps: self.steps + other.steps,
            turns: self.turns + other.turns,
            acts: self.acts + other.acts,
            periods: self.periods + other.periods,
            served: self.served + other.served,
            refused: self.refused + other.refused,
            births: self.births + other.births,
            faults: self.faults + other.faults,
            unsure: self.unsure + other.unsure,
        }
    }
}

/// Wishes of a client, modest enough that some of each CPU is left.
fn wish(dice: &mut Dice, options: &Options, tag: usize) -> Wish {
    let period = match dice.below(3) {
        0 => dice.between(Nanos::ms(1), Nanos::ms(5)),
        1 => dice.between(Nanos::ms(5), Nanos::ms(30)),
        _ => dice.between(Nanos::ms(30), Nanos::ms(100)),
    };
    let each = 800_000 * options.cpus as u64 / options.clients as u64;
    let most = period.scale(each.min(500_000), 1_000_000);
    let slice = dice.between(Nanos::us(50), most.max(Nanos::us(60)));
    let limit = if dice.one_in(3) { Limit::Hard } else { Limit::Soft };
    let reservation = Reservation { limit, ..Reservation::new(slice, period) };
    Wish { name: format!("client-{tag}"), reservation, cpus: 1, affinity: CpuSet::ALL }
}

/// Everybody is there, and nothing has happened yet.
fn set_up(options: &Options, policies: &Policies, record: bool) -> (Session, Ledger) {
    let mut dice = Dice::new(options.seed);
    let settings = Settings {
        seed: dice.number(),
        numbers: NUMBERS,
        lateness: options.lateness,
        call: options.call,
        ..Settings::new(policies.linux, options.cpus)
    };
    let host = SimulatedKernel::new(&settings).expect("linux works everywhere");
    if record {
        host.world_mut().record();
    }
    let ledger = Ledger::default();
    let mut wishes = Vec::new();
    for _ in 0..2 * options.cpus {
        let user = Owner { real: 1000, effective: 1000 };
        host.world_mut().start("hog", user, Workload::Hog).expect("numbers are free");
    }
    for tag in 0..options.clients {
        let tree = neighbours::begin_client(&mut host.world_mut(), &mut dice, tag, options.refusals);
        let tree = tree.expect("numbers are free");
        wishes.push((tag, tree.root, wish(&mut dice, options, tag)));
        ledger.borrow_mut().push(tree);
    }
    let gap = dice.between(Nanos::us(200), Nanos::ms(8));
    let at = host.world().now() + Nanos::ms(5);
    let Options { births, orphans, others, .. } = *options;
    let neighbours = Neighbours { dice, at, gap, births, orphans, others, ledger: ledger.clone(), passing: Vec::new() };
    host.world_mut().let_act(Box::new(neighbours));
    let session = Session::new(host, options, policies, wishes);
    if let Some(Plan { who: Who::Daemon, fault, act }) = options.plan {
        session.plan(Who::Daemon, fault, act);
    }
    (session, ledger)
}

/// Runs a storm once; with `record`, a finding tells what was done before.
///
/// # Errors
/// Something must not be.
pub fn run(options: &Options, policies: &Policies, record: bool) -> Result<Stats, Box<Finding>> {
    let (mut session, ledger) = set_up(options, policies, record);
    let mut judge = Judge::new(options, ledger);
    let outcome = play(&mut session, &mut judge, options);
    outcome.map_err(Box::new)?;
    let world = session.host.world();
    let failed = session.daemon.caller.fault().is_some();
    Ok(Stats {
        steps: world.steps(),
        turns: session.turns,
        acts: session.daemon.caller.acts() + session.guardian.caller.acts(),
        periods: judge.periods,
        served: session.daemon.served.len() as u64,
        refused: session.daemon.refused,
        births: world.births(),
        faults: u64::from(failed) + u64::from(session.guardians - 1),
        unsure: session.doubt.unsure.len() as u64,
    })
}

fn has_failed(session: &Session) -> bool {
    session.daemon.caller.fault().is_some() || session.guardian.caller.fault().is_some()
}

fn play(session: &mut Session, judge: &mut Judge, options: &Options) -> Result<(), Finding> {
    let end = session.host.world().now() + options.length;
    // Until somebody fails.
    // A guardian that never comes up is no fault of one: nobody is raised then.
    let mut waiting = options.plan.filter(|plan| plan.who == Who::Guardian);
    session.run_until(end, &mut |session, _| {
        if has_failed(session) {
            return Ok(true);
        }
        if let Some(Plan { who, fault, act }) = waiting.take_if(|_| session.daemon.is_guarded()) {
            session.plan(who, fault, act);
        }
        judge.look(session).map(|()| false)
    })?;
    let now = session.host.world().now();
    if session.daemon.caller.fault().is_some() {
        return after(session, judge, options, now);
    }
    if session.guardian.caller.fault().is_some() {
        session.run_until(now + WITHIN, &mut |_, _| Ok(false))?;
        if session.guardian.caller.fault().is_some() {
            return Err(Finding::new(
                &session.host,
                "nobody guards a second after the guardian has failed".to_string(),
            ));
        }
        // That was one fault. This is the next.
        session.plan(Who::Daemon, simhost::Fault::Crash, options.seed % 50);
        let end = session.host.world().now() + Nanos::ms(300);
        session.run_until(end, &mut |session, _| Ok(session.daemon.caller.fault().is_some()))?;
        let now = session.host.world().now();
        if session.daemon.caller.fault().is_some() {
            return after(session, judge, options, now);
        }
    }
    session.end()?;
    let now = session.host.world().now();
    if session.daemon.caller.fault().is_some() {
        return after(session, judge, options, now);
    }
    judge.is_restored(session, options)
}

/// The daemon has failed at `since`: within a second everybody is what they were.
fn after(session: &mut Session, judge: &Judge, options: &Options, since: Instant) -> Result<(), Finding> {
    session.run_until(since + WITHIN, &mut |_, _| Ok(false))?;
    judge.is_restored(session, options)
}
