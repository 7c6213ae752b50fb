//! [`XenMonReport`]: the domains of each host, as Xen's performance monitor reports them. [`measure::XenMon`] defines
//! the measures.

use crate::got::ppm;
use crate::spreads::{Spreads, spreads};
use measure::statistics::Spread;
use measure::{Domain, DomainMeasures, HostMeasures, XenMon};
use scenario::devices::OUTSIDE;
use sched::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use trace::WorldHeader;

/// Results of the domains of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct XenMonReport {
    /// Length of the warm-up, which measurements exclude. Unit: nanoseconds.
    pub warm_up_ns: u64,
    /// Measured time. Unit: nanoseconds.
    pub measured_ns: u64,
    /// Results of each host.
    pub hosts: Vec<HostReport>,
}

/// The domains of a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HostReport {
    /// Name of the host.
    pub name: String,
    /// Number of CPUs of the host.
    pub cpus: u64,
    /// Idle CPU time. Unit: nanoseconds.
    pub idle_ns: u64,
    /// Idle CPU time in millionths of the time of all CPUs of the host.
    pub idle_ppm: u64,
    /// Results of all domains together.
    pub total: DomainGot,
    /// VMs, and tasks outside VMs, in order of arrival.
    pub domains: Vec<DomainReport>,
}

/// A domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainReport {
    /// Display name of the domain.
    pub name: String,
    /// Number of vCPUs of the domain, or number of tasks of this name.
    pub vcpus: u64,
    /// Results of the domain.
    #[serde(flatten)]
    pub got: DomainGot,
}

/// Results of a domain during the measurement. Times are sums over all vCPUs of the domain, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DomainGot {
    /// Time for which the vCPUs of the domain were present: the sum of CPU time, waiting time and blocked time.
    pub there_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// CPU time in millionths of one CPU.
    pub cpu_ppm: u64,
    /// CPU time per execution.
    pub cpu_per_execution_ns: u64,
    /// Mean length of the bounded time slices of the domain.
    pub allocated_per_execution_ns: u64,
    /// Time for which the vCPUs were waiting or held.
    pub waited_ns: u64,
    /// Waiting time in millionths of the measured time.
    pub waited_ppm: u64,
    /// Waiting time per execution.
    pub waited_per_execution_ns: u64,
    /// Time for which the vCPUs were blocked.
    pub blocked_ns: u64,
    /// Blocked time in millionths of the measured time.
    pub blocked_ppm: u64,
    /// Blocked time per I/O event.
    pub blocked_per_io_ns: u64,
    /// Number of executions: dispatches, and time slices that immediately followed another time slice.
    pub executions: u64,
    /// Number of executions per thousand seconds.
    pub executions_per_1000s: u64,
    /// Number of I/O events that the domain has served.
    pub io: u64,
    /// Number of I/O events per thousand seconds.
    pub io_per_1000s: u64,
    /// Number of I/O events per thousand executions.
    pub io_per_1000_executions: u64,
}

/// Returns `count` · `times` / `of`, rounded; 0 if `of` is zero.
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
    /// Returns the report of `monitor` for a run of `length`. The monitor excluded the warm-up `warm_up`.
    #[must_use]
    pub fn new(monitor: &XenMon, header: &WorldHeader, warm_up: Nanos, length: Nanos) -> XenMonReport {
        let measured = length.saturating_sub(warm_up);
        let hosts = monitor.hosts();
        let hosts = hosts.iter().filter_map(|it| {
            let machine = header.machine(it.machine)?;
            // Tasks on the machine `outside` belong to no domain.
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
        assert!(host.is_counted || total.cpu <= all, "the domains of {name} had more CPU time than there is");
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

/// Medians of the domains of a host over several runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HostSpreads {
    /// Name of the host.
    pub name: String,
    /// Number of CPUs of the host.
    pub cpus: u64,
    /// Idle CPU time. Unit: nanoseconds.
    pub idle_ns: Spread,
    /// Idle CPU time in millionths of the time of all CPUs of the host.
    pub idle_ppm: Spread,
    /// Medians of all domains together.
    pub total: Spreads,
    /// Domains that were present in any run, in the order of their first appearance.
    pub domains: Vec<DomainSpreads>,
}

/// Medians of one domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DomainSpreads {
    /// Display name of the domain.
    pub name: String,
    /// Number of runs in which the domain was present. The medians are over these runs.
    pub runs: usize,
    /// Medians of the domain's results.
    #[serde(flatten)]
    pub got: Spreads,
}

/// Returns the medians over the runs whose domains were measured.
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
