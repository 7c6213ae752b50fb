//! [`Part`]: the part of a round at which an incomplete instant continues.

/// The part of a round at which the next call continues an incomplete instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Packets, reviews of boosts, and halts of vCPUs: the beginning of a round.
    Arrivals,
    /// Visits of guests.
    Guests,
    /// Visits of hosts.
    Hosts,
}
