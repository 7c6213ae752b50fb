//! [`observe`]: what the threads of a VM do for some time, from the kernel's records of context switches.

mod account;

use crate::host_switches::HostSwitches;
use crate::managed_host::PerCpu;
use crate::thread_names::ThreadNames;
use crate::usage::{VmThread, threads_of};
use account::{Account, Observed};
use api::{Instead, Measured, Observation, ObservedThread, Process, Waits};
use sched::{EntityId, Nanos};
use std::collections::BTreeMap;
use sys::cgroup::{Hierarchy, Version};
use sys::{clock, cpus};

/// Interval between two readings of the records. The buffer of a CPU has room for about a thousand switches.
const READING: Nanos = Nanos::ms(10);
/// Number of threads that ran instead of an observed thread and are named.
const INSTEAD_MOST: usize = 8;

/// Returns the measurements of a promise between two readings, for each of its CPUs.
pub(crate) fn between(before: &PerCpu, after: &PerCpu) -> Vec<Measured> {
    let since = |(entity, measured): (&EntityId, &Measured)| match before.get(entity) {
        Some(before) => measured.since(before),
        None => *measured,
    };
    after.iter().map(since).collect()
}

/// Observes the threads of `process` for `length`. Those in `vcpus` run vCPUs, whatever their names are. The measurements of
/// the promise are left empty.
pub(crate) fn observe(process: Process, vcpus: &[u32], length: Nanos) -> Observation {
    let from = clock::now();
    let threads = threads_of(process, vcpus);
    let (throttled, stolen) = (throttled(process), stolen());
    let (mut recorder, unrecorded) = match Recorder::new(&threads) {
        Ok(recorder) => (Some(recorder), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let end = from.saturating_add(length);
    while clock::now() < end {
        let left = end.saturating_since(clock::now());
        match &mut recorder {
            Some(recorder) => {
                clock::sleep(left.min(READING));
                recorder.read(&threads);
            }
            None => clock::sleep(left),
        }
    }
    let length = clock::now().saturating_since(from);
    let since = |before: Option<Nanos>, now: Option<Nanos>| Some(now?.saturating_sub(before?).as_ns());
    Observation {
        from_ns: from.as_ns(),
        length_ns: length.as_ns(),
        promise: Vec::new(),
        throttled_ns: since(throttled, self::throttled(process)),
        stolen_ns: since(stolen, self::stolen()),
        lost: recorder.as_ref().map_or(0, |recorder| recorder.switches.lost),
        threads: observed(threads, recorder.map(|recorder| recorder.account)),
        unrecorded,
    }
}

/// Returns what the threads did since the start of the observation.
fn observed(threads: Vec<VmThread>, mut account: Option<Account>) -> Vec<ObservedThread> {
    let mut names = ThreadNames::default();
    let each = |thread: VmThread| {
        let observed = account.as_mut().and_then(|account| account.remove(thread.tid()));
        ObservedThread {
            usage: thread.into_usage(),
            waits: observed.as_ref().map(waits),
            instead: observed.map(|observed| longest(&observed.instead, &mut names)).unwrap_or_default(),
        }
    };
    threads.into_iter().map(each).collect()
}

/// Returns the threads that ran longest, with their names.
pub(crate) fn longest(instead: &BTreeMap<u32, Nanos>, names: &mut ThreadNames) -> Vec<Instead> {
    let mut all: Vec<(u32, Nanos)> = instead.iter().map(|(tid, ran)| (*tid, *ran)).collect();
    all.sort_by_key(|&(tid, ran)| (std::cmp::Reverse(ran), tid));
    all.truncate(INSTEAD_MOST);
    let named = |(tid, ran): (u32, Nanos)| {
        let (name, pid) = names.of(tid).unzip();
        Instead { tid, name, pid, ran_ns: ran.as_ns() }
    };
    all.into_iter().map(named).collect()
}

fn waits(observed: &Observed) -> Waits {
    let all = &observed.waits;
    Waits {
        count: all.count(),
        p50_ns: all.percentile(50).as_ns(),
        p99_ns: all.percentile(99).as_ns(),
        longest_ns: all.longest().as_ns(),
        histogram: observed.histogram,
    }
}

/// The context switches of all CPUs, and what the observed threads did according to them.
#[derive(Debug)]
struct Recorder {
    switches: HostSwitches,
    account: Account,
}

impl Recorder {
    /// Records the switches from now on. The waits that the kernel has counted so far do not count.
    fn new(threads: &[VmThread]) -> sys::Result<Recorder> {
        let switches = HostSwitches::record()?;
        let mut account = Account::default();
        for thread in threads {
            if let Some(waited) = thread.waited() {
                account.add(thread.tid(), waited);
            }
        }
        Ok(Recorder { switches, account })
    }

    /// Reads the new records.
    fn read(&mut self, threads: &[VmThread]) {
        self.switches.read(|switch| self.account.switch(switch));
        for thread in threads {
            if let Some(waited) = thread.waited() {
                self.account.waited(thread.tid(), waited);
            }
        }
    }
}

/// Returns the time for which caps have throttled the control group of `process` and the groups above it; `None`: no group
/// has a cap.
fn throttled(process: Process) -> Option<Nanos> {
    let hierarchy = Hierarchy::one("cpu").or_else(|_| Hierarchy::two()).ok()?;
    let path = hierarchy.path_of(process.pid).ok()?;
    let key = if hierarchy.version() == Version::One { "throttled_time" } else { "throttled_usec" };
    let unit = if hierarchy.version() == Version::One { Nanos::ns(1) } else { Nanos::us(1) };
    let groups = std::iter::once(path.clone()).chain(sys::cgroup::paths_above(&path));
    let of_group = |path: String| {
        let group = hierarchy.open(&path).ok()?;
        (group.keyed("cpu.stat", "nr_periods").ok()? > 0).then_some(())?;
        Some(unit.saturating_mul(group.keyed("cpu.stat", key).ok()?))
    };
    groups.filter_map(of_group).reduce(|sum, one| sum + one)
}

/// Returns the steal time of all CPUs since boot.
fn stolen() -> Option<Nanos> {
    cpus::times().ok()?.steal
}
