//! [`Parts`]: what the latency of a wake-up in a guest consists of.

use super::host_history::{Doing, HostHistory};
use sched::{Instant, Nanos};
use std::collections::BTreeMap;

/// Maximum latency that is split, and maximum number of its pieces: a guest reports what it likes, and each piece takes time.
pub(crate) const LATENCY_MOST: Nanos = Nanos::s(5);
const PIECES_MOST: usize = 4_096;
/// Maximum time by which the clocks of guest and host are taken to differ. If the vCPU did not run so near to the instant at which the task
/// ran, the records contradict each other.
pub(crate) const CLOCKS_MOST: Nanos = Nanos::ms(1);

/// The threads of a VM.
#[derive(Clone, Debug)]
pub(crate) struct Tids {
    /// Those of the vCPUs, in the order of the guest's CPUs.
    pub(crate) vcpus: Vec<u32>,
    /// Those on the way of interrupts to the vCPUs: the main loop, and those of vhost.
    pub(crate) carriers: Vec<u32>,
}

/// A wake-up in a guest, on the host's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnHost {
    /// Tid of the vCPU on which the task slept, and that of the vCPU on which it ran.
    pub(crate) slept_on: u32,
    pub(crate) vcpu: u32,
    /// Instant at which the task should have run.
    pub(crate) due: Instant,
    /// Instant at which the task woke.
    pub(crate) woken: Instant,
    /// Instant at which the task ran.
    pub(crate) ran: Instant,
}

/// What the latency of a wake-up consists of. The parts sum up to the latency.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Parts {
    /// The vCPU waited for a CPU of the host.
    pub(crate) vcpu: Nanos,
    /// A thread on the way of the interrupt waited for a CPU of the host, and the task slept.
    pub(crate) carrier: Nanos,
    /// The interrupt was on its way, or the vCPU in an exit.
    pub(crate) path: Nanos,
    /// The vCPU ran, and the task waited for it: behind other tasks of the guest.
    pub(crate) guest: Nanos,
    /// A hypervisor below the host took the CPU while the vCPU ran.
    pub(crate) steal: Nanos,
    /// The records do not tell, or they contradict each other.
    pub(crate) unattributed: Nanos,
}

impl Parts {
    /// Returns the sum of the parts.
    pub(crate) fn total(&self) -> Nanos {
        self.vcpu + self.carrier + self.path + self.guest + self.steal + self.unattributed
    }

    /// Adds the parts of another wake-up.
    pub(crate) fn add(&mut self, other: &Parts) {
        self.vcpu += other.vcpu;
        self.carrier += other.carrier;
        self.path += other.path;
        self.guest += other.guest;
        self.steal += other.steal;
        self.unattributed += other.unattributed;
    }
}

