//! The control group with the real-time threads of Tactus.
//!
//! In a kernel with RT_GROUP_SCHED, a group of the cpu controller of version 1 has no real-time runtime unless an
//! administrator writes one, and the group of a session or a service often has none. No thread there can be in SCHED_FIFO.
//! The core therefore leaves such a group for the nearest group above that has runtime. Clients stay in their groups: a
//! client that inherits its priority needs no runtime there (docs/decisions/0018).

use sys::cgroup::{Group, Hierarchy, paths_above};
use sys::realtime::{self, GroupRuntime};
use sys::{Result, thread};

/// Returns the real-time bandwidth of the group that the core uses. `None` if the kernel does not group real-time threads.
///
/// # Errors
/// The group of this process cannot be read.
pub(crate) fn of_core() -> Result<Option<GroupRuntime>> {
    let own = realtime::of_group(thread::current())?;
    Ok(group_above(own.as_ref()).map_or(own, |(_, runtime)| Some(runtime)))
}

/// Moves this process into the group that the core uses. What fails is reported by the first thread that cannot be in
/// SCHED_FIFO.
pub(crate) fn enter() {
    move_by(|group| group.add_process(std::process::id()));
}

/// Moves thread `tid` of this process into the group that the core uses.
pub(crate) fn enter_thread(tid: u32) {
    move_by(|group| group.add_thread(tid));
}

fn move_by(moves: impl Fn(&Group) -> Result<()>) {
    let own = realtime::of_group(thread::current()).ok().flatten();
    if let Some((group, _)) = group_above(own.as_ref()) {
        let _ = moves(&group);
    }
}

/// Returns the nearest group above `own`, the group of this process, that has real-time runtime and that this process may
/// enter. `None`: `own` has runtime itself, or there is no such group.
fn group_above(own: Option<&GroupRuntime>) -> Option<(Group, GroupRuntime)> {
    own.filter(|own| !own.has_runtime())?;
    let hierarchy = Hierarchy::one("cpu").ok()?;
    let path = hierarchy.path_of(std::process::id()).ok()?;
    paths_above(&path).iter().rev().find_map(|path| {
        let group = hierarchy.open(path).ok().filter(Group::is_writable)?;
        let runtime = GroupRuntime::of(&group).ok()?;
        runtime.has_runtime().then_some((group, runtime))
    })
}
