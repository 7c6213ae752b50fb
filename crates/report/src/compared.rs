//! [`Compared`]: the predicted results of each entity in a simulation, beside the observed results in a live run.

use crate::asked::{Asked, shown};
use crate::got::{Entity, Got};
use crate::run_report::Report;
use crate::short::{percent, short};
use crate::tables::grid::{Grid, ROWS_MAX, Widths, and_more};
use serde::Serialize;
use std::collections::BTreeMap;

/// The predicted and the observed results of a scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Compared {
    /// Title of the scenario.
    pub scenario: String,
    /// Name of the policy.
    pub policy: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Predicted results of all entities together. `delivered_ppm` is relative to all CPUs.
    pub predicted: Got,
    /// Observed results of all entities together.
    pub observed: Got,
    /// The entities of the simulation in the order of the scenario, followed by entities that only the live run has.
    pub entities: Vec<ComparedEntity>,
}

/// The results of an entity in the simulation and in the live run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ComparedEntity {
    /// Display name of the entity.
    pub name: String,
    /// Requested parameters of the entity.
    pub asked: Asked,
    /// Predicted results; `None`: the entity did not arrive in the simulation.
    pub predicted: Option<Got>,
    /// Observed results; `None`: the entity did not arrive in the live run.
    pub observed: Option<Got>,
}

/// Pairs the report `predicted` of a simulation with the report `observed` of a live run of the same scenario.
#[must_use]
pub fn compared(predicted: &Report, observed: &Report) -> Compared {
    let mut came: BTreeMap<&str, Got> = observed.entities.iter().map(|it| (it.name.as_str(), it.got)).collect();
    let beside = |of: &Entity, predicted, observed| {
        let (name, asked) = (of.name.clone(), of.asked.clone());
        ComparedEntity { name, asked, predicted, observed }
    };
    let both = predicted.entities.iter().map(|it| beside(it, Some(it.got), came.remove(it.name.as_str())));
    let mut entities: Vec<ComparedEntity> = both.collect();
    let alone = observed.entities.iter().filter(|it| came.contains_key(it.name.as_str()));
    entities.extend(alone.map(|it| beside(it, None, Some(it.got))));
    Compared {
        scenario: observed.scenario.clone(),
        policy: observed.policy.clone(),
        cpus: observed.cpus,
        predicted: predicted.total,
        observed: observed.total,
        entities,
    }
}

/// The columns of the table, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Name,
    Asked,
    Which,
    Delivered,
    Late,
    Short,
    Median,
    Percentile,
    Longest,
}

impl Column {
    const ALL: [(Column, &'static str); 9] = [
        (Column::Name, ""),
        (Column::Asked, "asked"),
        (Column::Which, ""),
        (Column::Delivered, "got"),
        (Column::Late, "jobs late"),
        (Column::Short, "slices short"),
        (Column::Median, "wake-up p50"),
        (Column::Percentile, "p99"),
        (Column::Longest, "max"),
    ];
    /// Columns in the order in which they are omitted if the table is too wide.
    const LEAST_MISSED: [Column; 3] = [Column::Asked, Column::Median, Column::Percentile];

    fn cell(self, got: &Got) -> String {
        let of = |part: u64, whole: u64| if whole > 0 { format!("{part}/{whole}") } else { "–".to_string() };
        let time = |ns| if got.wakeups > 0 { short(ns) } else { "–".to_string() };
        match self {
            Column::Name | Column::Asked | Column::Which => String::new(),
            Column::Delivered => percent(got.delivered_ppm),
            Column::Late => of(got.late_jobs(), got.releases),
            Column::Short => of(got.periods_missed, got.periods_judged),
            Column::Median => time(got.wakeup_p50_ns),
            Column::Percentile => time(got.wakeup_p99_ns),
            Column::Longest => time(got.wakeup_max_ns),
        }
    }
}

/// Returns the table of the simulation and the live run. Each entity has a line with its predicted results and a line
/// with its observed results.
#[must_use]
pub fn side_by_side(compared: &Compared, widths: Widths) -> String {
    let mut columns = Column::ALL.to_vec();
    let mut least_missed = Column::LEAST_MISSED.iter();
    let text = loop {
        let text = drawn(compared, &columns);
        let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        match least_missed.next().filter(|_| width > usize::from(widths.0)) {
            Some(least) => columns.retain(|(column, _)| column != least),
            None => break text,
        }
    };
    let left_out = match Column::ALL.len() - columns.len() {
        0 => String::new(),
        count => format!("({count} more columns need a larger --width, or --json)\n"),
    };
    text + &left_out + &and_more(compared.entities.len().saturating_sub(ROWS_MAX / 2))
}

fn drawn(compared: &Compared, columns: &[(Column, &'static str)]) -> String {
    let words = columns.iter().take_while(|(column, _)| *column != Column::Delivered).count();
    let mut table = Grid::new(columns.iter().map(|(_, title)| (*title).to_string()).collect(), words);
    let mut add = |name: &str, asked: String, predicted: Option<&Got>, observed: Option<&Got>| {
        for (nth, (which, got)) in [("predicted", predicted), ("observed", observed)].into_iter().enumerate() {
            let cell = |(column, _): &(Column, &str)| match (column, got) {
                (Column::Name, _) if nth == 0 => name.to_string(),
                (Column::Asked, _) if nth == 0 => asked.clone(),
                (Column::Name | Column::Asked, _) => String::new(),
                (Column::Which, _) => which.to_string(),
                (_, None) => "–".to_string(),
                (column, Some(got)) => column.cell(got),
            };
            table.add(columns.iter().map(cell).collect());
        }
    };
    for entity in compared.entities.iter().take(ROWS_MAX / 2) {
        add(&entity.name, shown(&entity.asked), entity.predicted.as_ref(), entity.observed.as_ref());
    }
    add("all", String::new(), Some(&compared.predicted), Some(&compared.observed));
    table.to_string()
}
