//! The floor: global EDF over a task set as a bare event loop with two heaps, nothing else. What the simulator's speed is
//! measured against (simulators: a ratio to this loop in the same run).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Releases and completions of a synchronous task set (period, wcet) in `[0, end)` on `cpus` CPUs.
pub fn run(tasks: &[(u64, u64)], cpus: usize, end: u64) -> (u64, u64) {
    let mut releases: BinaryHeap<Reverse<(u64, usize)>> = (0..tasks.len()).map(|task| Reverse((0, task))).collect();
    // Ready jobs: (deadline, task, work left). Running jobs: the same and the instant at which they are done.
    let mut ready: BinaryHeap<Reverse<(u64, usize, u64)>> = BinaryHeap::new();
    let mut running: Vec<Option<(u64, usize, u64)>> = vec![None; cpus];
    let (mut released, mut completed) = (0, 0);
    loop {
        let release = releases.peek().map_or(u64::MAX, |&Reverse((at, _))| at);
        let done = running.iter().flatten().map(|&(_, _, done)| done).min().unwrap_or(u64::MAX);
        let now = release.min(done);
        if now >= end {
            return (released, completed);
        }
        for cpu in &mut running {
            if cpu.is_some_and(|(_, _, done)| done == now) {
                *cpu = None;
                completed += 1;
            }
        }
        while let Some(&Reverse((at, task))) = releases.peek() {
            if at > now {
                break;
            }
            releases.pop();
            let (period, wcet) = tasks[task];
            ready.push(Reverse((now + period, task, wcet)));
            releases.push(Reverse((now + period, task)));
            released += 1;
        }
        while let Some(&Reverse((deadline, task, left))) = ready.peek() {
            let worst = running.iter_mut().max_by_key(|cpu| cpu.map_or((u64::MAX, 0), |(d, t, _)| (d, t)));
            let worst = worst.expect("there is a CPU");
            match *worst {
                Some((d, t, _)) if (d, t) <= (deadline, task) => break,
                Some((d, t, done)) => {
                    ready.pop();
                    ready.push(Reverse((d, t, done - now)));
                }
                None => drop(ready.pop()),
            }
            *worst = Some((deadline, task, now + left));
        }
    }
}
