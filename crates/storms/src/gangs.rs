//! The laws of gangs: the periods of all members begin together, and members that are runnable when a period begins
//! start together.

use crate::changes::Served;
use crate::session::Session;
use sched::{CpuId, EntityId, Instant, Machine, Nanos, State};
use std::collections::BTreeMap;

/// Maximum time from the start of the first member of a gang in a period to the start of the last member, without late
/// timers and the CPU time of Tactus.
const SKEW_MOST: Nanos = Nanos::us(60);

/// The start of a member in its current period.
#[derive(Clone, Copy, Debug)]
struct Start {
    deadline: Instant,
    /// Instant at which the member was first running in this period.
    at: Option<Instant>,
    /// Lateness of all timers and CPU time of Tactus up to the beginning of the period.
    late: Nanos,
    ours: Nanos,
    /// Whether the member had a slice, was runnable from the end of the last period until its start, and was alone on
    /// its CPU.
    is_comparable: bool,
    is_blocked: bool,
}

/// The starts of the members of all gangs.
#[derive(Default)]
pub(super) struct Starts {
    of: BTreeMap<EntityId, Start>,
    /// Number of periods in which the starts of all members were compared.
    pub(super) compared: u64,
}

impl Starts {
    /// Checks, after a turn, the gang `served`. With `skews`, also checks the times between starts. Returns what is
    /// wrong.
    pub(super) fn look(&mut self, session: &Session, served: &Served, skews: bool) -> Option<String> {
        let machine = session.daemon.dispatcher.machine();
        let members: Vec<EntityId> = served.entities.iter().copied().filter(|&e| machine.is_attached(e)).collect();
        let deadline = |e: EntityId| machine.promise(e).map(|promise| promise.deadline);
        let first = deadline(*members.first()?)?;
        let period = served.request.reservation.period;
        let phase = |at: Instant| at.since(Instant::ZERO).as_ns() % period.as_ns();
        for &e in &members {
            let at = deadline(e)?;
            if phase(at) != phase(first) {
                return Some(format!("a period of {e} ends at {at}, and one of {} at {first}", members[0]));
            }
            self.note(session, machine, e, at);
        }
        if !skews || members.len() < served.request.cpus {
            return None;
        }
        self.skew(&members)
    }

    /// Notes the state of member `e`, whose current period ends at `deadline`.
    fn note(&mut self, session: &Session, machine: &Machine, e: EntityId, deadline: Instant) {
        let world = session.host.world();
        let (now, late, ours) = (world.now(), world.late(), world.had_by_us());
        let state = machine.state(e);
        let is_blocked = state == State::Blocked;
        let new = Start { deadline, at: None, late, ours, is_comparable: false, is_blocked };
        let start = self.of.entry(e).or_insert(new);
        if start.deadline != deadline {
            let has_slice = machine.promise(e).is_some_and(|promise| promise.remaining > 0);
            *start = Start { is_comparable: has_slice && !start.is_blocked, ..new };
        }
        start.is_blocked = is_blocked;
        if start.at.is_none() {
            start.is_comparable &= !is_blocked && is_alone(session, machine, e);
            start.at = matches!(state, State::Running(_)).then_some(now);
        }
    }

    /// Compares the starts of all members, once all have started in one period.
    fn skew(&mut self, members: &[EntityId]) -> Option<String> {
        let starts: Vec<Start> = members.iter().filter_map(|e| self.of.get(e).copied()).collect();
        let one = starts.first()?;
        if !starts.iter().all(|it| it.is_comparable && it.deadline == one.deadline) {
            return None;
        }
        let at: Vec<Instant> = starts.iter().filter_map(|it| it.at).collect();
        if at.len() < members.len() {
            return None;
        }
        self.compared += 1;
        // Each period is compared once.
        members.iter().filter_map(|e| self.of.get_mut(e).map(|it| it.is_comparable = false)).for_each(drop);
        let (earliest, latest) = (at.iter().min()?, at.iter().max()?);
        let skew = latest.since(*earliest);
        let spread =
            |of: fn(&Start) -> Nanos| Some(starts.iter().map(of).max()?.saturating_sub(starts.iter().map(of).min()?));
        let excuse = spread(|it| it.late)? + spread(|it| it.ours)?;
        (skew > SKEW_MOST + excuse).then(|| {
            format!("the members start {skew} apart in the period until {}; excused by {excuse}", one.deadline)
        })
    }
}

