//! A reservation that the kernel withholds from a thread, on the kernel of this machine.
//!
//! A thread that leaves SCHED_DEADLINE and returns within a period often receives no CPU time any more (Linux 6.18). The
//! thread of each round is reserved again at once.

use daemon::dispatch::{KeptBy, KernelKept, PromiseRequest, Promises};
use daemon::linux::Linux;
use daemon::table::Table;
use sched::{EntityId, Nanos, Reservation};
use std::sync::Arc;
use sys::child::{Child, Work};
use sys::clock;
use sys::shared::Words;
use sys::thread::Thread;
use sys::usage::Meter;

const ROUNDS: u64 = 24;
/// Maximum time from the second reservation until the thread runs: some attempts of 9 periods.
const RUNS_WITHIN: Nanos = Nanos::s(2);

/// Ends the promise, and waits until the thread has its attributes again.
fn dismiss(kernel: &Linux, table: &Table, kept: &mut KernelKept<&Linux>, entity: EntityId) {
    kept.dismiss(entity);
    loop {
        let mut leaving = kept.take_leaving();
        leaving.iter_mut().for_each(|(_, restoring)| restoring.look(&kernel, table));
        if kept.keep_leaving(leaving).is_none() {
            break;
        }
    }
}

fn ran(tid: u32) -> Nanos {
    Meter::open(tid).unwrap().read().unwrap().ran
}

#[test]
fn a_thread_that_is_reserved_again_at_once_runs() {
    let (directory, kernel) = (tempfile::tempdir().unwrap(), Linux::new().unwrap());
    let words = Words::create(&directory.path().join("words"), Table::words(16)).unwrap();
    let me = Thread::open(std::process::id()).unwrap().identity();
    let table = Arc::new(Table::create(Box::new(words), &sys::kernel::boot_id().unwrap(), me));
    let policy = policies::find(daemon::terms::DEADLINE_POLICY).expect("it is registered");
    let cpus = sys::cpus::online().unwrap().len();
    let knobs = policy.defaults();
    let mut kept =
        KernelKept::new(&kernel, Arc::clone(&table), policy, &knobs, cpus, clock::now(), Nanos::ZERO).unwrap();
    let child = Child::start(Work::Spin { busy: Nanos::us(100), idle: Nanos::ms(1) }).unwrap();
    let reservation = Reservation::new(Nanos::us(100), Nanos::ms(10));
    let request = PromiseRequest { by: KeptBy::Kernel, ..PromiseRequest::new("client", reservation) };
    let admit = |kept: &mut KernelKept<&Linux>| -> Option<EntityId> {
        let answer = kept.admit(&request, child.pid(), &[], None);
        answer.inspect_err(|refused| eprintln!("SKIPPED: {refused}")).ok()?.first().copied()
    };
    for round in 0..ROUNDS {
        let Some(first) = admit(&mut kept) else { return };
        clock::sleep(Nanos::us(5_000 + 371 * round));
        dismiss(&kernel, &table, &mut kept, first);
        clock::sleep(Nanos::us(400 * round));
        let Some(second) = admit(&mut kept) else { return };
        let (begin, mut before) = (clock::now(), ran(child.pid()));
        let mut runs = 0;
        // The thread runs in each of several periods.
        while runs < 3 {
            let now = clock::now();
            assert!(now.since(begin) < RUNS_WITHIN, "round {round}: the thread does not run");
            kept.observe();
            clock::sleep(Nanos::ms(12));
            let now = ran(child.pid());
            runs = if now > before { runs + 1 } else { 0 };
            before = now;
        }
        dismiss(&kernel, &table, &mut kept, second);
    }
}
