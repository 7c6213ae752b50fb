//! What a policy promises, in words.

use sched::{Conserving, Descriptor, Knobs, LoadBounds, Nanos, Topology};

/// One promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// What it is about.
    pub about: &'static str,
    /// What is promised.
    pub words: String,
}

/// Asks `of` about eight equal entities that always want to run, under a policy's defaults, on this many CPUs.
fn ask<T>(policy: &Descriptor, cpus: usize, limits: bool, of: impl Fn(&LoadBounds<'_>) -> T) -> T {
    ask_of(policy, cpus, limits, false, of)
}

/// The same of eight that are in a gang.
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

/// How soon, and where, an idle CPU finds work.
#[must_use]
pub fn scope(policy: &Descriptor) -> Conserving {
    ask(policy, 4, false, policy.conserving)
}

/// The same in words.
#[must_use]
pub fn scope_in_words(policy: &Descriptor) -> String {
    let within = |slack: Nanos| if slack.is_zero() { String::new() } else { format!(" for more than {slack}") };
    let words = match scope(policy) {
        Conserving::Never => "no promise: a CPU may idle while somebody waits".to_string(),
        Conserving::PerCpu { slack } => format!("no CPU idles{} while somebody assigned to it waits", within(slack)),
        Conserving::Domain { slack } => {
            format!("no CPU idles{} while somebody waits among the CPUs of its cache", within(slack))
        }
        Conserving::Global { slack } => format!("no CPU idles{} while anybody waits who may run there", within(slack)),
    };
    let without = scope(policy) != Conserving::Never && ask_of_gangs(policy, policy.conserving) == Conserving::Never;
    if without { words + GANGS_APART } else { words }
}

const GANGS_APART: &str = "; not where VMs are brought together";

/// Everything `policy` promises, in words.
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
        add("quotas", format!("kept in every span, but for twice the quota and {beyond}"));
    }
    if let Some(cap) = ask(policy, 4, true, policy.guarantees.cap) {
        add("caps", format!("kept in every span, but for {} in every {} and {}", cap.rounding, cap.period, cap.burst));
    }
    all
}
