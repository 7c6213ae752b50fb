//! Checks of the units with systemd's own tools, which need no running systemd.

use super::package::output;
use crate::component;
use crate::root::root;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Folder of the units.
const FOLDER: &str = "packaging/systemd";
/// Maximum exposure of each service, as `systemd-analyze security` rates it from 0 to 10. Unit: a tenth.
const EXPOSURES: [(&str, u32); 2] = [("tactus.service", 20), ("tactus-core.service", 50)];

fn unit(name: &str) -> String {
    fs::read_to_string(root().join(FOLDER).join(name)).unwrap()
}

/// Returns the exposure in the output of `systemd-analyze security`, in tenths.
fn exposure(text: &str) -> Option<u32> {
    let rating = text.lines().find_map(|line| line.split_once("Overall exposure level for ")?.1.split_once(": "))?.1;
    let (whole, tenths) = rating.split_whitespace().next()?.split_once('.')?;
    Some(whole.parse::<u32>().ok()? * 10 + tenths.parse::<u32>().ok()?)
}

/// Writes the units `named` with their texts to a folder, and returns the folder and their paths.
fn written(named: &[(&str, String)]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = named.iter().map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let paths = paths.collect();
    (folder, paths)
}

fn security(name: &str, text: String) -> u32 {
    let (_folder, paths) = written(&[(name, text)]);
    let text = output(Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager"]).args(paths));
    exposure(&text.unwrap()).unwrap()
}

/// Returns what `systemd-analyze verify` finds in the units.
fn verify(units: &[(&str, String)]) -> String {
    let program = std::env::current_exe().unwrap();
    // `verify` rejects a program that is not installed.
    let here = |text: &str| text.replace("/usr/bin/tactus ", &format!("{} ", program.display()));
    let units: Vec<(&str, String)> = units.iter().map(|(name, text)| (*name, here(text))).collect();
    let (folder, paths) = written(&units);
    let mut verify = Command::new("systemd-analyze");
    // The man pages are not installed, either.
    let found = verify.args(["verify", "--man=no"]).args(paths).env("SYSTEMD_LOG_LEVEL", "warning").output().unwrap();
    let folder = folder.path().to_string_lossy().into_owned();
    let text = String::from_utf8_lossy(&found.stderr).into_owned();
    // Findings about units of this machine do not count.
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("tactus") || line.contains(&folder)).collect();
    ours.join("\n")
}

#[test]
fn the_sandboxes_of_the_units_are_as_tight_as_promised() {
    if let Err(reason) = component::systemd() {
        return eprintln!("SKIPPED: {reason}");
    }
    for (name, most) in EXPOSURES {
        let found = security(name, unit(name));
        println!("{name}: {}.{}", found / 10, found % 10);
        assert!(found <= most, "{name} has an exposure of {found} tenths, above {most}");
        let open = unit(name).lines().filter(|line| !line.starts_with("Capability")).collect::<Vec<_>>().join("\n");
        assert!(security(name, open) > found, "all capabilities of root make a difference");
    }
    assert_eq!(exposure("x\n→ Overall exposure level for a.service: 10.3 X\n"), Some(103));
    assert_eq!(exposure("no rating"), None);
}

#[test]
fn the_unit_of_the_agent_in_a_guest_is_sound_and_has_few_rights() {
    if let Err(reason) = component::systemd() {
        return eprintln!("SKIPPED: {reason}");
    }
    let unit = fs::read_to_string(root().join("packaging/guest/tactus-guest.service")).unwrap();
    let program = std::env::current_exe().unwrap().display().to_string();
    let runnable = unit.replace("/usr/bin/tactus-guest", &program);
    assert_eq!(verify(&[("tactus-guest.service", runnable)]), "");
    let found = security("tactus-guest.service", unit);
    assert!(found <= 50, "it has an exposure of {found} tenths");
}

/// Returns the unit of the core with the drop-in of the package tactus-scx.
fn core_with_scheduler() -> String {
    let drop_in = fs::read_to_string(root().join("packaging/scx/sched-ext.conf")).unwrap();
    let (_, settings) = drop_in.split_once("[Service]\n").unwrap();
    unit("tactus-core.service").replace("\n[Install]\n", &format!("\n{settings}\n[Install]\n"))
}

