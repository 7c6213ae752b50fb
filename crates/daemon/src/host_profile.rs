//! What a host is like, as far as promises depend on it.

use crate::Reason;
use crate::doctor::Mechanism;
use sched::{CpuSet, Nanos};
use sys::cpus::{self, Cpuset, Times};
use sys::kernel::{self, ClockSource, Configuration, Configured, SchedExt};
use sys::privileges::{self, Capability};
use sys::realtime::{self, Bandwidth, FairServer, GroupRuntime};

/// Clocks that are read without leaving the process, so that asking for the time costs next to nothing.
const QUICK_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
/// Time taken away above which the host itself makes promises late. Unit: parts per million.
const STEAL_MOST: u64 = 10_000;
const MILLION: u64 = 1_000_000;
/// Since when there are fair servers. Source: kernel/sched/fair.c, Linux 6.12.
const FAIR_SERVERS_SINCE: (u32, u32) = (6, 12);
/// What they give unless they were told otherwise. Source: `fair_server_init`, there.
const FAIR_SERVER_USUAL: Bandwidth = Bandwidth { runtime: Some(Nanos::ms(50)), period: Nanos::s(1) };

/// What a host is like.
#[derive(Clone, Debug)]
pub struct HostProfile {
    /// Its kernel.
    pub kernel: Kernel,
    /// What we may do on it.
    pub privileges: Privileges,
    /// Its CPUs.
    pub cpus: Cpus,
    /// What real-time threads get on it.
    pub realtime: RealTime,
    /// Time of all its CPUs since it began.
    pub times: Times,
}

/// A host's kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Such as `6.18.2`.
    pub release: String,
    /// Such as `#1 SMP PREEMPT_DYNAMIC`.
    pub version: String,
    /// Whether threads are preempted nearly everywhere in it.
    pub is_realtime: bool,
    /// Its ticks in a second.
    pub tick_rate: Option<u32>,
    /// Where its time comes from.
    pub clock: Result<ClockSource, Reason>,
    /// Its schedulers written in BPF.
    pub sched_ext: SchedExt,
    /// How it is locked down against its own root.
    pub lockdown: Option<String>,
    /// Whether it weighs sessions, not threads, against each other.
    pub autogroups: bool,
}

impl Kernel {
    /// Whether it is of this release or a later one; one that says none is taken for a late one.
    #[must_use]
    pub fn is_at_least(&self, wanted: (u32, u32)) -> bool {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= wanted,
            _ => true,
        }
    }
}

/// What we may do on a host.
#[derive(Clone, Debug)]
pub struct Privileges {
    /// The user we are.
    pub user: u32,
    /// The privileges we have.
    pub capabilities: Vec<Capability>,
    /// The highest real-time priority without CAP_SYS_NICE. None: no limit.
    pub priority_limit: Option<u64>,
    /// How many bytes may be locked without CAP_IPC_LOCK. None: no limit.
    pub memory_limit: Option<u64>,
}

impl Privileges {
    /// Whether we have this one.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

/// A host's CPUs.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// Those that are online.
    pub online: CpuSet,
    /// Those that this process may use.
    pub allowed: CpuSet,
    /// Those that the kernel keeps out of balancing.
    pub isolated: CpuSet,
    /// Those that share a core with another.
    pub siblings: CpuSet,
    /// Our cpuset, where there are some.
    pub cpuset: Option<Cpuset>,
}

/// What real-time threads get on a host.
#[derive(Clone, Debug)]
pub struct RealTime {
    /// All of them together, on each CPU.
    pub throttling: Bandwidth,
    /// What is kept for ordinary threads all the same.
    pub fair_servers: Result<Vec<FairServer>, Reason>,
    /// Those in our control group; none where they are not grouped.
    pub group: Option<GroupRuntime>,
    /// Whether the kernel groups them (RT_GROUP_SCHED).
    pub grouped: Configured,
    /// The shortest and the longest period SCHED_DEADLINE takes.
    pub deadline_periods: Result<(Nanos, Nanos), Reason>,
}

/// Something about a host that breaks promises, or makes them hard to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// What it is about, in a word or two.
    pub about: &'static str,
    /// What it does, and what would help.
    pub reason: Reason,
}

