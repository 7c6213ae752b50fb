//! Converts the values of a file to a scenario: sets defaults, resolves references, and compares values with each
//! other.

use super::checked::Checked;
use super::file::File;
use super::homes;
use super::level::{self, Counts};
use super::manager;
use super::network;
use super::policy::chosen;
use super::samples;
use super::spec::Scenario;
use input::problem::{Findings, Problem};
use input::source::{Placed, Span};
use sched::id::CPUS_MAX;
use sched::{Nanos, Topology};

/// Returns the scenario of `file`. `None`: the values have a problem, which `findings` contains.
pub(super) fn check(file: File, findings: &mut Findings) -> Option<Scenario> {
    let host = host(&file, findings);
    if file.name.is_absent() {
        missing("the scenario has no name", "name = \"three VMs\"", findings);
    }
    if file.length.is_absent() {
        missing("the scenario has no length", "length = \"1s\"", findings);
    }
    if file.level.members.is_empty() && findings.is_empty() {
        missing("nothing runs in this scenario", "at least one [[vm]] or [[task]]", findings);
    }
    let length = file.length.right();
    let warm_up = file.warm_up.right();
    if let (Some(warm_up), Some(length)) = (warm_up, length)
        && warm_up.value >= length.value
    {
        let message = format!("a warm-up of {} excludes the whole run of {}", warm_up.value, length.value);
        let problem = Problem::new(message).at(warm_up.at, "not before the end").at(length.at, "the length");
        findings.add(problem.help(format!("use a `warm_up` below {}, or a longer run", length.value)));
    }
    let hosts = file.hosts.value_ref().copied().unwrap_or(1);
    let checked = level::check(file.level, (host.as_ref(), hosts), length, &mut Counts::default(), findings);
    if !findings.is_empty() {
        return None;
    }
    let mut checked = checked?;
    homes::clashes(&checked, hosts, findings);
    let (network, disk) = network::check(hosts, (file.network, file.disk), &mut checked, findings);
    let Checked { groups, entities, applications, guests } = checked;
    let manager = file.manager.map(|table| manager::check(table, hosts, &groups, &entities, findings));
    let samples = file.samples.map(|typed| samples::check(typed, length, findings));
    if !findings.is_empty() {
        return None;
    }
    Some(Scenario {
        name: file.name.value()?,
        hosts,
        host: host?,
        length: length?.value,
        warm_up: warm_up.map_or(Nanos::ZERO, |warm_up| warm_up.value),
        warm_up_place: warm_up.map_or(Span::default(), |warm_up| warm_up.at),
        seed: file.seed.value(),
        policy: file.policy.value().and_then(chosen),
        costs: file.costs,
        groups,
        entities,
        applications,
        guests,
        manager,
        samples,
        network,
        disk,
        source: findings.source().clone(),
    })
}

fn missing(message: &str, right: &str, findings: &mut Findings) {
    findings.add(Problem::new(message).at(Span::default(), "in this file").help(format!("use {right}")));
}

/// Returns the topology of the host. `None`: the number of CPUs is missing or wrong. Problems of `smt` and `llc` are
/// only reported.
fn host(file: &File, findings: &mut Findings) -> Option<Topology> {
    if file.cpus.is_absent() {
        missing("the scenario has no number of CPUs", &format!("cpus = 1, up to {CPUS_MAX}"), findings);
    }
    let (cpus, smt, llc) = (file.cpus.right()?, file.smt.right(), file.llc.right());
    let mut host = Topology::new(cpus.value);
    host.smt = smt.map_or(1, |smt| smt.value);
    host.llc = llc.map_or(cpus.value, |llc| llc.value);
    let mut divides = |(what, part): (&str, Placed<usize>), (of, whole): (&str, Placed<usize>)| {
        let divides = whole.value % part.value == 0;
        if !divides {
            let message = format!("`{what}` ({}) does not divide `{of}` ({})", part.value, whole.value);
            let right: Vec<String> =
                (1..=whole.value).filter(|n| whole.value % n == 0).map(|n| n.to_string()).collect();
            let problem = Problem::new(message).at(part.at, "does not divide it").at(whole.at, format!("`{of}`"));
            findings.add(problem.help(format!("use one of {}", right.join(", "))));
        }
        divides
    };
    let cores = smt.is_none_or(|smt| divides(("smt", smt), ("cpus", cpus)));
    let caches = llc.is_none_or(|llc| divides(("llc", llc), ("cpus", cpus)));
    if let (Some(smt), Some(llc), true, true) = (smt, llc, cores, caches) {
        divides(("smt", smt), ("llc", llc));
    }
    Some(host)
}
