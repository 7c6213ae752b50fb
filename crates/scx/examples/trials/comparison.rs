//! Comparison of schedulers in one boot: the lateness of wake-ups, and the time for messages, in rounds that alternate between the
//! schedulers.

use crate::load::hogs;
use crate::messaging::{Messaging, messaging_time, round_trip};
use crate::scheduler::{Peer, Scheduler, scheduler_ends_within};
use crate::{Line, bmq};
use anyhow::{Context, Result, ensure};
use measure::statistics::{Spread, confidence};
use sched::Nanos;
use scx::native::Fifo;
use std::path::PathBuf;
use sys::clock::{self, Beats};

/// A scheduler that is compared.
#[derive(Clone, Debug)]
pub(crate) enum Rival {
    /// The kernel's own.
    Kernel,
    /// The port of `bmq`.
    Bmq,
    /// First come, first served, in the kernel.
    Fifo,
    /// The bridge, with a policy without preemption at a wake-up.
    Bridge,
    /// A program of another project.
    Peer(PathBuf),
}

/// A scheduler that is loaded, until the value is dropped.
pub(crate) enum Loaded {
    Nothing,
    Ours(Scheduler),
    Fifo(Fifo),
    Peer(Peer),
}

/// The peer whose decisions are made in user space, as those of the bridge.
const IN_USER_SPACE: &str = "scx_rlfifo";
/// Maximum wake-up to run of the bridge, in percent of this peer's.
const BRIDGE_MOST_PERCENT: u64 = 130;

impl Rival {
    pub(crate) fn name(&self) -> &str {
        match self {
            Rival::Kernel => "EEVDF",
            Rival::Bmq => "bmq",
            Rival::Fifo => "FIFO",
            Rival::Bridge => "bridge",
            Rival::Peer(path) => path.file_name().and_then(|name| name.to_str()).unwrap_or("peer"),
        }
    }

    pub(crate) fn load(&self, line: &Line) -> Result<Loaded> {
        Ok(match self {
            Rival::Kernel => Loaded::Nothing,
            Rival::Bmq => Loaded::Ours(Scheduler::start(line, &bmq::NATIVE)?),
            Rival::Fifo => Loaded::Fifo(Fifo::load()?),
            Rival::Bridge => Loaded::Ours(Scheduler::start(line, &["--policy", "round-robin"])?),
            Rival::Peer(path) => Loaded::Peer(Peer::start(path)?),
        })
    }
}

impl Loaded {
    pub(crate) fn end(self) -> Result<()> {
        match self {
            Loaded::Nothing => return Ok(()),
            Loaded::Ours(scheduler) => drop(scheduler.end()?),
            Loaded::Fifo(fifo) => drop(fifo),
            Loaded::Peer(peer) => peer.end()?,
        }
        scheduler_ends_within(Nanos::s(5)).context("the scheduler is still loaded")?;
        Ok(())
    }
}

/// The figures of a round, for a scheduler. Unit: ns.
#[derive(Clone, Copy)]
struct Round {
    /// Mean and maximum lateness of a thread that wakes every millisecond: on an idle machine, beside four hogs, and beside messages.
    lateness: [(u64, u64); 3],
    messaging: u64,
    /// Number of context switches meanwhile.
    switches: u64,
    /// Time of a round trip between two threads.
    round_trip: u64,
}

/// Number of groups, and of messages from each sender to each receiver, whose time is measured: about a second under EEVDF.
const GROUPS: usize = 2;
const MESSAGES: u32 = 150;

/// Number of round trips between two threads.
const ROUND_TRIPS: u32 = 10_000;

/// Time after which a kernel has tested its ciphers.
const BOOTED: Nanos = Nanos::s(30);

const LOADS: [&str; 3] = ["idle", "beside 4 hogs", "beside messages"];

/// Compares schedulers in rounds that alternate between them, in one boot. With peers, the bridge is among them.
pub(crate) fn compare(line: &Line) -> Result<()> {
    if line.compare == 0 {
        println!("  left out: it takes some minutes (--compare)");
        return Ok(());
    }
    let mut rivals = vec![Rival::Kernel, Rival::Bmq, Rival::Fifo];
    rivals.extend(Some(Rival::Bridge).filter(|_| !line.peer.is_empty()));
    rivals.extend(line.peer.iter().cloned().map(Rival::Peer));
    // A kernel that has just booted tests its ciphers meanwhile.
    clock::sleep(BOOTED);
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); rivals.len()];
    for _ in 0..line.compare {
        for (rival, of_rival) in rivals.iter().zip(&mut rounds) {
            of_rival.push(round(line, rival).with_context(|| rival.name().to_string())?);
        }
    }
    let (count, level) = (line.compare, confidence(rounds[0].len()));
    println!("  {count} rounds; means of the rounds, their median and its interval ({level} ppm)");
    rivals.iter().zip(&rounds).for_each(|(rival, rounds)| print(rival.name(), rounds));
    let of = |name: &str| rivals.iter().zip(&rounds).find(|(rival, _)| rival.name() == name).map(|(_, rounds)| rounds);
    match (of("bridge"), of(IN_USER_SPACE)) {
        (Some(bridge), Some(peer)) => ensure_bridge_is_fast(bridge, peer),
        _ => Ok(()),
    }
}

