//! A client follows the affinity that another process or a cpuset gives its threads, during the run and afterwards.

use super::victim::Victim;
use super::{BUSY_NOW_AND_THEN, HOG, Live, Now, Watching, hogs, is_raised, soon, turn, until};
use sched::{CpuId, CpuSet, Nanos};
use sys::attributes::{self, Attributes, Policy};
use sys::cgroup::{Hierarchy, OwnGroup};
use sys::child::Child;
use sys::usage::Meter;
use sys::{affinity, clock, thread};

const PROMISE: [&str; 4] = ["--period", "10ms", "--slice", "3ms"];
/// Time within which a client follows a change.
const FOLLOWED: Nanos = Nanos::ms(200);

/// Returns two CPUs; `None` on a host with one CPU.
fn two_cpus() -> Option<[CpuSet; 2]> {
    let all = affinity::get(thread::current()).unwrap();
    let mut cpus = all.iter().map(CpuSet::one);
    let two = cpus.next().zip(cpus.next()).map(|(first, second)| [first, second]);
    if two.is_none() {
        eprintln!("SKIPPED: there is one CPU only");
    }
    two
}

/// A cpuset with the members that a test moves into it. Dropping the cpuset moves them back.
struct Cpuset(OwnGroup);

impl Cpuset {
    /// Makes a cpuset with `cpus` below the cpuset of this process. Prints a message and returns `None` where this is
    /// not permitted.
    fn new(cpus: &CpuSet, members: &[u32]) -> Option<Cpuset> {
        let make = || {
            let home = Hierarchy::one("cpuset")?.group_of(thread::current())?;
            let group = home.create(&format!("tactus-test-{}", std::process::id()))?;
            group.write("cpuset.mems", home.read("cpuset.effective_mems")?.trim())?;
            group.write("cpuset.cpus", &cpus.to_string())?;
            Ok(group)
        };
        let made = make().inspect_err(|refused: &sys::Error| eprintln!("SKIPPED: {refused}"));
        let cpuset = Cpuset(made.ok()?);
        members.iter().for_each(|&pid| cpuset.0.add_process(pid).unwrap());
        Some(cpuset)
    }

    fn set(&self, cpus: &CpuSet) {
        self.0.write("cpuset.cpus", &cpus.to_string()).unwrap();
    }
}

fn both(first: &CpuSet, second: &CpuSet) -> CpuSet {
    first.iter().chain(second.iter()).collect()
}

/// Returns the CPU to which the table confines thread `tid`, and the original affinity.
fn recorded(live: &Live, tid: u32) -> Option<(CpuSet, CpuSet)> {
    let table = live.directory().open_table().ok().flatten()?;
    let entries = table.entries().into_iter().map(|(_, entry)| entry);
    let mut of_thread = entries.filter(|entry| entry.thread.tid == tid);
    of_thread.next().map(|entry| (entry.confined, entry.original.affinity))
}

/// Waits until the client serves thread `tid` on `cpu`, with this original affinity.
fn assert_served_on(live: &Live, tid: u32, cpu: &CpuSet, original: &CpuSet) {
    let begin = clock::now();
    let took = until(begin, FOLLOWED, "the client follows", || {
        recorded(live, tid) == Some((*cpu, *original)) && affinity::get(tid).unwrap() == *cpu
    });
    eprintln!("followed after {took}");
    let _watching = Watching::begin();
    soon("it is raised there", || is_raised(tid) && Some(thread::status(tid).unwrap().cpu) == index(cpu));
}

fn index(cpu: &CpuSet) -> Option<usize> {
    cpu.first().map(CpuId::index)
}

/// Starts a process that a test serves, and a process that it does not serve, in a cpuset.
fn served_and_control(cpus: &CpuSet) -> Option<(Child, Child, Cpuset)> {
    let [served, control] = [HOG, BUSY_NOW_AND_THEN].map(|work| Child::start(work).unwrap());
    let cpuset = Cpuset::new(cpus, &[served.pid(), control.pid()])?;
    assert_eq!([&served, &control].map(|it| affinity::get(it.pid()).unwrap()), [*cpus; 2]);
    Some((served, control, cpuset))
}

#[test]
fn a_process_that_followed_its_cpuset_follows_it_after_the_run() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let Some((served, control, cpuset)) = served_and_control(&first) else { return };
    let before = Now::of(served.pid());
    let live = Live::promise(&PROMISE, &[served.pid()]);
    live.end();
    assert_eq!(Now::of(served.pid()), before);
    cpuset.set(&both(&first, &second));
    assert_eq!([&served, &control].map(|it| affinity::get(it.pid()).unwrap()), [both(&first, &second); 2]);
}

#[test]
fn a_process_whose_cpuset_grows_during_the_run_has_all_of_it_afterwards() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let Some((served, control, cpuset)) = served_and_control(&first) else { return };
    let live = Live::promise(&PROMISE, &[served.pid()]);
    cpuset.set(&both(&first, &second));
    clock::sleep(FOLLOWED);
    live.end();
    assert_eq!([&served, &control].map(|it| affinity::get(it.pid()).unwrap()), [both(&first, &second); 2]);
}

