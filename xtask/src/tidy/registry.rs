//! Rules about the registry of policies: the registry is complete and sorted, and each policy has the name of its file.

use super::{files, text, tidy};
use std::collections::BTreeMap;

const SOURCE: &str = "crates/policies/src";

/// Sources of the modules of the policies crate, by module name.
type Modules = BTreeMap<String, String>;

/// Returns the modules in the folder, except the registry and the canaries, which break laws on purpose.
fn modules() -> Modules {
    let mut found = Modules::new();
    for path in files() {
        let Ok(inside) = path.strip_prefix(SOURCE) else { continue };
        let first = inside.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned());
        let Some(first) = first.filter(|first| !matches!(first.as_str(), "lib.rs" | "canary.rs")) else { continue };
        // The source of a folder module is the text of all files in the folder.
        let module: &mut String = found.entry(first.trim_end_matches(".rs").to_string()).or_default();
        module.push_str(&text(&path));
    }
    found
}

/// Returns the entries of `ALL`, in the order of the source.
fn entries(registry: &str) -> Vec<String> {
    let list = registry.split_once("ALL: &[&Descriptor] = &[").and_then(|(_, rest)| rest.split_once("];"));
    let (list, _) = list.expect("the registry has a list");
    let entry = |entry: &str| Some(entry.trim().strip_prefix('&')?.strip_suffix("::POLICY")?.to_string());
    list.split(',').filter_map(entry).collect()
}

fn problems(registry: &str, modules: &Modules) -> Vec<String> {
    let mut findings = Vec::new();
    let entries = entries(registry);
    let kebab = |name: &String| name.replace('_', "-");
    if !entries.is_sorted_by_key(kebab) {
        findings.push(format!("ALL is not in alphabetical order: {entries:?}"));
    }
    for (name, text) in modules {
        if !registry.lines().any(|line| line.trim_end_matches(';').ends_with(&format!("mod {name}"))) {
            findings.push(format!("{name} has no `mod` line"));
        }
        if !text.contains("const POLICY: Descriptor") {
            // A module without a policy must be used by another module.
            let used = modules.iter().any(|(other, text)| other != name && text.contains(&format!("{name}::")));
            if !used {
                findings.push(format!("{name} neither is a policy nor does any policy use it"));
            }
            continue;
        }
        if !entries.contains(name) {
            findings.push(format!("{name} is not in ALL"));
        }
        if !text.contains(&format!("name: \"{}\"", kebab(name))) {
            findings.push(format!("the policy in {name} has another name"));
        }
        if !text.starts_with("//! ") {
            findings.push(format!("{name} does not begin with an essay"));
        }
    }
    let gone = entries.iter().filter(|entry| !modules.contains_key(*entry));
    findings.extend(gone.map(|entry| format!("{entry} is in ALL but has no file")));
    findings
}

#[test]
fn the_registry_is_complete_sorted_and_named_like_its_files() {
    let modules = modules();
    assert!(modules.contains_key("round_robin") && modules.contains_key("edf"), "{:?}", modules.keys());
    tidy(&problems(&text(format!("{SOURCE}/lib.rs")), &modules));
}

#[test]
fn every_way_to_get_the_registry_wrong_is_found() {
    let policy = |name: &str| format!("//! {name}\nconst POLICY: Descriptor = Descriptor {{ name: \"{name}\" }};\n");
    let right: Modules = [("a_b", "a-b"), ("c", "c")].map(|(file, name)| (file.to_string(), policy(name))).into();
    let registry = "mod a_b;\nmod c;\npub const ALL: &[&Descriptor] = &[&a_b::POLICY, &c::POLICY];\n";
    assert_eq!(problems(registry, &right), [""; 0]);

    let unsorted = registry.replace("&a_b::POLICY, &c::POLICY", "&c::POLICY, &a_b::POLICY");
    assert_eq!(problems(&unsorted, &right).len(), 1);
    let missing = registry.replace("mod c;\n", "").replace(", &c::POLICY", "");
    assert_eq!(problems(&missing, &right), ["c has no `mod` line", "c is not in ALL"]);
    let mut wrong = right.clone();
    wrong.insert("c".to_string(), policy("sea"));
    wrong.insert("part".to_string(), "//! A part.\n".to_string());
    let found = problems(&registry.replace("mod c;", "mod c;\nmod part;"), &wrong);
    assert_eq!(found, ["the policy in c has another name", "part neither is a policy nor does any policy use it"]);
    wrong.remove("c");
    assert!(problems(registry, &wrong).contains(&"c is in ALL but has no file".to_string()));
}