fn print(name: &str, rounds: &[Round]) {
    for (at, load) in LOADS.iter().enumerate() {
        let most = rounds.iter().map(|round| round.lateness[at].1).max().unwrap_or_default();
        let means: Vec<u64> = rounds.iter().map(|round| round.lateness[at].0).collect();
        println!("  {name}, lateness {load}: {}, at most {}", text(&means), Nanos::ns(most));
    }
    let trips: Vec<u64> = rounds.iter().map(|round| round.round_trip).collect();
    println!("  {name}, round trip between two threads: {}", text(&trips));
    let times: Vec<u64> = rounds.iter().map(|round| round.messaging).collect();
    let switches = rounds.iter().map(|round| round.switches).sum::<u64>() / rounds.len() as u64;
    println!("  {name}, time for messages: {}, {switches} context switches", text(&times));
}

/// Checks the time from a wake-up to the CPU under the bridge against that of a peer with decisions in user space: a wake-up by a
/// timer on an idle machine, and the two wake-ups of a round trip.
fn ensure_bridge_is_fast(bridge: &[Round], peer: &[Round]) -> Result<()> {
    for (what, of) in [
        ("lateness idle", (|round| round.lateness[0].0) as fn(&Round) -> u64),
        ("round trip between two threads", |round| round.round_trip),
    ] {
        let median = |rounds: &[Round]| Spread::of(&rounds.iter().map(of).collect::<Vec<u64>>()).median;
        let percent = (median(bridge) * 100).div_ceil(median(peer).max(1));
        println!("  {what}: the bridge takes {percent} % of the time of {IN_USER_SPACE}");
        ensure!(percent <= BRIDGE_MOST_PERCENT, "{what}: more than {BRIDGE_MOST_PERCENT} %");
    }
    Ok(())
}

/// Returns the number of context switches since the start of the kernel.
fn switches() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let count = stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok());
    count.context("/proc/stat has no number of context switches")
}

/// Returns the mean, and the median with its interval.
fn text(values: &[u64]) -> String {
    let Spread { median, low, high } = Spread::of(values);
    let mean = values.iter().sum::<u64>() / values.len() as u64;
    let [mean, median, low, high] = [mean, median, low, high].map(Nanos::ns);
    format!("mean {mean}, median {median} [{low}, {high}]")
}

fn round(line: &Line, rival: &Rival) -> Result<Round> {
    let loaded = rival.load(line)?;
    let idle = lateness(Nanos::ms(300))?;
    let load = hogs(4)?;
    let beside_hogs = lateness(Nanos::ms(500))?;
    drop(load);
    let load = Messaging::start(1, u32::MAX)?;
    let beside_messages = lateness(Nanos::ms(1_500))?;
    load.stop();
    let round_trip = round_trip(ROUND_TRIPS)?.as_ns();
    let before = switches()?;
    let messaging = messaging_time(GROUPS, MESSAGES)?.as_ns();
    let switches = switches()?.saturating_sub(before);
    loaded.end()?;
    Ok(Round { lateness: [idle, beside_hogs, beside_messages], messaging, switches, round_trip })
}

/// Returns the mean and the maximum lateness of a new thread that wakes every millisecond for `time`, as cyclictest measures it,
/// but without timer slack. The first 100 ms do not count: a new thread begins at the level of a hog under BMQ.
fn lateness(time: Nanos) -> Result<(u64, u64)> {
    let probe = std::thread::spawn(move || {
        clock::set_slack(Nanos::ZERO)?;
        let from = clock::now().saturating_add(Nanos::ms(100));
        let (end, mut beats) = (from.saturating_add(time), Beats::every(Nanos::ms(1)));
        let (mut count, mut sum, mut most) = (0, 0, 0);
        while clock::now() < end {
            let late = beats.next().expect("it has no end").as_ns();
            if clock::now() >= from {
                (count, sum, most) = (count + 1, sum + late, late.max(most));
            }
        }
        sys::Result::Ok((sum / u64::max(count, 1), most))
    });
    Ok(probe.join().expect("the thread does not panic")?)
}
