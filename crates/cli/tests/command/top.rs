//! `tactus top` in a terminal, and its output for scripts. The service has no core.

use super::Place;
use super::remote::FakeVm;
use super::serve::{SERVE, serving};
use sched::{Instant, Nanos};
use serde_json::Value;
use std::process::{Command, Stdio};
use sys::clock;
use sys::process::Process;

/// Maximum time that a step of a few milliseconds may take on a busy machine.
const PATIENCE: Nanos = Nanos::s(20);
/// Name of the VM of these tests. Other VMs may run on the host.
const VM: &str = "top-terminal-vm";

/// A terminal with a shell in the directory of a test. Dropping this value ends the shell.
pub(super) struct Terminal<'p>(&'p Place);

impl Terminal<'_> {
    /// Returns a terminal; `None`, and says why, if tmux is missing.
    pub(super) fn open(place: &Place) -> Option<Terminal<'_>> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
            eprintln!("SKIPPED: tmux is missing (apt-get install tmux)");
            return None;
        }
        let terminal = Terminal(place);
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "env PS1='$ ' sh"]);
        Some(terminal)
    }

    /// Runs a command of tmux, and returns its output.
    fn tmux(&self, args: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-S", "tmux.sock"])
            .args(args)
            .current_dir(self.0.0.path())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX");
        let done = tmux.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Types names of keys, such as `Enter`, and texts.
    pub(super) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as `is_so` says.
    pub(super) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = clock::now() + PATIENCE;
        loop {
            let shown = self.shown();
            if is_so(&shown) {
                return shown;
            }
            assert!(clock::now() < end, "{what}:\n{shown}");
            clock::sleep(Nanos::ms(20));
        }
    }

    /// Starts `tactus top`, and shows only the VMs whose names have `vm`.
    pub(super) fn start_top(&self, vm: &str) {
        let top = self.0.command(&["top", "--socket", "api.sock", "--interval", "200ms"]);
        let program = top.get_program().to_string_lossy().into_owned();
        let words: Vec<String> = top.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let line = format!("clear; '{program}' {}; echo \"code $?\"; stty -a", words.join(" "));
        self.keys(&[&line, "Enter"]);
        self.until("top has begun", |shown| shown.contains("? help"));
        self.keys(&["/", vm, "Enter"]);
        self.until("the VM is found", |shown| shown.contains(&format!(">{vm}")));
    }

    /// Returns the process of `tactus top`.
    fn top(&self) -> Process {
        let shell: u32 = self.tmux(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap();
        let top = sys::thread::children(shell).unwrap();
        let [top] = top[..] else { panic!("the shell has the children {top:?}") };
        Process::open(top).unwrap()
    }

    /// Waits until `tactus top` has ended with `code`, and asserts that the terminal is as before.
    pub(super) fn expect_end(&self, code: u8) {
        let shown =
            self.until("top has ended", |shown| shown.contains(&format!("code {code}\n")) && shown.contains("icanon"));
        let is_set = |word: &str| shown.split([' ', ';', '\n']).any(|found| found == word);
        assert!(is_set("icanon") && is_set("echo") && is_set("isig") && is_set("opost"), "{shown}");
        let state = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(state.trim(), "0 1", "the screen of before, with a cursor");
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut tmux = Command::new("tmux");
        let _ = tmux.args(["-S", "tmux.sock", "kill-server"]).current_dir(self.0.0.path()).output();
    }
}

/// Returns the VM of these tests as `tactus list` shows it.
fn listed(place: &Place) -> Value {
    let list = place.run(&["list", "--json", "--socket", "api.sock"]).good();
    let list: Value = serde_json::from_str(&list).unwrap();
    list["vms"].as_array().unwrap().iter().find(|vm| vm["name"] == VM).cloned().unwrap_or_default()
}

/// Waits until the VM of these tests is as `is_so` says.
fn until(place: &Place, is_so: impl Fn(&Value) -> bool) -> Value {
    let end: Instant = clock::now() + PATIENCE;
    loop {
        let vm = listed(place);
        if is_so(&vm) {
            return vm;
        }
        assert!(clock::now() < end, "{vm:#}");
        clock::sleep(Nanos::ms(20));
    }
}

#[test]
fn keys_change_a_vm_and_undo_the_change() {
    let place = Place::new();
    let service = serving(&place, &[&SERVE[..], &["--socket", "api.sock"]].concat());
    let vm = FakeVm::start(VM);
    until(&place, |vm| vm["name"] == VM);
    let Some(terminal) = Terminal::open(&place) else { return };
    terminal.start_top(VM);
    terminal.keys(&["e", "2ms", "Tab", "10ms"]);
    terminal.until("the service accepts it", |shown| shown.contains("the service would accept this"));
    assert!(listed(&place)["desired"]["promise"].is_null(), "a check changes nothing");
    terminal.keys(&["Enter"]);
    let set = until(&place, |vm| vm["desired"]["promise"]["period_ns"] == 10_000_000);
    assert_eq!(set["desired"]["promise"]["slice_ns"], 2_000_000);
    terminal.until("the list has the promise", |shown| shown.contains("2ms/10ms") && shown.contains(": changed"));
    // Another client changes the VM while the form is open.
    terminal.keys(&["Enter", "Right"]);
    terminal.until("the slice is a step longer", |shown| shown.contains("2.5ms") && shown.contains("would accept"));
    place.run(&["set", VM, "--weight", "70", "--socket", "api.sock"]);
    terminal.keys(&["Enter"]);
    terminal.until("the form says so", |shown| shown.contains("changed by another client") && shown.contains("70"));
    terminal.keys(&["Enter"]);
    let set = until(&place, |vm| vm["desired"]["promise"]["slice_ns"] == 2_500_000);
    assert_eq!(set["desired"]["weight"], 70);
    terminal.until("the form is closed", |shown| shown.contains(": changed"));
    terminal.keys(&["u"]);
    until(&place, |vm| vm["desired"]["promise"]["slice_ns"] == 2_000_000);
    terminal.until("it says so", |shown| shown.contains("undone"));
    terminal.keys(&["d", "y"]);
    until(&place, |vm| vm["desired"]["promise"].is_null());
    terminal.tmux(&["resize-window", "-x", "50", "-y", "20"]);
    terminal.until("fewer columns fit", |shown| !shown.contains("waits") && shown.contains("missed"));
    terminal.keys(&["q"]);
    terminal.expect_end(0);
    let audit = String::from_utf8(place.read("state/audit.jsonl")).unwrap();
    assert!(audit.contains("\"why\":\"tactus top\""), "{audit}");
    drop(terminal);
    drop(vm);
    service.end();
}

