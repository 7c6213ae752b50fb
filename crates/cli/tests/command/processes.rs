//! The processes of a live run. Each process waits at its gate, executes its workload, and reports its jobs. No process
//! continues after the run.

use super::Place;
use daemon::Explanation;
use daemon::processes::{Launcher, Output, Periodic, RunProcess, Work};
use sched::{Instant, Nanos};
use std::path::Path;
use sys::attributes::{self, Attributes, Policy};
use sys::clock;

fn launcher() -> Launcher {
    Launcher::of(env!("CARGO_BIN_EXE_tactus").into())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Jobs of 2 ms in every 10 ms.
const JOBS: Periodic =
    Periodic { period: Nanos::ms(10), work: Nanos::ms(2), phase: Nanos::ZERO, deadline: Nanos::ms(10) };

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns a start time in the near future, so that all processes receive it before it passes.
fn soon() -> Instant {
    clock::now() + Nanos::ms(20)
}

#[test]
fn a_hundred_jobs_take_a_hundred_times_their_work() {
    let mut process = launcher().work("beat", Work::Periodic(JOBS), Nanos::s(1)).unwrap();
    assert_eq!((process.name(), process.is_command()), ("beat", false));
    let start = soon();
    process.go(start).unwrap();
    assert!(process.go(start).unwrap_err().reason.contains("has started already"));
    clock::sleep_until(start + Nanos::ms(996));
    let pid = process.pid();
    let outcome = process.end().unwrap();
    assert!(!is_there(pid));
    assert!(outcome.status.success() && outcome.lost == 0, "{outcome:?}");
    // On a busy machine, the request to end may reach the worker late. The worker then releases further jobs.
    let jobs = outcome.jobs.len() as u64;
    assert!((100..=150).contains(&jobs), "{jobs} jobs");
    for (nth, job) in (0..).zip(&outcome.jobs) {
        assert_eq!(job.released, start + Nanos::ms(10 * nth));
        assert_eq!(job.deadline, job.released + Nanos::ms(10));
        assert!(job.woke.is_none_or(|woke| woke >= job.released), "{job:?}");
        let first = job.woke.unwrap_or(job.released);
        // The CPU time of a wake-up counts towards the job, and is long on a busy machine.
        assert!(job.done.is_none_or(|done| done >= first + Nanos::ms(1)), "{job:?}");
    }
    // All jobs were completed, except jobs at the end that another process delayed. Each job takes its CPU time.
    let done = outcome.jobs.iter().filter(|job| job.done.is_some()).count() as u64;
    let (had, due) = (outcome.cpu_time.unwrap(), JOBS.work.saturating_mul(done));
    assert!(done + 10 >= jobs, "{done} jobs of {jobs} in a second on a machine that is busy with something else");
    assert!(had.as_ns().abs_diff(due.as_ns()) <= due.as_ns() / 100 + 2_000_000 * (jobs - done), "{had}, not {due}");
}

#[test]
fn jobs_that_come_late_queue_up_in_order() {
    // A job takes longer than its period, so each job after the first waits for its predecessor.
    let jobs = Periodic { period: Nanos::ms(2), work: Nanos::ms(3), phase: Nanos::ms(1), deadline: Nanos::ms(1) };
    let mut process = launcher().work("late", Work::Periodic(jobs), Nanos::ms(90)).unwrap();
    let start = soon();
    process.go(start).unwrap();
    clock::sleep_until(start + Nanos::ms(90));
    let all = process.end().unwrap().jobs;
    let done: Vec<_> = all.iter().filter_map(|job| job.done).collect();
    assert!(done.len() < 31 && all.len() >= 45, "{all:?}");
    assert!(done.is_sorted() && all[..done.len()].iter().all(|job| job.done.is_some()), "{all:?}");
    assert!(all[0].woke.is_some() && all[1..].iter().all(|job| job.woke.is_none()), "{all:?}");
    assert_eq!(all[7].released, start + Nanos::ms(15));
}

#[test]
fn jobs_beyond_the_room_for_them_are_counted() {
    let jobs = Periodic { period: Nanos::ms(1), work: Nanos::us(10), phase: Nanos::ZERO, deadline: Nanos::ms(1) };
    let mut process = launcher().work("many", Work::Periodic(jobs), Nanos::ms(8)).unwrap();
    let start = soon();
    process.go(start).unwrap();
    clock::sleep_until(start + Nanos::ms(100));
    let outcome = process.end().unwrap();
    assert_eq!(outcome.jobs.len(), 10);
    assert!((1..=92).contains(&outcome.lost), "{}", outcome.lost);
}

#[test]
fn a_hog_uses_its_cpu_from_its_start_on() {
    let mut process = launcher().work("hog", Work::Hog, Nanos::s(1)).unwrap();
    let start = soon();
    process.go(start).unwrap();
    clock::sleep_until(start + Nanos::ms(300));
    let had = process.end().unwrap().cpu_time.unwrap();
    // Other processes run on this host, too, so the CPU time may be less than the elapsed time. It cannot be more.
    assert!((Nanos::ms(60)..Nanos::ms(400)).contains(&had), "{had}");
}

#[test]
fn a_worker_of_no_time_is_refused() {
    let jobs = Periodic { work: Nanos::ZERO, ..JOBS };
    let refused = launcher().work("nothing", Work::Periodic(jobs), Nanos::s(1)).unwrap_err();
    assert_eq!(
        refused,
        Explanation::new("the period or work of `nothing` is zero", "use a period and work above zero")
    );
}

#[test]
fn a_command_does_nothing_before_it_may_and_can_be_promised_something_before() {
    let place = Place::new();
    let file = place.0.path().join("told");
    let script = format!("chrt -p $$ > {0}.part 2>&1; echo $$ >> {0}.part; mv {0}.part {0}; exit 7", file.display());
    let mut process = launcher().command("told", &words(&["sh", "-c", &script]), Output::ToStandardError).unwrap();
    clock::sleep(Nanos::ms(100));
    assert!(is_there(process.pid()) && process.try_wait().unwrap().is_none() && place.files().is_empty());
    attributes::set(process.pid(), Attributes::of(Policy::Batch { nice: 3 })).unwrap();
    let start = soon();
    process.go(start).unwrap();
    assert!(process.process().ends_within(Nanos::s(20)));
    assert!(clock::now() >= start);
    assert_eq!(process.try_wait().unwrap().unwrap().code(), Some(7));
    let told = std::fs::read_to_string(file).unwrap();
    assert!(told.ends_with(&format!("{}\n", process.pid())), "it kept its number: {told}");
    assert!(told.contains("SCHED_BATCH") || told.contains("not found"), "{told}");
    assert_eq!(process.end().unwrap().status.code(), Some(7));
}

#[test]
fn a_command_inherits_nothing_of_ours_but_its_standard_streams() {
    let place = Place::new();
    let listing = |name: &str| format!("ls /proc/$$/fd > {}", place.0.path().join(name).display());
    let direct = std::process::Command::new("sh").args(["-c", &listing("direct")]).status().unwrap();
    assert!(direct.success());
    let mut process = launcher().command("x", &words(&["sh", "-c", &listing("launched")]), Output::Inherited).unwrap();
    process.go(Instant::ZERO).unwrap();
    assert!(process.process().ends_within(Nanos::s(20)));
    assert_eq!(place.read("launched"), place.read("direct"));
}

#[test]
fn what_is_no_command_is_refused_and_nothing_is_begun() {
    for (command, reason) in [
        (&["no-such-command"][..], "there is no command `no-such-command` in PATH"),
        (&["/"], "/ is a directory"),
        (&["/proc/version"], "/proc/version is not executable for this user"),
        (&[], "the command has no name"),
    ] {
        let refused = launcher().command("x", &words(command), Output::Inherited).unwrap_err();
        assert!(refused.reason.contains(reason) && !refused.remedy.is_empty(), "{refused:?}");
    }
}

#[test]
fn what_turns_out_to_be_no_program_says_so_when_it_may_begin() {
    let place = Place::new();
    let file = place.file("noise", "#!/no/such/interpreter\n");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut process = launcher().command("noise", &[file.display().to_string()], Output::Inherited).unwrap();
    process.go(Instant::ZERO).unwrap();
    assert!(process.process().ends_within(Nanos::s(20)));
    assert_eq!(process.end().unwrap().status.code(), Some(126));
}

#[test]
fn no_process_is_left_behind_in_any_state() {
    let sleep = words(&["sleep", "1000"]);
    let deaf = words(&["sh", "-c", "trap '' TERM; while :; do :; done"]);
    let gone: Vec<(&str, RunProcess)> = [
        ("a command at its gate", launcher().command("a", &sleep, Output::Inherited)),
        ("a command that runs", launcher().command("b", &sleep, Output::Inherited)),
        ("a command that is stopped", launcher().command("c", &sleep, Output::Inherited)),
        ("a worker at its gate", launcher().work("d", Work::Hog, Nanos::s(1))),
        ("a hog", launcher().work("e", Work::Hog, Nanos::s(1))),
        ("a worker that is stopped", launcher().work("f", Work::Periodic(JOBS), Nanos::s(1))),
        ("a shell that does not listen", launcher().command("g", &deaf, Output::Inherited)),
    ]
    .into_iter()
    .map(|(state, process)| (state, process.unwrap()))
    .collect();
    for (state, mut process) in gone {
        if !state.ends_with("gate") {
            process.go(Instant::ZERO).unwrap();
            clock::sleep(Nanos::ms(60));
        }
        if state.ends_with("stopped") {
            process.process().stop().unwrap();
        }
        let pid = process.pid();
        assert!(is_there(pid), "{state}");
        drop(process);
        assert!(!is_there(pid), "{state}");
    }
}

#[test]
fn a_killed_worker_sends_no_report_and_an_unstarted_one_an_empty_report() {
    let mut process = launcher().work("killed", Work::Periodic(JOBS), Nanos::s(1)).unwrap();
    process.go(Instant::ZERO).unwrap();
    process.kill().unwrap();
    let silent = process.end().unwrap_err();
    assert!(silent.reason.contains("`killed` sent no report (signal: 9"), "{silent:?}");
    let outcome = launcher().work("idle", Work::Hog, Nanos::s(1)).unwrap().end().unwrap();
    assert_eq!((outcome.status.code(), outcome.cpu_time), (Some(0), None));
}

#[test]
fn a_worker_ignores_the_terminal_and_ends_with_its_parent() {
    let process = std::thread::spawn(|| {
        let mut worker = launcher().work("orphan", Work::Hog, Nanos::s(1)).unwrap();
        worker.go(Instant::ZERO).unwrap();
        worker.terminate().unwrap();
        clock::sleep(Nanos::ms(50));
        assert!(worker.try_wait().unwrap().is_none(), "another process has ended it");
        let process = sys::process::Process::open(worker.pid()).unwrap();
        // The worker must end when the thread that started it ends, even if its handle is never dropped.
        std::mem::forget(worker);
        process
    })
    .join()
    .unwrap();
    assert!(process.ends_within(Nanos::s(5)));
}
