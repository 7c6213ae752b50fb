//! Task sets for which four independent simulators agree on the results of global EDF.

use report::Report;
use run::{Choice, Observers, Run};
use scenario::taskset;
use sched::Nanos;
use std::path::Path;
use trace::Counts;

fn edf(set: &str, placement: &str) -> (Report, Counts) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle").join(set);
    let tasks = taskset::from_bytes(set, std::fs::read(path).expect("it is in the tree")).expect("the set is right");
    let scenario = taskset::scenario(set, &tasks, 4, Nanos::s(10));
    let edf = policies::find("edf").expect("it is in the registry");
    let mut knobs = edf.defaults();
    knobs.set_word("enforce", "none").expect("it is a choice");
    knobs.set_word("placement", placement).expect("it is a choice");
    let choice = Choice::new(edf, knobs);
    let scenario = match placement {
        "partitioned" => run::partition(&scenario, &choice).expect("every task fits"),
        _ => scenario,
    };
    let report = Run::new(scenario, choice).play(Observers::none()).map(Report::of).expect("nothing is refused");
    // The other simulators report neither of these two counts.
    let counts = Counts { unfinished_late: 0, worst_lateness: Nanos::ZERO, ..report.totals().counts };
    (report, counts)
}

#[test]
fn set_a_gives_the_table_to_the_last_count() {
    let (report, counts) = edf("ts_A_n10_u3.0.csv", "global");
    let right = Counts {
        releases: 6760,
        completions: 6758,
        misses: 2,
        preemptions: 1680,
        dispatches: 8440,
        migrations: 1355,
        ..Counts::default()
    };
    assert_eq!(counts, right);
    let late: Vec<_> = report.entities.iter().filter(|task| task.got.misses > 0).map(|task| &task.name).collect();
    assert_eq!(late, ["task 8"]);
}

#[test]
fn set_b_gives_the_table_to_the_last_count() {
    let (report, counts) = edf("ts_B_n100_u3.6.csv", "global");
    let right = Counts {
        releases: 76259,
        completions: 76253,
        misses: 0,
        preemptions: 51455,
        dispatches: 127_712,
        migrations: 34261,
        ..Counts::default()
    };
    assert_eq!(counts, right);
    assert_eq!(report.total.worst_lateness_ns, 0);
}

/// Among jobs with equal deadlines, the entity with the lower id runs first, whatever the order of placement. The
/// expected counts are from a simulator of 40 lines that was written for this test alone. The simulator places tasks by
/// first fit decreasing, and schedules each CPU by absolute deadline and id.
#[test]
fn partitioned_first_fit_gives_the_counts_of_an_independent_simulator() {
    let sets = [("ts_A_n10_u3.0.csv", 6760, 6755, 4231), ("ts_B_n100_u3.6.csv", 76259, 76240, 39574)];
    for (set, releases, completions, preemptions) in sets {
        let (report, counts) = edf(set, "partitioned");
        assert_eq!(
            (counts.releases, counts.completions, counts.preemptions),
            (releases, completions, preemptions),
            "{set}"
        );
        assert_eq!((counts.misses, counts.migrations, report.total.unfinished_late), (0, 0, 0), "{set}");
    }
}
