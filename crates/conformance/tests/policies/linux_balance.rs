//! The load balancing of Linux, compared with a real kernel: Linux 6.18.44 with HZ=250 and a base slice of 1.4 ms on
//! two vCPUs of an Intel Xeon at 2.1 GHz that share a cache. The hogs are threads of one session, which is one group
//! (`sched_autogroup_enabled`). Each run took 10 s. Nothing else used much CPU time: the hogs together received 1.96 to
//! 2.00 CPUs.
//!
//! Four runs of three hogs at nice 0: each hog received 0.642–0.686 of a CPU, and all were moved 68, 69, 73 and 74
//! times. The mean wait was 3.9–4.0 ms. In the run whose moves were recorded, 6 of the 67 times between two moves were
//! 86–92 ms, and 59 were 112–173 ms; the others were 23 and 284 ms. One hog was moved up to 9 times in succession.
//!
//! One run of five hogs, two at nice 0 and three at nice 5: the hogs at nice 0 received 0.687 and 0.669 of a CPU, waited
//! 3.9–4.0 ms on average and were never moved. The hogs at nice 5 received 0.212–0.214 of a CPU, waited 14.3–14.7 ms on
//! average and were moved 53, 48 and 52 times.
//!
//! One run of three hogs at nice 0, 5 and −5: they received 0.756, 0.244 and 0.996 of a CPU. The first two shared a CPU
//! and were moved once, the third was never moved.
//!
//! A rule that compares the weights that are runnable now moves three equal hogs 150 to 160 times in 10 s. A CPU that
//! has lost a task is then at once ready to pull a task.

use crate::hogs::{LENGTH, Place, play, policy};
use sched::{Action, CpuId, Descriptor, EntityId, Instant, Nanos};
use trace::{Event, Sink};

/// A hog: where and since when it runs or waits, and what it has received.
struct Hog {
    entity: EntityId,
    cpu: Option<CpuId>,
    since: Instant,
    runs: bool,
    got: Nanos,
    waits: Vec<Nanos>,
    moves: Vec<Instant>,
}

impl Hog {
    fn stop(&mut self, at: Instant) {
        self.runs = false;
        self.got += at.since(std::mem::replace(&mut self.since, at));
    }

    fn share(&self) -> f64 {
        seconds(self.got) / seconds(LENGTH)
    }

    /// Returns the mean wait in milliseconds.
    fn mean_wait(&self) -> f64 {
        let waits: Vec<Nanos> = self.waits.iter().copied().filter(|wait| *wait > Nanos::us(200)).collect();
        #[expect(clippy::cast_precision_loss, reason = "there are at most some thousand waits")]
        let count = waits.len() as f64;
        seconds(waits.into_iter().sum()) * 1e3 / count
    }
}

fn seconds(time: Nanos) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "ten seconds are 34 bits")]
    let ns = time.as_ns() as f64;
    ns / 1e9
}

#[derive(Default)]
struct Hogs(Vec<Hog>);

impl Hogs {
    fn of(&mut self, entity: EntityId) -> &mut Hog {
        self.0.iter_mut().find(|hog| hog.entity == entity).expect("it was attached")
    }
}

impl Sink for Hogs {
    fn record(&mut self, at: Instant, event: &Event) {
        match *event {
            Event::Attach { entity, .. } => {
                let (waits, moves) = (Vec::new(), Vec::new());
                self.0.push(Hog { entity, cpu: None, since: at, runs: false, got: Nanos::ZERO, waits, moves });
            }
            Event::Action(Action::Run { cpu, entity, .. }) => {
                let hog = self.of(entity);
                hog.waits.push(at.since(std::mem::replace(&mut hog.since, at)));
                hog.runs = true;
                if hog.cpu.replace(cpu).is_some_and(|before| before != cpu) {
                    hog.moves.push(at);
                }
            }
            Event::Action(Action::Stop { entity, .. }) => self.of(entity).stop(at),
            Event::End => self.0.iter_mut().filter(|hog| hog.runs).for_each(|hog| hog.stop(at)),
            _ => {}
        }
    }
}

/// Runs hogs with these nice values in one group on two CPUs. The hogs start at intervals of `apart`.
fn run(policy: &'static Descriptor, settings: &[(&str, i64)], nice: &[i32], apart: Nanos) -> Vec<Hog> {
    let mut hogs = Hogs::default();
    play(&Place { cpus: 2, grouped: true }, policy, settings, nice, apart, &mut hogs);
    hogs.0
}

