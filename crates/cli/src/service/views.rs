//! `tactus list`, `tactus show` and `tactus events`: what the service knows.

use super::places;
use crate::failure::{Failure, usage};
use crate::output;
use crate::service_args::{AtService, Events, List, Show};
use anyhow::anyhow;
use api::{Client, Desired, Error, Event, Happened, State, Vm};
use report::{Grid, percent};
use sched::Nanos;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            // The service cannot serve the request, which may be right.
            Error::Refused(problem) if problem.status >= 500 => Failure::Failed(anyhow!("{}", problem.detail)),
            Error::Refused(problem) => usage(problem.detail, problem.remedy.as_deref().unwrap_or_default()),
            Error::Certificates(reason, remedy) => usage(reason, remedy),
            Error::Failed { .. } => {
                Failure::Failed(anyhow!("{error}\n  help: start it with `tactus serve`, or use --socket or --host"))
            }
        }
    }
}

/// Returns a client of the service at `at`.
pub(super) fn client(at: &AtService) -> Result<Client, Failure> {
    // A command answers soon, also on a busy host. A refusal costs only time.
    let _ = sys::attributes::run_promptly();
    match &at.host {
        Some(host) => Ok(Client::remote(host, &places::certs_of_client(at.certs.as_deref())?)?),
        None => Ok(Client::at(&places::socket_of_client(at.socket.as_deref()))?),
    }
}

pub(crate) fn list(args: &List) -> Result<(), Failure> {
    let client = client(&args.at)?;
    let all = client.list()?;
    if args.at.json {
        return Ok(output::print(&output::json(&all)?)?);
    }
    let host = client.host()?;
    let mut text = table(&all.vms);
    if all.vms.is_empty() {
        text = "no VMs run here; `tactus set pid:NUMBER` makes a promise to any process\n".to_string();
    }
    if let Some(reason) = host.reason {
        text += &format!("\nNothing is in force at present: {reason}.\n");
    }
    Ok(output::print(&text)?)
}

fn table(vms: &[Vm]) -> String {
    let titles = ["name", "state", "promise", "share", "pid", "periods", "missed", "delivered"];
    let mut grid = Grid::new(titles.map(str::to_string).to_vec(), 4);
    for vm in vms {
        let measured = vm.measured;
        let delivered = match measured.due_ns {
            0 => String::new(),
            due => percent(measured.delivered_ns.saturating_mul(1_000_000) / due),
        };
        let counted = |count: u64| if measured.periods == 0 { String::new() } else { count.to_string() };
        grid.add(vec![
            vm.name.clone(),
            vm.state.phase.word().to_string(),
            promise(&vm.desired),
            share(&vm.desired),
            vm.process.map_or(String::new(), |process| process.pid.to_string()),
            counted(measured.judged),
            counted(measured.missed),
            delivered,
        ]);
    }
    grid.to_string()
}

/// Describes a desired promise: `2ms in 10ms on 2 CPUs, hard`.
pub(super) fn promise(desired: &Desired) -> String {
    let Some(promise) = &desired.promise else { return String::new() };
    let mut text = format!("{} in {}", Nanos::ns(promise.slice_ns), Nanos::ns(promise.period_ns));
    if promise.cpus > 1 {
        text += &format!(" on {} CPUs", promise.cpus);
    }
    if promise.gang {
        text += ", gang";
    }
    if promise.limit == api::Limit::Hard {
        text += ", hard";
    }
    text
}

/// Describes a desired share: `weight 200, at most 50 %`.
fn share(desired: &Desired) -> String {
    let weight = desired.weight.map(|weight| format!("weight {weight}"));
    let cap = desired.cap_percent.map(|cap| format!("at most {cap} %"));
    weight.into_iter().chain(cap).collect::<Vec<_>>().join(", ")
}

pub(crate) fn show(args: &Show) -> Result<(), Failure> {
    print(&client(&args.at)?.show(&args.vm)?, args.at.json)
}

/// Prints a VM.
pub(super) fn print(vm: &Vm, is_json: bool) -> Result<(), Failure> {
    let text = if is_json { output::json(vm)? } else { described(vm) };
    Ok(output::print(&text)?)
}

fn described(vm: &Vm) -> String {
    let mut lines = vec![("name", vm.name.clone()), ("id", vm.id.clone()), ("kind", vm.kind.word().to_string())];
    lines.extend(vm.process.map(|process| ("process", format!("{}, of user {}", process.pid, process.user))));
    let named = |text: String, none: &str| if text.is_empty() { none.to_string() } else { text };
    lines.push(("promise", named(promise(&vm.desired), "none")));
    lines.push(("share", named(share(&vm.desired), "ordinary")));
    lines.extend(vm.source.map(|source| ("set by", source.word().to_string())));
    lines.push(("state", state(&vm.state)));
    lines.extend(vm.state.remedy.as_ref().map(|remedy| ("help", remedy.clone())));
    lines.extend(vm.state.mechanism.as_ref().map(|mechanism| ("mechanism", mechanism.clone())));
    lines.push(("generation", vm.generation.to_string()));
    let measured = vm.measured;
    if measured.periods > 0 {
        let times = [measured.delivered_ns, measured.due_ns].map(|ns| Nanos::ns(ns).to_string());
        lines.push(("delivered", format!("{} of {} in {} periods", times[0], times[1], measured.periods)));
        lines.push(("missed", format!("{} of {} judged periods", measured.missed, measured.judged)));
    }
    if measured.lost > 0 {
        lines.push(("lost", format!("{} events: the counts above are too low", measured.lost)));
    }
    lines.iter().map(|(key, value)| format!("{key:<12}{value}\n")).collect()
}

fn state(state: &State) -> String {
    match &state.reason {
        Some(reason) => format!("{}: {reason}", state.phase.word()),
        None => state.phase.word().to_string(),
    }
}

pub(crate) fn events(args: &Events) -> Result<(), Failure> {
    let client = client(&args.at)?;
    let mut problem = None;
    client.follow(args.after, |event| {
        let text = match args.at.json {
            true => serde_json::to_string(&event).map(|text| text + "\n").map_err(|error| anyhow!(error)),
            false => Ok(line(&event)),
        };
        problem = text.and_then(|text| output::print(&text)).err();
        problem.is_none()
    })?;
    problem.map_or(Ok(()), |error| Err(error.into()))
}

fn line(event: &Event) -> String {
    let what = match &event.happened {
        Happened::Appeared { name, pid } => format!("{name} appeared as process {pid}"),
        Happened::Ended => "ended".to_string(),
        Happened::Changed { by, desired, .. } => {
            let mut parts = vec![promise(desired), share(desired)];
            parts.extend(desired.paused.then(|| "paused".to_string()));
            parts.retain(|part| !part.is_empty());
            let what = if parts.is_empty() { "nothing".to_string() } else { parts.join(", ") };
            format!("{by} desires {what}")
        }
        Happened::State(shown) => format!("state {}", state(shown)),
        Happened::Core { is_connected: true, .. } => "connected to the core".to_string(),
        Happened::Core { reason, .. } => format!("lost the core: {}", reason.as_deref().unwrap_or("no reason")),
        Happened::Gap => "earlier events are lost; `tactus list` shows the present state".to_string(),
    };
    format!("{} {}{what}\n", event.number, event.vm.as_ref().map_or(String::new(), |vm| format!("{vm}: ")))
}
