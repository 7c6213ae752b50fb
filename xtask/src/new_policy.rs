//! `cargo xtask new-policy NAME`: creates a file from the template and two lines in the registry.

use crate::component::works;
use crate::root::root;
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

const TEMPLATE: &str = include_str!("../templates/policy.rs");
/// Name of the policy in the template, in three spellings.
const STAND_IN: (&str, &str, &str) = ("example-policy", "example_policy", "ExamplePolicy");
const NAME_MAX: usize = 40;

/// Keywords of Rust, which cannot name a module.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
const TAKEN: &[&str] = &["all", "canary", "lib", "main", "mod", "sched", "std", "core", "alloc", "test", "tests"];
const DRAWERS: &[&str] = &["utils", "util", "common", "helper", "helpers", "misc"];

/// Creates the policy. On a failure, prints the reason and changes nothing.
pub(crate) fn run(name: &str) -> Result<ExitCode> {
    match create(&root(), name) {
        Ok(file) => {
            println!("made {file} and entered it in crates/policies/src/lib.rs; follow the numbered steps in it");
            println!("its own test: cargo test -p policies {}", name.replace('-', "_"));
            println!("everything:   cargo xtask test");
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => {
            eprintln!("error: {refused}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Creates the policy `name` in the workspace at `root`, and returns the path of its file.
///
/// # Errors
/// The workspace has not changed. The error states the reason and a remedy.
pub(crate) fn create(root: &Path, name: &str) -> Result<String, String> {
    let snake = check_name(name)?;
    let source = root.join("crates/policies/src");
    let registry = source.join("lib.rs");
    let before = fs::read_to_string(&registry).map_err(|error| format!("{}: {error}", registry.display()))?;
    let file = source.join(format!("{snake}.rs"));
    if file.exists() || source.join(&snake).exists() || modules(&before).contains(&snake.as_str()) {
        return Err(format!("there is a policy `{name}` already; use a name of its own"));
    }
    let after = register(&before, &snake)?;
    let text = TEMPLATE.replace(STAND_IN.0, name).replace(STAND_IN.1, &snake).replace(STAND_IN.2, &camel_case(name));
    let written = fs::write(&file, text).and_then(|()| fs::write(&registry, after));
    if let Err(error) = written {
        // Revert both files, because neither a policy without its entry nor an entry without its file compiles.
        let _ = fs::remove_file(&file);
        let _ = fs::write(&registry, before);
        return Err(format!("cannot write: {error}"));
    }
    // The line breaks depend on the length of the name. Without rustfmt, they stay as in the template.
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--config-path"]).arg(root).arg(&registry);
    if !works(&mut rustfmt) {
        println!("rustfmt is missing\nhelp: run cargo fmt before you commit");
    }
    Ok(format!("crates/policies/src/{snake}.rs"))
}

/// Checks a policy name, and returns its module name.
fn check_name(name: &str) -> Result<String, String> {
    let words_are_right = name
        .split('-')
        .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    if !words_are_right || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(format!(
            "`{}` is not in kebab-case; use lower-case words of a-z and 0-9 joined by single hyphens, \
             such as `stride-two`",
            name.escape_debug()
        ));
    }
    if name.len() > NAME_MAX {
        return Err(format!("the name has {} letters; use at most {NAME_MAX}", name.len()));
    }
    let snake = name.replace('-', "_");
    if KEYWORDS.contains(&snake.as_str()) {
        return Err(format!("`{name}` is a keyword of Rust; use a name that a module can have"));
    }
    if TAKEN.contains(&snake.as_str()) {
        return Err(format!("`{name}` means something else here; use a name of its own"));
    }
    if DRAWERS.contains(&snake.as_str()) {
        return Err(format!("`{name}` says nothing about the policy; name what the policy does"));
    }
    Ok(snake)
}

fn camel_case(name: &str) -> String {
    name.split('-')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_uppercase() + rest
        })
        .collect()
}

/// Returns the modules that the registry declares.
fn modules(registry: &str) -> Vec<&str> {
    registry.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

/// Adds a policy to the source of the registry: a `mod` line and an entry in `ALL`, in alphabetical order.
fn register(registry: &str, snake: &str) -> Result<String, String> {
    const ALL: &str = "pub const ALL: &[&Descriptor] = &[";
    let broken = || format!("crates/policies/src/lib.rs is not as expected: `mod` lines, then `{ALL}…];`");
    let line = format!("mod {snake};\n");
    let mods = || registry.match_indices("mod ").filter(|&(at, _)| at == 0 || registry[..at].ends_with('\n'));
    let after = mods().find(|&(at, _)| registry[at..].lines().next().is_some_and(|found| found > line.trim_end()));
    let at = match after {
        Some((at, _)) => at,
        None => {
            let (last, _) = mods().last().ok_or_else(broken)?;
            last + registry[last..].find('\n').ok_or_else(broken)? + 1
        }
    };
    let with_mod = format!("{}{line}{}", &registry[..at], &registry[at..]);
    let (head, rest) = with_mod.split_once(ALL).ok_or_else(broken)?;
    let (entries, tail) = rest.split_once("];").ok_or_else(broken)?;
    let mut entries: Vec<String> =
        entries.split(',').map(|entry| entry.trim().to_string()).filter(|entry| !entry.is_empty()).collect();
    entries.push(format!("&{snake}::POLICY"));
    // The registry is sorted by policy name: a hyphen sorts before letters and digits.
    entries.sort_by_key(|entry| entry.replace('_', "-"));
    Ok(format!("{head}{ALL}{}];{tail}", entries.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "//! Policies.\n\nmod edf;\nmod round_robin;\n\n\
        pub const ALL: &[&Descriptor] = &[&edf::POLICY, &round_robin::POLICY];\n";

    #[test]
    fn both_lines_are_entered_in_alphabetical_order() {
        for (name, mods, all) in [
            ("bvt", "mod bvt;\nmod edf;\nmod round_robin;", "&bvt::POLICY, &edf::POLICY, &round_robin::POLICY"),
            (
                "lottery",
                "mod edf;\nmod lottery;\nmod round_robin;",
                "&edf::POLICY, &lottery::POLICY, &round_robin::POLICY",
            ),
            (
                "stride",
                "mod edf;\nmod round_robin;\nmod stride;",
                "&edf::POLICY, &round_robin::POLICY, &stride::POLICY",
            ),
        ] {
            let text = register(REGISTRY, name).unwrap();
            assert!(text.contains(&format!("{mods}\n\n")), "{text}");
            assert!(text.contains(&format!("&[{all}];")), "{text}");
        }
        assert!(register("nothing here", "bvt").is_err());
    }

    #[test]
    fn bad_names_are_refused_with_a_reason_and_help() {
        let names = ["Edf", "my_policy", "-a", "a-", "a--b", "2a", "", "ü", "../x", "loop", "yield", "lib", "misc"];
        for name in names.iter().copied().chain([&*"a".repeat(41)]) {
            let refused = check_name(name).unwrap_err();
            assert!(refused.contains("; use ") || refused.contains("; name "), "{name}: {refused}");
        }
        assert_eq!(check_name("stride-2").as_deref(), Ok("stride_2"));
        assert_eq!(camel_case("stride-2-b"), "Stride2B");
    }

    #[test]
    fn a_refused_name_changes_nothing_and_a_good_one_changes_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("crates/policies/src");
        fs::create_dir_all(&source).unwrap();
        let registry = source.join("lib.rs");
        fs::write(&registry, REGISTRY).unwrap();
        for name in ["edf", "round-robin", "fn", "Bad"] {
            assert!(create(folder.path(), name).is_err(), "{name}");
            assert_eq!(fs::read_to_string(&registry).unwrap(), REGISTRY);
            assert_eq!(fs::read_dir(&source).unwrap().count(), 1);
        }
        assert_eq!(create(folder.path(), "two-level").as_deref(), Ok("crates/policies/src/two_level.rs"));
        assert!(fs::read_to_string(&registry).unwrap().contains("mod two_level;\n"));
        let made = fs::read_to_string(source.join("two_level.rs")).unwrap();
        for part in ["name: \"two-level\"", "include_str!(\"two_level.rs\")", "struct TwoLevel", "#[test]"] {
            assert!(made.contains(part), "{part}");
        }
        for stand_in in [STAND_IN.0, STAND_IN.1, STAND_IN.2] {
            assert!(!made.contains(stand_in), "{stand_in}");
        }
    }
}
