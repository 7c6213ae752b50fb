//! `tactus costs`: the machines with known costs for scenarios, and the source of every figure.

use crate::args::Costs;
use crate::failure::Failure;
use crate::output;
use scenario::costs::{Basis, Figure, Machine, machine, machines};
use serde::Serialize;

/// A machine as JSON.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    title: &'static str,
    cpus: usize,
    smt: usize,
    llc: usize,
    clock_mhz: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hz: Option<u64>,
    context_switch_ns: u64,
    cache_refill_ns: u64,
    kick_ns: u64,
    tick_ns: u64,
    timer_resolution_ns: u64,
    timer_slack_ns: u64,
    exit_ns: u64,
    hypercall_ns: u64,
    figures: &'static [Figure],
}

pub(crate) fn run(args: &Costs) -> Result<(), Failure> {
    let chosen = args.name.as_deref().map(machine).transpose()?;
    let text = match (chosen, args.json) {
        (None, false) => list(),
        (Some(machine), false) => explanation(machine),
        (None, true) => output::json(&machines().iter().map(shown).collect::<Vec<_>>())?,
        (Some(machine), true) => output::json(&shown(machine))?,
    };
    Ok(output::print(&text)?)
}

fn list() -> String {
    let mut text = String::new();
    let widest = machines().iter().map(|machine| machine.name.len()).max().unwrap_or(0);
    let width = usize::from(output::width()).saturating_sub(widest + 2);
    for machine in machines() {
        // Padding precedes the bold style, because escape codes would count as characters.
        let name = output::heading(&format!("{:widest$}", machine.name));
        for (nth, line) in output::folded(&machine.title, width).into_iter().enumerate() {
            text += &if nth == 0 { format!("{name}  {line}\n") } else { format!("{:widest$}  {line}\n", "") };
        }
    }
    text + "\n`tactus costs NAME` shows a machine with its sources; costs = \"NAME\" in a scenario selects it.\n"
}

fn explanation(machine: &Machine) -> String {
    let mut text = format!("{}  {}\n\n", output::heading(machine.name), machine.title);
    for figure in &machine.figures {
        let basis = match figure.basis {
            Basis::Paper => "paper",
            Basis::Measured => "measured",
            Basis::Assumed => "assumed",
        };
        let width = usize::from(output::width()).saturating_sub(38);
        for (nth, line) in output::folded(&figure.source, width).into_iter().enumerate() {
            let line = match nth {
                0 => format!("  {:<16} {:>7}  {basis:<9} {line}", figure.key, figure.value),
                _ => format!("{:38}{line}", ""),
            };
            text += &(line + "\n");
        }
    }
    text
}

fn shown(machine: &'static Machine) -> Shown {
    let costs = machine.costs;
    Shown {
        name: machine.name,
        title: &machine.title,
        cpus: machine.cpus,
        smt: machine.smt,
        llc: machine.llc,
        clock_mhz: machine.clock_mhz,
        hz: machine.hz,
        context_switch_ns: costs.context_switch.as_ns(),
        cache_refill_ns: costs.cache_refill.as_ns(),
        kick_ns: costs.kick.as_ns(),
        tick_ns: costs.tick.as_ns(),
        timer_resolution_ns: costs.timer_resolution.as_ns(),
        timer_slack_ns: costs.timer_slack.as_ns(),
        exit_ns: costs.exit.as_ns(),
        hypercall_ns: costs.hypercall.as_ns(),
        figures: &machine.figures,
    }
}
