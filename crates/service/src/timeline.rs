//! [`record`]: which thread runs on each CPU for some time.

use crate::host_switches::HostSwitches;
use crate::thread_names::ThreadNames;
use api::{CpuTimeline, RunThread, Timeline, Vm};
use daemon::dispatch::Role;
use sched::{CpuId, Instant, Nanos};
use std::collections::BTreeMap;
use sys::clock;
use sys::switches::{Switch, Turn};

/// Interval between two readings of the records. The buffer of a CPU has room for about a thousand switches.
const READING: Nanos = Nanos::ms(10);
/// Maximum number of stretches of a timeline. Further switches are counted as lost.
const STRETCHES_MOST: usize = 100_000;

/// Records which thread runs on each CPU for `length`. Threads of `vms` are marked. The stretch of a CPU before its first
/// switch is not known.
pub(crate) fn record(vms: &[Vm], length: Nanos) -> Timeline {
    let from = clock::now();
    let mut switches = match HostSwitches::record() {
        Ok(switches) => switches,
        Err(error) => return unrecorded(from, error.to_string()),
    };
    let end = from.saturating_add(length);
    let mut stretches = Stretches::default();
    while clock::now() < end {
        clock::sleep(end.saturating_since(clock::now()).min(READING));
        switches.read(|switch| stretches.switch(switch));
    }
    let until = clock::now();
    stretches.end(until);
    let of_cpu = |(cpu, all): (CpuId, &Vec<Stretch>)| CpuTimeline {
        cpu: cpu.index(),
        stretches: all.iter().map(|it| it.relative_to(from)).collect(),
    };
    let cpus = stretches.of_cpus.iter().map(|(cpu, of_one)| of_cpu((*cpu, &of_one.past))).collect();
    let (threads, lost) = (named(&stretches.tids, vms), switches.lost + stretches.dropped);
    Timeline { from_ns: from.as_ns(), length_ns: until.since(from).as_ns(), cpus, threads, unrecorded: None, lost }
}

fn unrecorded(from: Instant, reason: String) -> Timeline {
    let (cpus, threads, unrecorded) = (Vec::new(), Vec::new(), Some(reason));
    Timeline { from_ns: from.as_ns(), length_ns: 0, cpus, threads, unrecorded, lost: 0 }
}

/// Returns the threads with these tids.
fn named(tids: &[u32], vms: &[Vm]) -> Vec<RunThread> {
    let mut names = ThreadNames::default();
    let of_pid: BTreeMap<u32, &Vm> = vms.iter().filter_map(|vm| Some((vm.process?.pid, vm))).collect();
    let thread = |tid: &u32| {
        let (name, pid) = names.of(*tid).unzip();
        let vm = pid.and_then(|pid| of_pid.get(&pid));
        let has_name = name.as_deref().is_some_and(|name| Role::of(name) == Role::Vcpu);
        let is_vcpu = vm.is_some_and(|vm| has_name || vm.vcpus.contains(tid));
        RunThread { tid: *tid, name, pid, vm: vm.map(|vm| vm.id.clone()), is_vcpu }
    };
    tids.iter().map(thread).collect()
}

/// Time in which one thread ran on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    from: Instant,
    until: Instant,
    /// Index of the thread in [`Stretches::tids`].
    thread: usize,
}

impl Stretch {
    fn relative_to(&self, start: Instant) -> [u64; 3] {
        let since = |at: Instant| at.saturating_since(start).as_ns();
        [since(self.from), since(self.until), self.thread as u64]
    }
}

/// What ran on a CPU.
#[derive(Debug, Default)]
struct OfCpu {
    /// The running thread, and since when it runs.
    running: Option<(u32, Instant)>,
    past: Vec<Stretch>,
}

/// What ran on each CPU, from its context switches.
#[derive(Debug, Default)]
struct Stretches {
    of_cpus: BTreeMap<CpuId, OfCpu>,
    /// The threads that ran, in the order of their first stretch.
    tids: Vec<u32>,
    indices: BTreeMap<u32, usize>,
    count: usize,
    /// Number of switches beyond [`STRETCHES_MOST`].
    dropped: u64,
}

impl Stretches {
    fn switch(&mut self, switch: Switch) {
        if switch.turn == Turn::In {
            // The idle thread has the tid 0, and its time stays empty.
            let running = (switch.tid != 0).then_some((switch.tid, switch.at));
            self.of_cpus.entry(switch.cpu).or_default().running = running;
        } else {
            self.leave(switch.cpu, switch.at);
        }
    }

    fn leave(&mut self, cpu: CpuId, at: Instant) {
        let Some((tid, from)) = self.of_cpus.entry(cpu).or_default().running.take() else { return };
        if self.count == STRETCHES_MOST {
            self.dropped += 1;
            return;
        }
        self.count += 1;
        let thread = *self.indices.entry(tid).or_insert_with(|| {
            self.tids.push(tid);
            self.tids.len() - 1
        });
        self.of_cpus.entry(cpu).or_default().past.push(Stretch { from, until: at, thread });
    }

    /// Ends the stretches of the running threads.
    fn end(&mut self, at: Instant) {
        let cpus: Vec<CpuId> = self.of_cpus.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.leave(cpu, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_between_the_switches_of_a_cpu() {
        let mut all = Stretches::default();
        let switch = |us: u64, cpu: usize, tid: u32, turn: Turn| Switch {
            at: Instant::at_ns(us * 1_000),
            cpu: CpuId::new(cpu),
            tid,
            turn,
        };
        for it in [
            // The start of this stretch is not known.
            switch(1, 0, 9, Turn::Blocked),
            switch(1, 0, 7, Turn::In),
            switch(2, 1, 8, Turn::In),
            switch(4, 0, 7, Turn::Preempted),
            switch(4, 0, 0, Turn::In),
            switch(6, 0, 0, Turn::Blocked),
            switch(6, 0, 8, Turn::In),
        ] {
            all.switch(it);
        }
        all.end(Instant::at_ns(9_000));
        assert_eq!(all.tids, [7, 8]);
        let of = |cpu: usize| -> Vec<[u64; 3]> {
            all.of_cpus[&CpuId::new(cpu)].past.iter().map(|it| it.relative_to(Instant::ZERO)).collect()
        };
        assert_eq!(of(0), [[1_000, 4_000, 0], [6_000, 9_000, 1]]);
        assert_eq!(of(1), [[2_000, 9_000, 1]]);
    }
}
