//! Which claims and recorded results a command of `tactus lab` means.

use crate::failure::{Failure, usage};

/// The file with the results of a paper.
pub(crate) const RECORDED: &str = "measured.json";

/// The claims that `asked` names; `None` for all.
pub(crate) fn named(asked: &[String]) -> Result<Vec<String>, Failure> {
    let (all, named): (Vec<String>, Vec<String>) = asked.iter().cloned().partition(|id| id == "all");
    if all.is_empty() || named.is_empty() {
        return Ok(named);
    }
    let reason = format!("`all` stands for every claim, and {} beside it for nothing more", named.join(", "));
    Err(usage(reason, "use `all` alone, or the claims alone"))
}
