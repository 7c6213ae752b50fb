//! What is to be run, and what is promised to whom.

use super::refused;
use crate::args::Run;
use crate::{Failure, usage};
use daemon::directory::Directory;
use daemon::dispatch::Wish;
use daemon::doctor::Mechanism;
use daemon::guardian;
use daemon::host::Host;
use daemon::live::Setup;
use sched::{CpuSet, Instant, Limit, Nanos, Reservation};
use std::path::Path;

/// The share of each CPU that is promised to nobody. Unit: percent.
const RESERVE: u64 = 10;

/// Somebody who takes part.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// What it is promised; nothing: it is left to the kernel.
    pub(crate) wish: Option<Wish>,
    pub(crate) arrival: Instant,
    pub(crate) leaves: Option<Instant>,
}

/// What somebody is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A process that runs already, and goes on running.
    Pid(u32),
    /// A command.
    Command(Vec<String>),
}

/// What is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    /// How long; none: until all have ended.
    pub(crate) length: Option<Nanos>,
}

pub(crate) fn plan(args: &Run) -> Result<Plan, Failure> {
    let length = args.length.as_deref().map(lab::length).transpose()?;
    let time = |text: &Option<String>| lab::length(text.as_deref().expect("there is one without a scenario"));
    let (period, slice) = (time(&args.period)?, time(&args.slice)?);
    let limit = if args.hard { Limit::Hard } else { Limit::Soft };
    let reservation = Reservation { limit, ..Reservation::new(slice, period) };
    let part = |name: String, source: Source| {
        let affinity = args.affinity.unwrap_or(CpuSet::ALL);
        let wish = Wish { name: name.clone(), reservation, cpus: args.cpus.into(), affinity };
        Part { name, source, wish: Some(wish), arrival: Instant::ZERO, leaves: None }
    };
    let mut parts: Vec<Part> = args.pid.iter().map(|&pid| part(format!("pid {pid}"), Source::Pid(pid))).collect();
    if let Some(program) = args.command.first() {
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        parts.push(part(name, Source::Command(args.command.clone())));
    }
    Ok(Plan { parts, length })
}

/// How the daemon is set up on this host.
pub(crate) fn setup() -> Result<Setup, Failure> {
    let host = Host::read().map_err(|error| refused(&error.into()))?;
    let promisable = host.promisable_ppm(Mechanism::Fifo).unwrap_or(0);
    if promisable == 0 {
        let right = "right would be a control group with real-time runtime; `tactus doctor` says more";
        return Err(usage("nothing can be promised here: real-time threads get no time".to_string(), right));
    }
    let policy = policies::ALL.iter().find(|policy| policy.name == "edf").expect("there is edf");
    let mut knobs = policy.defaults();
    for (knob, word) in [("enforce", "hard"), ("placement", "partitioned"), ("late", "carry")] {
        knobs.set_word(knob, word).expect("edf has this knob");
    }
    let reserve = RESERVE.max(100 - promisable.min(1_000_000) / 10_000);
    knobs.set("reserve", reserve.cast_signed()).expect("edf takes a percentage");
    Ok(Setup {
        directory: Directory::usual().map_err(|reason| refused(&reason))?,
        executable: guardian::this_program().to_path_buf(),
        policy,
        knobs,
    })
}
