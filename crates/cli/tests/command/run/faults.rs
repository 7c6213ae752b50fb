//! After the core is killed or stopped, all threads are restored within a second. A guardian that is killed or
//! stopped is replaced within a second.

use super::victim::Victim;
use super::{BUSY_NOW_AND_THEN, HOG, Live, Now, PROMISED, assert_restored, turn, until};
use sched::{Instant, Nanos};
use sys::attributes::{self, Attributes, Policy};
use sys::child::Child;
use sys::process::Process;
use sys::{affinity, clock};

/// Processes with threads and children, some with a soft promise and some with a hard promise.
struct Crowd {
    _victims: Vec<Victim>,
    _singles: Vec<Child>,
    tids: Vec<u32>,
    before: Vec<Now>,
    live: Live,
}

impl Crowd {
    fn begin() -> Crowd {
        let (mut victims, mut tids, mut toml) =
            (Vec::new(), Vec::new(), "name = \"crowd\"\ncpus = 8\nlength = \"60s\"\n".to_string());
        let mut promise = |pid: u32, limit: &str| {
            let name = format!("p{pid}");
            toml += &format!("[[task]]\nname = \"{name}\"\npid = {pid}\nslice = \"3ms\"\nperiod = \"20ms\"\n");
            toml += &format!("limit = \"{limit}\"\n");
        };
        let singles: Vec<Child> = [HOG, BUSY_NOW_AND_THEN].map(|work| Child::start(work).unwrap()).into();
        for (single, limit) in singles.iter().zip(["hard", "soft"]) {
            tids.push(single.pid());
            promise(single.pid(), limit);
        }
        for limit in ["hard", "soft"] {
            let mut victim = Victim::of_threads();
            tids.extend([victim.hear(), victim.ask("hog"), victim.ask("sleeper")]);
            promise(victim.pid(), limit);
            victims.push(victim);
            let mut victim = Victim::of_children();
            let child = victim.bear("sleep 30 & echo says $!");
            let grandchild = victim.bear("(while :; do :; done & echo says $!; wait) &");
            tids.extend([victim.pid(), child, grandchild]);
            promise(victim.pid(), limit);
            victims.push(victim);
        }
        for (nice, &tid) in (0..).zip(&tids) {
            attributes::set(tid, Attributes::of(Policy::Other { nice })).unwrap();
        }
        let before = Now::of_all(&tids);
        let live = Live::of_scenario(&toml);
        live.await_raised(&tids);
        Crowd { _victims: victims, _singles: singles, tids, before, live }
    }

    /// Asserts that all threads are restored within a second after `begin` and stay restored, and that the run leaves
    /// no process and no file.
    fn assert_over(mut self, begin: Instant) -> String {
        assert_restored(begin, &self.tids, &self.before);
        let done = self.live.done();
        self.live.assert_nothing_left();
        assert_eq!(Now::of_all(&self.tids), self.before, "they stay so");
        self.live.said("stderr") + &done.stdout
    }
}

#[test]
fn after_the_core_is_killed_all_threads_are_restored() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::begin();
    let begin = clock::now();
    crowd.live.core().kill().unwrap();
    crowd.assert_over(begin);
}

#[test]
fn after_the_front_end_is_killed_the_core_restores_all_threads() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::begin();
    let core = crowd.live.core();
    let begin = clock::now();
    crowd.live.process.kill().unwrap();
    let said = crowd.assert_over(begin);
    assert!(core.has_ended());
    assert!(!said.contains("tactus guardian"), "the core ends in order: {said}");
}

#[test]
fn a_stopped_core_is_killed_and_all_threads_are_restored() {
    let Some(_turn) = turn() else { return };
    let crowd = Crowd::begin();
    let begin = clock::now();
    let core = crowd.live.core();
    core.stop().unwrap();
    crowd.assert_over(begin);
    assert!(core.has_ended());
}

/// Performs `act` on the guardian of a run. Asserts that a new guardian replaces it. Then kills the core, and asserts
/// that the new guardian restores all threads.
fn guardian_is_missed(act: impl Fn(&Process)) {
    let crowd = Crowd::begin();
    let first = crowd.live.guardian();
    let begin = clock::now();
    act(&first);
    until(begin, PROMISED, "there is another guardian", || {
        first.has_ended() && crowd.live.guardian().pid() != first.pid()
    });
    crowd.live.await_raised(&crowd.tids);
    assert!(!crowd.live.core().has_ended());
    // The new guardian must restore all threads.
    let begin = clock::now();
    crowd.live.core().kill().unwrap();
    crowd.assert_over(begin);
}

#[test]
fn a_guardian_that_is_killed_is_replaced_and_its_successor_guards() {
    let Some(_turn) = turn() else { return };
    guardian_is_missed(|guardian| guardian.kill().unwrap());
}

#[test]
fn a_guardian_that_is_stopped_is_replaced_and_its_successor_guards() {
    let Some(_turn) = turn() else { return };
    guardian_is_missed(|guardian| guardian.stop().unwrap());
}

#[test]
fn a_standby_takes_over_from_a_killed_guardian_without_an_interruption() {
    let Some(_turn) = turn() else { return };
    let child = Child::start(HOG).unwrap();
    let live = Live::promise(&["--period", "10ms", "--slice", "5ms"], &[child.pid()]);
    let first = live.guardian();
    live.await_standby();
    let begin = clock::now();
    first.kill().unwrap();
    // A suspended core restores the affinity of its clients.
    let is_confined = || affinity::get(child.pid()).unwrap().len() == 1;
    while live.guardian().pid() == first.pid() {
        assert!(is_confined(), "service is suspended");
        assert!(clock::now() < begin + PROMISED, "the standby takes over");
    }
    let after = clock::now() + Nanos::ms(200);
    while clock::now() < after {
        assert!(is_confined(), "service is suspended");
        clock::sleep(Nanos::us(200));
    }
    live.await_standby();
    live.end();
}

#[test]
fn after_a_guardian_was_killed_the_run_ends_in_order() {
    let Some(_turn) = turn() else { return };
    let Crowd { _victims, _singles, tids, before, live } = Crowd::begin();
    let first = live.guardian();
    first.kill().unwrap();
    let begin = clock::now();
    until(begin, PROMISED, "there is another guardian", || live.guardian().pid() != first.pid());
    let second = live.guardian();
    clock::sleep(Nanos::ms(50));
    live.end();
    assert!(second.has_ended());
    assert_eq!(Now::of_all(&tids), before);
}
