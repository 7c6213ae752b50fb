//! [`Explanation`]: a reason and a remedy.

use alloc::borrow::Cow;
use core::fmt;

/// The reason for a failure, and the remedy. The code that detects the fault creates both, so that no other code has to
/// parse a message.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Explanation {
    /// The reason: a clause without an article before its subject and without a full stop. Never empty.
    pub reason: Cow<'static, str>,
    /// The remedy, in the imperative; empty if no remedy exists.
    pub remedy: Cow<'static, str>,
}

impl Explanation {
    /// Returns an explanation with this reason and this remedy. The remedy is in the imperative.
    #[must_use]
    pub fn new(reason: impl Into<Cow<'static, str>>, remedy: impl Into<Cow<'static, str>>) -> Explanation {
        Explanation { reason: reason.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Explanation {
    /// Writes the explanation in one line: `slice is zero; use 1 ns up to the period`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn one_line_holds_the_reason_and_the_remedy_if_there_is_one() {
        assert_eq!(Explanation::new("slice is zero", "use 1 ns").to_string(), "slice is zero; use 1 ns");
        assert_eq!(Explanation::new("slice is zero", "").to_string(), "slice is zero");
    }
}
