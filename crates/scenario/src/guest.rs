//! Reads a guest: its policy, its groups and tasks, and its settings, such as spin locks, halt polling and
//! coordination.

use super::coordination::{self, CoordinationPlaces};
use super::form;
use super::kind::Kind;
use super::policy::{PolicyTable, policy};
use super::tables::{GUEST_GROUP_KEYS, GUEST_TASK_FORM, GroupTable, GuestTable, Level, MemberTable};
use input::problem::{Findings, Problem, Wrong};
use input::source::Placed;
use input::table::{Given, Table};
use sim::Guest;
use sim::guest::{HaltPolling, PauseLoop};
use toml::de::DeValue;

/// Keys of `guest`.
pub(crate) const GUEST_KEYS: &[&str] = &[
    "policy",
    "spin",
    "steal",
    "shows_preempted",
    "halt_polling",
    "pause_loop",
    "spin_report",
    "idle_polls",
    "coordination",
];
/// Keys of `halt_polling`.
pub(crate) const HALT_POLLING_KEYS: &[&str] = &["most", "grow_start", "grow", "shrink"];

/// Reads the guest of a VM: the key `guest` (`guest = "cfs"` or a table), and the guest's tasks and groups. `None`: the
/// VM has none of these keys.
pub(super) fn read(vm: &Table<'_, '_>, findings: &mut Findings) -> Option<GuestTable> {
    let first = ["guest", "task", "group"].into_iter().find_map(|key| vm.get(key));
    let (_, at) = first?;
    let groups = vm.tables("group", ("[[vm.group]]", GUEST_GROUP_KEYS), findings);
    let tasks = vm.tables("task", GUEST_TASK_FORM, findings);
    let mut members: Vec<MemberTable> =
        tasks.iter().map(|table| MemberTable::read(Kind::Task, table, |_| None, findings)).collect();
    members.sort_by_key(|member| member.group.at);
    let groups = groups.iter().map(|table| GroupTable::read(table, findings)).collect();
    let (policy, guest, coordination) = settings(vm, findings);
    Some(GuestTable { at, policy, guest, coordination, level: Level { groups, members } })
}

fn settings(vm: &Table<'_, '_>, findings: &mut Findings) -> (Given<PolicyTable>, Guest, CoordinationPlaces) {
    let (default, nowhere) = (Guest::default(), CoordinationPlaces::default());
    let Some((value, at)) = vm.get("guest") else { return (Given::Absent, default, nowhere) };
    if value.is_str() {
        let name = vm.read("guest", |value| form::reference("guest", value), findings);
        return (Given::Right(Placed { value: PolicyTable { name, knobs: Vec::new() }, at }), default, nowhere);
    }
    let Some(entries) = value.as_table() else {
        let right = "the name of a policy, such as guest = \"cfs\", or a table, [vm.guest]";
        findings.add(form::mistyped("guest", value, right).at(at));
        return (Given::Wrong(at), default, nowhere);
    };
    let table = Table::new(entries, at, ("`guest`", GUEST_KEYS), findings);
    let policy = policy(&table, findings);
    let (coordination, places) = coordination::read(&table, findings).unzip();
    let guest = Guest {
        coordination,
        spinning: table.read("spin", form::spin, findings).value().unwrap_or(default.spinning),
        steal: table.read("steal", form::steal, findings).value().unwrap_or(default.steal),
        shows_preempted: table
            .read("shows_preempted", |value| form::switch("shows_preempted", value), findings)
            .value()
            .unwrap_or(default.shows_preempted),
        halt_polling: halt_polling(&table, findings).unwrap_or(default.halt_polling),
        pause_loop: table
            .read("pause_loop", |value| form::time_above_zero("pause_loop", value), findings)
            .value()
            .map(|window| PauseLoop { window }),
        spin_report: table.read("spin_report", |value| form::time_above_zero("spin_report", value), findings).value(),
        idle_polls: table
            .read("idle_polls", |value| form::switch("idle_polls", value), findings)
            .value()
            .unwrap_or(default.idle_polls),
    };
    (policy, guest, places.unwrap_or_default())
}

/// Reads the settings of halt polling: `"off"`, `"kvm"` or a table.
fn halt_polling(guest: &Table<'_, '_>, findings: &mut Findings) -> Option<HaltPolling> {
    const RIGHT: &str = "\"off\", \"kvm\" or { most = \"200us\" }";
    let (value, at) = guest.get("halt_polling")?;
    match value {
        DeValue::String(word) if word == "off" => return Some(HaltPolling::OFF),
        DeValue::String(word) if word == "kvm" => return Some(HaltPolling::KVM),
        DeValue::Table(_) => {}
        _ => {
            let wrong = match value {
                DeValue::String(_) => Wrong::new("halt polling has another form", "not so", format!("use {RIGHT}")),
                other => form::mistyped("halt_polling", other, RIGHT),
            };
            findings.add(wrong.at(at));
            return None;
        }
    }
    let table = guest.table("halt_polling", ("`halt_polling`", HALT_POLLING_KEYS), findings)?;
    let most = table.read("most", |value| form::time("most", value), findings);
    if most.is_absent() {
        let problem = Problem::new("halt polling has no maximum time").at(at, "no `most`");
        findings.add(problem.help(format!("use {RIGHT}")));
    }
    let kvm = HaltPolling::KVM;
    let mut factor = |key: &'static str, least: u64, default: u32| {
        let read = table.read(key, |value| form::count(key, value, least..=u64::from(u32::MAX)), findings);
        read.value().and_then(|factor| u32::try_from(factor).ok()).unwrap_or(default)
    };
    let (grow, shrink) = (factor("grow", 2, kvm.grow), factor("shrink", 0, kvm.shrink));
    let grow_start = table.read("grow_start", |value| form::time_above_zero("grow_start", value), findings);
    Some(HaltPolling { most: most.value()?, grow_start: grow_start.value().unwrap_or(kvm.grow_start), grow, shrink })
}
