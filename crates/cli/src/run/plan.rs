//! The plan of a live run: its processes and their promises.

use super::refusal::RefusedRun;
use crate::args::Run;
use crate::failure::{Failure, refused};
use crate::output;
use crate::raising::Raising;
use daemon::Explanation;
use daemon::directory::Directory;
use daemon::dispatch::{Alternatives, Others, PromiseRequest, Refusal};
use daemon::guardian::this_program;
use daemon::kernel::CpuShare;
use daemon::processes::{Periodic, Work};
use input::problem::{Problems, Wrong};
use input::source::{Source as Text, Span};
use report::{EntityDescription, GroupDescription, RunDescription};
use scenario::{EntitySpec, Real, Scenario, Workload};
use sched::{CpuSet, GroupParams, Instant, Limit, Nanos, Params, Reservation, Weight};
use std::ops::Range;
use std::path::Path;

/// The assumed duration of a run without an end, for the window of a picture.
const OPEN_END: Nanos = Nanos::s(1);

/// A process of the run.
#[derive(Clone, Debug)]
pub(crate) struct PlannedProcess {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// Promise to the process; `None`: only the kernel schedules the process.
    pub(crate) request: Option<PromiseRequest>,
    /// Mechanism of the promise; `None`: the usual mechanism of the run.
    pub(crate) mechanism: Option<Raising>,
    /// Share of the CPUs, in place of a promise.
    pub(crate) share: Option<CpuShare>,
    pub(crate) arrival: Instant,
    pub(crate) leaves: Option<Instant>,
    /// New reservations with their instants, in order of time.
    pub(crate) changes: Vec<(Instant, Reservation)>,
    /// Entities of the process in the description of the run.
    pub(crate) entities: Range<usize>,
    /// Position of the request in its file; the default value if the request is not from a file.
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
    /// Description of the run for its report.
    pub(crate) description: RunDescription,
    pub(crate) processes: Vec<PlannedProcess>,
    /// Duration of the run; `None`: until all processes have ended.
    pub(crate) length: Option<Nanos>,
    /// Whether standard output is reserved for JSON.
    pub(crate) json: bool,
    /// Whether all events are stored for a trace.
    pub(crate) is_traced: bool,
    /// Whether the report has the measures of XenMon.
    pub(crate) is_monitored: bool,
    /// Whether every sleep of a client is recorded.
    pub(crate) records_sleeps: bool,
    /// Whether the output of commands is captured, and the CPU time of workers is recorded by witnesses.
    pub(crate) is_observed: bool,
    /// Scenario file of the plan; empty without a scenario.
    source: Text,
}

impl Plan {
    /// Returns the failure that reports `refusal` of the promise to process number `index`, with the position of the
    /// request if it is from a file.
    pub(crate) fn refused(&self, index: usize, refusal: &Refusal) -> Failure {
        let planned = &self.processes[index];
        let (wrong, ways) = match refusal {
            Refusal::Promise(why) => (Some(Wrong::from(why)), None),
            Refusal::NoRoom(room) => {
                // A task of a scenario runs on one CPU.
                let is_from_file = planned.place != Span::default();
                let ways = room.alternatives();
                let ways = Alternatives { cpus: ways.cpus.filter(|_| !is_from_file), ..ways };
                let Explanation { reason, remedy } = room.explain(&ways);
                (Some(Wrong::new(reason, "does not fit", remedy)), Some((&**room, ways)))
            }
            _ => (None, None),
        };
        if self.json {
            let why = ways.as_ref().map_or_else(|| refusal.reason(), |(room, ways)| room.explain(ways));
            let shown = RefusedRun::new(&planned.name, &why, ways.as_ref().map(|(room, ways)| (*room, ways)));
            // The failure is reported on standard error, too.
            let _ = output::json(&shown).and_then(|text| output::print(&text));
        }
        match wrong {
            Some(wrong) => self.cannot_promise(planned, wrong),
            None => refused(&refusal.reason()),
        }
    }

    /// Checks the plan. Returns an error if one of its promises would be refused on every host.
    fn checked(self) -> Result<Plan, Failure> {
        for (index, planned) in self.processes.iter().enumerate() {
            if let Some(Err(refusal)) = planned.request.as_ref().map(PromiseRequest::check) {
                return Err(self.refused(index, &refusal));
            }
        }
        Ok(self)
    }

    /// Replaces the program `name` of commands by the program that runs.
    pub(crate) fn run_as_this_program(&mut self, name: &str) {
        for planned in &mut self.processes {
            if let Source::Command(argv) = &mut planned.source
                && argv[0] == name
            {
                argv[0] = this_program().to_string_lossy().into_owned();
            }
        }
    }

    /// Removes all promises: only the kernel schedules the processes.
    pub(crate) fn without_promises(&mut self) {
        self.processes.iter_mut().for_each(|planned| planned.request = None);
    }

