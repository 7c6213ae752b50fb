//! The values of a TOML file, with their spans. `check` compares the values with each other.

use super::form;
use super::guest;
use super::kind::Kind;
use super::manager::{self, ManagerTable};
use super::network::{self, Typed};
use super::policy::{PolicyTable, policy};
use super::samples::{self, SamplesSpec};
use super::tables::{GROUP_FORM, GroupTable, Level, MemberTable, TASK_FORM, VM_KEYS};
use crate::devices::{DiskSpec, NetworkSpec};
use input::problem::Findings;
use input::source::{Placed, Span};
use input::table::{Given, Table};
use sched::Nanos;
use sim::Costs;
use toml::de::{DeTable, DeValue};

/// Top-level keys of a file.
pub(crate) const FILE_KEYS: &[&str] = &[
    "name", "hosts", "cpus", "smt", "llc", "length", "warm_up", "seed", "policy", "costs", "network", "disk",
    "manager", "samples", "group", "vm", "task",
];
/// Keys of `[costs]`.
pub(crate) const COST_KEYS: &[&str] = &[
    "machine",
    "context_switch",
    "cache_refill",
    "kick",
    "tick",
    "timer_resolution",
    "timer_slack",
    "exit",
    "hypercall",
];
/// The values of a file, before the checks between values.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: Given<String>,
    pub(super) hosts: Given<usize>,
    pub(super) cpus: Given<usize>,
    pub(super) smt: Given<usize>,
    pub(super) llc: Given<usize>,
    pub(super) length: Given<Nanos>,
    pub(super) warm_up: Given<Nanos>,
    pub(super) seed: Given<u64>,
    pub(super) policy: Given<PolicyTable>,
    pub(super) costs: Costs,
    pub(super) manager: Option<ManagerTable>,
    pub(super) samples: Option<Placed<SamplesSpec>>,
    pub(super) network: Option<Typed<NetworkSpec>>,
    pub(super) disk: Option<Typed<DiskSpec>>,
    /// Groups, VMs and tasks on the hosts.
    pub(super) level: Level,
}

impl File {
    /// Reads a parsed document.
    pub(super) fn read(document: &DeTable<'_>, findings: &mut Findings) -> File {
        let top = Table::new(document, Span::default(), ("a scenario", FILE_KEYS), findings);
        let mut members: Vec<MemberTable> = Vec::new();
        for table in top.tables("vm", ("[[vm]]", VM_KEYS), findings) {
            members.push(MemberTable::read(Kind::Vm, &table, |findings| guest::read(&table, findings), findings));
        }
        for table in top.tables("task", TASK_FORM, findings) {
            members.push(MemberTable::read(Kind::Task, &table, |_| None, findings));
        }
        members.sort_by_key(|member| member.group.at);
        let groups = top.tables("group", GROUP_FORM, findings);
        File {
            name: top.read("name", form::title, findings),
            hosts: top.read("hosts", |value| form::host_number("hosts", value), findings),
            cpus: top.read("cpus", |value| form::cpu_count("cpus", value), findings),
            smt: top.read("smt", |value| form::cpu_count("smt", value), findings),
            llc: top.read("llc", |value| form::cpu_count("llc", value), findings),
            length: top.read("length", |value| form::time_above_zero("length", value), findings),
            warm_up: top.read("warm_up", |value| form::time("warm_up", value), findings),
            seed: top.read("seed", form::seed, findings),
            policy: policy(&top, findings),
            costs: costs(&top, findings),
            manager: manager::read(&top, findings),
            samples: samples::read(&top, findings),
            network: network::network(&top, findings),
            disk: network::disk(&top, findings),
            level: Level { groups: groups.iter().map(|table| GroupTable::read(table, findings)).collect(), members },
        }
    }
}

/// Reads `costs = "m1"`, or a table. A table starts from the costs of a named machine, or from zero costs, and replaces
/// individual costs.
fn costs(top: &Table<'_, '_>, findings: &mut Findings) -> Costs {
    if let Some((DeValue::String(name), at)) = top.get("costs") {
        return machine(&Placed { value: name.to_string(), at }, findings);
    }
    let right = "the name of a machine, such as \"m1\", or a table, [costs]";
    let Some(table) = top.table_or(("costs", right), ("[costs]", COST_KEYS), findings) else { return Costs::NONE };
    let named = table.read("machine", |value| form::reference("machine", value), findings).right();
    let costs = named.map_or(Costs::NONE, |name| machine(&name, findings));
    let mut cost = |key: &'static str, what: &'static str, otherwise: Nanos| {
        table.read(key, |value| form::time(what, value), findings).value().unwrap_or(otherwise)
    };
    Costs {
        context_switch: cost("context_switch", "context switch", costs.context_switch),
        cache_refill: cost("cache_refill", "cache refill", costs.cache_refill),
        kick: cost("kick", "kick", costs.kick),
        tick: cost("tick", "tick", costs.tick),
        timer_resolution: cost("timer_resolution", "timer resolution", costs.timer_resolution),
        timer_slack: cost("timer_slack", "timer slack", costs.timer_slack),
        exit: cost("exit", "exit", costs.exit),
        hypercall: cost("hypercall", "hypercall", costs.hypercall),
        ..costs
    }
}

/// Returns the costs of the machine with this `name`. Reports an unknown name, and then returns zero costs.
fn machine(name: &Placed<String>, findings: &mut Findings) -> Costs {
    match crate::costs::find(&name.value) {
        Ok(machine) => machine.costs,
        Err(wrong) => {
            findings.add(wrong.at(name.at));
            Costs::NONE
        }
    }
}
