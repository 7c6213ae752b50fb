//! The programs of live experiments with a scheduler in the kernel: a player that drops frames, threads as those of rt-app, and
//! messages as those of `perf bench sched messaging`. The workloads `video`, `web` and `hackbench` explain their parameters.

use crate::failure::Failure;
use crate::output::print;
use anyhow::Context;
use clap::{Args, Subcommand};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sched::{Instant, Nanos};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, spawn};
use sys::clock;

#[derive(Args, Debug)]
pub(crate) struct LiveLoad {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand, Debug)]
enum Program {
    /// Play a film, and print the number of dropped frames
    Film(Film),
    /// Run threads that use a CPU and sleep in turn
    Threads(Threads),
    /// Send messages through pipes between threads, and print the elapsed nanoseconds
    Messages(Messages),
}

pub(crate) fn run(args: &LiveLoad) -> Result<(), Failure> {
    match &args.program {
        Program::Film(film) => play(film),
        Program::Threads(threads) => {
            run_threads(threads);
            Ok(())
        }
        Program::Messages(messages) => send(messages),
    }
}

#[derive(Args, Debug)]
struct Film {
    /// Number of frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frames: u64,
    /// Frames per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    fps: u64,
    /// Mean CPU time to decode a frame
    #[arg(long, value_name = "N")]
    decode_us: u64,
    /// Greatest distance of this CPU time from its mean, in percent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100))]
    spread_percent: u64,
    /// Maximum delay of a frame that is not dropped
    #[arg(long, value_name = "N", default_value_t = 100)]
    late_ms: u64,
    /// Seed of the CPU times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Args, Debug)]
struct Threads {
    /// Number of threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    count: u64,
    /// Mean CPU time before a sleep
    #[arg(long, value_name = "N")]
    run_us: u64,
    /// Greatest distance of this CPU time from its mean, in percent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=100))]
    spread_percent: u64,
    /// Duration of a sleep. A thread starts within this time
    #[arg(long, value_name = "N")]
    sleep_us: u64,
    /// Time until the threads end
    #[arg(long, value_name = "N")]
    length_ms: u64,
    /// Seed of the CPU times and the starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Args, Debug)]
struct Messages {
    /// Number of groups, each with 20 senders and 20 receivers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    groups: u64,
    /// Number of messages from each sender to each receiver of its group
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    loops: u64,
}

/// Lengths with equal probability around a mean.
struct Lengths {
    least: u64,
    most: u64,
    chance: ChaCha8Rng,
}

impl Lengths {
    fn new(mean: Nanos, spread_percent: u64, seed: u64) -> Lengths {
        let spread = mean.as_ns() / 100 * spread_percent;
        let chance = ChaCha8Rng::seed_from_u64(seed);
        Lengths { least: mean.as_ns() - spread, most: mean.as_ns() + spread, chance }
    }

    fn draw(&mut self) -> Nanos {
        Nanos::ns(self.least + self.chance.next_u64() % (self.most - self.least + 1))
    }
}

/// Keeps this thread busy for `time` on a CPU.
fn use_cpu(time: Nanos) {
    let end = clock::thread_time().saturating_add(time);
    while clock::thread_time() < end {
        std::hint::spin_loop();
    }
}

/// The frames that a player has not shown or dropped.
#[derive(Debug)]
struct Frames {
    left: u64,
    /// Instant at which the last frame was due.
    last: Instant,
    period: Nanos,
    late: Nanos,
}

impl Frames {
    /// Drops the frames that were due more than `late` before `now`. Returns their number.
    fn drop_late(&mut self, now: Instant) -> u64 {
        let behind = now.saturating_since(self.last.saturating_add(self.late));
        let passed = behind.as_ns().div_ceil(self.period.as_ns()).saturating_sub(1).min(self.left);
        self.left -= passed;
        self.last = self.last.saturating_add(self.period.saturating_mul(passed));
        passed
    }

