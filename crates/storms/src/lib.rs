//! Storms: seeded simulations of the daemon and the guardian, in which one of these processes may fail at any of its
//! acts. Without a fault, the daemon keeps its promises. Within a second after a fault, all threads are restored.
//!
//! ```text
//! a client that is runnable throughout a period receives its slice by the end of the period
//! the periods of the members of a gang begin together, and its runnable members start together
//! no client receives more than its slice at real-time priority, or, with a hard limit, more than its slice in total
//! after each turn, the dispatcher agrees with its machine on the state and the level of every client
//! 1 ms after a change of a promise, the agent of its CPU has taken a turn; the change takes nothing from other clients
//! 200 ms after a change of the affinity of a served thread, the thread is served within it, or has left the promise
//! 1 s after a fault, every living thread has the policy, priority, nice, affinity and stop state as without Tactus,
//! and is in the same freezer group; no group of Tactus is left
//! ```
//!
//! The checks excuse lateness that the world causes, and the CPU time of Tactus's own threads. If other processes
//! change the values of a client, the checks accept every value that these processes have requested for a thread of the
//! client.

mod agreement;
mod changes;
mod finding;
mod gangs;
mod guardians;
mod judge;
mod neighbours;
mod options;
mod policies;
mod session;

pub use finding::Finding;
pub use options::{Options, Plan, Target};
pub use policies::Policies;

use changes::Wishes;
use daemon::dispatch::{KeptBy, PromiseRequest, RaiseBy};
use judge::Judge;
use neighbours::{GROUP, Ledger, NUMBERS, Neighbours};
use sched::{Instant, Limit, Nanos, Reservation};
use session::Session;
use sim::Workload;
use simhost::{Dice, Settings, SimulatedKernel};
use sys::thread::Owner;

/// Time after a fault within which all threads must be restored.
const WITHIN: Nanos = Nanos::s(1);
/// Statistics of a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of decisions of the host.
    pub steps: u64,
    /// Number of turns of the daemon and the guardian.
    pub turns: u64,
    /// Number of calls and stores of the daemon and the guardian.
    pub acts: u64,
    /// Number of evaluated periods.
    pub periods: u64,
    /// Number of admitted clients.
    pub served: u64,
    /// Number of refused requests and adoptions.
    pub refused: u64,
    /// Number of started threads and processes.
    pub births: u64,
    /// Number of injected faults.
    pub faults: u64,
    /// Number of threads that may have been inside a fork at the end.
    pub unsure: u64,
    /// Number of changes of the affinity of served threads by other processes.
    pub changes: u64,
    /// Number of threads that have left promises because of such a change.
    pub departures: u64,
    /// Number of changed promises.
    pub adjusts: u64,
    /// Number of refused changes of promises.
    pub refused_adjusts: u64,
    /// Number of admitted gangs.
    pub gangs: u64,
    /// Number of periods of gangs in which the starts of all members were compared.
    pub starts: u64,
}

impl Stats {
    /// Returns the sum of the statistics.
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
            changes: self.changes + other.changes,
            departures: self.departures + other.departures,
            adjusts: self.adjusts + other.adjusts,
            refused_adjusts: self.refused_adjusts + other.refused_adjusts,
            gangs: self.gangs + other.gangs,
            starts: self.starts + other.starts,
        }
    }
}

/// Draws the request of a client.
fn request(dice: &mut Dice, options: &Options, tag: usize) -> PromiseRequest {
    let reservation = Wishes::of(options).draw(dice);
    let limit = if dice.one_in(3) { Limit::Hard } else { Limit::Soft };
    let reservation = Reservation { limit, ..reservation };
    let name = format!("client-{tag}");
    // Some threads inherit beside threads whose attributes are set.
    let by = if tag % 3 == 2 { RaiseBy::Inheritance } else { options.by };
    let by = KeptBy::Dispatcher(by);
    if options.gangs && options.cpus > 1 && dice.one_in(2) {
        let cpus = 2 + usize::try_from(dice.below(options.cpus as u64 - 1)).expect("CPUs are few");
        let slice = reservation.slice.saturating_mul(cpus as u64);
        let reservation = Reservation::new(slice, reservation.period);
        return PromiseRequest { by, cpus, gang: true, ..PromiseRequest::new(name, reservation) };
    }
    PromiseRequest { by, ..PromiseRequest::new(name, reservation) }
}

