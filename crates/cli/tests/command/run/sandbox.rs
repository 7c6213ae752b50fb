//! The core and the front end with the privileges of their units.

use super::super::Place;
use super::{Now, PATIENCE, soon, turn};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use sys::process::Process;

/// User of the front end.
const USER: u32 = 65_534;
/// User of a VM.
const OWNER: u32 = 65_533;

/// Returns the capabilities that the unit of the core may have, as setpriv takes them.
fn capabilities() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/tactus-core.service");
    let unit = std::fs::read_to_string(path).unwrap();
    let listed = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = listed.flat_map(str::split_whitespace).filter_map(|name| name.strip_prefix("CAP_"));
    names.fold("-all".to_string(), |all, name| format!("{all},+{}", name.to_lowercase()))
}

/// A process that ends with the value.
struct Running(std::process::Child);

impl Running {
    fn begin(mut command: Command) -> Running {
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Ends the process in order.
    fn end(mut self) {
        let process = Process::open(self.0.id()).unwrap();
        process.terminate().unwrap();
        assert!(process.ends_within(PATIENCE));
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the command `tactus` with `args`, under setpriv with `privileges`.
fn with_privileges(place: &Place, privileges: &[&str], args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(privileges).arg("--no-new-privs").arg(place.0.path().join("tactus")).args(args);
    command.current_dir(place.0.path());
    command
}

#[test]
fn the_privileges_of_the_units_suffice_for_promises_to_vms_of_another_user() {
    let Some(_turn) = turn() else { return };
    if sys::privileges::user() != 0 || Command::new("setpriv").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: this test needs root and setpriv");
    }
    let place = Place::new();
    let path = |name: &str| place.0.path().join(name);
    // The user of the front end must reach the program and the sockets.
    std::fs::set_permissions(place.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_tactus"), path("tactus")).unwrap();
    std::fs::create_dir(path("state")).unwrap();
    chown(path("state"), Some(USER), Some(USER)).unwrap();
    let manager = UnixDatagram::bind(path("notify.sock")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let bounding = format!("--bounding-set={}", capabilities());
    let user = USER.to_string();
    let listen = ["core", "--listen", "core.sock", "--user", &user, "--directory", "live"];
    let mut core = with_privileges(&place, &[&bounding], &listen);
    core.env("NOTIFY_SOCKET", path("notify.sock"));
    let core = Running::begin(core);
    let mut message = [0; 64];
    let length = manager.recv(&mut message).expect("the core reports that it is ready");
    assert_eq!(&message[..length], b"READY=1\n");
    let serve = ["serve", "--core", "core.sock", "--state", "state", "--socket", "state/api.sock"];
    let (reuid, regid) = (format!("--reuid={user}"), format!("--regid={user}"));
    let front =
        Running::begin(with_privileges(&place, &[&reuid, &regid, "--clear-groups", "--bounding-set=-all"], &serve));
    let mut hog = Command::new("sh");
    let hog = Running::begin({
        hog.args(["-c", "while :; do :; done"]).uid(OWNER);
        hog
    });
    let (pid, vm) = (hog.0.id(), format!("pid:{}", hog.0.id()));
    let before = Now::of(pid);
    let client = |args: &[&str]| place.run(&[args, &["--socket", "state/api.sock", "--json"]].concat());
    soon("the front end has a core", || {
        let shown: Value = serde_json::from_str(&client(&["show", &vm]).stdout).unwrap_or_default();
        shown["process"]["user"] == OWNER && shown["state"]["phase"] != "waiting"
    });
    for change in [
        &["--slice", "2ms", "--period", "10ms"][..],
        &["--hard"],
        &["--soft", "--mechanism", "fifo"],
        &["--mechanism", "deadline"],
        &["--no-promise", "--weight", "50", "--cap", "50"],
    ] {
        let done = client(&[&["set", &vm], change].concat());
        assert_eq!(done.code, Some(0), "{change:?}: {}", done.stderr);
        let set: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(set["state"]["phase"], "kept", "{change:?}: {set}");
    }
    assert_eq!(client(&["unset", &vm]).code, Some(0));
    soon("the process is as before", || Now::of(pid) == before);
    front.end();
    core.end();
    assert!(!path("live/table").exists());
}
