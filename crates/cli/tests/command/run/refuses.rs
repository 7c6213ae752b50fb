//! Refusals have a reason, a remedy and exit code 2. A refused run does not start its command, and changes no process.

use super::super::{Done, Place};
use super::victim::Victim;
use super::{BUSY_NOW_AND_THEN, HOG, Live, Now, turn};
use daemon::directory::Directory;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use sys::child::{Child, Work};
use sys::thread;

/// Asserts that the run fails with code 2, with an error that contains `words` and a remedy. Asserts that the command
/// does not start, and that the run leaves no file except the lock file. Returns the error message.
pub(super) fn refused(args: &[&str], words: &[&str]) -> String {
    let mut live = Live::begin(args);
    let done = live.done();
    assert_said(&done, words);
    assert!(!live.path("touched").exists(), "the command did not start: {args:?}");
    let left: Vec<_> = std::fs::read_dir(live.directory().path()).into_iter().flatten().collect();
    let lock_at_most = left.iter().all(|entry| entry.as_ref().unwrap().file_name() == "tactus.lock");
    assert!(lock_at_most, "{left:?}");
    done.stderr
}

pub(super) fn assert_said(done: &Done, words: &[&str]) {
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{}", done.stderr);
    // The error message without line breaks.
    let said = done.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words.iter().chain(&["help:"]) {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
}

/// Asserts that a promise of `slice` in `period` is refused both for a command and for a running process.
fn refused_promise(slice: &str, period: &str, more: &[&str], words: &[&str]) {
    let promise = [&["--slice", slice, "--period", period], more].concat();
    refused(&[&promise[..], &["--", "touch", "touched"]].concat(), words);
    let child = Child::start(BUSY_NOW_AND_THEN).unwrap();
    let before = Now::of(child.pid());
    refused(&[&promise[..], &["--pid", &child.pid().to_string()]].concat(), words);
    assert_eq!(Now::of(child.pid()), before);
}

#[test]
fn an_invalid_promise() {
    let Some(_turn) = turn() else { return };
    refused_promise("11ms", "10ms", &[], &["11ms", "10ms"]);
    refused_promise("50us", "99us", &[], &["the period is too short (99us)", "at least 100us"]);
    refused_promise("9us", "1ms", &[], &["the slice is too short (9us)", "at least 10us"]);
    refused_promise(
        "1ms",
        "10ms",
        &["--cpus", "2", "--hard"],
        &["hard", "several CPUs", "use one CPU, or a soft limit"],
    );
    refused_promise("1ms", "10ms", &["--gang"], &["a gang runs on several CPUs", "at least 2 CPUs (--cpus 2)"]);
}

#[test]
fn more_than_is_free_with_the_free_amount() {
    let Some(_turn) = turn() else { return };
    refused_promise("9500us", "10ms", &[], &["9.5ms", "9ms"]);
    let child = Child::start(BUSY_NOW_AND_THEN).unwrap();
    let before = Now::of(child.pid());
    let cpus = sys::affinity::get(thread::current()).unwrap().len();
    let toml = |slice: &str, count: usize| {
        let task = |nth: usize| format!("[[task]]\nname = \"t{nth}\"\nslice = \"{slice}\"\nperiod = \"10ms\"\n");
        let tasks: String = (0..count).map(|nth| task(nth) + "workload = \"hog\"\n").collect();
        let last = format!("{}pid = {}\n", task(count), child.pid());
        format!("name = \"too much\"\ncpus = 1\nlength = \"1s\"\n{tasks}{last}")
    };
    // On each CPU, 9 ms of every 10 ms can be promised. The first client on each CPU reserves 6 ms of them, so 3 ms are
    // left.
    let mut live = Live::of_scenario(&toml("6ms", cpus));
    assert_said(&live.done(), &["6ms", "3ms", "scenario.toml"]);
    assert_eq!(Now::of(child.pid()), before);
    live.assert_nothing_left();
}

#[test]
fn processes_that_cannot_have_a_promise() {
    let Some(_turn) = turn() else { return };
    let promise = ["--slice", "1ms", "--period", "10ms", "--pid"];
    let gone = Child::start(Work::Sleep).unwrap().pid().to_string();
    refused(&[&promise[..], &[&gone]].concat(), &[&gone, "the pid of a running process"]);
    refused(&[&promise[..], &["1"]].concat(), &["process 1 is tactus itself, or its ancestor", "another process"]);
    let child = Child::start(Work::Sleep).unwrap();
    let before = Now::of(child.pid());
    let pid = child.pid().to_string();
    refused(&[&promise[..], &[&pid, "--pid", &pid]].concat(), &["has a promise already"]);
    assert_eq!(Now::of(child.pid()), before);
    match thread::status(2) {
        Ok(status) if status.is_kernel => {
            refused(&[&promise[..], &["2"]].concat(), &["process 2", &status.name, "is a kernel thread"]);
        }
        _ => eprintln!("SKIPPED: no kernel thread is visible here"),
    }
}

#[test]
fn a_process_that_the_kernel_would_end_at_real_time_priority() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    let pid = child.pid().to_string();
    let limit = |us: &str| Command::new("prlimit").args(["--pid", &pid, &format!("--rttime={us}:")]).status();
    assert!(limit("200000").unwrap().success());
    let before = Now::of(child.pid());
    let promise = ["--slice", "5ms", "--period", "10ms", "--pid", &pid];
    refused(&promise, &[&format!("process {pid}"), "200ms", "RLIMIT_RTTIME", "--rttime=unlimited"]);
    assert_eq!(Now::of(child.pid()), before);
    assert!(limit("unlimited").unwrap().success());
    Live::promise(&promise[..4], &[child.pid()]).end();
}