    /// Takes the next frame. Returns the instant at which it is due.
    fn show(&mut self) -> Instant {
        self.left -= 1;
        self.last = self.last.saturating_add(self.period);
        self.last
    }
}

fn play(args: &Film) -> Result<(), Failure> {
    let mut lengths = Lengths::new(Nanos::us(args.decode_us), args.spread_percent, args.seed);
    let period = Nanos::ns((1_000_000_000 + args.fps / 2) / args.fps);
    let late = Nanos::ms(args.late_ms);
    let mut frames = Frames { left: args.frames, last: clock::now(), period, late };
    let mut dropped = 0;
    while frames.left > 0 {
        dropped += frames.drop_late(clock::now());
        if frames.left > 0 {
            use_cpu(lengths.draw());
            clock::sleep_until(frames.show());
        }
    }
    Ok(print(&format!("{dropped}\n"))?)
}

fn run_threads(args: &Threads) {
    let end = clock::now().saturating_add(Nanos::ms(args.length_ms));
    let sleep = Nanos::us(args.sleep_us);
    let start = |nth: u64| {
        let seed = args.seed.wrapping_mul(10_000).wrapping_add(nth);
        let mut lengths = Lengths::new(Nanos::us(args.run_us), args.spread_percent, seed);
        let delay = Nanos::ns(lengths.chance.next_u64() % sleep.as_ns().max(1));
        spawn(move || {
            clock::sleep(delay);
            while clock::now() < end {
                use_cpu(lengths.draw());
                clock::sleep(sleep);
            }
        })
    };
    join((0..args.count).map(start).collect());
}

/// Number of senders of a group, and of receivers, and the length of a message in bytes. Source: perf-bench(1).
const EACH: u64 = 20;
const MESSAGE: usize = 100;

fn send(args: &Messages) -> Result<(), Failure> {
    let count = args.groups * EACH * 2 + 1;
    let gate = Arc::new(Barrier::new(usize::try_from(count).expect("it is at most 4,001")));
    let mut threads = Vec::new();
    for _ in 0..args.groups {
        threads.extend(group(args.loops, &gate).context("cannot open the pipes")?);
    }
    gate.wait();
    // The other threads wait for this one. Later, others may run before this thread reads the clock.
    let begin = clock::now();
    gate.wait();
    join(threads);
    Ok(print(&format!("{}\n", clock::now().since(begin).as_ns()))?)
}

/// Starts the threads of a group. They wait at `gate` twice: until all are there, and for the start.
fn group(loops: u64, gate: &Arc<Barrier>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let pipes = (0..EACH).map(|_| pipe()).collect::<std::io::Result<Vec<(PipeReader, PipeWriter)>>>()?;
    let (outlets, inlets): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    let inlets = Arc::new(inlets);
    let receivers = outlets.into_iter().map(|mut outlet| {
        let gate = Arc::clone(gate);
        spawn(move || {
            gate.wait();
            gate.wait();
            let mut message = [0; MESSAGE];
            for _ in 0..loops * EACH {
                outlet.read_exact(&mut message).expect("the senders send as many messages");
            }
        })
    });
    let senders = (0..EACH).map(|_| {
        let (gate, inlets) = (Arc::clone(gate), Arc::clone(&inlets));
        spawn(move || {
            gate.wait();
            gate.wait();
            for _ in 0..loops {
                for mut inlet in inlets.iter() {
                    inlet.write_all(&[0; MESSAGE]).expect("the receiver reads as many messages");
                }
            }
        })
    });
    Ok(receivers.chain(senders).collect())
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread does not panic"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_dropped_if_it_was_due_more_than_the_allowed_delay_ago() {
        let at = |ms| Instant::ZERO.saturating_add(Nanos::ms(ms));
        let mut frames = Frames { left: 10, last: at(0), period: Nanos::ms(40), late: Nanos::ms(100) };
        // The first frame is due at 40 ms, and dropped after 140 ms.
        assert_eq!(frames.drop_late(at(140)), 0);
        assert_eq!((frames.drop_late(at(141)), frames.left), (1, 9));
        assert_eq!((frames.show(), frames.left), (at(80), 8));
        // The frames due at 120 ms up to 280 ms.
        assert_eq!((frames.drop_late(at(381)), frames.left), (5, 3));
        assert_eq!((frames.drop_late(at(10_000)), frames.left), (3, 0));
    }

    #[test]
    fn lengths_are_around_their_mean_and_follow_from_the_seed() {
        let mut lengths = Lengths::new(Nanos::ms(20), 50, 1);
        let drawn: Vec<Nanos> = (0..1_000).map(|_| lengths.draw()).collect();
        assert!(drawn.iter().all(|length| (Nanos::ms(10)..=Nanos::ms(30)).contains(length)));
        let mean = drawn.iter().map(|length| length.as_ns()).sum::<u64>() / 1_000;
        assert!((19_000_000..21_000_000).contains(&mean), "{mean}");
        let mut again = Lengths::new(Nanos::ms(20), 50, 1);
        assert!(drawn.iter().all(|&length| again.draw() == length));
    }
}
