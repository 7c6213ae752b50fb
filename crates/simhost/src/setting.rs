//! [`Setting`]: the changeable values of a thread, and the scheduling parameters that follow from them.

use sched::{Class, CpuSet, Limit, Nanos, Params, Reservation, RtPriority, Weight};
use sys::attributes::{Attributes, Policy};

/// Timer slack of a thread that has not changed it. Source: init/init_task.c, v6.18.
pub(super) const DEFAULT_SLACK: Nanos = Nanos::us(50);

/// The changeable values of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Scheduling attributes of the thread.
    pub attributes: Attributes,
    /// Affinity of the thread.
    pub affinity: CpuSet,
}

impl Setting {
    /// Returns the setting of a child. Source: `sched_fork`, kernel/sched/core.c, v5.13.
    pub(super) fn of_child(self) -> Setting {
        let Setting { attributes, affinity } = self;
        if !attributes.reset_on_fork {
            return self;
        }
        let policy = match attributes.policy {
            Policy::Other { nice } => Policy::Other { nice: nice.max(0) },
            Policy::Batch { nice } => Policy::Batch { nice: nice.max(0) },
            Policy::Idle => Policy::Idle,
            _ => Policy::Other { nice: 0 },
        };
        Setting { attributes: Attributes::of(policy), affinity }
    }
}

/// A priority that a process of Tactus lends to a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lent {
    pub(super) number: u64,
    /// Pid of the process that lends.
    pub(super) by: u32,
    /// Real-time priority of the donor; `None`: the donor lends nothing.
    pub(super) priority: Option<u32>,
}

impl Setting {
    /// Returns the setting that the scheduler applies: this setting, or the lent priority if it is higher.
    pub(super) fn with(self, lent: Option<Lent>) -> Setting {
        let own = match self.attributes.policy {
            Policy::Fifo { priority } | Policy::RoundRobin { priority } => priority,
            // The class above all priorities.
            Policy::Deadline { .. } => u32::MAX,
            _ => 0,
        };
        match lent.and_then(|lent| lent.priority) {
            Some(priority) if priority > own => {
                Setting { attributes: Attributes::of(Policy::Fifo { priority }), ..self }
            }
            _ => self,
        }
    }

    /// Returns whether the class of the setting has no timer slack.
    pub(super) fn has_no_slack(&self) -> bool {
        let policy = self.attributes.policy;
        matches!(policy, Policy::Fifo { .. } | Policy::RoundRobin { .. } | Policy::Deadline { .. })
    }

    /// Returns the timer slack after a change to this setting. Source: `__setscheduler_params`, kernel/sched/syscalls.c,
    /// v6.18.
    pub(super) fn slack_after(&self, slack: Nanos) -> Nanos {
        match self.has_no_slack() {
            true => Nanos::ZERO,
            false if slack.is_zero() => DEFAULT_SLACK,
            false => slack,
        }
    }

    /// Returns the priority in the scale of field 18 of /proc/TID/stat.
    pub(super) fn priority(&self) -> i32 {
        match self.attributes.policy {
            Policy::Fifo { priority } | Policy::RoundRobin { priority } => -1 - priority.cast_signed(),
            Policy::Other { nice } | Policy::Batch { nice } => 20 + nice,
            Policy::Deadline { .. } => -101,
            _ => 20,
        }
    }
}

/// Returns the scheduler's parameters for a thread; `None` if this kernel lacks the class.
pub(super) fn params(setting: &Setting) -> Option<Params> {
    let nice = |nice: i32| Weight::nice(nice);
    let priority = |priority: u32| RtPriority::new(u8::try_from(priority).ok()?);
    let mut reservation = None;
    let (class, weight) = match setting.attributes.policy {
        Policy::Other { nice: value } => (Class::Normal, nice(value)?),
        Policy::Batch { nice: value } => (Class::Batch, nice(value)?),
        Policy::Idle => (Class::Idle, Weight::IDLE),
        Policy::Fifo { priority: number } => (Class::Fifo(priority(number)?), Weight::NORMAL),
        Policy::RoundRobin { priority: number } => (Class::RoundRobin(priority(number)?), Weight::NORMAL),
        Policy::Deadline { runtime, deadline, period, reclaim, .. } => {
            let limit = if reclaim { Limit::Soft } else { Limit::Hard };
            let deadline = (deadline != period).then_some(deadline);
            reservation = Some(Reservation { deadline, limit, ..Reservation::new(runtime, period) });
            (Class::Normal, Weight::NORMAL)
        }
        Policy::Ext { .. } | Policy::Unknown(_) => return None,
    };
    Some(Params { class, weight, reservation, affinity: setting.affinity, ..Params::default() })
}

/// Returns whether these attributes have the priority of a raised thread.
pub(super) fn is_raised(attributes: &Attributes) -> bool {
    use daemon::kernel::priority::{AMONG_OTHERS, RAISED};
    matches!(attributes.policy, Policy::Fifo { priority } if (AMONG_OTHERS..=RAISED).contains(&priority))
}
