//! A session of `tactus-scx`, from its options to its summary.

mod native;
mod record;
mod repeat;
mod run;

use crate::options::Options;
use input::knobs::KnobSetting;
use input::problem::{Problem, Problems};
use repeat::repeat;
use run::{BEAT, Failure, Run, Summary};
use sched::{Descriptor, Instant, Limit, Nanos, Reservation};
use scx::Basis;
use scx::bridge::{Bridge, Mode, Refusal};
use scx::interface::{BmqCounts, Report};
use scx::kernel::Kernel;
use scx::promised::Received;
use scx::siblings::Together;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use sys::attributes::{self, Attributes, Policy};
use sys::clock;

/// Priority of the thread that decides. Ordinary threads must not delay it, because it schedules them.
pub(crate) const PRIORITY: u32 = 98;
/// Minimum time from a turn to a turn without an event. A turn at the end of a very short slice would come before the thread
/// has run at all, and the next turn would again.
const PAUSE_LEAST: Nanos = Nanos::us(20);
/// Time after the begin of a turn in which the end of the turn counts, for the wait until the next one. Turns take less.
const SOON: Nanos = Nanos::ms(5);

/// Runs a session. Returns 0 after its end, 1 if the scheduler ended or lost events again and again, 2 for wrong options, and 3 if this host
/// does not allow it.
pub(crate) fn run(options: &Options) -> ExitCode {
    match session(options) {
        Ok(summary) => {
            print(options, &summary);
            ExitCode::SUCCESS
        }
        Err(Failure::Input(problems)) => {
            eprintln!("{:?}", problems.report());
            ExitCode::from(2)
        }
        Err(Failure::Refused(tid, reason)) => {
            let problem = Problem::new(format!("the promise to thread {tid} does not fit: {reason}"));
            eprintln!("{:?}", Problems::from(problem).report());
            ExitCode::from(2)
        }
        Err(Failure::Kernel(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
        Err(Failure::Ended(why) | Failure::CpusChanged(why)) => {
            eprintln!("error: the kernel has removed the scheduler: {why}\n  All threads are in the fair class again.");
            ExitCode::FAILURE
        }
        Err(Failure::Incomplete(records)) => {
            eprintln!(
                "error: the recording lacks {records} records, because they came faster than they were written\n  help: record for a shorter time, or on a host with more free CPU time"
            );
            ExitCode::FAILURE
        }
        Err(Failure::Lost(events)) => {
            eprintln!(
                "error: {events} events were lost again and again, because they came faster than the policy decides\n  All threads are in the fair class again."
            );
            ExitCode::FAILURE
        }
    }
}

fn session(options: &Options) -> Result<Summary, Failure> {
    let policy = policy(options.policy.as_deref().unwrap_or_default())?;
    let mut promises = BTreeMap::new();
    for text in &options.promise {
        let (tid, reservation) = promise(text)?;
        if promises.insert(tid, reservation).is_some() {
            return Err(
                Problems::from(Problem::new(format!("thread {tid} has two promises")).help("leave one out")).into()
            );
        }
    }
    for &id in promises.keys().map(|tid| tid.unsigned_abs()).collect::<Vec<_>>().iter().chain(&options.pid) {
        if sys::thread::status(id).is_err() {
            let problem = Problem::new(format!("there is no thread or process {id}"));
            return Err(Problems::from(problem.help("use the numbers of `ps -eLo pid,tid,comm`")).into());
        }
    }
    let length = options.length.as_deref().map(input::duration::length).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Registration fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let run = Run { policy, gangs: gangs(&options.gang, &promises)?, promises, length, stop };
    if options.native { native::in_kernel(options, &run) } else { in_user_space(options, &run) }
}

/// Runs a policy in this process, which decides for the bridge in the kernel.
fn in_user_space(options: &Options, run: &Run) -> Result<Summary, Failure> {
    if !options.pid.is_empty() && run.promises.is_empty() {
        let problem =
            Problem::new("the threads of the processes would have no promise, and the policy would decide nothing");
        return Err(Problems::from(problem.help("add --promise, or leave --pid out to schedule all threads")).into());
    }
    let settings = options.knob.iter().map(|text| text.parse()).collect::<Result<Vec<KnobSetting>, Problems>>()?;
    // Wrong knobs are reported before anything changes.
    run.machine(&settings)?;
    sys::memory::lock()?;
    attributes::prepare();
    let me = sys::thread::current();
    attributes::apply(me, Attributes { policy: Policy::Fifo { priority: PRIORITY }, ..attributes::get(me)? })?;
    let (mode, what) = match options.pid.is_empty() {
        true => (Mode::All, "all threads"),
        false => (Mode::Promised, "the processes"),
    };
    let mut announcement = Some(format!("{} schedules {what}; Ctrl-C ends it", run.policy.name));
    repeat(run, |end, summary| {
        let basis = Basis::now().with_buffer(options.buffer);
        let (online, machine) = (sys::cpus::online()?, run.machine(&settings)?);
        let kernel = Kernel::load(&options.pid, run.is_conserving(&settings)?, basis)?;
        announcement.take().iter().for_each(|text| eprintln!("{text}"));
        let mut bridge = Bridge::new(machine, mode, online, run.promises.clone());
        let outcome = serve(&kernel, &mut bridge, run, end, summary);
        summary.promises = bridge.received();
        outcome
    })
}

/// Passes events and decisions on until the end of the run.
fn serve(kernel: &Kernel, bridge: &mut Bridge, run: &Run, end: Instant, summary: &mut Summary) -> Result<(), Failure> {
    let (mut events, mut beat) = (Vec::new(), Instant::ZERO);
    let mut now = clock::now();
    while !run.is_over(end, now) {
        kernel.read(&mut events)?;
        now = clock::now();
        summary.events += events.len() as u64;
        bridge.apply(now, &events);
        events.clear();
        let commands = bridge.settle(now);
        summary.turns += 1;
        if !commands.is_empty() || now >= beat {
            let report = kernel.apply(commands)?;
            bridge.applied(report.batches);
            if report.has_ended != 0
                && let Some(ending) = kernel.ending()?
            {
                return Err(ending.into());
            }
            note(summary, report)?;
            beat = now.saturating_add(BEAT);
        }
        summary.threads = summary.threads.max(bridge.threads());
        bridge.take_refusals().iter().for_each(complain);
        let (mut next, mut done) = (bridge.next(), now);
        if next < now.saturating_add(SOON) {
            // As much time as the turn took remains for the threads.
            done = clock::now();
            next = next.max(done.saturating_add(done.since(now).max(PAUSE_LEAST)));
        }
        kernel.wait(done, next.min(beat).min(end))?;
    }
    Ok(())
}

fn note(summary: &mut Summary, report: Report) -> Result<(), Failure> {
    (summary.dispatched, summary.absent) = (report.dispatched, report.absent);
    summary.fallbacks = report.fallbacks;
    if report.lost > 0 { Err(Failure::Lost(report.lost)) } else { Ok(()) }
}

fn complain(refusal: &Refusal) {
    eprintln!("refused: thread {}: {}", refusal.tid, refusal.reason);
}

fn policy(name: &str) -> Result<&'static Descriptor, Problems> {
    policies::find(name).ok_or_else(|| {
        let names: Vec<&str> = policies::ALL.iter().map(|policy| policy.name).collect();
        let problem = Problem::new(format!("there is no policy {name}"));
        problem.help(format!("use one of {}", names.join(", "))).into()
    })
}

/// Reads `TID=SLICE/PERIOD`, with `,hard` for a limit.
fn promise(text: &str) -> Result<(i32, Reservation), Problems> {
    let wrong = || Problem::new(format!("{text} is no promise")).help("use TID=SLICE/PERIOD, as in 1234=2ms/10ms");
    let (tid, times) = text.split_once('=').ok_or_else(wrong)?;
    let (times, limit) = match times.strip_suffix(",hard") {
        Some(times) => (times, Limit::Hard),
        None => (times, Limit::Soft),
    };
    let (slice, period) = times.split_once('/').ok_or_else(wrong)?;
    let tid = tid.trim().parse().ok().filter(|tid: &i32| *tid > 0).ok_or_else(wrong)?;
    let time = |what: &'static str, text: &str| {
        input::duration::parse(what, text).map_err(|it| Problems::from(it.anywhere(None)))
    };
    let (slice, period) = (time("slice", slice)?, time("period", period)?);
    Ok((tid, Reservation { limit, ..Reservation::new(slice, period) }))
}

