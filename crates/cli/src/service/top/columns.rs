//! The columns of `tactus top`, and which of them fit.

use super::rates::Rate;
use api::Limit;
use report::{percent, short};
use sched::Nanos;

/// Number of characters between two columns.
pub(super) const SPACING: usize = 2;

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    Name,
    Kind,
    State,
    Asked,
    Cpus,
    Weight,
    Cap,
    Granted,
    By,
    Delivered,
    OfCpu,
    Missed,
    InAll,
    Vcpus,
    Used,
    Others,
    Waited,
    Latency,
    /// The sparkline. Only the screen has it, because it needs several intervals.
    Trend,
}

impl Column {
    /// All columns, from left to right.
    pub(super) const ALL: [Column; 19] = [
        Column::Name,
        Column::Kind,
        Column::State,
        Column::Asked,
        Column::Cpus,
        Column::Weight,
        Column::Cap,
        Column::Granted,
        Column::By,
        Column::Delivered,
        Column::OfCpu,
        Column::Missed,
        Column::InAll,
        Column::Vcpus,
        Column::Used,
        Column::Others,
        Column::Waited,
        Column::Latency,
        Column::Trend,
    ];

    /// The columns that a narrow terminal drops, the first one first. The name stays.
    const DROPPED: [Column; 18] = [
        Column::Vcpus,
        Column::Kind,
        Column::InAll,
        Column::Others,
        Column::By,
        Column::OfCpu,
        Column::Cap,
        Column::Weight,
        Column::Cpus,
        Column::Trend,
        Column::Latency,
        Column::Used,
        Column::Granted,
        Column::Waited,
        Column::Delivered,
        Column::Missed,
        Column::Asked,
        Column::State,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Column::Name => "name",
            Column::Kind => "kind",
            Column::State => "state",
            Column::Asked => "asked",
            Column::Cpus => "CPUs",
            Column::Weight => "weight",
            Column::Cap => "cap",
            Column::Granted => "granted",
            Column::By => "by",
            Column::Delivered => "delivered",
            Column::OfCpu => "of CPU",
            Column::Missed => "missed",
            Column::InAll => "in all",
            Column::Vcpus => "vCPUs",
            Column::Used => "used",
            Column::Others => "others",
            Column::Waited => "waited",
            Column::Latency => "latency",
            Column::Trend => "trend",
        }
    }

    /// Whether the cells are aligned to the left.
    pub(super) fn is_left(self) -> bool {
        matches!(self, Column::Name | Column::Kind | Column::State | Column::Asked | Column::By)
    }

    /// Returns the cell of a VM; empty: the value is not known, or does not exist. The sparkline is no part of a rate.
    pub(super) fn cell(self, vm: &Rate) -> String {
        let share = |ppm: Option<u64>| ppm.map_or(String::new(), percent);
        let number = |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
        match self {
            Column::Name => vm.name.clone(),
            Column::Kind => vm.kind.word().to_string(),
            Column::State => vm.state.clone(),
            Column::Asked => asked(vm),
            Column::Cpus => cpus(vm),
            Column::Weight => number(vm.desired.weight),
            Column::Cap => vm.desired.cap_percent.map_or(String::new(), |cap| format!("{cap}%")),
            Column::Granted => share(vm.granted_ppm),
            Column::By => vm.mechanism.clone().unwrap_or_default(),
            Column::Delivered => share(vm.delivered_of_due_ppm),
            Column::OfCpu => share(vm.delivered_ppm),
            Column::Missed => counted(vm.missed, vm.judged),
            Column::InAll => counted(vm.missed_in_all, vm.judged_in_all),
            Column::Vcpus => number(vm.vcpus),
            Column::Used => share(vm.used_ppm),
            Column::Others => share(vm.others_ppm),
            Column::Waited => share(vm.waited_ppm),
            Column::Latency => vm.latency_ns.map_or(String::new(), short),
            Column::Trend => String::new(),
        }
    }
}

fn asked(vm: &Rate) -> String {
    let Some(promise) = &vm.desired.promise else { return String::new() };
    let limit = if promise.limit == Limit::Hard { " hard" } else { "" };
    format!("{}/{}{limit}", Nanos::ns(promise.slice_ns), Nanos::ns(promise.period_ns))
}

fn cpus(vm: &Rate) -> String {
    let Some(promise) = &vm.desired.promise else { return String::new() };
    format!("{}{}", promise.cpus, if promise.gang { " gang" } else { "" })
}

fn counted(missed: u64, judged: u64) -> String {
    if judged == 0 { String::new() } else { format!("{missed}/{judged}") }
}

/// Returns the columns of `all`, each with its width, that fit into `width` characters.
pub(super) fn fitting(all: &[(Column, usize)], width: usize) -> Vec<(Column, usize)> {
    let mut left = all.to_vec();
    for dropped in Column::DROPPED {
        let needed: usize = left.iter().map(|(_, width)| width + SPACING).sum();
        if needed <= width.saturating_add(SPACING) {
            break;
        }
        left.retain(|(column, _)| *column != dropped);
    }
    left
}
