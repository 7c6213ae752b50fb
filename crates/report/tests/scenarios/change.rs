//! Promises that change while a scenario runs: `[[vm.change]]`.

use report::Report;
use run::{Observers, Run};
use scenario::Scenario;

fn scenario(change: &str) -> Result<Scenario, String> {
    let text = format!(
        "name = \"changing\"\ncpus = 1\nlength = \"3s\"\npolicy = \"edf\"\n\
         [[vm]]\nname = \"batch\"\nworkload = \"hog\"\n\
         [[vm]]\nname = \"user\"\nslice = \"10ms\"\nperiod = \"100ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n{change}"
    );
    Scenario::from_bytes("changing.toml", text.into_bytes()).map_err(|problems| problems.to_string())
}

fn run(change: &str) -> Report {
    let scenario = scenario(change).expect("it is right");
    let choices = run::choose(&scenario, &[], &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let run = Run { seed: 1, ..Run::new(scenario, choices[0].clone()) };
    run.play(Observers::none()).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_change_is_effective_at_once_and_what_is_too_much_is_refused() {
    let report = run("[[vm.change]]\nat = \"1s\"\nslice = \"10ms\"\nperiod = \"20ms\"\n\
         [[vm.change]]\nat = \"2s\"\nslice = \"19ms\"\nperiod = \"20ms\"\n");
    let user = report.entities.iter().find(|entity| entity.name == "user").expect("it came");
    // `user` receives a tenth of the CPU for one second, then half of the CPU. The request for 95 % is refused, because
    // it exceeds the capacity minus the reserve.
    assert_eq!(user.got.delivered_ns, 1_100_000_000);
    assert_eq!((user.got.changes, user.got.change_max_ns, user.changes_refused), (1, 20_000_000, 1));
    assert_eq!((user.got.periods_missed, user.got.worst_debt_ns), (0, 0));
}

#[test]
fn changes_of_nothing_and_out_of_order_are_said_where_they_are() {
    let wrong = |change: &str| scenario(change).expect_err("it is wrong");
    assert!(wrong("[[vm.change]]\nat = \"1s\"\nslice = \"10ms\"\n").contains("the change has no period"));
    let early = "[[vm.change]]\nat = \"1s\"\nslice = \"1ms\"\nperiod = \"2ms\"\n";
    assert!(wrong(&format!("{early}{early}")).contains("out of order"));
    let promised = "[[vm]]\nname = \"other\"\nworkload = \"hog\"\n";
    assert!(wrong(&format!("{promised}{early}")).contains("without a reservation"));
}
