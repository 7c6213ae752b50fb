//! `workload`, as typed: what a member does with its time.

use super::SCENARIO_ENTITIES_MAX;
use super::file::Kind;
use super::settings::{ROUNDS_MAX, Settings};
use super::table::{Given, Table};
use super::{desktop, disks, form, length, programs, services};
use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::Placed;
use sched::Nanos;
use sim::program::Length;
use sim::{JobEnd, Periodic, Workload};
use toml::de::DeValue;
use workloads::{Cyclictest, ForkJoin, Hackbench, Named, Phase, Startup};

/// The keys of `periodic`.
pub(crate) const PERIODIC_KEYS: &[&str] = &["period", "work", "phase", "deadline", "end"];
/// The keys of `cyclictest`.
pub(crate) const CYCLICTEST_KEYS: &[&str] = &["interval", "threads", "distance", "loops", "overhead", "work"];
/// The keys of `hackbench`.
pub(crate) const HACKBENCH_KEYS: &[&str] = &["groups", "fds", "loops", "datasize", "channel", "work"];
/// The keys of `startup`.
pub(crate) const STARTUP_KEYS: &[&str] = &["launches", "work", "waits", "wait", "pause"];
/// The keys of `fork_join`.
pub(crate) const FORK_JOIN_KEYS: &[&str] = &["threads", "rounds", "work", "serial", "waits", "locks", "hold"];
/// The workloads.
pub(crate) const WORKLOADS: &[&str] = &[
    "hog",
    "periodic",
    "cyclictest",
    "hackbench",
    "startup",
    "fork_join",
    "video",
    "audio",
    "game",
    "web",
    "bsp",
    "parsec",
    "micro_batch",
    "build",
    "stream",
    "load_playback",
    "web_server",
    "iperf",
    "dd",
    "postmark",
    "filebench",
    "cd_reader",
    "voip",
    "search",
    "rt-app",
];
/// The most steps of all tasks of a workload.
const STEPS_MAX: u64 = 1 << 22;
const RIGHT: &str = "\"hog\" or { periodic = { period = \"10ms\", work = \"2ms\" } }";

/// What a member does.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Work {
    /// One entity does it by itself.
    Entity(Workload),
    /// The tasks of an application do it.
    Named(Named),
    /// A file of rt-app says what is done.
    RtApp(String),
}

/// `"hog"`, or a table with one workload's name.
pub(super) fn read(member: &Table<'_, '_>, kind: Kind, findings: &mut Findings) -> Given<Work> {
    let Some((value, at)) = member.get("workload") else {
        let help = format!("use workload = {RIGHT}");
        let problem = Problem::new(format!("{} has no workload", kind.noun())).at(member.at, "what does it do?");
        findings.add(problem.help(help));
        return Given::Absent;
    };
    let typed = match value {
        DeValue::String(name) => Some((Placed { value: name.as_ref(), at }, None)),
        DeValue::Table(table) => form::single(table).map(|(name, inner)| (name, Some(inner))),
        _ => None,
    };
    let Some((name, inner)) = typed else {
        let wrong = match value.is_table() {
            true => Wrong::new("this is not one workload", "not one workload", format!("use {RIGHT}")),
            false => form::mistyped("workload", value, RIGHT),
        };
        findings.add(wrong.at(at));
        return Given::Wrong(at);
    };
    let work = match (name.value, inner) {
        ("hog", None) => Some(Work::Entity(Workload::Hog)),
        ("rt-app", Some(file)) => match form::reference("rt-app", file.value) {
            Ok(path) => Some(Work::RtApp(path)),
            Err(wrong) => {
                findings.add(wrong.at(file.at));
                None
            }
        },
        (known, Some(Placed { value: DeValue::Table(settings), at }))
            if known != "hog" && WORKLOADS.contains(&known) =>
        {
            let keys = keys(known);
            let what = format!("the workload `{known}`");
            let table = Table::new(settings, at, (&what, keys), findings);
            named(known, &table, findings)
        }
        (known, _) if WORKLOADS.contains(&known) => {
            let message = format!("this is not how the workload `{known}` is written");
            findings.add(Wrong::new(message, "not so", format!("use {}", example(known))).at(at));
            None
        }
        (unknown, _) => {
            let message = format!("there is no workload {}", quoted(unknown));
            findings.add(Wrong::new(message, "unknown workload", right_instead(unknown, WORKLOADS)).at(name.at));
            None
        }
    };
    if let (Kind::Vm, Some(Work::Named(_) | Work::RtApp(_))) = (kind, &work) {
        let problem = Problem::new("a vCPU cannot do this by itself").at(at, "done by tasks");
        findings.add(problem.help("use the same workload for a [[vm.task]]: a task of the VM's guest"));
        return Given::Wrong(at);
    }
    work.map_or(Given::Wrong(at), |value| Given::Right(Placed { value, at }))
}

