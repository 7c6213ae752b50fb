//! Measures the dispatcher, set up as in `tactus run`.

use crate::expense::Expense;
use crate::received::Received;
use crate::watched::{RECORDER, Tally, judge, judge_any_phase, record, watch};
use crate::witness::Witness;
use crate::{Cost, Promise, Sample, cpu, hog, hogs};
use daemon::directory::Directory;
use daemon::dispatch::{KeptBy, PromiseRequest, RaiseBy};
use daemon::live::{self, AdmissionPolicy, Client, Setup};
use daemon::processes::{Launcher, Work};
use daemon::terms;
use sched::{CpuSet, EntityId, Input, Instant, Limit, Nanos, Reservation};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes};
use sys::{clock, thread};
use trace::Event;

/// Returns the parameters of a core. With a `scheduler`, the program `tactus-scx`, the kernel dispatches its promises.
pub(crate) fn setup(scheduler: Option<&Path>) -> Result<Setup, String> {
    let policy = policies::ALL.iter().find(|policy| policy.name == terms::POLICY).expect("it is registered");
    let directory = Directory::usual().map_err(|reason| reason.to_string())?;
    Ok(Setup {
        directory,
        executable: executable(),
        turns: Some(AdmissionPolicy { policy, knobs: terms::knobs(policy) }),
        reservations: None,
        usual: KeptBy::Dispatcher(RaiseBy::Inheritance),
        scheduler: scheduler.map(Path::to_path_buf),
        fault: None,
    })
}

pub(crate) fn admit(front: &Client, promise: Promise, limit: Limit, pid: u32) -> Result<EntityId, String> {
    let reservation = Reservation { limit, ..Reservation::new(promise.slice, promise.period) };
    let wish = PromiseRequest { affinity: CpuSet::one(cpu()), ..PromiseRequest::new("promised", reservation) };
    front.admit(&wish, pid).map(|all| all[0]).map_err(|refusal| refusal.to_string())
}

/// Returns the CPU time that, according to `events`, all entities used within their reservations.
fn reserved(events: &[(Instant, Event)]) -> Nanos {
    let ran = events
        .iter()
        .map(|(_, event)| if let Event::Input(Input::Ran { time, .. }) = event { *time } else { Nanos::ZERO });
    ran.fold(Nanos::ZERO, |sum, time| sum + time)
}

/// Returns the program of the core and of the guardian: in a guest, it is at another place than at the build.
pub(crate) fn executable() -> PathBuf {
    let given = std::env::args().skip_while(|argument| argument != "--tactus").nth(1);
    PathBuf::from(given.unwrap_or_else(|| env!("CARGO_BIN_EXE_tactus").to_string()))
}

/// Waits until the scheduler of the core is loaded. Beside a large promise, to load it would take long.
fn await_scheduler() -> Result<(), String> {
    let end = clock::now().saturating_add(LOADED);
    let name = || std::fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
    while name().trim() != "tactus_edf" {
        if clock::now() >= end {
            return Err("no scheduler is loaded".to_string());
        }
        clock::sleep(Nanos::ms(20));
    }
    Ok(())
}

/// Maximum time until a scheduler in the kernel is loaded.
const LOADED: Nanos = Nanos::s(60);
/// Time after the start of a core, and after its first admission, that the result does not cover.
pub(crate) const WARM_UP: Nanos = Nanos::s(1);
/// The same after a later admission.
const SETTLED: Nanos = Nanos::ms(200);
/// Interval between reads of the journal, as in `tactus run`.
const POLL: Nanos = Nanos::ms(100);

/// The time that a measurement covers.
struct Span {
    /// Begin of a period, if it is known.
    begun: Option<Instant>,
    from: Instant,
    to: Instant,
}

/// A core that runs, for measurements one after the other.
pub(crate) struct Core<'c> {
    front: &'c Client,
    /// Whether a scheduler in the kernel dispatches the promises.
    in_kernel: bool,
    /// Whether the delivered share is measured. That takes time beside the promise.
    shares: bool,
    /// Whether a promise was admitted.
    is_warm: Cell<bool>,
}

/// Starts a core, with a scheduler in the kernel if `scheduler` is given, and passes it to `work`. With `shares`, the delivered share is
/// measured.
pub(crate) fn with_core<T>(
    scheduler: Option<&Path>,
    shares: bool,
    work: impl FnOnce(&Core) -> Result<T, String>,
) -> Result<T, String> {
    let played = live::serve(&setup(scheduler)?, |front| {
        if scheduler.is_some() {
            await_scheduler()?;
        }
        // What the core does once, at its start, is no cost of a turn.
        clock::sleep(WARM_UP);
        work(&Core { front, in_kernel: scheduler.is_some(), shares, is_warm: Cell::new(false) })
    });
    played.map_err(|failure| format!("{failure:?}"))?
}

