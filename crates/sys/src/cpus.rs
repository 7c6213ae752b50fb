//! The CPUs of this machine, the CPUs that this process may use, and steal time.

use crate::cgroup::{Group, Hierarchy, Version};
use crate::{Error, Result, file};
use procfs::{CpuInfo, Current, CurrentSI, KernelStats};
use sched::{CpuId, CpuSet, Nanos};
use std::fs::File;
use std::os::unix::fs::FileExt;

fn list(path: &str) -> Result<CpuSet> {
    let text = file::read(path)?;
    let malformed = |_| Error::Malformed { path: path.into(), wanted: "a list of CPUs" };
    if text.trim().is_empty() { Ok(CpuSet::EMPTY) } else { text.trim().parse().map_err(malformed) }
}

/// Returns the CPUs that are online.
///
/// # Errors
/// The kernel does not report the CPUs, or has more than [`sched::id::CPUS_MAX`].
pub fn online() -> Result<CpuSet> {
    list("/sys/devices/system/cpu/online")
}

/// Returns the CPUs without load balancing (isolcpus).
///
/// # Errors
/// The errors of [`online`].
pub fn isolated() -> Result<CpuSet> {
    list("/sys/devices/system/cpu/isolated")
}

/// Returns the CPUs that share a core with another CPU.
///
/// # Errors
/// The errors of [`online`].
pub fn siblings() -> Result<CpuSet> {
    let mut shared = CpuSet::EMPTY;
    for cpu in online()?.iter() {
        let together = list(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        // If the file is missing, the kernel reports no sibling threads.
        if together.is_ok_and(|set| set.len() > 1) {
            shared.insert(cpu);
        }
    }
    Ok(shared)
}

/// The CPUs of a control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpuset {
    /// Path of the group.
    pub group: String,
    /// CPUs of the group.
    pub cpus: CpuSet,
}

/// Returns the model of the first CPU, or the architecture if the kernel reports no model.
#[must_use]
pub fn model() -> String {
    let reported = CpuInfo::current().ok().and_then(|cpus| cpus.model_name(0).map(str::to_string));
    reported.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// The hierarchies of control groups that may have cpusets, held open.
#[derive(Debug)]
pub struct Cpusets(Vec<Hierarchy>);

impl Cpusets {
    /// Opens the mounted hierarchies.
    #[must_use]
    pub fn open() -> Cpusets {
        Cpusets([Hierarchy::one("cpuset"), Hierarchy::two()].into_iter().flatten().collect())
    }

    /// Returns the cpuset of thread `tid`; `None` if the kernel has no cpusets, or the group of the thread is not
    /// visible. In version 2, a group without the controller has the CPUs of its nearest ancestor with the controller.
    ///
    /// # Errors
    /// The thread has ended, or the file has unexpected content.
    pub fn of(&self, tid: u32) -> Result<Option<Cpuset>> {
        for hierarchy in &self.0 {
            let path = match hierarchy.path_of(tid) {
                Ok(path) => path,
                Err(Error::Absent { .. }) => continue,
                Err(refused) => return Err(refused),
            };
            let ancestors = std::iter::successors(Some(path.as_str()), |path| {
                let (parent, _) = path.rsplit_once('/').filter(|_| *path != "/")?;
                Some(if parent.is_empty() { "/" } else { parent })
            });
            if let Some(found) = ancestors.filter_map(|path| hierarchy.open(path).ok()).find_map(|it| effective(&it)) {
                return found.map(Some);
            }
        }
        Ok(None)
    }
}

/// Returns the CPUs of `group`; `None` if the group has no cpuset.
fn effective(group: &Group) -> Option<Result<Cpuset>> {
    let name = match group.version() {
        Version::One => "cpuset.effective_cpus",
        Version::Two => "cpuset.cpus.effective",
    };
    let read = || {
        let malformed = |_| Error::Malformed { path: group.path().join(name), wanted: "a list of CPUs" };
        let cpus = group.read(name)?.trim().parse().map_err(malformed)?;
        Ok(Cpuset { group: group.path().display().to_string(), cpus })
    };
    group.has(name).then(read)
}

/// Returns the cpuset of thread `tid`: see [`Cpusets::of`].
///
/// # Errors
/// As for [`Cpusets::of`].
pub fn cpuset(tid: u32) -> Result<Option<Cpuset>> {
    Cpusets::open().of(tid)
}

/// Times of all CPUs together since boot, with the resolution of a clock tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Total time of all CPUs.
    pub total: Nanos,
    /// Idle time, including time waiting for a disk.
    pub idle: Nanos,
    /// Steal time: time for which a hypervisor ran other VMs although a CPU of this machine was runnable. `None`: the
    /// kernel does not count steal time.
    pub steal: Option<Nanos>,
}

impl Times {
    /// Returns the times since `before`.
    #[must_use]
    pub fn since(&self, before: &Times) -> Times {
        Times {
            total: self.total.saturating_sub(before.total),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.map(|steal| steal.saturating_sub(before.steal.unwrap_or_default())),
        }
    }
}

/// The file with the times of each CPU, held open. A read of the file is one system call and does not allocate memory.
#[derive(Debug)]
pub struct StealMeter {
    file: File,
    /// The last content of the file.
    bytes: Vec<u8>,
}

