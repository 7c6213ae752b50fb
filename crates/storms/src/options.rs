//! [`Options`]: the parameters of a storm, drawn from its seed.

use daemon::dispatch::RaiseBy;
use sched::Nanos;
use simhost::{Dice, Fault, Lateness};
use std::fmt;

/// The process that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The daemon.
    Daemon,
    /// The guardian.
    Guardian,
}

/// The fault and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Process that fails.
    pub target: Target,
    /// The fault.
    pub fault: Fault,
    /// Number of the act that the fault replaces. Acts are calls and stores of the process, counted after the setup.
    /// Those of the guardian are counted once the daemon knows that the guardian is active.
    pub act: u64,
}

/// The parameters that determine a storm completely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of CPUs. Range: 1 … 3.
    pub cpus: usize,
    /// Number of clients. Range: 1 … 6.
    pub clients: usize,
    /// Duration of a storm without a fault.
    pub length: Nanos,
    /// Whether threads and processes start and end.
    pub births: bool,
    /// Whether processes end before their children, which init then adopts.
    pub orphans: bool,
    /// Whether another process changes the values that Tactus changes.
    pub others: bool,
    /// Whether the kernel refuses changes to some processes.
    pub refusals: bool,
    /// Lateness of timers.
    pub lateness: Lateness,
    /// Maximum duration of a call.
    pub call: Nanos,
    /// The fault; `None` for a storm without a fault.
    pub plan: Option<Plan>,
    /// How the daemon raises threads.
    pub by: RaiseBy,
    /// Whether the cpusets of clients change.
    pub cpusets: bool,
    /// Mean number of beginnings of a loan per beginning that fails at first; 0: none fails.
    pub busy_in: u64,
    /// Whether promises change.
    pub adjusts: bool,
    /// Whether clients on several CPUs are gangs. Without gangs, each client is on one CPU.
    pub gangs: bool,
}

impl Options {
    /// Returns the options that this seed determines.
    #[must_use]
    pub fn draw(seed: u64) -> Options {
        let mut dice = Dice::new(seed ^ 0x7ac7_0000);
        let most = dice.choose(&[Nanos::ZERO, Nanos::us(20), Nanos::us(100), Nanos::us(500)]);
        let rare_in = dice.choose(&[0, 0, 50, 500]).unwrap_or(0);
        let half = |dice: &mut Dice| dice.one_in(2);
        let target = if dice.one_in(4) { Target::Guardian } else { Target::Daemon };
        let fault = if half(&mut dice) { Fault::Crash } else { Fault::Hang };
        // Early acts, which admit all clients, are drawn about as often as later acts, which are far more numerous.
        let range = dice.choose(&[100, 1_000, 10_000]).unwrap_or(1);
        let act = if target == Target::Guardian { dice.below(60) } else { dice.below(range) };
        Options {
            seed,
            cpus: 1 + usize::try_from(dice.below(3)).unwrap_or(0),
            clients: 1 + usize::try_from(dice.below(6)).unwrap_or(0),
            length: Nanos::ms(200 + dice.below(1_000)),
            births: half(&mut dice),
            orphans: dice.one_in(4),
            others: dice.one_in(3),
            refusals: dice.one_in(4),
            lateness: Lateness { most: most.unwrap_or(Nanos::ZERO), rare: Nanos::ms(20), rare_in },
            call: dice.choose(&[Nanos::ZERO, Nanos::us(1), Nanos::us(3)]).unwrap_or(Nanos::ZERO),
            plan: (!dice.one_in(4)).then_some(Plan { target, fault, act }),
            by: if dice.one_in(3) { RaiseBy::Attributes } else { RaiseBy::Inheritance },
            busy_in: dice.choose(&[0, 0, 3]).unwrap_or(0),
            cpusets: dice.one_in(4),
            adjusts: half(&mut dice),
            gangs: dice.one_in(3),
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options {
            seed,
            cpus,
            clients,
            length,
            births,
            orphans,
            others,
            refusals,
            lateness,
            call,
            plan,
            by,
            cpusets,
            busy_in,
            adjusts,
            gangs,
        } = self;
        write!(f, "seed {seed}: {cpus} CPUs, {clients} clients raised by {by:?}, {length}")?;
        let flags = [
            (births, "births"),
            (orphans, "orphans"),
            (others, "others"),
            (refusals, "refusals"),
            (cpusets, "cpusets"),
            (adjusts, "changes of promises"),
            (gangs, "gangs"),
        ];
        for (_, word) in flags.iter().filter(|(flag, _)| **flag) {
            write!(f, ", {word}")?;
        }
        write!(f, "; timers late by {}", lateness.most)?;
        if lateness.rare_in > 0 {
            write!(f, ", once in {} by {}", lateness.rare_in, lateness.rare)?;
        }
        if *busy_in > 0 {
            write!(f, "; one in {busy_in} loans is busy")?;
        }
        write!(f, "; calls of {call}; ")?;
        match plan {
            None => f.write_str("no fault"),
            Some(Plan { target, fault, act }) => write!(f, "{fault:?} of the {target:?} in place of act {act}"),
        }?;
        write!(f, "\nreplay: cargo xtask fuzz --daemon --seed {seed}")
    }
}
