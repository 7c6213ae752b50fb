//! [`Length`]: a duration in a program or of a line, constant or drawn at random at every use.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sched::Nanos;

/// A duration, constant or random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// A constant time.
    Fixed(Nanos),
    /// A uniformly distributed time from `least` to `most`, both included.
    Uniform {
        /// Minimum time.
        least: Nanos,
        /// Maximum time. Range: from `least`.
        most: Nanos,
    },
    /// An exponentially distributed time, as between independent events; at most 32 times the mean.
    Exponential {
        /// Mean time.
        mean: Nanos,
    },
    /// The sum of `least` and an exponentially distributed time.
    AtLeast {
        /// Minimum time.
        least: Nanos,
        /// Mean time, including `least`. Range: from `least`.
        mean: Nanos,
    },
}

impl From<Nanos> for Length {
    fn from(time: Nanos) -> Length {
        Length::Fixed(time)
    }
}

/// Random draws of one task or line, independent of the draws of other tasks and lines.
#[derive(Clone, Debug)]
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    /// Creates the draws of the task or line with number `task`.
    pub(crate) fn new(seed: u64, task: u64) -> Draws {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(task);
        Draws(rng)
    }

    /// Draws a uniformly distributed number from 0 to `most`, both included.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        let Some(count) = most.checked_add(1) else { return self.0.next_u64() };
        // A draw that is not below the largest multiple of `count` up to 2^64 is repeated, so that all results are
        // equally likely.
        let spare = u64::MAX - (u64::MAX % count + 1) % count;
        loop {
            let drawn = self.0.next_u64();
            if drawn <= spare {
                return drawn % count;
            }
        }
    }

    pub(crate) fn length(&mut self, length: Length) -> Nanos {
        match length {
            Length::Fixed(time) => time,
            Length::Uniform { least, most } => least + Nanos::ns(self.up_to(most.saturating_sub(least).as_ns())),
            Length::AtLeast { least, mean } => {
                least + self.length(Length::Exponential { mean: mean.saturating_sub(least) })
            }
            Length::Exponential { mean } => {
                // A number from 2^-53 to 1. libm's logarithm is the same on every machine.
                let uniform = ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                let times = (-libm::log(uniform)).min(32.0);
                Nanos::ns((times * mean.as_ns() as f64) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_mean_and_range_they_say() {
        let mut draws = Draws::new(7, 3);
        let mean = |draws: &mut Draws, length| {
            let drawn: Vec<u64> = (0..20_000).map(|_| draws.length(length).as_ns()).collect();
            (drawn.iter().sum::<u64>() / 20_000, *drawn.iter().min().unwrap(), *drawn.iter().max().unwrap())
        };
        let (middle, least, most) = mean(&mut draws, Length::Uniform { least: Nanos::us(10), most: Nanos::us(30) });
        assert!((19_800..=20_200).contains(&middle) && least >= 10_000 && most <= 30_000, "{middle} {least} {most}");
        let (middle, ..) = mean(&mut draws, Length::Exponential { mean: Nanos::us(50) });
        assert!((48_500..=51_500).contains(&middle), "{middle}");
        let (middle, least, _) = mean(&mut draws, Length::AtLeast { least: Nanos::us(20), mean: Nanos::us(50) });
        assert!((49_000..=51_000).contains(&middle) && (20_000..20_100).contains(&least), "{middle} {least}");
        assert_eq!(draws.length(Length::Fixed(Nanos::us(5))), Nanos::us(5));
    }

    #[test]
    fn tasks_draw_for_themselves() {
        let draw = |seed, task| Draws::new(seed, task).up_to(u64::MAX);
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