/// Path of the file.
const STAT: &str = "/proc/stat";
/// Maximum length of a CPU's line: a name and ten numbers of at most 20 digits.
const LINE_MOST: usize = 256;
/// Length of a clock tick in the file: USER_HZ is 100 on every architecture that Tactus supports. Source: proc_stat(5).
const TICK: Nanos = Nanos::ms(10);

impl StealMeter {
    /// Opens the file.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn open() -> Result<StealMeter> {
        let file = File::open(STAT).map_err(|error| Error::from(error, format!("open {STAT}"), "mount /proc"))?;
        // The lines of the CPUs come first, after a line for all CPUs.
        Ok(StealMeter { file, bytes: vec![0; LINE_MOST * (online()?.len() + 1)] })
    }

    /// Returns the steal time of `cpu` since boot; `None` if the kernel does not count steal time, or the CPU is
    /// offline.
    pub fn read(&mut self, cpu: CpuId) -> Option<Nanos> {
        let read = self.file.read_at(&mut self.bytes, 0).ok()?;
        steal_in(&self.bytes[..read], cpu).map(|ticks| TICK.saturating_mul(ticks))
    }
}

/// Returns the steal time of `cpu` in the content of /proc/stat: the eighth number of the line. Unit: ticks.
fn steal_in(stat: &[u8], cpu: CpuId) -> Option<u64> {
    for line in stat.split(|&byte| byte == b'\n') {
        let name = line.strip_prefix(b"cpu")?;
        let (digits, times) = name.split_at(name.iter().position(|byte| *byte == b' ')?);
        if number(digits) == Some(cpu.index() as u64) {
            return times.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).nth(7).and_then(number);
        }
    }
    None
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the times of all CPUs together from boot until now.
///
/// # Errors
/// The kernel does not report the CPU times.
pub fn times() -> Result<Times> {
    let cpu = kernel_stats()?.total;
    let idle = cpu.idle_ms() + cpu.iowait_ms().unwrap_or(0);
    let steal = cpu.steal_ms();
    let busy = cpu.user_ms() + cpu.nice_ms() + cpu.system_ms();
    let interrupts = cpu.irq_ms().unwrap_or(0) + cpu.softirq_ms().unwrap_or(0);
    Ok(Times {
        total: Nanos::ms(idle + busy + interrupts + steal.unwrap_or(0)),
        idle: Nanos::ms(idle),
        steal: steal.map(Nanos::ms),
    })
}

fn kernel_stats() -> Result<KernelStats> {
    KernelStats::current().map_err(|error| {
        let source = std::io::Error::other(error);
        Error::Call { what: "read /proc/stat".to_string(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_may_use_cpus_that_are_online() {
        let (online, mine) = (online().unwrap(), crate::affinity::get(crate::thread::current()).unwrap());
        assert!(!mine.is_empty() && mine.minus(&online).is_empty());
        assert!(isolated().unwrap().minus(&online).is_empty() && siblings().unwrap().minus(&online).is_empty());
        match cpuset(crate::thread::current()).unwrap() {
            Some(cpuset) => assert!(mine.minus(&cpuset.cpus).is_empty(), "{cpuset:?}"),
            None => eprintln!("SKIPPED: there are no cpusets here"),
        }
    }

    #[test]
    fn the_steal_time_is_the_eighth_number_of_the_line_of_the_cpu() {
        let stat = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 80 9 10\ncpu10 1 2 3 4 5 6 7 81 9 10\nintr 5 6\n";
        assert_eq!([0, 10, 1].map(|cpu| steal_in(stat, CpuId::new(cpu))), [Some(80), Some(81), None]);
        assert_eq!(steal_in(b"cpu  1\ncpu0 1 2 3", CpuId::new(0)), None);
        assert_eq!(steal_in(b"cpu0 1 2 3 4 5 6 7 x", CpuId::new(0)), None);
    }

    #[test]
    fn reading_steal_time_allocates_nothing() {
        let mut meter = StealMeter::open().unwrap();
        let first = online().unwrap().first().unwrap();
        let allocated = allocation_counter::measure(|| {
            let _: Option<Nanos> = meter.read(first);
        });
        assert_eq!(allocated.count_total, 0);
    }

    #[test]
    fn time_goes_on() {
        let before = times().unwrap();
        crate::clock::sleep(Nanos::ms(60));
        let passed = times().unwrap().since(&before);
        assert!(passed.total > Nanos::ZERO && passed.idle <= passed.total, "{passed:?}");
        let mut meter = StealMeter::open().unwrap();
        let mut sum = || {
            let each = |cpu| meter.read(cpu).unwrap_or_default();
            online().unwrap().iter().map(each).fold(Nanos::ZERO, |sum, one| sum + one)
        };
        let before = sum();
        let all = times().unwrap().steal.unwrap_or_default();
        let after = sum();
        // The kernel rounds each value down to a tick of 10 ms.
        let tick = Nanos::ms(10 * (online().unwrap().len() as u64 + 1));
        assert!(before <= all + tick && all <= after + tick, "{before} {all} {after}");
    }
}
