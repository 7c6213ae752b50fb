//! [`HostProfile`]: the host properties on which promises depend.

use crate::Explanation;
use crate::doctor::Mechanism;
use crate::kernel::priority;
use crate::realtime_group;
use sched::{CpuSet, Nanos};
use sys::cpus::{self, Cpuset, Times};
use sys::kernel::{self, ClockSource, Configuration, Configured, SchedExt};
use sys::privileges::{self, Capability};
use sys::realtime::{self, Bandwidth, FairServer, GroupRuntime};

/// Clock sources that are read without a system call.
const QUICK_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
/// Maximum share of steal time without a warning. Unit: parts per million.
const STEAL_MOST: u64 = 10_000;
const MILLION: u64 = 1_000_000;
/// Priority of interrupt threads. Source: `sched_set_fifo`, kernel/sched/syscalls.c, Linux 6.18: MAX_RT_PRIO / 2.
const INTERRUPT_PRIORITY: u32 = 50;
/// The first kernel with fair servers. Source: kernel/sched/fair.c, Linux 6.12.
const FAIR_SERVERS_SINCE: (u32, u32) = (6, 12);
/// Default bandwidth of a fair server. Source: `fair_server_init`, kernel/sched/fair.c, Linux 6.12.
const FAIR_SERVER_USUAL: Bandwidth = Bandwidth { runtime: Some(Nanos::ms(50)), period: Nanos::s(1) };

/// The properties of a host.
#[derive(Clone, Debug)]
pub struct HostProfile {
    /// Kernel of the host.
    pub kernel: Kernel,
    /// The privileges of this process.
    pub privileges: Privileges,
    /// CPUs of the host.
    pub cpus: Cpus,
    /// Limits of real-time threads on the host.
    pub realtime: RealTime,
    /// CPU times since boot, summed over all CPUs.
    pub times: Times,
}

/// Kernel of a host.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Release, such as `6.18.2`.
    pub release: String,
    /// Version, such as `#1 SMP PREEMPT_DYNAMIC`.
    pub version: String,
    /// Whether the kernel is fully preemptible (PREEMPT_RT).
    pub is_realtime: bool,
    /// Timer ticks per second.
    pub tick_rate: Option<u32>,
    /// Clock source of the kernel.
    pub clock: Result<ClockSource, Explanation>,
    /// The state of sched_ext.
    pub sched_ext: SchedExt,
    /// Lockdown mode of the kernel.
    pub lockdown: Option<String>,
    /// Whether autogroups are enabled.
    pub autogroups: bool,
}

impl Kernel {
    /// Returns whether the kernel has release `wanted` or a later release. A kernel without a release number counts as
    /// later than `wanted`.
    #[must_use]
    pub fn is_at_least(&self, wanted: (u32, u32)) -> bool {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= wanted,
            _ => true,
        }
    }
}

/// The privileges of this process.
#[derive(Clone, Debug)]
pub struct Privileges {
    /// The effective user ID.
    pub user: u32,
    /// Capabilities of this process.
    pub capabilities: Vec<Capability>,
    /// The highest real-time priority without CAP_SYS_NICE. `None`: no limit.
    pub priority_limit: Option<u64>,
    /// Number of bytes that may be locked without CAP_IPC_LOCK. `None`: no limit.
    pub memory_limit: Option<u64>,
}

impl Privileges {
    /// Returns whether this process has the capability.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

/// CPUs of a host.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// The CPUs that are online.
    pub online: CpuSet,
    /// The CPUs that this process may use.
    pub allowed: CpuSet,
    /// The CPUs without load balancing.
    pub isolated: CpuSet,
    /// CPUs that share a core with another CPU.
    pub siblings: CpuSet,
    /// The cpuset of this process; `None` on a host without cpusets.
    pub cpuset: Option<Cpuset>,
}

/// Limits of real-time threads on a host.
#[derive(Clone, Debug)]
pub struct RealTime {
    /// Real-time throttling of each CPU.
    pub throttling: Bandwidth,
    /// The fair servers, which reserve time for ordinary threads.
    pub fair_servers: Result<Vec<FairServer>, Explanation>,
    /// The real-time bandwidth of this process's control group; `None` without real-time groups.
    pub group: Option<GroupRuntime>,
    /// The real-time bandwidth of the group that the core of Tactus uses: the group of this process, or one above it if it
    /// has none.
    pub core_group: Option<GroupRuntime>,
    /// Whether the kernel has real-time groups (RT_GROUP_SCHED).
    pub grouped: Configured,
    /// The shortest and the longest period of SCHED_DEADLINE.
    pub deadline_periods: Result<(Nanos, Nanos), Explanation>,
}

