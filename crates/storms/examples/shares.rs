//! Checks weights and caps on a host where the cpu controller is in version 2 of control groups. Tactus then sets the
//! weight and the cap of the group that the process is in.
//!
//! `cargo xtask vm-test guest-shares` runs this program in a guest kernel. On a host, as root:
//! `cargo run -p storms --example shares -- --tactus target/debug/tactus`.
//!
//! Exit code 0: all checks passed. Exit code 1: a check failed. Exit code 2: invalid input. Exit code 77: this host has no
//! cpu controller of version 2.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use sched::Nanos;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use sys::cgroup::{Hierarchy, OwnGroup};
use sys::child::{Child, Work};
use sys::process::Process;
use sys::usage::Meter;
use sys::{clock, thread};

/// Maximum time until a share is set, and until it is restored after a kill of the core.
const PATIENCE: Nanos = Nanos::s(5);
/// The bandwidth of a new group.
const UNLIMITED: &str = "max 100000";
const HOG: Work = Work::Spin { busy: Nanos::ms(10), idle: Nanos::ZERO };

#[derive(Parser, Debug)]
#[command(about = "Checks weights and caps in control groups of version 2", version)]
struct Line {
    /// The command under test
    #[arg(long)]
    tactus: PathBuf,
}

/// A check: its name, and the function that fails with the reason.
type Check = (&'static str, fn(&Line) -> Result<()>);

const CHECKS: &[Check] = &[
    ("a process has its weight and no more than its cap, and the group has its earlier values after the run", set),
    ("a process in a group below its scope has the weight and the cap of the scope", below_scope),
    ("a group has its earlier values after the core is killed", core_killed),
    ("a group has its earlier values after core and guardians are killed, and `tactus release`", all_killed),
    ("a value that another program has set during the run stays", changed_meanwhile),
    ("a lower cap of another program stays in force", lower_cap),
    ("a group with another process is refused, with the process", not_alone),
    ("a process in the root group is refused, with the remedy", in_root),
    ("a second share of the same group is refused", twice),
];

fn main() -> ExitCode {
    let line = Line::parse();
    let controlled = Hierarchy::two().and_then(|two| two.open("/")?.read("cgroup.subtree_control"));
    if !controlled.as_ref().is_ok_and(|names| names.split_whitespace().any(|name| name == "cpu")) {
        println!("no cpu controller of version 2 here: {controlled:?}");
        return ExitCode::from(77);
    }
    let mut failed = false;
    for (name, check) in CHECKS {
        let outcome = check(&line);
        println!("{name}: {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        if let Err(error) = outcome {
            println!("error: {error:#}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A group of its own with a busy process.
struct Scope {
    hog: Child,
    group: OwnGroup,
}

impl Scope {
    fn new() -> Result<Scope> {
        let hog = Child::start(HOG)?;
        let group = Hierarchy::two()?.open("/")?.create(&format!("hog-{}.scope", hog.pid()))?;
        group.add_process(hog.pid())?;
        group.write("cpu.weight", "150")?;
        Ok(Scope { hog, group })
    }

    /// Returns weight and bandwidth of the group.
    fn values(&self) -> Result<(String, String)> {
        let read = |name| Ok::<_, sys::Error>(self.group.read(name)?.trim().to_string());
        Ok((read("cpu.weight")?, read("cpu.max")?))
    }

    fn await_values(&self, weight: &str, bandwidth: &str) -> Result<()> {
        let end = clock::now() + PATIENCE;
        loop {
            let found = self.values()?;
            if found == (weight.to_string(), bandwidth.to_string()) {
                return Ok(());
            }
            ensure!(clock::now() < end, "the group has {found:?}, and not {weight} and {bandwidth}");
            clock::sleep(Nanos::ms(5));
        }
    }

    /// Starts a run with weight 300 and a cap of 30 %, and waits until the group has both.
    fn share(&self, line: &Line) -> Result<Run> {
        let run = Run::begin(line, &["--weight", "300", "--cap", "30", "--pid", &self.hog.pid().to_string()])?;
        self.await_values("300", "3000 10000").with_context(|| format!("tactus said:\n{}", run.said()))?;
        Ok(run)
    }
}

/// A `tactus run`. Dropping this value ends it.
struct Run {
    front_end: std::process::Child,
    output: File,
}

impl Run {
    fn begin(line: &Line, options: &[&str]) -> Result<Run> {
        let output = tempfile::tempfile()?;
        let mut command = Command::new(&line.tactus);
        command.arg("run").args(options).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        let front_end = command.spawn().with_context(|| format!("cannot begin {command:?}"))?;
        Ok(Run { front_end, output })
    }

    fn said(&self) -> String {
        let mut text = String::new();
        let mut file = &self.output;
        match file.rewind().and_then(|()| file.read_to_string(&mut text)) {
            Ok(_) => text,
            Err(error) => error.to_string(),
        }
    }

    fn core(&self) -> Result<u32> {
        let is_core = |pid: &u32| thread::status(*pid).is_ok_and(|status| status.name == "tactus-core");
        thread::children(self.front_end.id())?.into_iter().find(is_core).context("there is no core")
    }

    /// Ends the run as Ctrl-C does.
    fn interrupt(&mut self) -> Result<()> {
        Process::open(self.front_end.id())?.terminate()?;
        self.front_end.wait()?;
        Ok(())
    }

    /// Returns the exit code and the output of a run that ends by itself.
    fn done(&mut self) -> Result<(Option<i32>, String)> {
        let code = self.front_end.wait()?.code();
        Ok((code, self.said()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The run may have ended already.
        if let Ok(None) = self.front_end.try_wait() {
            let _ = self.interrupt();
        }
    }
}

fn set(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let mut run = scope.share(line)?;
    let meter = Meter::open(scope.hog.pid())?;
    let (begin, before) = (clock::now(), meter.read()?.ran);
    clock::sleep(Nanos::s(1));
    let (ran, length) = (meter.read()?.ran - before, clock::now().since(begin));
    ensure!(ran < length.scale(33, 100) && ran > length.scale(15, 100), "{ran} of {length} at a cap of 30 %");
    run.interrupt()?;
    scope.await_values("150", UNLIMITED)
}

/// The groups of a VM of libvirt: SCOPE/libvirt/emulator. The last one is threaded.
fn below_scope(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let domain = scope.group.create("libvirt")?;
    domain.add_process(scope.hog.pid())?;
    scope.group.write("cgroup.subtree_control", "+cpu")?;
    let emulator = domain.create("emulator")?;
    emulator.make_threaded()?;
    emulator.add_thread(scope.hog.pid())?;
    let mut run = scope.share(line)?;
    let weight = domain.read("cpu.weight")?;
    run.interrupt()?;
    let restored = scope.await_values("150", UNLIMITED);
    // A group whose groups below have the controller cannot have the process again.
    scope.group.write("cgroup.subtree_control", "-cpu")?;
    ensure!(weight.trim() == "100", "the group without competitors has the weight {weight}");
    restored
}

fn core_killed(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let run = scope.share(line)?;
    Process::open(run.core()?)?.kill()?;
    scope.await_values("150", UNLIMITED)
}

fn all_killed(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let mut run = scope.share(line)?;
    let core = run.core()?;
    let all = thread::children(core)?.into_iter().chain([core]).map(Process::open).collect::<sys::Result<Vec<_>>>()?;
    // No guardian may restore the group before it is killed.
    all.iter().try_for_each(Process::stop)?;
    all.iter().try_for_each(Process::kill)?;
    run.front_end.wait()?;
    ensure!(scope.values()?.0 == "300", "the share was restored before");
    let released = Command::new(&line.tactus).arg("release").output()?;
    ensure!(released.status.success(), "{}", String::from_utf8_lossy(&released.stderr));
    scope.await_values("150", UNLIMITED)
}

fn changed_meanwhile(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let mut run = scope.share(line)?;
    scope.group.write("cpu.weight", "777")?;
    run.interrupt()?;
    scope.await_values("777", UNLIMITED)
}

fn lower_cap(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    scope.group.write("cpu.max", "10000 100000")?;
    let mut run = Run::begin(line, &["--weight", "300", "--cap", "30", "--pid", &scope.hog.pid().to_string()])?;
    scope.await_values("300", "10000 100000").with_context(|| format!("tactus said:\n{}", run.said()))?;
    run.interrupt()?;
    scope.await_values("150", "10000 100000")
}

/// Checks that a run with `options` is refused, and that its output has all `words`.
fn refused(line: &Line, options: &[&str], words: &[&str]) -> Result<()> {
    let (code, output) = Run::begin(line, options)?.done()?;
    // The output is broken into lines, also within words.
    let plain = |text: &str| text.replace('│', "").split_whitespace().collect::<String>();
    let said = plain(&output);
    let has_all = words.iter().all(|word| said.contains(&plain(word)));
    ensure!(code == Some(2) && has_all, "exit code {code:?}; tactus said:\n{output}");
    Ok(())
}

fn not_alone(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let other = Child::start(HOG)?;
    scope.group.add_process(other.pid())?;
    let why = format!("process {} is in the same control group", other.pid());
    refused(line, &["--cap", "30", "--pid", &scope.hog.pid().to_string()], &[&why, "systemd-run --scope"])?;
    ensure!(scope.values()? == ("150".to_string(), UNLIMITED.to_string()), "a refusal has changed the group");
    Ok(())
}

fn in_root(line: &Line) -> Result<()> {
    let hog = Child::start(HOG)?;
    let pid = hog.pid().to_string();
    refused(line, &["--cap", "30", "--pid", &pid], &["lacks the cpu controller", "systemd-run --scope"])
}

fn twice(line: &Line) -> Result<()> {
    let scope = Scope::new()?;
    let pid = scope.hog.pid().to_string();
    refused(line, &["--cap", "30", "--pid", &pid, "--pid", &pid], &["has a promise already"])?;
    scope.await_values("150", UNLIMITED)
}
