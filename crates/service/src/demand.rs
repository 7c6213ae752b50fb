//! [`observe`]: the bursts of the threads of all VMs, from the context switches of the host.

use crate::host_switches::HostSwitches;
use crate::usage::{VmThread, threads_of};
use api::{Demand, ThreadDemand, Vm, VmDemand};
use sched::{Instant, Nanos};
use std::collections::{BTreeMap, VecDeque};
use sys::clock;
use sys::switches::{Switch, Turn};

/// Interval between two readings of the records. The buffer of a CPU has room for about a thousand switches.
const READING: Nanos = Nanos::ms(10);
/// Number of bursts of a thread that are kept.
const BURSTS_MOST: usize = 1_000;

/// Observes the threads of `vms` for `length`.
pub(crate) fn observe(vms: &[Vm], length: Nanos) -> Demand {
    let from = clock::now();
    let threads: Vec<(&Vm, Vec<VmThread>)> =
        vms.iter().filter_map(|vm| Some((vm, threads_of(vm.process?, &vm.vcpus)))).collect();
    let tids = threads.iter().flat_map(|(_, threads)| threads.iter().map(VmThread::tid));
    let mut bursts = Bursts(tids.map(|tid| (tid, OfThread::default())).collect());
    let (mut switches, unrecorded) = match HostSwitches::record() {
        Ok(switches) => (Some(switches), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let end = from.saturating_add(length);
    while switches.is_some() && clock::now() < end {
        clock::sleep(end.saturating_since(clock::now()).min(READING));
        if let Some(switches) = &mut switches {
            switches.read(|switch| bursts.switch(switch));
        }
    }
    let until = clock::now();
    let vms = threads.into_iter().map(|(vm, threads)| {
        let threads = threads.into_iter().map(|thread| bursts.demand(thread, until, unrecorded.is_none())).collect();
        VmDemand { id: vm.id.clone(), threads }
    });
    let (vms, length_ns) = (vms.collect(), until.saturating_since(from).as_ns());
    Demand { length_ns, vms, unrecorded, lost: switches.map_or(0, |switches| switches.lost) }
}

/// What a thread does.
#[derive(Clone, Copy, Default, Debug)]
enum Doing {
    /// Nothing was seen of it yet.
    #[default]
    Unknown,
    Runs(Instant),
    Preempted,
    Sleeps(Instant),
}

/// The bursts of a thread.
#[derive(Default, Debug)]
struct OfThread {
    doing: Doing,
    /// CPU time of the present burst.
    ran: Nanos,
    /// Whether the start of the present burst was seen.
    is_whole: bool,
    bursts: VecDeque<[u64; 2]>,
}

impl OfThread {
    fn switch(&mut self, turn: Turn, at: Instant) {
        if let Doing::Runs(since) = self.doing {
            self.ran += at.saturating_since(since);
        }
        self.doing = match turn {
            Turn::In => {
                if let Doing::Sleeps(since) = self.doing {
                    self.slept(at.saturating_since(since));
                }
                Doing::Runs(at)
            }
            Turn::Preempted => Doing::Preempted,
            Turn::Blocked => Doing::Sleeps(at),
        };
    }

    /// Ends a burst with the sleep after it.
    fn slept(&mut self, slept: Nanos) {
        if std::mem::replace(&mut self.is_whole, true) {
            if self.bursts.len() == BURSTS_MOST {
                self.bursts.pop_front();
            }
            self.bursts.push_back([self.ran.as_ns(), slept.as_ns()]);
        }
        self.ran = Nanos::ZERO;
    }
}

/// The bursts of the observed threads, by tid.
#[derive(Debug)]
struct Bursts(BTreeMap<u32, OfThread>);

impl Bursts {
    fn switch(&mut self, switch: Switch) {
        if let Some(thread) = self.0.get_mut(&switch.tid) {
            thread.switch(switch.turn, switch.at);
        }
    }

    /// Returns the demand of a thread at the end of the observation.
    fn demand(&mut self, thread: VmThread, until: Instant, is_observed: bool) -> ThreadDemand {
        let mut of_thread = self.0.remove(&thread.tid()).unwrap_or_default();
        if let Doing::Runs(since) = of_thread.doing {
            of_thread.ran += until.saturating_since(since);
        }
        let usage = thread.into_usage();
        let mut bursts: Vec<[u64; 2]> = of_thread.bursts.into();
        // A thread that ran and never slept is always runnable; it may have had its CPU throughout, without a switch.
        let never_slept = bursts.is_empty() && !matches!(of_thread.doing, Doing::Sleeps(_));
        if is_observed && never_slept && usage.time.ran_ns > 0 {
            bursts.push([usage.time.ran_ns.max(of_thread.ran.as_ns()), 0]);
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
        assert_eq!(thread.bursts, [[5_000, 17_000], [1_000, 9_000]]);
    }
}
