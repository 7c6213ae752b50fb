//! The bare loop: global EDF for a task set, as an event loop with two heaps. The loop computes only the columns of the
//! EDF table. The simulator's speed is measured relative to this loop, in the same run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A task: its parameters, its open jobs, and the remaining work of the oldest open job.
#[derive(Clone, Copy)]
struct Task {
    period: u64,
    wcet: u64,
    open: u64,
    left: u64,
    cpu: usize,
    begun: bool,
}

/// Columns of the table: releases, completions, misses, preemptions, dispatches, migrations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Table(pub(crate) [u64; 6]);

/// Returns the table of a synchronous task set (period, wcet) in `[0, end)` on `cpus` CPUs, with the rules of the EDF
/// oracle. At one instant, completions precede releases, and releases precede one decision.
#[inline(never)]
pub(crate) fn run(set: &[(u64, u64)], cpus: usize, end: u64) -> Table {
    let task = |&(period, wcet): &(u64, u64)| Task { period, wcet, open: 0, left: 0, cpu: 0, begun: false };
    let mut tasks: Vec<Task> = set.iter().map(task).collect();
    let mut releases: BinaryHeap<Reverse<(u64, usize)>> = (0..tasks.len()).map(|i| Reverse((0, i))).collect();
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut running: Vec<Option<(u64, usize, u64)>> = vec![None; cpus]; // deadline, task, completion
    let mut chosen: Vec<(u64, usize)> = Vec::new();
    let [mut released, mut completed, mut missed, mut preempted, mut dispatched, mut migrated] = [0; 6];
    loop {
        let done = running.iter().flatten().map(|&(_, _, done)| done).min().unwrap_or(u64::MAX);
        let now = releases.peek().map_or(u64::MAX, |&Reverse((at, _))| at).min(done);
        if now >= end {
            return Table([released, completed, missed, preempted, dispatched, migrated]);
        }
        for cpu in &mut running {
            let Some((deadline, i, _)) = cpu.filter(|&(_, _, done)| done == now) else { continue };
            let task = &mut tasks[i];
            (completed, missed, *cpu) = (completed + 1, missed + u64::from(now > deadline), None);
            (task.open, task.left, task.begun) = (task.open - 1, task.wcet, false);
            if task.open > 0 {
                ready.push(Reverse((deadline + task.period, i)));
            }
        }
        while let Some(&Reverse((_, i))) = releases.peek().filter(|Reverse((at, _))| *at == now) {
            let task = &mut tasks[i];
            releases.pop();
            releases.push(Reverse((now + task.period, i)));
            (released, task.open) = (released + 1, task.open + 1);
            if task.open == 1 {
                task.left = task.wcet;
                ready.push(Reverse((now + task.period, i)));
            }
        }
        let mut free = running.iter().filter(|cpu| cpu.is_none()).count();
        while let Some(&Reverse(best)) = ready.peek() {
            if free == 0 {
                let worst =
                    running.iter_mut().filter(|cpu| cpu.is_some()).max_by_key(|cpu| cpu.map(|(d, i, _)| (d, i)));
                let Some((deadline, i, done)) = worst.as_ref().and_then(|cpu| **cpu) else { break };
                if (deadline, i) < best {
                    break;
                }
                tasks[i].left = done - now;
                preempted += 1;
                *worst.expect("it was found") = None;
                chosen.push(best);
                ready.pop();
                ready.push(Reverse((deadline, i)));
                continue;
            }
            free -= 1;
            chosen.push(best);
            ready.pop();
        }
        for (deadline, i) in chosen.drain(..) {
            let task = &mut tasks[i];
            let last_is_free = task.cpu < cpus && running[task.cpu].is_none();
            let cpu =
                if last_is_free { task.cpu } else { running.iter().position(Option::is_none).expect("one is free") };
            migrated += u64::from(task.begun && cpu != task.cpu);
            (task.cpu, task.begun, dispatched) = (cpu, true, dispatched + 1);
            running[cpu] = Some((deadline, i, now + task.left));
        }
    }
}