/// Whether a kernel that was built and started so groups real-time threads.
fn grouped(configuration: &Configuration, parameter: Option<&str>) -> Configured {
    let off = configuration.option("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED") == Configured::With;
    match (configuration.option("CONFIG_RT_GROUP_SCHED"), parameter) {
        (Configured::With, Some("0" | "n" | "off")) => Configured::Without,
        (Configured::With, None) if off => Configured::Without,
        (other, _) => other,
    }
}

impl HostProfile {
    /// What this host is like.
    ///
    /// # Errors
    /// It does not tell what every Linux tells: there is no /proc or /sys.
    pub fn read() -> sys::Result<HostProfile> {
        let configuration = Configuration::read();
        let me = sys::thread::current();
        Ok(HostProfile {
            kernel: Kernel {
                release: kernel::release(),
                version: kernel::version(),
                is_realtime: kernel::is_realtime(),
                tick_rate: configuration.tick_rate(),
                clock: kernel::clock_source().map_err(Reason::from),
                sched_ext: kernel::sched_ext(),
                lockdown: kernel::lockdown(),
                autogroups: sys::autogroup::is_on(),
            },
            privileges: Privileges {
                user: privileges::user(),
                capabilities: privileges::held()?,
                priority_limit: privileges::priority_limit(),
                memory_limit: privileges::memory_limit(),
            },
            cpus: Cpus {
                online: cpus::online()?,
                allowed: sys::affinity::get(me)?,
                isolated: cpus::isolated().unwrap_or(CpuSet::EMPTY),
                siblings: cpus::siblings()?,
                cpuset: cpus::cpuset(me)?,
            },
            realtime: RealTime {
                throttling: realtime::throttling()?,
                fair_servers: realtime::fair_servers().map_err(Reason::from),
                group: realtime::of_group(me)?,
                grouped: grouped(&configuration, kernel::parameter("rt_group_sched").as_deref()),
                deadline_periods: realtime::deadline_periods().map_err(Reason::from),
            },
            times: cpus::times()?,
        })
    }

    /// What the fair server of a CPU keeps for ordinary threads: the most that one keeps, or what is usual where they
    /// cannot be read.
    #[must_use]
    pub fn fair_server(&self) -> Option<Bandwidth> {
        match &self.realtime.fair_servers {
            Ok(servers) => servers.iter().map(|server| server.bandwidth).max_by_key(Share::share_ppm),
            Err(_) => self.kernel.is_at_least(FAIR_SERVERS_SINCE).then_some(FAIR_SERVER_USUAL),
        }
    }

    /// How much of each CPU may be promised by `mechanism`, all promises together; none for those that keep no promises.
    /// Unit: parts per million of a CPU.
    #[must_use]
    pub fn promisable_ppm(&self, mechanism: Mechanism) -> Option<u64> {
        let realtime = &self.realtime;
        let throttled = realtime.throttling.share_ppm();
        let kept = self.fair_server().map_or(0, |server| server.share_ppm());
        match mechanism {
            Mechanism::Fifo => {
                let of_group = realtime.group.as_ref().map_or(MILLION, |group| group.bandwidth.share_ppm());
                Some(throttled.min(MILLION.saturating_sub(kept)).min(of_group))
            }
            // Its admission counts the fair servers among the promises, and no control group matters to it.
            Mechanism::Deadline => Some(throttled.saturating_sub(kept)),
            Mechanism::SchedExt => Some(MILLION),
            _ => None,
        }
    }

    /// The part of all CPU time since the machine began that a hypervisor took away; none where that is not counted.
    /// Unit: parts per million.
    #[must_use]
    pub fn steal_ppm(&self) -> Option<u64> {
        steal_ppm(&self.times)
    }

