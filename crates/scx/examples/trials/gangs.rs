//! Gangs: the vCPUs of a virtual machine with fork-join work, on CPUs that are busy.

use crate::Line;
use crate::core;
use crate::load::hogs;
use crate::scheduler::{Scheduler, scheduler_ends_within};
use anyhow::{Context, Result, bail, ensure};
use fuzz::Dice;
use measure::statistics::{Spread, confidence};
use sched::{CpuId, Instant, Limit, Nanos, Reservation};
use scx::Basis;
use scx::native::{Member, NativeEdf, Promise, Reported};
use scx::siblings::{Siblings, Together};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use sys::clock;

/// The hard promise of each vCPU.
const SLICE: Nanos = Nanos::ms(4);
const PERIOD: Nanos = Nanos::ms(10);
const VCPUS: usize = 2;
/// Length of a measurement.
const LENGTH: Nanos = Nanos::s(1);
/// Minimum part of the time in which a vCPU runs that both run. Unit: percent.
const TOGETHER_LEAST: u64 = 90;
/// Minimum number of rounds of a gang, relative to those of the same promises without a gang. Unit: percent.
const GAIN_LEAST: u64 = 130;

/// A virtual machine that is killed when the value is dropped.
struct Vm {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    vcpus: Vec<i32>,
}

impl Vm {
    fn start(program: &Path) -> Result<Vm> {
        let mut command = Command::new(program);
        command.args([VCPUS.to_string(), std::process::id().to_string()]).arg("fork-join");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start micro-vm")?;
        let (to, from) = (child.stdin.take().context("it is piped")?, child.stdout.take().context("it is piped")?);
        let mut vm = Vm { child, to, from: BufReader::new(from), vcpus: Vec::new() };
        ensure!(vm.line()? == "ready", "the virtual machine does not start");
        for number in 0..VCPUS {
            vm.vcpus.push(vm.thread(&format!("CPU {number}/KVM"))?);
        }
        Ok(vm)
    }

    /// Returns the thread of this name.
    fn thread(&self, name: &str) -> Result<i32> {
        for entry in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let entry = entry?;
            if fs::read_to_string(entry.path().join("comm"))?.trim() == name {
                return Ok(entry.file_name().to_string_lossy().parse()?);
            }
        }
        bail!("there is no thread {name}")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }

    /// Returns the number of rounds of the guest, with an instant.
    fn rounds(&mut self) -> Result<(Instant, u64)> {
        self.to.write_all(b"\n")?;
        let line = self.line()?;
        let (at, rounds) = line.split_once(' ').with_context(|| format!("{line:?} has no rounds"))?;
        Ok((Instant::at_ns(at.parse()?), rounds.parse()?))
    }

    /// Returns the number of rounds per second for a time.
    fn rate(&mut self, time: Nanos) -> Result<u64> {
        let (begin, before) = self.rounds()?;
        clock::sleep(time);
        let (end, after) = self.rounds()?;
        Ok((after - before) * 1_000_000_000 / end.since(begin).as_ns())
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percent(Together { any_ns, all_ns, .. }: &Together) -> u64 {
    all_ns * 100 / any_ns.max(&1)
}

/// Promises of `kernel` to the vCPUs, with the numbers 1, 2 and so on.
struct Promises<'a> {
    kernel: &'a NativeEdf,
    tids: Vec<i32>,
}

impl Promises<'_> {
    /// Begins the promises, as a gang or not, each `delay` after the one before.
    fn begin<'a>(kernel: &'a NativeEdf, vm: &Vm, is_gang: bool, delay: Nanos) -> Result<Promises<'a>> {
        let reservation = Reservation { limit: Limit::Hard, ..Reservation::new(SLICE, PERIOD) };
        for (number, &tid) in (1..).zip(&vm.vcpus) {
            let (cpu, gang) = (CpuId::new(usize::try_from(number - 1)?), is_gang.then_some(1));
            kernel.begin(&Promise { number, reservation, cpu, gang })?;
            kernel.join(&Member { tid, promise: number, is_helper: false })?;
            clock::sleep(delay);
        }
        Ok(Promises { kernel, tids: vm.vcpus.clone() })
    }

    /// Returns the rounds of the guest per second, and how the vCPUs run, for a second after some periods.
    fn observe(&self, vm: &mut Vm) -> Result<(u64, Together)> {
        clock::sleep(PERIOD.saturating_mul(5));
        let mut events = Vec::new();
        self.kernel.read(&mut events)?;
        events.clear();
        let begin = clock::now();
        let rate = vm.rate(LENGTH)?;
        self.kernel.read(&mut events)?;
        if let Some(ending) = self.kernel.ending()? {
            bail!("the kernel has removed the scheduler: {}", ending.text());
        }
        let mut siblings = Siblings::new(self.tids.clone());
        // The first run may have begun before.
        events.iter().filter(|event| event.at >= begin).for_each(|event| siblings.note(event));
        Ok((rate, siblings.together(clock::now())))
    }

    fn end(self) -> Result<()> {
        for (number, tid) in (1..).zip(self.tids) {
            self.kernel.leave(number, tid)?;
            self.kernel.end(number)?;
        }
        Ok(())
    }
}

