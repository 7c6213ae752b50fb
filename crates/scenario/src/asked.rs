//! The requests of members (VMs and tasks): parameters, reservations and real processes, and the checks that compare
//! them.

use super::tables::MemberTable;
use super::{Mechanism, Real};
use input::problem::{Findings, Problem, Wrong};
use input::source::Placed;
use sched::{Instant, Limit, Nanos, Params, Refused, Reservation, Topology};

/// The checked requests of a member.
pub(super) struct Asked {
    pub(super) arrival: Instant,
    pub(super) leaves: Option<Instant>,
    pub(super) params: Params,
    pub(super) changes: Vec<(Instant, Reservation)>,
    pub(super) real: Option<Placed<Real>>,
    pub(super) mechanism: Option<Mechanism>,
    /// Time between the starts of the first periods of two consecutive vCPUs; zero: the policy sets the starts.
    pub(super) stagger: Nanos,
}

impl Asked {
    pub(super) fn check(
        member: &MemberTable,
        host: Option<&Topology>,
        length: Option<Placed<Nanos>>,
        findings: &mut Findings,
    ) -> Option<Asked> {
        let params = Params {
            weight: member.group.weight.value().unwrap_or_default(),
            reservation: reservation(member, host, findings),
            class: member.class.value().unwrap_or_default(),
            latency: member.latency.value(),
            warp: member.warp.value(),
            ..Params::default()
        };
        let affinity = member.affinity.right();
        if let (Some(affinity), Some(host)) = (affinity, host)
            && let Err(refused) = (Params { affinity: affinity.value, ..Params::default() }).check(host)
        {
            findings.add(Wrong::from(&refused).at(affinity.at));
        }
        let arrival = member.arrival.right();
        if let (Some(arrival), Some(length)) = (arrival, length)
            && arrival.value >= length.value
        {
            let message =
                format!("{} arrives ({}) at or after the end ({})", member.kind.noun(), arrival.value, length.value);
            let problem = Problem::new(message).at(arrival.at, "never there").at(length.at, "the end");
            findings.add(problem.help(format!("use an arrival before {}", length.value)));
        }
        let came = arrival.map_or(Nanos::ZERO, |arrival| arrival.value);
        if let Some(leaves) = member.leaves.right()
            && leaves.value <= came
        {
            let message = format!("{} leaves ({}) no later than it arrives ({came})", member.kind.noun(), leaves.value);
            let problem = Problem::new(message).at(leaves.at, "too early");
            let problem = if let Some(arrival) = arrival { problem.at(arrival.at, "the arrival") } else { problem };
            findings.add(problem.help(format!("use an instant later than {came}: both are times since the start")));
        }
        Some(Asked {
            changes: changes(member, host, params.reservation, findings),
            arrival: Instant::ZERO + came,
            leaves: member.leaves.value().map(|leaves| Instant::ZERO + leaves),
            real: real(member, findings),
            mechanism: member.mechanism.value(),
            stagger: stagger(member, findings),
            params: Params { affinity: affinity.map_or(params.affinity, |affinity| affinity.value), ..params },
        })
    }
}

/// Returns the reservation of a member. A slice requires a period, and a period requires a slice. Deadline, start,
/// limit, stagger and mechanism require both.
fn reservation(member: &MemberTable, host: Option<&Topology>, findings: &mut Findings) -> Option<Reservation> {
    let pairs =
        [(&member.slice, &member.period, "slice", "period"), (&member.period, &member.slice, "period", "slice")];
    for (one, other, what, lacking) in pairs {
        if let (Some(at), true) = (one.at(), other.is_absent()) {
            let problem =
                Problem::new(format!("there is a {what} without a {lacking}")).at(at, format!("no {lacking}"));
            findings.add(problem.help("give both, such as slice = \"20ms\" and period = \"50ms\""));
        }
    }
    if member.slice.is_absent() && member.period.is_absent() {
        let parts = [
            (member.deadline.at(), "deadline"),
            (member.start.at(), "start"),
            (member.limit.at(), "limit"),
            (member.stagger.at(), "stagger"),
            (member.mechanism.at(), "mechanism"),
        ];
        for (given, what) in parts {
            if let Some(at) = given {
                let problem = Problem::new(format!("there is a {what} without a reservation")).at(at, "of what?");
                findings.add(problem.help("use a slice and a period with it"));
            }
        }
    }
    let (slice, period) = (member.slice.right()?, member.period.right()?);
    let reservation = Reservation {
        slice: slice.value,
        period: period.value,
        deadline: member.deadline.value(),
        start: member.start.value().map(|start| Instant::ZERO + start),
        limit: member.limit.value().unwrap_or(Limit::Soft),
    };
    let any = Topology::new(1);
    let asked = Params { reservation: Some(reservation), ..Params::default() };
    if let Err(refused) = asked.check(host.unwrap_or(&any)) {
        let problem = Wrong::from(&refused).at(slice.at);
        findings.add(match refused {
            Refused::SliceAbovePeriod { .. } => problem.at(period.at, "the period"),
            Refused::OutOfRange { .. } => Wrong::from(&refused).at(member.deadline.at().unwrap_or(slice.at)),
            _ => problem,
        });
    }
    Some(reservation)
}

