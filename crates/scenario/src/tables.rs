//! The tables of groups, VMs, tasks and guests, before the checks between values.

use super::Mechanism;
use super::coordination::CoordinationPlaces;
use super::form;
use super::kind::Kind;
use super::policy::PolicyTable;
use super::work::{self, Work};
use input::problem::{Findings, Problem, Wrong};
use input::source::{Placed, Span};
use input::table::{Given, Table, TableForm};
use sched::{Class, CpuSet, Limit, Nanos, Quota, Warp, Weight};
use sim::Guest;
use toml::de::DeValue;

/// Keys of `[[group]]`.
pub(crate) const GROUP_KEYS: &[&str] =
    &["name", "parent", "weight", "nice", "cgroup_weight", "cap", "quota", "gang", "host"];
/// Keys of a guest's `[[vm.group]]`. A guest is one machine, so the key `host` is absent.
pub(crate) const GUEST_GROUP_KEYS: &[&str] = GROUP_KEYS.split_at(GROUP_KEYS.len() - 1).0;
/// Keys of `[[vm]]`.
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
    "stagger",
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
    "mechanism",
    "guest",
    "group",
    "task",
];
/// Keys of `[[task]]`: the keys of `[[vm]]` without the keys that only a VM can have.
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
    "mechanism",
];
/// Keys of `[[vm.change]]`.
pub(crate) const CHANGE_KEYS: &[&str] = &["at", "slice", "period"];
/// Keys of `warp`.
pub(crate) const WARP_KEYS: &[&str] = &["by", "limit", "rest"];
/// Keys of a guest's `[[vm.task]]`: the keys of `[[task]]` without the host and without the keys of a real process.
pub(crate) const GUEST_TASK_KEYS: &[&str] = TASK_KEYS.split_at(TASK_KEYS.len() - 4).0;

/// Keys of `[[task]]`, and remedies for keys of other tables.
pub(super) const TASK_FORM: TableForm<'static> =
    TableForm { what: "[[task]]", keys: TASK_KEYS, elsewhere: task_elsewhere };
/// Keys of `[[group]]`, and remedies for keys of other tables.
pub(super) const GROUP_FORM: TableForm<'static> =
    TableForm { what: "[[group]]", keys: GROUP_KEYS, elsewhere: group_elsewhere };
/// Keys of `[[vm.task]]`, and remedies for keys of other tables.
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
        "command" | "pid" | "mechanism" => Some("use a workload: a guest's tasks are simulated"),
        "cap" | "quota" => Some("use a [[vm.group]] with it, which is the task's parent"),
        _ => None,
    }
}

fn group_elsewhere(key: &str) -> Option<&'static str> {
    match key {
        "slice" | "period" | "affinity" | "class" | "workload" | "command" | "pid" | "mechanism" | "arrival"
        | "leaves" => Some("use a [[vm]] or [[task]] with it, whose parent is the group"),
        _ => None,
    }
}

/// Groups, VMs and tasks on one machine: the host or a guest.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) groups: Vec<GroupTable>,
    /// VMs and tasks in the order of the file.
    pub(super) members: Vec<MemberTable>,
}

/// The common settings of `[[group]]` and `[[vm]]`: name, parent, weight, cap, quota, gang and host.
#[derive(Debug)]
pub(super) struct GroupTable {
    /// Span of the header.
    pub(super) at: Span,
    pub(super) name: Given<String>,
    pub(super) parent: Given<String>,
    pub(super) weight: Given<Weight>,
    pub(super) cap: Given<u32>,
    pub(super) quota: Given<Quota>,
    pub(super) gang: Given<bool>,
    /// Number of the host, from 1.
    pub(super) host: Given<usize>,
}

