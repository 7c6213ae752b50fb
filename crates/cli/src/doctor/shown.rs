//! The examination as JSON. Keys end in their unit. An unknown value is null. A failed mechanism or measurement has a
//! reason.

use super::examination::{Examination, INTERVAL};
use super::measured::{MeasuredMechanisms, PERIOD, SLICE};
use daemon::Explanation;
use daemon::doctor::Finding;
use daemon::host_profile::{HostProfile, Warning};
use daemon::lateness::{Class, Lateness};
use sched::{CpuSet, Nanos};
use serde::Serialize;
use sys::kernel::SchedExt;
use sys::realtime::Bandwidth;

/// The whole examination.
#[derive(Serialize)]
pub(super) struct Shown {
    promises_can_be_kept: bool,
    kernel: Kernel,
    privileges: Privileges,
    cpus: Cpus,
    real_time: RealTime,
    steal_ppm: Option<u64>,
    mechanisms: Vec<Mechanism>,
    lateness: Vec<Late>,
    steal_meanwhile_ppm: Option<u64>,
    warnings: Vec<Warned>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measurements: Option<Measurements>,
}

/// The measured mechanisms.
#[derive(Serialize)]
struct Measurements {
    length_ns: u64,
    slice_ns: u64,
    period_ns: u64,
    mechanisms: Vec<Measurement>,
    auto: Option<Choice>,
    best: Option<&'static str>,
}

#[derive(Serialize)]
struct Measurement {
    name: &'static str,
    delivered_ppm: Option<u64>,
    error_ppm: Option<i64>,
    periods_judged: Option<u64>,
    periods_missed: Option<u64>,
    #[serde(flatten)]
    why: Why,
}

#[derive(Serialize)]
struct Choice {
    name: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct Kernel {
    release: String,
    version: String,
    preempt_rt: bool,
    ticks_per_second: Option<u32>,
    clock_source: Option<String>,
    clock_sources: Vec<String>,
    lockdown: Option<String>,
    autogroups: bool,
    sched_ext: &'static str,
    sched_ext_scheduler: Option<String>,
}

#[derive(Serialize)]
struct Privileges {
    user: u32,
    capabilities: Vec<&'static str>,
    rlimit_rtprio: Option<u64>,
    rlimit_memlock: Option<u64>,
}

#[derive(Serialize)]
struct Cpus {
    online: String,
    allowed: String,
    isolated: String,
    sharing_cores: String,
    cpuset: Option<Cpuset>,
}

#[derive(Serialize)]
struct Cpuset {
    group: String,
    cpus: String,
}

/// A bandwidth as JSON. A runtime of null means no limit.
#[derive(Serialize)]
struct Share {
    runtime_ns: Option<u64>,
    period_ns: u64,
}

#[derive(Serialize)]
struct RealTime {
    throttling: Share,
    fair_servers: Option<Vec<FairServer>>,
    #[serde(flatten)]
    fair_servers_unknown: Why,
    group: Option<GroupShare>,
    deadline_period_min_ns: Option<u64>,
    deadline_period_max_ns: Option<u64>,
}

#[derive(Serialize)]
struct FairServer {
    cpu: usize,
    #[serde(flatten)]
    share: Share,
}

#[derive(Serialize)]
struct GroupShare {
    group: String,
    #[serde(flatten)]
    share: Share,
}

/// The reason, and the remedy.
#[derive(Serialize, Default)]
struct Why {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Serialize)]
struct Mechanism {
    name: &'static str,
    works: bool,
    promisable_ppm: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<String>,
    #[serde(flatten)]
    why: Why,
}

#[derive(Serialize)]
struct Late {
    class: &'static str,
    interval_ns: u64,
    wakeups: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    slack_ns: Option<u64>,
    #[serde(flatten)]
    why: Why,
}

#[derive(Serialize)]
struct Warned {
    about: &'static str,
    #[serde(flatten)]
    why: Why,
}

impl From<&Explanation> for Why {
    fn from(reason: &Explanation) -> Why {
        let remedy = (!reason.remedy.is_empty()).then(|| reason.remedy.to_string());
        Why { reason: Some(reason.reason.to_string()), remedy }
    }
}

impl From<Bandwidth> for Share {
    fn from(bandwidth: Bandwidth) -> Share {
        Share { runtime_ns: bandwidth.runtime.map(Nanos::as_ns), period_ns: bandwidth.period.as_ns() }
    }
}

pub(super) fn shown(examination: &Examination) -> Shown {
    let host = &examination.host;
    Shown {
        promises_can_be_kept: examination.keeps_promises(),
        kernel: kernel(host),
        privileges: Privileges {
            user: host.privileges.user,
            capabilities: host.privileges.capabilities.iter().map(|capability| capability.name()).collect(),
            rlimit_rtprio: host.privileges.priority_limit,
            rlimit_memlock: host.privileges.memory_limit,
        },
        cpus: cpus(host),
        real_time: real_time(host),
        steal_ppm: host.steal_ppm(),
        mechanisms: examination.findings.iter().map(|finding| mechanism(examination, finding)).collect(),
        lateness: examination.measured.iter().map(|(class, outcome)| late(*class, outcome)).collect(),
        steal_meanwhile_ppm: examination.stolen_ppm,
        warnings: examination.warnings().iter().map(warned).collect(),
        measurements: examination.mechanisms.as_ref().map(measurements),
    }
}

