//! [`Disturbance`]: how much of an emulator's time the other load of the host has taken.

use crate::step::clock;
use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};
use std::time::{Duration, Instant};

/// Watches an emulator.
pub(super) struct Disturbance {
    emulator: Option<Process>,
    begin: Instant,
    /// Steal time of all CPUs at the beginning.
    stolen_before: Duration,
    /// Time for which the emulator's thread with the longest waits has been runnable and waited for a CPU.
    waited: Duration,
}

impl Disturbance {
    /// Begins to watch process `pid`.
    pub(super) fn watch(pid: u32) -> Disturbance {
        let emulator = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
        Disturbance { emulator, begin: clock(), stolen_before: stolen(), waited: Duration::ZERO }
    }

    /// Reads the waits so far. An ended process has none, so they are read while it runs.
    pub(super) fn read(&mut self) {
        let tasks = self.emulator.iter().filter_map(|process| process.tasks().ok()).flatten().flatten();
        let waits = tasks.filter_map(|task| task.schedstat().ok()).map(|of| Duration::from_nanos(of.run_delay));
        self.waited = waits.fold(self.waited, Duration::max);
    }

    /// Returns the share of the time since the beginning in which the emulator waited for a CPU, or in which a hypervisor ran
    /// others. Unit: percent.
    pub(super) fn percent(&self) -> f64 {
        let elapsed = self.begin.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let stolen = stolen().saturating_sub(self.stolen_before).as_secs_f64() / cpus;
        (self.waited.as_secs_f64() + stolen) / elapsed * 100.0
    }
}

/// Returns the steal time of all CPUs since boot.
fn stolen() -> Duration {
    KernelStats::current().ok().and_then(|stats| stats.total.steal_duration()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// Starts a process that is always busy, on the CPU `cpu`. The kernel ends it with the test's thread.
    fn hog(cpu: u32) -> Child {
        let cpu = cpu.to_string();
        let words = ["--pdeathsig", "KILL", "--", "taskset", "-c", &cpu, "sh", "-c", "while :; do :; done"];
        Command::new("setpriv").args(words).spawn().unwrap()
    }

    #[test]
    fn a_process_that_shares_its_cpu_is_disturbed() {
        let status = Process::myself().unwrap().status().unwrap();
        let cpu = status.cpus_allowed_list.unwrap()[0].0;
        let mut hogs = [hog(cpu), hog(cpu)];
        let mut watched = Disturbance::watch(hogs[0].id());
        let begin = clock();
        // The kernel counts a wait when it ends.
        while watched.percent() <= 20.0 && begin.elapsed() < Duration::from_secs(20) {
            Command::new("sleep").arg("0.1").status().unwrap();
            watched.read();
        }
        let percent = watched.percent();
        for hog in &mut hogs {
            hog.kill().unwrap();
            hog.wait().unwrap();
        }
        assert!(percent > 20.0, "{percent} %");
    }
}