fn keys(workload: &str) -> &'static [&'static str] {
    match workload {
        "periodic" => PERIODIC_KEYS,
        "cyclictest" => CYCLICTEST_KEYS,
        "hackbench" => HACKBENCH_KEYS,
        "startup" => STARTUP_KEYS,
        "fork_join" => FORK_JOIN_KEYS,
        "video" => desktop::VIDEO_KEYS,
        "audio" => desktop::AUDIO_KEYS,
        "game" => desktop::GAME_KEYS,
        "web" => desktop::WEB_KEYS,
        "bsp" => programs::BSP_KEYS,
        "parsec" => programs::PARSEC_KEYS,
        "micro_batch" => programs::MICRO_BATCH_KEYS,
        "build" => programs::BUILD_KEYS,
        "stream" => programs::STREAM_KEYS,
        "load_playback" => programs::LOAD_PLAYBACK_KEYS,
        "web_server" => services::WEB_SERVER_KEYS,
        "iperf" => services::IPERF_KEYS,
        "dd" => services::DD_KEYS,
        "postmark" => disks::POSTMARK_KEYS,
        "filebench" => disks::FILEBENCH_KEYS,
        "cd_reader" => services::CD_READER_KEYS,
        "voip" => services::VOIP_KEYS,
        "search" => services::SEARCH_KEYS,
        other => unreachable!("{other} has no settings"),
    }
}

pub(super) fn example(workload: &str) -> &'static str {
    match workload {
        "cyclictest" => "{ cyclictest = { interval = \"1ms\" } }",
        "hackbench" => "{ hackbench = { groups = 2 } }",
        "startup" => "{ startup = { work = \"200ms\" } }",
        "fork_join" => "{ fork_join = { threads = 4, work = \"1ms\" } }",
        "video" => "{ video = { decode = \"10ms\" } }",
        "audio" => "{ audio = { work = \"1ms\" } }",
        "game" => "{ game = { fps = 30 } }",
        "web" => "{ web = { work = \"20ms\" } }",
        "bsp" => "{ bsp = { nodes = 4, compute = \"10ms\", communicate = \"20ms\" } }",
        "parsec" => "{ parsec = { program = \"streamcluster\" } }",
        "micro_batch" => "{ micro_batch = { interval = \"1s\", work = \"100ms\" } }",
        "build" => "{ build = { jobs = 4 } }",
        "stream" => "{ stream = { threads = 1 } }",
        "load_playback" => "{ load_playback = { loads = [0.5, 1.5] } }",
        "web_server" => "{ web_server = { clients = 60 } }",
        "iperf" => "{ iperf = { streams = 1 } }",
        "dd" => "{ dd = { count = 1000 } }",
        "postmark" => "{ postmark = { transactions = 5000 } }",
        "filebench" => "{ filebench = { mix = \"varmail\" } }",
        "cd_reader" => "{ cd_reader = { buffer = 10 } }",
        "voip" => "{ voip = { calls = 50 } }",
        "search" => "{ search = { leaves = [\"vm2\", \"vm3\"] } }",
        "rt-app" => "{ rt-app = \"file.json\" }",
        _ => RIGHT,
    }
}

