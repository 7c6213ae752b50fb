//! Fork-join work for a guest: `fork-join SECONDS WORK`. One thread per CPU does WORK rounds of a loop, and then spins
//! until all threads have done theirs. After every 200 joins, the first thread works alone for a while, and the other
//! threads sleep.
//!
//! After a second of warming up, the program counts the joins of SECONDS seconds, and prints the joins per second.

use sched::{CpuSet, Nanos};
use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::{affinity, clock, thread};

const WARM_UP: Nanos = Nanos::s(1);
/// Number of joins between two serial parts of the first thread.
const REGION: u64 = 200;
/// The serial parts have 1 to 40 parts of the work.
const SERIAL_MOST: u64 = 40;

/// Does one part of the work.
fn work(rounds: u64) {
    let mut state = 1_u64;
    for _ in 0..rounds {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(seconds)), Some(Ok(rounds))) = (words.next(), words.next()) else {
        return Err("use fork-join SECONDS WORK".into());
    };
    let cpus: Vec<_> = affinity::get(thread::current())?.iter().collect();
    let count = cpus.len() as u64;
    let (arrived, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let region = Barrier::new(cpus.len());
    let member = |nth: usize| {
        affinity::set(thread::current(), &CpuSet::one(cpus[nth])).expect("the CPU is there");
        for joins in 1_u64.. {
            work(rounds);
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < joins * count {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                spin_loop();
            }
            if joins % REGION == 0 {
                if nth == 0 {
                    work(rounds * (1 + joins / REGION * 17 % SERIAL_MOST));
                }
                region.wait();
            }
        }
    };
    let joins = std::thread::scope(|scope| {
        (0..cpus.len()).for_each(|nth| drop(scope.spawn(move || member(nth))));
        clock::sleep(WARM_UP);
        let (from, before) = (clock::now(), arrived.load(Ordering::Acquire));
        clock::sleep(Nanos::s(seconds));
        let (to, after) = (clock::now(), arrived.load(Ordering::Acquire));
        over.store(true, Ordering::Relaxed);
        (after - before) / count * 1_000_000 / (to.since(from).as_ns() / 1_000).max(1)
    });
    println!("{joins}");
    Ok(())
}
