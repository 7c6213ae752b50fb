//! [`observe`]: the bursts of the threads of all VMs, from the context switches of the host.

use crate::bursts::Bursts;
use crate::host_switches::HostSwitches;
use crate::standing::Periods;
use crate::usage::{VmThread, threads_of};
use api::{Demand, ThreadDemand, Vm, VmDemand};
use sched::{Instant, Nanos};
use std::collections::BTreeMap;
use sys::clock;
use sys::switches::{Switch, Turn};

/// Interval between two readings of the records. The buffer of a CPU has room for about a thousand switches.
const READING: Nanos = Nanos::ms(10);

/// Observes the threads of `vms` for `length`. `periods` are those of the promises, by id of the VM.
pub(crate) fn observe(vms: &[Vm], periods: &BTreeMap<String, Periods>, length: Nanos) -> Demand {
    let from = clock::now();
    let threads: Vec<(&Vm, Vec<VmThread>)> =
        vms.iter().filter_map(|vm| Some((vm, threads_of(vm.process?, &vm.vcpus)))).collect();
    let tids = threads.iter().flat_map(|(_, threads)| threads.iter().map(VmThread::tid));
    let mut all = Threads(tids.map(|tid| (tid, OfThread::default())).collect());
    let (mut switches, unrecorded) = match HostSwitches::record() {
        Ok(switches) => (Some(switches), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let end = from.saturating_add(length);
    while switches.is_some() && clock::now() < end {
        clock::sleep(end.saturating_since(clock::now()).min(READING));
        if let Some(switches) = &mut switches {
            switches.read(|switch| all.switch(switch));
        }
    }
    let until = clock::now();
    let vms = threads.into_iter().map(|(vm, threads)| {
        let threads = threads.into_iter().map(|thread| all.demand(thread, from, until, unrecorded.is_none())).collect();
        let period_left_ns = periods.get(&vm.id).map(|periods| periods.left(until).as_ns());
        VmDemand { id: vm.id.clone(), period_left_ns, threads }
    });
    let (vms, length_ns) = (vms.collect(), until.saturating_since(from).as_ns());
    Demand { length_ns, vms, unrecorded, lost: switches.map_or(0, |switches| switches.lost) }
}

/// An observed thread.
#[derive(Default, Debug)]
struct OfThread {
    /// Start of the present turn on a CPU.
    runs_since: Option<Instant>,
    bursts: Bursts,
}

impl OfThread {
    fn switch(&mut self, turn: Turn, at: Instant) {
        self.advance(at);
        match turn {
            Turn::In => {
                // The records do not show the wake-up itself, so a wait for the CPU after it counts as sleep.
                if self.bursts.sleeps() {
                    self.bursts.wake(at);
                }
                self.runs_since = Some(at);
            }
            Turn::Preempted => {}
            Turn::Blocked => self.bursts.sleep(at),
        }
    }

    /// Accounts for the CPU time until `at`.
    fn advance(&mut self, at: Instant) {
        if let Some(since) = self.runs_since.take() {
            self.bursts.run(at.saturating_since(since));
        }
    }
}

/// The observed threads, by tid.
#[derive(Debug)]
struct Threads(BTreeMap<u32, OfThread>);

impl Threads {
    fn switch(&mut self, switch: Switch) {
        if let Some(thread) = self.0.get_mut(&switch.tid) {
            thread.switch(switch.turn, switch.at);
        }
    }

    /// Returns the demand of a thread at the end of the observation.
    fn demand(&mut self, thread: VmThread, from: Instant, until: Instant, is_observed: bool) -> ThreadDemand {
        let mut of_thread = self.0.remove(&thread.tid()).unwrap_or_default();
        of_thread.advance(until);
        let usage = thread.into_usage();
        let mut bursts = if is_observed { of_thread.bursts.since(from) } else { Vec::new() };
        // A thread may have had its CPU throughout, without a switch.
        if is_observed && bursts.is_empty() && !of_thread.bursts.sleeps() && usage.time.ran_ns > 0 {
            bursts.push([0, usage.time.ran_ns, 0]);
        }
        ThreadDemand { tid: usage.tid, name: usage.name, is_vcpu: usage.is_vcpu, is_observed, bursts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_the_cpu_time_between_two_sleeps() {
        let mut thread = OfThread::default();
        for (us, turn) in [
            // The start of this burst was not seen.
            (1, Turn::Blocked),
            (10, Turn::In),
            (12, Turn::Preempted),
            (20, Turn::In),
            (23, Turn::Blocked),
            (40, Turn::In),
            (41, Turn::Blocked),
            (50, Turn::In),
        ] {
            thread.switch(turn, Instant::at_ns(us * 1_000));
        }
        let bursts = thread.bursts.since(Instant::ZERO);
        assert_eq!(bursts, [[10_000, 5_000, 17_000], [40_000, 1_000, 9_000]]);
    }
}
