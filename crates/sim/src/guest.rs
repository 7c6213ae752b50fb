//! [`Guest`]: the settings of a guest other than its policy, for example its spin locks and the data that it receives
//! from its host.

use coordination::Coordination;
use sched::Nanos;

/// The order in which a spin lock serves its waiters, and how they wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spinning {
    /// Order of arrival, even if the next waiter does not run (Linux 2.6.25 to 4.1). A preempted waiter delays all
    /// waiters behind it.
    #[default]
    Ticket,
    /// The first running waiter that tries acquires the lock: test and set, as in KVM and Xen guests without
    /// paravirtual locks since Linux 4.2.
    Unfair,
    /// Order of arrival. A waiter that has spun for `limit` halts its vCPU. The release of the lock to this waiter
    /// wakes the vCPU (paravirtual spin lock).
    Paravirt {
        /// Duration of the spin before the halt. Range: above zero.
        limit: Nanos,
    },
}

/// Whether a guest's scheduler receives the steal time of its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Steal {
    /// The scheduler has no steal clock and charges stolen time to its tasks.
    #[default]
    Hidden,
    /// The scheduler reads stolen time from its steal clock and does not charge stolen time to tasks
    /// (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    Known,
}

/// Settings of halt polling: a halting vCPU polls for a limited time before its thread blocks. Source:
/// Documentation/virt/kvm/halt-polling.rst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HaltPolling {
    /// Maximum polling time. Zero: the vCPU does not poll.
    pub most: Nanos,
    /// Polling time after the first growth from zero. A polling time that shrinks below this value becomes zero.
    pub grow_start: Nanos,
    /// Factor by which the polling time grows. Range: 2 ….
    pub grow: u32,
    /// Divisor by which the polling time shrinks. Zero: the polling time shrinks to zero at once.
    pub shrink: u32,
}

impl HaltPolling {
    /// No polling: the thread blocks at once.
    pub const OFF: HaltPolling = HaltPolling { most: Nanos::ZERO, grow_start: Nanos::us(10), grow: 2, shrink: 2 };
    /// KVM's defaults on x86.
    pub const KVM: HaltPolling = HaltPolling { most: Nanos::us(200), ..HaltPolling::OFF };
}

/// Pause-loop exiting (PLE): a spinning vCPU exits to the host and yields to a sibling. Source: `kvm_vcpu_on_spin`,
/// virt/kvm/kvm_main.c.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseLoop {
    /// Duration of the spin before the exit. Range: above zero.
    pub window: Nanos,
}

/// The settings of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guest {
    /// Order in which spin locks serve their waiters, and how the waiters wait.
    pub spinning: Spinning,
    /// Whether the guest's scheduler receives the steal time of its CPUs.
    pub steal: Steal,
    /// Whether the guest's scheduler and its paravirtual locks can read which of its CPUs are preempted
    /// (`vcpu_is_preempted`).
    pub shows_preempted: bool,
    /// Whether idle CPUs of the guest poll instead of halting (`idle=poll`).
    pub idle_polls: bool,
    /// Halt polling of the host for vCPUs of the guest.
    pub halt_polling: HaltPolling,
    /// Pause-loop exiting of spinning vCPUs. `None`: spinning vCPUs do not exit.
    pub pause_loop: Option<PauseLoop>,
    /// Minimum wait for a spin lock or spinning barrier that the guest reports to the host (policy `adaptive`). `None`:
    /// no wait is reported.
    pub spin_report: Option<Nanos>,
    /// Coordination of the guest with its host. `None`: no coordination.
    pub coordination: Option<Coordination>,
}

impl Default for Guest {
    /// Returns the settings of a guest that receives no data from its host. Its vCPUs have neither halt polling nor
    /// pause-loop exits.
    fn default() -> Guest {
        Guest {
            spinning: Spinning::Ticket,
            steal: Steal::Hidden,
            shows_preempted: false,
            idle_polls: false,
            halt_polling: HaltPolling::OFF,
            pause_loop: None,
            spin_report: None,
            coordination: None,
        }
    }
}