/// Runs `work` at a priority above that of the agents: with short periods on a slow CPU, their turns leave no time for this thread.
/// `work` must need little CPU time.
fn above_agents<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let said = |error: sys::Error| error.to_string();
    let before = attributes::get(thread::current()).map_err(said)?;
    attributes::set(thread::current(), Attributes::raised(RECORDER - 1)).map_err(said)?;
    let worked = work();
    attributes::set(thread::current(), before).map_err(said)?;
    worked
}

impl Core<'_> {
    /// Measures a promise to a new process beside two hogs.
    pub(crate) fn measure(&self, promise: Promise, limit: Limit, length: Nanos) -> Result<Sample, String> {
        let others = hogs();
        let child = hog();
        let received = Received::by(others.iter().chain([&child]))?;
        let switches = watch(child.pid()).map_err(|error| error.to_string())?;
        let over = AtomicBool::new(false);
        let (stretches, measured) = std::thread::scope(|scope| {
            let recorder = scope.spawn(|| {
                let _ = attributes::apply(thread::current(), Attributes::raised(RECORDER));
                record(switches, &over)
            });
            let measured = self.keep_promise(child.pid(), promise, limit, length, &received);
            over.store(true, Ordering::Relaxed);
            (recorder.join().expect("a recorder does not panic"), measured)
        });
        let (span, sample) = measured?;
        let stretches = stretches?;
        let tally = match span.begun {
            Some(begun) => judge(&stretches, promise, begun, span.to),
            None => judge_any_phase(&stretches, promise, span.from, span.to),
        };
        Ok(Sample { tally, ..sample })
    }

    /// Keeps a promise to process `pid` for `length`. Returns the time measured, and the sample without its
    /// tally.
    fn keep_promise(
        &self,
        pid: u32,
        promise: Promise,
        limit: Limit,
        length: Nanos,
        received: &Received,
    ) -> Result<(Span, Sample), String> {
        let front = self.front;
        let e = admit(front, promise, limit, pid)?;
        // The standby of the guardian starts with the first promise.
        clock::sleep(if self.is_warm.replace(true) { SETTLED } else { WARM_UP });
        let expense = Expense::of(front.pid());
        if self.in_kernel && !front.read_news().in_kernel.contains(&e) {
            front.dismiss(e);
            return Err(format!("the kernel does not dispatch the promise: {:?}", front.warnings()));
        }
        // The kernel does not report the phase of its periods.
        let first = front.promise(e).map(|promise| promise.deadline);
        let begun = first.map(|first| front.epoch().saturating_add(first.since(Instant::ZERO)));
        // The journal so far.
        let mut events = Vec::new();
        front.read_journal(&mut events);
        let mut measure = || {
            let spent_before = expense.read();
            let measured = lost(received, promise, || self.await_end(length, &mut events));
            let spent = expense.read() - &spent_before;
            front.dismiss(e);
            Ok((measured?, spent))
        };
        let ((delivered, (from, to), lost), spent) = if self.shares { measure()? } else { above_agents(measure)? };
        clock::sleep(Nanos::ms(5));
        let periods = periods(promise, from, to);
        let share = |delivered: Nanos| delivered.as_ns() as f64 / (periods * promise.slice.as_ns() as f64);
        let share_ppm = delivered.map(|delivered| (share(delivered) - 1.0) * 1e6);
        let sample = Sample { tally: Tally::default(), cost: Cost::of(&spent, periods), share_ppm, lost };
        Ok((Span { begun, from, to }, sample))
    }

    /// Waits for `length`. Returns the reserved time that was delivered meanwhile, if it is measured and no event was lost.
    fn await_end(&self, length: Nanos, events: &mut Vec<(Instant, Event)>) -> Option<Nanos> {
        let end = clock::now().saturating_add(length);
        if !self.shares {
            clock::sleep_until(end);
            return None;
        }
        let mut delivered = Some(Nanos::ZERO);
        while clock::now() < end {
            clock::sleep_until(clock::now().saturating_add(POLL).min(end));
            let is_whole = self.front.read_journal(events) == 0;
            delivered = delivered.filter(|_| is_whole).map(|delivered| delivered + reserved(events));
        }
        delivered
    }
}