    /// What breaks promises here, or makes them hard to keep.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |about, why: String, remedy: &str| {
            warnings.push(Warning { about, reason: Reason::new(why, remedy) });
        };
        self.warn_of_realtime(&mut warn);
        self.warn_of_cpus(&mut warn);
        if let Ok(clock) = &self.kernel.clock
            && !QUICK_CLOCKS.contains(&clock.current.as_str())
        {
            let why = format!("the clock source is {}: asking for the time is a slow system call", clock.current);
            warn("clock", why, "a host whose TSC is stable; see dmesg for why the kernel does not trust it");
        }
        if let Some(steal) = self.steal_ppm().filter(|&steal| steal > STEAL_MOST) {
            let why = format!("a hypervisor took {}.{} % of this machine's time", steal / 10_000, steal / 1_000 % 10);
            warn("steal", why, "CPUs of its own for this machine, on the host below");
        }
        if self.kernel.autogroups {
            let why = "autogroups are on: nice values weigh a thread against its own session only";
            warn("autogroups", why.to_string(), "kernel.sched_autogroup_enabled = 0, or control groups");
        }
        warnings
    }

    fn warn_of_realtime(&self, warn: &mut impl FnMut(&'static str, String, &str)) {
        let realtime = &self.realtime;
        match realtime.throttling.runtime {
            None => warn(
                "throttling",
                "real-time throttling is off: a real-time thread that does not sleep takes its CPU for good"
                    .to_string(),
                "kernel.sched_rt_runtime_us = 950000",
            ),
            Some(runtime) if runtime.is_zero() => warn(
                "throttling",
                "real-time threads get no time at all".to_string(),
                "kernel.sched_rt_runtime_us = 950000",
            ),
            Some(_) => {}
        }
        match &realtime.group {
            Some(group) if group.bandwidth.runtime.is_some_and(Nanos::is_zero) => {
                let why =
                    format!("the control group {} has no real-time runtime: SCHED_FIFO is refused in it", group.group);
                warn("RT_GROUP_SCHED", why, "a number in its cpu.rt_runtime_us, or to be started in another group");
            }
            Some(_) => warn(
                "RT_GROUP_SCHED",
                "real-time threads are counted by control group: a new cpu group begins without runtime, and \
                 real-time threads cannot be moved into it"
                    .to_string(),
                "VMs in groups with cpu.rt_runtime_us, or the kernel parameter rt_group_sched=0",
            ),
            None if realtime.grouped == Configured::With => warn(
                "RT_GROUP_SCHED",
                "real-time threads are counted by control group, and no cgroup v1 hierarchy with cpu is mounted to give \
                 them runtime: they can only be in the root group"
                    .to_string(),
                "the kernel parameter rt_group_sched=0, or VMs in the root group of cpu",
            ),
            None => {}
        }
    }

    fn warn_of_cpus(&self, warn: &mut impl FnMut(&'static str, String, &str)) {
        let cpus = &self.cpus;
        let missing = cpus.online.minus(&cpus.allowed);
        if !missing.is_empty() {
            let why = format!("this process may not use CPUs {missing}, and SCHED_DEADLINE may be refused to it");
            warn("cpuset", why, "to be started without taskset, in the root cpuset or one with cpus of its own");
        }
        if !cpus.siblings.is_empty() {
            let why =
                format!("CPUs {} share cores: one slows the other down, which no promise accounts for", cpus.siblings);
            warn("threads of a core", why, "one vCPU to a core, or nosmt");
        }
    }
}

/// Where the time of all CPUs has gone since the machine began.
///
/// # Errors
/// It does not tell.
pub fn times() -> sys::Result<Times> {
    cpus::times()
}

/// The part of `times` that a hypervisor took away; none where that is not counted. Unit: parts per million.
#[must_use]
pub fn steal_ppm(times: &Times) -> Option<u64> {
    Some(share_ppm(times.steal?, times.total))
}

/// `part` of `whole`. Unit: parts per million.
pub(crate) fn share_ppm(part: Nanos, whole: Nanos) -> u64 {
    let ppm = u128::from(part.as_ns()) * u128::from(MILLION) / u128::from(whole.as_ns().max(1));
    u64::try_from(ppm).unwrap_or(u64::MAX)
}

/// Bandwidth as a part of a CPU.
trait Share {
    /// Unit: parts per million.
    fn share_ppm(&self) -> u64;
}

impl Share for Bandwidth {
    fn share_ppm(&self) -> u64 {
        self.runtime.map_or(MILLION, |runtime| share_ppm(runtime, self.period).min(MILLION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::CpuId;

    fn bandwidth(runtime_ms: u64) -> Bandwidth {
        Bandwidth { runtime: Some(Nanos::ms(runtime_ms)), period: Nanos::s(1) }
    }

    /// This host, with everything changed that tests look at.
    fn plain() -> HostProfile {
        let mut host = HostProfile::read().expect("there is /proc and /sys");
        host.realtime.throttling = bandwidth(950);
        host.realtime.fair_servers = Ok(vec![FairServer { cpu: CpuId::new(0), bandwidth: bandwidth(50) }]);
        host.realtime.group = None;
        host.realtime.grouped = Configured::Without;
        host.cpus.allowed = host.cpus.online;
        host.cpus.siblings = CpuSet::EMPTY;
        host.kernel.autogroups = false;
        host.kernel.clock = Ok(ClockSource { current: "tsc".into(), available: vec!["tsc".into()] });
        host.times = Times { total: Nanos::s(1_000), idle: Nanos::ZERO, steal: Some(Nanos::s(1)) };
        host
    }

    fn about(host: &HostProfile) -> Vec<&'static str> {
        host.warnings().iter().map(|warning| warning.about).collect()
    }

    #[test]
    fn no_more_is_promised_than_the_kernel_leaves() {
        let both =
            |host: &HostProfile| [Mechanism::Fifo, Mechanism::Deadline].map(|by| host.promisable_ppm(by).unwrap());
        let mut host = plain();
        assert_eq!(both(&host), [950_000, 900_000]);
        host.realtime.fair_servers = Ok(vec![FairServer { cpu: CpuId::new(0), bandwidth: bandwidth(100) }]);
        assert_eq!(both(&host), [900_000, 850_000]);
        host.realtime.group = Some(GroupRuntime { group: "/g".into(), bandwidth: bandwidth(0) });
        assert_eq!(both(&host), [0, 850_000]);
        host.realtime.group = None;
        host.realtime.throttling.runtime = None;
        assert_eq!(both(&host), [900_000, 900_000]);
        assert_eq!(host.promisable_ppm(Mechanism::Weight), None);
    }

    #[test]
    fn fair_servers_that_cannot_be_read_are_taken_to_be_as_usual() {
        let mut host = plain();
        host.realtime.fair_servers = Err(Reason::new("it is hidden", ""));
        for (release, kept) in
            [("6.18.2-rc1", true), ("6.12", true), ("7.0.0", true), ("6.11.9", false), ("5.15", false)]
        {
            host.kernel.release = release.to_string();
            assert_eq!(host.fair_server().is_some(), kept, "{release}");
        }
        assert_eq!(host.promisable_ppm(Mechanism::Deadline), Some(950_000));
    }

    #[test]
    fn a_plain_host_has_no_warnings_and_each_trap_has_its_own() {
        let host = plain();
        assert_eq!(about(&host), [""; 0]);
        assert_eq!(host.steal_ppm(), Some(1_000));
        let with = |change: &dyn Fn(&mut HostProfile)| {
            let mut host = plain();
            change(&mut host);
            assert!(host.warnings().iter().all(|warning| !warning.reason.remedy.is_empty()));
            about(&host)
        };
        assert_eq!(with(&|host| host.realtime.throttling.runtime = None), ["throttling"]);
        assert_eq!(with(&|host| host.realtime.throttling = bandwidth(0)), ["throttling"]);
        for runtime in [0, 950] {
            let group = GroupRuntime { group: "/g".into(), bandwidth: bandwidth(runtime) };
            assert_eq!(with(&|host| host.realtime.group = Some(group.clone())), ["RT_GROUP_SCHED"]);
        }
        assert_eq!(with(&|host| host.realtime.grouped = Configured::With), ["RT_GROUP_SCHED"]);
        assert_eq!(with(&|host| host.cpus.allowed = CpuSet::EMPTY), ["cpuset"]);
        assert_eq!(with(&|host| host.cpus.siblings = host.cpus.online), ["threads of a core"]);
        assert_eq!(with(&|host| host.times.steal = Some(Nanos::s(20))), ["steal"]);
        assert_eq!(with(&|host| host.kernel.autogroups = true), ["autogroups"]);
        let slow = ClockSource { current: "hpet".into(), available: Vec::new() };
        assert_eq!(with(&|host| host.kernel.clock = Ok(slow.clone())), ["clock"]);
    }
}
