//! Runs of files of SimSo. The expected times are calculated by hand; the tests of the Python package compare generated
//! files with SimSo itself.

use run::{Observers, Run};
use scenario::Scenario;
use std::fmt::Write;

/// Returns a file for one processor with a cycle of 1 ms. `overheads` are attributes of the scheduler, then of the
/// processor. Each task is a string of attributes.
fn file(class: &str, duration: u64, overheads: [&str; 2], tasks: &[&str]) -> String {
    let [scheduler, processor] = overheads;
    let mut text = format!(
        "<simulation duration=\"{duration}\" cycles_per_ms=\"1\" etm=\"wcet\">\n\
         <sched class=\"simso.schedulers.{class}\" {scheduler}/><caches memory_access_time=\"100\"/>\n\
         <processors><processor name=\"CPU 1\" id=\"1\" {processor}/></processors>\n<tasks>\n"
    );
    for (number, task) in tasks.iter().enumerate() {
        writeln!(text, "<task id=\"{number}\" {task}/>").expect("text takes any line");
    }
    text + "</tasks>\n</simulation>\n"
}

/// Returns a line for each job of the run: its task, and the times of its release, start and completion.
fn jobs(text: &str) -> String {
    let scenario = Scenario::from_bytes("x.xml", text.as_bytes().to_vec()).unwrap_or_else(|why| panic!("{why}"));
    let choice = run::choose(&scenario, &[], &[]).expect("the file names its scheduler").remove(0);
    let run = Run::new(scenario, choice);
    let (mut log, mut auditor) = (run.job_log(), run.auditor().expect("the policy exists"));
    let mut observers = Observers::none();
    observers.extend(Some(&mut log));
    observers.extend(Some(&mut auditor));
    run.play(observers).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(auditor.findings(), []);
    let ms = |ns: Option<u64>| ns.map_or("-".to_string(), |ns| (ns / 1_000_000).to_string());
    let line = |job: measure::jobs::Job| {
        let (start, end) = (ms(job.start_ns), ms(job.completion_ns));
        format!("{} {}: {start} to {end}", job.entity, job.release_ns / 1_000_000)
    };
    log.into_jobs().into_iter().map(line).collect::<Vec<_>>().join(", ")
}

const LATE_ALLOWED: &str = "abort_on_miss=\"no\"";

#[test]
fn periodic_and_sporadic_jobs_run_by_their_deadlines() {
    let a = format!("name=\"A\" period=\"10\" deadline=\"10\" WCET=\"6\" {LATE_ALLOWED}");
    let b = "name=\"B\" task_type=\"Sporadic\" list_activation_dates=\"4, 2\" period=\"0\" deadline=\"20\" WCET=\"3\"";
    let text = file("EDF_mono", 20, ["", ""], &[&a, b]);
    assert_eq!(jobs(&text), "A 0: 0 to 6, B 2: 6 to 9, B 4: 9 to 18, A 10: 10 to 16");
}

#[test]
fn a_job_that_waits_for_its_predecessor_keeps_its_own_deadline() {
    // The second job of A waits until 3. Its deadline is 5, not 7, so it precedes the job of B, whose deadline is 6.
    let a = format!(
        "name=\"A\" task_type=\"Sporadic\" list_activation_dates=\"0,1\" period=\"0\" deadline=\"4\" WCET=\"3\" {LATE_ALLOWED}"
    );
    let b = format!(
        "name=\"B\" task_type=\"Sporadic\" list_activation_dates=\"3\" period=\"0\" deadline=\"3\" WCET=\"1\" {LATE_ALLOWED}"
    );
    let text = file("EDF_mono", 20, ["", ""], &[&b, &a]);
    assert_eq!(jobs(&text), "A 0: 0 to 3, A 1: 3 to 6, B 3: 6 to 7");
}

#[test]
fn a_job_that_starts_after_its_deadline_keeps_this_deadline() {
    // The second job of A starts at 5, its deadline. A period from its start would end at 9, after the deadline of B.
    let a = format!(
        "name=\"A\" task_type=\"Sporadic\" list_activation_dates=\"0,1\" period=\"0\" deadline=\"4\" WCET=\"5\" {LATE_ALLOWED}"
    );
    let b = format!(
        "name=\"B\" task_type=\"Sporadic\" list_activation_dates=\"3\" period=\"0\" deadline=\"5\" WCET=\"1\" {LATE_ALLOWED}"
    );
    let text = file("EDF_mono", 20, ["", ""], &[&b, &a]);
    assert_eq!(jobs(&text), "A 0: 0 to 5, A 1: 5 to 10, B 3: 10 to 11");
}

#[test]
fn a_job_is_aborted_at_its_deadline_whether_it_runs_or_waits() {
    // By default, SimSo aborts late jobs. B is aborted at 8 while it runs, and C at 5 before it has run.
    let tasks = [
        "name=\"A\" period=\"10\" deadline=\"10\" WCET=\"6\"",
        "name=\"B\" period=\"20\" deadline=\"8\" WCET=\"5\"",
        "name=\"C\" period=\"40\" deadline=\"5\" WCET=\"1\"",
    ];
    let text = file("RM_mono", 30, ["", ""], &tasks);
    assert_eq!(jobs(&text), "A 0: 0 to 6, B 0: 6 to -, C 0: - to -, A 10: 10 to 16, A 20: 20 to 26, B 20: 26 to -");
}

#[test]
fn each_event_of_a_job_interrupts_the_processor() {
    // At 0: activation 3, decision 5, load 2. At 15, A has run for 5: save 1, activation 3, decision 5, load 2 (of B).
    // At 30: save 1, termination 4, decision 5, load 2 (of A).
    let sched = "overhead=\"5\" overhead_activate=\"3\" overhead_terminate=\"4\"";
    let processor = "cs_overhead=\"1\" cl_overhead=\"2\"";
    let a = "name=\"A\" task_type=\"Sporadic\" list_activation_dates=\"0\" period=\"0\" deadline=\"90\" WCET=\"10\"";
    let b = "name=\"B\" task_type=\"Sporadic\" list_activation_dates=\"15\" period=\"0\" deadline=\"30\" WCET=\"4\"";
    let text = file("EDF_mono", 100, [sched, processor], &[a, b]);
    assert_eq!(jobs(&text), "A 0: 10 to 47, B 15: 26 to 30");
    // The activation of a less urgent task costs the running task as much.
    let late = b.replace("\"30\"", "\"300\"");
    let text = file("EDF_mono", 100, [sched, processor], &[a, &late]);
    assert_eq!(jobs(&text), "A 0: 10 to 31, B 15: 43 to 47");
    // A release during the handling of another event costs neither a save nor a load of its own.
    let early = b.replace("\"15\"", "\"7\"");
    let text = file("EDF_mono", 100, [sched, processor], &[a, &early]);
    assert_eq!(jobs(&text), "A 0: 34 to 44, B 7: 18 to 22");
}
