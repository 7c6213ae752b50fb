//! The TOML form: what was typed, each value with its place. What it means together is `check`'s business.

use super::form;
use super::guest::{self, GuestTable};
use super::manager::{self, ManagerTable};
use super::network::{self, Typed};
use super::samples::{self, SamplesSpec};
use super::work::{self, Work};
use crate::devices::{DiskSpec, NetworkSpec};
use input::knobs::{KnobPlace, KnobSetting, KnobValue};
use input::problem::{Findings, Problem, Wrong};
use input::source::{Placed, Span};
use input::table::{Given, Table, TableForm};
use sched::{Class, CpuSet, Limit, Nanos, Quota, Warp, Weight};
use sim::Costs;
use toml::de::{DeTable, DeValue};

/// The keys at the top of a file.
pub(crate) const FILE_KEYS: &[&str] = &[
    "name", "hosts", "cpus", "smt", "llc", "length", "warm_up", "seed", "policy", "costs", "network", "disk",
    "manager", "samples", "group", "vm", "task",
];
/// The keys of `[policy]`.
pub(crate) const POLICY_KEYS: &[&str] = &["name", "knobs"];
/// The keys of `[costs]`.
pub(crate) const COST_KEYS: &[&str] =
    &["machine", "context_switch", "cache_refill", "kick", "tick", "timer_slack", "exit", "hypercall"];
/// The keys of `[[group]]`.
pub(crate) const GROUP_KEYS: &[&str] =
    &["name", "parent", "weight", "nice", "cgroup_weight", "cap", "quota", "gang", "host"];
/// The keys of a guest's `[[vm.group]]`: a guest has one machine.
pub(crate) const GUEST_GROUP_KEYS: &[&str] = GROUP_KEYS.split_at(GROUP_KEYS.len() - 1).0;
/// The keys of `[[vm]]`.
pub(crate) const VM_KEYS: &[&str] = &[
    "name",
    "count",
    "parent",
    "vcpus",
    "weight",
    "nice",
    "cgroup_weight",
    "cap",
    "quota",
    "gang",
    "slice",
    "period",
    "deadline",
    "start",
    "limit",
    "affinity",
    "class",
    "latency",
    "warp",
    "switch",
    "arrival",
    "leaves",
    "change",
    "workload",
    "host",
    "command",
    "pid",
    "guest",
    "group",
    "task",
];
/// The keys of `[[task]]`: a VM's, less what only a group can have, and guests.
pub(crate) const TASK_KEYS: &[&str] = &[
    "name",
    "count",
    "parent",
    "weight",
    "nice",
    "cgroup_weight",
    "slice",
    "period",
    "deadline",
    "start",
    "limit",
    "affinity",
    "class",
    "latency",
    "warp",
    "arrival",
    "leaves",
    "workload",
    "host",
    "command",
    "pid",
];
/// The keys of `[[vm.change]]`.
pub(crate) const CHANGE_KEYS: &[&str] = &["at", "slice", "period"];
/// The keys of `warp`.
pub(crate) const WARP_KEYS: &[&str] = &["by", "limit", "rest"];
/// The keys of a guest's `[[vm.task]]`: a task's, less its host and what makes it a real process.
pub(crate) const GUEST_TASK_KEYS: &[&str] = TASK_KEYS.split_at(TASK_KEYS.len() - 3).0;

/// The keys of `[[task]]`, and where others belong.
const TASK_FORM: TableForm<'static> = TableForm { what: "[[task]]", keys: TASK_KEYS, elsewhere: task_elsewhere };
/// The keys of `[[group]]`, and where others belong.
const GROUP_FORM: TableForm<'static> = TableForm { what: "[[group]]", keys: GROUP_KEYS, elsewhere: group_elsewhere };
/// The keys of `[[vm.task]]`, and where others belong.
pub(super) const GUEST_TASK_FORM: TableForm<'static> =
    TableForm { what: "[[vm.task]]", keys: GUEST_TASK_KEYS, elsewhere: guest_task_elsewhere };

