//! `tactus work`, `tactus launch` and `tactus read-cd`: the processes of a live run.

use crate::args::{Launch, ReadCd, Work};
use crate::failure::Failure;
use crate::output::{complain, print};
use anyhow::anyhow;
use daemon::processes::{self, CdReader, Periodic};
use sched::Nanos;

/// The exit code of shells for a command that cannot be executed.
const NOT_RUN: i32 = 126;

pub(crate) fn work(args: &Work) -> Result<(), Failure> {
    let jobs = args.period_ns.zip(args.work_ns).map(|(period, work)| {
        let period = Nanos::ns(period);
        Periodic { period, work: Nanos::ns(work), phase: Nanos::ns(args.phase_ns), deadline: period }
    });
    let work = jobs.map_or(processes::Work::Hog, processes::Work::Periodic);
    let records = usize::try_from(args.records).expect("it is at most a million");
    processes::work(work, records).map_err(|reason| anyhow!(reason).into())
}

pub(crate) fn launch(args: &Launch) -> Result<(), Failure> {
    let reason = processes::launch(args.gate, &args.command);
    complain(&format!("error: {reason}"));
    std::process::exit(NOT_RUN)
}

pub(crate) fn read_cd(args: &ReadCd) -> Result<(), Failure> {
    let ReadCd { turns, buffer, .. } = *args;
    let (turn, seek, work) = (Nanos::ms(args.turn_ms), Nanos::ms(args.seek_ms), Nanos::us(args.work_us));
    let took = CdReader { turns, turn, buffer, seek, work }.read();
    Ok(print(&format!("{}\n", took.as_ns()))?)
}
