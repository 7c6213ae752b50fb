//! A player that drops late frames beside threads as those of rt-app, in rounds that alternate between schedulers: claim E2.

use crate::Line;
use crate::comparison::Rival;
use anyhow::{Context, Result, ensure};
use measure::statistics::{Spread, confidence};
use sched::Nanos;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use sys::clock;

/// Number of frames of the film: 4 s.
const FRAMES: u64 = 96;
/// Numbers of threads on one CPU. Source: BMQ thesis, section 4.4, with four times as many threads on four logical CPUs.
const THREADS: [u64; 2] = [6, 10];
/// Time for which the threads run before the film begins.
const BEFORE: Nanos = Nanos::ms(500);
/// Time for which the threads run: longer than the film, and than its greatest delay.
const LENGTH: &str = "4800";

/// A process that is killed when the value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compares the dropped frames under the kernel's own scheduler, the port of `bmq` and FIFO.
pub(crate) fn compare(line: &Line) -> Result<()> {
    let (rounds, Some(tactus)) = (line.compare, &line.tactus) else {
        println!("  left out (--tactus)");
        return Ok(());
    };
    if rounds == 0 {
        println!("  left out: it takes some minutes (--compare)");
        return Ok(());
    }
    let rivals = [Rival::Kernel, Rival::Bmq, Rival::Fifo];
    let mut dropped = vec![[const { Vec::new() }; THREADS.len()]; rivals.len()];
    for round in 0..rounds {
        for (rival, dropped) in rivals.iter().zip(&mut dropped) {
            let loaded = rival.load(line).with_context(|| rival.name().to_string())?;
            for (threads, dropped) in THREADS.iter().zip(dropped) {
                dropped.push(film(tactus, *threads, round)?);
            }
            loaded.end().with_context(|| rival.name().to_string())?;
        }
    }
    let level = confidence(rounds as usize);
    println!("  {rounds} rounds; dropped of {FRAMES} frames: mean, median and its interval ({level} ppm)");
    for (rival, dropped) in rivals.iter().zip(&dropped) {
        for (threads, dropped) in THREADS.iter().zip(dropped) {
            let Spread { median, low, high } = Spread::of(dropped);
            let mean = dropped.iter().sum::<u64>() as f64 / dropped.len() as f64;
            println!("  {}, {threads} threads: {mean:.1}, {median} [{low}, {high}]", rival.name());
        }
    }
    Ok(())
}

/// Plays the film beside `threads` threads. Returns the number of dropped frames.
fn film(tactus: &Path, threads: u64, seed: u32) -> Result<u64> {
    let start = |words: &str| {
        let mut command = Command::new(tactus);
        command.arg("live-load").args(words.split(' ')).args(["--seed", &seed.to_string()]).stdout(Stdio::piped());
        Ok::<Process, anyhow::Error>(Process(command.spawn().context("cannot start tactus")?))
    };
    let load =
        format!("threads --count {threads} --run-us 20000 --spread-percent 5 --sleep-us 80000 --length-ms {LENGTH}");
    let mut threads = start(&load)?;
    clock::sleep(BEFORE);
    let mut player = start(&format!("film --frames {FRAMES} --fps 24 --decode-us 20000 --spread-percent 50"))?;
    let output = std::io::read_to_string(player.0.stdout.take().context("it is piped")?)?;
    ensure!(player.0.wait()?.success() && threads.0.wait()?.success(), "a program of the load has failed");
    let dropped = output.trim().parse().with_context(|| format!("the player prints {output:?}"))?;
    ensure!(dropped <= FRAMES, "{dropped} of {FRAMES} frames");
    Ok(dropped)
}
