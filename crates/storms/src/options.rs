//! [`Options`]: what a storm is made of, drawn from its seed.

use sched::Nanos;
use simhost::{Dice, Fault, Lateness};
use std::fmt;

/// Who fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The daemon.
    Daemon,
    /// The guardian.
    Guardian,
}

/// What fails, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Who.
    pub who: Who,
    /// How.
    pub fault: Fault,
    /// In place of which of its acts, the calls and stores, counted from when all is set up.
    pub act: u64,
}

/// A storm. What happens in it is a function of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Where chance begins.
    pub seed: u64,
    /// Range: 1 … 3.
    pub cpus: usize,
    /// Who is promised something. Range: 1 … 6.
    pub clients: usize,
    /// How long all goes on, if nobody fails.
    pub length: Nanos,
    /// Whether threads and processes begin and end.
    pub births: bool,
    /// Whether processes end before those that they have begun, which are the first process's then.
    pub orphans: bool,
    /// Whether somebody else changes what we change.
    pub others: bool,
    /// Whether some processes do not let everything be done to them.
    pub refusals: bool,
    /// How late timers are.
    pub lateness: Lateness,
    /// The most that a call takes.
    pub call: Nanos,
    /// The one fault, if there is one.
    pub plan: Option<Plan>,
}

impl Options {
    /// The options of this seed.
    #[must_use]
    pub fn draw(seed: u64) -> Options {
        let mut dice = Dice::new(seed ^ 0x7ac7_0000);
        let most = dice.choose(&[Nanos::ZERO, Nanos::us(20), Nanos::us(100), Nanos::us(500)]);
        let rare_in = dice.choose(&[0, 0, 50, 500]).unwrap_or(0);
        let half = |dice: &mut Dice| dice.one_in(2);
        let who = if dice.one_in(4) { Who::Guardian } else { Who::Daemon };
        let fault = if half(&mut dice) { Fault::Crash } else { Fault::Hang };
        // The first acts, in which everybody is admitted, are as likely as the many later ones.
        let range = dice.choose(&[100, 1_000, 10_000]).unwrap_or(1);
        let act = if who == Who::Guardian { dice.below(60) } else { dice.below(range) };
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
            plan: (!dice.one_in(4)).then_some(Plan { who, fault, act }),
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { seed, cpus, clients, length, births, orphans, others, refusals, lateness, call, plan } = self;
        write!(f, "seed {seed}: {cpus} CPUs, {clients} clients, {length}")?;
        let flags = [(births, "births"), (orphans, "orphans"), (others, "others"), (refusals, "refusals")];
        for (_, word) in flags.iter().filter(|(flag, _)| **flag) {
            write!(f, ", {word}")?;
        }
        write!(f, "; timers late by {}", lateness.most)?;
        if lateness.rare_in > 0 {
            write!(f, ", once in {} by {}", lateness.rare_in, lateness.rare)?;
        }
        write!(f, "; calls of {call}; ")?;
        match plan {
            None => f.write_str("no fault"),
            Some(Plan { who, fault, act }) => write!(f, "{fault:?} of the {who:?} in place of act {act}"),
        }?;
        write!(f, "\nreplay: cargo xtask fuzz --daemon --seed {seed}")
    }
}
