//! Threads of other programs that run above the clients: admission control takes their CPU time into account.

use super::super::Place;
use super::refuses::refused;
use super::{BUSY_NOW_AND_THEN, HOG, Live, turn};
use daemon::interfering::overrun;
use sched::Nanos;
use sys::attributes::{self, Attributes, Policy};
use sys::child::{Child, Work};

/// Starts a busy process with these attributes. `None`: the host does not permit them.
fn start(work: Work, wanted: Attributes) -> Option<Child> {
    let child = Child::start(work).unwrap();
    match attributes::set(child.pid(), wanted) {
        Ok(()) => Some(child),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

#[test]
fn a_promise_beside_a_reserved_thread_is_smaller_and_kept() {
    let Some(_turn) = turn() else { return };
    let Some(child) = start(HOG, Attributes::reserved(Nanos::ms(2), Nanos::ms(40))) else { return };
    let tid = child.pid();
    // The thread takes at most 2 ms + 2 ms (2 - 0.05) of 40 ms, and an overrun.
    let said = format!("(thread {tid}, SCHED_DEADLINE, 2ms every 40ms");
    let taken = Nanos::us(2_000 + 3_900) + overrun();
    let promise = |slice| ["--period", "40ms", "--slice", slice];
    let command = ["--", "touch", "touched"];
    let above = format!("threads above all clients may take {taken} of 40ms");
    let remedy = format!("end thread {tid}");
    refused(&[&promise("35ms")[..], &command].concat(), &[&above, &said, &remedy]);
    let fits = format!("{}ns", (Nanos::ms(36) - taken).as_ns());
    let mut live = Live::begin(&[&promise(&fits)[..], &["--for", "1s", "--json", "--", "sh", "-c", SPIN]].concat());
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

/// A shell that uses its CPU for good.
const SPIN: &str = "while :; do :; done";

#[test]
fn a_promise_beside_a_thread_with_a_higher_priority_counts_its_observed_share() {
    let Some(_turn) = turn() else { return };
    // A CPU time of 1 ms in every 3 ms at least.
    let above = Attributes::of(Policy::Fifo { priority: 99 });
    let Some(child) = start(BUSY_NOW_AND_THEN, above) else { return };
    let said = format!("(thread {}, real-time priority 99, ", child.pid());
    let promise = ["--period", "10ms", "--slice", "8ms", "--"];
    refused(&[&promise[..], &["touch", "touched"]].concat(), &["threads above all clients may take", &said]);
    let doctor = Place::new().run(&["doctor", "--seconds", "1"]).stdout;
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(doctor.contains("threads of other programs run above all clients") && doctor.contains(&said), "{doctor}");
    // The thread does not interfere with a promise to itself.
    let pid = child.pid().to_string();
    let mut live = Live::begin(&[&promise[..4], &["--for", "300ms", "--pid", &pid]].concat());
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn a_thread_below_the_clients_prevents_no_promise() {
    let Some(_turn) = turn() else { return };
    let Some(_child) = start(BUSY_NOW_AND_THEN, Attributes::of(Policy::Fifo { priority: 94 })) else { return };
    let mut live = Live::begin(&["--period", "10ms", "--slice", "9ms", "--for", "200ms", "--", "sleep", "1"]);
    let done = live.done();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}