    /// Replaces each promise by a cap of the same share of a CPU, rounded to whole percent.
    pub(crate) fn promises_as_caps(&mut self) {
        for planned in &mut self.processes {
            let Some(PromiseRequest { reservation: Reservation { slice, period, .. }, .. }) = planned.request.take()
            else {
                continue;
            };
            let percent = (slice.as_ns() * 100 + period.as_ns() / 2) / period.as_ns();
            let cap_percent = Some(u32::try_from(percent).expect("a slice is at most its period").max(1));
            planned.share = Some(CpuShare { weight: None, cap_percent });
        }
    }

    /// Returns the changes of all promises, the next one last: instant, index of the process, and new reservation.
    pub(crate) fn changes(&self) -> Vec<(Instant, usize, Reservation)> {
        let of_process = |(index, planned): (usize, &PlannedProcess)| {
            planned.changes.iter().map(move |&(at, to)| (at, index, to)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.processes.iter().enumerate().flat_map(of_process).collect();
        all.sort_by_key(|&(at, index, _)| std::cmp::Reverse((at, index)));
        all
    }

    fn cannot_promise(&self, planned: &PlannedProcess, wrong: Wrong) -> Failure {
        let name = &self.description.entities[planned.entities.start].name;
        let place = (planned.place != Span::default()).then_some(planned.place);
        Problems::from(wrong.said_of(name).anywhere(place).within(&self.source)).into()
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
            let (is_traced, is_monitored) = (args.output.trace.is_some(), args.xenmon);
            Ok(Plan { is_traced, is_monitored, records_sleeps: records_sleeps(args), ..plan })
        }
        None => from_arguments(args, length),
    }
}

/// Returns whether an output of the run needs every sleep of the clients. The picture in text of the first periods does not:
/// see [`PromiseRequest::records_sleeps`].
fn records_sleeps(args: &Run) -> bool {
    let output = &args.output;
    let pictures =
        [output.trace.is_some(), output.svg.is_some(), output.gantt_from.is_some(), output.gantt_to.is_some()];
    args.xenmon || pictures.contains(&true)
}

/// Returns the processes of the command line, with their names.
fn sources(args: &Run) -> Vec<(String, Source)> {
    let mut sources: Vec<(String, Source)> =
        args.pid.iter().map(|&pid| (format!("pid {pid}"), Source::Pid(pid))).collect();
    if let Some(program) = args.command.first() {
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        sources.push((name, Source::Command(args.command.clone())));
    }
    sources
}

/// Returns the promise that the command line requests for each of its `count` processes; the name is empty.
fn promise(args: &Run, count: usize) -> Result<PromiseRequest, Failure> {
    let time =
        |text: &Option<String>| input::duration::length(text.as_deref().expect("there is one without a scenario"));
    let limit = if args.hard { Limit::Hard } else { Limit::Soft };
    let reservation = Reservation { limit, ..Reservation::new(time(&args.slice)?, time(&args.period)?) };
    Ok(PromiseRequest {
        cpus: usize::from(args.cpus),
        gang: args.gang,
        // All processes of the run are one gang.
        others: if count > 1 { Others::Later } else { Others::None },
        affinity: args.affinity.unwrap_or(CpuSet::ALL),
        ..PromiseRequest::new("", reservation)
    })
}

fn from_arguments(args: &Run, length: Option<Nanos>) -> Result<Plan, Failure> {
    let share = CpuShare { weight: args.weight, cap_percent: args.cap };
    let share = Some(share).filter(|share| *share != CpuShare::default());
    let affinity = args.affinity.unwrap_or(CpuSet::ALL);
    let cpus = usize::from(args.cpus);
    let sources = sources(args);
    let promise = if share.is_some() { None } else { Some(promise(args, sources.len())?) };
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
        processes: Vec::new(),
        length,
        json: args.output.json,
        is_traced: args.output.trace.is_some(),
        is_monitored: args.xenmon,
        records_sleeps: records_sleeps(args),
        is_observed: false,
        source: Text::default(),
    };
    for (name, source) in sources {
        let first = plan.description.entities.len();
        let request = promise.clone().map(|promise| PromiseRequest { name: name.clone(), ..promise });
        let promised = request.as_ref().map(PromiseRequest::share);
        let group = args.gang.then_some(0);
        if args.gang && plan.description.groups.is_empty() {
            let params = GroupParams { gang: true, ..GroupParams::default() };
            plan.description.groups.push(GroupDescription { name: name.clone(), parent: None, params });
        }
        for nth in 0..cpus {
            let name = if cpus > 1 { format!("{name}/{nth}") } else { name.clone() };
            plan.description.entities.push(EntityDescription {
                name,
                group,
                host: 0,
                arrival: Instant::ZERO,
                params: Params { reservation: promised, affinity, ..Params::default() },
                job_period: None,
            });
        }
        plan.processes.push(PlannedProcess {
            name,
            source,
            request,
            mechanism: None,
            share,
            arrival: Instant::ZERO,
            leaves: None,
            changes: Vec::new(),
            entities: first..first + cpus,
            place: Span::default(),
        });
    }
    plan.checked()
}

