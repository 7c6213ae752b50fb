//! The output of a live run: the same table, trace and picture as for a simulation.

use super::measured::Measured;
use super::plan::{Plan, PlannedProcess};
use super::play::Played;
use super::terms::RunTerms;
use crate::args::Output;
use crate::failure::Failure;
use crate::output::Draft;
use crate::record::{TraceFile, Watch};
use crate::window::{Window, cells};
use crate::{output, picture};
use anyhow::Context;
use daemon::kernel::CpuShare;
use report::{Report, RunDescription, Runs, ServedBy, Widths, observed, short};
use run::Grant;
use sched::Nanos;
use std::io::Write;
use trace::{Header, Sink, Timeline};

/// Maximum number of entities in a drawing.
const ROWS_MOST: usize = 20;

/// A live run and its report.
pub(crate) struct Kept {
    pub(crate) played: Played,
    pub(crate) report: Report,
    /// The run with its real length.
    pub(crate) description: RunDescription,
    pub(crate) header: Header,
}

impl Kept {
    pub(crate) fn new(plan: &Plan, terms: &RunTerms, mut played: Played) -> Kept {
        let measured = played.measured.take().unwrap_or_else(|| {
            let mut measured = Measured::new(plan.is_monitored);
            played.events.iter().for_each(|(at, event)| measured.record(*at, event));
            measured
        });
        let length = played.length.max(Nanos::ns(1));
        let description = RunDescription { length, ..plan.description.clone() };
        let grants: Vec<Option<Grant>> = description.entities.iter().map(|entity| granted(&entity.params)).collect();
        let (policy, knobs) = (terms.first().policy, &terms.first().knobs);
        let mut report = observed(&description, policy, knobs, 0, (&measured.meter, &measured.siblings), &grants);
        name_mechanisms(&mut report, plan, terms, &played);
        let header = Header { policy: policy.name.to_string(), cpus: description.cpus, seed: 0 };
        report.xenmon = measured.xenmon(&header, length);
        Kept { played, report, description, header }
    }

    /// Returns the timeline of `window`.
    pub(crate) fn timeline(&self, window: Window) -> anyhow::Result<Timeline> {
        let mut watch = Watch::new(&self.header, window);
        self.played.events.iter().for_each(|(at, event)| watch.record(*at, event));
        watch.finish()
    }

    /// Writes all events into `file`.
    pub(crate) fn write_into(&self, mut file: TraceFile) -> anyhow::Result<Draft> {
        self.played.events.iter().for_each(|(at, event)| file.record(*at, event));
        file.finish()
    }

    /// Returns a sentence about the mechanism of each client. Clients with the same mechanism share a sentence.
    pub(crate) fn mechanisms(&self) -> String {
        let mut sentences: Vec<(Vec<&str>, String)> = Vec::new();
        for entity in &self.report.entities {
            let Some(ServedBy { name, reason, exception }) = &entity.mechanism else { continue };
            let other = exception
                .as_ref()
                .map_or(String::new(), |why| format!("; SCHED_FIFO for other threads, because {why}"));
            let words = format!("by {name} ({reason}){other}.");
            match sentences.iter_mut().find(|(_, other)| *other == words) {
                Some((names, _)) => names.push(&entity.name),
                None => sentences.push((vec![&entity.name], words)),
            }
        }
        let sentence = |(names, words): &(Vec<&str>, String)| format!("Tactus serves {} {words}", names.join(", "));
        sentences.iter().map(sentence).collect::<Vec<_>>().join(" ")
    }

    /// Returns remarks below the report.
    pub(crate) fn remarks(&self) -> String {
        let mut text = String::new();
        let played = &self.played;
        for (name, reason) in &played.troubles {
            text += &format!("\n{name} was dismissed before the end: {reason}.\n");
        }
        for reason in &played.warnings {
            text += &format!("\nThe daemon warns: {reason}.\n");
        }
        for refusal in &played.refused_changes {
            text += &format!("\n{refusal}.\n");
        }
        for breach in &played.breaches {
            text += &format!("\n{}.\n", breach.in_words());
        }
        for end in &played.ends {
            text += &end.in_words().map_or(String::new(), |words| format!("\n{words}.\n"));
        }
        if !played.reports_wakeups {
            text += "\nThis host does not report wake-ups of threads: they are polled every millisecond, and detected late. To avoid \
                     that, run with CAP_PERFMON.\n";
        }
        if played.lost > 0 {
            text += &format!("\n{} events are missing, because the buffer was full.\n", played.lost);
        }
        text
    }
}

/// Returns the mechanism of a process with a share of the CPUs.
fn share(planned: &PlannedProcess) -> Option<ServedBy> {
    let (name, reason) = match planned.share? {
        CpuShare { cap_percent: None, .. } => ("CPU weight", "requested by `--weight`"),
        CpuShare { weight: None, .. } => ("CPU quota", "requested by `--cap`"),
        _ => ("CPU weight and quota", "requested by `--weight` and `--cap`"),
    };
    Some(ServedBy { name, reason: reason.to_string(), exception: None })
}

