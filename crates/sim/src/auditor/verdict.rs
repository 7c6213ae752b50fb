//! [`Verdict`]: what an [`Auditor`](super::Auditor) found wrong.

use sched::{CpuId, EntityId, Instant};
use std::collections::BTreeMap;
use std::fmt;

/// Findings kept in full; further ones are only counted.
const FINDINGS_KEPT: usize = 20;

/// What was broken.
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
    /// What two levels tell of the same CPU.
    Level,
    /// Kicks and alarms: each once, when it is due.
    Delivery,
    /// CPU time that a VM gets boosted.
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

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was broken.
    pub rule: Rule,
    /// When it was noticed.
    pub at: Instant,
    /// The entity concerned. `None`: none.
    pub entity: Option<EntityId>,
    /// Where, if it is about a CPU.
    pub cpu: Option<CpuId>,
    /// What happened, in words.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.at, self.what)
    }
}

/// All that is wrong: the first findings in full, and how many there were of each kind.
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

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// The first findings, in the order in which they were noticed.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How often `rule` was broken.
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