#[test]
fn every_end_restores_the_terminal() {
    let place = Place::new();
    let service = serving(&place, &[&SERVE[..], &["--socket", "api.sock"]].concat());
    let vm = FakeVm::start(VM);
    until(&place, |vm| vm["name"] == VM);
    let Some(terminal) = Terminal::open(&place) else { return };
    terminal.start_top(VM);
    terminal.keys(&["C-c"]);
    terminal.expect_end(130);
    terminal.start_top(VM);
    terminal.top().terminate().unwrap();
    terminal.expect_end(130);
    // A service that hangs is reported, and the keyboard does not wait for it.
    terminal.start_top(VM);
    let process = Process::open(service.pid()).unwrap();
    process.stop().unwrap();
    terminal.until("there is a banner", |shown| shown.contains("OLD VALUES") && shown.contains("it does not reply"));
    // The client waits 40 s for a reply, and this test half as long for the screen.
    for key in ["?", "?", "?"] {
        let has_help = terminal.shown().contains("sparkline");
        terminal.keys(&[key]);
        terminal.until("there is help, or none", |shown| shown.contains("sparkline") != has_help);
    }
    process.cont().unwrap();
    terminal.until("the banner is gone", |shown| !shown.contains("OLD VALUES"));
    terminal.keys(&["Escape", "C-c"]);
    terminal.expect_end(130);
    // A service that ends is reported, and the values stay.
    terminal.start_top(VM);
    drop(service);
    let shown = terminal.until("there is a banner", |shown| shown.contains("OLD VALUES of 1s ago: cannot"));
    assert!(shown.contains("cannot reach the service") && shown.contains(VM), "{shown}");
    // Keys are accepted meanwhile.
    terminal.keys(&["?"]);
    terminal.until("there is help", |shown| shown.contains("sparkline"));
    terminal.keys(&["?"]);
    let service = serving(&place, &[&SERVE[..], &["--socket", "api.sock"]].concat());
    terminal.until("the banner is gone", |shown| !shown.contains("OLD VALUES") && shown.contains(VM));
    terminal.keys(&["q"]);
    terminal.expect_end(0);
    // A terminal that hangs up ends the program.
    terminal.start_top(VM);
    let top = terminal.top();
    drop(terminal);
    assert!(top.ends_within(PATIENCE), "the program outlives its terminal");
    // Without a service, the terminal does not change at all.
    service.end();
    let refused = place.run(&["top", "--once", "--socket", "api.sock"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("cannot reach the service"), "{}", refused.stderr);
    drop(vm);
}

#[test]
fn one_table_or_one_line_of_json_is_printed_with_once() {
    let place = Place::new();
    let service = serving(&place, &[&SERVE[..], &["--socket", "api.sock"]].concat());
    let vm = FakeVm::start(VM);
    until(&place, |vm| vm["name"] == VM);
    place.run(&["set", VM, "--slice", "2ms", "--period", "10ms", "--socket", "api.sock"]);
    let top = |further: &[&str]| {
        let args = ["top", "--once", "--interval", "100ms", "--socket", "api.sock"];
        place.run(&[&args[..], further].concat())
    };
    let table = top(&[]).good();
    let titles = table.lines().next().unwrap();
    for title in ["name", "kind", "state", "asked", "weight", "granted", "delivered", "missed", "used", "waited"] {
        assert!(titles.contains(title), "{table}");
    }
    assert!(table.lines().any(|line| line.starts_with(VM) && line.contains("2ms/10ms")), "{table}");
    let json = top(&["--json"]).good();
    assert_eq!(json.lines().count(), 1);
    let sample: Value = serde_json::from_str(&json).unwrap();
    let row = sample["vms"].as_array().unwrap().iter().find(|vm| vm["name"] == VM).unwrap();
    assert_eq!(
        (&row["state"], &row["promise"], &row["kind"]),
        (&"waiting".into(), &"2ms in 10ms".into(), &"qemu".into())
    );
    assert!(sample["host"]["cpus"].is_u64() && sample["span_ns"].as_u64() >= Some(100_000_000), "{sample}");
    assert_eq!(top(&["--count", "2"]).code, Some(2));
    assert_eq!(top(&["--interval", "0s"]).code, Some(2));
    drop(vm);
    service.end();
}
