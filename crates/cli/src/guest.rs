//! `tactus guest`: boosts of a VM by the hints of the agent in its guest.

use crate::failure::{Failure, NO_HINTS, failed, refused};
use crate::guest_args::{Attach, Guest, GuestCommand};
use crate::output;
use crate::terminal::safe;
use anyhow::Context;
use coordination::{Boost, Coordination, Protocol};
use daemon::Explanation;
use daemon::boosts::{Boosted, CarrierWatch, Options, Over, VmThreads, serve};
use daemon::guardian::this_program;
use indicatif::{ProgressBar, ProgressStyle};
use sched::{Class, Instant, Nanos, RtPriority};
use serde::Serialize;
use service::HintPort;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use sys::clock;
use sys::event::Bell;

/// Window of the budget.
const WINDOW: Nanos = Nanos::ms(100);
/// Interval between looks for an interrupt and for the end.
const LOOK: Nanos = Nanos::ms(50);
/// Time without an agent after which its absence is reported.
const NO_AGENT: Nanos = Nanos::s(5);

pub(crate) fn run(args: &Guest) -> Result<ExitCode, Failure> {
    let GuestCommand::Attach(args) = &args.command;
    attach(args)
}

/// What came of the hints of a VM.
#[derive(Serialize, Debug)]
struct Attached<'a> {
    vm: &'a str,
    length_ns: u64,
    hints: u64,
    interrupts: u64,
    boosts: u64,
    boosted_ns: u64,
    budget_percent: u8,
    over_budget: u64,
    dropped: u64,
    vm_has_ended: bool,
}

