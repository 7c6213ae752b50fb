//! The guarantees of a policy, as sentences.

use sched::{Conserving, Descriptor, Knobs, LoadBounds, Nanos, Topology};

/// One guarantee.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Subject of the guarantee.
    pub about: &'static str,
    /// The guarantee as a sentence.
    pub words: String,
}

/// Evaluates `of` for eight equal hogs on `cpus` CPUs, with the default knobs of the policy. `limits`: whether groups
/// have quotas or caps.
fn ask<T>(policy: &Descriptor, cpus: usize, limits: bool, of: impl Fn(&LoadBounds<'_>) -> T) -> T {
    ask_of(policy, cpus, limits, false, of)
}

/// Evaluates `of` for eight equal hogs in gangs on four CPUs, with the default knobs of the policy.
fn ask_of_gangs<T>(policy: &Descriptor, of: impl Fn(&LoadBounds<'_>) -> T) -> T {
    ask_of(policy, 4, false, true, of)
}

fn ask_of<T>(policy: &Descriptor, cpus: usize, limits: bool, gangs: bool, of: impl Fn(&LoadBounds<'_>) -> T) -> T {
    let (host, knobs): (Topology, Knobs) = (Topology::new(cpus), policy.defaults());
    of(&LoadBounds {
        group_depth: u32::from(gangs),
        has_gangs: gangs,
        has_limits: limits,
        ..LoadBounds::of_hogs(&host, &knobs, 8)
    })
}

/// Returns the delay until an idle CPU finds work, and the CPUs from which the idle CPU takes work.
#[must_use]
pub fn scope(policy: &Descriptor) -> Conserving {
    ask(policy, 4, false, policy.conserving)
}

/// Formats the delay until an idle CPU finds work, and the CPUs from which the idle CPU takes work.
#[must_use]
pub fn scope_in_words(policy: &Descriptor) -> String {
    let within = |slack: Nanos| if slack.is_zero() { String::new() } else { format!(" for more than {slack}") };
    let words = match scope(policy) {
        Conserving::Never => "no guarantee: a CPU may idle while an entity waits".to_string(),
        Conserving::PerCpu { slack } => format!("no CPU idles{} while an entity assigned to it waits", within(slack)),
        Conserving::Domain { slack } => {
            format!("no CPU idles{} while an entity waits on a CPU of its cache", within(slack))
        }
        Conserving::Global { slack } => {
            format!("no CPU idles{} while an entity that may run there waits", within(slack))
        }
    };
    let without = scope(policy) != Conserving::Never && ask_of_gangs(policy, policy.conserving) == Conserving::Never;
    if without { words + GANGS_APART } else { words }
}

const GANGS_APART: &str = "; not if VMs are co-scheduled";

/// Returns all guarantees of `policy`, as sentences.
#[must_use]
pub fn promises(policy: &Descriptor) -> Vec<Promise> {
    let mut all = vec![Promise { about: "idle CPUs", words: scope_in_words(policy) }];
    let mut add = |about, words| all.push(Promise { about, words });
    add(
        "the longest wait",
        match (ask(policy, 4, false, policy.starvation), ask_of_gangs(policy, policy.starvation)) {
            (Some(bound), Some(_)) => format!("at most {bound}"),
            (Some(bound), None) => format!("at most {bound}{GANGS_APART}"),
            (None, _) => "without bound".to_string(),
        },
    );
    if let Some(bound) = ask(policy, 1, false, policy.guarantees.shares) {
        add("shares by weight", format!("within {bound} of the exact share, at any time, on one CPU"));
    }
    if let Some(lacking) = ask(policy, 1, false, policy.guarantees.reservations) {
        let exactly = "each granted slice in each period, on one CPU".to_string();
        add("reservations", if lacking.is_zero() { exactly } else { format!("{exactly}, less at most {lacking}") });
    }
    if let Some(beyond) = ask(policy, 4, true, policy.guarantees.quota) {
        add("quotas", format!("kept in every span, except for twice the quota and {beyond}"));
    }
    if let Some(cap) = ask(policy, 4, true, policy.guarantees.cap) {
        add(
            "caps",
            format!("kept in every span, except for {} in every {} and {}", cap.rounding, cap.period, cap.burst),
        );
    }
    all
}
