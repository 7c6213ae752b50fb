//! Rates between two samples, and the columns that fit.

use super::super::columns::{Column, fitting};
use super::super::rates::Rates;
use super::super::sample::Sample;
use super::*;

/// Returns a sample of one VM: its pid, the CPU time and waits of its vCPUs in ms, and its judged and missed periods.
fn of_one(at_ms: u64, pid: u32, times: (u64, u64), periods: (u64, u64)) -> Sample {
    // 10 dispatches for each millisecond of waiting.
    let time = |(ran, waited): (u64, u64)| CpuTime {
        ran_ns: ran * 1_000_000,
        waited_ns: waited * 1_000_000,
        dispatches: waited * 10,
    };
    let mut sample = sample(0);
    sample.vms.truncate(2);
    let mut vm = sample.vms.remove(1);
    vm.measured = measured(periods.0, periods.1);
    let of_others = time((times.0 / 10, 0));
    let usage = Usage { id: vm.id.clone(), pid, vcpus: 2, of_vcpus: time(times), of_others };
    Sample { vms: vec![vm], usages: Usages { at_ns: at_ms * 1_000_000, vms: vec![usage] }, ..sample }
}

#[test]
fn shares_are_those_of_one_cpu_between_two_samples() {
    let (before, after) = (of_one(0, 7, (1_000, 50), (100, 4)), of_one(2_000, 7, (4_000, 250), (300, 7)));
    let rates = Rates::between(&before, &after);
    let vm = &rates.vms[0];
    assert_eq!((vm.used_ppm, vm.waited_ppm, vm.others_ppm), (Some(1_500_000), Some(100_000), Some(150_000)));
    assert_eq!((vm.vcpus, vm.judged, vm.missed, vm.latency_ns), (Some(2), 200, 3, Some(100_000)));
    assert_eq!((vm.judged_in_all, vm.missed_in_all), (300, 7));
    // 2 ms in 10 ms are granted. 1.5 ms of the due 400 ms are missing.
    assert_eq!((vm.granted_ppm, rates.promised_ppm), (Some(200_000), 200_000));
    assert_eq!((vm.delivered_of_due_ppm, vm.delivered_ppm), (Some(996_250), Some(199_250)));
    let unnamed = |mut sample: Sample| {
        sample.usages.vms[0].vcpus = 0;
        sample
    };
    let vm = &Rates::between(&unnamed(before), &unnamed(after)).vms[0];
    assert_eq!((vm.vcpus, vm.used_ppm, vm.others_ppm), (None, Some(150_000), None), "vCPUs are not known");
}

#[test]
fn nothing_is_known_of_another_process_or_without_time_between() {
    let (before, after) = (of_one(0, 7, (1_000, 50), (100, 4)), of_one(2_000, 8, (500, 2), (3, 1)));
    let vm = &Rates::between(&before, &after).vms[0];
    assert_eq!((vm.used_ppm, vm.waited_ppm, vm.latency_ns), (None, None, None));
    assert_eq!((vm.judged, vm.missed), (3, 1), "the counters have begun again");
    let vm = &Rates::between(&before, &before).vms[0];
    assert_eq!((vm.used_ppm, vm.delivered_of_due_ppm, vm.delivered_ppm), (None, None, None));
}

#[test]
fn the_json_of_a_vm_keeps_its_former_fields() {
    let rates = Rates::between(&sample(0), &sample(2));
    let json = serde_json::to_value(&rates).unwrap();
    let vm = &json["vms"][1];
    let former =
        ["id", "name", "state", "promise", "vcpus", "used_ppm", "waited_ppm", "others_ppm", "judged", "missed"];
    for field in former {
        assert!(!vm[field].is_null(), "{field}: {vm}");
    }
    assert_eq!((&vm["promise"], &vm["desired"]["promise"]["slice_ns"]), (&"2ms in 10ms".into(), &2_000_000.into()));
    assert_eq!((&json["span_ns"], &json["host"]["cpus"]), (&2_000_000_000_u64.into(), &4.into()));
}

#[test]
fn a_narrow_terminal_drops_the_least_important_columns_first() {
    let all: Vec<(Column, usize)> = Column::ALL.iter().map(|column| (*column, 6)).collect();
    let titles = |width: usize| fitting(&all, width).iter().map(|(column, _)| column.title()).collect::<Vec<_>>();
    assert_eq!(titles(19 * 8 - 2).len(), 19, "all columns fit exactly");
    assert!(titles(19 * 8 - 3).len() == 18 && !titles(19 * 8 - 3).contains(&"vCPUs"));
    assert_eq!(titles(46), ["name", "state", "asked", "delivered", "missed", "waited"]);
    assert_eq!(titles(14), ["name", "state"]);
    assert_eq!(titles(1), ["name"], "the name stays");
}