/// The workload `name` with the settings of `table`; `None` when something in it is wrong or missing.
fn named(name: &str, table: &Table<'_, '_>, findings: &mut Findings) -> Option<Work> {
    let named = match name {
        "periodic" => return periodic(table, findings),
        "cyclictest" => Named::Cyclictest(cyclictest(table, findings)?),
        "hackbench" => Named::Hackbench(hackbench(table, findings)?),
        "startup" => Named::Startup(startup(table, findings)?),
        "fork_join" => Named::ForkJoin(fork_join(table, findings)?),
        "video" => Named::Video(desktop::video(table, findings)?),
        "audio" => Named::Audio(desktop::audio(table, findings)?),
        "game" => Named::Game(desktop::game(table, findings)?),
        "web" => Named::Web(desktop::web(table, findings)?),
        "bsp" => Named::Bsp(programs::bsp(table, findings)?),
        "parsec" => Named::Parsec(programs::parsec(table, findings)?),
        "micro_batch" => Named::MicroBatch(programs::micro_batch(table, findings)?),
        "build" => Named::Build(programs::build(table, findings)?),
        "stream" => Named::Stream(programs::stream(table, findings)?),
        "web_server" => Named::WebServer(services::web_server(table, findings)?),
        "iperf" => Named::Iperf(services::iperf(table, findings)?),
        "dd" => Named::Dd(services::dd(table, findings)?),
        "postmark" => Named::Postmark(disks::postmark(table, findings)?),
        "filebench" => Named::Filebench(disks::filebench(table, findings)?),
        "cd_reader" => Named::CdReader(services::cd_reader(table, findings)?),
        "voip" => Named::Voip(services::voip(table, findings)?),
        "search" => Named::Search(services::search(table, findings)?),
        _ => Named::LoadPlayback(programs::load_playback(table, findings)?),
    };
    if named.steps() > STEPS_MAX {
        let problem = Problem::new("this workload has too many steps").at(table.at, "too many");
        findings.add(
            problem.help(format!("use fewer tasks, locks, waits, stages or loads: at most {STEPS_MAX} steps in all")),
        );
        return None;
    }
    Some(Work::Named(named))
}