fn measurements(measured: &MeasuredMechanisms) -> Measurements {
    let each = measured.measurement.each.iter().map(|(mechanism, outcome)| {
        let found = outcome.as_ref().ok();
        Measurement {
            name: mechanism.name(),
            delivered_ppm: found.map(|found| found.ppm),
            error_ppm: found.map(|found| found.error_ppm),
            periods_judged: found.map(|found| found.periods_judged),
            periods_missed: found.map(|found| found.periods_missed),
            why: outcome.as_ref().err().map(Why::from).unwrap_or_default(),
        }
    });
    Measurements {
        length_ns: measured.measurement.length.as_ns(),
        slice_ns: SLICE.as_ns(),
        period_ns: PERIOD.as_ns(),
        mechanisms: each.collect(),
        auto: measured.auto.as_ref().map(|(it, reason)| Choice { name: it.name(), reason: reason.clone() }),
        best: measured.measurement.best().map(|(mechanism, _)| mechanism.name()),
    }
}

fn kernel(host: &HostProfile) -> Kernel {
    let kernel = &host.kernel;
    let (sched_ext, scheduler) = match &kernel.sched_ext {
        SchedExt::Absent => ("absent", None),
        SchedExt::Vacant => ("vacant", None),
        SchedExt::Loaded(name) => ("loaded", Some(name.clone())),
    };
    Kernel {
        release: kernel.release.clone(),
        version: kernel.version.clone(),
        preempt_rt: kernel.is_realtime,
        ticks_per_second: kernel.tick_rate,
        clock_source: kernel.clock.as_ref().ok().map(|clock| clock.current.clone()),
        clock_sources: kernel.clock.as_ref().map(|clock| clock.available.clone()).unwrap_or_default(),
        lockdown: kernel.lockdown.clone(),
        autogroups: kernel.autogroups,
        sched_ext,
        sched_ext_scheduler: scheduler,
    }
}

fn cpus(host: &HostProfile) -> Cpus {
    let list = |set: &CpuSet| set.to_string();
    Cpus {
        online: list(&host.cpus.online),
        allowed: list(&host.cpus.allowed),
        isolated: list(&host.cpus.isolated),
        sharing_cores: list(&host.cpus.siblings),
        cpuset: host.cpus.cpuset.as_ref().map(|set| Cpuset { group: set.group.clone(), cpus: list(&set.cpus) }),
    }
}

fn real_time(host: &HostProfile) -> RealTime {
    let realtime = &host.realtime;
    let servers = realtime.fair_servers.as_ref();
    let fair_servers = servers.ok().map(|servers| {
        let one =
            |server: &sys::realtime::FairServer| FairServer { cpu: server.cpu.index(), share: server.bandwidth.into() };
        servers.iter().map(one).collect()
    });
    let periods = realtime.deadline_periods.as_ref().ok();
    RealTime {
        throttling: realtime.throttling.into(),
        fair_servers,
        fair_servers_unknown: servers.err().map(Why::from).unwrap_or_default(),
        group: realtime.group.as_ref().map(|own| GroupShare { group: own.group.clone(), share: own.bandwidth.into() }),
        deadline_period_min_ns: periods.map(|(shortest, _)| shortest.as_ns()),
        deadline_period_max_ns: periods.map(|(_, longest)| longest.as_ns()),
    }
}

fn mechanism(examination: &Examination, finding: &Finding) -> Mechanism {
    Mechanism {
        name: finding.mechanism.name(),
        works: finding.verdict.is_ok(),
        promisable_ppm: examination.promisable_by(finding),
        seen: finding.verdict.as_ref().ok().cloned(),
        why: finding.verdict.as_ref().err().map(Why::from).unwrap_or_default(),
    }
}

fn late(class: Class, outcome: &Result<Lateness, Explanation>) -> Late {
    let found = outcome.as_ref().ok();
    Late {
        class: class.name(),
        interval_ns: INTERVAL.as_ns(),
        wakeups: found.map(|late| late.wakeups),
        p50_ns: found.map(|late| late.p50.as_ns()),
        p99_ns: found.map(|late| late.p99.as_ns()),
        max_ns: found.map(|late| late.longest.as_ns()),
        slack_ns: found.map(|late| late.slack.as_ns()),
        why: outcome.as_ref().err().map(Why::from).unwrap_or_default(),
    }
}

fn warned(warning: &Warning) -> Warned {
    Warned { about: warning.about, why: Why::from(&warning.reason) }
}
