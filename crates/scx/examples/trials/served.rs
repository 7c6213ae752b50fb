//! Orders of a core: promises that threads share begin, change and end while the scheduler runs.

use crate::Line;
use crate::load::hogs;
use crate::scheduler::scheduler_ends_within;
use anyhow::{Context, Result, bail, ensure};
use orders::{Order, Report};
use sched::Nanos;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use sys::clock;

/// Minimum number of periods of 10 ms that are reported in 2 s: the reports of the last 100 ms come later, with some time beside hogs.
const JUDGED_LEAST: u64 = 185;

/// A `tactus-scx` that takes orders. It is killed when the value is dropped.
struct Served {
    child: Child,
    orders: Option<ChildStdin>,
    reports: Receiver<Report>,
}

impl Served {
    /// Starts the program, and waits until its scheduler is loaded.
    fn start(line: &Line) -> Result<Served> {
        let mut command = Command::new(&line.tactus_scx);
        let mut child = command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (orders, output) = (child.stdin.take(), child.stdout.take().context("it is piped")?);
        let (to, reports) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let report = orders::read(&line).expect("it is of this build");
                if to.send(report).is_err() {
                    break;
                }
            }
        });
        let served = Served { child, orders, reports };
        match served.reports.recv_timeout(Duration::from_secs(30))? {
            Report::Ready => Ok(served),
            other => bail!("{other:?}"),
        }
    }

    fn order(&mut self, order: Order) -> Result<()> {
        let input = self.orders.as_mut().context("the input is open")?;
        Ok(input.write_all(orders::line(&order).as_bytes())?)
    }

    /// Returns the numbers of periods of `promise` that were judged and missed since the last call. The other reports must be
    /// of periods, too.
    fn judged(&self, promise: i32) -> Result<(u64, u64)> {
        let (mut judged, mut missed) = (0, 0);
        for report in self.reports.try_iter() {
            match report {
                Report::Periods { promise: number, due_ns, delivered_ns, throughout: true, count } => {
                    if number == promise {
                        judged += count;
                        missed += if delivered_ns < due_ns { count } else { 0 };
                    }
                }
                Report::Periods { .. } | Report::Done { .. } => {}
                other => bail!("{other:?}"),
            }
        }
        Ok((judged, missed))
    }

    /// Ends the input, and so the program.
    fn end(mut self) -> Result<()> {
        drop(self.orders.take());
        let process = sys::process::Process::open(self.child.id())?;
        ensure!(process.ends_within(Nanos::s(5)), "the program does not end with its input");
        ensure!(self.child.wait()?.success(), "it has failed");
        ensure!(scheduler_ends_within(Nanos::s(5)).is_some(), "its scheduler is still loaded");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Like the promises of the port, on one CPU only.
pub(crate) fn orders(line: &Line) -> Result<()> {
    if sys::cpus::online()?.len() > 1 {
        println!("  left out: this machine has several CPUs");
        return Ok(());
    }
    if line.leaves_out(1) {
        return Ok(());
    }
    let hogs = hogs(5)?;
    let tid = |at: usize| hogs[at].0.pid();
    let read = || hogs.iter().map(|(_, meter)| Ok(meter.read()?.ran.as_ns() / 1_000)).collect::<Result<Vec<u64>>>();
    let pass = |time: Nanos| -> Result<Vec<u64>> {
        let before = read()?;
        clock::sleep(time);
        Ok(read()?.iter().zip(before).map(|(after, before)| after - before).collect())
    };
    let mut served = Served::start(line)?;
    let begin = |promise, ms: u64, is_hard| {
        let (slice_ns, period_ns) = (ms * 1_000_000, 10_000_000);
        Order::Begin { promise, cpu: 0, slice_ns, period_ns, is_hard, gang: None }
    };
    let join = |promise, at| Order::Join { promise, tid: tid(at), is_helper: false };

    // Two threads share 4 ms in 10 ms, and compete for the rest with the three others.
    served.order(begin(1, 4, false))?;
    served.order(join(1, 0))?;
    served.order(join(1, 1))?;
    let ran = pass(Nanos::s(2))?;
    let (judged, missed) = served.judged(1)?;
    println!("  two threads with 4ms/10ms: CPU times {ran:?} us, {missed} of {judged} periods missed");
    ensure!(judged >= JUDGED_LEAST && missed == 0, "periods were missed");
    // The kernel may run other threads, too. Its share of the rest is that of each hog without a promise.
    let share = |ran: &[u64], of: &[usize]| of.iter().map(|&at| ran[at]).sum::<u64>() / of.len() as u64;
    let rest = share(&ran, &[2, 3, 4]);
    ensure!((ran[0] + ran[1]).abs_diff(800_000 + 2 * rest) < 60_000, "they have 0.8 s and their shares: {ran:?}");
    ensure!(ran[0].abs_diff(ran[1]) < 120_000, "they take turns: {ran:?}");

    // One of them leaves; the other has less, and a third thread has a limit.
    served.order(Order::Change { promise: 1, slice_ns: 2_000_000, period_ns: 10_000_000, gang: None })?;
    served.order(Order::Leave { tid: tid(1) })?;
    served.order(begin(2, 1, true))?;
    served.order(join(2, 2))?;
    clock::sleep(Nanos::ms(100));
    served.judged(1)?;
    let ran = pass(Nanos::s(2))?;
    let (judged, missed) = served.judged(1)?;
    println!("  2ms/10ms, and a limit of 1ms/10ms: CPU times {ran:?} us, {missed} of {judged} periods missed");
    ensure!(judged >= JUDGED_LEAST && missed == 0, "periods were missed");
    ensure!(ran[2].abs_diff(200_000) < 12_000, "the limit is not kept: {ran:?}");
    let rest = share(&ran, &[3, 4]);
    ensure!(ran[0].abs_diff(400_000 + rest) < 50_000 && ran[1].abs_diff(rest) < 50_000, "{ran:?}");

    // The promises end, also to a thread that waits for its period; an order that cannot be carried out is refused.
    served.order(Order::End { promise: 2 })?;
    served.order(Order::End { promise: 1 })?;
    clock::sleep(Nanos::ms(100));
    served.judged(1)?;
    let ran = pass(Nanos::s(1))?;
    println!("  after the end: CPU times {ran:?} us");
    let rest = share(&ran, &[3, 4]);
    ensure!(ran.iter().all(|time| time.abs_diff(rest) < 20_000), "they share the CPU: {ran:?}");
    served.order(join(1, 0))?;
    clock::sleep(Nanos::ms(100));
    let refused = served.judged(1).err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(refused.contains("Refused") && refused.contains("No such process"), "{refused}");
    served.end()
}
