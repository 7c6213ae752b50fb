//! A real trace of threads of the tests.

use super::*;
use crate::child::{Child, Work};
use crate::{affinity, thread};
use sched::{CpuSet, Nanos};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Linux loses switches while another trace begins or ends, so each test has its traces alone.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None`: this kernel permits no trace.
fn permitted(begun: Result<SchedulerTrace>) -> Option<SchedulerTrace> {
    match begun {
        Ok(trace) => Some(trace),
        Err(refused @ (Error::NotPermitted { .. } | Error::Absent { .. })) => {
            eprintln!("SKIPPED: {refused}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Begins a trace of one CPU, with a child that sleeps and spins there. `None`: this kernel permits no trace.
fn traced(busy: Nanos, idle: Nanos) -> Option<(SchedulerTrace, Child, CpuId)> {
    let cpu = affinity::get(thread::current()).unwrap().first().unwrap();
    let trace = permitted(SchedulerTrace::begin(&[cpu], thread::current()))?;
    let child = Child::start(Work::Spin { busy, idle }).unwrap();
    affinity::set(child.pid(), &CpuSet::one(cpu)).unwrap();
    Some((trace, child, cpu))
}

fn read_for(trace: &mut SchedulerTrace, length: Nanos) -> Vec<Record> {
    let (end, mut records) = (clock::now() + length, Vec::new());
    while clock::now() < end {
        clock::sleep(Nanos::ms(5));
        trace.read(&mut records);
    }
    records
}

#[test]
fn a_sleeper_is_seen_with_its_timer_its_wake_up_and_its_switches() {
    let _alone = alone();
    let Some((mut trace, child, cpu)) = traced(Nanos::us(200), Nanos::ms(3)) else { return };
    let records = read_for(&mut trace, Nanos::ms(300));
    let pid = child.pid();
    drop(child);
    let (mut expiries, mut met, mut wakes, mut blocks) = (Vec::new(), 0, 0, 0);
    for Record { at, cpu: on, event } in records {
        assert_eq!(on, cpu);
        match event {
            Event::Timer { tid, expiry } if tid == pid => expiries.push((at, expiry)),
            Event::Waking { tid, by, .. } if tid == pid => {
                wakes += u32::from(by == Waker::Interrupt);
                met += u32::from(expiries.last().is_some_and(|&(_, expiry)| at >= expiry));
            }
            Event::Switch { from, blocks: true, .. } if from == pid => blocks += 1,
            _ => {}
        }
    }
    assert!(expiries.iter().all(|&(at, expiry)| expiry > at && expiry < at + Nanos::ms(10)), "{expiries:?}");
    assert!(wakes > 10 && met > 10 && blocks > 10, "{wakes} wake-ups, {met} by timers, {blocks} blocks");
    let records = read_for(&mut trace, Nanos::ms(10));
    let ended = |record: &Record| matches!(record.event, Event::Switch { from, ends: true, .. } if from == pid);
    assert!(records.iter().any(ended), "{records:?}");
}

#[test]
fn all_switches_of_a_cpu_and_the_wake_ups_of_a_thread_are_recorded() {
    let _alone = alone();
    let cpu = affinity::get(thread::current()).unwrap().first().unwrap();
    let child = Child::start(Work::Spin { busy: Nanos::us(100), idle: Nanos::ms(2) }).unwrap();
    let pid = child.pid();
    affinity::set(pid, &CpuSet::one(cpu)).unwrap();
    let Some(mut trace) = permitted(SchedulerTrace::of_switches(&[cpu], &[pid])) else { return };
    let records = read_for(&mut trace, Nanos::ms(200));
    drop(child);
    let (mut running, mut starts, mut wakes, mut missing) = (None, 0, 0, 0);
    for Record { event, .. } in records {
        match event {
            Event::Switch { from, to, .. } => {
                missing += u32::from(running.is_some_and(|tid| tid != from));
                running = Some(to);
                starts += u32::from(to == pid);
            }
            Event::Waking { tid, target, .. } => {
                assert_eq!((tid, target), (pid, cpu));
                wakes += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(wakes > 10 && starts + 2 >= wakes, "{wakes} wake-ups, {starts} starts");
    // Another process may begin a trace.
    assert!(missing <= 2, "{missing} switches are missing");
}

#[test]
fn wake_ups_wake_the_reader_except_those_by_threads_that_are_left_out() {
    let _alone = alone();
    let (cpus, gate, me) = (crate::cpus::online().unwrap(), crate::event::Gate::new(), thread::current());
    let cpus: Vec<CpuId> = cpus.iter().collect();
    let (say, hear) = std::sync::mpsc::channel();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pause in [Nanos::ms(5), Nanos::ms(7)] {
            let (gate, is_over, say) = (&gate, &is_over, say.clone());
            scope.spawn(move || {
                say.send((pause, thread::current())).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    clock::sleep(pause);
                    gate.open();
                }
            });
        }
        let mut wakers = [hear.recv().unwrap(), hear.recv().unwrap()];
        wakers.sort_unstable();
        let [(_, left_out), (_, other)] = wakers;
        let trace = permitted(SchedulerTrace::of_wake_ups(&cpus, &[me], &[left_out]));
        // A ring reports once that it is readable, to those that wait for it already.
        let waiting = crate::event::Waiting::new().unwrap();
        let descriptors = trace.iter().flat_map(SchedulerTrace::descriptors);
        descriptors.for_each(|descriptor| waiting.add(descriptor, 0).unwrap());
        (0..40).for_each(|_| gate.pass());
        is_over.store(true, Ordering::Relaxed);
        let Some(mut trace) = trace else { return };
        let (is_woken, mut records) = (waiting.next(clock::now()).unwrap().is_some(), Vec::new());
        trace.read(&mut records);
        let by = |waker: u32| {
            let is_by = |record: &&Record| matches!(record.event, Event::Waking { tid, by: Waker::Thread(by), .. } if (tid, by) == (me, waker));
            records.iter().filter(is_by).count()
        };
        assert!(is_woken && by(other) >= 5 && by(left_out) == 0, "{is_woken}, {left_out}, {other}: {records:?}");
    });
}

#[test]
fn records_of_several_cpus_are_in_order_over_all_readings() {
    let _alone = alone();
    let cpus: Vec<CpuId> = affinity::get(thread::current()).unwrap().iter().take(2).collect();
    let children = cpus.iter().map(|&cpu| {
        let child = Child::start(Work::Spin { busy: Nanos::us(20), idle: Nanos::us(20) }).unwrap();
        affinity::set(child.pid(), &CpuSet::one(cpu)).unwrap();
        child
    });
    let _children: Vec<Child> = children.collect();
    let Some(mut trace) = permitted(SchedulerTrace::of_switches(&cpus, &[])) else { return };
    let (end, mut records) = (clock::now() + Nanos::ms(500), Vec::new());
    while clock::now() < end {
        // Many readings, in each of which a CPU may go on while the other one is read.
        trace.read(&mut records);
    }
    assert!(records.len() > 100, "{} records", records.len());
    assert!(records.is_sorted_by_key(|record| record.at));
}

#[test]
fn the_reader_is_not_woken_by_its_own_switches() {
    let _alone = alone();
    let Some((mut trace, child, _)) = traced(Nanos::ms(20), Nanos::ms(20)) else { return };
    let waiting = crate::event::Waiting::new().unwrap();
    trace.descriptors().for_each(|descriptor| waiting.add(descriptor, 0).unwrap());
    let (end, mut woken, mut records) = (clock::now() + Nanos::ms(400), 0, Vec::new());
    while clock::now() < end {
        woken += u32::from(waiting.next(end).unwrap().is_some());
        trace.read(&mut records);
    }
    let blocks = |record: &&Record| matches!(record.event, Event::Switch { blocks: true, from, .. } if from != thread::current());
    let others = records.iter().filter(blocks).count();
    drop(child);
    assert!(others >= 5, "{others} switches");
    assert!(woken as usize <= others + 10, "{woken} wake-ups for {others} switches");
}

#[test]
fn an_expiry_on_the_other_clock_is_converted() {
    let (now, real) = (clock::now(), clock::real_now_ns());
    let ahead = |expires: u64| monotonic(expires).unwrap().saturating_since(now);
    assert_eq!(ahead(now.as_ns() + 5_000_000), Nanos::ms(5));
    let converted = ahead(real + 5_000_000);
    assert!(converted >= Nanos::ms(4) && converted <= Nanos::ms(105), "{converted}");
    assert_eq!(monotonic(u64::MAX), None);
}