fn task_elsewhere(key: &str) -> Option<&'static str> {
    match key {
        "cap" | "quota" => Some("use a [[group]] with it, which is the task's parent"),
        "guest" | "task" | "group" => Some("use a [[vm]]: only a VM has a guest"),
        "vcpus" => Some("use a [[vm]]: a task runs on one CPU at a time"),
        _ => None,
    }
}

fn guest_task_elsewhere(key: &str) -> Option<&'static str> {
    match key {
        "command" | "pid" => Some("use a workload: a guest's tasks are simulated"),
        "cap" | "quota" => Some("use a [[vm.group]] with it, which is the task's parent"),
        _ => None,
    }
}

fn group_elsewhere(key: &str) -> Option<&'static str> {
    match key {
        "slice" | "period" | "affinity" | "class" | "workload" | "command" | "pid" | "arrival" | "leaves" => {
            Some("use a [[vm]] or [[task]] with it, whose parent is the group")
        }
        _ => None,
    }
}

/// A file as typed.
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
    /// Groups, VMs and tasks on the host.
    pub(super) level: Level,
}

/// Groups, VMs and tasks on one machine: the host or a guest.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) groups: Vec<GroupTable>,
    /// VMs and tasks in the order of the file.
    pub(super) members: Vec<MemberTable>,
}

/// `[policy]`.
#[derive(Debug)]
pub(super) struct PolicyTable {
    pub(super) name: Given<String>,
    pub(super) knobs: Vec<KnobSetting>,
}

/// What `[[group]]` and `[[vm]]` have in common: a name, a place in the tree, a share and ceilings.
#[derive(Debug)]
pub(super) struct GroupTable {
    /// The header.
    pub(super) at: Span,
    pub(super) name: Given<String>,
    pub(super) parent: Given<String>,
    pub(super) weight: Given<Weight>,
    pub(super) cap: Given<u32>,
    pub(super) quota: Given<Quota>,
    pub(super) gang: Given<bool>,
    /// From 1.
    pub(super) host: Given<usize>,
}

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Vm,
    Task,
}

impl Kind {
    /// Its name in the file.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Kind::Vm => "the vm",
            Kind::Task => "the task",
        }
    }
}

/// `[[vm]]` or `[[task]]`.
#[derive(Debug)]
pub(super) struct MemberTable {
    pub(super) kind: Kind,
    /// A task has no ceilings.
    pub(super) group: GroupTable,
    pub(super) vcpus: Given<usize>,
    pub(super) slice: Given<Nanos>,
    pub(super) period: Given<Nanos>,
    pub(super) deadline: Given<Nanos>,
    pub(super) start: Given<Nanos>,
    pub(super) limit: Given<Limit>,
    pub(super) affinity: Given<CpuSet>,
    pub(super) class: Given<Class>,
    pub(super) latency: Given<Nanos>,
    pub(super) warp: Given<Warp>,
    pub(super) switch: Option<Placed<Nanos>>,
    pub(super) arrival: Given<Nanos>,
    pub(super) leaves: Given<Nanos>,
    pub(super) changes: Vec<ChangeTable>,
    /// Absent only where there is a command or pid, or a guest.
    pub(super) work: Given<Work>,
    pub(super) command: Given<Vec<String>>,
    pub(super) pid: Given<u32>,
    /// The scheduler on the vCPUs of a VM.
    pub(super) guest: Option<GuestTable>,
}

/// `[[vm.change]]`: another reservation from some moment on.
#[derive(Debug)]
pub(super) struct ChangeTable {
    /// The header.
    pub(super) place: Span,
    pub(super) at: Given<Nanos>,
    pub(super) slice: Given<Nanos>,
    pub(super) period: Given<Nanos>,
}

