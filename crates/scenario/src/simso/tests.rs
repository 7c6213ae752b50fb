//! Tests of the conversion: values, defaults, and refusals.

use super::is_simso;
use crate::Scenario;
use sched::{Nanos, params::Class};
use sim::{Jobs, LateJobs, Releases, Step};

const FILE: &str = r#"<?xml version="1.0" ?>
<simulation duration="600000" cycles_per_ms="1000" etm="wcet">
	<sched overhead="0" overhead_activate="0" overhead_terminate="0" class="simso.schedulers.FP"/>
	<caches memory_access_time="100"/>
	<processors>
		<processor name="CPU 1" id="1" cl_overhead="0" cs_overhead="0" speed="1.0"/>
	</processors>
	<tasks>
		<field name="priority" type="int"/>
		<task name="T1" id="1" task_type="Periodic" abort_on_miss="no" period="20.5" activationDate="1.25" list_activation_dates="" deadline="20.5" base_cpi="1.0" instructions="0" mix="0.5" WCET="4.0009" ACET="0" preemption_cost="0" et_stddev="0" priority="-3"/>
		<task name="T2" id="2" task_type="Sporadic" period="10" list_activation_dates="30, 10.5" deadline="5" WCET="1" priority="7"/>
	</tasks>
</simulation>
"#;

fn read(text: &str) -> Result<Scenario, String> {
    Scenario::from_bytes("set.xml", text.as_bytes().to_vec()).map_err(|problems| problems.to_string())
}

/// Returns the errors of the file after the replacement of `old` by `new`.
fn refused(old: &str, new: &str) -> String {
    assert!(FILE.contains(old), "{old}");
    match read(&FILE.replacen(old, new, 1)) {
        Ok(_) => panic!("{new} is accepted"),
        Err(problems) => problems,
    }
}