/// Returns the topology of this host.
pub(crate) fn host() -> sched::Topology {
    let cpus = sys::affinity::get(sys::thread::current()).unwrap_or(CpuSet::first_n(1));
    sched::Topology::new(cpus.iter().last().map_or(1, |cpu| cpu.index() + 1))
}

/// Returns the plan of a scenario on this host's CPUs. The `cpus`, topology and costs in the scenario have no effect.
pub(crate) fn from_scenario(scenario: &Scenario, json: bool) -> Result<Plan, Failure> {
    let description = RunDescription { cpus: host().cpus, ..RunDescription::of(scenario) };
    let mut processes = Vec::with_capacity(scenario.entities.len());
    let mut first = 0;
    while let Some(entity) = scenario.entities.get(first) {
        let entities = first..first + vcpus(scenario, first);
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
        let is_in_gang = description.gang_of(first).is_some();
        // A request is for all CPUs of the process; the scenario has the slice of each vCPU.
        let of_all = |it: Reservation| Reservation { slice: it.slice.saturating_mul(entities.len() as u64), ..it };
        let start = |nth: usize| scenario.entities[nth].params.reservation.and_then(|it| it.start);
        let second = (entities.len() > 1).then(|| start(first + 1)).flatten();
        let request = entity.params.reservation.map(|reservation| PromiseRequest {
            cpus: entities.len(),
            gang: is_in_gang,
            others: if is_in_gang { Others::Later } else { Others::None },
            stagger: start(first).zip(second).map_or(Nanos::ZERO, |(first, second)| second.since(first)),
            affinity: entity.params.affinity,
            ..PromiseRequest::new(process_name(scenario, &entities), of_all(reservation))
        });
        processes.push(PlannedProcess {
            name: process_name(scenario, &entities),
            source,
            share: if request.is_some() { None } else { share(scenario, entity) },
            request,
            mechanism: entity.mechanism.map(Raising::from),
            arrival: entity.arrival,
            leaves: entity.leaves,
            changes: entity.changes.iter().map(|&(at, to)| (at, of_all(to))).collect(),
            place: entity.place,
            entities: entities.clone(),
        });
        first = entities.end;
    }
    let length = Some(scenario.length);
    Plan {
        description,
        processes,
        length,
        json,
        is_traced: false,
        is_monitored: false,
        records_sleeps: true,
        is_observed: false,
        source: scenario.source.clone(),
    }
    .checked()
}

/// Returns the number of vCPUs of the process whose first vCPU is entity number `first`. A worker has one.
fn vcpus(scenario: &Scenario, first: usize) -> usize {
    let entity = &scenario.entities[first];
    let Some(group) = entity.group.filter(|_| entity.real.is_some()) else { return 1 };
    // The vCPUs of VM `a` are named `a/0`, `a/1`, ….
    let is_vcpu = |it: &&EntitySpec| {
        it.group == Some(group)
            && it.name.strip_prefix(&scenario.groups[group].name).is_some_and(|rest| rest.starts_with('/'))
    };
    scenario.entities[first..].iter().take_while(is_vcpu).count().max(1)
}

/// Returns the name of the process with these vCPUs.
fn process_name(scenario: &Scenario, vcpus: &Range<usize>) -> String {
    let first = &scenario.entities[vcpus.start];
    match first.group.filter(|_| vcpus.len() > 1) {
        Some(group) => scenario.groups[group].name.clone(),
        None => first.name.clone(),
    }
}

/// Returns the share of the CPUs that an entity without a promise requests: its weight, and the cap of its VM.
fn share(scenario: &Scenario, entity: &EntitySpec) -> Option<CpuShare> {
    let Params { weight, .. } = entity.params;
    // In the scale of `cpu.weight`, the normal weight is 100.
    let scaled = || (weight.as_linux().saturating_mul(100) / Weight::NORMAL.as_linux()).clamp(1, 10_000);
    let weight = (weight != Weight::NORMAL).then(scaled);
    let cap_percent = entity.group.and_then(|group| scenario.groups[group].params.cap_percent);
    let share = CpuShare { weight, cap_percent };
    (share != CpuShare::default()).then_some(share)
}

/// Returns the directory of the table of originals: `path`, or the default.
pub(crate) fn directory(path: Option<&Path>) -> Result<Directory, Failure> {
    match path {
        Some(path) => Ok(Directory::at(path)),
        None => Directory::usual().map_err(|reason| refused(&reason)),
    }
}
