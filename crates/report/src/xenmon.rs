//! [`XenMonReport`]: the domains of each host as Xen's performance monitor tells of them; the measures are [`measure::XenMon`]'s.

use crate::got::ppm;
use crate::spreads::{Spreads, spreads};
use measure::statistics::Spread;
use measure::{Domain, DomainMeasures, HostMeasures, XenMon};
use scenario::devices::OUTSIDE;
use sched::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use trace::WorldHeader;

/// What the domains of a run did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct XenMonReport {
    /// The time at the beginning that was left out. Unit: nanoseconds.
    pub warm_up_ns: u64,
    /// The time that was measured. Unit: nanoseconds.
    pub measured_ns: u64,
    /// Each host.
    pub hosts: Vec<HostReport>,
}

/// The domains of a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// How many CPUs it has.
    pub cpus: u64,
    /// Idle CPU time. Unit: nanoseconds.
    pub idle_ns: u64,
    /// The same in millionths of all its CPUs.
    pub idle_ppm: u64,
    /// All domains together.
    pub total: DomainGot,
    /// VMs and other tasks of the host, in the order in which they came.
    pub domains: Vec<DomainReport>,
}

/// A domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainReport {
    /// What people call it.
    pub name: String,
    /// How many vCPUs it had, or tasks of that name.
    pub vcpus: u64,
    /// What it did.
    #[serde(flatten)]
    pub got: DomainGot,
}

/// What a domain did while it was measured. Times are of all its vCPUs together, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DomainGot {
    /// Time that its vCPUs were there: CPU time, waiting and blocked time.
    pub there_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// The same in millionths of one CPU.
    pub cpu_ppm: u64,
    /// The same for each execution.
    pub cpu_per_execution_ns: u64,
    /// Mean length of the slices it was given, of those that had an end.
    pub allocated_per_execution_ns: u64,
    /// Time it was runnable and not running.
    pub waited_ns: u64,
    /// The same in millionths of the time measured.
    pub waited_ppm: u64,
    /// The same for each execution.
    pub waited_per_execution_ns: u64,
    /// Time it was neither.
    pub blocked_ns: u64,
    /// The same in millionths of the time measured.
    pub blocked_ppm: u64,
    /// The same for each I/O event.
    pub blocked_per_io_ns: u64,
    /// Turns it was given: dispatches, and slices that followed another at once.
    pub executions: u64,
    /// The same in a thousand seconds.
    pub executions_per_1000s: u64,
    /// I/O events that it has served.
    pub io: u64,
    /// The same in a thousand seconds.
    pub io_per_1000s: u64,
    /// The same in a thousand executions.
    pub io_per_1000_executions: u64,
}

