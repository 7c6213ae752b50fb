//! System calls of the core that fail at random instants, each with one of several errors. The environment variable
//! `TACTUS_FAULT_SEED` repeats the faults of an earlier run.

use super::{HOG, Live, Now, PROMISED, chance, turn, until};
use sched::Nanos;
use sys::child::Child;
use sys::clock;
use sys::failing::{Call, Errno};

/// Number of faults.
const FAULTS: usize = 20;
/// Length of a run. The calls begin to fail in its first half.
const LENGTH: Nanos = Nanos::ms(800);
/// Maximum time until a run has ended. If a call that waits for the end of a process fails, Tactus waits for the whole time.
const ENDS: Nanos = Nanos::s(15);

/// A call that fails.
#[derive(Clone, Copy, Debug)]
struct Fault {
    call: Call,
    error: Errno,
    /// Time from the start of the service. After 0, the call fails from the start, in the guardian, too.
    after: Nanos,
    mechanism: &'static str,
    is_hard: bool,
}

/// Runs a promise during which the call fails. The promise may end, with a reason, and the process must be as before.
fn round(fault: Fault) {
    let Fault { call, error, after, mechanism, is_hard } = fault;
    let hog = Child::start(HOG).unwrap();
    let before = Now::of(hog.pid());
    let failing = match after {
        Nanos::ZERO => format!("{}:{}:0", call.name, error.name),
        _ => format!("{}:{}:{}us", call.name, error.name, after.as_ns() / 1_000),
    };
    let (pid, length) = (hog.pid().to_string(), LENGTH.to_string());
    let mut args = vec!["--period", "10ms", "--slice", "4ms", "--pid", &pid, "--for", &length, "--fail", &failing];
    args.extend(["--mechanism", mechanism]);
    args.extend(is_hard.then_some("--hard"));
    let mut live = Live::begin(&args);
    assert!(live.process.ends_within(ENDS), "it ends; it said {}", live.said("stderr"));
    let done = live.done();
    // If the core could not restore the process, the guardian does so after the end of the core.
    until(clock::now(), PROMISED, "the process is as before", || Now::of(hog.pid()) == before);
    let is_panic = done.stderr.contains("panicked") || done.stderr.contains("overflowed");
    assert!(!is_panic || call.panics_in_std(&done.stderr), "{}", done.stderr);
    match done.code {
        Some(0) => {}
        Some(3) => {
            let has_reason =
                done.stdout.contains("was dismissed before the end: ") || done.stderr.contains("is not kept");
            assert!(has_reason, "{}{}", done.stdout, done.stderr);
        }
        Some(1 | 2) => assert!(done.stderr.contains("error: ") || done.stderr.contains('×'), "{}", done.stderr),
        other => panic!("exit code {other:?}: {}", done.stderr),
    }
    assert_removable(&live);
    assert_eq!(Now::of(hog.pid()), before, "it stays so");
}

/// Asserts that nothing is left after the core could not remove its files and control groups, and `tactus release` and
/// the next run have done so.
fn assert_removable(live: &Live) {
    let release = live.place.run(&["release", "--directory", "live"]);
    assert_eq!(release.code, Some(0), "{}", release.stderr);
    let next = ["run", "--directory", "live", "--slice", "1ms", "--period", "10ms", "--", "true"];
    assert_eq!(live.place.run(&next).code, Some(0));
    live.assert_nothing_left();
}