/// The vCPUs of a gang run together, by `tactus-scx`. Their work takes less time than by the same promises with random phases.
pub(crate) fn together(line: &Line) -> Result<()> {
    let Some(program) = &line.micro_vm else {
        println!("  left out: the option --micro-vm is needed");
        return Ok(());
    };
    let cpus = sys::cpus::online()?.len();
    ensure!(cpus >= VCPUS, "this machine has {cpus} CPUs");
    let mut vm = Vm::start(program)?;
    let _hogs = hogs(2 * cpus)?;
    let promises: Vec<String> = vm.vcpus.iter().map(|tid| format!("{tid}=4ms/10ms,hard")).collect();
    let gang = vm.vcpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut args = vec!["--policy", "gang-edf", "--native", "--gang", &gang];
    promises.iter().for_each(|promise| args.extend(["--promise", promise]));
    let scheduler = Scheduler::start(line, &args)?;
    clock::sleep(Nanos::ms(200));
    let rate = vm.rate(Nanos::s(2))?;
    let summary = scheduler.end()?;
    println!("  by tactus-scx: {rate} rounds per second, {}, {}", summary["gangs"], summary["promises"]);
    let gang = &summary["gangs"][0];
    let (any, all) = gang["any_ns"].as_u64().zip(gang["all_ns"].as_u64()).context("there is a gang")?;
    ensure!(any >= Nanos::ms(600).as_ns(), "the vCPUs have not run: {gang}");
    ensure!(all * 100 >= any * TOGETHER_LEAST, "the vCPUs do not run together: {gang}");
    compare(line, &mut vm)
}

/// Compares gangs with the same promises without a gang, in turns.
fn compare(line: &Line, vm: &mut Vm) -> Result<()> {
    let kernel = NativeEdf::load(Reported::Threads, Basis::now())?;
    let mut dice = Dice::new(line.seed);
    let (mut gains, mut rates, mut overlaps) = (Vec::new(), [0, 0], Vec::new());
    for _ in 0..line.compare.max(1) {
        let delay = Nanos::ns(dice.below(PERIOD.as_ns()));
        let mut run = |is_gang| -> Result<(u64, Together)> {
            let promises = Promises::begin(&kernel, vm, is_gang, delay)?;
            let observed = promises.observe(vm)?;
            promises.end()?;
            Ok(observed)
        };
        let ((of_gang, gang), (of_apart, apart)) = (run(true)?, run(false)?);
        println!(
            "  {delay} apart: gang {of_gang} rounds per second, {} % together, start skew p99 {}; no gang {of_apart}, {} %",
            percent(&gang),
            Nanos::ns(gang.skew_p99_ns),
            percent(&apart)
        );
        gains.push(of_gang * 100 / of_apart.max(1));
        rates = [rates[0] + of_gang, rates[1] + of_apart];
        overlaps.push(percent(&gang));
    }
    change(&kernel, vm)?;
    drop(kernel);
    scheduler_ends_within(Nanos::s(5)).context("the scheduler is still loaded")?;
    let (Spread { median, low, high }, gain) = (Spread::of(&gains), rates[0] * 100 / rates[1].max(1));
    println!(
        "  gain in {} rounds: mean {gain} %, median {median} % [{low}, {high}] ({} ppm)",
        gains.len(),
        confidence(gains.len())
    );
    ensure!(overlaps.iter().all(|overlap| *overlap >= TOGETHER_LEAST), "the vCPUs of a gang do not run together");
    ensure!(gain >= GAIN_LEAST, "a gang gains too little: {gain} %");
    Ok(())
}

/// A gang that changes while it runs still runs together.
fn change(kernel: &NativeEdf, vm: &mut Vm) -> Result<()> {
    let promises = Promises::begin(kernel, vm, true, Nanos::ms(3))?;
    clock::sleep(Nanos::us(15_300));
    let (slice, period) = (Nanos::ms(2), Nanos::ms(7));
    for number in (1..).take(VCPUS) {
        // The first order changes all of them.
        kernel.change(number, slice, period)?;
        clock::sleep(Nanos::us(500));
    }
    let (rate, gang) = promises.observe(vm)?;
    println!("  changed to {slice} in {period}: {rate} rounds per second, {} % together", percent(&gang));
    promises.end()?;
    ensure!(percent(&gang) >= TOGETHER_LEAST, "the vCPUs of a changed gang do not run together: {gang:?}");
    let ran = gang.all_ns * 100 / LENGTH.as_ns();
    ensure!((25..=32).contains(&ran), "the vCPUs run for {ran} % of the time, and have 2 ms in 7 ms");
    Ok(())
}

/// The kernel dispatches the gang of a core. The report of a core has no common times, so the work of the guest is compared with that
/// of a machine without promises.
pub(crate) fn of_core(line: &Line) -> Result<()> {
    let (Some(program), Some(_)) = (&line.micro_vm, &line.tactus) else {
        println!("  left out: the options --micro-vm and --tactus are needed");
        return Ok(());
    };
    let mut vm = Vm::start(program)?;
    let _hogs = hogs(2 * sys::cpus::online()?.len())?;
    let alone = vm.rate(Nanos::s(2))?;
    let cpus = VCPUS.to_string();
    let promise = ["--slice", "8ms", "--period", "10ms", "--cpus", &cpus, "--gang"];
    let mut core = core::start(line, vm.child.id(), &promise)?;
    let rate = vm.rate(Nanos::s(2))?;
    let ops = fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
    let report = core.end()?;
    println!("  {rate} rounds per second with 4ms/10ms on each CPU, {alone} without a promise");
    ensure!(ops.trim() == "tactus_edf", "no scheduler in the kernel dispatches the gang: {report}");
    ensure!(rate * 100 >= alone * GAIN_LEAST, "the gang gains too little: {rate}, {alone} without a promise: {report}");
    Ok(())
}
