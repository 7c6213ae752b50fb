//! The claims that a command of `tactus lab` selects.

use crate::failure::{Failure, usage};

/// Returns the claims that `asked` names; an empty list for all claims.
pub(crate) fn named(asked: &[String]) -> Result<Vec<String>, Failure> {
    let (all, named): (Vec<String>, Vec<String>) = asked.iter().cloned().partition(|id| id == "all");
    if all.is_empty() || named.is_empty() {
        return Ok(named);
    }
    let reason = format!("`all` includes every claim, so {} is redundant", named.join(", "));
    Err(usage(reason, "use `all` alone, or the claims alone"))
}
