//! Tests that the manual and the parser have the same keys.

use super::coordination::COORDINATION_KEYS;
use super::file::{COST_KEYS, FILE_KEYS};
use super::guest::{GUEST_KEYS, HALT_POLLING_KEYS};
use super::manager::MANAGER_KEYS;
use super::network::{DISK_KEYS, NETWORK_KEYS};
use super::policy::POLICY_KEYS;
use super::samples::SAMPLES_KEYS;
use super::tables::{GROUP_KEYS, GUEST_TASK_KEYS, TASK_KEYS, VM_KEYS};
use crate::rtapp::{SETTINGS, THREAD_KEYS, WITHOUT_EFFECT};

const MANUAL: &str = include_str!("../../../docs/scenarios.md");

/// Returns the keys in the table of the manual's section `title`.
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
        ("network", NETWORK_KEYS),
        ("disk", DISK_KEYS),
        ("manager", MANAGER_KEYS),
        ("samples", SAMPLES_KEYS),
        ("group", GROUP_KEYS),
        ("vm", VM_KEYS),
        ("guest", GUEST_KEYS),
        ("halt_polling", HALT_POLLING_KEYS),
        ("coordination", COORDINATION_KEYS),
    ] {
        assert_eq!(documented(title), keys, "{title}");
    }
    for workload in workloads::ALL {
        // Section `workload` also explains the periodic workload.
        let title = if workload.name == "periodic" { "workload" } else { workload.name };
        assert_eq!(documented(title), workload.keys, "{title}");
    }
    let of_a_vm = ["vcpus", "cap", "quota", "gang", "stagger", "switch", "change", "guest", "group", "task"];
    let of_a_task: Vec<&str> = VM_KEYS.iter().copied().filter(|key| !of_a_vm.contains(key)).collect();
    assert_eq!(TASK_KEYS, of_a_task);
    let in_a_guest: Vec<&str> =
        TASK_KEYS.iter().copied().filter(|key| !["host", "command", "pid", "mechanism"].contains(key)).collect();
    assert_eq!(GUEST_TASK_KEYS, in_a_guest);
}

#[test]
fn the_manual_names_what_rt_app_settings_do() {
    let (_, section) = MANUAL.split_once("\n## rt-app\n").expect("the manual has a section rt-app");
    let section = section.split("\n# ").next().unwrap_or_default();
    let (_, ignored) = section.split_once("Without effect: ").expect("it says what is without effect");
    let ignored = ignored.split("\n\n").next().unwrap_or_default();
    for name in WITHOUT_EFFECT.iter().chain(&["nodes_membind", "membind_nodes", "util_min", "util_max", "resources"]) {
        assert!(ignored.contains(&format!("`{name}`")), "{name}");
    }
    for name in SETTINGS.iter().chain(THREAD_KEYS) {
        assert!(section.contains(&format!("`{name}`")) && !ignored.contains(&format!("`{name}`")), "{name}");
    }
}
