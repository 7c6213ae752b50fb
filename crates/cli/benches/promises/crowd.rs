//! Measures what a client with many threads costs its neighbour: the misses of a promise beside this client, and without
//! it, in pairs of runs one after the other.

use crate::ours::{admit, setup};
use crate::watched::{Stretches, Tally, judge, record, watch};
use crate::{Promise, hog, hogs};
use daemon::live;
use sched::{Instant, Limit, Nanos};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use sys::attributes::{self, Attributes};
use sys::child::{Child, Work};
use sys::{clock, thread};

/// Argument of this program with which it runs as the client under test.
pub(crate) const PROCESS: &str = "--crowd-process";
/// Promise of the neighbour.
const NEIGHBOUR: Promise = Promise { period: Nanos::ms(2), slice: Nanos::ms(1) };
/// Promise of the client under test.
const CROWD: Promise = Promise { period: Nanos::ms(10), slice: Nanos::ms(1) };
/// Number of sleeping threads. Tactus admits 1,024 threads per promise.
const SLEEPERS: usize = 1_000;
/// Stack size of a sleeping thread.
const STACK: usize = 32 * 1024;
/// Time after the admission that the result does not cover: the threads are adopted, and then parked.
const WARM_UP: Nanos = Nanos::s(2);
const LENGTH: Nanos = Nanos::s(4);
/// Quantile of the normal distribution for a one-sided bound of 95 %.
const QUANTILE: f64 = 1.645;

/// A client under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One busy thread and [`SLEEPERS`] sleeping threads.
    Sleeps,
    /// One thread that forks as fast as it can.
    Forks,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Sleeps, Kind::Forks];

    fn name(self) -> &'static str {
        match self {
            Kind::Sleeps => "1,000 sleeping threads",
            Kind::Forks => "a client that forks",
        }
    }
}

/// Runs this process as the client under test.
pub(crate) fn run(kind: &str) {
    sys::launch::end_with_parent().expect("the parent lives");
    if kind == Kind::Sleeps.name() {
        for _ in 0..SLEEPERS {
            let sleep = || loop {
                clock::sleep(Nanos::s(3_600));
            };
            Builder::new().stack_size(STACK).spawn(sleep).expect("there is room for threads");
        }
    }
    std::io::stdout().write_all(b"!").and_then(|()| std::io::stdout().flush()).expect("there is a reader");
    loop {
        if kind == Kind::Forks.name() {
            drop(Child::start(Work::Sleep));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// A client under test, which ends with this value.
struct Process(std::process::Child);

impl Process {
    fn start(kind: Kind) -> Result<Process, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(this);
        command.args([PROCESS, kind.name()]).stdout(Stdio::piped());
        let mut process = Process(command.spawn().map_err(|error| error.to_string())?);
        let ready = process.0.stdout.as_mut().map(|output| output.read_exact(&mut [0]));
        ready.transpose().map_err(|error| error.to_string())?;
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Misses of the neighbour.
#[derive(Clone, Copy, Debug, Default)]
struct Misses {
    /// During and after the admission of the client under test.
    at_admission: Tally,
    /// Afterwards.
    afterwards: Tally,
}

/// Measures the neighbour beside the client under test, or alone.
fn measure(beside: Option<Kind>) -> Result<Misses, String> {
    let others = hogs();
    let child = hog();
    let crowd = beside.map(Process::start).transpose()?;
    let switches = watch(child.pid()).map_err(|error| error.to_string())?;
    let over = AtomicBool::new(false);
    let misses = std::thread::scope(|scope| {
        let recorder = scope.spawn(|| -> Result<Stretches, String> {
            // Above the keeper, which adopts many threads without a pause.
            let _ = attributes::apply(thread::current(), Attributes::raised(99));
            record(switches, &over)
        });
        let served = live::serve(&setup(None)?, |front| {
            let e = admit(front, NEIGHBOUR, Limit::Hard, child.pid())?;
            clock::sleep(Nanos::ms(100));
            let first = front.promise(e).ok_or("nothing is promised")?.deadline;
            let from = front.epoch().saturating_add(first.since(Instant::ZERO));
            if let Some(crowd) = &crowd {
                admit(front, CROWD, Limit::Soft, crowd.0.id())?;
            }
            clock::sleep(WARM_UP);
            let first = front.promise(e).ok_or("nothing is promised")?.deadline;
            let middle = front.epoch().saturating_add(first.since(Instant::ZERO));
            clock::sleep(LENGTH);
            let dismissed = front.take_dismissed();
            match dismissed.first() {
                Some(dismissed) => Err(format!("{} is dismissed: {:?}", dismissed.name, dismissed.trouble)),
                None => Ok((from, middle, clock::now())),
            }
        });
        clock::sleep(Nanos::ms(5));
        over.store(true, Ordering::Relaxed);
        let stretches = recorder.join().expect("a recorder does not panic")?;
        let (from, middle, end) = served.map_err(|failure| format!("{failure:?}"))??;
        Ok(Misses {
            at_admission: judge(&stretches, NEIGHBOUR, from, middle),
            afterwards: judge(&stretches, NEIGHBOUR, middle, end),
        })
    });
    drop((others, crowd));
    misses
}

/// Compares the neighbour's misses beside `kind` and without it, in `pairs` pairs of runs. Returns a line of the report.
pub(crate) fn compare(kind: Kind, pairs: usize) -> Result<String, String> {
    let (mut added, mut with, mut without, mut at_admission) = (Vec::new(), 0.0, 0.0, 0.0);
    for nth in 0..pairs {
        // The first run of a pair alternates, so that a drift of the host affects both.
        let (beside, alone) = if nth % 2 == 0 {
            let beside = measure(Some(kind))?;
            (beside, measure(None)?)
        } else {
            let alone = measure(None)?;
            (measure(Some(kind))?, alone)
        };
        added.push(beside.afterwards.missed_percent() - alone.afterwards.missed_percent());
        with += beside.afterwards.missed_percent() / pairs as f64;
        without += alone.afterwards.missed_percent() / pairs as f64;
        at_admission += beside.at_admission.missed as f64 / pairs as f64;
    }
    let (mean, count) = (with - without, pairs as f64);
    let variance = added.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let most = mean + QUANTILE * (variance / count).sqrt();
    let met = if most < 0.1 { "met" } else { "NOT met" };
    Ok(format!(
        "  {}: the neighbour misses {with:.3} % beside it, {without:.3} % without it; added {mean:+.3} points, at most \
         {most:+.3} (95 %): {met}; {at_admission:.1} misses in the {WARM_UP} after the admission",
        kind.name()
    ))
}
