//! [`Guest`]: the settings of a guest beside its policy: its spin locks, and what it knows of its host.

use crate::coordination::Coordination;
use sched::Nanos;

/// How spin locks are handed on, and how tasks wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spinning {
    /// In the order of arrival, whether or not the next waiter runs (Linux 2.6.25 to 4.1): a preempted waiter delays all waiters
    /// behind it.
    #[default]
    Ticket,
    /// To the first running waiter that tries (test and set, as KVM and Xen guests without paravirtual locks since Linux 4.2).
    Unfair,
    /// In the order of arrival. A waiter that has spun for `limit` halts its vCPU and is kicked when it gets the lock (pv-spin).
    Paravirt {
        /// How long it spins first. Range: above zero.
        limit: Nanos,
    },
}

/// Whether a guest's scheduler learns of the time that its CPUs were frozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Steal {
    /// It does not: it charges that time to its tasks.
    #[default]
    Hidden,
    /// It does, by its steal clock, and does not charge it to tasks (CONFIG_PARAVIRT_TIME_ACCOUNTING).
    Known,
}

/// How long a vCPU that halts goes on polling before its thread blocks. Source: Documentation/virt/kvm/halt-polling.rst; policies.md 11.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HaltPolling {
    /// The longest; zero: it does not poll.
    pub most: Nanos,
    /// What polling begins with, and below which it shrinks to nothing.
    pub grow_start: Nanos,
    /// By what it grows. Range: 2 ….
    pub grow: u32,
    /// By what it shrinks; zero: to nothing at once.
    pub shrink: u32,
}

impl HaltPolling {
    /// It blocks at once.
    pub const OFF: HaltPolling = HaltPolling { most: Nanos::ZERO, grow_start: Nanos::us(10), grow: 2, shrink: 2 };
    /// KVM's defaults on x86.
    pub const KVM: HaltPolling = HaltPolling { most: Nanos::us(200), ..HaltPolling::OFF };
}

/// Exits of a vCPU that spins (PLE), and the yield to another that follows. Source: policies.md 11.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseLoop {
    /// How long it spins before it exits. Range: above zero.
    pub window: Nanos,
}

/// The settings of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guest {
    /// Its spin locks.
    pub spinning: Spinning,
    /// Its steal clock.
    pub steal: Steal,
    /// Whether its scheduler is shown which of its CPUs are preempted (`vcpu_is_preempted`).
    pub shows_preempted: bool,
    /// Whether its CPUs poll where they idle, and never halt (`idle=poll`).
    pub idle_polls: bool,
    /// What the host does with a vCPU that halts.
    pub halt_polling: HaltPolling,
    /// What its host does about vCPUs that spin; `None`: nothing.
    pub pause_loop: Option<PauseLoop>,
    /// The shortest wait for a spin lock that is reported to the host (policy `adaptive`). `None`: no wait is.
    pub spin_report: Option<Nanos>,
    /// How it coordinates with its host. `None`: it does not.
    pub coordination: Option<Coordination>,
}

impl Default for Guest {
    /// A guest that knows nothing of its host, on a host without paravirtual help.
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
