//! [`share`]: a weight or a cap for a process, through a control group of the cpu controller.
//!
//! A share is no promise: the kernel divides the CPUs by weights, and withholds CPU time above a cap. The processes are
//! moved into a group of Tactus below their present group. The table has the group before it is created, so that a
//! restoration moves the processes back and removes the group.

use super::admit::eligible;
use super::enclosure::{Enclosure, release_groups};
use super::refusal::Refusal;
use crate::Explanation;
use crate::kernel::{CpuShare, Kernel};
use crate::table::{Row, Table};

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
    let outcome = enclosure.fill(kernel, table, pid, K::share_group, beat).and_then(|()| {
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
