//! Control groups for trials. A group is removed when its trial ends, or when the program is interrupted. If the
//! program is killed, the next trial with a group below the same parent removes the groups.

use crate::guardian;
use std::sync::{Mutex, MutexGuard, PoisonError};
use sys::cgroup::{Group, Hierarchy, OwnGroup, Version};
use sys::child::{Child, Work};
use sys::process::Process;
use sys::thread::{Identity, Thread};
use sys::{Result, freezer};

/// Prefix of the names of trial groups.
const PREFIX: &str = "tactus-doctor-";

/// Parent and name of each existing group of this process.
static MADE: Mutex<Vec<(Group, String)>> = Mutex::new(Vec::new());

fn made() -> MutexGuard<'static, Vec<(Group, String)>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the groups of this process's trials, and ends the processes in these groups. Afterwards no group can be
/// created. An interrupt handler calls this function, and then ends the process.
pub fn clean_up() {
    let mut made = made();
    for (home, name) in made.drain(..) {
        // The interrupt handler cannot report an error.
        let _ = empty(&home, &name);
    }
    // The lock is never released, so no group can be created any more.
    std::mem::forget(made);
}

/// Thaws group `name` below `home`, kills its processes, and removes the group.
fn empty(home: &Group, name: &str) -> Result<()> {
    let group = home.adopt(name)?;
    // In a frozen group of version 1, a killed process does not end before the group is thawed.
    let _ = freezer::thaw(&group);
    for pid in group.processes()? {
        // All processes in the group were forked by this process, or by an earlier doctor that has ended.
        if let Ok(process) = Process::open(pid) {
            let _ = process.kill();
        }
    }
    group.remove()
}

/// A group for a trial.
#[derive(Debug)]
pub(super) struct TrialGroup {
    /// The group; `None` during its drop.
    group: Option<OwnGroup>,
    name: String,
}

impl TrialGroup {
    /// Creates a trial group below `home`, and removes the groups of doctors that were killed.
    pub(super) fn create(home: &Group, trial: &str) -> Result<TrialGroup> {
        let me = Thread::open(std::process::id())?.identity();
        sweep(home, me);
        let name = format!("{PREFIX}{}-{}-{trial}", me.tid, me.start_time);
        let mut made = made();
        let group = home.create(&name)?;
        made.push((home.again()?, name.clone()));
        Ok(TrialGroup { group: Some(group), name })
    }
}

impl std::ops::Deref for TrialGroup {
    type Target = Group;

    fn deref(&self) -> &Group {
        self.group.as_deref().expect("it is there until it is dropped")
    }
}

impl Drop for TrialGroup {
    fn drop(&mut self) {
        let mut made = made();
        // If this fails, the next doctor removes the group.
        let _ = self.group.take().map(OwnGroup::remove);
        made.retain(|(_, name)| *name != self.name);
    }
}

/// Removes the trial groups below `home` whose creators have ended.
fn sweep(home: &Group, me: Identity) {
    for name in home.names().unwrap_or_default() {
        if maker(&name).is_some_and(|maker| maker != me && Thread::open_as(maker).is_err()) {
            // Another process may remove the group at the same time.
            let _ = empty(home, &name);
        }
    }
}

/// Returns the creator of the group with this name.
fn maker(name: &str) -> Option<Identity> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let mut number = || parts.next()?.parse::<u64>().ok();
    Some(Identity { tid: u32::try_from(number()?).ok()?, start_time: number()? })
}

/// Returns a group below which a group with a quota or a weight can be created without a change to existing groups.
pub(super) fn home_for_cpu() -> Result<Group> {
    let me = sys::thread::current();
    match Hierarchy::one("cpu") {
        Ok(hierarchy) => return hierarchy.group_of(me),
        Err(sys::Error::Absent { .. }) => {}
        Err(error) => return Err(error),
    }
    let hierarchy = Hierarchy::two()?;
    let path = hierarchy.path_of(me)?;
    // Find the nearest ancestor that enables the cpu controller for its children.
    let mut above = path.trim_end_matches('/');
    loop {
        let group = hierarchy.open(if above.is_empty() { "/" } else { above })?;
        let given = group.read("cgroup.subtree_control")?;
        if given.split_ascii_whitespace().any(|controller| controller == "cpu") {
            return Ok(group);
        }
        above = match above.rsplit_once('/') {
            Some((higher, _)) => higher,
            None => {
                return Err(sys::Error::Absent {
                    what: "the cpu controller of control groups".to_string(),
                    why: format!("no group above {path} enables it for its children"),
                    remedy: "write `+cpu` to cgroup.subtree_control of the root group",
                });
            }
        };
    }
}

/// Moves a child process out of the control groups of this process, as the guardian does, in each hierarchy in which one
/// act affects all processes of a group.
pub(super) fn leave_all() -> Result<()> {
    for place in guardian::places() {
        let child = Child::start(Work::Sleep)?;
        let leave = |above: &String| {
            let group = TrialGroup::create(&place.hierarchy.open(above)?, "guardian")?;
            group.add_process(child.pid())
        };
        let mut outcome = Ok(());
        for above in &place.above {
            outcome = leave(above);
            if outcome.is_ok() {
                break;
            }
        }
        outcome?;
    }
    Ok(())
}

/// Limits `group` to `percent` of a CPU in every 10 ms.
pub(super) fn set_quota(group: &Group, percent: u64) -> Result<()> {
    let (quota, period) = (percent * 100, 10_000);
    match group.version() {
        Version::One => {
            group.write("cpu.cfs_period_us", &period.to_string())?;
            group.write("cpu.cfs_quota_us", &quota.to_string())
        }
        Version::Two => group.write("cpu.max", &format!("{quota} {period}")),
    }
}

/// Sets the weight of `group` to `times` times the default weight.
pub(super) fn set_weight(group: &Group, times: u64) -> Result<()> {
    match group.version() {
        Version::One => group.write("cpu.shares", &(1_024 * times).to_string()),
        Version::Two => group.write("cpu.weight", &(100 * times).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Nanos;

    #[test]
    fn the_maker_is_in_the_name() {
        assert_eq!(maker("tactus-doctor-12-345-quota"), Some(Identity { tid: 12, start_time: 345 }));
        assert_eq!(maker("tactus-doctor-12"), None);
        assert_eq!(maker("user.slice"), None);
    }

    #[test]
    fn what_a_killed_doctor_has_left_is_removed_even_when_it_is_frozen() {
        let home = Hierarchy::one_or_mount("freezer").and_then(|tree| tree.group_of(sys::thread::current()));
        let Ok(home) = home.inspect_err(|error| eprintln!("SKIPPED: {error}")) else { return };
        let child = Child::start(Work::Sleep).unwrap();
        // The name states a creator with pid 1 that has ended: the current process 1 has another start time.
        let name = format!("{PREFIX}1-{}-left-{}", u64::MAX, std::process::id());
        let Ok(left) = home.create(&name).inspect_err(|error| eprintln!("SKIPPED: {error}")) else { return };
        left.add_process(child.pid()).unwrap();
        freezer::freeze(&left).unwrap();
        freezer::wait(&left, freezer::State::Frozen, Nanos::s(5)).unwrap();
        std::mem::forget(left);
        let group = TrialGroup::create(&home, "test").unwrap();
        assert!(!home.names().unwrap().contains(&name));
        assert!(child.process().ends_within(Nanos::s(5)));
        let name = group.name.clone();
        assert!(home.names().unwrap().contains(&name));
        drop(group);
        assert!(!home.names().unwrap().contains(&name));
    }
}
