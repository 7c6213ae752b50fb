//! One trial per mechanism. A trial changes only its own child processes and control groups, which end with the trial.

use super::groups::{self, TrialGroup};
use crate::Explanation;
use crate::host_profile::share_ppm;
use crate::realtime_group;
use sched::{CpuSet, Instant, Nanos};
use std::sync::Arc;
use sys::attributes::{self, Attributes, Policy};
use sys::cgroup::Hierarchy;
use sys::child::{Child, Work};
use sys::event::Bell;
use sys::freezer::{self, Freezer, State as Frost};
use sys::inheritance::Donor;
use sys::switches::{Record, Switches, Turn, Wake};
use sys::usage::{Meter, StateMeter};
use sys::{affinity, clock, kernel, thread};

/// The observation, or the reason why the mechanism fails.
type Verdict = Result<String, Explanation>;

/// Maximum time to wait for an effect that should be immediate.
const PATIENCE: Nanos = Nanos::s(2);
/// The remedy for a failure that a busy machine may cause.
const TRY_AGAIN: &str = "try again when the machine is less busy";

/// Starts a child that is busy half of the time.
fn half_busy() -> sys::Result<Child> {
    Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ms(1) })
}

/// Starts a child that is always busy.
fn hog() -> sys::Result<Child> {
    Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::ZERO })
}

/// Waits until `is_so` holds, for [`PATIENCE`] at most. Returns the instant just before the successful check; `None` if
/// no check succeeded.
fn within_patience(mut is_so: impl FnMut() -> sys::Result<bool>) -> sys::Result<Option<Instant>> {
    let end = clock::now() + PATIENCE;
    loop {
        let now = clock::now();
        match is_so()? {
            true => return Ok(Some(now)),
            false if now >= end => return Ok(None),
            false => clock::sleep(Nanos::us(200)),
        }
    }
}

/// Measures the CPU time of each child for `length`. Unit: parts per million of a CPU.
fn shares<const N: usize>(children: [&Child; N], length: Nanos) -> sys::Result<[u64; N]> {
    let read = || -> sys::Result<[Nanos; N]> {
        let mut ran = [Nanos::ZERO; N];
        for (ran, child) in ran.iter_mut().zip(children) {
            *ran = Meter::open(child.pid())?.read()?.ran;
        }
        Ok(ran)
    };
    let (before, begin) = (read()?, clock::now());
    clock::sleep(length);
    let (after, passed) = (read()?, clock::now().saturating_since(begin));
    Ok(std::array::from_fn(|nth| share_ppm(after[nth].saturating_sub(before[nth]), passed)))
}

/// Formats parts per million as a percentage.
fn percent(ppm: u64) -> String {
    format!("{}.{} %", ppm / 10_000, ppm / 1_000 % 10)
}

pub(super) fn inheritance() -> Verdict {
    let child = half_busy()?;
    let own = attributes::get(child.pid())?;
    let donor = Donor::start(Arc::new(Bell::new()?))?;
    realtime_group::enter_thread(donor.tid());
    donor.lend_to(child.pid())?;
    donor.set(Some(1))?;
    let (lent, kept) = (thread::status(child.pid())?.priority, attributes::get(child.pid())?);
    drop(donor);
    // The kernel reports real-time priority 1 as -2.
    match lent {
        -2 if kept == own => Ok("a child inherited priority 1, and kept its own attributes".to_string()),
        -2 => Err(Explanation::new(format!("a child that inherited a priority became {kept}"), TRY_AGAIN)),
        _ => Err(Explanation::new("a child did not inherit priority 1", "use a kernel with PI futexes")),
    }
}

pub(super) fn fifo() -> Verdict {
    let child = half_busy()?;
    attributes::set(child.pid(), Attributes::raised(1))?;
    let [share] = shares([&child], Nanos::ms(50))?;
    if share == 0 {
        return Err(Explanation::new("a child in SCHED_FIFO got no CPU time in 50ms", TRY_AGAIN));
    }
    Ok("a child was raised to priority 1, and ran".to_string())
}

pub(super) fn deadline() -> Verdict {
    let child = hog()?;
    let (runtime, period) = (Nanos::ms(2), Nanos::ms(10));
    let policy = Policy::Deadline { runtime, deadline: period, period, reclaim: false, overrun: false };
    attributes::set(child.pid(), Attributes::of(policy))?;
    let [share] = shares([&child], Nanos::ms(200))?;
    match share {
        150_000..250_000 => Ok(format!("a hog with {runtime} in every {period} got {}", percent(share))),
        _ => Err(Explanation::new(format!("a hog with {runtime} in every {period} got {}", percent(share)), TRY_AGAIN)),
    }
}

pub(super) fn affinity() -> Verdict {
    let child = half_busy()?;
    let cpus = affinity::get(child.pid())?;
    let meter = StateMeter::open(child.pid())?;
    for cpu in cpus.iter() {
        affinity::set(child.pid(), &CpuSet::one(cpu))?;
        if within_patience(|| Ok(meter.read()?.cpu == cpu.index()))?.is_none() {
            return Err(Explanation::new(format!("a child that was moved to CPU {cpu} did not run there"), TRY_AGAIN));
        }
    }
    Ok(format!("a child ran on each of CPUs {cpus} when moved there"))
}

/// Returns whether `child` stops running within [`PATIENCE`].
fn stands_still(child: &Child) -> sys::Result<bool> {
    let meter = Meter::open(child.pid())?;
    let stands = within_patience(|| {
        let before = meter.read()?.ran;
        clock::sleep(Nanos::ms(10));
        Ok(meter.read()?.ran == before)
    });
    // Several checks may be necessary, because the kernel reports a thread as frozen or stopped shortly before the
    // thread leaves its CPU.
    Ok(stands?.is_some())
}