#[test]
fn when_a_system_call_of_the_core_fails_at_a_random_instant_threads_are_restored() {
    let Some(_turn) = turn() else { return };
    let mut chance = chance();
    let mut below = |limit: usize| usize::try_from(chance(limit as u64)).unwrap();
    let first = below(Call::ALL.len());
    for nth in 0..FAULTS {
        // Every other call, so that two runs of the test with different seeds soon have tried all.
        let call = Call::ALL[(first + 2 * nth) % Call::ALL.len()];
        let after = if below(4) == 0 { Nanos::ZERO } else { Nanos::us(1 + below(400_000) as u64) };
        // A reservation of the kernel has no hard limit of Tactus.
        let (mechanism, is_hard) = [("inherit", below(2) == 1), ("fifo", below(2) == 1), ("deadline", false)][below(3)];
        let fault = Fault { call, error: Errno::ALL[below(Errno::ALL.len())], after, mechanism, is_hard };
        let begin = clock::now();
        eprintln!("{nth}: {} fails with {}, after {after}, {mechanism}, hard: {is_hard}", call.name, fault.error.name);
        round(fault);
        eprintln!("   in {}", clock::now().since(begin));
    }
}

#[test]
fn a_failing_call_ends_the_promise_with_its_reason() {
    let Some(_turn) = turn() else { return };
    for (mechanism, fault, code, reason) in [
        ("fifo", "sched_setattr:EPERM:400ms", 3, "was dismissed before the end: cannot schedule thread"),
        ("deadline", "pread64:ESRCH:400ms", 3, "was dismissed before the end: cannot read"),
        ("deadline", "getdents64:EBUSY:0", 2, "/..: Device or resource busy"),
        ("inherit", "recvfrom:EINVAL:400ms", 1, "cannot exchange messages with the front end: Invalid argument"),
        ("inherit", "timerfd_settime:EPERM:400ms", 1, "cannot arm a timer: Operation not permitted"),
        ("inherit", "execve:EPERM:0", 2, "cannot start the guardian: Operation not permitted"),
    ] {
        let hog = Child::start(HOG).unwrap();
        let before = Now::of(hog.pid());
        let pid = hog.pid().to_string();
        let args = ["--period", "10ms", "--slice", "4ms", "--pid", &pid, "--for", "5s", "--mechanism", mechanism];
        let mut live = Live::begin(&[&args[..], &["--fail", fault]].concat());
        let done = live.done();
        assert_eq!(done.code, Some(code), "{fault}: {}{}", done.stdout, done.stderr);
        // Lines of a refusal are folded.
        let said = format!("{} {}", done.stdout, done.stderr).replace('│', "");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(reason), "{fault}: {said}");
        until(clock::now(), PROMISED, "the process is as before", || Now::of(hog.pid()) == before);
        live.assert_nothing_left();
    }
}

#[test]
fn a_thread_whose_loan_cannot_begin_is_raised_by_its_attributes_with_the_reason() {
    let Some(_turn) = turn() else { return };
    for fault in ["futex_wait_requeue_pi:EPERM:0", "futex_cmp_requeue_pi:ESRCH:0"] {
        let hog = Child::start(HOG).unwrap();
        let before = Now::of(hog.pid());
        let pid = hog.pid().to_string();
        let args = ["--period", "10ms", "--slice", "4ms", "--pid", &pid, "--for", "2s", "--mechanism", "inherit"];
        let mut live = Live::begin(&[&args[..], &["--fail", fault]].concat());
        live.await_raised(&[hog.pid()]);
        let done = live.done();
        let said = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("Tactus sets the attributes of threads of"), "{fault}: {said}{}", done.stderr);
        assert!(said.contains("cannot lend a priority to thread"), "{fault}: {said}");
        until(clock::now(), PROMISED, "the process is as before", || Now::of(hog.pid()) == before);
        live.assert_nothing_left();
    }
}

#[test]
fn a_call_that_cannot_fail_is_refused() {
    let place = super::Place::new();
    for (text, why) in
        [("cook:EPERM:1s", "`cook` cannot fail"), ("read:EEGG:1s", "with `EEGG`"), ("read:EPERM:soon", "soon")]
    {
        let done = place.run(&["run", "--fail", text, "--slice", "1ms", "--period", "10ms", "--", "true"]);
        assert_eq!(done.code, Some(2));
        assert!(done.stderr.contains(why), "{}", done.stderr);
    }
}