/// Splits the latency of a wake-up. Adds to `instead` how long each thread of the host ran while the vCPU or a thread on the way of the interrupt
/// waited. `stolen_ppm`: the part of the time that a hypervisor below the host takes, in parts of a million.
pub(crate) fn split(
    history: &HostHistory,
    tids: &Tids,
    wake_up: &OnHost,
    stolen_ppm: u64,
    instead: &mut BTreeMap<u32, Nanos>,
) -> Parts {
    let OnHost { slept_on, vcpu, due, woken, ran } = *wake_up;
    let (whole, due) = (due, due.max(Instant::at_ns(ran.as_ns().saturating_sub(LATENCY_MOST.as_ns()))));
    let woken = woken.max(due);
    let mut parts = Parts { unattributed: due.since(whole), ..Parts::default() };
    // At the instant at which the task ran, the vCPU ran.
    let wrong = history.away_from_run(vcpu, ran, CLOCKS_MOST).unwrap_or(ran.saturating_since(due));
    let certain = Instant::at_ns(ran.as_ns().saturating_sub(wrong.as_ns())).max(due);
    let of_threads = [&slept_on, &vcpu].into_iter().chain(&tids.carriers);
    let changes = of_threads.flat_map(|&tid| history.changes(tid, due, ran));
    let mut bounds: Vec<Instant> = changes.take(PIECES_MOST + 1).collect();
    if bounds.len() > PIECES_MOST {
        return Parts { unattributed: ran.since(whole), ..Parts::default() };
    }
    bounds.extend([due, woken, certain, ran]);
    bounds.sort_unstable();
    bounds.dedup();
    for (from, until) in bounds.windows(2).map(|two| (two[0], two[1])) {
        let time = until.since(from);
        if from >= certain {
            parts.unattributed += time;
            continue;
        }
        let sleeps = from < woken;
        let doing = history.doing(if sleeps { slept_on } else { vcpu }, from);
        if let Doing::Waits(cpu) = doing {
            parts.vcpu += time;
            history.add_to(instead, cpu, from, until);
            continue;
        }
        if doing == Doing::Unknown {
            parts.unattributed += time;
            continue;
        }
        let waiting = tids.carriers.iter().find_map(|&carrier| match history.doing(carrier, from) {
            Doing::Waits(cpu) if sleeps => Some(cpu),
            _ => None,
        });
        if let Some(cpu) = waiting {
            parts.carrier += time;
            history.add_to(instead, cpu, from, until);
            continue;
        }
        let runs = doing == Doing::Runs;
        let steal = Nanos::ns(if runs { time.as_ns().saturating_mul(stolen_ppm) / 1_000_000 } else { 0 }).min(time);
        parts.steal += steal;
        *(if runs && !sleeps { &mut parts.guest } else { &mut parts.path }) += time - steal;
    }
    assert_eq!(parts.total(), ran.since(whole), "the parts sum up to the latency");
    parts
}

#[cfg(test)]
mod tests {
    use super::super::host_history::tests::{history, switch, us, waking};
    use super::*;
    use sys::scheduler_trace::Record;

    const VCPU: u32 = 7;
    const MAIN: u32 = 6;
    const HOG: u32 = 8;
    const OTHER: u32 = 9;

    /// The task was due at 1,000 us, woke and ran at these instants. Returns the parts, and what ran instead.
    fn parts(records: &[Record], woken: u64, ran: u64, stolen_ppm: u64) -> (Parts, Vec<(u32, u64)>) {
        let tids = Tids { vcpus: vec![VCPU], carriers: vec![MAIN] };
        let wake_up = OnHost { slept_on: VCPU, vcpu: VCPU, due: us(1_000), woken: us(woken), ran: us(ran) };
        let mut instead = BTreeMap::new();
        let parts = split(&history(&[VCPU, MAIN], records), &tids, &wake_up, stolen_ppm, &mut instead);
        (parts, instead.into_iter().map(|(tid, ran)| (tid, ran.as_ns() / 1_000)).collect())
    }

    #[test]
    fn a_preempted_vcpu_waits_behind_threads_that_are_named() {
        let records = [
            switch(0, 0, HOG, false, VCPU),
            switch(500, 0, VCPU, false, HOG),
            switch(4_000, 0, HOG, false, OTHER),
            switch(5_000, 0, OTHER, false, VCPU),
            switch(9_000, 0, VCPU, true, HOG),
        ];
        let (found, instead) = parts(&records, 5_200, 6_000, 0);
        let expected =
            Parts { vcpu: Nanos::us(4_000), path: Nanos::us(200), guest: Nanos::us(800), ..Parts::default() };
        assert_eq!((found, instead), (expected, vec![(HOG, 3_000), (OTHER, 1_000)]));
    }

    #[test]
    fn the_main_loop_that_waits_holds_up_a_halted_vcpu() {
        let records = [
            switch(0, 0, HOG, false, MAIN),
            switch(10, 0, MAIN, true, HOG),
            switch(20, 1, HOG, false, VCPU),
            switch(30, 1, VCPU, true, OTHER),
            // The timer of the main loop expires, and it runs 2 ms later.
            waking(1_050, MAIN, 0),
            switch(3_050, 0, HOG, false, MAIN),
            waking(3_080, VCPU, 1),
            switch(3_180, 1, OTHER, false, VCPU),
            switch(5_000, 1, VCPU, true, OTHER),
        ];
        let (found, instead) = parts(&records, 3_200, 3_210, 0);
        let expected = Parts {
            carrier: Nanos::us(2_000),
            vcpu: Nanos::us(100),
            path: Nanos::us(50 + 30 + 20),
            guest: Nanos::us(10),
            ..Parts::default()
        };
        assert_eq!((found, instead), (expected, vec![(HOG, 2_000), (OTHER, 100)]));
    }

