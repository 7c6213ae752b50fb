//! Boosts of the vCPUs of a VM by the hints of its guest: a thread reads the hints of the guest's agent, and lends the vCPUs a priority for a
//! short time.
//!
//! ```text
//! port of the VM ───────┬──▶ Booster (crate coordination) ──▶ donors of the vCPUs, and of the threads on the way of their interrupts
//! wake-ups of carriers ─┘                └──▶ timer that both processes share ──▶ guardian of loans
//! ```
//!
//! No attribute of the VM changes: donors lend the priority. A guardian, a second process, ends all loans when this process hangs, is
//! stopped or is killed. It moves to a control group of its own, where that is permitted.

mod agent_port;
mod carrier_watch;
mod loan_guardian;
mod loans;
mod observers;
mod serving;

pub use agent_port::AgentPort;
pub use carrier_watch::CarrierWatch;
pub use loan_guardian::{COMMAND, run as guard};
pub use loans::VmThreads;
pub use observers::Observed;
pub use serving::{Boosted, Options, Over};

use crate::guardian::sweep;
use coordination::Boost;
use loans::Loans;
use serving::Serving;
use std::os::unix::net::UnixStream;
use sys::attributes::{self, Attributes};
use sys::{Error, Result, thread};

/// Maximum priority of a boost: the threads above it stay below the clients of the core.
const PRIORITY_MOST: u8 = 90;

/// Reads hints from `port`, and boosts the vCPUs, until the caller requests the end or the VM ends. The calling thread gets a real-time
/// priority, two above that of a boost. `carriers`: boosts the vCPUs at their wake-ups, too.
///
/// # Errors
/// A thread of the VM is no thread of a VM, the privilege for a real-time priority lacks, the boost is no priority of at most 90, or the
/// guardian of loans does not start.
pub fn serve(
    port: UnixStream,
    threads: &VmThreads,
    carriers: Option<CarrierWatch>,
    options: Options<'_>,
) -> Result<(Boosted, Over)> {
    let priority = priority_of(options.with.boost)?;
    let port = AgentPort::new(port, threads.vcpus.len(), options.with)?;
    // Guardians that were killed with their boosters have left groups.
    sweep();
    let loans = Loans::begin(threads, options.program, priority + 3)?;
    attributes::set(thread::current(), Attributes::raised(priority + 2))?;
    Serving::new(port, carriers, threads, options, priority, loans)?.run()
}

/// Returns the real-time priority of a boost, with room for those above it.
fn priority_of(boost: Boost) -> Result<u32> {
    match boost {
        Boost::Class { priority, .. } if priority.number() <= PRIORITY_MOST => Ok(u32::from(priority.number())),
        _ => Err(Error::Absent {
            what: "this boost".to_string(),
            why: format!("a vCPU is boosted to a real-time priority of at most {PRIORITY_MOST}"),
            remedy: "choose a boost such as rr:8",
        }),
    }
}
