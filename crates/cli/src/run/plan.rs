//! The plan of a live run: its processes and their promises.

use super::refused;
use crate::args::Run;
use crate::{Failure, usage};
use daemon::directory::Directory;
use daemon::dispatch::{PromiseRequest, Refusal};
use daemon::doctor::Mechanism;
use daemon::guardian;
use daemon::host_profile::HostProfile;
use daemon::live::{self, Setup};
use daemon::part::{Periodic, Work};
use input::problem::{Problems, Wrong};
use input::source::{Source as Text, Span};
use report::{EntityDescription, RunDescription};
use scenario::{Real, Scenario, Workload};
use sched::{CpuSet, Instant, Knobs, Limit, Nanos, Params, Refused, Reservation};
use std::ops::Range;
use std::path::Path;
use sys::realtime::Bandwidth;

/// The share of each CPU that is never promised. Unit: percent.
const RESERVE: u64 = 10;
/// The assumed duration of a run without an end, for the window of a picture.
const OPEN_END: Nanos = Nanos::s(1);

/// A process of the run.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// Its promise; `None`: it is left to the kernel.
    pub(crate) request: Option<PromiseRequest>,
    pub(crate) arrival: Instant,
    pub(crate) leaves: Option<Instant>,
    /// Its entities in the description of the run.
    pub(crate) entities: Range<usize>,
    /// Where its request is written; the default if it is not in a file.
    place: Span,
}

/// The source of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A running process, which continues after the run.
    Pid(u32),
    /// A command.
    Command(Vec<String>),
    /// A worker.
    Work(Work),
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The run as its report describes it.
    pub(crate) description: RunDescription,
    pub(crate) parts: Vec<Part>,
    /// Its duration; `None`: until all processes have ended.
    pub(crate) length: Option<Nanos>,
    /// Whether standard output is reserved for JSON.
    pub(crate) json: bool,
    /// Whether all events are kept for a trace.
    pub(crate) is_traced: bool,
    /// The file that the plan is from.
    source: Text,
}

impl Plan {
    /// The refusal of the promise to process number `index`, with its place if that is in a file.
    pub(crate) fn refused(&self, index: usize, refusal: &Refusal) -> Failure {
        match refusal {
            Refusal::Promise(why) => self.cannot_promise(&self.parts[index], why),
            other => refused(&other.reason()),
        }
    }

    fn cannot_promise(&self, part: &Part, why: &Refused) -> Failure {
        let name = &self.description.entities[part.entities.start].name;
        let place = (part.place != Span::default()).then_some(part.place);
        Problems::from(Wrong::from(why).said_of(name).anywhere(place).within(&self.source)).into()
    }
}

pub(crate) fn plan(args: &Run) -> Result<Plan, Failure> {
    let length = args.length.as_deref().map(input::duration::length).transpose()?;
    match &args.scenario {
        Some(path) => {
            let mut scenario = lab::disk::scenario(path)?;
            scenario.only_entities("a live run")?;
            scenario.length = length.unwrap_or(scenario.length);
            let plan = from_scenario(&scenario, args.output.json)?;
            Ok(Plan { is_traced: args.output.trace.is_some(), ..plan })
        }
        None => from_arguments(args, length),
    }
}

fn from_arguments(args: &Run, length: Option<Nanos>) -> Result<Plan, Failure> {
    let time =
        |text: &Option<String>| input::duration::length(text.as_deref().expect("there is one without a scenario"));
    let (period, slice) = (time(&args.period)?, time(&args.slice)?);
    let limit = if args.hard { Limit::Hard } else { Limit::Soft };
    let reservation = Reservation { limit, ..Reservation::new(slice, period) };
    let affinity = args.affinity.unwrap_or(CpuSet::ALL);
    let cpus = usize::from(args.cpus);
    let mut sources: Vec<(String, Source)> =
        args.pid.iter().map(|&pid| (format!("pid {pid}"), Source::Pid(pid))).collect();
    if let Some(program) = args.command.first() {
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        sources.push((name, Source::Command(args.command.clone())));
    }
    let mut plan = Plan {
        description: RunDescription {
            title: sources.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
            hosts: vec!["host".to_string()],
            cpus: host().cpus,
            length: length.unwrap_or(OPEN_END),
            warm_up: Nanos::ZERO,
            entities: Vec::new(),
            groups: Vec::new(),
        },
        parts: Vec::new(),
        length,
        json: args.output.json,
        is_traced: args.output.trace.is_some(),
        source: Text::default(),
    };
    for (name, source) in sources {
        let first = plan.description.entities.len();
        let each = Reservation { slice: Nanos::ns(slice.as_ns().div_ceil(cpus as u64)), ..reservation };
        for nth in 0..cpus {
            let name = if cpus > 1 { format!("{name}/{nth}") } else { name.clone() };
            plan.description.entities.push(EntityDescription {
                name,
                group: None,
                host: 0,
                arrival: Instant::ZERO,
                params: Params { reservation: Some(each), affinity, ..Params::default() },
                job_period: None,
            });
        }
        let request = Some(PromiseRequest { name: name.clone(), reservation, cpus, affinity });
        plan.parts.push(Part {
            name,
            source,
            request,
            arrival: Instant::ZERO,
            leaves: None,
            entities: first..first + cpus,
            place: Span::default(),
        });
    }
    Ok(plan)
}

