//! [`Verdict`]: the findings of an [`Auditor`](super::Auditor).

use sched::{CpuId, EntityId, Instant};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of findings stored in full. Further findings are only counted.
const FINDINGS_KEPT: usize = 20;

/// A rule that the auditor checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// A law, by its number in ARCHITECTURE.md.
    Law(u8),
    /// CPU time by weight.
    Share,
    /// A quota or a cap.
    Limit,
    /// The deadline of a job.
    Deadline,
    /// A slice in every period.
    Reservation,
    /// Agreement of the records of two levels about the same CPU.
    Level,
    /// Delivery of kicks and alarms: exactly once, when due.
    Delivery,
    /// Boosted CPU time of a VM, and the parameters of its vCPUs without a boost.
    Boost,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Law(number) => write!(f, "law {number}"),
            Rule::Share => f.write_str("share"),
            Rule::Limit => f.write_str("limit"),
            Rule::Deadline => f.write_str("deadline"),
            Rule::Reservation => f.write_str("reservation"),
            Rule::Level => f.write_str("levels"),
            Rule::Delivery => f.write_str("delivery"),
            Rule::Boost => f.write_str("boost"),
        }
    }
}

/// A violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// Instant of the detection.
    pub at: Instant,
    /// The entity concerned, if any.
    pub entity: Option<EntityId>,
    /// The CPU concerned, if any.
    pub cpu: Option<CpuId>,
    /// Description of the violation.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.at, self.what)
    }
}

/// All violations: the first findings in full, and the number of findings per rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    findings: Vec<Finding>,
    counts: BTreeMap<Rule, u64>,
}

impl Verdict {
    pub(super) fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.rule).or_default() += 1;
        if self.findings.len() < FINDINGS_KEPT {
            self.findings.push(finding);
        }
    }

    /// Returns whether the audit has no findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the first 20 findings, in the order of their detection.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the number of findings for `rule`.
    #[must_use]
    pub fn count(&self, rule: Rule) -> u64 {
        self.counts.get(&rule).copied().unwrap_or(0)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("nothing is wrong");
        }
        let counts: Vec<String> = self.counts.iter().map(|(rule, count)| format!("{rule} {count}×")).collect();
        write!(f, "{}", counts.join(", "))?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
    }
}