/// Returns whether no other client is on the CPU of `e`.
fn is_alone(session: &Session, machine: &Machine, e: EntityId) -> bool {
    let cpu_of = |e: EntityId| -> Option<CpuId> { machine.allowed(e).first() };
    let all = session.daemon.served.iter().flat_map(|served| served.entities.iter().copied());
    let mut here = all.filter(|&other| machine.is_attached(other) && cpu_of(other) == cpu_of(e));
    here.all(|other| other == e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Policies};
    use daemon::dispatch::PromiseRequest;
    use sched::{CpuSet, Reservation};
    use sim::{Periodic, Workload};
    use simhost::{Settings, SimulatedKernel};
    use sys::thread::Owner;

    /// Runs a client with a thread that never sleeps and a thread that sleeps now and then, on two CPUs. Returns the
    /// first finding, and the number of compared periods.
    fn findings(gang: bool) -> (Option<String>, u64) {
        let find = |name| policies::find(name).expect("it is registered");
        let policies = Policies { linux: find("linux"), daemon: find(daemon::terms::POLICY) };
        let options = Options { cpus: 2, clients: 1, plan: None, adjusts: false, ..Options::draw(3) };
        let host = SimulatedKernel::new(&Settings::new(policies.linux, 2)).expect("linux works everywhere");
        let user = Owner { real: 1000, effective: 1000 };
        let pid = host.world_mut().start("client", user, Workload::Hog).expect("numbers are free");
        let jobs = Workload::Periodic(Periodic::new(Nanos::ms(37), Nanos::ms(20)));
        host.world_mut().clone_thread(pid, jobs).expect("numbers are free");
        let reservation = Reservation::new(Nanos::ms(2), Nanos::ms(5));
        let request = PromiseRequest {
            cpus: 2,
            gang,
            affinity: CpuSet::first_n(2),
            ..PromiseRequest::new("client", reservation)
        };
        let mut session = Session::new(host, &options, &policies, vec![(0, pid, request)]);
        let (mut starts, mut finding) = (Starts::default(), None);
        let end = session.host.world().now() + Nanos::ms(500);
        let outcome = session.run_until(end, &mut |session, _| {
            let what = session.daemon.served.first().and_then(|served| starts.look(session, served, true));
            finding = finding.take().or(what);
            Ok(finding.is_some())
        });
        outcome.expect("dispatcher and machine agree");
        (finding, starts.compared)
    }

    #[test]
    fn a_promise_on_two_cpus_breaks_the_laws_of_gangs_unless_it_is_a_gang() {
        let (finding, compared) = findings(true);
        assert_eq!(finding, None);
        assert!(compared > 20, "{compared} periods");
        let (finding, _) = findings(false);
        assert!(finding.is_some_and(|what| what.starts_with("a period of e")));
    }

    #[test]
    fn members_that_start_apart_are_found() {
        let members = [EntityId::new(0, 0), EntityId::new(1, 0)];
        let start = |at, late| Start {
            deadline: Instant::ZERO + Nanos::ms(10),
            at: Some(Instant::ZERO + at),
            late,
            ours: Nanos::ZERO,
            is_comparable: true,
            is_blocked: false,
        };
        let skew = |second: Start| {
            let first = start(Nanos::ms(1), Nanos::ms(3));
            Starts { of: members.into_iter().zip([first, second]).collect(), compared: 0 }.skew(&members)
        };
        assert_eq!(skew(start(Nanos::us(1_060), Nanos::ms(3))), None);
        assert!(skew(start(Nanos::us(1_061), Nanos::ms(3))).is_some_and(|what| what.contains("start 61us apart")));
        assert_eq!(skew(start(Nanos::us(1_461), Nanos::us(3_401))), None, "the timer was late by 401us");
        assert_eq!(skew(Start { is_comparable: false, ..start(Nanos::ms(9), Nanos::ms(3)) }), None);
        assert_eq!(skew(Start { at: None, ..start(Nanos::ms(9), Nanos::ms(3)) }), None);
    }
}
