//! `tactus-scx --serve`: carries out the orders of the core of the daemon, and reports what its promises receive.
//!
//! Orders come from standard input, and reports go to standard output, a line each: see the crate `orders`. The scheduler ends
//! with the input.

use crate::session::PRIORITY;
use orders::{Order, Report};
use sched::{CpuId, Instant, Limit, Nanos, Reservation};
use scx::interface::{EndedPeriods, Event, Kind};
use scx::native::{Member, NativeEdf, Promise, Reported};
use scx::{Basis, Error};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use sys::attributes::{self, Attributes, Policy};
use sys::event::Bell;
use sys::{autogroup, clock, process};

/// Interval of reports.
const INTERVAL: Nanos = Nanos::ms(100);
/// Least interval between reports of lost events.
const LOST_INTERVAL: Nanos = Nanos::s(10);
/// The nice value of the session of this program.
const NICE_LEAST: i32 = -20;
/// Number of orders after which progress is reported although more have come.
const DONE_EVERY: u64 = 64;
/// Number of the orders among the event sources; the events of the scheduler have 0.
const ORDERS: u64 = 1;

/// Serves until the end of the input. Returns 0 then, 1 if the kernel has removed the scheduler, and 3 if it could not be
/// loaded.
pub(crate) fn run() -> ExitCode {
    begin_session();
    let code = match Server::load() {
        Ok(mut server) => {
            say(&Report::Ready);
            match server.serve() {
                Ok(()) => return ExitCode::SUCCESS,
                Err(Stop { reason, begins_again }) => {
                    say(&Report::Ended { reason, begins_again });
                    1
                }
            }
        }
        Err(error) => {
            let reason = error.to_string();
            say(&Report::Ended { reason, begins_again: false });
            3
        }
    };
    ExitCode::from(code)
}

/// Moves this program to a session of its own, with the least nice value. The kernel checks the programs for seconds of CPU time, and
/// with autogroups a nice value of a thread weighs against threads of its session only.
fn begin_session() {
    if process::leave_session().is_ok() && autogroup::is_on() {
        // Without it, loading takes longer beside busy sessions.
        let _ = autogroup::set_nice(std::process::id(), NICE_LEAST);
    }
}

/// Writes a line. If the core has ended, so has the input.
fn say(report: &Report) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(orders::line(report).as_bytes()).and_then(|()| output.flush());
}

/// Why the server stops.
struct Stop {
    reason: String,
    /// The kernel has removed the scheduler because a CPU went offline or online.
    begins_again: bool,
}

impl From<String> for Stop {
    fn from(reason: String) -> Stop {
        Stop { reason, begins_again: false }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::from(error.to_string())
    }
}

struct Server {
    scheduler: NativeEdf,
    /// The tids of the members of each promise.
    promises: BTreeMap<i32, Vec<i32>>,
    gangs: Gangs,
    orders: Receiver<String>,
    bell: Arc<Bell>,
    /// Number of orders carried out.
    done: u64,
    losses: Losses,
}

