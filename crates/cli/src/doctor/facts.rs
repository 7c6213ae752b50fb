//! The properties of a machine as text for a terminal.

use daemon::host_profile::HostProfile;
use report::percent;
use sys::kernel::{Configured, SchedExt};
use sys::privileges::Capability;
use sys::realtime::Bandwidth;

/// Returns each property with its label.
pub(super) fn facts(host: &HostProfile) -> Vec<(&'static str, String)> {
    vec![
        ("kernel", kernel(host)),
        ("clock", clock(host)),
        ("privileges", privileges(host)),
        ("CPUs", cpus(host)),
        (
            "cpuset",
            match &host.cpus.cpuset {
                Some(cpuset) => format!("CPUs {} ({})", cpuset.cpus, cpuset.group),
                None => "there are no cpusets".to_string(),
            },
        ),
        ("real-time threads", throttling(host)),
        ("fair server", fair_server(host)),
        ("RT_GROUP_SCHED", groups(host)),
        (
            "SCHED_DEADLINE",
            match &host.realtime.deadline_periods {
                Ok((shortest, longest)) => format!("periods from {shortest} to {longest}"),
                Err(reason) => reason.to_string(),
            },
        ),
        (
            "sched_ext",
            match &host.kernel.sched_ext {
                SchedExt::Absent => "not in this kernel".to_string(),
                SchedExt::Vacant => "no scheduler is loaded".to_string(),
                SchedExt::Loaded(name) => format!("{name} is loaded"),
            },
        ),
        (
            "steal",
            match host.steal_ppm() {
                Some(ppm) => format!("{} of the time since it began", percent(ppm)),
                None => "not counted by this kernel".to_string(),
            },
        ),
    ]
}

fn kernel(host: &HostProfile) -> String {
    let kernel = &host.kernel;
    let mut words = format!("{} ({})", kernel.release, kernel.version);
    if kernel.is_realtime {
        words += ", real-time";
    }
    words += &match kernel.tick_rate {
        Some(rate) => format!(", {rate} ticks a second"),
        None => ", ticks unknown".to_string(),
    };
    if let Some(kind) = &kernel.lockdown {
        words += &format!(", locked down ({kind})");
    }
    words
}

fn clock(host: &HostProfile) -> String {
    match &host.kernel.clock {
        Ok(clock) => format!("{}; available: {}", clock.current, clock.available.join(", ")),
        Err(reason) => reason.to_string(),
    }
}

fn privileges(host: &HostProfile) -> String {
    let own = &host.privileges;
    let user = if own.user == 0 { "root".to_string() } else { format!("user {}", own.user) };
    let (held, missing): (Vec<_>, Vec<_>) = Capability::ALL.into_iter().partition(|&capability| own.has(capability));
    let names = |list: &[Capability]| match list {
        [] => "none of the capabilities for promises".to_string(),
        list => list.iter().map(|capability| capability.name()).collect::<Vec<_>>().join(", "),
    };
    let mut words = format!("{user}, with {}", names(&held));
    if !missing.is_empty() && !held.is_empty() {
        words += &format!("; without {}", names(&missing));
    }
    let limit = |limit: Option<u64>| limit.map_or("unlimited".to_string(), |limit| limit.to_string());
    words + &format!("; RLIMIT_RTPRIO {}, RLIMIT_MEMLOCK {}", limit(own.priority_limit), limit(own.memory_limit))
}

fn cpus(host: &HostProfile) -> String {
    let cpus = &host.cpus;
    let mut words = format!("{} online ({})", cpus.online.len(), cpus.online);
    if cpus.allowed != cpus.online {
        words += &format!(", this process may use {}", cpus.allowed);
    }
    if !cpus.isolated.is_empty() {
        words += &format!(", isolated {}", cpus.isolated);
    }
    if !cpus.siblings.is_empty() {
        words += &format!(", sharing cores {}", cpus.siblings);
    }
    words
}

fn bandwidth(bandwidth: &Bandwidth) -> String {
    match bandwidth.runtime {
        None => "all".to_string(),
        Some(runtime) => format!("{runtime} in every {}", bandwidth.period),
    }
}

fn throttling(host: &HostProfile) -> String {
    format!("get {} on each CPU, before they are throttled", bandwidth(&host.realtime.throttling))
}

fn fair_server(host: &HostProfile) -> String {
    match &host.realtime.fair_servers {
        Err(reason) => match host.fair_server() {
            Some(usual) => format!("{reason}; taken to be as usual, {}", bandwidth(&usual)),
            None => "not in this kernel".to_string(),
        },
        Ok(servers) => {
            let words: Vec<String> =
                servers.iter().map(|server| format!("CPU {}: {}", server.cpu, bandwidth(&server.bandwidth))).collect();
            match servers.first() {
                Some(first) if servers.iter().all(|server| server.bandwidth == first.bandwidth) => {
                    format!("{} for ordinary threads on each CPU", bandwidth(&first.bandwidth))
                }
                _ => words.join(", "),
            }
        }
    }
}

fn groups(host: &HostProfile) -> String {
    match (&host.realtime.group, &host.realtime.grouped) {
        (Some(group), _) => format!("on; {} has {}", group.group, bandwidth(&group.bandwidth)),
        (None, Configured::With) => {
            "on; no cgroup v1 hierarchy with cpu is mounted to show what our group has".to_string()
        }
        (None, Configured::Without) => "off".to_string(),
        (None, _) => "not visible in our group".to_string(),
    }
}
