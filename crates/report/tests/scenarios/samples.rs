//! The CPU time of every VM in each interval. Section 5.2 of `xen-three-2007` evaluates the error of an allocation in
//! every second.

use report::Report;
use run::{Observers, Run};
use scenario::Scenario;

fn run(text: &str) -> Report {
    let scenario = Scenario::from_bytes("sampled.toml", text.as_bytes().to_vec());
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    let choices = run::choose(&scenario, &[], &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let run = Run { seed: 1, ..Run::new(scenario, choices[0].clone()) };
    run.play(Observers::none()).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn samples_of_a_vm_are_of_all_its_vcpus_and_add_up_to_what_it_got() {
    let report = run("name = \"sampled\"\ncpus = 2\nlength = \"10500ms\"\npolicy = \"credit\"\n[samples]\n\
         [[vm]]\nname = \"a\"\nvcpus = 2\ncap = 150\nworkload = \"hog\"\n\
         [[vm]]\nname = \"late\"\narrival = \"3500ms\"\nworkload = \"hog\"\n\
         [[task]]\nname = \"lone\"\nworkload = { periodic = { period = \"10ms\", work = \"1ms\" } }\n");
    let samples = report.samples.as_ref().expect("they were asked for");
    assert_eq!(samples.interval_ns, 1_000_000_000);
    let [a, late] = &samples.vms[..] else { panic!("there are two VMs: {samples:?}") };
    assert_eq!((a.name.as_str(), a.cpu_ns.len(), late.name.as_str(), late.cpu_ns.len()), ("a", 10, "late", 10));
    assert!(late.cpu_ns[..3].iter().all(|&ns| ns == 0) && late.cpu_ns[3] > 0, "{late:?}");
    for (vm, group) in [a, late].into_iter().zip(&report.groups) {
        let (sum, rest) = (vm.cpu_ns.iter().sum::<u64>(), 500_000_000 * 2);
        assert!(sum <= group.got.delivered_ns && group.got.delivered_ns <= sum + rest, "{vm:?} {group:?}");
    }
}

#[test]
fn too_many_samples_are_refused_with_what_would_be_right() {
    let text = "name = \"x\"\ncpus = 1\nlength = \"1000s\"\n[samples]\ninterval = \"10us\"\n\
         [[vm]]\nname = \"a\"\nworkload = \"hog\"\n";
    let Err(problems) = Scenario::from_bytes("sampled.toml", text.as_bytes().to_vec()) else { panic!("it was read") };
    let report = problems.to_string();
    assert!(report.contains("more than 1000000 samples"), "{report}");
}
