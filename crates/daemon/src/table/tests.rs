use super::*;
use sched::{CpuId, CpuSet, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::attributes::{Attributes, Policy};

/// Memory of this process that logs every store.
struct Heap {
    words: Vec<AtomicU64>,
    stores: Mutex<Vec<(usize, u64)>>,
}

impl Heap {
    fn new(words: usize) -> Arc<Heap> {
        Heap::of(&vec![0; words])
    }

    fn of(words: &[u64]) -> Arc<Heap> {
        let words = words.iter().map(|&word| AtomicU64::new(word)).collect();
        Arc::new(Heap { words, stores: Mutex::default() })
    }

    fn words(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    fn take_stores(&self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.stores.lock().unwrap())
    }
}

impl Cells for Arc<Heap> {
    fn len(&self) -> usize {
        self.words.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        self.stores.lock().unwrap().push((at, value));
        self.words[at].store(value, Ordering::Release);
    }
}

const DAEMON: Identity = Identity { tid: 41, start_time: u64::MAX };
const BOOT: &str = "2f7a1f0c-5f2f-4b1c-9a55-0d6f0c1a7e21";

fn table(rows: usize) -> (Table, Arc<Heap>) {
    let heap = Heap::new(Table::words(rows));
    (Table::create(Box::new(Arc::clone(&heap)), BOOT, DAEMON), heap)
}

fn entry(tid: u32, attributes: impl Into<Option<Attributes>>) -> Entry {
    let affinity = [0, 1, 63, 64, CPUS_MAX - 1].map(CpuId::new).into_iter().collect();
    Entry {
        thread: Identity { tid, start_time: u64::from(tid) << 40 },
        leader: Identity { tid: tid / 2, start_time: 5 },
        original: Original { attributes: attributes.into(), affinity, follows_cpuset: tid % 3 == 1 },
        confined: CpuSet::one(CpuId::new(64)),
        reserved: (tid % 5 == 1).then_some(Reserved {
            slice: Nanos::ns(u64::MAX),
            period: Nanos::ns(1),
            slack: Nanos::ns(2),
        }),
    }
}

/// Returns attributes of every policy, with extreme values, and `None`.
fn every_kind() -> Vec<Option<Attributes>> {
    let deadline = |reclaim, overrun| {
        let [runtime, deadline, period] = [u64::MAX, 1, 0].map(Nanos::ns);
        Policy::Deadline { runtime, deadline, period, reclaim, overrun }
    };
    let mut policies = vec![Policy::Idle, Policy::Unknown(0), Policy::Unknown(4), Policy::Unknown(u32::MAX)];
    policies.extend(
        [-20, 0, 19, i32::MIN, i32::MAX]
            .into_iter()
            .flat_map(|nice| [Policy::Other { nice }, Policy::Batch { nice }, Policy::Ext { nice }]),
    );
    policies.extend(
        [1, 99, u32::MAX].into_iter().flat_map(|priority| [Policy::Fifo { priority }, Policy::RoundRobin { priority }]),
    );
    policies.extend([deadline(false, false), deadline(true, false), deadline(false, true), deadline(true, true)]);
    let with = |policy| {
        [None, Some(Nanos::ZERO), Some(Nanos::ns(u64::MAX))]
            .into_iter()
            .flat_map(move |slice| [false, true].map(|reset_on_fork| Attributes { policy, reset_on_fork, slice }))
    };
    policies.into_iter().flat_map(with).map(Some).chain([None]).collect()
}

#[test]
fn every_process_that_opens_the_table_reads_the_recorded_values() {
    let kinds = every_kind();
    let (table, heap) = table(kinds.len());
    let rows: Vec<Row> = kinds.iter().zip(1..).map(|(&kind, tid)| table.record(&entry(tid, kind)).unwrap()).collect();
    let other = Table::open(Box::new(heap)).unwrap();
    let wanted = kinds.iter().zip(1..).zip(&rows).map(|((&kind, tid), &row)| (row, entry(tid, kind)));
    assert_eq!(other.entries(), wanted.collect::<Vec<_>>());
    assert!(!other.is_stopped(rows[1]) && other.groups().is_empty());
    assert_eq!(
        (other.capacity(), other.damaged(), other.daemon(), other.boot().as_str()),
        (kinds.len(), 0, DAEMON, BOOT)
    );
}

#[test]
fn a_thread_is_in_the_table_with_its_last_store_and_not_before() {
    let (table, heap) = table(2);
    let first = entry(7, Attributes::raised(3));
    let second = entry(8, Attributes::of(Policy::Batch { nice: 4 }));
    // The first round uses a row that was never used, and the second round a reused row.
    for _ in 0..2 {
        heap.take_stores();
        let mut before = heap.words();
        let row = table.record(&first).unwrap();
        let stores = heap.take_stores();
        let seen: Vec<usize> = stores
            .into_iter()
            .map(|(at, value)| {
                before[at] = value;
                Table::open(Box::new(Heap::of(&before))).unwrap().entries().len()
            })
            .collect();
        let (committed, earlier) = seen.split_last().unwrap();
        assert!(*committed == 1 && earlier.iter().all(|&count| count == 0), "{seen:?}");
        table.forget(row);
        assert_eq!(table.entries(), []);
        let row = table.record(&second).unwrap();
        assert_eq!(table.entries(), [(row, second)]);
        table.forget(row);
    }
}

#[test]
fn bandwidths_are_compared_by_their_share_of_the_time() {
    let of = |quota_us, period_us| Bandwidth { quota_us, period_us };
    let ascending = [of(Some(9_000), 100_000), of(Some(1_000), 10_000), of(Some(1_000), 5_000), of(None, 10_000)];
    for (at, lower) in ascending.iter().enumerate() {
        assert!(ascending[..=at].iter().all(|other| !lower.is_below(other)), "{lower:?}");
        assert!(ascending[at + 1..].iter().all(|other| lower.is_below(other)), "{lower:?}");
    }
    assert!(!of(Some(10_000), 100_000).is_below(&of(Some(1_000), 10_000)));
}

#[test]
fn a_group_is_in_the_table_with_its_last_store_and_is_no_thread() {
    let (table, heap) = table(2);
    let own = ControlGroup::Own { first: Identity { tid: 7, start_time: u64::MAX } };
    let share = ControlGroup::Share { first: Identity { tid: 7, start_time: u64::MAX } };
    let found = ControlGroup::Found { id: u64::MAX };
    let unlimited = Bandwidth { quota_us: None, period_us: 100_000 };
    let cap = Change { before: unlimited, after: Bandwidth { quota_us: Some(3_000), period_us: 10_000 } };
    let weight = Change { before: 100, after: 10_000 };
    let in_place = [(Some(weight), Some(cap)), (Some(weight), None), (None, Some(cap)), (None, None)];
    let in_place = in_place.map(|(weight, cap)| ControlGroup::FoundShare { id: u64::MAX, weight, cap });
    let others = [(own, [true, true]), (found, [false, true]), (share, [false, false])];
    for (group, frozen) in others.into_iter().chain(in_place.map(|group| (group, [false, false]))) {
        // The row was the row of a thread before.
        table.forget(table.record(&entry(7, Attributes::raised(3))).unwrap());
        heap.take_stores();
        let mut before = heap.words();
        let row = table.record_group(group).unwrap();
        let (last, earlier) = heap.take_stores().split_last().map(|(last, all)| (*last, all.to_vec())).unwrap();
        for (at, value) in earlier {
            before[at] = value;
            assert_eq!(Table::open(Box::new(Heap::of(&before))).unwrap().groups(), []);
        }
        before[last.0] = last.1;
        let other = Table::open(Box::new(Heap::of(&before))).unwrap();
        assert_eq!((other.groups(), other.entries(), other.damaged()), (vec![(row, group, frozen[0])], vec![], 0));
        other.set_frozen(row, true);
        assert_eq!(other.groups(), [(row, group, frozen[1])]);
        assert!(!other.is_stopped(row));
        table.forget(row);
    }
    assert_eq!(own.name().as_deref(), Some("tactus-7-18446744073709551615"));
}

#[test]
fn a_table_of_an_earlier_version_has_stops_and_no_groups() {
    let (table, heap) = table(2);
    let row = table.record(&entry(7, Attributes::raised(3))).unwrap();
    for version in 1..=WITH_STOPS {
        let mut words = heap.words();
        (words[AT_VERSION], words[HEAD + OF_KIND]) = (version, 1);
        let earlier = Table::open(Box::new(Heap::of(&words))).unwrap();
        assert_eq!((earlier.entries().len(), earlier.groups().len(), earlier.damaged()), (1, 0, 0));
        assert!(earlier.is_stopped(row));
        earlier.clear_stop(row);
        assert!(!earlier.is_stopped(row));
    }
}

#[test]
fn rows_are_used_again_and_a_full_table_says_so() {
    let (table, _) = table(3);
    let plain = Attributes::of(Policy::Other { nice: 0 });
    let rows: Vec<Row> = (1..=3).map(|tid| table.record(&entry(tid, plain)).unwrap()).collect();
    let full = table.record(&entry(4, plain)).unwrap_err();
    assert_eq!(full, Full { capacity: 3 });
    assert!(full.to_string().contains("holds 3 threads") && full.remedy().contains("at most 3 threads"), "{full}");
    table.forget(rows[1]);
    table.forget(rows[1]);
    assert_eq!(table.record(&entry(4, plain)), Ok(rows[1]));
    assert!(table.record(&entry(5, plain)).is_err(), "a row that is forgotten twice is free once");
    let tids: Vec<u32> = table.entries().iter().map(|(_, entry)| entry.thread.tid).collect();
    assert_eq!(tids, [1, 4, 3]);
}

#[test]
fn a_process_that_opens_a_table_records_in_free_rows() {
    let (table, heap) = table(3);
    let plain = Attributes::of(Policy::Idle);
    let rows: Vec<Row> = (1..=3).map(|tid| table.record(&entry(tid, plain)).unwrap()).collect();
    table.forget(rows[1]);
    let other = Table::open(Box::new(heap)).unwrap();
    assert_eq!(other.record(&entry(4, plain)), Ok(rows[1]));
    assert!(other.record(&entry(5, plain)).is_err());
}

#[test]
fn beats_and_identities_are_shared() {
    let (table, heap) = table(1);
    let other = Table::open(Box::new(heap)).unwrap();
    assert_eq!((other.guardian(), other.watched(), other.is_finished()), (None, 0, false));
    let guardian = Identity { tid: 9, start_time: 10 };
    for tid in [8, 9] {
        table.set_guardian(Identity { tid, ..guardian });
    }
    table.set_watched(2);
    table.beat(Beating::Guardian);
    table.beat(Beating::Agent(CpuId::new(CPUS_MAX - 1)));
    table.beat(Beating::Agent(CpuId::new(CPUS_MAX - 1)));
    table.finish();
    assert_eq!((other.guardian(), other.watched(), other.is_finished()), (Some(guardian), 2, true));
    let beats = [Beating::Guardian, Beating::Agent(CpuId::new(0)), Beating::Agent(CpuId::new(CPUS_MAX - 1))]
        .map(|side| other.beats(side));
    assert_eq!(beats, [1, 0, 2]);
}

#[test]
fn what_is_no_table_is_refused_in_words() {
    let (table, heap) = table(2);
    table.record(&entry(1, Attributes::of(Policy::Idle))).unwrap();
    let words = heap.words();
    let open = |words: &[u64]| Table::open(Box::new(Heap::of(words))).map(|_| ()).unwrap_err();
    assert_eq!(open(&[]), NotTable::Foreign);
    assert_eq!(open(&[MAGIC]), NotTable::Foreign);
    assert_eq!(open(&vec![0; words.len()]), NotTable::Foreign);
    assert_eq!(open(&words[..2]), NotTable::Cut);
    assert_eq!(open(&words[..words.len() - 1]), NotTable::Cut);
    let with = |at: usize, value: u64| {
        let mut words = words.clone();
        words[at] = value;
        words
    };
    assert_eq!(open(&with(AT_VERSION, VERSION + 1)), NotTable::Version(VERSION + 1));
    assert_eq!(open(&with(AT_ROWS, u64::MAX)), NotTable::Cut);
    assert!(NotTable::Version(2).to_string().contains("use the program that wrote it"));
}

/// Tables of earlier versions have zero in the words that later versions added.
#[test]
fn a_table_of_an_earlier_version_is_read_and_no_thread_of_it_follows_its_cpuset() {
    let (table, heap) = table(1);
    let recorded = entry(4, Attributes::of(Policy::Idle));
    let row = table.record(&recorded).unwrap();
    for version in [1, 2] {
        let mut words = heap.words();
        words[AT_VERSION] = version;
        words[table.at(row) + OF_FLAGS] = 0;
        let earlier = Table::open(Box::new(Heap::of(&words))).unwrap();
        let original = Original { follows_cpuset: false, ..recorded.original };
        assert_eq!(earlier.entries(), [(row, Entry { original, ..recorded })]);
    }
}

#[test]
fn hostile_words_are_told_apart_from_entries_and_panic_nowhere() {
    let seed = 0x7ac7_0005_u64;
    eprintln!("seed {seed:#x}");
    let mut state = seed;
    let mut next = move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut damaged = 0;
    for round in 0..200_u64 {
        let (whole, heap) = table(4);
        for tid in 1..=4 {
            whole.record(&entry(tid, Attributes::of(Policy::Idle))).unwrap();
        }
        let mut words = heap.words();
        for _ in 0..=round {
            // The tests above cover the first three words.
            let at = 3 + usize::try_from(next() % (words.len() as u64 - 3)).unwrap();
            words[at] = if next() % 4 == 0 { u64::MAX } else { next() };
        }
        let table = Table::open(Box::new(Heap::of(&words))).unwrap();
        damaged += table.damaged();
        assert!(table.entries().len() + table.groups().len() + table.damaged() <= 4);
        let _ = (table.boot(), table.daemon(), table.guardian(), table.beats(Beating::Guardian));
        assert!(table.watched() <= CPUS_MAX);
        for row in table.entries().into_iter().map(|(row, _)| row).chain(table.groups().into_iter().map(|it| it.0)) {
            table.set_frozen(row, false);
            table.clear_stop(row);
            table.forget(row);
        }
    }
    assert!(damaged > 0, "some rows became nonsense");
}

#[test]
fn rows_that_are_read_while_others_use_them_are_whole() {
    let (table, _) = table(2);
    let done = std::sync::atomic::AtomicBool::new(false);
    let nice = |nice| Attributes::of(Policy::Other { nice });
    std::thread::scope(|scope| {
        let recorder = || {
            for turn in 0..20_000 {
                let row = table.record(&entry(turn % 7 + 1, nice(turn.cast_signed() % 7 + 1))).unwrap();
                table.forget(row);
            }
        };
        let recorders = [scope.spawn(recorder), scope.spawn(recorder)];
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (_, found) in table.entries() {
                    assert_eq!(found, entry(found.thread.tid, nice(found.thread.tid.cast_signed())));
                }
            }
        });
        for recorder in recorders {
            recorder.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(table.entries(), []);
}