#[test]
fn the_drop_in_of_the_scheduler_adds_an_option_a_capability_and_a_system_call() {
    let (unit, with) = (unit("tactus-core.service"), core_with_scheduler());
    let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert!(start.ends_with(" $TACTUS_CORE_OPTIONS") && !start.contains("--sched-ext"), "{start}");
    let last = |text: &str| text.lines().rfind(|line| line.starts_with("Environment=")).map(str::to_string);
    assert_eq!(last(&unit).as_deref(), Some("Environment=TACTUS_CORE_OPTIONS="));
    assert_eq!(last(&with).as_deref(), Some("Environment=TACTUS_CORE_OPTIONS=--sched-ext"));
    // Without the drop-in, the core may not load programs in BPF.
    assert!(!unit.contains("CAP_BPF") && !unit.lines().any(|line| line == "SystemCallFilter=bpf"), "{unit}");
    if let Err(reason) = component::systemd() {
        return eprintln!("SKIPPED: {reason}");
    }
    assert_eq!(verify(&[("tactus-core.service", with.clone())]), "");
    let (less, more) = (security("tactus-core.service", unit), security("tactus-core.service", with));
    println!("tactus-core.service: {less} tenths, {more} with the drop-in");
    assert!(less <= more && more <= less + 2, "{less} and {more} tenths");
}

#[test]
fn systemd_accepts_the_units_and_the_user() {
    if let Err(reason) = component::systemd() {
        return eprintln!("SKIPPED: {reason}");
    }
    let names = ["tactus.socket", "tactus.service", "tactus-core.service"];
    let units = names.map(|name| (name, unit(name)));
    assert_eq!(verify(&units), "");
    let wrong = units.clone().map(|(name, text)| (name, text.replace("RestrictRealtime=", "RestrictRealTime=")));
    assert!(verify(&wrong).contains("RestrictRealTime"), "{}", verify(&wrong));
    let users = root().join("packaging/tactus.sysusers");
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join("etc")).unwrap();
    let mut sysusers = Command::new("systemd-sysusers");
    output(sysusers.arg(format!("--root={}", empty.path().display())).arg(users)).unwrap();
    let made = fs::read_to_string(empty.path().join("etc/passwd")).unwrap();
    assert!(made.starts_with("tactus:"), "{made}");
}

#[test]
fn the_front_end_needs_no_session() {
    // The user of the unit has no XDG_RUNTIME_DIR and no home, so no path has a default.
    let unit = unit("tactus.service").replace("\\\n", " ");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts a program");
    for option in ["--config", "--core", "--labels", "--libvirt", "--socket", "--state"] {
        let path = start.split_whitespace().skip_while(|word| *word != option).nth(1);
        assert!(path.is_some_and(|path| path.starts_with('/')), "{option}: {start}");
    }
}

#[test]
fn a_restart_of_the_front_end_leaves_the_core_alone() {
    let (front, core) = (unit("tactus.service"), unit("tactus-core.service"));
    // With Requires=, PartOf= or BindsTo=, systemd would end one unit with the other.
    assert!(front.contains("\nWants=tactus-core.service\n") && !core.contains("=tactus.service"), "{front}{core}");
    for dependency in ["PartOf=", "BindsTo=", "Requires=tactus-core"] {
        assert!(![&front, &core].into_iter().any(|unit| unit.contains(dependency)), "{dependency}");
    }
    // The guardian outlives the core.
    assert!(core.contains("\nKillMode=process\n"), "{core}");
}

#[test]
fn a_reload_replaces_the_program_of_the_core_and_an_upgrade_reloads_it() {
    assert!(unit("tactus-core.service").contains("\nExecReload=/bin/sh -c \"kill -s HUP $MAINPID\"\n"));
    let script = fs::read_to_string(root().join("packaging/debian/postinst")).unwrap();
    assert!(script.contains("invoke-rc.d tactus-core reload") && !script.contains("restart tactus-core"), "{script}");
}