impl Server {
    /// Loads the scheduler, without promises.
    fn load() -> Result<Server, Error> {
        // To load the programs takes long, and real-time threads such as those of the core must not wait for it.
        let scheduler = NativeEdf::load(Reported::Periods, Basis::now())?;
        sys::memory::lock()?;
        attributes::prepare();
        let me = sys::thread::current();
        attributes::apply(me, Attributes { policy: Policy::Fifo { priority: PRIORITY }, ..attributes::get(me)? })?;
        let (to, orders) = channel();
        let bell = Arc::new(Bell::new()?);
        scheduler.add(&*bell, ORDERS)?;
        let ringing = Arc::clone(&bell);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
                ringing.ring();
            }
            drop(to);
            ringing.ring();
        });
        Ok(Server {
            scheduler,
            promises: BTreeMap::new(),
            gangs: Gangs::default(),
            orders,
            bell,
            done: 0,
            losses: Losses::default(),
        })
    }

    /// Serves until the end of the input.
    fn serve(&mut self) -> Result<(), Stop> {
        let (mut events, mut next) = (Vec::new(), clock::now());
        loop {
            self.scheduler.wait(next)?;
            let _ = self.bell.rings();
            let goes_on = self.obey()?;
            // Unread events would end the next wait at once.
            self.scheduler.read(&mut events)?;
            let now = clock::now();
            if now >= next || !goes_on {
                summed(events.drain(..)).iter().for_each(say);
                if let Some(events) = self.losses.new_since(self.scheduler.lost()?, now) {
                    say(&Report::Lost { events });
                }
                if let Some(ending) = self.scheduler.ending()? {
                    return Err(Stop { begins_again: ending.requests_restart(), reason: ending.text() });
                }
                next = now.saturating_add(INTERVAL);
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Carries out the orders that have come. Returns whether more can come.
    fn obey(&mut self) -> Result<bool, String> {
        let before = self.done;
        let goes_on = self.carry_out_all()?;
        if self.done != before {
            say(&Report::Done { orders: self.done });
        }
        Ok(goes_on)
    }

    fn carry_out_all(&mut self) -> Result<bool, String> {
        loop {
            match self.orders.try_recv() {
                Ok(line) => {
                    let order: Order = orders::read(&line)?;
                    if let Err(error) = self.carry_out(order) {
                        say(&Report::Refused { order, reason: error.to_string() });
                    }
                    self.done += 1;
                    // The core waits for progress.
                    if self.done.is_multiple_of(DONE_EVERY) {
                        say(&Report::Done { orders: self.done });
                    }
                }
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    fn carry_out(&mut self, order: Order) -> Result<(), Error> {
        match order {
            Order::Begin { promise, cpu, slice_ns, period_ns, is_hard, gang } => {
                let limit = if is_hard { Limit::Hard } else { Limit::Soft };
                let reservation = Reservation { limit, ..Reservation::new(Nanos::ns(slice_ns), Nanos::ns(period_ns)) };
                let first = gang.map(|gang| self.gangs.first(gang).unwrap_or(promise));
                self.scheduler.begin(&Promise { number: promise, reservation, cpu: CpuId::new(cpu), gang: first })?;
                self.gangs.place(promise, gang);
                self.promises.insert(promise, Vec::new());
            }
            Order::Change { promise, slice_ns, period_ns, gang } => {
                self.gangs.place(promise, gang);
                self.scheduler.change(promise, Nanos::ns(slice_ns), Nanos::ns(period_ns))?;
            }
            Order::Join { promise, tid, is_helper } => {
                let tid = tid.cast_signed();
                self.scheduler.join(&Member { tid, promise, is_helper })?;
                self.promises.entry(promise).or_default().push(tid);
            }
            Order::Leave { tid } => {
                let tid = tid.cast_signed();
                for (promise, members) in &mut self.promises {
                    if let Some(at) = members.iter().position(|it| *it == tid) {
                        members.swap_remove(at);
                        self.scheduler.leave(*promise, tid)?;
                    }
                }
            }
            Order::End { promise } => {
                for tid in self.promises.remove(&promise).unwrap_or_default() {
                    self.scheduler.leave(promise, tid)?;
                }
                self.gangs.place(promise, None);
                self.scheduler.end(promise)?;
            }
        }
        Ok(())
    }
}

/// The promises of each gang, by its number.
#[derive(Debug, Default)]
struct Gangs(BTreeMap<u32, Vec<i32>>);

impl Gangs {
    /// Returns a promise of a gang; `None`: it has none.
    fn first(&self, gang: u32) -> Option<i32> {
        self.0.get(&gang)?.first().copied()
    }

    /// Places a promise in a gang, or in none. It leaves its former gang.
    fn place(&mut self, promise: i32, gang: Option<u32>) {
        self.0.values_mut().for_each(|promises| promises.retain(|it| *it != promise));
        self.0.retain(|_, promises| !promises.is_empty());
        if let Some(gang) = gang {
            self.0.entry(gang).or_default().push(promise);
        }
    }
}

/// The lost events that were reported.
#[derive(Default)]
struct Losses {
    reported: u64,
    /// Instant before which no more are reported.
    next: Instant,
}

impl Losses {
    /// Returns how many events were lost since the last report. `None`: none, or it is too early for a report.
    fn new_since(&mut self, total: u64, now: Instant) -> Option<u64> {
        let new = total - self.reported;
        if new == 0 || now < self.next {
            return None;
        }
        (self.reported, self.next) = (total, now.saturating_add(LOST_INTERVAL));
        Some(new)
    }
}

/// Returns the periods of these events, with equal ones of a promise in one report.
fn summed(events: impl Iterator<Item = Event>) -> Vec<Report> {
    let mut all: BTreeMap<i32, Vec<(EndedPeriods, u64)>> = BTreeMap::new();
    for Event { tid, kind, .. } in events {
        let Kind::Periods(ended) = kind else { continue };
        let of_promise = all.entry(tid).or_default();
        let mut add = |one: EndedPeriods, count: u64| match of_promise.last_mut() {
            Some((last, sum)) if *last == one => *sum += count,
            _ => of_promise.push((one, count)),
        };
        add(EndedPeriods { count: 1, ..ended }, 1);
        if ended.count > 1 {
            add(EndedPeriods { count: 1, delivered: Nanos::ZERO, ..ended }, ended.count - 1);
        }
    }
    let report = |promise: i32, (ended, count): (EndedPeriods, u64)| Report::Periods {
        promise,
        due_ns: ended.due.as_ns(),
        delivered_ns: ended.delivered.as_ns(),
        throughout: ended.throughout,
        count,
    };
    all.into_iter().flat_map(|(promise, ended)| ended.into_iter().map(move |one| report(promise, one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_begins_with_those_of_its_gang_until_they_end() {
        let mut gangs = Gangs::default();
        assert_eq!(gangs.first(7), None);
        gangs.place(1, Some(7));
        gangs.place(2, Some(7));
        gangs.place(3, None);
        assert_eq!(gangs.first(7), Some(1));
        // The promises of a gang change one after another.
        gangs.place(2, Some(8));
        gangs.place(1, Some(8));
        assert_eq!((gangs.first(7), gangs.first(8)), (None, Some(2)));
        gangs.place(2, None);
        assert_eq!(gangs.first(8), Some(1));
        gangs.place(1, None);
        assert!(gangs.0.is_empty());
    }

    #[test]
    fn lost_events_are_reported_once_and_no_more_than_every_ten_seconds() {
        let at = |s| Instant::ZERO + Nanos::s(s);
        let mut losses = Losses::default();
        let reported = [(0, 1), (3, 2), (3, 3), (5, 4), (9, 11), (9, 12), (9, 30), (10, 31)];
        let reported = reported.map(|(total, now)| losses.new_since(total, at(now)));
        assert_eq!(reported, [None, Some(3), None, None, None, Some(6), None, Some(1)]);
    }

    #[test]
    fn equal_periods_of_a_promise_are_one_report_and_missed_ones_another() {
        let event = |promise: i32, delivered: u64, count: u64| {
            let (due, delivered) = (Nanos::ms(2), Nanos::ms(delivered));
            let kind = Kind::Periods(EndedPeriods { due, delivered, throughout: true, count });
            Event { at: Instant::ZERO, tid: promise, kind }
        };
        let events = [event(1, 2, 1), event(2, 2, 1), event(1, 2, 1), event(1, 2, 3), event(1, 2, 1)];
        let reports = summed(events.into_iter());
        let of = |report: &Report| match report {
            Report::Periods { promise, delivered_ns, count, .. } => (*promise, *delivered_ns / 1_000_000, *count),
            other => panic!("{other:?}"),
        };
        assert_eq!(reports.iter().map(of).collect::<Vec<_>>(), [(1, 2, 3), (1, 0, 2), (1, 2, 1), (2, 2, 1)]);
    }
}
