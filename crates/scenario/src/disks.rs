//! Applications that are about files, as typed.

use super::network::bandwidth;
use super::settings::{ROUNDS_MAX, Settings};
use super::table::Table;
use super::{form, work};
use input::problem::{Findings, Problem, Wrong};
use toml::de::DeValue;
use workloads::{Filebench, Mix, Postmark};

/// The keys of `postmark`.
pub(crate) const POSTMARK_KEYS: &[&str] =
    &["files", "smallest", "largest", "transactions", "reads", "work", "hits", "written_back", "dirty"];
/// The keys of `filebench`.
pub(crate) const FILEBENCH_KEYS: &[&str] = &["mix", "threads", "loops", "work", "copy", "hits", "dirty"];

/// The most transactions, and files.
const COUNT_MAX: u64 = 1 << 40;
/// The most bytes that wait to be written back.
const DIRTY_MAX: u64 = 1 << 40;
/// The most threads of a filebench: their steps are all laid out.
const THREADS_MAX: u32 = 1_024;

pub(super) fn postmark(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Postmark> {
    let mut settings = Settings::new(table, findings);
    let default = Postmark::default();
    let (low, high) = default.sizes;
    let sizes =
        (settings.count("smallest", Postmark::SIZE_MAX, low), settings.count("largest", Postmark::SIZE_MAX, high));
    let reads = settings.read("reads", |value| form::count("reads", value, 0..=10));
    let work = settings.read("work", |value| form::time_above_zero("work", value));
    let written_back = percent(&mut settings, "written_back", default.written_back);
    let postmark = Postmark {
        files: settings.count("files", COUNT_MAX, default.files),
        sizes,
        transactions: settings.count("transactions", COUNT_MAX, default.transactions),
        reads: reads.unwrap_or(default.reads),
        work: work.unwrap_or(default.work),
        hits: percent(&mut settings, "hits", default.hits),
        written_back,
        dirty: settings.count("dirty", DIRTY_MAX, default.dirty),
    };
    if sizes.0 > sizes.1 {
        let right = format!("use {} or more, the smallest", sizes.0);
        let key = if table.get("largest").is_some() { "largest" } else { "smallest" };
        settings.wrong(Wrong::new("the largest file is smaller than the smallest", "out of order", right), key);
        return None;
    }
    if postmark.dirty < postmark.request() {
        let right = format!("use {} or more: what ten transactions write", postmark.request());
        settings.wrong(Wrong::new("there is no room for what is written at once", "too little", right), "dirty");
    }
    settings.right.then_some(postmark)
}

pub(super) fn filebench(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Filebench> {
    let mut settings = Settings::new(table, findings);
    let Some(mix) = settings.read("mix", mix) else {
        if table.get("mix").is_none() {
            let problem = Problem::new("the workload `filebench` has no mix").at(table.at, "which?");
            findings.add(problem.help(format!("use {}", work::example("filebench"))));
        }
        return None;
    };
    let default = Filebench::new(mix);
    let dirty = |value: &DeValue<'_>| form::count("dirty", value, Filebench::DIRTY_LEAST..=DIRTY_MAX);
    let filebench = Filebench {
        threads: settings.few("threads", 1, THREADS_MAX, default.threads),
        loops: settings.read("loops", |value| form::count("loops", value, 1..=ROUNDS_MAX)),
        work: settings.above_zero("work", default.work),
        copy: settings.read("copy", |value| bandwidth("copy", value)).unwrap_or(default.copy),
        hits: percent(&mut settings, "hits", default.hits),
        dirty: settings.read("dirty", dirty).unwrap_or(default.dirty),
        ..default
    };
    settings.right.then_some(filebench)
}

fn mix(value: &DeValue<'_>) -> Result<Mix, Wrong> {
    form::word("mix", value, &Mix::NAMES, "\"varmail\", \"fileserver\", \"webserver\" or \"webproxy\"")
}

fn percent(settings: &mut Settings<'_, '_, '_, '_>, key: &'static str, default: u64) -> u64 {
    settings.read(key, |value| form::count(key, value, 0..=100)).unwrap_or(default)
}
