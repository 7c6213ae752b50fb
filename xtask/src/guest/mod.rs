//! `cargo xtask vm-test`: runs, in a guest, tests that are too risky for the host or that need another kernel.

mod archive;
mod beside;
mod boot;
mod debian;
mod disturbance;
mod extent;
mod hints;
pub(crate) mod image;
mod jobs;
mod kernel;
mod peers;

use crate::program;
use crate::root::root;
use crate::step::{Failure, Outcome, Step, When, clock, run_all};
use crate::{component, downloads, seed};
use anyhow::Result;
use archive::Archive;
use boot::{End, Machine, Ran, System, Time};
use clap::Args;
use extent::{Extent, Requested, Takes};
use jobs::{JOBS, Job};
use kernel::Kernel;
use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum share of the time that the host may take from an emulator whose guest has the time of the host. A job that fails in a
/// guest which lost more is not judged. Unit: percent.
const DISTURBED: f64 = 10.0;
/// Held while a guest is prepared.
static PREPARES: Mutex<()> = Mutex::new(());
/// Exit code of a job that could not run. The last line of its output gives the reason.
const SKIPPED: i32 = 77;

/// Options of `cargo xtask vm-test`.
#[derive(Args, Debug, Clone)]
pub(crate) struct VmTest {
    /// Run only these jobs (default: all jobs); `sched-ext`: all jobs of sched_ext. Both without the jobs of peers and of records.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(JOBS.iter().map(|job| job.name).chain([SCHED_EXT])))]
    names: Vec<String>,
    /// Run the jobs that compare schedulers of other projects, too. They are built first, which takes minutes. Implies `--long`.
    #[arg(long, conflicts_with = "rounds")]
    peers: bool,
    /// Keep the guest's archive and output in target/guest, and print the path.
    #[arg(long)]
    keep: bool,
    /// Debian suite whose newest kernel is booted, or the path of a kernel image.
    #[arg(long, value_name = "SUITE|PATH", default_value = kernel::SUITE)]
    kernel: String,
    #[command(flatten)]
    extent: Requested,
}

/// Name of all jobs of sched_ext together, and the first part of the name of each.
const SCHED_EXT: &str = "sched-ext";
const OF_SCHED_EXT: &str = "guest-scx";

impl VmTest {
    /// Whether the command runs `job`.
    fn includes(&self, job: &Job) -> bool {
        let is_in_group = job.rounds.short > 0 && (self.peers || !job.has_peers);
        let names = |name: &String| {
            name == job.name || (name == SCHED_EXT && job.name.starts_with(OF_SCHED_EXT) && is_in_group)
        };
        self.names.iter().any(names) || (self.names.is_empty() && is_in_group)
    }
}

/// Runs each chosen job in a guest, as a step: a job for each CPU at a time, and then the jobs in the time of the host, alone.
pub(crate) fn run(wanted: &VmTest) -> Result<ExitCode> {
    if let Some(why) = JOBS.iter().filter(|job| wanted.names.iter().any(|name| name == job.name)).find_map(|job| {
        let option = wanted.extent.unknown_to(job.takes)?;
        Some(format!("{} has no {option}; leave the option out", job.name))
    }) {
        anyhow::bail!("{why}");
    }
    let requested = if wanted.peers { wanted.extent.long() } else { wanted.extent };
    let chosen = JOBS.iter().filter(|job| wanted.includes(job)).map(|job| (job, requested.of(job.rounds)));
    let step = |(job, extent): (&'static Job, Extent)| {
        let limit = (job.limit)(&extent);
        (job, limit, step(job, wanted.kernel.clone(), extent, wanted.keep))
    };
    run_all(&in_lanes(chosen.map(step)))
}

/// Downloads the kernel for the steps of `cargo xtask test` and makes the disk with Debian, unless they are there.
pub(crate) fn fetch() -> Result<(), String> {
    Kernel::get(kernel::SUITE)?;
    debian::disk().map(drop)
}

