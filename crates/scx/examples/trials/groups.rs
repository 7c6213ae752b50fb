//! Shares by control group: every thread beside the promises has the share that the kernel's fair class gives it.
//!
//! Each tree of groups is measured under the fair class, under the bridge, and under the port of `edf`, with one promise. The
//! promised thread has its slice first, and then competes as the others do, so shares are those of the rest.

use crate::Line;
use crate::load::HOG;
use crate::scheduler::Scheduler;
use anyhow::{Context, Result, ensure};
use sched::Nanos;
use std::fs;
use sys::attributes::{self, Attributes, Policy};
use sys::cgroup::{Group, Hierarchy, OwnGroup};
use sys::child::{Child, Work};
use sys::clock;
use sys::usage::Meter;

/// Maximum difference from the share of the fair class. Unit: percentage points.
const TOLERANCE: f64 = 3.0;
/// The promise beside the trees, and its part of the CPU.
const PROMISE: &str = "2ms/10ms";
const PROMISED_PART: f64 = 0.2;
/// Time from the start of the threads to a measurement.
const SETTLED: Nanos = Nanos::ms(100);
/// Maximum time until the machine is idle.
const PATIENCE: Nanos = Nanos::s(30);
/// Interval of the moves of a thread between two groups.
const MOVE_EVERY: Nanos = Nanos::ms(90);

