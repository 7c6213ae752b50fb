//! The roles of this program other than the tests.

use daemon::directory::Directory;
use daemon::dispatch::{enclose, release_groups};
use daemon::guardian::{Handle, remove_groups, this_program};
use daemon::kernel::{Kernel, priority};
use daemon::linux::Linux;
use daemon::restore::{restore, restore_at_once, restore_entry};
use daemon::table::{Beating, Entry, Original, Table};
use sched::{CpuId, CpuSet, Nanos};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes};
use sys::thread::{self, Thread};
use sys::{Error, affinity, clock};

/// Prints `words` for the test.
fn say(words: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{words}").and_then(|()| out.flush()).expect("the test listens");
}

/// Changes process `pid` as the daemon does. Records each thread, raises the thread if permitted, confines the thread
/// to one CPU, and freezes the process if `is_frozen`.
fn impose(kernel: &Linux, table: &Table, pid: u32, cpu: &CpuSet, is_frozen: bool) {
    let leader = Thread::open(pid).unwrap().identity();
    for tid in thread::threads(pid).unwrap() {
        let thread = Thread::open(tid).unwrap().identity();
        let original = Original {
            attributes: Some(attributes::get(tid).unwrap()),
            affinity: affinity::get(tid).unwrap(),
            follows_cpuset: false,
        };
        table.record(&Entry { thread, leader, original, confined: *cpu, reserved: None }).unwrap();
        match attributes::set(tid, Attributes::raised(priority::RAISED)) {
            Ok(()) | Err(Error::NotPermitted { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        affinity::set(tid, cpu).unwrap();
    }
    if is_frozen {
        enclose(kernel, table, pid, &|| {}).unwrap().set_frozen(true, kernel, table).unwrap();
    }
}

fn last_cpu() -> CpuSet {
    let allowed = affinity::get(thread::current()).unwrap();
    CpuSet::one(allowed.iter().last().unwrap())
}

fn impose_on_all(kernel: &Linux, table: &Table, victims: &[u32]) {
    let cpu = last_cpu();
    // The first process is frozen, like a client with a hard limit that has used up its slice.
    for (nth, &victim) in victims.iter().enumerate() {
        impose(kernel, table, victim, &cpu, nth == 0);
    }
}

/// Runs a stand-in for the daemon, which changes the processes `victims` and beats until its input ends. The stand-in
/// then restores all threads and ends. If the guardian is not alive, the stand-in restores all threads, starts a new
/// guardian, and changes the victims again.
pub(crate) fn daemon(directory: &str, victims: &[&str]) -> ExitCode {
    let victims: Vec<u32> = victims.iter().map(|pid| pid.parse().unwrap()).collect();
    let directory = Directory::at(directory);
    let lock = directory.lock().unwrap();
    let table = directory.create_table(64, &lock).unwrap();
    let kernel = Linux::new().unwrap();
    let guardian = Handle::start(&directory, &table, this_program()).unwrap();
    let is_over = AtomicBool::new(false);
    let guardian = std::thread::scope(|scope| {
        let mut guardian = guardian;
        scope.spawn(|| {
            let _ = std::io::stdin().lock().read_line(&mut String::new());
            is_over.store(true, Ordering::SeqCst);
        });
        // Beat at an agent's priority, so that a busy machine does not delay the beats.
        let _ = attributes::set(thread::current(), Attributes::raised(priority::AGENT));
        table.beat(Beating::Agent(CpuId::new(0)));
        table.set_watched(1);
        impose_on_all(&kernel, &table, &victims);
        say(&guardian.pid().to_string());
        while !is_over.load(Ordering::SeqCst) {
            table.beat(Beating::Agent(CpuId::new(0)));
            if !guardian.is_alive(&table, clock::now()) {
                // An agent does not wait for threads that may be inside a fork.
                assert!(restore_at_once(&kernel, &table).is_settled());
                table.entries().into_iter().for_each(|(row, _)| table.forget(row));
                table.groups().into_iter().for_each(|(row, ..)| table.forget(row));
                say("restored");
                let killed = guardian.kill();
                assert!(killed.ends_within(Nanos::s(5)) && killed.reap());
                // The start may take longer than the new guardian tolerates between two beats of an agent.
                table.set_watched(0);
                guardian = Handle::start(&directory, &table, this_program()).unwrap();
                table.set_watched(1);
                impose_on_all(&kernel, &table, &victims);
                say(&guardian.pid().to_string());
            }
            clock::sleep(Nanos::ms(10));
        }
        guardian
    });
    let restored = restore(&kernel, &table, clock::sleep);
    table.finish();
    directory.remove_table(&lock).unwrap();
    guardian.stop();
    remove_groups(table.daemon());
    say(&restored.to_string());
    ExitCode::SUCCESS
}

/// Runs a stand-in for a daemon that admits, dispatches and dismisses clients as fast as possible, until the process is
/// killed.
pub(crate) fn restless(directory: &str, victims: &[&str]) -> ExitCode {
    let victims: Vec<u32> = victims.iter().map(|pid| pid.parse().unwrap()).collect();
    let directory = Directory::at(directory);
    let lock = directory.lock().unwrap();
    let table = directory.create_table(64, &lock).unwrap();
    let kernel = Linux::new().unwrap();
    let guardian = Handle::start(&directory, &table, this_program()).unwrap();
    let _ = attributes::set(thread::current(), Attributes::raised(priority::AGENT));
    table.beat(Beating::Agent(CpuId::new(0)));
    table.set_watched(1);
    say(&guardian.pid().to_string());
    loop {
        victims.iter().for_each(|&victim| impose(&kernel, &table, victim, &last_cpu(), false));
        let mut enclosure = enclose(&kernel, &table, victims[0], &|| {}).unwrap();
        for _ in 0..3 {
            for (_, entry) in table.entries() {
                enclosure.set_frozen(true, &kernel, &table).unwrap();
                let _ = entry.original.attributes.map(|original| attributes::apply(entry.thread.tid, original));
                enclosure.set_frozen(false, &kernel, &table).unwrap();
                let _ = attributes::apply(entry.thread.tid, Attributes::raised(priority::AMONG_OTHERS));
            }
            table.beat(Beating::Agent(CpuId::new(0)));
            clock::sleep(Nanos::us(100));
        }
        release_groups(&kernel, &table, &enclosure.rows(), &|| {});
        for (row, entry) in table.entries() {
            let thread = kernel.open_as(entry.thread).unwrap();
            let _ = restore_entry(&kernel, row, &entry, &thread);
            table.forget(row);
        }
        clock::sleep(Nanos::us(100));
    }
}

/// Runs a process that starts a thread for every line of its input, and prints the tid of the thread. The process ends
/// when its input ends.
pub(crate) fn victim() -> ExitCode {
    std::thread::scope(|scope| {
        let mut alive = Vec::new();
        for _ in std::io::stdin().lock().lines() {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            alive.push(end);
            scope.spawn(move || {
                say(&thread::current().to_string());
                let _ = ended.recv();
            });
        }
    });
    ExitCode::SUCCESS
}