/// A property of a host that breaks promises, or makes promises hard to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Subject of the warning, in a word or two.
    pub about: &'static str,
    /// Effect of the property on promises, and a remedy.
    pub reason: Explanation,
}

/// Returns whether a kernel with this configuration and boot parameter has real-time groups.
fn grouped(configuration: &Configuration, parameter: Option<&str>) -> Configured {
    let off = configuration.option("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED") == Configured::With;
    match (configuration.option("CONFIG_RT_GROUP_SCHED"), parameter) {
        (Configured::With, Some("0" | "n" | "off")) => Configured::Without,
        (Configured::With, None) if off => Configured::Without,
        (other, _) => other,
    }
}

impl HostProfile {
    /// Reads the profile of this host.
    ///
    /// # Errors
    /// /proc or /sys is missing.
    pub fn read() -> sys::Result<HostProfile> {
        let configuration = Configuration::read();
        let me = sys::thread::current();
        Ok(HostProfile {
            kernel: Kernel {
                release: kernel::release(),
                version: kernel::version(),
                is_realtime: kernel::is_realtime(),
                tick_rate: configuration.tick_rate(),
                clock: kernel::clock_source().map_err(Explanation::from),
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
                fair_servers: realtime::fair_servers().map_err(Explanation::from),
                group: realtime::of_group(me)?,
                core_group: realtime_group::of_core()?,
                grouped: grouped(&configuration, kernel::parameter("rt_group_sched").as_deref()),
                deadline_periods: realtime::deadline_periods().map_err(Explanation::from),
            },
            times: cpus::times()?,
        })
    }

    /// Returns the largest reservation of a fair server for ordinary threads; the kernel's default if the servers
    /// cannot be read; `None` without fair servers.
    #[must_use]
    pub fn fair_server(&self) -> Option<Bandwidth> {
        match &self.realtime.fair_servers {
            Ok(servers) => servers.iter().map(|server| server.bandwidth).max_by_key(Share::share_ppm),
            Err(_) => self.kernel.is_at_least(FAIR_SERVERS_SINCE).then_some(FAIR_SERVER_USUAL),
        }
    }

    /// Returns the share of each CPU that all promises of `mechanism` together may use. `None` for a mechanism that
    /// makes no promises. Unit: parts per million of a CPU.
    #[must_use]
    pub fn promisable_ppm(&self, mechanism: Mechanism) -> Option<u64> {
        let realtime = &self.realtime;
        let throttled = realtime.throttling.share_ppm();
        let kept = self.fair_server().map_or(0, |server| server.share_ppm());
        match mechanism {
            Mechanism::Inheritance | Mechanism::Fifo => {
                // A client that inherits its priority needs no runtime in its own group.
                let inherits = mechanism == Mechanism::Inheritance;
                let group = if inherits { &realtime.core_group } else { &realtime.group };
                let of_group = group.as_ref().map_or(MILLION, |group| group.bandwidth.share_ppm());
                Some(throttled.min(MILLION.saturating_sub(kept)).min(of_group))
            }
            // SCHED_DEADLINE's admission counts the fair servers among the reservations, and ignores control groups.
            Mechanism::Deadline => Some(throttled.saturating_sub(kept)),
            Mechanism::SchedExt => Some(MILLION),
            _ => None,
        }
    }

    /// Returns steal time as a share of all CPU time since boot; `None` if the kernel does not account steal time.
    /// Unit: parts per million.
    #[must_use]
    pub fn steal_ppm(&self) -> Option<u64> {
        steal_ppm(&self.times)
    }

