//! [`Account`]: how long observed threads waited for a CPU, and which threads ran meanwhile, from the context switches of
//! all CPUs.

use crate::cpu_history::CpuHistory;
use api::Histogram;
use sched::{CpuId, Instant, Nanos};
use std::collections::BTreeMap;
use sys::switches::{Switch, Turn};
use trace::Durations;

/// Number of stretches that a CPU remembers. The oldest are forgotten.
const PAST_MOST: usize = 4_096;

/// Maximum difference between the kernel's sum of waits and the starts that were seen, which two readings a switch apart can
/// have. Unit: ns.
const OPEN_MOST_NS: i64 = 10_000_000;

/// What an observed thread does.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Unknown,
    Runs,
    /// The thread was preempted on a CPU.
    Waits {
        cpu: CpuId,
        since: Instant,
    },
    Sleeps {
        since: Instant,
    },
}

/// The start of a thread after a wake-up: its wait is not known yet.
#[derive(Debug)]
struct WokenStart {
    cpu: CpuId,
    at: Instant,
    /// Instant at which the thread fell asleep.
    asleep: Instant,
}

/// An observed thread.
#[derive(Debug)]
pub(crate) struct Observed {
    doing: Doing,
    /// Starts after wake-ups since the last reading of the kernel's count.
    woken: Vec<WokenStart>,
    /// Sum of the waits after preemptions since that reading.
    exact: Nanos,
    /// The kernel's sum of all waits, at that reading.
    waited: Nanos,
    /// Part of the kernel's sum for which no start was seen yet; negative: starts that the sum did not have yet. Unit: ns.
    open_ns: i64,
    /// The waits.
    pub(crate) waits: Durations,
    /// The waits by length.
    pub(crate) histogram: Histogram,
    /// How long each thread ran while this thread waited.
    pub(crate) instead: BTreeMap<u32, Nanos>,
}

impl Observed {
    /// Counts a wait that ended at `until` on `cpu`.
    fn record(&mut self, wait: Nanos, until: Instant, cpu: Option<&CpuHistory>) {
        self.waits.record(wait);
        self.histogram.record(wait.as_ns());
        if let Some(cpu) = cpu {
            let from = Instant::ZERO + until.since(Instant::ZERO).saturating_sub(wait);
            cpu.add_to(&mut self.instead, from, until);
        }
    }
}

/// How long observed threads waited for a CPU, and what ran meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Account {
    cpus: BTreeMap<CpuId, CpuHistory>,
    threads: BTreeMap<u32, Observed>,
}

impl Account {
    /// Observes thread `tid`, of which the kernel has counted waits of `waited` so far.
    pub(crate) fn add(&mut self, tid: u32, waited: Nanos) {
        let observed = Observed {
            doing: Doing::Unknown,
            woken: Vec::new(),
            exact: Nanos::ZERO,
            waited,
            open_ns: 0,
            waits: Durations::default(),
            histogram: Histogram::default(),
            instead: BTreeMap::new(),
        };
        self.threads.insert(tid, observed);
    }

    /// Takes a thread out of the account.
    pub(crate) fn remove(&mut self, tid: u32) -> Option<Observed> {
        self.threads.remove(&tid)
    }