/// Returns whether `child` runs within [`PATIENCE`].
fn goes_on(child: &Child) -> sys::Result<bool> {
    let meter = Meter::open(child.pid())?;
    let before = meter.read()?.ran;
    Ok(within_patience(|| Ok(meter.read()?.ran > before))?.is_some())
}

/// Rounds `length` up to whole microseconds.
fn rounded(length: Nanos) -> Nanos {
    Nanos::us(length.as_ns().div_ceil(1_000))
}

pub(super) fn freezer_one() -> Verdict {
    let hierarchy = Hierarchy::one_or_mount("freezer")?;
    // While no group is frozen, Linux patches its code at each freeze and thaw. Tactus therefore keeps a frozen group.
    let empty = TrialGroup::create(&hierarchy.group_of(thread::current())?, "frozen")?;
    freezer::freeze(&empty)?;
    freezer(&hierarchy)
}

pub(super) fn freezer_two() -> Verdict {
    freezer(&Hierarchy::two()?)
}

/// Number of freezes and thaws whose mean cost is stated.
const PAIRS: u64 = 32;

fn freezer(hierarchy: &Hierarchy) -> Verdict {
    let child = hog()?;
    let home = hierarchy.group_of(child.pid())?;
    let group = TrialGroup::create(&home, "freezer")?;
    group.add_process(child.pid())?;
    let begin = clock::now();
    freezer::freeze(&group)?;
    let at = freezer::wait(&group, Frost::Frozen, PATIENCE)?;
    if !stands_still(&child)? {
        return Err(Explanation::new("a frozen child continued to run", TRY_AGAIN));
    }
    freezer::thaw(&group)?;
    freezer::wait(&group, Frost::Thawed, PATIENCE)?;
    if !goes_on(&child)? {
        return Err(Explanation::new("a thawed child did not run", TRY_AGAIN));
    }
    let (took, opened, begin) = (rounded(at.saturating_since(begin)), Freezer::open(group.again()?)?, clock::now());
    for _ in 0..PAIRS {
        opened.freeze()?;
        opened.thaw()?;
    }
    let pair = rounded(Nanos::ns(clock::now().saturating_since(begin).as_ns() / PAIRS));
    let path = home.path().display();
    Ok(format!("hard limits: a hog in a group below {path} froze in {took}; a freeze and a thaw take {pair}"))
}

pub(super) fn switches() -> Verdict {
    let child = half_busy()?;
    let (mut switches, how) = match Switches::of_thread(child.pid(), Wake::OnLeave) {
        Ok(switches) => (switches, "a record when a child leaves its CPU"),
        // A process without the privilege for wake-ups can still read the records.
        Err(refused) => match Switches::of_thread(child.pid(), Wake::Seldom) {
            Ok(switches) => (switches, "read, but without wake-ups"),
            Err(_) => return Err(refused.into()),
        },
    };
    let (mut count, mut blocked) = (0_u32, false);
    within_patience(|| {
        while let Some(record) = switches.next_record() {
            if let Record::Switch(switch) = record {
                count += 1;
                blocked |= switch.turn == Turn::Blocked;
            }
        }
        Ok(count >= 10 && blocked)
    })?;
    if count == 0 || !blocked {
        return Err(Explanation::new(
            format!("{count} switches of a child that blocks every 2ms were recorded"),
            TRY_AGAIN,
        ));
    }
    Ok(how.to_string())
}

pub(super) fn quota() -> Verdict {
    let home = groups::home_for_cpu()?;
    let child = hog()?;
    let group = TrialGroup::create(&home, "quota")?;
    groups::set_quota(&group, 20)?;
    group.add_process(child.pid())?;
    let [share] = shares([&child], Nanos::ms(300))?;
    let words = format!("a hog with a quota of 20 % got {}", percent(share));
    if share < 300_000 { Ok(words) } else { Err(Explanation::new(words, "use a kernel with CONFIG_CFS_BANDWIDTH")) }
}

pub(super) fn weight() -> Verdict {
    let home = groups::home_for_cpu()?;
    let (light, heavy) = (hog()?, hog()?);
    let (light_group, heavy_group) = (TrialGroup::create(&home, "light")?, TrialGroup::create(&home, "heavy")?);
    groups::set_weight(&heavy_group, 4)?;
    let cpu = affinity::get(light.pid())?.first().map_or(CpuSet::EMPTY, CpuSet::one);
    for (child, group) in [(&light, &light_group), (&heavy, &heavy_group)] {
        group.add_process(child.pid())?;
        // Set the affinity after the child has entered the group: before Linux 6.2, entering a group resets the
        // affinity to all CPUs of the group.
        affinity::set(child.pid(), &cpu)?;
    }
    let [light, heavy] = shares([&light, &heavy], Nanos::ms(400))?;
    let words = format!(
        "of two hogs on a CPU, the hog with 4 times the weight received {} to {}",
        percent(heavy),
        percent(light)
    );
    if heavy > light.saturating_mul(2) { Ok(words) } else { Err(Explanation::new(words, TRY_AGAIN)) }
}

pub(super) fn sched_ext() -> Verdict {
    let state = kernel::sched_ext();
    if state == kernel::SchedExt::Absent {
        let why = "this kernel has no place for a scheduler in BPF (no /sys/kernel/sched_ext)";
        return Err(Explanation::new(why, "use Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT"));
    }
    let child = half_busy()?;
    attributes::set(child.pid(), Attributes::of(Policy::Ext { nice: 0 }))?;
    Ok(match state {
        kernel::SchedExt::Loaded(name) => format!("a child was put under {name}, the scheduler that is loaded"),
        _ => "a child was put under it; no scheduler is loaded".to_string(),
    })
}
