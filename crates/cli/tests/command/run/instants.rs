//! Faults of each process and each thread of Tactus at random instants. The environment variable `TACTUS_FAULT_SEED`
//! repeats the faults of an earlier run.

use super::{HOG, Live, Now, PROMISED, chance, hogs, turn};
use daemon::live::StalledThread;
use sched::{Instant, Nanos};
use serde_json::Value;
use sys::child::Child;
use sys::clock;
use sys::process::Process;

/// Number of faults: each one once, and then any but the slow ones.
const FAULTS: usize = 20;
/// Maximum number of repetitions of a fault whose run has missed a period. A busy machine or a hypervisor can cause a miss,
/// too.
const REPETITIONS: u32 = 4;
/// Time for which a promise must be kept after a fault that does not end it: longer than the time in which the keeper
/// replaces a stopped guardian.
const KEPT: Nanos = Nanos::ms(600);

/// A process of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Core,
    FrontEnd,
    Guardian,
    Standby,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Kill(Part),
    Stop(Part),
    Stall(StalledThread),
}

impl Fault {
    /// Returns all faults, the slow ones last.
    fn all() -> Vec<Fault> {
        let parts = [Part::Core, Part::FrontEnd, Part::Guardian, Part::Standby];
        let stalls = StalledThread::ALL.map(|(thread, _)| Fault::Stall(thread));
        parts.map(Fault::Kill).into_iter().chain(parts.map(Fault::Stop)).chain(stalls).collect()
    }

    /// Returns whether the promise ends with this fault.
    fn ends_the_promise(self) -> bool {
        matches!(self, Fault::Kill(Part::Core | Part::FrontEnd) | Fault::Stop(Part::Core) | Fault::Stall(_))
    }

    fn strike(self, live: &Live) {
        let process = |part: Part| match part {
            Part::Core => live.core(),
            Part::FrontEnd => Process::open(live.process.pid()).unwrap(),
            Part::Guardian => live.guardian(),
            Part::Standby => live.await_standby(),
        };
        match self {
            Fault::Kill(part) => process(part).kill().unwrap(),
            Fault::Stop(part) => process(part).stop().unwrap(),
            // The thread stalls by itself.
            Fault::Stall(_) => {}
        }
    }
}

/// Injects the fault `instant` after the promise is in force. Returns the number of missed periods; `None` if the promise
/// has ended with the fault.
fn round(fault: Fault, instant: Nanos, is_hard: bool) -> Option<u64> {
    let hog = Child::start(HOG).unwrap();
    let before = Now::of(hog.pid());
    let mut args = vec!["--period", "10ms", "--slice", "4ms", "--json"];
    args.extend(is_hard.then_some("--hard"));
    // The service begins before the promise is in force.
    let (after, mut limit) = (Nanos::ms(300) + instant, PROMISED);
    let stall = match fault {
        Fault::Stall(thread) => {
            limit = thread.restored_within() + after;
            let name = StalledThread::ALL.iter().find(|(it, _)| *it == thread).unwrap().1;
            format!("{name}:{}us", after.as_ns() / 1_000)
        }
        _ => String::new(),
    };
    if !stall.is_empty() {
        args.extend(["--stall", &stall]);
    }
    let live = Live::promise(&args, &[hog.pid()]);
    if !matches!(fault, Fault::Stall(_)) {
        live.await_standby();
        clock::sleep(instant);
    }
    let begin = clock::now();
    fault.strike(&live);
    if fault.ends_the_promise() {
        let said = assert_over(live, begin + limit, &hog, &before, fault);
        let hung = match fault {
            Fault::Stall(StalledThread::Agent | StalledThread::Holder) => "the agent of CPU ",
            Fault::Stall(StalledThread::Keeper) => "the keeper has missed",
            Fault::Stall(StalledThread::Commands) => "the command thread has missed",
            Fault::Kill(_) | Fault::Stop(_) => "",
        };
        assert!(said.contains(hung), "the guardian names the thread: {said}");
        return None;
    }
    clock::sleep(KEPT);
    if fault == Fault::Stop(Part::FrontEnd) {
        live.process.cont().unwrap();
    }
    live.await_raised(&[hog.pid()]);
    let core = live.core();
    assert!(!core.has_ended(), "{}", live.said("stderr"));
    let done = live.end();
    assert_eq!(Now::of(hog.pid()), before);
    let shown: Value = serde_json::from_str(&done.stdout).unwrap();
    let entity = &shown["runs"][0]["entities"][0];
    assert!(entity["periods_judged"].as_u64().unwrap() > 20, "{entity:#}");
    Some(entity["periods_missed"].as_u64().unwrap())
}

/// Asserts that the process is as before until `end`, and that the run reports `fault` and leaves nothing. Returns the
/// output on standard error.
fn assert_over(mut live: Live, end: Instant, hog: &Child, before: &Now, fault: Fault) -> String {
    while Now::of(hog.pid()) != *before {
        assert!(clock::now() < end, "not as before: {:?}; it said {}", Now::of(hog.pid()), live.said("stderr"));
        clock::sleep(Nanos::us(300));
    }
    let code = if fault == Fault::Kill(Part::FrontEnd) { 137 } else { 1 };
    let done = live.done();
    assert_eq!(done.code, Some(code), "{}", done.stderr);
    live.assert_nothing_left();
    assert_eq!(Now::of(hog.pid()), *before, "it stays so");
    done.stderr
}

#[test]
fn after_a_fault_at_a_random_instant_threads_are_restored_or_the_promise_is_kept() {
    let Some(_turn) = turn() else { return };
    let mut below = chance();
    let _others = hogs();
    let all = Fault::all();
    for nth in 0..FAULTS {
        // The last two faults are slow.
        let fault = all.get(nth).copied().unwrap_or_else(|| all[below(all.len() as u64 - 2) as usize]);
        let (instant, is_hard) = (Nanos::us(below(100_000)), below(2) == 1);
        let begin = clock::now();
        let mut missed = round(fault, instant, is_hard);
        for _ in 0..REPETITIONS {
            if missed.unwrap_or(0) > 0 {
                eprintln!("{missed:?} periods are missed, so the round is repeated");
                missed = round(fault, instant, is_hard);
            }
        }
        eprintln!("{nth}: {fault:?} after {instant}, hard: {is_hard}: {missed:?}, in {}", clock::now().since(begin));
        assert_eq!(missed.unwrap_or(0), 0, "each of {} runs has missed a period", REPETITIONS + 1);
    }
}

#[test]
fn a_stall_of_no_thread_is_refused() {
    let done =
        super::Place::new().run(&["run", "--stall", "cook:1s", "--slice", "1ms", "--period", "10ms", "--", "true"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("use agent, holder, keeper or commands"), "{}", done.stderr);
}
