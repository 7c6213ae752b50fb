//! Reports of gangs.

use expect_test::expect;
use report::Report;
use run::{Observers, Run};
use scenario::Scenario;

/// Runs a VM of two vCPUs as a gang, beside a task on CPU 0 with an earlier deadline.
fn played(policy: &str, gang: bool) -> Report {
    let text = format!(
        "name = \"x\"\ncpus = 2\nlength = \"1s\"\npolicy = \"{policy}\"\n\
         [[vm]]\nname = \"vm\"\nvcpus = 2\ngang = {gang}\nslice = \"4ms\"\nperiod = \"20ms\"\nworkload = \"hog\"\n\
         [[task]]\nname = \"first\"\nslice = \"3ms\"\nperiod = \"10ms\"\naffinity = \"0\"\nworkload = \"hog\"\n"
    );
    let scenario = Scenario::from_bytes("x.toml", text.into()).unwrap_or_else(|problems| panic!("{problems}"));
    let choice = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let outcome = Run::new(scenario, choice).play(Observers::none());
    outcome.map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The task delays the vCPU on its CPU by 3 ms in each period. The first period has no start skew, because its beginning
/// is not observed.
#[test]
fn a_report_has_the_start_skews_of_a_gang_with_reservations() {
    let report = played("gang-edf", true);
    let starts = report.groups[0].starts.expect("it is a gang");
    let (p50, p99, max) = (starts.start_skew_p50_ns, starts.start_skew_p99_ns, starts.start_skew_max_ns);
    assert_eq!((starts.start_skews, p50, p99, max), (49, 3_000_000, 3_000_000, 3_000_000));
    expect![[r#"

        Gangs, from the first start of a member in a period to the last:
           policy   start skew p50 p99 max periods
        vm gang-edf            3ms 3ms 3ms      49
    "#]]
    .assert_eq(&report::gangs(&[report]));
}

#[test]
fn only_gangs_with_reservations_have_start_skews() {
    let without = played("gang-edf", false);
    assert_eq!(without.groups[0].starts, None);
    assert_eq!(report::gangs(&[without]), "");
}
