//! Control groups of their own for guardians: those of a core share one, and a guardian of loans has one for itself.
//!
//! One act can kill or freeze all processes of a control group: `cgroup.kill`, `memory.oom.group`, or a service manager
//! that ends a service. The guardians therefore leave the groups of the process that started them, the core in the text below. They move
//! to a group as close to the root as permitted, and never into a group below that of the core.
//!
//! A move waits for an RCU grace period, up to seconds on a busy host. A thread of its own moves the process, because
//! the guardian must beat meanwhile.

use super::name::GROUP;
use std::thread::{Builder, JoinHandle};
use sys::cgroup::{Hierarchy, paths_above};
use sys::process::Process;
use sys::thread::{Identity, State, Thread};
use sys::{Error, Result};

/// Controllers of version 1 through which one act affects all processes of a group. The group of the cpu controller
/// stays: a new group may have no real-time runtime.
const CONTROLLERS: [&str; 3] = ["freezer", "memory", "pids"];
/// Stack of the thread that moves the process, which is locked in memory. Unit: bytes.
const STACK: usize = 1 << 18;

/// The groups of the guardians of one core, or of a guardian of loans, which stands for the core in their names.
#[derive(Debug)]
pub(crate) struct Apart {
    core: Identity,
    moving: Option<JoinHandle<()>>,
}

impl Apart {
    /// Begins to move this process into groups of its own, shared by all guardians of `core`. What fails is not repeated:
    /// the guardian then stays in a group of the core. The doctor reports the reason.
    pub(crate) fn begin(core: Identity) -> Apart {
        let mover = Builder::new().name("tactus-groups".to_string()).stack_size(STACK);
        let moving = mover.spawn(move || places().iter().for_each(|place| drop(place.enter(&name_of(core)))));
        Apart { core, moving: moving.ok() }
    }

    /// Removes the groups if the core has ended. A living core removes them itself.
    pub(crate) fn end(self) {
        if Process::open_as(self.core).is_ok_and(|core| !core.has_ended()) {
            return;
        }
        self.remove();
    }

    /// Moves this process out of its groups, and removes them.
    pub(crate) fn remove(self) {
        let _ = self.moving.map(JoinHandle::join);
        remove_groups(self.core);
    }
}

/// Moves the remaining guardians of `core` out of their groups, and removes the groups. What cannot be removed is removed by
/// `sweep`.
pub fn remove_groups(core: Identity) {
    let name = name_of(core);
    for place in places() {
        for above in &place.above {
            let group = place.hierarchy.open(above).and_then(|above| above.adopt(&name));
            let _ = group.map(|group| group.remove());
        }
    }
}

/// Removes the empty groups of cores that have ended.
pub(crate) fn sweep() {
    for place in places() {
        for above in &place.above {
            let Ok(above) = place.hierarchy.open(above) else { continue };
            for name in above.names().unwrap_or_default() {
                if core_of(&name).is_some_and(has_ended) {
                    // A guardian in the group still restores the threads of its core.
                    let _ = above.remove_if_empty(&name);
                }
            }
        }
    }
}

/// Returns whether this process has ended, whether its parent has waited for it or not.
fn has_ended(process: Identity) -> bool {
    match Thread::open_as(process).and_then(|first| first.status()) {
        Ok(first) => first.state == State::Dead,
        Err(error) => matches!(error, Error::Gone(_)),
    }
}

/// A hierarchy, and where guardians may have a group in it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) hierarchy: Hierarchy,
    /// Paths of the groups above the group of this process, the root first.
    pub(crate) above: Vec<String>,
}

/// Returns the hierarchies in which one act affects all processes of a group.
pub(crate) fn places() -> Vec<Place> {
    let one = CONTROLLERS.iter().filter_map(|controller| {
        // A hierarchy with further controllers would apply them to the guardian, too.
        Hierarchy::one(controller).ok().filter(|hierarchy| hierarchy.is_exclusive().is_ok_and(|is_so| is_so))
    });
    let all = one.chain(Hierarchy::two().ok());
    all.filter_map(|hierarchy| {
        // A process in the root group can have a group below it: no act affects all processes of the root group.
        let above = paths_above(&hierarchy.path_of(std::process::id()).ok()?);
        Some(Place { hierarchy, above })
    })
    .collect()
}

impl Place {
    /// Moves this process into the group `name`, as close to the root as permitted.
    fn enter(&self, name: &str) -> Result<()> {
        let mut outcome = Ok(());
        for above in &self.above {
            outcome = self.hierarchy.open(above).and_then(|above| {
                let group = above.create_lasting(name)?;
                group.add_process(std::process::id()).inspect_err(|_| drop(above.adopt(name)))
            });
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}

fn name_of(core: Identity) -> String {
    format!("{GROUP}-{}-{}", core.tid, core.start_time)
}

/// Returns the core of the guardians in the group with this name.
fn core_of(name: &str) -> Option<Identity> {
    let (tid, start_time) = name.strip_prefix(GROUP)?.strip_prefix('-')?.split_once('-')?;
    Some(Identity { tid: tid.parse().ok()?, start_time: start_time.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Nanos;
    use sys::child::{Child, Work};

    #[test]
    fn the_groups_above_are_listed_from_the_root() {
        assert_eq!(paths_above("/"), ["/"]);
        assert_eq!(paths_above("/a"), ["/"]);
        assert_eq!(paths_above("/a/b.scope/c"), ["/", "/a", "/a/b.scope"]);
    }

    #[test]
    fn the_core_is_in_the_name_of_the_group() {
        let core = Identity { tid: 12, start_time: 345 };
        assert_eq!(core_of(&name_of(core)), Some(core));
        assert_eq!(core_of("tactus-12-345"), None);
        assert_eq!(core_of("tactus-guardian-x"), None);
    }

    #[test]
    fn empty_groups_of_an_ended_core_are_removed_and_no_others() {
        let Some(place) = places().into_iter().next() else { return eprintln!("SKIPPED: there are no hierarchies") };
        let home = place.hierarchy.open(&place.above[0]).unwrap();
        let child = Child::start(Work::Sleep).unwrap();
        let ended = |number| Identity { tid: 1, start_time: u64::MAX - number };
        let alive = Thread::open(child.pid()).unwrap().identity();
        let names = [ended(0), ended(1), alive].map(name_of);
        for name in &names {
            if let Err(refused) = home.create_lasting(name) {
                return eprintln!("SKIPPED: {refused}");
            }
        }
        home.adopt(&names[1])
            .map(|group| {
                group.add_process(child.pid()).unwrap();
                std::mem::forget(group);
            })
            .unwrap();
        sweep();
        let left = home.names().unwrap();
        let is_left = names.each_ref().map(|name| left.contains(name));
        assert_eq!(is_left, [false, true, true], "empty; with a process; of a living core");
        child.process().kill().unwrap();
        assert!(child.process().ends_within(Nanos::s(5)));
        remove_groups(ended(1));
        remove_groups(alive);
        assert!(names.iter().all(|name| !home.names().unwrap().contains(name)));
    }
}