    /// Notes a switch. Switches must come in the order of their instants.
    pub(crate) fn switch(&mut self, Switch { at, cpu, tid, turn }: Switch) {
        let on = self.cpus.entry(cpu).or_insert_with(|| CpuHistory::new(PAST_MOST));
        // If a record was lost, the end of the last stretch is unknown.
        on.end(at);
        if turn == Turn::In {
            on.begin(tid, at);
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        match (turn, thread.doing) {
            (Turn::In, Doing::Waits { cpu: waited_on, since }) => {
                let wait = at.saturating_since(since);
                thread.exact += wait;
                thread.record(wait, at, self.cpus.get(&waited_on));
            }
            (Turn::In, Doing::Sleeps { since }) => thread.woken.push(WokenStart { cpu, at, asleep: since }),
            _ => {}
        }
        thread.doing = match turn {
            Turn::In => Doing::Runs,
            Turn::Preempted => Doing::Waits { cpu, since: at },
            Turn::Blocked => Doing::Sleeps { since: at },
        };
    }

    /// Notes the kernel's sum of all waits of thread `tid`, which it has counted up to the last switch. Divides the part that
    /// is not due to preemptions among the starts after wake-ups.
    pub(crate) fn waited(&mut self, tid: u32, waited: Nanos) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let new = waited.saturating_sub(std::mem::replace(&mut thread.waited, waited));
        let exact = std::mem::take(&mut thread.exact);
        thread.open_ns = thread.open_ns.saturating_add_unsigned(new.as_ns()).saturating_sub_unsigned(exact.as_ns());
        let woken = std::mem::take(&mut thread.woken);
        let mut left = woken.len() as u64;
        for start in woken {
            let open = Nanos::ns(u64::try_from(thread.open_ns).unwrap_or(0));
            let wait = Nanos::ns(open.as_ns() / left).min(start.at.saturating_since(start.asleep));
            left -= 1;
            thread.open_ns = thread.open_ns.saturating_sub_unsigned(wait.as_ns());
            thread.record(wait, start.at, self.cpus.get(&start.cpu));
        }
        // Waits whose starts were lost must not count for later starts.
        thread.open_ns = thread.open_ns.clamp(-OPEN_MOST_NS, OPEN_MOST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VCPU: u32 = 7;
    const HOG: u32 = 8;
    const OTHER: u32 = 9;

    fn account(switches: &[(u64, usize, u32, Turn)]) -> Account {
        let mut account = Account::default();
        account.add(VCPU, Nanos::us(1_000));
        for &(at_us, cpu, tid, turn) in switches {
            let at = Instant::ZERO + Nanos::us(at_us);
            account.switch(Switch { at, cpu: CpuId::new(cpu), tid, turn });
        }
        account
    }

    fn instead(observed: &Observed) -> Vec<(u32, u64)> {
        observed.instead.iter().map(|(tid, ran)| (*tid, ran.as_ns() / 1_000)).collect()
    }

    #[test]
    fn a_wait_after_a_preemption_is_exact_and_names_what_ran() {
        let mut account = account(&[
            (0, 0, VCPU, Turn::In),
            (100, 0, VCPU, Turn::Preempted),
            (100, 0, HOG, Turn::In),
            (400, 0, HOG, Turn::Preempted),
            (400, 0, OTHER, Turn::In),
            (450, 0, OTHER, Turn::Blocked),
            (450, 0, VCPU, Turn::In),
        ]);
        account.waited(VCPU, Nanos::us(1_350));
        let observed = account.remove(VCPU).unwrap();
        assert_eq!((observed.waits.count(), observed.waits.longest()), (1, Nanos::us(350)));
        assert_eq!(instead(&observed), [(HOG, 300), (OTHER, 50)]);
    }

    #[test]
    fn waits_after_wake_ups_share_what_the_kernel_has_counted() {
        let mut account = account(&[
            (0, 1, VCPU, Turn::In),
            (10, 1, VCPU, Turn::Blocked),
            (10, 1, HOG, Turn::In),
            (500, 1, HOG, Turn::Preempted),
            (500, 1, VCPU, Turn::In),
            (510, 1, VCPU, Turn::Blocked),
            (510, 1, OTHER, Turn::In),
            (900, 1, OTHER, Turn::Blocked),
            (900, 1, VCPU, Turn::In),
        ]);
        account.waited(VCPU, Nanos::us(1_200));
        let observed = account.remove(VCPU).unwrap();
        assert_eq!((observed.waits.count(), observed.waits.total()), (2, Nanos::us(200)));
        assert_eq!(instead(&observed), [(HOG, 100), (OTHER, 100)]);
    }

    #[test]
    fn a_wait_is_no_longer_than_the_sleep_before_it() {
        let mut account = account(&[
            (0, 0, VCPU, Turn::In),
            (10, 0, VCPU, Turn::Blocked),
            (10, 0, HOG, Turn::In),
            (30, 0, HOG, Turn::Preempted),
            (30, 0, VCPU, Turn::In),
        ]);
        account.waited(VCPU, Nanos::us(9_000));
        let observed = account.remove(VCPU).unwrap();
        assert_eq!((observed.waits.total(), instead(&observed)), (Nanos::us(20), vec![(HOG, 20)]));
    }

    #[test]
    fn a_thread_that_moves_waits_where_it_was_preempted_and_an_idle_cpu_is_named() {
        let mut account = account(&[
            (0, 0, VCPU, Turn::In),
            (0, 1, OTHER, Turn::In),
            (100, 0, VCPU, Turn::Preempted),
            (100, 0, 0, Turn::In),
            (300, 1, OTHER, Turn::Blocked),
            (300, 1, VCPU, Turn::In),
        ]);
        account.waited(VCPU, Nanos::us(1_200));
        let observed = account.remove(VCPU).unwrap();
        assert_eq!(instead(&observed), [(0, 200)]);
        assert!(account.remove(OTHER).is_none());
    }

    #[test]
    fn lost_records_cause_no_panic_and_no_endless_stretch() {
        let mut account = account(&[
            (0, 0, HOG, Turn::In),
            (50, 0, VCPU, Turn::In),
            (60, 0, VCPU, Turn::In),
            (70, 0, OTHER, Turn::Blocked),
            (80, 0, VCPU, Turn::Preempted),
            (90, 0, VCPU, Turn::In),
        ]);
        account.waited(VCPU, Nanos::ZERO);
        let observed = account.remove(VCPU).unwrap();
        assert_eq!((observed.waits.count(), instead(&observed)), (1, Vec::new()));
    }
}