#[test]
fn after_the_daemon_is_killed_a_process_follows_its_cpuset_again() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let Some((served, control, cpuset)) = served_and_control(&both(&first, &second)) else { return };
    let before = Now::of(served.pid());
    let mut live = Live::promise(&PROMISE, &[served.pid()]);
    live.core().kill().unwrap();
    super::assert_restored(clock::now(), &[served.pid()], &[before]);
    live.done();
    for cpus in [first, both(&first, &second)] {
        cpuset.set(&cpus);
        assert_eq!([&served, &control].map(|it| affinity::get(it.pid()).unwrap()), [cpus; 2]);
    }
    // The same with a cpuset that is no larger than the confinement, so that the affinity never changes.
    cpuset.set(&first);
    let before = Now::of(served.pid());
    let mut live = Live::promise(&PROMISE, &[served.pid()]);
    live.core().kill().unwrap();
    super::assert_restored(clock::now(), &[served.pid()], &[before]);
    live.done();
    cpuset.set(&both(&first, &second));
    assert_eq!([&served, &control].map(|it| affinity::get(it.pid()).unwrap()), [both(&first, &second); 2]);
}

#[test]
fn a_client_moves_with_its_cpuset() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let Some((served, control, cpuset)) = served_and_control(&first) else { return };
    let _others = hogs();
    let live = Live::promise(&PROMISE, &[served.pid()]);
    for cpus in [second, first, second] {
        cpuset.set(&cpus);
        assert_served_on(&live, served.pid(), &cpus, &cpus);
    }
    live.end();
    cpuset.set(&both(&first, &second));
    assert_eq!([&served, &control].map(|it| affinity::get(it.pid()).unwrap()), [both(&first, &second); 2]);
}

#[test]
fn a_process_that_another_process_moves_is_served_there_and_stays_there() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    for limit in [None, Some("--hard")] {
        let served = Child::start(HOG).unwrap();
        let _others = hogs();
        let before = Now::of(served.pid());
        let args: Vec<&str> = PROMISE.into_iter().chain(limit).collect();
        let live = Live::promise(&args, &[served.pid()]);
        for cpu in [second, first, second] {
            affinity::set(served.pid(), &cpu).unwrap();
            assert_served_on(&live, served.pid(), &cpu, &cpu);
        }
        let meter = Meter::open(served.pid()).unwrap();
        let (begin, had) = (clock::now(), meter.read().unwrap().ran);
        clock::sleep(Nanos::s(1));
        let (time, had) = (clock::now().since(begin), meter.read().unwrap().ran.saturating_sub(had));
        eprintln!("{limit:?}: {had} in {time}");
        assert!(had >= time.scale(28, 100), "{had} in {time}: its slice is 30 %");
        live.end();
        assert_eq!(Now::of(served.pid()), Now { affinity: second, ..before });
    }
}

#[test]
fn a_mask_that_includes_the_cpu_of_the_client_confines_and_is_restored() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let served = Child::start(BUSY_NOW_AND_THEN).unwrap();
    affinity::set(served.pid(), &first).unwrap();
    let before = Now::of(served.pid());
    let live = Live::promise(&PROMISE, &[served.pid()]);
    affinity::set(served.pid(), &both(&first, &second)).unwrap();
    assert_served_on(&live, served.pid(), &first, &both(&first, &second));
    live.end();
    assert_eq!(Now::of(served.pid()), Now { affinity: both(&first, &second), ..before });
}

#[test]
fn all_threads_of_a_client_move_with_the_thread_that_is_moved() {
    let Some(_turn) = turn() else { return };
    let Some([_, second]) = two_cpus() else { return };
    let mut victim = Victim::of_threads();
    let tids = [victim.hear(), victim.ask("sleeper"), victim.ask("hog")];
    let before = Now::of_all(&tids);
    let live = Live::promise(&PROMISE, &[victim.pid()]);
    live.await_raised(&tids);
    affinity::set(tids[2], &second).unwrap();
    assert_served_on(&live, tids[2], &second, &second);
    let later = victim.ask("sleeper");
    live.await_raised(&[later]);
    for tid in [tids[0], tids[1], later] {
        assert_eq!(affinity::get(tid).unwrap(), second, "{tid} of {tids:?}");
    }
    live.end();
    let moved = Now { affinity: second, ..before[2].clone() };
    assert_eq!(Now::of_all(&tids), [before[0].clone(), before[1].clone(), moved]);
    assert_eq!(Now::of(later), before[0], "its process has the affinity of its first thread");
}