    #[test]
    fn a_task_that_slept_on_another_vcpu_waited_for_that_one_until_it_woke() {
        const SECOND: u32 = 5;
        let records = [
            switch(0, 0, HOG, false, VCPU),
            switch(500, 0, VCPU, false, HOG),
            switch(0, 1, OTHER, false, SECOND),
            switch(10, 1, SECOND, true, OTHER),
            // The timer of the first vCPU comes late, and the task is placed on the second one.
            switch(3_000, 0, HOG, false, VCPU),
            waking(3_050, SECOND, 1),
            switch(3_100, 1, OTHER, false, SECOND),
        ];
        let mut records = records.to_vec();
        records.sort_by_key(|record| record.at);
        let tids = Tids { vcpus: vec![VCPU, SECOND], carriers: vec![MAIN] };
        let wake_up = OnHost { slept_on: VCPU, vcpu: SECOND, due: us(1_000), woken: us(3_040), ran: us(3_200) };
        let mut instead = BTreeMap::new();
        let found = split(&history(&[VCPU, SECOND, MAIN], &records), &tids, &wake_up, 0, &mut instead);
        let expected =
            Parts { vcpu: Nanos::us(2_000 + 50), path: Nanos::us(40 + 10), guest: Nanos::us(100), ..Parts::default() };
        assert_eq!(found, expected);
        assert_eq!(instead, BTreeMap::from([(HOG, Nanos::us(2_000)), (OTHER, Nanos::us(50))]));
    }

    #[test]
    fn a_latency_is_split_up_to_a_limit() {
        let records = [switch(0, 0, HOG, false, VCPU), switch(9_000_000, 0, VCPU, true, HOG)];
        let (found, _) = parts(&records, 8_001_000, 8_001_000, 0);
        assert_eq!(found, Parts { path: Nanos::s(5), unattributed: Nanos::s(3), ..Parts::default() });
        // A vCPU that switches more often than any.
        let often: Vec<Record> = (0..5_000)
            .flat_map(|nth| [switch(nth * 2, 0, HOG, false, VCPU), switch(nth * 2 + 1, 0, VCPU, true, HOG)])
            .collect();
        let (found, _) = parts(&often, 9_000, 9_000, 0);
        assert_eq!(found, Parts { unattributed: Nanos::us(8_000), ..Parts::default() });
    }

    #[test]
    fn steal_is_a_part_of_the_time_for_which_the_vcpu_runs() {
        let records = [switch(0, 0, HOG, false, VCPU), switch(9_000, 0, VCPU, true, HOG)];
        let (found, _) = parts(&records, 2_000, 3_000, 100_000);
        let [path, guest, steal] = [900, 900, 200].map(Nanos::us);
        assert_eq!(found, Parts { path, guest, steal, ..Parts::default() });
    }

    #[test]
    fn what_the_records_do_not_tell_or_contradict_is_unattributed() {
        // The vCPU ran only 50 us after the task did: the clocks differ by at least so much.
        let records = [switch(0, 0, VCPU, false, HOG), switch(2_050, 0, HOG, false, VCPU)];
        let (found, _) = parts(&records, 1_900, 2_000, 0);
        assert_eq!(found, Parts { vcpu: Nanos::us(950), unattributed: Nanos::us(50), ..Parts::default() });
        let (found, _) = parts(&[switch(2_000, 0, HOG, false, VCPU)], 2_100, 2_200, 0);
        let [path, guest, unattributed] = [100, 100, 1_000].map(Nanos::us);
        assert_eq!(found, Parts { path, guest, unattributed, ..Parts::default() });
        let (found, _) = parts(&[], 2_100, 2_200, 0);
        assert_eq!(found.unattributed, Nanos::us(1_200));
    }
}