/// Returns steps for `cargo xtask test`: a short run of each job of the suite, with a seed that follows from the last commit. The first
/// list has the job with Debian, which takes the longest and uses one CPU, so other steps of the suite run beside it.
pub(crate) fn steps() -> (Vec<Step>, Vec<Step>) {
    let seed = seed::of_sources();
    let jobs = JOBS.iter().filter_map(|job| Some((job, Extent::begin(job.rounds.suite?, seed))));
    let (long, short) = jobs.partition(|(job, _)| job.system == System::Debian);
    let step = |(job, extent): (&'static Job, Extent)| {
        let limit = (job.limit)(&extent);
        (job, limit, step(job, kernel::SUITE.to_string(), extent, false))
    };
    let steps = |jobs: Vec<(&'static Job, Extent)>| in_lanes(jobs.into_iter().map(step));
    (steps(long), steps(short))
}

/// Orders the steps of jobs, each with its time limit: guests whose time follows instructions run beside others, the longest first, and those
/// in the time of the host come last, and run alone.
fn in_lanes(jobs: impl Iterator<Item = (&'static Job, Duration, Step)>) -> Vec<Step> {
    let when = |job: &Job| if job.time == Time::Host { When::Alone } else { When::Beside };
    let mut steps: Vec<(Duration, Step)> = jobs.map(|(job, limit, step)| (limit, step.when(when(job)))).collect();
    steps.sort_by_key(|(limit, step)| (step.when, Reverse(*limit)));
    steps.into_iter().map(|(_, step)| step).collect()
}

fn step(job: &'static Job, kernel: String, extent: Extent, keep: bool) -> Step {
    Step::new(job.title, move || check(job, &kernel, &extent, keep))
}

/// Runs one job in a guest.
fn check(job: &Job, suite: &str, extent: &Extent, keep: bool) -> Result<Outcome> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Outcome::Skipped(
            "guests are x86-64 and run this machine's programs; this machine is not".to_string(),
        ));
    }
    downloads::wait();
    let folder = root().join("target/guest").join(format!("{}-{}", job.name, std::process::id()));
    let (kernel, prepared) = {
        // Another guest that is prepared at the same time would install the same packages, and replace programs by its builds.
        let _alone = PREPARES.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = match requirements(job, suite) {
            Ok(kernel) => kernel,
            Err(reason) => return Ok(Outcome::Skipped(reason)),
        };
        let prepared = prepare(job, &kernel, extent, &folder);
        (kernel, prepared)
    };
    if let Err(error) = prepared {
        let text = format!("cannot prepare {}: {error:#}", folder.display());
        return Ok(Outcome::Failed(Failure { text, again: again(job, suite, extent) }));
    }
    let Job { system, time, cpus, is_hypervisor, beside, .. } = *job;
    let (kernel, limit, folder) = (&kernel, (job.limit)(extent), folder.as_path());
    let machine = Machine { kernel, system, folder, time, cpus, is_hypervisor, limit, beside };
    let again = again(job, suite, extent);
    let (mut outcome, mut disturbed) = boot(job, kernel, &machine, &again)?;
    for _ in 1..job.tries {
        let Outcome::Failed(failure) = &outcome else { break };
        println!("      {}: once more: {}", job.name, failure.last_line());
        let next = boot(job, kernel, &machine, &again)?;
        // Load explains failures only if it explains each of them.
        (outcome, disturbed) = (next.0, next.1.min(disturbed));
    }
    let is_kept = keep || matches!(outcome, Outcome::Failed(_));
    let outcome = match outcome {
        Outcome::Failed(failure) if disturbed > DISTURBED => {
            let why = failure.last_line();
            Outcome::Skipped(format!("other load took {disturbed:.0} % of the guest's time; not judged: {why}"))
        }
        outcome => outcome,
    };
    if is_kept {
        println!("      kept in {}", folder.display());
    } else {
        fs::remove_dir_all(folder)?;
    }
    Ok(outcome)
}

/// Installs what the job needs. Returns its kernel, or the reason why the job cannot run.
fn requirements(job: &Job, suite: &str) -> Result<Kernel, String> {
    component::qemu()?;
    if job.beside.is_some() && !beside::is_root() {
        return Err("the commands of Tactus on a VM need root".to_string());
    }
    let kernel = Kernel::get(suite)?;
    if job.is_hypervisor && kernel.hypervisor.is_empty() {
        return Err(format!("no modules of KVM are known for Linux {}", kernel.release));
    }
    if job.programs.iter().any(|program| program.feature == Some(program::BPF)) {
        component::bpf()?;
    }
    if job.has_peers {
        peers::build()?;
    }
    if job.system == System::Debian {
        if !kernel.has_virtio {
            return Err(format!("Linux {} is not known to have virtio ports", kernel.release));
        }
        debian::disk()?;
    }
    Ok(kernel)
}

