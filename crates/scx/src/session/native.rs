//! Sessions with a port of the policy to BPF, which decides in the kernel.

use super::record::ToFile;
use super::repeat::repeat;
use super::run::{BEAT, Failure, Run, Summary};
use crate::options::Options;
use input::knobs::KnobSetting;
use input::problem::{Problem, Problems};
use orders::PERIOD_MAX;
use port::Port;
use sched::{GroupId, GroupParams, Instant, Params, Reservation};
use scx::interface::Kind;
use scx::native::{Member, NativeBmq, NativeEdf, Promise, Reported};
use scx::promised::Receipts;
use scx::recorder::Recorder;
use scx::siblings::Siblings;
use scx::{Basis, Error};
use std::collections::{BTreeMap, BTreeSet};
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
            edf(options, run, port)
        }
        "bmq" if !run.promises.is_empty() => {
            refused("the policy bmq keeps no promises".to_string(), "leave --promise out, or use --policy edf")
        }
        "bmq" if options.record.is_some() => {
            refused("the port of bmq records nothing".to_string(), "leave --record out, or use --policy edf")
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
    let settings = scx::bmq::settings(&options.knob)?;
    let mut announcement = Some("bmq in the kernel schedules all threads; Ctrl-C ends it");
    repeat(run, |end, summary| {
        let basis = Basis::now();
        let cpus = sys::cpus::online()?.iter().last().map_or(1, |cpu| cpu.index() + 1);
        let cpus = u32::try_from(cpus).expect("it is at most CPUS_MAX");
        let kernel = NativeBmq::load(&settings, basis)?;
        announcement.take().iter().for_each(|text| eprintln!("{text}"));
        let ending = loop {
            if run.is_over(end, clock::now()) {
                break None;
            }
            if let Some(ending) = kernel.ending()? {
                break Some(ending);
            }
            clock::sleep_until(clock::now().saturating_add(BEAT).min(end));
            summary.turns += 1;
        };
        summary.bmq = Some(kernel.counts(cpus)?);
        ending.map_or(Ok(()), |ending| Err(ending.into()))
    })
}

/// Keeps promises by the port of `edf` or `gang-edf`. This process admits them, and observes what the threads receive.
fn edf(options: &Options, run: &Run, port: &Port) -> Result<Summary, Failure> {
    // A promise that does not fit is an error, and ends with the reason if it does not fit on the CPUs of a later session.
    let mut is_first = true;
    // A recording has the first session only.
    let mut record = options.record.as_ref();
    repeat(run, |end, summary| {
        let basis = Basis::now().with_buffer(options.buffer);
        let promises = if is_first { admitted(run, port, &BTreeSet::new())? } else { still_admitted(run, port)? };
        let (mut kernel, record) = match record.take() {
            Some(path) => {
                let file = ToFile::create(path, port.name)?;
                let (kernel, recorder) = NativeEdf::load_recording(Reported::Threads, basis)?;
                ToFile::hurry()?;
                (kernel, Some((recorder, file)))
            }
            None => (NativeEdf::load(Reported::Threads, basis)?, None),
        };
        for promise in &promises {
            kernel.begin(promise)?;
            let joined = kernel.join(&Member { tid: promise.number, promise: promise.number, is_helper: false });
            if let Err(error) = joined {
                complain_of(promise.number, &error, is_first)?;
            }
        }
        if std::mem::take(&mut is_first) {
            eprintln!("{} in the kernel keeps {} promises; Ctrl-C ends it", port.name, promises.len());
        }
        summary.threads = promises.len();
        observe(&mut kernel, run, &promises, record, end, summary)
    })
}

/// A thread may have ended before a later session.
fn complain_of(tid: i32, error: &Error, is_first: bool) -> Result<(), Failure> {
    let problem = format!("cannot promise anything to thread {tid}: {error}");
    if is_first {
        return Err(Problems::from(Problem::new(problem)).into());
    }
    eprintln!("refused: {problem}");
    Ok(())
}