impl ChangeTable {
    fn read(table: &Table<'_, '_>, findings: &mut Findings) -> ChangeTable {
        let mut time = |key: &'static str| {
            let given = table.read(key, |value| form::time(key, value), findings);
            if given.is_absent() {
                let problem = Problem::new(format!("the change has no {key}")).at(table.at, format!("no `{key}`"));
                findings.add(problem.help("use at = \"2s\", slice = \"5ms\" and period = \"20ms\""));
            }
            given
        };
        ChangeTable { place: table.at, at: time("at"), slice: time("slice"), period: time("period") }
    }
}

impl File {
    /// Reads a parsed document.
    pub(super) fn read(document: &DeTable<'_>, findings: &mut Findings) -> File {
        let top = Table::new(document, Span::default(), ("a scenario", FILE_KEYS), findings);
        let mut members: Vec<MemberTable> = Vec::new();
        for table in top.tables("vm", ("[[vm]]", VM_KEYS), findings) {
            members.push(MemberTable::read(Kind::Vm, &table, findings));
        }
        for table in top.tables("task", TASK_FORM, findings) {
            members.push(MemberTable::read(Kind::Task, &table, findings));
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

/// `policy = "edf"`, or a table with knobs.
pub(super) fn policy(top: &Table<'_, '_>, findings: &mut Findings) -> Given<PolicyTable> {
    let Some((value, at)) = top.get("policy") else { return Given::Absent };
    if value.is_str() {
        let name = top.read("policy", |value| form::reference("policy", value), findings);
        return Given::Right(Placed { value: PolicyTable { name, knobs: Vec::new() }, at });
    }
    let Some(table) = top.table("policy", ("[policy]", POLICY_KEYS), findings) else { return Given::Wrong(at) };
    let name = table.read("name", |value| form::reference("name", value), findings);
    if name.is_absent() {
        let help = "use the name of a policy, such as name = \"edf\"";
        findings.add(Problem::new("the policy has no name").at(table.at, "no name").help(help));
    }
    let knobs = knobs(&table, findings);
    Given::Right(Placed { value: PolicyTable { name, knobs }, at })
}

/// The knobs as written. Which there are is the policy's business.
fn knobs(policy: &Table<'_, '_>, findings: &mut Findings) -> Vec<KnobSetting> {
    let Some((value, at)) = policy.get("knobs") else { return Vec::new() };
    let Some(entries) = value.as_table() else {
        let right = "a table, such as { quantum = \"10ms\" }";
        findings.add(form::mistyped("knobs", value, right).at(at));
        return Vec::new();
    };
    let mut settings = Vec::new();
    for (name, value) in Table::all(entries, at).iter() {
        let written = match value.value {
            DeValue::String(text) => Ok(KnobValue::Text(text.to_string())),
            DeValue::Boolean(on) => Ok(KnobValue::Switch(*on)),
            other => {
                let right = "a text in quotes, a whole number, true or false";
                form::integer(name.value, other, right).map(KnobValue::Integer)
            }
        };
        match written {
            Ok(written) => settings.push(KnobSetting {
                name: name.value.to_string(),
                value: written,
                place: Some(KnobPlace { source: findings.source().clone(), name: name.at, value: value.at }),
            }),
            Err(wrong) => findings.add(wrong.at(value.at)),
        }
    }
    settings.sort_by_key(|setting| setting.place.as_ref().map(|place| place.name));
    settings
}

/// `costs = "m1"`, or a table: the costs of a machine, or none, and single ones that are different.
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
        timer_slack: cost("timer_slack", "timer slack", costs.timer_slack),
        exit: cost("exit", "exit", costs.exit),
        hypercall: cost("hypercall", "hypercall", costs.hypercall),
    }
}

/// The costs of the machine called `name`.
fn machine(name: &Placed<String>, findings: &mut Findings) -> Costs {
    match crate::costs::find(&name.value) {
        Ok(machine) => machine.costs,
        Err(wrong) => {
            findings.add(wrong.at(name.at));
            Costs::NONE
        }
    }
}

impl GroupTable {
    pub(super) fn read(table: &Table<'_, '_>, findings: &mut Findings) -> GroupTable {
        GroupTable {
            at: table.at,
            name: table.read("name", form::name, findings),
            parent: table.read("parent", |value| form::reference("parent", value), findings),
            weight: weight(table, findings),
            cap: table.read("cap", form::cap, findings),
            quota: table.read("quota", form::quota, findings),
            gang: table.read("gang", |value| form::switch("gang", value), findings),
            host: table.read("host", |value| form::host_number("host", value), findings),
        }
    }
}

/// A share in one of three scales.
fn weight(table: &Table<'_, '_>, findings: &mut Findings) -> Given<Weight> {
    let given = [
        table.read("weight", form::weight, findings),
        table.read("nice", form::nice, findings),
        table.read("cgroup_weight", form::cgroup_weight, findings),
    ];
    let mut scales: Vec<Given<Weight>> = given.into_iter().filter(|weight| !weight.is_absent()).collect();
    scales.sort_by_key(Given::at);
    let first = scales.first().copied().unwrap_or(Given::Absent);
    if let (Some(first), Some(second)) = (first.at(), scales.get(1).and_then(Given::at)) {
        let problem = Problem::new("the share is given twice").at(second, "again").at(first, "first here");
        findings.add(problem.help("use one of `weight`, `nice` and `cgroup_weight`: they are scales of the same"));
    }
    first
}

impl MemberTable {
    pub(super) fn read(kind: Kind, table: &Table<'_, '_>, findings: &mut Findings) -> MemberTable {
        let mut time = |key: &'static str, form: fn(&'static str, &DeValue<'_>) -> Result<Nanos, Wrong>| {
            table.read(key, |value| form(key, value), findings)
        };
        let (slice, period) = (time("slice", form::time), time("period", form::time));
        let (deadline, latency) = (time("deadline", form::time_above_zero), time("latency", form::time_above_zero));
        let (start, arrival, leaves) =
            (time("start", form::time), time("arrival", form::time), time("leaves", form::time));
        let command = table.read("command", form::command, findings);
        let pid = table.read("pid", form::pid, findings);
        let is_real = !command.is_absent() || !pid.is_absent();
        let guest = if kind == Kind::Vm { guest::read(table, findings) } else { None };
        let changes = match kind {
            Kind::Vm => table.tables("change", ("[[vm.change]]", CHANGE_KEYS), findings),
            Kind::Task => Vec::new(),
        };
        MemberTable {
            kind,
            group: GroupTable::read(table, findings),
            vcpus: table.read("vcpus", form::vcpu_count, findings),
            slice,
            period,
            deadline,
            start,
            limit: table.read("limit", form::limit, findings),
            affinity: table.read("affinity", form::cpu_list, findings),
            class: table.read("class", form::class, findings),
            latency,
            warp: warp(table, findings),
            switch: network::switch(table, findings),
            arrival,
            leaves,
            changes: changes.iter().map(|table| ChangeTable::read(table, findings)).collect(),
            work: if (is_real || guest.is_some()) && table.get("workload").is_none() {
                Given::Absent
            } else {
                work::read(table, kind, findings)
            },
            command,
            pid,
            guest,
        }
    }
}

/// `{ by, limit, rest }`.
fn warp(member: &Table<'_, '_>, findings: &mut Findings) -> Given<Warp> {
    let Some((_, at)) = member.get("warp") else { return Given::Absent };
    let Some(table) = member.table("warp", ("`warp`", WARP_KEYS), findings) else { return Given::Wrong(at) };
    let by = table.read("by", |value| form::time("by", value), findings);
    let mut other = |key: &'static str| table.read(key, |value| form::time(key, value), findings).value();
    let (limit, rest) = (other("limit").unwrap_or_default(), other("rest").unwrap_or_default());
    if by.is_absent() {
        let problem = Problem::new("the warp has no length").at(at, "no `by`");
        findings.add(problem.help("use { by = \"20ms\" }, with `limit` and `rest` where it is to end"));
    }
    by.right().map_or(Given::Wrong(at), |by| Given::Right(Placed { value: Warp { by: by.value, limit, rest }, at }))
}
