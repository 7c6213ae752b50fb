//! A workload manager over the policies that limit VMs to their assignment (claim C10, `xen-three-2007`, sections 3 and
//! 5.2).

use measure::statistics::Spread;
use report::{ManagedVm, Report, Summary, Widths, medians};
use run::{Observers, Run};
use scenario::Scenario;

fn scenario(text: &str) -> Scenario {
    Scenario::from_bytes("managed.toml", text.as_bytes().to_vec()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn run(text: &str) -> Report {
    let scenario = scenario(text);
    let choices = run::choose(&scenario, &[], &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let run = Run { seed: 1, ..Run::new(scenario, choices[0].clone()) };
    run.play(Observers::none()).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

fn managed(report: &Report) -> &[ManagedVm] {
    &report.manager.as_ref().expect("there is a manager").vms
}

/// Runs ALERT of `xen-three-2007`, section 5.2: a manager adjusts a hog with the target `percent` every `interval`,
/// beside Dom0 with little work.
fn alert(policy: &str, percent: u64, interval: &str) -> Report {
    let (slice, limit) = (percent * 100, "limit = \"hard\"");
    let allocation = match policy {
        "sedf" => format!("slice = \"{slice}us\"\nperiod = \"10ms\"\n{limit}"),
        _ => format!("cap = {percent}"),
    };
    let dom0 = match policy {
        "sedf" => format!("slice = \"600us\"\nperiod = \"10ms\"\n{limit}"),
        _ => "cap = 6".to_string(),
    };
    run(&format!(
        "name = \"alert\"\ncpus = 1\nlength = \"120s\"\npolicy = \"{policy}\"\n\
         [manager]\ninterval = \"{interval}\"\ntargets = {{ dom1 = {percent} }}\n\
         [[vm]]\nname = \"dom0\"\n{dom0}\nworkload = {{ periodic = {{ period = \"100ms\", work = \"1ms\" }} }}\n\
         [[vm]]\nname = \"dom1\"\n{allocation}\nworkload = \"hog\"\n"
    ))
}

#[test]
fn a_workload_manager_settles_under_sedf_and_oscillates_under_credit() {
    // Only low percentages are tested. From 30 % on, the caps of Credit are exact enough for the manager, as in figure
    // 7 of the paper.
    for percent in [5, 10, 20] {
        let [sedf, credit] = ["sedf", "credit"].map(|policy| managed(&alert(policy, percent, "1s"))[0].clone());
        assert!(sedf.settled && sedf.error_ppm <= 20_000, "{sedf:?}");
        assert!(!credit.settled, "{credit:?}");
        assert!(credit.error_ppm > sedf.error_ppm && credit.amplitude_ppm > sedf.amplitude_ppm, "{sedf:?} {credit:?}");
    }
}

#[test]
fn every_interval_is_told_and_the_vcpus_of_a_vm_share_its_assignment() {
    let report = run("name = \"two\"\ncpus = 2\nlength = \"10s\"\npolicy = \"sedf\"\n\
         [manager]\ninterval = \"1s\"\ngain = 50\nmost = 200\ntargets = { a = 60, late = 20 }\n\
         [[vm]]\nname = \"a\"\nvcpus = 2\nslice = \"1ms\"\nperiod = \"10ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n\
         [[vm]]\nname = \"late\"\narrival = \"2500ms\"\nslice = \"1ms\"\nperiod = \"10ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n");
    let [a, late] = managed(&report) else { panic!("there are two") };
    assert_eq!((a.assigned_ppm.len(), a.assigned_ppm[0], a.refused), (10, 600_000, 0));
    assert!(a.settled && a.consumed_ppm.iter().all(|&ppm| ppm.abs_diff(600_000) < 20_000), "{a:?}");
    // The first whole interval of `late` begins at 3 s.
    assert_eq!((late.assigned_ppm.len(), late.assigned_ppm[0]), (7, 200_000));
    // The CPU time of the vCPUs of `a` as measured by the meter equals the consumption that the manager measured.
    let got: u64 = report.entities[..2].iter().map(|vcpu| vcpu.got.delivered_ns).sum();
    let consumed: u64 = a.consumed_ppm.iter().map(|ppm| ppm * 1_000).sum();
    assert!(got.abs_diff(consumed) <= 10_000, "{got} {consumed}");
}

#[test]
fn a_vm_that_does_not_want_its_share_is_assigned_the_most_and_no_more() {
    let report = run("name = \"idle\"\ncpus = 1\nlength = \"20s\"\npolicy = \"sedf\"\n\
         [manager]\ninterval = \"1s\"\nmost = 40\ntargets = { a = 20 }\n\
         [[vm]]\nname = \"a\"\nslice = \"2ms\"\nperiod = \"10ms\"\nlimit = \"hard\"\n\
         workload = { periodic = { period = \"100ms\", work = \"1ms\" } }\n");
    let [a] = managed(&report) else { panic!("there is one") };
    assert_eq!((a.assigned_ppm.last(), a.settled, a.amplitude_ppm), (Some(&400_000), false, 0));
}

#[test]
fn what_a_manager_cannot_do_is_told_with_its_place_and_what_would_be_right() {
    let file = |manager: &str, vm: &str| {
        format!(
            "name = \"x\"\ncpus = 1\nlength = \"1s\"\n{manager}\n[[vm]]\nname = \"a\"\n{vm}\nworkload = \"hog\"\n\
             [[task]]\nname = \"t\"\nworkload = \"hog\"\n"
        )
    };
    for (manager, vm, reason, right) in [
        ("[manager]", "cap = 20", "the manager has no targets", "targets = { a = 20 }"),
        ("[manager]\ntargets = {}", "cap = 20", "these are no targets", "targets = { a = 20 }"),
        ("[manager]\ntargets = { b = 20 }", "cap = 20", "there is no VM `b` to manage", "`a`"),
        ("[manager]\ntargets = { t = 20 }", "cap = 20", "there is no VM `t` to manage", "`a`"),
        ("[manager]\ntargets = { a = 20 }", "", "`a` has no share to adjust", "with a `cap`, or with `slice`"),
        ("[manager]\ntargets = { a = 0 }", "cap = 20", "target", "1 to 102400"),
        ("[manager]\ntargets = { a = 50 }\nmost = 40", "cap = 20", "is never assigned", "1 to 40"),
        (
            "[manager]\ntargets = { a = 5 }\nleast = 9\nmost = 8",
            "cap = 20",
            "the minimum share (9 %) exceeds",
            "up to `most`",
        ),
        ("[manager]\ntargets = { a = 20 }\ninterval = \"0s\"", "cap = 20", "interval", "use "),
        (
            "[manager]\ntargets = { a = 20 }\nspeed = 1",
            "cap = 20",
            "[manager] has no key `speed`",
            "one of interval, gain",
        ),
    ] {
        let text = file(manager, vm);
        let Err(problems) = Scenario::from_bytes("managed.toml", text.into_bytes()) else { panic!("{manager}: read") };
        let told = problems.to_string();
        assert!(told.contains(reason) && told.contains(right) && told.contains("managed.toml:"), "{told}");
    }
}

#[test]
fn what_is_refused_leaves_all_vcpus_as_they_were() {
    // On one CPU, two vCPUs cannot reserve 60 % each.
    let report = run("name = \"two\"\ncpus = 1\nlength = \"6s\"\npolicy = \"edf\"\n\
         [manager]\ninterval = \"1s\"\nmost = 200\ntargets = { a = 120 }\n\
         [[vm]]\nname = \"a\"\nvcpus = 2\nslice = \"1ms\"\nperiod = \"10ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n");
    let a = &managed(&report)[0];
    assert!(a.refused > 0, "{a:?}");
    assert!(a.assigned_ppm.iter().all(|&ppm| ppm == 200_000), "what it asks for itself: {a:?}");
    assert!(a.consumed_ppm.iter().all(|&ppm| ppm.abs_diff(200_000) < 10_000), "and both have as much: {a:?}");
}

/// A managed VM whose work is random.
const BY_CHANCE: &str = "name = \"by chance\"\ncpus = 1\nlength = \"20s\"\npolicy = \"credit\"\n\
    [manager]\ninterval = \"1s\"\ntargets = { a = 30 }\n\
    [[vm]]\nname = \"a\"\ncap = 20\n[[vm.task]]\nname = \"t\"\nworkload.web = {}\n\
    [[vm]]\nname = \"b\"\nworkload = \"hog\"\n";

fn by_chance(seed: u64) -> Report {
    let scenario = scenario(BY_CHANCE);
    let choices = run::choose(&scenario, &[], &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let run = Run { seed, ..Run::new(scenario, choices[0].clone()) };
    run.play(Observers::none()).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn over_many_seeds_a_manager_has_medians() {
    let runs: Vec<Report> = (0..5).map(by_chance).collect();
    let summary = Summary::new(&runs);
    let told = summary.manager.as_ref().expect("there is a manager");
    let of = |number: fn(&ManagedVm) -> u64| {
        Spread::of(&runs.iter().map(|run| number(&managed(run)[0])).collect::<Vec<_>>())
    };
    let (a, settled) = (&told.vms[0], runs.iter().filter(|run| managed(run)[0].settled).count());
    assert_eq!((a.name.as_str(), a.target_ppm, a.runs, a.settled_runs), ("a", 300_000, 5, settled));
    assert_eq!((a.error_ppm, a.refused), (of(|vm| vm.error_ppm), of(|vm| vm.refused)));
    assert_eq!(
        (a.allocation_error_ppm, a.amplitude_ppm),
        (of(|vm| vm.allocation_error_ppm), of(|vm| vm.amplitude_ppm))
    );
    assert!(a.error_ppm.low < a.error_ppm.high, "chance makes a difference: {a:?}");
    let text = medians(&[summary], Widths(100));
    assert!(
        text.contains("Managed, in the last half of each run:") && text.contains(&format!("{settled} of 5")),
        "{text}"
    );
}

#[test]
fn what_is_counted_is_a_run_with_its_manager() {
    let counted = |text: &str| {
        let scenario = scenario(text);
        let choices = run::choose(&scenario, &[], &[]).unwrap_or_else(|problems| panic!("{problems}"));
        let run = Run { seed: 1, ..Run::new(scenario, choices[0].clone()) };
        run.tally_while(|_| true).unwrap_or_else(|problems| panic!("{problems}")).expect("nothing cancels it").inputs
    };
    let scenario = |manager: &str| {
        format!(
            "name = \"x\"\ncpus = 1\nlength = \"3s\"\npolicy = \"sedf\"\n{manager}\
             [[vm]]\nname = \"a\"\nslice = \"1ms\"\nperiod = \"10ms\"\nlimit = \"hard\"\nworkload = \"hog\"\n\
             [[task]]\nname = \"t\"\nworkload.periodic = {{ period = \"7ms\", work = \"6ms\" }}\n"
        )
    };
    // A larger reservation for the managed VM leaves less of each period for the task `t`.
    let managed = "[manager]\ninterval = \"1s\"\ntargets = { a = 90 }\n";
    assert_ne!(counted(&scenario(managed)), counted(&scenario("")));
}