/// The knobs of the measured kernel: v6.17, a tick of 4 ms. Its base slice is the default.
const AS_MEASURED: [(&str, i64); 2] = [("version", 2), ("tick", 4_000_000)];

/// Times between the starts of two hogs, in microseconds.
const APART: [u64; 6] = [0, 700, 1_300, 2_700, 3_900, 5_100];

/// Returns the number of moves of all hogs.
fn moves(hogs: &[Hog]) -> usize {
    hogs.iter().map(|hog| hog.moves.len()).sum()
}

/// Returns the times between two moves of any hogs.
fn between(hogs: &[Hog]) -> Vec<Nanos> {
    let mut all: Vec<Instant> = hogs.iter().flat_map(|hog| hog.moves.iter().copied()).collect();
    all.sort_unstable();
    all.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

#[test]
fn three_hogs_on_two_cpus_are_moved_as_often_as_on_a_real_kernel() {
    for apart in APART {
        let hogs = run(policy("eevdf"), &AS_MEASURED, &[0, 0, 0], Nanos::us(apart));
        let moved = moves(&hogs);
        // 68 to 74 were measured; the simulation has no background threads.
        assert!((61..=81).contains(&moved), "{moved} moves, {apart} us apart");
        let between = between(&hogs);
        let part = |least, most| {
            let found = between.iter().filter(|time| (Nanos::ms(least)..=Nanos::ms(most)).contains(time)).count();
            found * 100 / between.len()
        };
        assert!(part(108, 188) >= 80, "measured: 88 % in 112 to 173 ms; {between:?}");
        assert!(part(80, 100) <= 20, "measured: 9 % in 86 to 92 ms; {between:?}");
    }
}

#[test]
fn three_hogs_on_two_cpus_get_two_thirds_each_as_on_a_real_kernel() {
    for apart in APART {
        for hog in run(policy("eevdf"), &AS_MEASURED, &[0, 0, 0], Nanos::us(apart)) {
            // 0.642 to 0.686 were measured.
            assert!((0.61..=0.72).contains(&hog.share()), "{} of a CPU, {apart} us apart", hog.share());
            assert!((3.8..=4.2).contains(&hog.mean_wait()), "{} ms, {apart} us apart", hog.mean_wait());
        }
    }
}

#[test]
fn light_hogs_are_moved_and_wait_as_on_a_real_kernel() {
    for apart in APART {
        let hogs = run(policy("eevdf"), &AS_MEASURED, &[0, 0, 5, 5, 5], Nanos::us(apart));
        let (normal, light) = hogs.split_at(2);
        for hog in normal {
            assert!(hog.moves.len() <= 1, "{} moves", hog.moves.len());
            assert!((0.63..=0.73).contains(&hog.share()), "{}", hog.share());
        }
        for hog in light {
            assert!((0.20..=0.23).contains(&hog.share()), "{}", hog.share());
            assert!((13.5..=15.5).contains(&hog.mean_wait()), "{} ms", hog.mean_wait());
        }
        let moved = moves(light);
        assert!((130..=180).contains(&moved), "{moved}, measured 153; {apart} us apart");
    }
}

#[test]
fn a_heavy_hog_keeps_its_cpu_as_on_a_real_kernel() {
    for apart in APART {
        let hogs = run(policy("eevdf"), &AS_MEASURED, &[0, 5, -5], Nanos::us(apart));
        for (hog, share) in hogs.iter().zip([0.756, 0.244, 0.996]) {
            assert!((hog.share() - share).abs() <= 0.01, "{}, not {share}", hog.share());
            assert!(hog.moves.len() <= 2, "{} moves", hog.moves.len());
        }
    }
}

/// Checks that the comparison detects the rival: weights that are runnable now instead of averages. `cfs` balances so
/// in v3.17; here with the interval and imbalance of v6.17, except for a unit, because these are the defaults.
#[test]
fn weights_that_are_runnable_now_move_hogs_twice_as_often() {
    let rival = [("version", 1), ("tick", 4_000_000), ("busy-factor", 15), ("imbalance", 116)];
    for apart in APART {
        let moved = moves(&run(policy("cfs"), &rival, &[0, 0, 0], Nanos::us(apart)));
        assert!(moved > 100, "{moved}");
        let averages = moves(&run(policy("cfs"), &AS_MEASURED[1..], &[0, 0, 0], Nanos::us(apart)));
        assert!((61..=85).contains(&averages), "{averages}: CFS of v5.13 balances by averages");
    }
}