/// Observes what the threads receive, and records the decisions of the kernel, until the end of the session.
fn observe(
    kernel: &mut NativeEdf,
    run: &Run,
    promises: &[Promise],
    mut record: Option<(Recorder, ToFile)>,
    end: Instant,
    summary: &mut Summary,
) -> Result<(), Failure> {
    // The periods of other promises begin with the first wake-ups of their threads.
    let in_gangs = promises.iter().filter(|promise| promise.gang.is_some());
    let phases = in_gangs.map(|promise| Ok((promise.number, kernel.period_end(promise.number)?)));
    let phases = phases.collect::<Result<BTreeMap<i32, Instant>, Error>>()?;
    let mut siblings: Vec<Siblings> = run.gangs.iter().cloned().map(Siblings::new).collect();
    let (begin, mut events, mut receipts) = (clock::now(), Vec::new(), Receipts::default());
    let ending = loop {
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
        if let Some((recorder, file)) = &mut record {
            file.append(recorder)?;
        }
        let ending = kernel.ending()?;
        if is_over || ending.is_some() {
            summary.promises = receipts.received(now);
            summary.gangs = siblings.iter_mut().map(|siblings| siblings.together(now)).collect();
            break ending;
        }
        clock::sleep_until(now.saturating_add(BEAT).min(end));
    };
    summary.lost = kernel.lost()?;
    if let Some((recorder, file)) = record {
        summary.records = Some(file.end(&recorder, || kernel.finish())?);
    }
    ending.map_or(Ok(()), |ending| Err(ending.into()))
}

/// Returns a reservation whose first period began at `first`, from the first period on that begins after `loaded`. While the
/// scheduler is loaded, the kernel schedules without it.
fn from_first_whole_period(reservation: Reservation, first: Instant, loaded: Instant) -> Reservation {
    let passed = loaded.saturating_since(first).as_ns().div_ceil(reservation.period.as_ns());
    let start = Some(first.saturating_add(reservation.period.saturating_mul(passed)));
    Reservation { start, ..reservation }
}

/// Returns the promises that the policy admits on the present CPUs. The others end with the reason, and a gang ends as a whole.
fn still_admitted(run: &Run, port: &Port) -> Result<Vec<Promise>, Failure> {
    let mut without = BTreeSet::new();
    loop {
        match admitted(run, port, &without) {
            Err(Failure::Refused(tid, reason)) => {
                eprintln!("refused: thread {tid}: {reason}");
                without.insert(tid);
                without.extend(run.gangs.iter().filter(|gang| gang.contains(&tid)).flatten());
            }
            outcome => return outcome,
        }
    }
}

/// Returns the promises with their CPUs, without those to the threads of `without`, if the policy admits all. The number of a
/// promise is the tid of its thread.
fn admitted(run: &Run, port: &Port, without: &BTreeSet<i32>) -> Result<Vec<Promise>, Failure> {
    let knobs = port.knobs.iter().map(|(name, value)| format!("{name}={value}").parse());
    let mut machine = run.machine(&knobs.collect::<Result<Vec<KnobSetting>, Problems>>()?)?;
    let online = sys::cpus::online()?;
    let mut promises = Vec::new();
    let is_gang = GroupParams { gang: true, ..GroupParams::default() };
    let mut gangs = BTreeMap::new();
    for gang in run.gangs.iter().filter(|gang| !without.contains(&gang[0])) {
        let group = machine.create_group(Instant::ZERO, is_gang, GroupId::ROOT);
        let group = group.map_err(|refused| Problems::from(Problem::new(refused.to_string())))?;
        gangs.extend(gang.iter().map(|tid| (*tid, (group, gang[0]))));
    }
    for (&tid, &reservation) in run.promises.iter().filter(|(tid, _)| !without.contains(tid)) {
        if reservation.period > PERIOD_MAX {
            let problem = Problem::new(format!("the period {} of thread {tid} is too long", reservation.period));
            let most = format!("use a period of at most {}, or leave --native out", PERIOD_MAX);
            return Err(Problems::from(problem.help(most)).into());
        }
        let refused = |reason: String| Failure::Refused(tid, reason);
        let affinity = sys::affinity::get(tid.unsigned_abs()).map_err(|error| refused(error.to_string()))?;
        let (group, gang) = gangs.get(&tid).copied().unzip();
        let group = group.unwrap_or(GroupId::ROOT);
        let params =
            Params { reservation: Some(reservation), affinity: affinity.and(&online), group, ..Params::default() };
        let entity = machine.attach(Instant::ZERO, params).map_err(|why| refused(why.to_string()))?;
        let cpu = machine.allowed(entity).first().unwrap_or_default();
        promises.push(Promise { number: tid, reservation, cpu, gang });
    }
    Ok(promises)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_port_of_bmq_refuses_a_recording_and_creates_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recording");
        let words = ["tactus-scx", "--policy", "bmq", "--native", "--record"].map(Path::new);
        let options = Options::parse_from(words.into_iter().chain([file.as_path()]));
        let run = Run {
            policy: policies::find("bmq").expect("it is registered"),
            promises: BTreeMap::new(),
            gangs: Vec::new(),
            length: None,
            stop: Arc::new(AtomicBool::new(false)),
        };
        let Err(Failure::Input(refused)) = in_kernel(&options, &run) else { panic!("it is refused") };
        let refused = refused.to_string();
        assert!(refused.contains("records nothing"), "{refused}");
        assert!(!file.exists());
    }
}