fn jobs(scenario: &Scenario) -> Vec<&Jobs> {
    let steps = scenario.applications.iter().flat_map(|app| &app.application.tasks[0].steps);
    steps
        .map(|step| match step {
            Step::Jobs(jobs) => &**jobs,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn times_are_whole_cycles_and_dates_are_sorted() {
    let scenario = read(FILE).expect("the file is valid");
    assert_eq!((scenario.length, scenario.host.cpus), (Nanos::ms(600), 1));
    let every = Releases::Every { first: Nanos::us(1_250), period: Nanos::us(20_500) };
    let at = Releases::At(vec![Nanos::us(10_500), Nanos::ms(30)]);
    let [first, second] = jobs(&scenario)[..] else { panic!("two tasks") };
    assert_eq!((&first.releases, first.late, first.work), (&every, LateJobs::Continue, Nanos::us(4_000)));
    // A task without `abort_on_miss` aborts late jobs.
    assert_eq!((&second.releases, second.late, second.deadline), (&at, LateJobs::Abort, Nanos::ms(5)));
}

#[test]
fn the_scheduler_becomes_a_policy_and_priorities_keep_their_order() {
    let scenario = read(FILE).expect("the file is valid");
    let policy = scenario.policy.as_ref().expect("the file names a scheduler");
    assert_eq!((policy.name.as_str(), policy.knobs[0].name.as_str()), ("rt", "rt-throttling"));
    let priority = |nth: usize| match scenario.applications[nth].application.tasks[0].params.class {
        Class::Fifo(priority) => priority.number(),
        class => panic!("{class:?}"),
    };
    // The greatest number runs first, in SimSo and in Linux.
    assert_eq!([priority(0), priority(1)], [1, 2]);
    let edf = read(&FILE.replace("schedulers.FP", "schedulers.EDF_mono")).expect("the file is valid");
    assert_eq!(edf.policy.as_ref().map(|policy| policy.name.as_str()), Some("edf"));
    // Under RM, the task with the shorter period runs first.
    let rm = read(&FILE.replace("schedulers.FP", "schedulers.RM")).expect("the file is valid");
    assert_eq!(rm.applications[1].application.tasks[0].params, scenario.applications[1].application.tasks[0].params);
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_with_its_place() {
    for (old, new, expected) in [
        (
            "etm=\"wcet\"",
            "etm=\"acet\"",
            "set.xml:2:57: the execution time model `acet` is not supported; use etm=\"wcet\"",
        ),
        ("etm=\"wcet\"", "use_wcet=\"no\"", "model `cache` is not supported"),
        ("cycles_per_ms=\"1000\"", "cycles_per_ms=\"3\"", "a cycle of 1/3 ms is not a whole number of nanoseconds"),
        ("schedulers.FP", "schedulers.LLF", "the scheduler `simso.schedulers.LLF` is not supported; use one of"),
        ("class=\"simso.schedulers.FP\"", "className=\"my.py\"", "a scheduler in a file of its own"),
        ("speed=\"1.0\"", "speed=\"2.0\"", "the attribute `speed` is not supported"),
        ("<processors>", "<processors migration_overhead=\"3\">", "charges no migration overhead"),
        ("preemption_cost=\"0\"", "preemption_cost=\"5\"", "charges no preemption cost"),
        (
            "id=\"2\"",
            "id=\"2\" followed_by=\"1\"",
            "set.xml:11:26: the attribute `followed_by` of task is not supported",
        ),
        ("\"Sporadic\"", "\"APeriodic\"", "activated by other tasks are not supported"),
        ("overhead=\"0\"", "overhead=\"-1\"", "overhead of sched is `-1`"),
        ("WCET=\"1\"", "WCET=\"0.0001\"", "WCET is less than a cycle"),
        ("WCET=\"1\"", "WCET=\"NaN\"", "WCET is `NaN`"),
        ("deadline=\"5\" ", "", "the task has no deadline"),
        ("period=\"20.5\"", "period=\"x\"", "period is `x`"),
        ("30, 10.5", "30, , 10", "an activation date is ``"),
        ("priority=\"7\"", "priority=\"-3\"", "`T2` has the priority of another task"),
        (" priority=\"7\"", "", "the task has no priority"),
        ("<field name=\"priority\" type=\"int\"/>", "", "the attribute `priority` of task is not supported"),
        ("name=\"T2\"", "name=\"T1\"", "the name `T1` is taken"),
        ("<caches memory_access_time=\"100\"/>", "<network/>", "there is no element `network` in simulation"),
        ("duration=\"600000\"", "duration=\"0\"", "the duration is zero"),
        ("duration=\"600000\"", "duration=\"9000000000000000\"", "the duration is too long"),
        ("overhead=\"0\"", "overhead=\"9000000000000000\"", "overhead is longer than 1s"),
        ("cs_overhead=\"0\"", "cs_overhead=\"1e15\"", "cs_overhead is longer than 1s"),
        ("WCET=\"1\"", "WCET=\"1e13\"", "WCET is `1e13`"),
        ("<simulation ", "<scenario ", "the file is not XML"),
        ("<?xml version=\"1.0\" ?>", "<!DOCTYPE x [<!ENTITY a \"b\">]>", "the file is not XML"),
    ] {
        let problems = refused(old, new);
        assert!(problems.contains(expected), "{new}: {problems}");
        assert!(problems.lines().all(|line| line.contains("; ")), "each error has a remedy: {problems}");
    }
}

#[test]
fn a_scheduler_for_one_processor_and_overheads_need_one_processor() {
    let second = "<processor name=\"CPU 2\" id=\"2\"/></processors>";
    let two = FILE.replace("</processors>", second);
    assert!(read(&two).is_ok());
    let mono = read(&two.replace("schedulers.FP", "schedulers.RM_mono")).expect_err("RM_mono is for one processor");
    assert!(mono.contains("simso.schedulers.RM_mono is for one processor, but there are 2"), "{mono}");
    let slow = read(&two.replace("overhead=\"0\"", "overhead=\"5\"")).expect_err("SimSo serialises the decisions");
    assert!(slow.contains("overheads are not supported on 2 processors"), "{slow}");
}

#[test]
fn toml_is_no_xml_and_keys_of_toml_do_not_apply_to_xml() {
    assert!(is_simso("\u{feff}\n <simulation/>") && !is_simso("name = \"<x>\""));
    assert!(crate::vary::set(FILE, "cpus", "2").is_err());
}