/// Reads the threads of each gang, `TID,TID`.
fn gangs(texts: &[String], promises: &BTreeMap<i32, Reservation>) -> Result<Vec<Vec<i32>>, Problems> {
    let mut all = BTreeSet::new();
    let mut gang = |text: &String| {
        let problem = |what: String, help: &str| Problems::from(Problem::new(what).help(help));
        let mut tids = BTreeSet::new();
        for word in text.split(',') {
            let tid = word.trim().parse::<i32>();
            let tid = tid.map_err(|_| problem(format!("{text} is no gang"), "use TID,TID, as in 1234,1235"))?;
            if !promises.contains_key(&tid) {
                return Err(problem(format!("thread {tid} of a gang has no promise"), "add --promise"));
            }
            if !tids.insert(tid) || !all.insert(tid) {
                return Err(problem(format!("thread {tid} is listed twice in gangs"), "leave one out"));
            }
        }
        match tids.len() {
            0 | 1 => Err(problem(format!("the gang {text} has one thread"), "add a thread, or leave --gang out")),
            _ => Ok(tids.into_iter().collect()),
        }
    };
    texts.iter().map(&mut gang).collect()
}

fn print(options: &Options, summary: &Summary) {
    if options.json {
        println!("{}", serde_json::to_string(summary).expect("it has only numbers and a name"));
        return;
    }
    let Summary { policy, events, turns, dispatched, absent, fallbacks, threads, .. } = summary;
    let Summary { lost, resyncs, cpu_changes, .. } = summary;
    let (length, cpu) = (Nanos::ns(summary.length_ns), Nanos::ns(summary.cpu_ns));
    if cpu_changes + resyncs > 0 || *lost > 0 {
        println!(
            "begun again {cpu_changes} times after changes of the CPUs, {resyncs} times after lost events ({lost})"
        );
    }
    if let Some(BmqCounts { switches, expired, stolen, rescued }) = summary.bmq {
        println!("{policy} for {length}: {switches} switches, {expired} slices used up");
        println!("{stolen} threads pulled from other CPUs, {rescued} slices for threads that had waited for 8 s");
        return;
    }
    println!("{policy} for {length}: {threads} threads, {events} events, {turns} turns with {cpu} of CPU time");
    for Together { tids, any_ns, all_ns, skew_p99_ns, .. } in &summary.gangs {
        let (any, all, skew) = (Nanos::ns(*any_ns), Nanos::ns(*all_ns), Nanos::ns(*skew_p99_ns));
        println!("gang {tids:?}: all threads for {all} of the {any} in which one ran, 99 % of starts within {skew}");
    }
    println!("{dispatched} dispatches, {absent} without the chosen thread, {fallbacks} fallbacks");
    if let Some(records) = summary.records {
        println!("{records} records; compare them with the policy: tactus scx --replay FILE");
    }
    for (tid, Received { judged, missed, due_ns, delivered_ns }) in &summary.promises {
        let (due, delivered) = (Nanos::ns(*due_ns), Nanos::ns(*delivered_ns));
        println!("thread {tid}: {delivered} of {due} delivered, {missed} of {judged} periods missed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gang_has_threads_with_promises_and_each_thread_once() {
        let reservation = Reservation::new(Nanos::ms(2), Nanos::ms(10));
        let promises: BTreeMap<i32, Reservation> = (7..12).map(|tid| (tid, reservation)).collect();
        let read = |texts: &[&str]| gangs(&texts.iter().map(ToString::to_string).collect::<Vec<_>>(), &promises);
        assert_eq!(read(&["9,7", " 8 , 10"]).ok(), Some(vec![vec![7, 9], vec![8, 10]]));
        let refused = |texts: &[&str]| format!("{:?}", read(texts).expect_err("it is no gang").report());
        for (texts, reason) in [
            (&["7"][..], "the gang 7 has one thread"),
            (&["7,x"], "7,x is no gang"),
            (&[""], " is no gang"),
            (&["7,12"], "thread 12 of a gang has no promise"),
            (&["7,7"], "thread 7 is listed twice in gangs"),
            (&["7,8", "8,9"], "thread 8 is listed twice in gangs"),
        ] {
            let refused = refused(texts);
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