fn cyclictest(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Cyclictest> {
    let mut settings = Settings::new(table, findings);
    let default = Cyclictest::default();
    let test = Cyclictest {
        interval: settings
            .read("interval", |value| form::time_above_zero("interval", value))
            .unwrap_or(default.interval),
        threads: settings.few("threads", 1, SCENARIO_ENTITIES_MAX as u32, default.threads),
        distance: settings.read("distance", |value| form::time("distance", value)).unwrap_or(default.distance),
        loops: settings.read("loops", |value| form::count("loops", value, 1..=ROUNDS_MAX)),
        overhead: settings.length("overhead", default.overhead),
        work: settings.length("work", default.work),
    };
    settings.right.then_some(test)
}

fn hackbench(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Hackbench> {
    let mut settings = Settings::new(table, findings);
    let default = Hackbench::default();
    let bench = Hackbench {
        groups: settings.few("groups", 1, SCENARIO_ENTITIES_MAX as u32, default.groups),
        fds: settings.few("fds", 1, Hackbench::FDS_MAX, default.fds),
        loops: settings.count("loops", ROUNDS_MAX, default.loops),
        datasize: settings.count("datasize", Hackbench::DATASIZE_MAX, default.datasize),
        channel: settings.read("channel", form::channel).unwrap_or(default.channel),
        work: settings.above_zero("work", default.work),
    };
    settings.right.then_some(bench)
}

fn startup(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Startup> {
    let mut settings = Settings::new(table, findings);
    let default = Startup::new(settings.required("work", "startup"));
    let launches = settings.read("launches", |value| form::count("launches", value, 1..=ROUNDS_MAX));
    let startup = Startup {
        launches: launches.or(default.launches),
        waits: settings.few("waits", 0, Startup::WAITS_MAX, default.waits),
        wait: settings.length("wait", default.wait),
        pause: settings.length("pause", default.pause),
        ..default
    };
    settings.right.then_some(startup)
}

fn fork_join(table: &Table<'_, '_>, findings: &mut Findings) -> Option<ForkJoin> {
    let mut settings = Settings::new(table, findings);
    let default = ForkJoin::new(settings.required("work", "fork_join"));
    let team = ForkJoin {
        threads: settings.few("threads", 1, SCENARIO_ENTITIES_MAX as u32, default.threads),
        rounds: settings.read("rounds", |value| form::count("rounds", value, 1..=ROUNDS_MAX)),
        serial: settings.length("serial", default.serial),
        waits: settings.read("waits", form::waits).unwrap_or(default.waits),
        locks: settings.few("locks", 0, ForkJoin::LOCKS_MAX, default.locks),
        hold: settings.length("hold", default.hold),
        ..default
    };
    settings.right.then_some(team)
}

/// `{ period, work, … }`; `None` when something in it is wrong or missing.
fn periodic(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Work> {
    let period = table.read("period", |value| form::time_above_zero("period", value), findings);
    let work = table.read("work", |value| length::length_above_zero("work", value), findings);
    let phase = table.read("phase", form::phase, findings);
    let deadline = table.read("deadline", |value| form::time_above_zero("deadline", value), findings);
    let end = table.read("end", form::job_end, findings);
    for (key, is_absent) in [("period", period.is_absent()), ("work", work.is_absent())] {
        if is_absent {
            let problem = Problem::new(format!("the periodic workload has no {key}")).at(table.at, format!("no {key}"));
            findings.add(problem.help("use { period = \"10ms\", work = \"2ms\" }"));
        }
    }
    let (period, work) = (period.right()?, work.right()?);
    let deadline = deadline.right();
    let bounds = [("period", Some(period)), ("deadline", deadline)];
    let fits = bounds.into_iter().filter(|&(what, bound)| !fits(work, what, bound, findings)).count() == 0;
    let phase = phase.value().unwrap_or(Phase::Fixed(Nanos::ZERO));
    if let (Length::Fixed(length), Phase::Fixed(phase)) = (work.value, phase) {
        let jobs = Periodic::new(period.value, length);
        let jobs = Periodic {
            phase,
            deadline: deadline.map_or(jobs.deadline, |deadline| deadline.value),
            end: end.value().unwrap_or(jobs.end),
            ..jobs
        };
        return fits.then_some(Work::Entity(Workload::Periodic(jobs)));
    }
    if let Some(end) = end.right().filter(|end| end.value == JobEnd::Yield) {
        let problem =
            Problem::new("jobs with random work or phase do not yield at their end").at(end.at, "not with chance");
        findings.add(problem.help("use end = \"silent\", or fixed work and phase"));
        return None;
    }
    let deadline = deadline.map_or(period.value, |deadline| deadline.value);
    let jobs = workloads::Periodic { period: period.value, work: work.value, phase, deadline };
    fits.then_some(Work::Named(Named::Periodic(jobs)))
}

/// Whether work that is always the same, or never shorter, fits into `bound`.
fn fits(work: Placed<Length>, what: &str, bound: Option<Placed<Nanos>>, findings: &mut Findings) -> bool {
    let least = workloads::least(work.value);
    let Some(bound) = bound.filter(|bound| least > bound.value) else { return true };
    let message = format!("the work ({least}) is longer than the {what} ({})", bound.value);
    let problem =
        Problem::new(message).at(work.at, format!("longer than the {what}")).at(bound.at, format!("the {what}"));
    findings.add(problem.help(format!("use at most {}: a job runs on one CPU at a time", bound.value)));
    false
}