/// Returns the result of `work`, its begin and its end, and the CPU time per period that the metered processes do not receive meanwhile,
/// in ns.
fn lost<T>(
    received: &Received,
    promise: Promise,
    work: impl FnOnce() -> T,
) -> Result<(T, (Instant, Instant), f64), String> {
    let (from, had) = (clock::now(), received.read()?);
    let worked = work();
    let (to, has) = (clock::now(), received.read()?);
    let lost = to.since(from).as_ns() as f64 - (has - had).as_ns() as f64;
    Ok((worked, (from, to), lost / periods(promise, from, to)))
}

fn periods(promise: Promise, from: Instant, to: Instant) -> f64 {
    to.since(from).as_ns() as f64 / promise.period.as_ns() as f64
}

/// Result of one of several promises.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) periods: u64,
    pub(crate) missed: u64,
    /// Number of missed periods in which the CPU was absent for at least the missing time.
    pub(crate) away: u64,
    /// Maximum missing time.
    pub(crate) worst: Nanos,
}

/// Keeps all `promises` side by side for `length`.
pub(crate) fn keep(promises: &[Promise], length: Nanos) -> Result<Vec<Kept>, String> {
    let witness = Witness::default();
    let misses = std::thread::scope(|scope| {
        let watching = scope.spawn(|| witness.watch());
        let answer = serve_all(promises, length);
        witness.end();
        watching.join().expect("a witness does not panic").map_err(|error| error.to_string())?;
        answer
    })?;
    Ok(misses
        .into_iter()
        .map(|(periods, misses)| {
            let excused = |miss: &&Miss| witness.away(miss.begun, miss.told) >= miss.missing;
            Kept {
                periods,
                missed: misses.len() as u64,
                away: misses.iter().filter(excused).count() as u64,
                worst: misses.iter().map(|miss| miss.missing).max().unwrap_or(Nanos::ZERO),
            }
        })
        .collect())
}

/// A period in which less CPU time was delivered than was due.
struct Miss {
    /// Start of the period: one period before `told`.
    begun: Instant,
    /// Instant at which the dispatcher detected the end of the period.
    told: Instant,
    missing: Nanos,
}

/// Keeps all `promises`. Returns the number of periods and the missed periods of each promise.
fn serve_all(promises: &[Promise], length: Nanos) -> Result<Vec<(u64, Vec<Miss>)>, String> {
    let mut others = hogs();
    live::serve(&setup(None)?, |front| {
        // The processes run until the end of the measurement.
        let launcher = Launcher::of(executable());
        let (mut children, mut entities) = (Vec::new(), Vec::new());
        for promise in promises {
            let mut process = launcher.work("promised", Work::Hog, length).map_err(|reason| reason.to_string())?;
            process.go(clock::now()).map_err(|reason| reason.to_string())?;
            entities.push(admit(front, *promise, Limit::Soft, process.pid())?);
            children.push(process);
        }
        let mut kept: Vec<(u64, Vec<Miss>)> = promises.iter().map(|_| (0, Vec::new())).collect();
        let end = clock::now().saturating_add(length);
        let mut renew = clock::now().saturating_add(Nanos::s(50));
        let mut events = Vec::new();
        while clock::now() < end {
            clock::sleep_until(clock::now().saturating_add(Nanos::ms(100)).min(end));
            if front.read_journal(&mut events) > 0 {
                return Err("events were lost".to_string());
            }
            for (at, event) in &events {
                let Event::Period { entity, due, delivered, throughout: true } = event else { continue };
                let place = entities.iter().position(|e| e == entity).ok_or("a period of an unknown entity")?;
                kept[place].0 += 1;
                if delivered < due {
                    let since = |at: Instant| front.epoch().saturating_add(at.since(Instant::ZERO));
                    let period = front.promise(*entity).ok_or("nothing is promised")?.period;
                    let begun = Instant::at_ns(at.as_ns().saturating_sub(period.as_ns()));
                    let missing = *due - *delivered;
                    kept[place].1.push(Miss { begun: since(begun), told: since(*at), missing });
                }
            }
            // A hog ends after a minute, so new hogs replace the hogs every 50 s.
            if clock::now() >= renew {
                renew = clock::now().saturating_add(Nanos::s(50));
                others = hogs();
            }
        }
        children.clear();
        others.clear();
        Ok(kept)
    })
    .map_err(|failure| format!("{failure:?}"))?
}
