//! Sessions with a port of the policy to BPF, which decides in the kernel.

use super::run::{BEAT, Failure, Run, Summary};
use crate::options::Options;
use input::knobs::KnobSetting;
use input::problem::{Problem, Problems};
use orders::PERIOD_MAX;
use port::Port;
use sched::{GroupId, GroupParams, Instant, Params, Reservation};
use scx::Error;
use scx::bmq::Settings;
use scx::interface::Kind;
use scx::native::{Member, NativeBmq, NativeEdf, Promise, Reported};
use scx::promised::Receipts;
use scx::siblings::Siblings;
use std::collections::BTreeMap;
use sys::clock;

/// Runs the port of a policy.
pub(super) fn in_kernel(options: &Options, run: &Run) -> Result<Summary, Failure> {
    let refused = |what: String, help: &str| Err(Failure::from(Problems::from(Problem::new(what).help(help))));
    let name = run.policy.name;
    if !run.gangs.is_empty() && name != port::GANG_EDF.name {
        return refused(format!("the policy {name} has no gangs"), "use --policy gang-edf, or leave --gang out");
    }
    match name {
        "edf" | "gang-edf" if run.promises.is_empty() => {
            refused(format!("the port of {name} has no promise to keep"), "add --promise, or leave --native out")
        }
        "edf" | "gang-edf" => {
            let port = port::find(name).expect("it has a port");
            if !options.knob.is_empty() {
                let knobs: Vec<String> = port.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
                return refused(
                    format!("the port of {name} has no knobs: it is the policy with {}", knobs.join(", ")),
                    "leave --knob out, or leave --native out",
                );
            }
            edf(run, port)
        }
        "bmq" if !run.promises.is_empty() => {
            refused("the policy bmq keeps no promises".to_string(), "leave --promise out, or use --policy edf")
        }
        "bmq" => bmq(options, run),
        name => refused(
            format!("the policy {name} has no port to BPF"),
            "use --policy edf, gang-edf or bmq, or leave --native out",
        ),
    }
}

/// Schedules all threads by the port of `bmq`. This process only waits.
fn bmq(options: &Options, run: &Run) -> Result<Summary, Failure> {
    let settings = Settings::from_options(&options.knob)?;
    let cpus = sys::cpus::online()?.iter().last().map_or(1, |cpu| cpu.index() + 1);
    let cpus = u32::try_from(cpus).expect("it is at most CPUS_MAX");
    let kernel = NativeBmq::load(&settings)?;
    eprintln!("bmq in the kernel schedules all threads; Ctrl-C ends it");
    let (begin, used, mut summary) = (clock::now(), clock::thread_time(), run.summary());
    let end = run.end();
    while !run.is_over(end, clock::now()) {
        if let Some(ending) = kernel.ending()? {
            return Err(Failure::Ended(ending.text()));
        }
        clock::sleep_until(clock::now().saturating_add(BEAT).min(end));
        summary.turns += 1;
    }
    summary.length_ns = clock::now().since(begin).as_ns();
    summary.cpu_ns = clock::thread_time().saturating_sub(used).as_ns();
    summary.bmq = Some(kernel.counts(cpus)?);
    Ok(summary)
}

