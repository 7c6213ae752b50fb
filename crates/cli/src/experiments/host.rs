//! [`ThisHost`]: runs the scenarios of live experiments with real processes.

use super::kernel_scheduler::KernelScheduler;
use crate::failure::{Failure, explained};
use crate::output;
use crate::raising::Raising;
use crate::run::end::End;
use crate::run::outcome::Kept;
use crate::run::plan::{self, Plan, PlannedProcess};
use crate::run::play::{Observed, Played, play};
use crate::run::terms::RunTerms;
use clap::ValueEnum;
use daemon::guardian::this_program;
use daemon::host_profile::{self, HostProfile};
use lab::live::{BMQ, Host, LiveFailure, LiveProcess, LiveRun};
use scenario::Scenario;
use sched::{Instant, Nanos};
use sys::clock;

/// Pause before the second attempt of a run; each further pause is longer by as much.
const PAUSE: Nanos = Nanos::s(1);
/// Interval between two checks for an interrupt in a pause.
const LOOK: Nanos = Nanos::ms(50);

/// The host that this program runs on.
#[derive(Debug)]
pub(super) struct ThisHost {
    machine: String,
    program: String,
}

impl ThisHost {
    /// Describes this host, with `note` at the end.
    ///
    /// # Errors
    /// The host lacks `/proc`.
    pub(super) fn new(note: Option<&str>) -> Result<ThisHost, Failure> {
        let unknown = |error: sys::Error| crate::failure::refused(&error.into());
        let host = HostProfile::read().map_err(unknown)?;
        let model = sys::cpus::model();
        let cpus = match host.cpus.allowed.len() {
            1 => "1 CPU".to_string(),
            count => format!("{count} CPUs"),
        };
        let ticks = host.kernel.tick_rate.map_or(String::new(), |rate| format!(", {rate} ticks per second"));
        let program = lab::store::hash_of(this_program())?;
        let note = note.map_or(String::new(), |note| format!(", {note}"));
        Ok(ThisHost { program, machine: format!("{cpus} ({model}), Linux {}{ticks}{note}", host.kernel.release) })
    }

    fn play(plan: &Plan, terms: &RunTerms, mechanism: &str) -> Result<Played, Failure> {
        if mechanism == "kernel" {
            return play(None, plan, "");
        }
        if mechanism == BMQ {
            let scheduler = KernelScheduler::start(BMQ)?;
            let played = play(None, plan, "")?;
            scheduler.end()?;
            return Ok(played);
        }
        crate::run::keep(plan, terms)
    }
}

/// Returns the processes of a finished run.
fn processes(plan: &Plan, played: &mut Played) -> Vec<LiveProcess> {
    let end = played.start.saturating_add(played.length);
    let all = plan.processes.iter().zip(std::mem::take(&mut played.observed));
    let process = |(planned, observed): (&PlannedProcess, Observed)| {
        let start = played.start.saturating_add(planned.arrival.since(Instant::ZERO));
        LiveProcess {
            name: planned.name.clone(),
            reservation: plan.description.entities[planned.entities.start].params.reservation,
            output: observed.output,
            took: observed.took,
            supply: observed.supply.map(|supply| (supply, start, end)),
        }
    };
    all.map(process).collect()
}

impl Host for ThisHost {
    fn run(&self, scenario: Scenario, mechanism: &str) -> Result<Option<LiveRun>, LiveFailure> {
        let failed = |failure: Failure| match failure {
            // Only a promise that the policy refuses has a place in the scenario.
            Failure::Input(_) => LiveFailure::Refused(explained(failure).to_string()),
            other => LiveFailure::Failed(explained(other).to_string()),
        };
        scenario.only_entities("a live run").map_err(|why| LiveFailure::Failed(why.to_string()))?;
        let mut plan = plan::from_scenario(&scenario, false).map_err(failed)?;
        (plan.is_observed, plan.is_monitored) = (true, true);
        plan.run_as_this_program("tactus");
        match mechanism {
            "kernel" | BMQ => plan.without_promises(),
            "quota" => plan.promises_as_caps(),
            _ => {}
        }
        // The mechanism is one of [`lab::live::MECHANISMS`].
        let usual = Raising::from_str(mechanism, false).unwrap_or_default();
        let terms = RunTerms::of(&plan, usual).map_err(failed)?;
        let before = host_profile::times();
        let mut played = ThisHost::play(&plan, &terms, mechanism).map_err(failed)?;
        let after = host_profile::times();
        if played.interrupted {
            return Ok(None);
        }
        let steal_ppm =
            before.ok().zip(after.ok()).and_then(|(before, after)| host_profile::steal_ppm(&after.since(&before)));
        let fails = |end: &&End| !end.is_foreign && end.has_ended_early && end.code() != 0;
        if let Some(end) = played.ends.iter().find(fails) {
            return Err(LiveFailure::Failed(format!("{} ended with exit code {}", end.name, end.code())));
        }
        let processes = processes(&plan, &mut played);
        Ok(Some(LiveRun { report: Kept::new(&plan, &terms, played).report, processes, steal_ppm }))
    }

    fn pause(&self, attempt: u32) {
        let end = clock::now().saturating_add(PAUSE.saturating_mul(attempt.into()));
        while clock::now() < end && !output::is_interrupted() {
            clock::sleep(LOOK);
        }
    }

    fn machine(&self) -> String {
        self.machine.clone()
    }

    fn program(&self) -> String {
        self.program.clone()
    }
}
