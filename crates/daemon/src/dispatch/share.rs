//! [`share`]: a weight or a cap for a process, through a control group of the cpu controller.
//!
//! A share is no promise: the kernel divides the CPUs by weights, and withholds CPU time above a cap. In version 1 of
//! control groups, the processes are moved into a group of Tactus below their present group. In version 2, the present
//! group or the unit of systemd around it has the share. The table has the group before it is created or changed, so that a restoration moves the processes
//! back and removes the group, or gives the group its earlier values.

use super::admit::eligible;
use super::enclosure::{Enclosure, release_groups};
use super::refusal::Refusal;
use crate::Explanation;
use crate::kernel::{CpuShare, Kernel};
use crate::table::{ControlGroup, Row, Table};

/// Gives process `pid` and its descendants this share of the CPUs. Returns the rows of the groups, which the caller
/// [releases](release_groups) at the end of the share. Takes some 10 ms, and calls `beat` before each process. `ours`
/// are the pids of Tactus and its ancestors.
///
/// # Errors
/// The process cannot have a share. No process is in a group of Tactus then.
pub fn share<K: Kernel>(
    kernel: &K,
    table: &Table,
    pid: u32,
    ours: &[u32],
    share: CpuShare,
    beat: &dyn Fn(),
) -> Result<Vec<Row>, Refusal> {
    eligible(kernel, pid, ours)?;
    let mut enclosure = Enclosure::none();
    let group_for = |kernel: &K, leader: &K::Thread| {
        let group = kernel.share_group(leader, share)?;
        if has_share(table, group) { Err(shared_already(pid)) } else { Ok(group) }
    };
    let outcome = enclosure.fill(kernel, table, pid, &group_for, beat).and_then(|()| {
        // A share of each of several groups would not be the share of all.
        if enclosure.groups().len() > 1 {
            let why = format!("descendants of process {pid} are in other control groups of the cpu controller");
            return Err(Refusal::Mechanism(Explanation::new(why, "give each of these processes a share of its own")));
        }
        enclosure.groups().try_for_each(|group| Ok(kernel.set_share(group, share)?))
    });
    match outcome {
        Ok(()) => Ok(enclosure.rows()),
        Err(refused) => {
            release_groups(kernel, table, &enclosure.rows(), beat);
            Err(refused)
        }
    }
}

/// Returns whether Tactus has already changed this group of version 2.
fn has_share(table: &Table, group: ControlGroup) -> bool {
    let ControlGroup::FoundShare { id: wanted, .. } = group else { return false };
    let is_it = |found| matches!(found, ControlGroup::FoundShare { id, .. } if id == wanted);
    table.groups().into_iter().any(|(_, found, _)| is_it(found))
}

fn shared_already(pid: u32) -> sys::Error {
    let what = format!("a weight or a cap for process {pid}");
    let why = "Tactus has set a share of its control group for another process".to_string();
    sys::Error::Absent { what, why, remedy: "end this share first" }
}
