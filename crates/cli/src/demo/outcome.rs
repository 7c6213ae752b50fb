//! The result of the demo: a table with both runs side by side, and sentences about misses and CPU time.

use crate::output;
use measure::{Measures, Meter};
use report::{Report, percent, short};

/// Name of the run under promises.
pub(super) const TACTUS: &str = "Tactus";

/// A kind of VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    name: &'static str,
    asked: &'static str,
}

/// Kinds of VMs. The name of a VM starts with the name of its kind.
const KINDS: [Kind; 3] = [
    Kind { name: "interactive", asked: "2ms/10ms" },
    Kind { name: "steady", asked: "20ms/100ms" },
    Kind { name: "batch", asked: "–" },
];

/// One of the two runs.
pub(super) struct Side {
    pub(super) report: Report,
    /// Total of each kind in [`KINDS`], and number of VMs of this kind.
    got: [(Measures, u64); 3],
}

impl Side {
    pub(super) fn new(report: Report, meter: &Meter) -> Side {
        let got = KINDS.map(|kind| {
            let mut sum = (Measures::default(), 0);
            for member in meter.members().iter().filter(|member| member.name.starts_with(kind.name)) {
                sum.0.add(&member.got);
                sum.1 += 1;
            }
            sum
        });
        Side { report, got }
    }

    fn cells(&self, kind: usize) -> String {
        let (got, _) = &self.got[kind];
        let jobs = &got.jobs;
        let missed = match jobs.releases {
            0 => "–".to_string(),
            releases => format!("{}/{releases}", jobs.misses + jobs.unfinished_late),
        };
        let ppm = u128::from(got.delivered.as_ns()) * 1_000_000 / u128::from(self.report.length_ns.max(1));
        let share = percent(u64::try_from(ppm).unwrap_or(u64::MAX));
        let waits = [got.wakeups.percentile(50), got.wakeups.percentile(99), got.wakeups.longest()];
        let [median, most, longest] = waits.map(|wait| short(wait.as_ns()));
        format!("{share:>6} {missed:>8} {median:>6} {most:>6} {longest:>6}")
    }
}

/// Returns the table: for each kind of VM, the request, and the result under each policy.
pub(super) fn table(sides: &[&Side]) -> String {
    let (mut first, mut second) = (format!("{:<23}", ""), format!("{:<12}{:<11}", "", "needs"));
    for side in sides {
        first += &format!(" │{:<14}{:>22}", side.report.policy, "wake-up latency");
        second += &format!(" │{:>6} {:>8} {:>6} {:>6} {:>6}", "got", "missed", "p50", "p99", "max");
    }
    let mut text = format!("{}\n{second}\n", output::heading(&first));
    for (nth, kind) in KINDS.iter().enumerate() {
        let count = sides.first().map_or(0, |side| side.got[nth].1);
        let name = if count > 1 { format!("{} ×{count}", kind.name) } else { kind.name.to_string() };
        text += &format!("{name:<12}{:<11}", kind.asked);
        for side in sides {
            text += &format!(" │{}", side.cells(nth));
        }
        text.push('\n');
    }
    text
}

/// Returns the label of the CPU time that no VM of the demo used.
fn left_over(side: &Side) -> &'static str {
    if side.report.policy == TACTUS { "idle or other processes" } else { "idle" }
}

/// Returns sentences: the misses of the two VMs with deadlines under each policy, whether the promises were kept, and
/// the CPU time of the batch VMs.
pub(super) fn sentence(sides: &[&Side]) -> String {
    let mut text = String::new();
    for side in sides {
        let policy = &side.report.policy;
        let missed = |kind: usize| {
            let jobs = &side.got[kind].0.jobs;
            (jobs.misses + jobs.unfinished_late, jobs.releases, jobs.worst_lateness)
        };
        let ((interactive, of, by), (steady, of_steady, by_steady)) = (missed(0), missed(1));
        text += &match interactive + steady {
            0 => format!("Under {policy}, both met all {} deadlines.\n", of + of_steady),
            _ => format!(
                "Under {policy}, interactive missed {interactive} of {of} deadlines and steady {steady} of {of_steady}, \
                 by up to {}.\n",
                short(by.max(by_steady).as_ns())
            ),
        };
    }
    let missed = |side: &&Side| side.report.total.late_jobs();
    let shares = sides.iter().map(|side| {
        let all = u128::from(side.report.length_ns) * side.report.cpus as u128;
        let ppm = u128::from(side.got[2].0.delivered.as_ns()) * 1_000_000 / all.max(1);
        let idle = 1_000_000_u64.saturating_sub(side.report.total.delivered_ppm);
        (percent(u64::try_from(ppm).unwrap_or(u64::MAX)), percent(idle))
    });
    let shares: Vec<(String, String)> = shares.collect();
    if let ([before, after], [(had, _), (have, idle)]) = (sides, shares.as_slice()) {
        text += match (missed(before), missed(after)) {
            (_, 0) => "The promises were kept",
            (worse, better) if better < worse => "Not every promise was kept",
            _ => "The promises did not help",
        };
        text += &format!("; batch got {have} of the machine instead of {had}, and {idle} was {}.\n", left_over(after));
    }
    text
}
