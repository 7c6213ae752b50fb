//! Runs of scenarios in which entities arrive and depart, and their reports.

use report::{Report, Widths, table};
use run::{Observers, Run};
use scenario::Scenario;

fn scenario(text: &str) -> Scenario {
    Scenario::from_bytes("test.toml", text.as_bytes().to_vec()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn run(text: &str) -> Report {
    let scenario = scenario(text);
    let choice = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    Run::new(scenario, choice).play(Observers::none()).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

const MACHINE: &str = "name = \"x\"\ncpus = 1\nlength = \"100ms\"\npolicy = \"edf\"\n";

#[test]
fn a_departure_makes_room_for_an_arrival_at_the_same_moment() {
    let vm = |name, times| {
        format!(
            "[[vm]]\nname = \"{name}\"\nslice = \"8ms\"\nperiod = \"10ms\"\nworkload = \"hog\"\nlimit = \"hard\"\n{times}\n"
        )
    };
    // The VM that arrives later is first in the file.
    let report = run(&format!("{MACHINE}{}{}", vm("late", "arrival = \"40ms\""), vm("early", "leaves = \"40ms\"")));
    let [late, early] = report.entities.as_slice() else { panic!("two were there") };
    assert_eq!((late.name.as_str(), late.came_ns, late.left_ns), ("late", 40_000_000, None));
    assert_eq!((early.came_ns, early.left_ns), (0, Some(40_000_000)));
    // Each VM received 80 % of the CPU during its presence, and its promise was kept in every period.
    for vm in [late, early] {
        assert_eq!((vm.granted_ppm, vm.got.delivered_ppm, vm.got.periods_missed), (Some(800_000), 800_000, 0));
    }
    assert_eq!((late.got.periods_judged, early.got.periods_judged), (6, 4));
}

#[test]
fn a_refusal_names_the_place_and_what_would_fit() {
    let text = format!(
        "{MACHINE}[[vm]]\nname = \"a\"\nslice = \"8ms\"\nperiod = \"10ms\"\nworkload = \"hog\"\n\
         [[vm]]\nname = \"b\"\narrival = \"5ms\"\nslice = \"2ms\"\nperiod = \"10ms\"\nworkload = \"hog\"\n"
    );
    let scenario = scenario(&text);
    let choice = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let problems = Run::new(scenario, choice).play(Observers::none()).expect_err("it does not fit");
    assert_eq!(
        problems.to_string(),
        "test.toml:13:9: `b`: 2ms every 10ms is 20.00 % of a CPU, but only 10.00 % can still be promised on one CPU; \
         use at most 1ms every 10ms"
    );
}

#[test]
fn jobs_still_late_at_the_end_are_counted_apart_and_said() {
    // Each of two VMs needs 8 ms in every 10 ms. In every period, 6 ms of this work cannot be done.
    let vm = |name| format!("[[vm]]\nname = \"{name}\"\nworkload.periodic = {{ period = \"10ms\", work = \"8ms\" }}\n");
    let report = run(&format!("{}{}{}", MACHINE.replace("edf", "round-robin"), vm("a"), vm("b")));
    let total = report.total;
    // Each VM releases 10 jobs. In 100 ms, 12 of the 20 jobs complete. The jobs that are released at 90 ms are not late
    // yet.
    assert_eq!((total.releases, total.completions), (20, 12));
    assert_eq!(total.unfinished_late, 6);
    assert!(table(&report, Widths(120)).contains("6 jobs missed their deadlines and did not complete."));
}

#[test]
fn a_vm_of_several_vcpus_is_measured_as_one_too() {
    let text = "name = \"x\"\ncpus = 2\nlength = \"1s\"\npolicy = \"round-robin\"\n\
                [[vm]]\nname = \"two\"\nvcpus = 2\nworkload = \"hog\"\n[[vm]]\nname = \"one\"\nworkload = \"hog\"\n";
    let report = run(text);
    let [two, one] = report.groups.as_slice() else { panic!("two VMs") };
    assert_eq!((two.entities, one.entities), (2, 1));
    let of_two: u64 = report.entities[..2].iter().map(|vcpu| vcpu.got.delivered_ns).sum();
    assert_eq!(two.got.delivered_ns, of_two);
    assert_eq!(two.got.delivered_ns + one.got.delivered_ns, 2_000_000_000);
    assert_eq!(report.total.delivered_ppm, 1_000_000);
}