/// `count` times `times` for each of `of`, rounded; 0 for each of none.
fn rate(count: u64, times: u64, of: u64) -> u64 {
    let (count, of) = (u128::from(count) * u128::from(times), u128::from(of));
    (count + of / 2).checked_div(of).map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

impl DomainGot {
    fn new(got: &DomainMeasures, measured: Nanos) -> DomainGot {
        let ks = |count| rate(count, 1_000_000_000_000, measured.as_ns());
        DomainGot {
            there_ns: got.there.as_ns(),
            cpu_ns: got.cpu.as_ns(),
            cpu_ppm: ppm(got.cpu, measured),
            cpu_per_execution_ns: rate(got.cpu.as_ns(), 1, got.executions),
            allocated_per_execution_ns: rate(got.allocated.as_ns(), 1, got.bounded),
            waited_ns: got.waited.as_ns(),
            waited_ppm: rate(got.waited.as_ns(), 1_000_000, measured.as_ns()),
            waited_per_execution_ns: rate(got.waited.as_ns(), 1, got.executions),
            blocked_ns: got.blocked.as_ns(),
            blocked_ppm: rate(got.blocked.as_ns(), 1_000_000, measured.as_ns()),
            blocked_per_io_ns: rate(got.blocked.as_ns(), 1, got.io),
            executions: got.executions,
            executions_per_1000s: ks(got.executions),
            io: got.io,
            io_per_1000s: ks(got.io),
            io_per_1000_executions: rate(got.io, 1_000, got.executions),
        }
    }
}

impl XenMonReport {
    /// Of what `monitor` saw of a world in a run of `length`, of which it left out `warm_up`.
    #[must_use]
    pub fn new(monitor: &XenMon, header: &WorldHeader, warm_up: Nanos, length: Nanos) -> XenMonReport {
        let measured = length.saturating_sub(warm_up);
        let hosts = monitor.hosts();
        let hosts = hosts.iter().filter_map(|it| {
            let machine = header.machine(it.machine)?;
            // The machine outside belongs to no domain.
            if machine.name == OUTSIDE {
                return None;
            }
            Some(HostReport::new(&machine.name, machine.header.cpus, it, measured))
        });
        XenMonReport { warm_up_ns: warm_up.as_ns(), measured_ns: measured.as_ns(), hosts: hosts.collect() }
    }
}

impl HostReport {
    fn new(name: &str, cpus: usize, host: &HostMeasures, measured: Nanos) -> HostReport {
        let mut total = DomainMeasures::default();
        host.domains.iter().for_each(|domain| total.add(&domain.got));
        let all = measured.saturating_mul(cpus as u64);
        assert!(total.cpu <= all, "the domains of {name} had more CPU time than there is");
        let idle = all.saturating_sub(total.cpu);
        let domain = |Domain { name, vcpus, got }: &Domain| DomainReport {
            name: name.clone(),
            vcpus: *vcpus,
            got: DomainGot::new(got, measured),
        };
        HostReport {
            name: name.to_string(),
            cpus: cpus as u64,
            idle_ns: idle.as_ns(),
            idle_ppm: ppm(idle, all),
            total: DomainGot::new(&total, measured),
            domains: host.domains.iter().map(domain).collect(),
        }
    }
}

/// Of each host the medians of its domains over several runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HostSpreads {
    /// Its name.
    pub name: String,
    /// How many CPUs it has.
    pub cpus: u64,
    /// Idle CPU time.
    pub idle_ns: Spread,
    /// The same in millionths of all its CPUs.
    pub idle_ppm: Spread,
    /// All domains together.
    pub total: Spreads,
    /// Each domain that was there in any run, in the order in which they were first met.
    pub domains: Vec<DomainSpreads>,
}

/// Medians of one domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainSpreads {
    /// What people call it.
    pub name: String,
    /// In how many runs it was there: the medians are over those.
    pub runs: usize,
    /// What it did.
    #[serde(flatten)]
    pub got: Spreads,
}

/// The medians over the runs whose domains were measured.
pub(crate) fn hosts<'r>(runs: impl Iterator<Item = &'r XenMonReport>) -> Vec<HostSpreads> {
    let runs: Vec<&XenMonReport> = runs.collect();
    let count = runs.iter().map(|run| run.hosts.len()).max().unwrap_or(0);
    let host = |index: usize| {
        let of: Vec<&HostReport> = runs.iter().filter_map(|run| run.hosts.get(index)).collect();
        let over = |number: fn(&HostReport) -> u64| Spread::of(&of.iter().map(|it| number(it)).collect::<Vec<_>>());
        let mut order: Vec<(&str, Vec<&DomainGot>)> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for domain in of.iter().flat_map(|host| &host.domains) {
            let place = *places.entry(&domain.name).or_insert(order.len());
            if place == order.len() {
                order.push((&domain.name, Vec::new()));
            }
            order[place].1.push(&domain.got);
        }
        let domain = |(name, got): (&str, Vec<&DomainGot>)| DomainSpreads {
            name: name.to_string(),
            runs: got.len(),
            got: spreads(got.into_iter()),
        };
        HostSpreads {
            name: of[0].name.clone(),
            cpus: of[0].cpus,
            idle_ns: over(|host| host.idle_ns),
            idle_ppm: over(|host| host.idle_ppm),
            total: spreads(of.iter().map(|host| &host.total)),
            domains: order.into_iter().map(domain).collect(),
        }
    };
    (0..count).map(host).collect()
}
