//! The rule of PDS: the deadline of a task, and the change of its level over time.

use crate::project_c::{self, Expired, Layout, Level, Rule, Task, Yielder};
use sched::{Instant, Knobs, Nanos};

/// Time in slots, the unit of deadlines. A slot is as long as a time slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Slot(u64);

/// The number of nice values.
const NICE_WIDTH: u64 = 40;
/// The number of levels for tasks that are not real-time. Source: NORMAL_PRIO_NUM, include/linux/sched/prio.h.
const NORMAL_LEVELS: u64 = 64;
/// The stop level, and 100 real-time levels.
const BEFORE_NORMAL: Level = 101;

/// The settings of PDS.
#[derive(Debug)]
pub(super) struct Pds {
    slice: Nanos,
    shift: u32,
}

impl Pds {
    pub(super) fn new(knobs: &Knobs) -> Pds {
        let ms = project_c::slice_ms(knobs);
        Pds { slice: Nanos::ns(ms << 20), shift: if ms == 2 { 21 } else { 22 } }
    }

    fn edge(&self, now: Instant) -> Slot {
        Slot(now.as_ns() >> self.shift)
    }

    /// Returns the deadline of a time slice that starts now.
    fn deadline(&self, nice: i32, now: Instant) -> Slot {
        Slot(self.edge(now).0 + u64::try_from(nice + 20).expect("nice values begin at -20"))
    }

    /// Returns the maximum time until a waiting task is at the first level.
    pub(super) fn slots_to_first_level(&self) -> Nanos {
        // 63 levels and the rest of the current slot, rounded up.
        Nanos::ns(NORMAL_LEVELS << self.shift)
    }
}

impl Rule for Pds {
    type TaskState = Slot;

    fn layout(&self) -> Layout {
        Layout { fixed: BEFORE_NORMAL + 1, turn_shift: Some(self.shift) }
    }

    fn slice(&self) -> Nanos {
        self.slice
    }

    fn rest_least(&self) -> Nanos {
        Nanos::ns(100 << 10)
    }

    fn first_state(&self, nice: i32, now: Instant) -> Slot {
        self.deadline(nice, now)
    }

    fn forked(&self, child: &Task<Slot>, _parent: &Slot, now: Instant) -> Slot {
        self.deadline(child.nice, now)
    }

    fn level(&self, task: &Task<Slot>, now: Instant) -> Level {
        // The value decreases from 63, for nice 19 at the start of a time slice, to 0.
        let ahead = (task.state.0 + NORMAL_LEVELS - NICE_WIDTH).saturating_sub(self.edge(now).0);
        BEFORE_NORMAL + Level::try_from(ahead).expect("it is below 64")
    }

    fn expired(&self, task: &mut Task<Slot>, _how: Expired, now: Instant) {
        task.state = self.deadline(task.nice, now);
    }

    fn yields(&self, task: &mut Task<Slot>, now: Instant) -> Yielder {
        task.slice = self.slice;
        task.state = self.deadline(task.nice, now);
        Yielder::GoesLast
    }

    fn show(&self, state: &Slot, show: &mut dyn FnMut(&'static str, i64)) {
        show("deadline", state.0.cast_signed());
    }
}