/// Sets up a storm.
fn set_up(options: &Options, policies: &Policies, record: bool) -> (Session, Ledger) {
    let mut dice = Dice::new(options.seed);
    let settings = Settings {
        seed: dice.number(),
        numbers: NUMBERS,
        lateness: options.lateness,
        call: options.call,
        busy_in: options.busy_in,
        ..Settings::new(policies.linux, options.cpus)
    };
    let host = SimulatedKernel::new(&settings).expect("linux works everywhere");
    if record {
        host.world_mut().record();
    }
    let ledger = Ledger::default();
    let mut requests = Vec::new();
    for _ in 0..2 * options.cpus {
        let user = Owner { real: 1000, effective: 1000 };
        host.world_mut().start("hog", user, Workload::Hog).expect("numbers are free");
    }
    for tag in 0..options.clients {
        let tree = neighbours::begin_client(&mut host.world_mut(), &mut dice, tag, options.refusals);
        let tree = tree.expect("numbers are free");
        // Half of the clients are VMs with one vCPU, if they have a second thread.
        let second = host.world().threads_of(tree.root).get(1).copied();
        if let Some(vcpu) = second.filter(|_| tag.is_multiple_of(2) == options.seed.is_multiple_of(2)) {
            host.world_mut().rename(vcpu, "CPU 0/KVM");
        }
        let request = request(&mut dice, options, tag);
        let threads = host.world().threads_of(tree.root).len();
        // Most members of gangs have a thread that is always runnable.
        for _ in threads..request.cpus {
            host.world_mut().clone_thread(tree.root, Workload::Hog).expect("numbers are free");
        }
        requests.push((tag, tree.root, request));
        ledger.borrow_mut().push(tree);
    }
    let gap = dice.between(Nanos::us(200), Nanos::ms(8));
    let at = host.world().now() + Nanos::ms(5);
    let Options { births, orphans, others, cpusets, .. } = *options;
    let group = host.world_mut().create_group_of_others(GROUP);
    let (passing, of) = (Vec::new(), ledger.clone());
    let neighbours = Neighbours { dice, at, gap, births, orphans, others, cpusets, group, ledger: of, passing };
    host.world_mut().let_act(Box::new(neighbours));
    let session = Session::new(host, options, policies, requests);
    if let Some(Plan { target: Target::Daemon, fault, act }) = options.plan {
        session.plan(Target::Daemon, fault, act);
    }
    (session, ledger)
}

/// Runs a storm once; with `record`, a finding lists the operations before it.
///
/// # Errors
/// A promise is broken.
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
        acts: session.daemon.caller.acts() + session.guardians.acting.caller.acts(),
        periods: judge.periods,
        served: session.daemon.served.len() as u64,
        refused: session.daemon.refused,
        births: world.births(),
        faults: u64::from(failed) + u64::from(session.guardians.replacements + session.guardians.successions),
        unsure: session.guardians.doubt.unsure.len() as u64,
        changes: session.daemon.changes,
        departures: session.daemon.departures,
        adjusts: session.daemon.adjusts.as_ref().map_or(0, |changes| changes.count),
        refused_adjusts: session.daemon.adjusts.as_ref().map_or(0, |changes| changes.refused),
        gangs: session.daemon.served.iter().filter(|served| served.request.gang).count() as u64,
        starts: judge.starts.compared,
    })
}

fn has_failed(session: &Session) -> bool {
    session.daemon.caller.fault().is_some() || session.guardians.acting.caller.fault().is_some()
}

fn play(session: &mut Session, judge: &mut Judge, options: &Options) -> Result<(), Finding> {
    let end = session.host.world().now() + options.length;
    // Run until a process fails. A fault of the guardian is planned only once the daemon knows that the guardian is
    // active, because no thread is raised before.
    let mut waiting = options.plan.filter(|plan| plan.target == Target::Guardian);
    session.run_until(end, &mut |session, _| {
        if has_failed(session) {
            return Ok(true);
        }
        if let Some(Plan { target, fault, act }) = waiting.take_if(|_| session.guardians.is_guarded()) {
            session.plan(target, fault, act);
        }
        judge.look(session).map(|()| false)
    })?;
    let now = session.host.world().now();
    if session.daemon.caller.fault().is_some() {
        return after(session, judge, options, now);
    }
    if session.guardians.acting.caller.fault().is_some() {
        // If the standby takes over, the daemon keeps its promises meanwhile.
        session.run_until(now + WITHIN, &mut |session, _| judge.look(session).map(|()| false))?;
        if session.guardians.acting.caller.fault().is_some() {
            return Err(Finding::new(&session.host, "no guardian is alive a second after its failure".to_string()));
        }
        // The guardian has failed, and another guardian watches. Now plan a crash of the daemon.
        session.plan(Target::Daemon, simhost::Fault::Crash, options.seed % 50);
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

/// Checks that all threads are restored within a second after the daemon has failed at `since`.
fn after(session: &mut Session, judge: &Judge, options: &Options, since: Instant) -> Result<(), Finding> {
    session.run_until(since + WITHIN, &mut |_, _| Ok(false))?;
    judge.is_restored(session, options)
}