#[test]
fn a_process_with_a_child_that_has_a_promise_of_its_own() {
    let Some(_turn) = turn() else { return };
    let mut parent = Victim::of_children();
    let child = parent.bear("sleep 60 & echo says $!");
    let both = [parent.pid(), child];
    let before = Now::of_all(&both);
    let [first, second] = [child, parent.pid()].map(|pid| pid.to_string());
    let said = format!("process {child} has a promise already");
    refused(&["--slice", "1ms", "--period", "10ms", "--pid", &first, "--pid", &second], &[&said]);
    assert_eq!(Now::of_all(&both), before);
}

#[test]
fn more_threads_than_files_may_be_open() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_threads();
    victim.hear();
    for _ in 0..100 {
        let _ = victim.ask("sleeper");
    }
    let threads = victim.threads();
    let before = Now::of_all(&threads);
    let place = Place::new();
    let script = "ulimit -n 128; exec \"$0\" run --directory live --slice 1ms --period 10ms --for 1s --pid \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_tactus"), &victim.pid().to_string()]);
    let done = Done::from(shell.current_dir(place.0.path()).env("NO_COLOR", "1").output().unwrap());
    assert_said(&done, &["Too many open files", "ulimit -n"]);
    assert_eq!(Now::of_all(&threads), before);
}

#[test]
fn the_shell_that_started_it() {
    let Some(_turn) = turn() else { return };
    let place = Place::new();
    let script = "\"$0\" run --directory live --slice 1ms --period 10ms --pid $$; code=$?; echo $$ >&2; exit $code";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_tactus")]).current_dir(place.0.path()).env("NO_COLOR", "1");
    let done = Done::from(shell.output().unwrap());
    let pid = done.stderr.lines().last().unwrap().to_string();
    assert_said(&done, &[&format!("process {pid} is tactus itself, or its ancestor")]);
}

#[test]
fn a_second_dispatcher_with_the_number_of_the_first() {
    let Some(_turn) = turn() else { return };
    let hog = Child::start(HOG).unwrap();
    let first = Live::promise(&["--slice", "2ms", "--period", "10ms"], &[hog.pid()]);
    let child = Child::start(Work::Sleep).unwrap();
    let before = Now::of(child.pid());
    let directory = first.directory().path().display().to_string();
    let pid = child.pid().to_string();
    for target in [&["--pid", &pid][..], &["--", "touch", "touched"]] {
        let args = [&["run", "--directory", &directory, "--slice", "1ms", "--period", "10ms"], target].concat();
        let done = first.place.run(&args);
        let number = first.core().pid();
        let words = [&format!("another dispatcher runs on this host, as process {number}"), "kill"];
        assert_said(&done, &words.map(|word: &str| word));
    }
    // A dispatcher with another directory would promise the time of the same CPUs, too.
    let number = format!("another dispatcher runs on this host, as process {}", first.core().pid());
    refused(&["--slice", "1ms", "--period", "10ms", "--pid", &pid], &[&number, "kill"]);
    assert!(!first.path("touched").exists());
    assert_eq!(Now::of(child.pid()), before);
    assert!(!first.process.has_ended());
    first.end();
}

#[test]
fn a_file_that_is_no_command() {
    let Some(_turn) = turn() else { return };
    let promise = ["--slice", "1ms", "--period", "10ms", "--"];
    refused(&[&promise[..], &["no-such-command"]].concat(), &["there is no command `no-such-command` in PATH"]);
    refused(
        &[&promise[..], &["/no/such/file"]].concat(),
        &["the command `/no/such/file` cannot be run", "No such file"],
    );
    refused(&[&promise[..], &["/"]].concat(), &["/ is a directory"]);
    refused(&[&promise[..], &["/proc/version"]].concat(), &["/proc/version is not executable", "chmod +x"]);
}

#[test]
fn a_user_without_the_privilege() {
    let Some(_turn) = turn() else { return };
    if sys::privileges::user() != 0 {
        return eprintln!("SKIPPED: only root can become another user");
    }
    // A directory that another user may read, with two subdirectories that belong to that user.
    let (place, other) = (Place::new(), 65_534);
    let within = |name: &str| place.0.path().join(name);
    std::fs::set_permissions(place.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_tactus"), within("tactus")).unwrap();
    for name in ["other", "here"] {
        std::fs::create_dir(within(name)).unwrap();
        chown(within(name), Some(other), Some(other)).unwrap();
    }
    let run = |target: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
        command.arg(within("tactus")).args(["run", "--slice", "1ms", "--period", "10ms", "--directory"]);
        command.arg(within("other")).args(target).current_dir(within("here")).env("NO_COLOR", "1");
        command.output().map(Done::from)
    };
    match run(&["--", "touch", "touched"]) {
        Err(error) => return eprintln!("SKIPPED: there is no setpriv here to become another user: {error}"),
        Ok(done) => assert_said(&done, &["CAP_SYS_NICE"]),
    }
    assert!(!within("here/touched").exists());
    let child = Child::start(Work::Sleep).unwrap();
    let before = Now::of(child.pid());
    let done = run(&["--pid", &child.pid().to_string()]).unwrap();
    assert_said(&done, &["CAP_SYS_NICE"]);
    assert_eq!(Now::of(child.pid()), before);
    assert!(Directory::at(within("other")).open_table().unwrap().is_none());
}
