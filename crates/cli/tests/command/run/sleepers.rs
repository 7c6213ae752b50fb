//! Clients with many sleeping threads.

use super::victim::Victim;
use super::{Live, Now, Watching, assert_restored, hogs, turn};
use sched::Nanos;
use sys::clock;
use sys::usage::Meter;

const THREADS: usize = 1_000;

#[test]
fn a_client_of_a_thousand_threads_has_its_share_and_is_restored_after_a_kill() {
    let Some(_turn) = turn() else { return };
    let mut victim = Victim::of_threads();
    victim.hear();
    let hog = victim.ask("hog");
    while victim.threads().len() < THREADS {
        let _ = victim.ask("sleeper");
    }
    let tids = victim.threads();
    let before = Now::of_all(&tids);
    let _others = hogs();
    let mut live = Live::promise(&["--slice", "3ms", "--period", "10ms"], &[victim.pid()]);
    live.await_raised(&tids);
    let (meter, begin) = (Meter::open(hog).unwrap(), clock::now());
    let had = meter.read().unwrap().ran;
    clock::sleep(Nanos::s(2));
    let (ran, time) = (meter.read().unwrap().ran - had, clock::now().since(begin));
    assert!(ran >= time.scale(29, 100), "{ran} of {time}, and not 30 %: {}", live.said("stderr"));
    // To observe so many threads takes long on a busy host.
    let watching = Watching::begin();
    let begin = clock::now();
    live.process.kill().unwrap();
    assert_restored(begin, &tids, &before);
    drop(watching);
    live.done();
    live.assert_nothing_left();
    assert_eq!(Now::of_all(&tids), before, "they stay so");
}