/// Returns the changes of the reservation, in the order of the file. Reports changes that are not in order of time.
fn changes(
    member: &MemberTable,
    host: Option<&Topology>,
    first: Option<Reservation>,
    findings: &mut Findings,
) -> Vec<(Instant, Reservation)> {
    let mut changes: Vec<(Instant, Reservation)> = Vec::new();
    for change in &member.changes {
        let (Some(at), Some(slice), Some(period)) = (change.at.right(), change.slice.right(), change.period.right())
        else {
            continue;
        };
        let Some(first) = first else {
            let problem = Problem::new("there is a change without a reservation").at(change.place, "of what?");
            findings.add(problem.help("use a slice and a period of the vm, which it changes"));
            continue;
        };
        let came = member.arrival.value().unwrap_or_default();
        let before = changes.last().map_or(Instant::ZERO + came, |last| last.0);
        let leaves = member.leaves.value().map_or(Instant::NEVER, |leaves| Instant::ZERO + leaves);
        let when = Instant::ZERO + at.value;
        if when <= before || when >= leaves {
            let problem = Problem::new("the changes of the vm are out of order, or outside its stay").at(at.at, "this");
            let help = "use instants between its arrival and its departure, in ascending order";
            findings.add(problem.help(help));
        }
        let reservation =
            Reservation { slice: slice.value, period: period.value, deadline: None, start: None, ..first };
        let any = Topology::new(1);
        let asked = Params { reservation: Some(reservation), ..Params::default() };
        if let Err(refused) = asked.check(host.unwrap_or(&any)) {
            findings.add(Wrong::from(&refused).at(slice.at));
        }
        changes.push((when, reservation));
    }
    changes
}

/// Returns the stagger of a member. Reports the stagger of a gang, and of a VM with one vCPU.
fn stagger(member: &MemberTable, findings: &mut Findings) -> Nanos {
    let Some(Placed { value, at }) = member.stagger.right() else { return Nanos::ZERO };
    if member.vcpus.value().unwrap_or(1) < 2 {
        let problem = Problem::new("there is a stagger, and one vCPU").at(at, "between which vCPUs?");
        findings.add(problem.help("use `vcpus` with it, or `start` alone"));
    }
    if member.group.gang.value() == Some(true) {
        let problem = Problem::new("the periods of a gang begin together").at(at, "not together");
        findings.add(problem.help("leave `gang` or `stagger` out"));
    }
    value
}

/// Returns the command or pid of a member, if it has one. Reports a member with both.
fn real(member: &MemberTable, findings: &mut Findings) -> Option<Placed<Real>> {
    let noun = member.kind.noun();
    if let (Some(command), Some(pid)) = (member.command.at(), member.pid.at()) {
        let (first, second) = (command.min(pid), command.max(pid));
        let problem =
            Problem::new(format!("{noun} has a command and a pid")).at(second, "again").at(first, "first here");
        let right = "use one of the two: `command` starts with the run, `pid` exists before it";
        findings.add(problem.help(right));
        return None;
    }
    let command = member.command.value_ref().cloned().map(Real::Command).zip(member.command.at());
    let pid = member.pid.value_ref().copied().map(Real::Pid).zip(member.pid.at());
    let (value, at) = command.or(pid)?;
    Some(Placed { value, at })
}
