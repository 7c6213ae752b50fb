//! [`XenMonReport`]: the domains of each host as Xen's performance monitor tells of them; the measures are [`measure::XenMon`]'s.

use super::summary::{Spreads, numbers, spreads};
use super::text::{Grid, ROWS_MAX, Widths, and_more};
use super::{Report, Summary, percent, ppm, short};
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

/// The medians over `runs`, as far as their domains were measured.
pub(super) fn hosts(runs: &[Report]) -> Vec<HostSpreads> {
    let runs: Vec<&XenMonReport> = runs.iter().filter_map(|run| run.xenmon.as_ref()).collect();
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

/// How a column's numbers are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Percent,
    Time,
    Count,
    Thousandths,
}

impl Form {
    fn show(self, number: u64) -> String {
        match self {
            Form::Percent => percent(number),
            Form::Time => short(number),
            Form::Count => number.to_string(),
            Form::Thousandths if number < 99_950 => format!("{}.{}", (number + 50) / 1_000, (number + 50) / 100 % 10),
            Form::Thousandths => ((number + 500) / 1_000).to_string(),
        }
    }
}

/// The columns after the name: the number's name in a [`DomainGot`], the title, the form.
const COLUMNS: [(&str, &str, Form); 14] = [
    ("cpu_ns", "CPU time", Form::Time),
    ("cpu_ppm", "CPU", Form::Percent),
    ("cpu_per_execution_ns", "/ex", Form::Time),
    (ALLOCATED, "allocated/ex", Form::Time),
    ("waited_ns", "waited", Form::Time),
    ("waited_ppm", "%", Form::Percent),
    ("waited_per_execution_ns", "/ex", Form::Time),
    ("blocked_ns", "blocked", Form::Time),
    ("blocked_ppm", "%", Form::Percent),
    ("blocked_per_io_ns", "/io", Form::Time),
    ("executions_per_1000s", "ex/s", Form::Thousandths),
    ("io", "io", Form::Count),
    ("io_per_1000s", "io/s", Form::Thousandths),
    ("io_per_1000_executions", "io/ex", Form::Thousandths),
];

/// Which go first where there is no room for all; what is left fits.
const LEAST_MISSED: [&str; 8] = [
    "io",
    "blocked_ns",
    "waited_ns",
    "blocked_per_io_ns",
    "io_per_1000s",
    "cpu_ns",
    ALLOCATED,
    "waited_per_execution_ns",
];

/// The columns on I/O, which are left out where there was none.
const ON_IO: [&str; 4] = ["blocked_per_io_ns", "io", "io_per_1000s", "io_per_1000_executions"];

/// The column that is left out where no slice has an end.
const ALLOCATED: &str = "allocated_per_execution_ns";

/// What there was in any of the rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Has {
    /// I/O.
    io: bool,
    /// Slices with an end.
    ends: bool,
}

/// A line: a name, and how its numbers are shown.
type Row<'a> = (&'a str, Vec<(String, String)>);

fn table(rows: &[Row<'_>], has: Has, widths: Widths) -> String {
    let mut columns: Vec<_> = COLUMNS.to_vec();
    columns.retain(|(name, ..)| match *name {
        ALLOCATED => has.ends,
        name => has.io || !ON_IO.contains(&name),
    });
    let all = columns.len();
    let mut least_missed = LEAST_MISSED.iter();
    loop {
        let header = std::iter::once("").chain(columns.iter().map(|(_, title, _)| *title)).map(str::to_string);
        let mut grid = Grid::new(header.collect(), 1);
        for (name, numbers) in rows {
            let shown =
                |of: &str| numbers.iter().find(|(name, _)| name == of).map_or_else(String::new, |it| it.1.clone());
            grid.add(std::iter::once((*name).to_string()).chain(columns.iter().map(|(of, ..)| shown(of))).collect());
        }
        let text = grid.to_string();
        let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let next = least_missed.find(|least| columns.iter().any(|(name, ..)| name == *least));
        let Some(least) = next.filter(|_| width > usize::from(widths.0)) else {
            let dropped = all - columns.len();
            let note = format!("({dropped} more columns need a larger --width, or --json)\n");
            return if dropped == 0 { text } else { text + &note };
        };
        columns.retain(|(name, ..)| name != least);
    }
}

/// The numbers of `got`, each as its column shows it.
fn shown(got: &DomainGot) -> Vec<(String, String)> {
    let form = |of: &str| COLUMNS.iter().find(|(name, ..)| *name == of).map(|(_, _, form)| *form);
    numbers(got).filter_map(|(name, number)| form(&name).map(|form| (name, form.show(number)))).collect()
}

/// The medians in `got`, each as its column shows it, with the interval where there is one.
fn shown_medians(got: &Spreads) -> Vec<(String, String)> {
    let show = |(of, _, form): &(&str, &str, Form)| {
        let [median, low, high] = [got[*of].median, got[*of].low, got[*of].high].map(|number| form.show(number));
        ((*of).to_string(), if low == high { median } else { format!("{median} ({low}–{high})") })
    };
    COLUMNS.iter().map(show).collect()
}

/// `Domains of host under edf, from 1s on: 12.5% of its CPU time idle`.
fn title(host: &str, under: Option<&str>, warm_up_ns: u64, idle: &str) -> String {
    let under = under.map_or(String::new(), |policy| format!(" under {policy}"));
    let from = if warm_up_ns == 0 { String::new() } else { format!(", from {} on", short(warm_up_ns)) };
    format!("\nDomains of {host}{under}{from} ({idle} idle):\n")
}

/// The domains of each host, a table for each run; nothing of runs that were not monitored.
#[must_use]
pub fn xenmon(reports: &[Report], widths: Widths) -> String {
    let mut text = String::new();
    for report in reports {
        let under = (reports.len() > 1).then_some(report.policy.as_str());
        let Some(monitored) = &report.xenmon else { continue };
        for host in &monitored.hosts {
            text += &title(&host.name, under, monitored.warm_up_ns, &percent(host.idle_ppm));
            let most = host.domains.len().min(ROWS_MAX);
            let domains = host.domains[..most].iter().map(|it| (it.name.as_str(), shown(&it.got)));
            let has = Has { io: host.total.io > 0, ends: host.total.allocated_per_execution_ns > 0 };
            let rows: Vec<Row<'_>> = domains.chain([("all", shown(&host.total))]).collect();
            text += &table(&rows, has, widths);
            text += &and_more(host.domains.len() - most);
        }
    }
    text
}

/// The same of medians over several runs.
pub(super) fn xenmon_medians(summaries: &[Summary], widths: Widths) -> String {
    let mut text = String::new();
    for summary in summaries {
        let under = (summaries.len() > 1).then_some(summary.policy.as_str());
        for host in &summary.xenmon {
            text += &title(&host.name, under, summary.warm_up_ns, &percent(host.idle_ppm.median));
            let most = host.domains.len().min(ROWS_MAX);
            let domains = host.domains[..most].iter().map(|it| (it.name.as_str(), shown_medians(&it.got)));
            let has = Has { io: host.total["io"].high > 0, ends: host.total[ALLOCATED].high > 0 };
            let rows: Vec<Row<'_>> = domains.chain([("all", shown_medians(&host.total))]).collect();
            text += &table(&rows, has, widths);
            text += &and_more(host.domains.len() - most);
        }
    }
    text
}