/// Adds the mechanism of each entity with a promise or a share to `report`.
fn name_mechanisms(report: &mut Report, plan: &Plan, terms: &RunTerms, played: &Played) {
    for planned in &plan.processes {
        let name = &plan.description.entities[planned.entities.start].name;
        if let Some(entity) = report.entities.iter_mut().find(|entity| entity.name == *name) {
            entity.mechanism = share(planned);
        }
    }
    let promised = plan.processes.iter().zip(&played.ends).filter(|(planned, _)| planned.request.is_some());
    for (planned, end) in promised {
        let (mechanism, reason) = terms.for_process(planned).mechanism();
        let names = plan.description.entities[planned.entities.clone()].iter().map(|entity| &entity.name);
        for (name, &e) in names.zip(&end.entities) {
            let exception = played.exceptions.iter().find(|(entity, _)| *entity == e).map(|(_, why)| why.clone());
            let in_kernel = if played.in_kernel.contains(&e) {
                "; a scheduler in the kernel dispatched it, through sched_ext"
            } else {
                ""
            };
            let reason = format!("{reason}{in_kernel}");
            let served = ServedBy { name: mechanism.name(), reason, exception };
            if let Some(entity) = report.entities.iter_mut().find(|entity| entity.name == *name) {
                entity.mechanism = Some(served);
            }
        }
    }
}

/// Returns the promise of an entity.
fn granted(params: &sched::Params) -> Option<Grant> {
    params.reservation.map(|reservation| Grant { slice: reservation.slice, period: reservation.period })
}

/// Destinations of the output of a run.
pub(crate) struct Shown<'a> {
    args: &'a Output,
    picture: Option<Draft>,
}

impl<'a> Shown<'a> {
    /// Opens the file of the picture, so that an unwritable file is reported before the run.
    pub(crate) fn begin(args: &'a Output, _length: Option<Nanos>) -> Result<Shown<'a>, Failure> {
        let picture = args.svg.as_deref().map(Draft::create).transpose()?;
        Ok(Shown { args, picture })
    }

    pub(crate) fn show(&mut self, plan: &Plan, kept: &Kept, terms: &RunTerms) -> Result<(), Failure> {
        let width = self.args.width.unwrap_or_else(output::width);
        let window = Window::asked(&kept.description, self.args, width)?;
        let trace = self.args.trace.as_deref().map(|path| TraceFile::create(path, &kept.header)).transpose()?;
        let trace = trace.map(|file| kept.write_into(file)).transpose()?;
        if self.picture.is_some() || !self.args.json {
            let timeline = kept.timeline(window)?;
            if let Some(picture) = &mut self.picture {
                let svg = picture::svg(&plan.description.title, &[&timeline], window, ROWS_MOST);
                picture.file().write_all(svg.as_bytes()).context("cannot write the picture")?;
            }
            if !self.args.json {
                self.print(kept, terms, &timeline, window, width)?;
            }
        }
        if self.args.json {
            output::print(&output::json(&Runs { simulated: false, runs: std::slice::from_ref(&kept.report) })?)?;
            output::complain(&kept.remarks());
        }
        for draft in trace.into_iter().chain(self.picture.take()) {
            draft.keep()?;
        }
        Ok(())
    }

    fn print(
        &self,
        kept: &Kept,
        terms: &RunTerms,
        timeline: &Timeline,
        window: Window,
        width: u16,
    ) -> anyhow::Result<()> {
        let (run, cpus) = (&kept.description, kept.description.cpus);
        let title = format!(
            "{} under {}: {cpus} CPU{}, {} for real",
            run.title,
            kept.report.policy,
            if cpus == 1 { "" } else { "s" },
            short(run.length.as_ns()),
        );
        let mut text = output::heading(&title) + "\n\n";
        let names = run.entities.iter().map(|entity| entity.name.as_str());
        text += &picture::gantt(timeline, window, cells(names, width), ROWS_MOST);
        text.push('\n');
        text += &report::table(&kept.report, Widths(width));
        text += &report::gangs(std::slice::from_ref(&kept.report));
        text += &report::xenmon(std::slice::from_ref(&kept.report), Widths(width));
        text += &kept.remarks();
        text.push('\n');
        let is_promised = kept.report.entities.iter().any(|entity| entity.granted_ppm.is_some());
        let words = kept.mechanisms() + " " + &if is_promised { terms.in_words() } else { String::new() };
        text += &(output::folded(words.trim(), width.into()).join("\n") + "\n");
        for (file, what) in [(&self.args.trace, "the trace"), (&self.args.svg, "the picture")] {
            if let Some(file) = file {
                text += &format!("Wrote {what} to {}.\n", file.display());
            }
        }
        output::print(&text)
    }
}
