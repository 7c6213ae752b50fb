//! The manual and the parser know the same keys.

use super::file::{COST_KEYS, FILE_KEYS, GROUP_KEYS, PERIODIC_KEYS, POLICY_KEYS, TASK_KEYS, VM_KEYS};

const MANUAL: &str = include_str!("../../../../docs/scenarios.md");

/// The keys that the manual's section `title` has in its table.
fn documented(title: &str) -> Vec<&'static str> {
    let heading = format!("\n## {title}\n");
    let (_, section) = MANUAL.split_once(&heading).unwrap_or_else(|| panic!("the manual has a section {title}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(key, _)| key).collect()
}

#[test]
fn the_manual_has_every_key_and_no_other() {
    for (title, keys) in [
        ("The file", FILE_KEYS),
        ("policy", POLICY_KEYS),
        ("costs", COST_KEYS),
        ("group", GROUP_KEYS),
        ("vm", VM_KEYS),
        ("workload", PERIODIC_KEYS),
    ] {
        assert_eq!(documented(title), keys, "{title}");
    }
    let of_a_task: Vec<&str> =
        VM_KEYS.iter().copied().filter(|key| !["vcpus", "cap", "quota", "gang"].contains(key)).collect();
    assert_eq!(TASK_KEYS, of_a_task);
}