/// Boots a guest for a job. If the guest dies, boots it a second time. Returns the outcome, and the share of the time, in percent, that other
/// load took from the guest, if this may be the reason of a failure: of a check in the time of the host.
fn boot(job: &Job, kernel: &Kernel, machine: &Machine, again: &str) -> Result<(Outcome, f64)> {
    let mut hear = |line: &str| {
        // A long job shows its output as progress.
        if job.takes != Takes::Nothing || job.system == System::Debian {
            println!("      {} | {line}", job.name);
        }
    };
    let mut begin = clock();
    let mut ran = machine.run(&mut hear)?;
    if ran.end == End::Died {
        println!("      {}: the guest died; once more. Its last words:\n{}", job.name, machine.last_words());
        begin = clock();
        ran = machine.run(&mut hear)?;
    }
    let (up, whole) = (ran.up.as_deref().unwrap_or("never"), begin.elapsed().as_secs_f64());
    let disturbed = ran.disturbed;
    println!(
        "      {}: Linux {}, up after {up} s, off after {whole:.1} s, of which other load took {disturbed:.1} %",
        job.name, kernel.release
    );
    let may_be_late =
        job.time == Time::Host && job.beside.is_none() && matches!(ran.end, End::Exited(0 | 1) | End::TooLong);
    Ok((outcome(job, kernel, machine, &ran, again), if may_be_late { disturbed } else { 0.0 }))
}

/// Returns the outcome of a step from the outcome of its guest.
fn outcome(job: &Job, kernel: &Kernel, machine: &Machine, ran: &Ran, again: &str) -> Outcome {
    let failed =
        |why: String| Outcome::Failed(Failure { text: format!("{}{why}", ran.output), again: again.to_string() });
    match ran.end {
        End::Exited(0) => match ran.beside.clone().and_then(|()| (job.judge)(kernel, ran)) {
            Ok(()) => Outcome::Passed,
            Err(why) => failed(why),
        },
        End::Exited(SKIPPED) => Outcome::Skipped(ran.output.lines().last().unwrap_or("it gave no reason").to_string()),
        End::Exited(code) => failed(format!("exit code {code}: {}", ran.output.lines().last().unwrap_or("no output"))),
        End::Died => failed(format!("{}\nthe guest died twice without reporting on its job", machine.last_words())),
        End::TooLong => failed(format!("{}\nnot done after {:?}", machine.last_words(), machine.limit)),
    }
}

/// Returns the command that repeats a job.
fn again(job: &Job, suite: &str, extent: &Extent) -> String {
    let mut words = vec![format!("cargo xtask vm-test {}", job.name)];
    if suite != kernel::SUITE {
        words.push(format!("--kernel {suite}"));
    }
    words.extend(extent.words(job.takes));
    words.join(" ")
}

/// Creates the folder of a guest, with its archive or disk.
fn prepare(job: &Job, kernel: &Kernel, extent: &Extent, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    if job.system == System::Debian {
        return debian::prepare(job.programs, &(job.words)(extent), folder);
    }
    if job.beside.is_some() {
        // The work on the host begins at once then.
        program::TACTUS.build()?;
    }
    let mut archive = Archive::begin(folder)?;
    archive.program(&program::INIT.build()?, "/init")?;
    for program in job.programs {
        // Peers are built for speed, so ours are, too.
        let profile = if job.has_peers { "release" } else { program::TEST };
        archive.program(&program.build_in(profile)?, &format!("/bin/{}", program.name))?;
    }
    if job.has_peers {
        for (name, path) in peers::build().map_err(anyhow::Error::msg)? {
            archive.program(&path, &format!("/bin/{name}"))?;
        }
    }
    for name in job.papers {
        archive.tree(&root().join("papers").join(name), &format!("/papers/{name}"))?;
    }
    let words = (job.words)(extent).join("\n");
    archive.file("/job", 0o644, words.as_bytes())?;
    if job.is_hypervisor {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for module in &kernel.hypervisor {
            archive.file(&format!("/modules/{}", name(module)), 0o644, &fs::read(module)?)?;
        }
        let order: Vec<String> = kernel.hypervisor.iter().map(name).collect();
        archive.file("/modules/order", 0o644, order.join("\n").as_bytes())?;
    }
    if let Some(configuration) = &kernel.configuration {
        let to = PathBuf::from("/boot").join(format!("config-{}", kernel.release));
        archive.file(&to.to_string_lossy(), 0o644, &fs::read(configuration)?)?;
    }
    archive.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_job_is_run_again_with_its_seed_and_another_without() {
        let job = |name: &str| JOBS.iter().find(|job| job.name == name).unwrap();
        let extent = Extent::begin(5, 42);
        assert_eq!(
            again(job("guest-storm"), "bookworm", &extent),
            "cargo xtask vm-test guest-storm --kernel bookworm --rounds 5 --seed 42"
        );
        assert_eq!(again(job("guest-doctor"), "sid", &extent), "cargo xtask vm-test guest-doctor");
    }
}
