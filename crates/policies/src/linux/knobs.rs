//! The knobs and alarm slots of `linux`: the union of the knobs and slots of its classes.

use super::Bases;
use crate::classes::SERVER_KNOBS;
use crate::{balance, bfs, bmq, cfs, credit, credit2, deadline, eevdf, muqss, pds, round_robin, rt};
use sched::{AlarmBase, AlarmKind, AlarmSlots, Descriptor, Knob, Knobs};

/// The fair classes, in the order of the knob's words. All knobs of `cfs` and `eevdf`, the kernel's classes, are
/// available in `linux`. Of the knobs of the other classes, only the knobs shared with these two classes are available.
const FAIR: [&Descriptor; 10] = [
    &cfs::POLICY,
    &eevdf::POLICY,
    &balance::POLICY,
    &bfs::POLICY,
    &bmq::POLICY,
    &credit::POLICY,
    &credit2::POLICY,
    &muqss::POLICY,
    &pds::POLICY,
    &round_robin::POLICY,
];
pub(super) const WORDS: &[&str] = &{
    let (mut words, mut at) = ([""; FAIR.len()], 0);
    while at < FAIR.len() {
        words[at] = FAIR[at].name;
        at += 1;
    }
    words
};

const CHOICE: [Knob; 2] = [
    Knob::choice("fair", WORDS, "the fair class")
        .from("kernel/sched/fair.c: cfs up to v6.5, eevdf from v6.6 on; other classes: ours"),
    Knob::switch(
        "boosts-pay",
        false,
        "a task that returns to cfs, eevdf or balance is charged for the time it ran in classes above",
    )
    .from("ours: the kernel does not charge for that time"),
];

/// Knobs of `eevdf` that have the name of a knob of `cfs` but a different meaning, each with its name in `linux`.
const RENAMED: [(&str, &str); 3] =
    [("version", "eevdf-version"), ("base-slice", "eevdf-base-slice"), ("next-buddy", "eevdf-next-buddy")];

/// Returns whether `fair` is a fair class of Linux or is based on one. Only these classes pull a task that waits behind
/// a more urgent class on another CPU.
pub(super) fn pulls_from_behind(fair: &Descriptor) -> bool {
    FAIR[..3].iter().any(|own| own.name == fair.name)
}

/// The kernel's defaults that differ from the defaults of their class.
const KERNEL: [(&str, i64); 3] = [("admission", 1), ("asleep", 1), ("hrtick", 0)];

/// Returns the selected fair class, and the values of its knobs.
pub(super) fn fair(knobs: &Knobs) -> (&'static Descriptor, Knobs) {
    let chosen = knobs.word("fair");
    let fair = FAIR.into_iter().find(|fair| fair.name == chosen).expect("the words are the names of the classes");
    let mut own = fair.defaults();
    for knob in fair.knobs {
        let renamed = RENAMED.iter().find(|(name, _)| chosen == "eevdf" && *name == knob.name);
        let name = renamed.map_or(knob.name, |(_, here)| here);
        let same = |(here, _): &(&Knob, i64)| here.name == name && here.help == knob.help;
        if let Some((_, value)) = knobs.iter().find(same) {
            own.set(knob.name, value).expect("the ranges are the same");
        }
    }
    (fair, own)
}

const LISTS: [&[Knob]; 6] = [&CHOICE, deadline::KNOBS, rt::KNOBS, SERVER_KNOBS, FAIR[0].knobs, FAIR[1].knobs];
/// The index of `eevdf` in [`LISTS`]. In this list, the knobs in [`RENAMED`] receive their new names.
const EEVDF: usize = 5;
const COUNT: usize = collect::<0>().1;

/// All knobs of `linux`, each name once.
pub(super) const ALL: [Knob; COUNT] = collect::<COUNT>().0;

/// Returns the first `ROOM` knobs of all lists, each name once, and the total number of names.
const fn collect<const ROOM: usize>() -> ([Knob; ROOM], usize) {
    let (mut all, mut count, mut list) = ([CHOICE[0]; ROOM], 0, 0);
    while list < LISTS.len() {
        let mut at = 0;
        while at < LISTS[list].len() {
            let knob = renamed(LISTS[list][at], list);
            match find(knob.name, list) {
                // Knobs of the same name have the same meaning.
                Some(before) => assert!(equal(before.help, knob.help), "knobs of one name are one knob"),
                None => {
                    if count < ROOM {
                        all[count] = as_in_kernel(knob);
                    }
                    count += 1;
                }
            }
            at += 1;
        }
        list += 1;
    }
    (all, count)
}

const fn renamed(knob: Knob, list: usize) -> Knob {
    let mut at = 0;
    while list == EEVDF && at < RENAMED.len() {
        if equal(RENAMED[at].0, knob.name) {
            return Knob { name: RENAMED[at].1, ..knob };
        }
        at += 1;
    }
    knob
}

/// Returns the knob named `name` in the first `lists` lists.
const fn find(name: &str, lists: usize) -> Option<Knob> {
    let mut list = 0;
    while list < lists {
        let mut at = 0;
        while at < LISTS[list].len() {
            if equal(LISTS[list][at].name, name) {
                return Some(LISTS[list][at]);
            }
            at += 1;
        }
        list += 1;
    }
    None
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

/// First alarm slot of each class.
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

/// The alarm slots of all classes.
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

/// Alarm slots that suffice for every fair class.
const BELOW: AlarmSlots = AlarmSlots {
    policy: &union::<{ most(0) }>(0),
    cpu: &union::<{ most(1) }>(1),
    entity: &union::<{ most(2) }>(2),
    group: &union::<{ most(3) }>(3),
};

/// Returns the alarm slots of the fair class `at` for the owner `whose`: 0 is the policy, 1 a CPU, 2 an entity, 3 a
/// group.
const fn slots(at: usize, whose: usize) -> &'static [AlarmKind] {
    let alarms = FAIR[at].alarms;
    [alarms.policy, alarms.cpu, alarms.entity, alarms.group][whose]
}

/// Returns the maximum number of alarm slots of this owner in any fair class.
const fn most(whose: usize) -> usize {
    let (mut most, mut at) = (0, 0);
    while at < FAIR.len() {
        if slots(at, whose).len() > most {
            most = slots(at, whose).len();
        }
        at += 1;
    }
    most
}

/// Returns alarm slots of this owner that suffice for every fair class. A slot has the same kind in all classes.
const fn union<const N: usize>(whose: usize) -> [AlarmKind; N] {
    let (mut all, mut known, mut at) = ([TIMER; N], 0, 0);
    while at < FAIR.len() {
        let own = slots(at, whose);
        let mut slot = 0;
        while slot < own.len() {
            if slot < known {
                assert!(all[slot] as u8 == own[slot] as u8, "a slot has one kind");
            } else {
                all[slot] = own[slot];
                known = slot + 1;
            }
            slot += 1;
        }
        at += 1;
    }
    all
}

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
