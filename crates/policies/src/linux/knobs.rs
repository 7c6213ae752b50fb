//! The knobs and alarm slots of the composition: those of its classes, side by side.

use super::Bases;
use crate::classes::SERVER_KNOBS;
use crate::{cfs, deadline, rt};
use sched::{AlarmBase, AlarmKind, AlarmSlots, Descriptor, Knob, Knobs};

/// The fair classes, in the order of the knob's words.
pub(super) const FAIR: [&Descriptor; 1] = [&cfs::POLICY];

/// The one that was chosen.
pub(super) fn fair(knobs: &Knobs) -> &'static Descriptor {
    let chosen = knobs.word("fair");
    FAIR.into_iter().find(|fair| fair.name == chosen).expect("the words are their names")
}

const CHOICE: [Knob; 1] =
    [Knob::choice("fair", &["cfs"], "the fair class").from("kernel/sched/fair.c: eevdf from v6.6 on")];

/// What the kernel's defaults are, where the classes alone have others.
const KERNEL: [(&str, i64); 3] = [("admission", 1), ("asleep", 1), ("hrtick", 0)];

const LISTS: [&[Knob]; 5] = [&CHOICE, deadline::KNOBS, rt::KNOBS, SERVER_KNOBS, FAIR[0].knobs];
const COUNT: usize = collect::<0>().1;

/// Every knob of every class, once.
pub(super) const ALL: [Knob; COUNT] = collect::<COUNT>().0;

/// The knobs of all lists, each name once, as far as there is room, and how many there are.
const fn collect<const ROOM: usize>() -> ([Knob; ROOM], usize) {
    let (mut all, mut count, mut list) = ([CHOICE[0]; ROOM], 0, 0);
    while list < LISTS.len() {
        let mut at = 0;
        while at < LISTS[list].len() {
            let knob = LISTS[list][at];
            if !is_before(knob.name, list) {
                if count < ROOM {
                    all[count] = as_in_kernel(knob);
                }
                count += 1;
            }
            at += 1;
        }
        list += 1;
    }
    (all, count)
}

/// Whether a knob of this name is in one of the first `lists`.
const fn is_before(name: &str, lists: usize) -> bool {
    let mut list = 0;
    while list < lists {
        let mut at = 0;
        while at < LISTS[list].len() {
            if equal(LISTS[list][at].name, name) {
                return true;
            }
            at += 1;
        }
        list += 1;
    }
    false
}

const fn as_in_kernel(knob: Knob) -> Knob {
    let mut at = 0;
    while at < KERNEL.len() {
        if equal(KERNEL[at].0, knob.name) {
            return Knob { default: KERNEL[at].1, ..knob };
        }
        at += 1;
    }
    knob
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

// ---- Alarm slots: deadline, then real-time, then the fair server's, then the fair class's ----

const TIMER: AlarmKind = AlarmKind::Timer;

/// Where each class's slots begin.
pub(super) const BASES: Bases = Bases {
    rt: AlarmBase {
        policy: count(deadline::ALARMS.policy),
        cpu: count(deadline::ALARMS.cpu),
        entity: ENTITY,
        group: 0,
    },
    server: AlarmBase { policy: POLICY, cpu: CPU, entity: ENTITY, group: 0 },
    below: AlarmBase { policy: POLICY, cpu: CPU + 1, entity: ENTITY, group: 0 },
};
const CPU: u8 = count(deadline::ALARMS.cpu) + count(rt::ALARMS.cpu);
const POLICY: u8 = count(deadline::ALARMS.policy) + count(rt::ALARMS.policy);
const ENTITY: u8 = count(deadline::ALARMS.entity);

/// All of them.
pub(super) const ALARMS: AlarmSlots = AlarmSlots {
    policy: &concat::<{ POLICY as usize + BELOW.policy.len() }>([
        deadline::ALARMS.policy,
        rt::ALARMS.policy,
        BELOW.policy,
        &[],
    ]),
    cpu: &concat::<{ CPU as usize + 1 + BELOW.cpu.len() }>([deadline::ALARMS.cpu, rt::ALARMS.cpu, &[TIMER], BELOW.cpu]),
    entity: &concat::<{ ENTITY as usize + BELOW.entity.len() }>([deadline::ALARMS.entity, BELOW.entity, &[], &[]]),
    group: BELOW.group,
};

/// What the fair classes use.
const BELOW: AlarmSlots = FAIR[0].alarms;

const fn concat<const N: usize>(lists: [&[AlarmKind]; 4]) -> [AlarmKind; N] {
    let (mut all, mut count, mut list) = ([TIMER; N], 0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[count] = lists[list][at];
            (count, at) = (count + 1, at + 1);
        }
        list += 1;
    }
    assert!(count == N, "the lengths add up");
    all
}

const fn count(slots: &[AlarmKind]) -> u8 {
    assert!(slots.len() < 256, "slots are numbered in 8 bits");
    #[expect(clippy::cast_possible_truncation, reason = "just asserted")]
    let count = slots.len() as u8;
    count
}