fn attach(args: &Attach) -> Result<ExitCode, Failure> {
    let length = args.length.as_deref().map(input::duration::length).transpose()?;
    let _in_order = output::end_in_order();
    let port = HintPort::attach(&args.vm, args.port.as_deref()).map_err(|reason| refused(&reason))?;
    if let Some(Explanation { reason, remedy }) = &port.warning {
        output::complain(&format!("warning: {reason}; {remedy}"));
    }
    let begin = clock::now();
    let end = length.map_or(Instant::NEVER, |length| begin.saturating_add(length));
    let carriers = if args.hints_only { None } else { watch(&port.threads) };
    let served = boost(args, &port, carriers, begin, end);
    let (name, vm_runs, interrupted) = (port.name.clone(), port.vm_runs(), output::is_interrupted());
    let detached = port.detach();
    if let Err(reason) = &detached {
        output::complain(&format!("error: {}; {}", reason.reason, reason.remedy));
    }
    let (found, over) = served?;
    let attached = Attached {
        vm: &name,
        length_ns: clock::now().since(begin).as_ns(),
        hints: found.hints,
        interrupts: found.interrupts,
        boosts: found.boosts,
        boosted_ns: found.boosted.as_ns(),
        budget_percent: args.budget,
        over_budget: found.over_budget,
        dropped: found.dropped,
        vm_has_ended: !vm_runs,
    };
    output::print(&if args.json { output::json(&attached)? } else { text(&attached) })?;
    if vm_runs && over != Over::Requested {
        output::complain(&format!(
            "error: {}",
            match over {
                Over::Ended => "a vCPU was removed; attach the VM again",
                _ => "the VM has closed the port; attach it again",
            }
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(match detached {
        Err(_) => ExitCode::FAILURE,
        Ok(()) if interrupted => ExitCode::from(130),
        Ok(()) => ExitCode::SUCCESS,
    })
}

/// Watches the carriers of a VM; `None` if this host does not allow it.
fn watch(threads: &VmThreads) -> Option<CarrierWatch> {
    let begun = CarrierWatch::begin(threads);
    begun.inspect_err(|error| output::complain(&format!("warning: the VM is boosted by hints only: {error}"))).ok()
}

/// Boosts the VM until `end`, an interrupt, or the end of the VM. Shows what comes of it meanwhile.
fn boost(
    args: &Attach,
    port: &HintPort,
    carriers: Option<CarrierWatch>,
    begin: Instant,
    end: Instant,
) -> Result<(Boosted, Over), Failure> {
    let priority = RtPriority::new(args.priority).expect("the command line has its range");
    let boost = Boost::like(Class::RoundRobin(priority)).expect("the class is a real-time class");
    let budget = Nanos::ns(WINDOW.as_ns() * u64::from(args.budget) / 100);
    let with = Coordination { boost, interrupt: boost, budget, window: WINDOW, ..Coordination::new(Protocol::S0) };
    let stop = Bell::new().map_err(|error| refused(&error.into()))?;
    let stream = port.stream.try_clone().context("cannot use the port twice")?;
    let latest = Mutex::new(None);
    let served = std::thread::scope(|scope| {
        let serving = || {
            let report = |found| {
                // The thread with hints waits for no other one; the next report comes in a second.
                if let Ok(mut latest) = latest.try_lock() {
                    *latest = Some(found);
                }
            };
            let observers = Some(&port.observers);
            let options = Options { with, program: this_program(), end: &stop, report: &report, observers };
            serve(stream, &port.threads, carriers, options)
        };
        let builder = std::thread::Builder::new().name("tactus-hints".to_string());
        let serving = builder.spawn_scoped(scope, serving).context("cannot start a thread")?;
        show(&port.name, &latest, begin, || output::is_interrupted() || clock::now() >= end || serving.is_finished());
        stop.ring();
        serving.join().map_err(|_| anyhow::anyhow!("the thread that reads hints has failed"))
    });
    served?.map_err(|error| failed(error, "the boosts have ended"))
}

/// Shows the latest report until `is_over`: on a terminal a line that changes, or else a line when the agent comes and goes.
fn show(name: &str, latest: &Mutex<Option<Boosted>>, begin: Instant, is_over: impl Fn() -> bool) {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is right"));
    let is_line = !std::io::stderr().is_terminal();
    let name = safe(name, false);
    let (mut before, mut is_told) = (Boosted::default(), false);
    if is_line {
        output::complain(&format!("{name}: the port is attached; waiting for its agent"));
    }
    while !is_over() {
        clock::sleep(LOOK);
        let found = latest.lock().ok().and_then(|mut latest| latest.take());
        if let Some(found) = found {
            if is_line && found.is_welcome != before.is_welcome {
                output::complain(&format!(
                    "{name}: the agent {}",
                    if found.is_welcome { "is there" } else { "has left" }
                ));
            }
            is_told |= found.is_welcome;
            bar.set_message(format!("{name}: {}", line(&found, &before)));
            before = found;
        }
        if !is_told && clock::now().saturating_since(begin) > NO_AGENT {
            is_told = true;
            bar.suspend(|| {
                let boosted = if before.interrupts > 0 { "boosted at its interrupts only; " } else { "" };
                output::complain(&format!("{name}: {boosted}{NO_HINTS}"));
            });
        }
    }
    bar.finish_and_clear();
}

/// Describes a second.
fn line(found: &Boosted, before: &Boosted) -> String {
    if !found.is_welcome {
        return format!(
            "waiting for the agent; {} interrupts a second, {} boosts",
            found.interrupts - before.interrupts,
            found.boosts - before.boosts
        );
    }
    let percent = (found.boosted.saturating_sub(before.boosted)).as_ns() / 10_000_000;
    format!(
        "{} hints and {} interrupts a second, {} boosts, {percent} % of a CPU boosted",
        found.hints - before.hints,
        found.interrupts - before.interrupts,
        found.boosts - before.boosts
    )
}

fn text(it: &Attached<'_>) -> String {
    let name = safe(it.vm, false);
    let tenths = it.boosted_ns.saturating_mul(1_000) / it.length_ns.max(1);
    let mut text = format!(
        "{name}: {} hints, {} interrupts and {} boosts in {}; boosted for {}, {}.{} % of a CPU (at most {} %)\n",
        it.hints,
        it.interrupts,
        it.boosts,
        Nanos::ns(it.length_ns),
        Nanos::ns(it.boosted_ns),
        tenths / 10,
        tenths % 10,
        it.budget_percent
    );
    for (count, what) in [(it.over_budget, "boosts beyond the budget"), (it.dropped, "messages or bytes without a use")]
    {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    if it.vm_has_ended {
        text += "the VM has ended\n";
    }
    text
}
