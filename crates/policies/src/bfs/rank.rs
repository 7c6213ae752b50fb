//! [`Rank`]: the order of the classes and of the real-time priorities.

/// The rank of an entity; a lower rank is more urgent. The order is: stop class, real-time priorities from 99 down,
/// ISO, NORMAL, IDLEPRIO.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank(pub(super) u8);

impl Rank {
    pub(super) const ISO: u8 = 100;
    pub(super) const NORMAL: Rank = Rank(101);
    pub(super) const IDLE: Rank = Rank(102);

    /// Returns the index of the deadline tree of this rank, if the rank has a deadline tree.
    pub(super) fn tree(self) -> Option<usize> {
        self.0.checked_sub(Rank::ISO).map(usize::from)
    }
}
