//! [`Extent`]: how many rounds a job in a guest has, and with which seed.

use clap::Args;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Numbers of rounds of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rounds {
    /// In `cargo xtask test`; `None`: the job is no step of it.
    pub(crate) suite: Option<u32>,
    /// In `cargo xtask vm-test`; 0: the job runs only if it is named.
    pub(crate) short: u32,
    /// In `cargo xtask vm-test --long`, with which the records of the documents are made.
    pub(crate) long: u32,
}

/// Of a job that has no rounds.
pub(crate) const ONCE: Rounds = Rounds { suite: Some(1), short: 1, long: 1 };

/// The options of an extent that a job accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takes {
    /// None.
    Nothing,
    /// A number of rounds.
    Rounds,
    /// A number of rounds, the first of them, and a seed: the job is random.
    Seed,
}

/// The extent that a command requests.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Requested {
    /// Number of rounds (default: a number for each job).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Run each job with the rounds with which the records of the documents are made.
    #[arg(long, conflicts_with = "rounds")]
    long: bool,
    /// Number of the first round, to skip the rounds before it (random jobs only).
    #[arg(long, default_value_t = 1)]
    first: u32,
    /// Seed (random jobs only; default: a new seed); a failing run prints its seed.
    #[arg(long)]
    seed: Option<u64>,
}

impl Requested {
    /// Returns the same extent with the rounds of `--long`.
    pub(crate) fn long(self) -> Requested {
        Requested { long: true, ..self }
    }

    /// Returns an option that the command has and a job does not accept.
    pub(crate) fn unknown_to(&self, takes: Takes) -> Option<&'static str> {
        match takes {
            Takes::Nothing if self.rounds.is_some() => Some("--rounds"),
            Takes::Nothing | Takes::Rounds if self.seed.is_some() => Some("--seed"),
            Takes::Nothing | Takes::Rounds if self.first != 1 => Some("--first"),
            _ => None,
        }
    }

    /// Returns the extent of a job.
    pub(crate) fn of(self, usual: Rounds) -> Extent {
        let rounds = self.rounds.unwrap_or(if self.long { usual.long } else { usual.short }.max(1));
        Extent { rounds, first: self.first, seed: self.seed.unwrap_or_else(chance) }
    }
}

/// Rounds and seed of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Number of rounds.
    pub(crate) rounds: u32,
    /// Number of the first round.
    pub(crate) first: u32,
    pub(crate) seed: u64,
}

impl Extent {
    /// Returns the first `rounds` rounds of `seed`.
    pub(crate) fn begin(rounds: u32, seed: u64) -> Extent {
        Extent { rounds, first: 1, seed }
    }

    /// Returns the command-line options of the extent that a job accepts.
    pub(crate) fn words(&self, takes: Takes) -> Vec<String> {
        let option = |name: &str, value: String| [name.to_string(), value];
        let rounds = option("--rounds", self.rounds.to_string());
        let first = (self.first != 1).then(|| option("--first", self.first.to_string()));
        let seed = option("--seed", self.seed.to_string());
        let accepted = match takes {
            Takes::Nothing => vec![],
            Takes::Rounds => vec![rounds],
            Takes::Seed => [Some(rounds), first, Some(seed)].into_iter().flatten().collect(),
        };
        accepted.into_iter().flatten().collect()
    }
}

/// Returns a random seed.
fn chance() -> u64 {
    // The standard library has no random numbers other than the keys of a hash map.
    u64::from(RandomState::new().build_hasher().finish() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extent_is_that_of_the_job_unless_another_is_requested() {
        let usual = Rounds { suite: None, short: 3, long: 50 };
        let requested = Requested { rounds: None, long: false, first: 1, seed: Some(7) };
        assert_eq!(requested.of(usual).words(Takes::Seed), ["--rounds", "3", "--seed", "7"]);
        assert_eq!(requested.long().of(usual).words(Takes::Rounds), ["--rounds", "50"]);
        let from_second = Requested { rounds: Some(5), first: 2, ..requested }.of(usual);
        assert_eq!(from_second.words(Takes::Seed), ["--rounds", "5", "--first", "2", "--seed", "7"]);
        assert!(from_second.words(Takes::Nothing).is_empty());
    }

    #[test]
    fn an_option_without_a_meaning_for_a_job_is_named() {
        let none = Requested { rounds: None, long: true, first: 1, seed: None };
        assert!([Takes::Nothing, Takes::Rounds, Takes::Seed].iter().all(|&takes| none.unknown_to(takes).is_none()));
        let all = Requested { rounds: Some(3), long: false, first: 2, seed: Some(7) };
        let unknown = [Takes::Nothing, Takes::Rounds, Takes::Seed].map(|takes| all.unknown_to(takes));
        assert_eq!(unknown, [Some("--rounds"), Some("--seed"), None]);
    }

    #[test]
    fn a_seed_is_chosen_at_random_and_a_named_job_has_a_round() {
        let record = Rounds { suite: None, short: 0, long: 0 };
        let requested = Requested { rounds: None, long: false, first: 1, seed: None };
        let [one, other] = [(); 2].map(|()| requested.of(record));
        assert_ne!(one.seed, other.seed);
        assert_eq!(one.rounds, 1);
    }
}