/// The topology of this host.
pub(crate) fn host() -> sched::Topology {
    let cpus = sys::affinity::get(sys::thread::current()).unwrap_or(CpuSet::first_n(1));
    sched::Topology::new(cpus.iter().last().map_or(1, |cpu| cpu.index() + 1))
}

/// The plan of a scenario on this host's CPUs, whatever machine it describes.
pub(crate) fn from_scenario(scenario: &Scenario, json: bool) -> Result<Plan, Failure> {
    let description = RunDescription { cpus: host().cpus, ..RunDescription::of(scenario) };
    let mut parts = Vec::with_capacity(scenario.entities.len());
    for (index, entity) in scenario.entities.iter().enumerate() {
        let source = match (&entity.real, entity.workload) {
            (Some(Real::Command(argv)), _) => Source::Command(argv.clone()),
            (Some(Real::Pid(pid)), _) => Source::Pid(*pid),
            (None, Workload::Hog | Workload::Scripted | Workload::Vcpu | Workload::Program) => Source::Work(Work::Hog),
            (None, Workload::Periodic(jobs)) => Source::Work(Work::Periodic(Periodic {
                period: jobs.period,
                work: jobs.work,
                phase: jobs.phase,
                deadline: jobs.deadline,
            })),
        };
        let request = entity.params.reservation.map(|reservation| PromiseRequest {
            name: entity.name.clone(),
            reservation,
            cpus: 1,
            affinity: entity.params.affinity,
        });
        if entity.params.reservation.is_some_and(|reservation| reservation.deadline.is_some()) {
            let why = Refused::Unsupported {
                reason: "a deadline before the end of the period is not kept on a real host",
                remedy: "leave the deadline out",
            };
            return Err(scenario.refused(index, &why).into());
        }
        parts.push(Part {
            name: entity.name.clone(),
            source,
            request,
            arrival: entity.arrival,
            leaves: entity.leaves,
            entities: index..index + 1,
            place: entity.place,
        });
    }
    let length = Some(scenario.length);
    Ok(Plan { description, parts, length, json, is_traced: false, source: scenario.source.clone() })
}

/// The terms of promises on this host.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) setup: Setup,
    /// The share of each CPU that may be promised. Unit: percent.
    promised: u64,
    throttling: Bandwidth,
    fair_server: Option<Bandwidth>,
}

impl Terms {
    /// The knobs for a simulation of the same run: a client that has used up its slice competes for the remaining time, as on this
    /// host, unless its limit is hard.
    pub(crate) fn predicting(&self) -> Knobs {
        let mut knobs = self.setup.knobs.clone();
        knobs.set_word("enforce", "soft").expect("edf has this knob");
        knobs
    }

    /// The terms in words.
    pub(crate) fn said(&self) -> String {
        let of = |bandwidth: &Bandwidth| {
            let Bandwidth { runtime, period } = bandwidth;
            runtime.map_or("all".to_string(), |runtime| format!("{runtime} in every {period}"))
        };
        let mut text = format!("Tactus reserves at most {} % of each CPU", self.promised);
        text += &format!(
            "; {RESERVE} % stays free for everything else. The kernel leaves real-time threads {}",
            of(&self.throttling)
        );
        if let Some(server) = &self.fair_server {
            text += &format!(" and keeps {} for ordinary threads", of(server));
        }
        text + "."
    }
}

/// The terms of promises on this host; the table of originals is in `directory`, or in the default directory.
pub(crate) fn terms(directory: Option<&Path>) -> Result<Terms, Failure> {
    let host = HostProfile::read().map_err(|error| refused(&error.into()))?;
    let promisable = host.promisable_ppm(Mechanism::Fifo).unwrap_or(0);
    if promisable == 0 {
        let remedy = "use a control group with real-time runtime; `tactus doctor` shows the details";
        return Err(usage("no promise is possible here: real-time threads get no time".to_string(), remedy));
    }
    let policy = policies::ALL.iter().find(|policy| policy.name == "edf").expect("there is edf");
    let mut knobs = policy.defaults();
    for (knob, word) in live::WORDS {
        knobs.set_word(knob, word).expect("edf has this knob");
    }
    let reserve = RESERVE.max(100 - promisable.min(1_000_000) / 10_000);
    knobs.set("reserve", reserve.cast_signed()).expect("edf takes a percentage");
    let directory = match directory {
        Some(path) => Directory::at(path),
        None => Directory::usual().map_err(|reason| refused(&reason))?,
    };
    let setup = Setup { directory, executable: guardian::this_program().to_path_buf(), policy, knobs };
    let fair_server = host.fair_server();
    Ok(Terms { setup, promised: 100 - reserve, throttling: host.realtime.throttling, fair_server })
}