/// A control group below the root: its path, its weight, and its `cpu.max`.
type Node = (&'static str, u32, &'static str);
/// A thread: the path of its group, its nice value, and what it does.
type Member = (&'static str, i32, Work);

/// A tree of groups with threads.
struct Tree {
    name: &'static str,
    groups: &'static [Node],
    threads: &'static [Member],
    /// Whether the promised thread competes; otherwise, it sleeps, and shares are those of the CPU.
    competes: bool,
    /// The groups between which the last thread moves.
    moves: Option<[&'static str; 2]>,
    /// How long it is measured.
    length: Nanos,
}

const NONE: &str = "max";

/// A thread that is busy and idle by turns for this time.
const fn sleeper(ms: u64) -> Work {
    Work::Spin { busy: Nanos::ms(ms), idle: Nanos::ms(ms) }
}

const fn tree(name: &'static str, groups: &'static [Node], threads: &'static [Member]) -> Tree {
    Tree { name, groups, threads, competes: true, moves: None, length: Nanos::s(2) }
}

/// The trees of the default tests.
const FEW: &[Tree] = &[
    Tree {
        length: Nanos::ms(600),
        ..tree(
            "groups with 1 and 4 threads, weights 100 and 300, two levels, nice 5 in a group",
            &[("a", 100, NONE), ("b", 100, NONE), ("c", 300, NONE), ("c/x", 100, NONE), ("c/y", 100, NONE)],
            &[
                ("a", 0, HOG),
                ("b", 0, HOG),
                ("b", 0, HOG),
                ("b", 0, HOG),
                ("b", 0, HOG),
                ("c/x", 0, HOG),
                ("c/y", 0, HOG),
                ("c/y", 5, HOG),
            ],
        )
    },
    Tree {
        competes: false,
        length: Nanos::ms(500),
        ..tree(
            "20 % of a CPU, and 10 % within 30 %",
            &[
                ("a", 100, "20000 100000"),
                ("b", 100, "30000 100000"),
                ("b/x", 100, "10000 100000"),
                ("b/y", 100, NONE),
                ("c", 100, NONE),
            ],
            &[("a", 0, HOG), ("a", 0, HOG), ("b/x", 0, HOG), ("b/y", 0, HOG), ("c", 0, HOG)],
        )
    },
];

/// The trees of the long measurement.
const MANY: &[Tree] = &[
    tree(
        "equal groups with 1 and 4 threads",
        &[("a", 100, NONE), ("b", 100, NONE)],
        &[("a", 0, HOG), ("b", 0, HOG), ("b", 0, HOG), ("b", 0, HOG), ("b", 0, HOG)],
    ),
    tree("weights 100 and 300", &[("a", 100, NONE), ("b", 300, NONE)], &[("a", 0, HOG), ("b", 0, HOG)]),
    tree(
        "weights 10 and 1,000",
        &[("a", 10, NONE), ("b", 1_000, NONE)],
        &[("a", 0, HOG), ("b", 0, HOG), ("b", 0, HOG)],
    ),
    tree(
        "two levels",
        &[("a", 100, NONE), ("a/x", 100, NONE), ("a/y", 200, NONE), ("b", 200, NONE)],
        &[("a/x", 0, HOG), ("a/y", 0, HOG), ("a/y", 0, HOG), ("b", 0, HOG)],
    ),
    tree(
        "four levels",
        &[
            ("a", 100, NONE),
            ("a/x", 100, NONE),
            ("a/x/y", 300, NONE),
            ("a/x/z", 100, NONE),
            ("a/x/y/z", 100, NONE),
            ("b", 100, NONE),
        ],
        &[("a/x/y/z", 0, HOG), ("a/x/y/z", 0, HOG), ("a/x/z", 0, HOG), ("b", 0, HOG)],
    ),
    tree(
        "nice −5, 0, 5 and 19 in a group",
        &[("a", 100, NONE), ("b", 100, NONE)],
        &[("a", 0, HOG), ("b", -5, HOG), ("b", 0, HOG), ("b", 5, HOG), ("b", 19, HOG)],
    ),
    tree(
        "a group that is active for 200 ms of 400 ms",
        &[("a", 100, NONE), ("b", 100, NONE)],
        &[("a", 0, HOG), ("b", 0, sleeper(200))],
    ),
    tree(
        "a group that is active for 20 ms of 40 ms beside a hog of the same parent",
        &[("a", 100, NONE), ("a/x", 100, NONE), ("a/y", 100, NONE), ("b", 100, NONE)],
        &[("a/x", 0, HOG), ("a/y", 0, sleeper(20)), ("b", 0, HOG)],
    ),
    tree(
        "a thread that is active for 5 ms of 10 ms beside a hog of its group",
        &[("a", 100, NONE), ("b", 100, NONE)],
        &[("a", 0, HOG), ("a", 0, sleeper(5)), ("b", 0, HOG)],
    ),
    Tree {
        competes: false,
        ..tree(
            "20 % of a CPU for two threads",
            &[("a", 100, "20000 100000"), ("b", 100, NONE)],
            &[("a", 0, HOG), ("a", 0, HOG), ("b", 0, HOG)],
        )
    },
    Tree {
        competes: false,
        ..tree(
            "10 % of a CPU within 30 %",
            &[("a", 100, "30000 100000"), ("a/x", 300, "10000 100000"), ("a/y", 100, NONE), ("b", 100, NONE)],
            &[("a/x", 0, HOG), ("a/y", 0, HOG), ("b", 0, HOG)],
        )
    },
    Tree {
        competes: false,
        ..tree(
            "20 % of a CPU in periods of 10 ms",
            &[("a", 100, "2000 10000"), ("b", 100, NONE)],
            &[("a", 0, HOG), ("a", 0, HOG), ("b", 0, HOG)],
        )
    },
    Tree {
        moves: Some(["a", "b"]),
        ..tree(
            "a thread that moves between groups",
            &[("a", 100, NONE), ("b", 300, NONE)],
            &[("a", 0, HOG), ("b", 0, HOG), ("a", 0, HOG)],
        )
    },
    Tree {
        moves: Some(["a", "b"]),
        ..tree(
            "a group that is active half of the time, and a thread that moves",
            &[("a", 100, NONE), ("b", 300, NONE), ("c", 200, NONE)],
            &[("a", 0, HOG), ("b", 0, HOG), ("c", 0, sleeper(50)), ("a", 0, HOG)],
        )
    },
    tree(
        "a group with 30 threads beside one with one thread",
        &[("a", 100, NONE), ("b", 100, NONE)],
        &[
            ("a", 0, HOG),
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
            THIRTY,
        ],
    ),
];
const THIRTY: Member = ("b", 0, HOG);

/// A tree of groups that exists, with its threads.
struct Grown {
    threads: Vec<(Child, Meter)>,
    /// Groups below come after those above.
    groups: Vec<(&'static str, OwnGroup)>,
}

impl Grown {
    fn new(tree: &Tree) -> Result<Grown> {
        let root = Hierarchy::two()?.open("/")?;
        let mut grown = Grown { threads: Vec::new(), groups: Vec::new() };
        for (path, weight, max) in tree.groups {
            let group = match path.rsplit_once('/') {
                Some((above, name)) => {
                    let above = grown.group(above)?;
                    above.write("cgroup.subtree_control", "+cpu")?;
                    above.create(name)?
                }
                None => root.create(&format!("trial-{path}"))?,
            };
            group.write("cpu.weight", &weight.to_string())?;
            group.write("cpu.max", max)?;
            grown.groups.push((path, group));
        }
        for (path, nice, work) in tree.threads {
            let child = Child::start(*work)?;
            let wanted = Attributes { policy: Policy::Other { nice: *nice }, ..attributes::get(child.pid())? };
            attributes::apply(child.pid(), wanted)?;
            grown.group(path)?.add_process(child.pid())?;
            let meter = Meter::open(child.pid())?;
            grown.threads.push((child, meter));
        }
        Ok(grown)
    }

    fn group(&self, path: &str) -> Result<&Group> {
        let found = self.groups.iter().find(|(at, _)| *at == path);
        found.map(|(_, group)| &**group).with_context(|| format!("the tree has no group {path}"))
    }

    fn moved(&self, path: &str) -> Result<()> {
        let last = self.threads.last().context("the tree has threads")?;
        Ok(self.group(path)?.add_process(last.0.pid())?)
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        // A group with groups below cannot have threads, so the threads end first, and the groups above last.
        self.threads.clear();
        while self.groups.pop().is_some() {}
    }
}

/// The thread with a promise, in a group of its own.
struct Promised {
    child: Child,
    meter: Meter,
    _group: OwnGroup,
}

impl Promised {
    fn new() -> Result<Promised> {
        let child = Child::start(HOG)?;
        let group = Hierarchy::two()?.open("/")?.create("trial-promised")?;
        group.add_process(child.pid())?;
        Ok(Promised { meter: Meter::open(child.pid())?, child, _group: group })
    }
}

/// How threads are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Under {
    FairClass,
    Bridge,
    Port,
}

/// Returns the shares of the threads of each tree in percent; the last one of a tree is that of the promised thread.
fn measure(line: &Line, trees: &[Tree], under: Under) -> Result<Vec<Vec<f64>>> {
    let mut all = Vec::new();
    // A child lives for a minute, so the promised thread is another one after some trees.
    for trees in trees.chunks(6) {
        let promised = Promised::new()?;
        let pid = promised.child.pid().to_string();
        let promise = format!("{pid}={PROMISE}");
        let scheduler = match under {
            Under::FairClass => None,
            Under::Bridge => Some(Scheduler::start(line, &["--policy", "edf", "--pid", &pid, "--promise", &promise])?),
            Under::Port => Some(Scheduler::start(line, &["--policy", "edf", "--native", "--promise", &promise])?),
        };
        for tree in trees {
            let part = if under == Under::FairClass { 0.0 } else { PROMISED_PART };
            all.push(shares(tree, &promised, part).with_context(|| tree.name)?);
        }
        scheduler.map(Scheduler::end).transpose()?;
    }
    Ok(all)
}

fn shares(tree: &Tree, promised: &Promised, promised_part: f64) -> Result<Vec<f64>> {
    if tree.competes {
        promised.child.process().cont()?
    } else {
        promised.child.process().stop()?
    }
    let grown = Grown::new(tree)?;
    let read = || {
        let meters = grown.threads.iter().map(|(_, meter)| meter).chain([&promised.meter]);
        meters.map(|meter| Ok(meter.read()?.ran)).collect::<Result<Vec<Nanos>>>()
    };
    clock::sleep(SETTLED);
    let (begin, before) = (clock::now(), read()?);
    let mut moves = 0;
    while clock::now().since(begin) < tree.length {
        let rest = tree.length.saturating_sub(clock::now().since(begin));
        clock::sleep(if tree.moves.is_some() { rest.min(MOVE_EVERY) } else { rest });
        if let Some(between) = tree.moves {
            moves += 1;
            grown.moved(between[moves % 2])?;
        }
    }
    let (after, length) = (read()?, clock::now().since(begin));
    let mut ran: Vec<f64> =
        before.iter().zip(&after).map(|(before, after)| (*after - *before).as_ns() as f64).collect();
    let whole = if tree.competes {
        let ahead = length.as_ns() as f64 * promised_part;
        *ran.last_mut().context("the promised thread is one")? -= ahead;
        ran.iter().sum()
    } else {
        length.as_ns() as f64
    };
    Ok(ran.into_iter().map(|ran| 100.0 * ran / whole).collect())
}

/// Returns the idle time of all CPUs.
fn idle() -> Result<Nanos> {
    let text = fs::read_to_string("/proc/stat")?;
    let ticks: u64 = text.split_whitespace().nth(4).context("/proc/stat has the idle time")?.parse()?;
    Ok(Nanos::ms(ticks * 10))
}

/// Waits until the machine is idle. For some seconds after its start, a kernel tests its algorithms for cryptography.
fn await_idle() -> Result<()> {
    let end = clock::now().saturating_add(PATIENCE);
    loop {
        let before = idle()?;
        clock::sleep(Nanos::ms(300));
        if idle()?.saturating_sub(before) >= Nanos::ms(250) {
            return Ok(());
        }
        ensure!(clock::now() < end, "the machine is not idle");
    }
}

/// Measures trees under all schedulers, and compares the shares of threads and groups with those of the fair class. Returns the
/// largest difference.
fn compare(line: &Line, trees: &[Tree]) -> Result<f64> {
    await_idle()?;
    let fair = measure(line, trees, Under::FairClass)?;
    let (mut largest, mut wrong): (f64, Vec<String>) = (0.0, Vec::new());
    for under in [Under::Bridge, Under::Port] {
        let found = measure(line, trees, under)?;
        for ((tree, fair), found) in trees.iter().zip(&fair).zip(&found) {
            let pairs = with_groups(tree, fair).into_iter().zip(with_groups(tree, found));
            let worst = pairs.map(|(fair, found)| (fair - found).abs()).fold(0.0, f64::max);
            let what = format!("{}, {under:?}: {worst:.1} points from the fair class", tree.name);
            println!("  {what}\n    fair class {}\n    {under:?} {}", text(fair), text(found));
            if worst > TOLERANCE {
                wrong.push(what);
            }
            largest = largest.max(worst);
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(largest)
}

/// Returns the shares of the threads and of the groups.
fn with_groups(tree: &Tree, shares: &[f64]) -> Vec<f64> {
    let of = |group: &str| {
        let is_in = |path: &str| path == group || path.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
        tree.threads.iter().zip(shares).filter(|((path, ..), _)| is_in(path)).map(|(_, share)| share).sum()
    };
    shares.iter().copied().chain(tree.groups.iter().map(|(path, ..)| of(path))).collect()
}

fn text(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{share:.1}")).collect::<Vec<_>>().join(" ")
}

/// The trees of the default tests.
pub(crate) fn few(line: &Line) -> Result<()> {
    if sys::cpus::online()?.len() > 1 {
        println!("  left out: this machine has several CPUs");
        return Ok(());
    }
    if line.leaves_out(0) {
        return Ok(());
    }
    let largest = compare(line, FEW)?;
    println!("  largest difference: {largest:.1} points");
    Ok(())
}

/// The trees of the long measurement, in the rounds of the command line.
pub(crate) fn many(line: &Line) -> Result<()> {
    if !line.long {
        println!("  left out: --long runs it");
        return Ok(());
    }
    let mut largest: f64 = 0.0;
    for round in 0..line.rounds {
        println!("  round {}", round + 1);
        largest = largest.max(compare(line, MANY)?);
    }
    println!("  largest difference: {largest:.1} points");
    Ok(())
}

/// Number of groups that come and go, and in the long measurement.
const SHORT_LIVED: u32 = 300;
const SHORT_LIVED_LONG: u32 = 10_000;

/// Groups come and go with a thread each.
pub(crate) fn come_and_go(line: &Line) -> Result<()> {
    if !line.long && sys::cpus::online()?.len() == 1 {
        println!("  left out: this machine has one CPU, and --long runs it");
        return Ok(());
    }
    let promised = Promised::new()?;
    let promise = format!("{}={PROMISE}", promised.child.pid());
    let scheduler = Scheduler::start(line, &["--policy", "edf", "--native", "--promise", &promise])?;
    let root = Hierarchy::two()?.open("/")?;
    let count = if line.long { SHORT_LIVED_LONG } else { SHORT_LIVED };
    for at in 0..count {
        let group = root.create(&format!("trial-{}", at % 7))?;
        group.write("cpu.weight", &(1 + at % 1_000).to_string())?;
        if at % 5 == 0 {
            group.write("cpu.max", "1000 10000")?;
        }
        let child = Child::start(Work::Spin { busy: Nanos::us(200), idle: Nanos::us(100) })?;
        group.add_process(child.pid())?;
        drop(child);
        group.remove()?;
    }
    scheduler.end()?;
    println!("  {count} groups");
    Ok(())
}