/// Keeps promises by the port of `edf` or `gang-edf`. This process admits them, and observes what the threads receive.
fn edf(run: &Run, port: &Port) -> Result<Summary, Failure> {
    let promises = admitted(run, port)?;
    let kernel = NativeEdf::load(Reported::Threads)?;
    for promise in &promises {
        kernel.begin(promise)?;
        kernel.join(&Member { tid: promise.number, promise: promise.number, is_helper: false })?;
    }
    // The periods of other promises begin with the first wake-ups of their threads.
    let phases = run.gangs.iter().flatten().map(|&tid| Ok((tid, kernel.period_end(tid)?)));
    let phases = phases.collect::<Result<BTreeMap<i32, Instant>, Error>>()?;
    let mut siblings: Vec<Siblings> = run.gangs.iter().cloned().map(Siblings::new).collect();
    eprintln!("{name} in the kernel keeps {} promises; Ctrl-C ends it", promises.len(), name = port.name);
    let (begin, used, mut summary) = (clock::now(), clock::thread_time(), run.summary());
    let (end, mut events, mut receipts) = (run.end(), Vec::new(), Receipts::default());
    loop {
        let (now, is_over) = (clock::now(), run.is_over(end, clock::now()));
        kernel.read(&mut events)?;
        summary.events += events.len() as u64;
        summary.turns += 1;
        for event in events.drain(..) {
            if let (Kind::Wake { .. }, Some(reservation)) = (&event.kind, run.promises.get(&event.tid)) {
                let first = phases.get(&event.tid).copied().unwrap_or(event.at);
                receipts.begin(event.tid, from_first_whole_period(*reservation, first, begin), event.at);
            }
            receipts.note(&event);
            siblings.iter_mut().for_each(|siblings| siblings.note(&event));
        }
        if let Some(ending) = kernel.ending()? {
            return Err(Failure::Ended(ending.text()));
        }
        if is_over {
            summary.promises = receipts.received(now);
            summary.gangs = siblings.iter_mut().map(|siblings| siblings.together(now)).collect();
            break;
        }
        clock::sleep_until(now.saturating_add(BEAT).min(end));
    }
    summary.length_ns = clock::now().since(begin).as_ns();
    summary.threads = promises.len();
    summary.cpu_ns = clock::thread_time().saturating_sub(used).as_ns();
    Ok(summary)
}

/// Returns a reservation whose first period began at `first`, from the first period on that begins after `loaded`. While the
/// scheduler is loaded, the kernel schedules without it.
fn from_first_whole_period(reservation: Reservation, first: Instant, loaded: Instant) -> Reservation {
    let passed = loaded.saturating_since(first).as_ns().div_ceil(reservation.period.as_ns());
    let start = Some(first.saturating_add(reservation.period.saturating_mul(passed)));
    Reservation { start, ..reservation }
}

/// Returns the promises with their CPUs, if the policy admits all of them. The number of a promise is the tid of its thread.
fn admitted(run: &Run, port: &Port) -> Result<Vec<Promise>, Failure> {
    let knobs = port.knobs.iter().map(|(name, value)| format!("{name}={value}").parse());
    let mut machine = run.machine(&knobs.collect::<Result<Vec<KnobSetting>, Problems>>()?)?;
    let mut promises = Vec::new();
    let is_gang = GroupParams { gang: true, ..GroupParams::default() };
    let mut gangs = BTreeMap::new();
    for gang in &run.gangs {
        let group = machine.create_group(Instant::ZERO, is_gang, GroupId::ROOT);
        let group = group.map_err(|refused| Problems::from(Problem::new(refused.to_string())))?;
        gangs.extend(gang.iter().map(|tid| (*tid, (group, gang[0]))));
    }
    for (&tid, &reservation) in &run.promises {
        if reservation.period > PERIOD_MAX {
            let problem = Problem::new(format!("the period {} of thread {tid} is too long", reservation.period));
            let most = format!("use a period of at most {}, or leave --native out", PERIOD_MAX);
            return Err(Problems::from(problem.help(most)).into());
        }
        let affinity = sys::affinity::get(tid.unsigned_abs())?;
        let (group, gang) = gangs.get(&tid).copied().unzip();
        let group = group.unwrap_or(GroupId::ROOT);
        let params = Params { reservation: Some(reservation), affinity, group, ..Params::default() };
        let entity = machine.attach(Instant::ZERO, params).map_err(|refused| {
            Problems::from(Problem::new(format!("the promise to thread {tid} does not fit: {refused}")))
        })?;
        let cpu = machine.allowed(entity).first().unwrap_or_default();
        promises.push(Promise { number: tid, reservation, cpu, gang });
    }
    Ok(promises)
}