#[test]
fn without_room_on_its_new_cpu_a_process_leaves_the_promise() {
    let Some(_turn) = turn() else { return };
    let Some([_, second]) = two_cpus() else { return };
    let [served, other] = [(); 2].map(|()| Child::start(HOG).unwrap());
    let before = Now::of_all(&[served.pid(), other.pid()]);
    let mut toml = "name = \"full\"\ncpus = 8\nlength = \"60s\"\n".to_string();
    for (name, pid, slice) in [("served", served.pid(), 3), ("other", other.pid(), 7)] {
        toml += &format!("[[task]]\nname = \"{name}\"\npid = {pid}\nslice = \"{slice}ms\"\nperiod = \"10ms\"\n");
    }
    toml += &format!("affinity = \"{second}\"\n");
    let live = Live::of_scenario(&toml);
    live.await_raised(&[served.pid(), other.pid()]);
    affinity::set(served.pid(), &second).unwrap();
    clock::sleep(FOLLOWED);
    assert!(!is_raised_at_times(served.pid()), "the promise has ended");
    let now = Now::of(served.pid());
    assert_eq!(now, Now { affinity: second, ..before[0].clone() });
    assert!(is_raised_at_times(other.pid()), "the other client is still served");
    let done = live.end();
    let said = done.stdout + &done.stderr;
    let tid = served.pid();
    let what =
        format!("the promise to thread {tid} of served has ended: the thread may run on CPUs {second} only, and ");
    assert!(said.contains(&what) && said.contains("30.00 % of a CPU, but only 20.00 %"), "{said}");
    assert_eq!(Now::of_all(&[served.pid(), other.pid()]), [now, before[1].clone()]);
}

#[test]
fn a_thread_that_cannot_move_with_its_client_leaves_the_promise() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let mut victim = Victim::of_threads();
    let tids = [victim.hear(), victim.ask("hog"), victim.ask("hog")];
    affinity::set(tids[1], &first).unwrap();
    let before = Now::of_all(&tids);
    let live = Live::promise(&PROMISE, &[victim.pid()]);
    live.await_raised(&tids);
    affinity::set(tids[2], &second).unwrap();
    clock::sleep(FOLLOWED);
    let mut after = before;
    after[2].affinity = second;
    assert!(!is_raised_at_times(tids[2]), "it has left the promise");
    assert_eq!(Now::of(tids[2]), after[2]);
    live.await_raised(&tids[..2]);
    let done = live.end();
    let (said, tid) = (done.stdout + &done.stderr, tids[2]);
    let what = format!("the promise to thread {tid} of ");
    assert!(said.contains(&what) && said.contains("other threads of the process may not run there"), "{said}");
    assert_eq!(Now::of_all(&tids), after);
}

#[test]
fn a_sleeper_that_is_moved_is_not_delayed_by_hogs_on_its_new_cpu() {
    let Some(_turn) = turn() else { return };
    let Some([_, second]) = two_cpus() else { return };
    let worker = Child::start(BUSY_NOW_AND_THEN).unwrap();
    attributes::set(worker.pid(), Attributes::of(Policy::Other { nice: 19 })).unwrap();
    let _others = hogs();
    let live = Live::promise(&["--period", "10ms", "--slice", "5ms"], &[worker.pid()]);
    affinity::set(worker.pid(), &second).unwrap();
    assert_served_on(&live, worker.pid(), &second, &second);
    let meter = Meter::open(worker.pid()).unwrap();
    let before = meter.read().unwrap();
    clock::sleep(Nanos::s(1));
    let after = meter.read().unwrap();
    live.end();
    let (times, waited) = (after.dispatches - before.dispatches, after.waited.saturating_sub(before.waited));
    eprintln!("{times} times on a CPU, waited {waited} for it");
    assert!(times >= 200 && waited < Nanos::ms(200), "it ran {times} times, and waited {waited} in a second");
}

/// Returns whether the process is raised at some time in the next 100 ms.
fn is_raised_at_times(pid: u32) -> bool {
    let _watching = Watching::begin();
    let end = clock::now() + Nanos::ms(100);
    while clock::now() < end {
        if is_raised(pid) {
            return true;
        }
        clock::sleep(Nanos::us(300));
    }
    false
}

#[test]
fn of_a_promise_on_two_cpus_only_the_thread_that_is_moved_changes_its_client() {
    let Some(_turn) = turn() else { return };
    let Some([first, second]) = two_cpus() else { return };
    let mut victim = Victim::of_threads();
    let tids = [victim.hear(), victim.ask("sleeper"), victim.ask("hog"), victim.ask("sleeper"), victim.ask("sleeper")];
    let before = Now::of_all(&tids);
    let live = Live::promise(&["--period", "10ms", "--slice", "6ms", "--cpus", "2"], &[victim.pid()]);
    live.await_raised(&tids);
    let cpus = || tids.map(|tid| affinity::get(tid).unwrap());
    let mut wanted = cpus();
    assert!(wanted.contains(&first) && wanted.contains(&second), "{wanted:?}");
    for _ in 0..2 {
        wanted[2] = if wanted[2] == first { second } else { first };
        affinity::set(tids[2], &wanted[2]).unwrap();
        assert_served_on(&live, tids[2], &wanted[2], &wanted[2]);
        assert_eq!(cpus(), wanted);
    }
    live.end();
    let mut after = before;
    after[2].affinity = wanted[2];
    assert_eq!(Now::of_all(&tids), after);
}
