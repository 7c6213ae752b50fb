//! The columns of `tactus top`.

use super::rates::Rates;
use report::percent;

/// Titles of the columns, and whether a column is aligned to the left.
pub(super) const COLUMNS: [(&str, bool); 8] = [
    ("name", true),
    ("state", true),
    ("promise", true),
    ("vCPUs", false),
    ("used", false),
    ("waited", false),
    ("others", false),
    ("missed", false),
];

/// Returns the cells of each VM.
pub(super) fn cells(rates: &Rates) -> impl Iterator<Item = [String; COLUMNS.len()]> {
    rates.vms.iter().map(|vm| {
        let share = |ppm: Option<u64>| ppm.map_or(String::new(), percent);
        let missed = if vm.judged == 0 { String::new() } else { format!("{} of {}", vm.missed, vm.judged) };
        let vcpus = vm.vcpus.map_or(String::new(), |vcpus| vcpus.to_string());
        let [used, waited, others] = [vm.used_ppm, vm.waited_ppm, vm.others_ppm].map(share);
        [vm.name.clone(), vm.state.clone(), vm.promise.clone(), vcpus, used, waited, others, missed]
    })
}