    /// Returns the properties that break promises, or make promises hard to keep.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |about, why: String, remedy: &'static str| {
            warnings.push(Warning { about, reason: Explanation::new(why, remedy) });
        };
        self.warn_of_realtime(&mut warn);
        self.warn_of_cpus(&mut warn);
        if self.kernel.is_realtime {
            let [least, most] = [priority::SENTINEL, priority::GUARDIAN];
            let why = format!(
                "PREEMPT_RT handles interrupts in threads at real-time priority {INTERRUPT_PRIORITY}: Tactus and its clients \
                 run at {least} to {most}, so a client delays the interrupts of its CPU for up to a slice"
            );
            let remedy = "keep device interrupts on CPUs without promises (/proc/irq/*/smp_affinity_list)";
            warn("PREEMPT_RT", why, remedy);
        }
        if let Ok(clock) = &self.kernel.clock
            && !QUICK_CLOCKS.contains(&clock.current.as_str())
        {
            let why = format!("the clock source is {}: reading the time is a slow system call", clock.current);
            warn("clock", why, "use a host with a stable TSC; see dmesg for why the kernel does not trust it");
        }
        if let Some(steal) = self.steal_ppm().filter(|&steal| steal > STEAL_MOST) {
            let why = format!("a hypervisor took {}.{} % of this machine's time", steal / 10_000, steal / 1_000 % 10);
            warn("steal", why, "give this machine dedicated CPUs on its host");
        }
        if self.kernel.autogroups {
            let why = "autogroups are on: nice values weigh a thread against its own session only";
            warn("autogroups", why.to_string(), "set kernel.sched_autogroup_enabled = 0, or use control groups");
        }
        warnings
    }

    fn warn_of_realtime(&self, warn: &mut impl FnMut(&'static str, String, &'static str)) {
        let realtime = &self.realtime;
        match realtime.throttling.runtime {
            None => warn(
                "throttling",
                "real-time throttling is off: a real-time thread that does not sleep monopolizes its CPU".to_string(),
                "set kernel.sched_rt_runtime_us = 950000",
            ),
            Some(runtime) if runtime.is_zero() => warn(
                "throttling",
                "real-time threads receive no CPU time".to_string(),
                "set kernel.sched_rt_runtime_us = 950000",
            ),
            Some(_) => {}
        }
        match &realtime.group {
            Some(group) if !group.has_runtime() => {
                let mut why =
                    format!("the control group {} has no real-time runtime: SCHED_FIFO is refused in it", group.group);
                if let Some(core) = realtime.core_group.as_ref().filter(|core| core.has_runtime()) {
                    why += &format!(", so Tactus moves its own threads to {}", core.group);
                }
                warn("RT_GROUP_SCHED", why, "write a number to its cpu.rt_runtime_us, or start Tactus in another group");
            }
            Some(_) => warn(
                "RT_GROUP_SCHED",
                "real-time threads are counted by control group: a new cpu group starts without runtime, and \
                 real-time threads cannot be moved into it"
                    .to_string(),
                "put VMs into groups with cpu.rt_runtime_us, or boot with rt_group_sched=0",
            ),
            None if realtime.grouped == Configured::With => warn(
                "RT_GROUP_SCHED",
                "real-time threads are counted by control group, and no cgroup v1 hierarchy with cpu is mounted to give \
                 them runtime: they can only be in the root group"
                    .to_string(),
                "boot with rt_group_sched=0, or keep VMs in the root group of cpu",
            ),
            None => {}
        }
    }

    fn warn_of_cpus(&self, warn: &mut impl FnMut(&'static str, String, &'static str)) {
        let cpus = &self.cpus;
        let missing = cpus.online.minus(&cpus.allowed);
        if !missing.is_empty() {
            let why = format!("this process may not use CPUs {missing}, and SCHED_DEADLINE may be refused to it");
            warn("cpuset", why, "start Tactus without taskset, in the root cpuset or a cpuset with cpus of its own");
        }
        if !cpus.siblings.is_empty() {
            let why = format!(
                "CPUs {} share cores: each slows its sibling, and no promise accounts for this loss",
                cpus.siblings
            );
            warn("threads of a core", why, "use one vCPU per core, or boot with nosmt");
        }
    }
}

/// Returns the CPU times since boot, summed over all CPUs.
///
/// # Errors
/// The kernel does not report the CPU times.
pub fn times() -> sys::Result<Times> {
    cpus::times()
}

/// Returns steal time as a share of `times`; `None` if the kernel does not account steal time. Unit: parts per million.
#[must_use]
pub fn steal_ppm(times: &Times) -> Option<u64> {
    Some(share_ppm(times.steal?, times.total))
}

