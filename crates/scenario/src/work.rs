//! Reads `workload`: the behaviour of a VM's vCPUs or of a task.

use super::form;
use super::kind::Kind;
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::Placed;
use input::table::{Given, Table};
use sim::Workload;
use std::sync::Arc;
use toml::de::DeValue;
use workloads::{ApplicationWorkload, Selected, Settings, WorkloadDescriptor};

/// Maximum number of steps of all tasks of a workload.
const STEPS_MAX: u64 = 1 << 22;
const RIGHT: &str = "\"hog\" or { periodic = { period = \"10ms\", work = \"2ms\" } }";

/// The workload of a VM or task.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// The workload of a single entity.
    Entity(Workload),
    /// The tasks of an application.
    Application(Arc<dyn ApplicationWorkload>),
    /// A file of rt-app, by its path.
    RtApp(String),
}

/// Reads `"hog"`, or a table with the name of one workload.
pub(super) fn read(member: &Table<'_, '_>, kind: Kind, findings: &mut Findings) -> Given<Work> {
    let Some((value, at)) = member.get("workload") else {
        let help = format!("use workload = {RIGHT}");
        let problem = Problem::new(format!("{} has no workload", kind.noun())).at(member.at, "no workload");
        findings.add(problem.help(help));
        return Given::Absent;
    };
    let typed = match value {
        DeValue::String(name) => Some((Placed { value: name.as_ref(), at }, None)),
        DeValue::Table(table) => form::single(table).map(|(name, inner)| (name, Some(inner))),
        _ => None,
    };
    let Some((name, inner)) = typed else {
        let wrong = match value.is_table() {
            true => Wrong::new("this is not one workload", "not one workload", format!("use {RIGHT}")),
            false => form::mistyped("workload", value, RIGHT),
        };
        findings.add(wrong.at(at));
        return Given::Wrong(at);
    };
    let work = match (name.value, inner) {
        ("hog", None) => Some(Work::Entity(Workload::Hog)),
        ("rt-app", Some(file)) => match form::reference("rt-app", file.value) {
            Ok(path) => Some(Work::RtApp(path)),
            Err(wrong) => {
                findings.add(wrong.at(file.at));
                None
            }
        },
        (name @ ("hog" | "rt-app"), _) => {
            let example = if name == "hog" { RIGHT } else { "{ rt-app = \"file.json\" }" };
            findings.add(miswritten(name, example).at(at));
            None
        }
        (known, inner) => match (workloads::find(known), inner) {
            (Some(workload), Some(Placed { value: DeValue::Table(settings), at })) => {
                let what = format!("the workload `{known}`");
                let table = Table::new(settings, at, (what.as_str(), workload.keys), findings);
                selected(workload, &table, findings)
            }
            (Some(workload), _) => {
                findings.add(miswritten(known, workload.example).at(at));
                None
            }
            (None, _) => {
                let message = format!("there is no workload {}", quoted(known));
                findings.add(Wrong::new(message, "unknown workload", right_instead(known, &names())).at(name.at));
                None
            }
        },
    };
    if let (Kind::Vm, Some(Work::Application(_) | Work::RtApp(_))) = (kind, &work) {
        let problem = Problem::new("a vCPU cannot execute this workload").at(at, "done by tasks");
        findings.add(problem.help("use the same workload for a [[vm.task]]: a task of the VM's guest"));
        return Given::Wrong(at);
    }
    work.map_or(Given::Wrong(at), |value| Given::Right(Placed { value, at }))
}

/// Returns the names of all workloads, in the order of the manual.
fn names() -> Vec<&'static str> {
    let registered = workloads::ALL.iter().map(|workload| workload.name);
    ["hog"].into_iter().chain(registered).chain(["rt-app"]).collect()
}

fn miswritten(workload: &str, example: &str) -> Wrong {
    let message = format!("the workload `{workload}` has another form");
    Wrong::new(message, "not so", format!("use {example}"))
}

/// Reads `workload` with the settings of `table`. `None`: a setting is wrong or missing, or the workload has too many
/// steps.
fn selected(workload: &'static WorkloadDescriptor, table: &Table<'_, '_>, findings: &mut Findings) -> Option<Work> {
    let application = match (workload.read)(&mut Settings::new((workload.name, workload.example), table, findings))? {
        Selected::Entity(workload) => return Some(Work::Entity(workload)),
        Selected::Application(application) => application,
    };
    if application.steps() > STEPS_MAX {
        let problem = Problem::new("this workload has too many steps").at(table.at, "too many");
        findings.add(
            problem.help(format!("use fewer tasks, locks, waits, stages or loads: at most {STEPS_MAX} steps in all")),
        );
        return None;
    }
    Some(Work::Application(application))
}
