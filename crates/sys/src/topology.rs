//! The position of each CPU in the machine, as the kernel reports it in `/sys/devices/system/cpu`.

use crate::{Result, cpus, file};
use sched::CpuId;

/// The position of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPosition {
    /// The CPU.
    pub cpu: CpuId,
    /// Number of the core within its package. CPUs of one core share its execution units.
    pub core: u32,
    /// Number of the package.
    pub package: u32,
    /// Number of the last-level cache. `None`: the kernel does not report caches.
    pub llc: Option<u32>,
    /// Number of the NUMA node. `None`: the kernel has no NUMA nodes.
    pub node: Option<u32>,
}

/// Returns the positions of the CPUs that are online, by CPU. If the kernel does not report the cores, each CPU is a core of
/// its own.
///
/// # Errors
/// The errors of [`cpus::online`].
pub fn positions() -> Result<Vec<CpuPosition>> {
    Ok(cpus::online()?.iter().map(position).collect())
}

fn position(cpu: CpuId) -> CpuPosition {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
    let number = |name: &str| file::value::<u32>(format!("{folder}/{name}"), "a number").ok();
    let core = number("topology/core_id").unwrap_or_else(|| u32::try_from(cpu.index()).unwrap_or(u32::MAX));
    let caches = (0..).map_while(|index| {
        let name = format!("cache/index{index}");
        Some((number(&format!("{name}/level"))?, number(&format!("{name}/id"))))
    });
    let llc = caches.max_by_key(|(level, _)| *level).and_then(|(_, id)| id);
    CpuPosition { cpu, core, package: number("topology/physical_package_id").unwrap_or(0), llc, node: node(&folder) }
}

/// Returns the number of the folder `nodeN`, which each CPU of a node has.
fn node(folder: &str) -> Option<u32> {
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_that_is_online_has_a_position() {
        let positions = positions().unwrap();
        let cpus: Vec<CpuId> = positions.iter().map(|position| position.cpu).collect();
        assert_eq!(cpus, cpus::online().unwrap().iter().collect::<Vec<_>>());
        // CPUs of one core are of one package, and share its caches and its node.
        for one in &positions {
            for other in positions.iter().filter(|it| (it.package, it.core) == (one.package, one.core)) {
                assert_eq!((one.llc, one.node), (other.llc, other.node));
            }
        }
    }
}