/// Returns `part` as a share of `whole`. Unit: parts per million.
pub(crate) fn share_ppm(part: Nanos, whole: Nanos) -> u64 {
    let ppm = u128::from(part.as_ns()) * u128::from(MILLION) / u128::from(whole.as_ns().max(1));
    u64::try_from(ppm).unwrap_or(u64::MAX)
}

/// Bandwidth as a share of a CPU.
trait Share {
    /// Returns the bandwidth as a share of a CPU. Unit: parts per million.
    fn share_ppm(&self) -> u64;
}

impl Share for Bandwidth {
    fn share_ppm(&self) -> u64 {
        self.runtime.map_or(MILLION, |runtime| share_ppm(runtime, self.period).min(MILLION))
    }
}

/// Host profiles for tests.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;
    use sched::CpuId;

    /// Returns a bandwidth of `runtime_ms` milliseconds in every second.
    pub(crate) fn bandwidth(runtime_ms: u64) -> Bandwidth {
        Bandwidth { runtime: Some(Nanos::ms(runtime_ms)), period: Nanos::s(1) }
    }

    /// Returns the profile of this host, with typical values for the properties that the tests check.
    pub(crate) fn plain() -> HostProfile {
        let mut host = HostProfile::read().expect("there is /proc and /sys");
        host.realtime.throttling = bandwidth(950);
        host.realtime.fair_servers = Ok(vec![FairServer { cpu: CpuId::new(0), bandwidth: bandwidth(50) }]);
        host.realtime.group = None;
        host.realtime.core_group = None;
        host.realtime.grouped = Configured::Without;
        host.cpus.allowed = host.cpus.online;
        host.cpus.siblings = CpuSet::EMPTY;
        host.kernel.autogroups = false;
        host.kernel.is_realtime = false;
        host.kernel.clock = Ok(ClockSource { current: "tsc".into(), available: vec!["tsc".into()] });
        host.times = Times { total: Nanos::s(1_000), idle: Nanos::ZERO, steal: Some(Nanos::s(1)) };
        host
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::{bandwidth, plain};
    use super::*;
    use sched::CpuId;

    fn about(host: &HostProfile) -> Vec<&'static str> {
        host.warnings().iter().map(|warning| warning.about).collect()
    }

    #[test]
    fn no_more_is_promised_than_the_kernel_leaves() {
        let all = [Mechanism::Fifo, Mechanism::Deadline, Mechanism::Inheritance];
        let all = |host: &HostProfile| all.map(|by| host.promisable_ppm(by).unwrap());
        let mut host = plain();
        assert_eq!(all(&host), [950_000, 900_000, 950_000]);
        host.realtime.fair_servers = Ok(vec![FairServer { cpu: CpuId::new(0), bandwidth: bandwidth(100) }]);
        assert_eq!(all(&host), [900_000, 850_000, 900_000]);
        host.realtime.group = Some(GroupRuntime { group: "/g".into(), bandwidth: bandwidth(0) });
        assert_eq!(all(&host), [0, 850_000, 900_000]);
        host.realtime.core_group.clone_from(&host.realtime.group);
        assert_eq!(all(&host), [0, 850_000, 0]);
        (host.realtime.group, host.realtime.core_group) = (None, None);
        host.realtime.throttling.runtime = None;
        assert_eq!(all(&host), [900_000, 900_000, 900_000]);
        assert_eq!(host.promisable_ppm(Mechanism::Weight), None);
    }

    #[test]
    fn fair_servers_that_cannot_be_read_are_taken_to_be_as_usual() {
        let mut host = plain();
        host.realtime.fair_servers = Err(Explanation::new("it is hidden", ""));
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
        assert_eq!(with(&|host| host.kernel.is_realtime = true), ["PREEMPT_RT"]);
        assert_eq!(with(&|host| host.times.steal = Some(Nanos::s(20))), ["steal"]);
        assert_eq!(with(&|host| host.kernel.autogroups = true), ["autogroups"]);
        let slow = ClockSource { current: "hpet".into(), available: Vec::new() };
        assert_eq!(with(&|host| host.kernel.clock = Ok(slow.clone())), ["clock"]);
    }
}