/// `[[vm]]` or `[[task]]`.
#[derive(Debug)]
pub(super) struct MemberTable {
    pub(super) kind: Kind,
    /// The settings that members and groups have in common. A task has no cap, quota or gang.
    pub(super) group: GroupTable,
    pub(super) vcpus: Given<usize>,
    pub(super) slice: Given<Nanos>,
    pub(super) period: Given<Nanos>,
    pub(super) deadline: Given<Nanos>,
    pub(super) start: Given<Nanos>,
    pub(super) stagger: Given<Nanos>,
    pub(super) limit: Given<Limit>,
    pub(super) affinity: Given<CpuSet>,
    pub(super) class: Given<Class>,
    pub(super) latency: Given<Nanos>,
    pub(super) warp: Given<Warp>,
    pub(super) switch: Option<Placed<Nanos>>,
    pub(super) arrival: Given<Nanos>,
    pub(super) leaves: Given<Nanos>,
    pub(super) changes: Vec<ChangeTable>,
    /// Workload. Optional only with a command, a pid or a guest.
    pub(super) work: Given<Work>,
    pub(super) command: Given<Vec<String>>,
    pub(super) pid: Given<u32>,
    pub(super) mechanism: Given<Mechanism>,
    /// Guest of a VM, if the VM has one.
    pub(super) guest: Option<GuestTable>,
}

/// `[[vm.change]]`: a new reservation that takes effect at an instant.
#[derive(Debug)]
pub(super) struct ChangeTable {
    /// Span of the header.
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

/// The guest of a VM.
#[derive(Debug)]
pub(super) struct GuestTable {
    /// Span of the key or table that gives the VM a guest.
    pub(super) at: Span,
    pub(super) policy: Given<PolicyTable>,
    pub(super) guest: Guest,
    pub(super) coordination: CoordinationPlaces,
    pub(super) level: Level,
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

/// Reads a weight in one of three scales. Reports a second scale.
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
        findings
            .add(problem.help("use one of `weight`, `nice` and `cgroup_weight`: they are scales of the same weight"));
    }
    first
}

impl MemberTable {
    /// Reads a member. `guest` reads the guest of a VM.
    pub(super) fn read(
        kind: Kind,
        table: &Table<'_, '_>,
        guest: impl FnOnce(&mut Findings) -> Option<GuestTable>,
        findings: &mut Findings,
    ) -> MemberTable {
        let mut time = |key: &'static str, form: fn(&'static str, &DeValue<'_>) -> Result<Nanos, Wrong>| {
            table.read(key, |value| form(key, value), findings)
        };
        let (slice, period) = (time("slice", form::time), time("period", form::time));
        let (deadline, latency) = (time("deadline", form::time_above_zero), time("latency", form::time_above_zero));
        let (start, arrival, leaves) =
            (time("start", form::time), time("arrival", form::time), time("leaves", form::time));
        let stagger = time("stagger", form::time_above_zero);
        let command = table.read("command", form::command, findings);
        let pid = table.read("pid", form::pid, findings);
        let is_real = !command.is_absent() || !pid.is_absent();
        let guest = if kind == Kind::Vm { guest(findings) } else { None };
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
            stagger,
            limit: table.read("limit", form::limit, findings),
            affinity: table.read("affinity", form::cpu_list, findings),
            class: table.read("class", form::class, findings),
            latency,
            warp: warp(table, findings),
            switch: switch(table, findings),
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
            mechanism: table.read("mechanism", form::mechanism, findings),
            guest,
        }
    }
}

/// Reads the warp: `{ by, limit, rest }`.
fn warp(member: &Table<'_, '_>, findings: &mut Findings) -> Given<Warp> {
    let Some((_, at)) = member.get("warp") else { return Given::Absent };
    let Some(table) = member.table("warp", ("`warp`", WARP_KEYS), findings) else { return Given::Wrong(at) };
    let by = table.read("by", |value| form::time("by", value), findings);
    let mut other = |key: &'static str| table.read(key, |value| form::time(key, value), findings).value();
    let (limit, rest) = (other("limit").unwrap_or_default(), other("rest").unwrap_or_default());
    if by.is_absent() {
        let problem = Problem::new("the warp has no length").at(at, "no `by`");
        findings.add(problem.help("use { by = \"20ms\" }, with `limit` and `rest` for a warp that ends"));
    }
    by.right().map_or(Given::Wrong(at), |by| Given::Right(Placed { value: Warp { by: by.value, limit, rest }, at }))
}

/// Reads `switch`: the time that a CPU needs to switch to a vCPU of the VM.
fn switch(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Placed<Nanos>> {
    table.read("switch", |value| form::time("switch", value), findings).right()
}
