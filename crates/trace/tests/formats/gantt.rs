//! Pictures made of characters: snapshots for readers, and cells compared with an independent count.

use crate::support::Random;
use crate::support::edf::{self, FIGURE_2, Order, Vm};
use crate::support::walk::{damaged, walk};
use expect_test::expect;
use sched::{Action, CpuId, EntityId, Held, Input, Instant, Nanos, Wake};
use trace::gantt::Glyphs;
use trace::timeline::State;
use trace::{Event, Gantt, Header, Sink, Timeline, Trace};

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::ms(n)
}

fn figure_2() -> Timeline {
    Timeline::of(&edf::run(&FIGURE_2, 1, Order::Deadline, ms(1100))).unwrap()
}

#[test]
fn figure_2_of_the_vsched_paper() {
    let timeline = figure_2();
    let gantt = Gantt { to: ms(200), ..Gantt::whole(&timeline) };
    expect![[r#"
             0       20ms    40ms    60ms    80ms    100ms   120ms   140ms   160ms   180ms
             ┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────
        VM1  ████████────────────████████────────────████████────────────████████────────────
        VM2  ────────────████────────────────────────────────────████────────────────────────
        VM3  ────────────────────────····████████████········████····████········████████████
             cell 2.5ms   █ ran   · waited   ─ blocked
    "#]]
    .assert_eq(&gantt.render(&timeline));
    let gantt = Gantt { width: 40, glyphs: Glyphs::Ascii, ..gantt };
    expect![[r#"
             0         50ms      100ms     150ms
             |---------|---------|---------|---------
        VM1  ####______####______####______####______
        VM2  ______##__________________##____________
        VM3  ____________..######....##..##....######
             cell 5ms   # ran   . waited   _ blocked
    "#]]
    .assert_eq(&gantt.render(&timeline));
    let gantt = Gantt { width: 72, cpus: true, from: ms(50), to: ms(230), glyphs: Glyphs::Unicode, ..gantt };
    expect![[r#"
                   60ms    80ms    100ms   120ms   140ms   160ms   180ms   200ms   220ms
               ────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───
        A VM1  ████████────────────████████────────────████████────────────████████────
        B VM2  ────────────────────────────────████────────────────────────────────────
        C VM3  ────····████████████········████····████········████████████········████
        CPU 0  AAAAAAAACCCCCCCCCCCCAAAAAAAACCCCBBBBCCCCAAAAAAAACCCCCCCCCCCCAAAAAAAACCCC
               cell 2.5ms   █ ran   · waited   ─ blocked, idle
               A-Z entity that ran (a-z: most of it)
    "#]]
    .assert_eq(&gantt.render(&timeline));
}

const BUSY: [Vm; 5] = [
    Vm { name: "web", period: Nanos::ms(10), slice: Nanos::ms(4), arrival: Nanos::ZERO },
    Vm { name: "database", period: Nanos::ms(25), slice: Nanos::ms(15), arrival: Nanos::ms(3) },
    Vm {
        name: "a name that is much too long for its column",
        period: Nanos::ms(40),
        slice: Nanos::ms(18),
        arrival: Nanos::ms(5),
    },
    Vm { name: "twin", period: Nanos::ms(30), slice: Nanos::ms(10), arrival: Nanos::ms(5) },
    Vm { name: "twin", period: Nanos::ms(30), slice: Nanos::ms(10), arrival: Nanos::ms(8) },
];

#[test]
fn two_busy_cpus_with_misses() {
    let timeline = Timeline::of(&edf::run(&BUSY, 2, Order::Turns(Nanos::ms(6)), ms(160))).unwrap();
    let gantt = Gantt { cpus: true, ..Gantt::whole(&timeline) };
    expect![[r#"
                                    0         20ms      40ms      60ms      80ms      100ms     120ms     140ms
                                    ┬─────────┬─────────┬─────────┬─────────┬─────────┬─────────┬─────────┬─────────
        A web                       00───···▓0!▓···!00▓─··▓1▓····▓!00▓─···▓0!▓··▓!1▓──···▓1!▓···!11▓─····▓!1▓··!00▓─
        B database                  ─▓11▓··▓11▓··▓!1▓·▓00▓··▓0!▓·▓11▓▓11▓··!·▓00▓··▓11▓!···▓00▓··▓00!··▓00▓···▓1!▓▓0
        C a name that is much too…  ──▓00▓····▓11▓··▓11▓──····▓11▓··▓00▓···▓11▓···▓00▓··▓00▓··▓00▓·▓11▓···▓00▓···▓11
        D twin e3                   ──··▓11▓···▓0▓───··▓11▓·▓1▓─────···▓00▓···▓1▓──··▓00▓···▓1▓───··▓00▓····▓1▓──···
        E twin e4                   ────·▓00▓····▓0▓───··▓00▓··▓0▓────··▓11▓····▓0▓──·▓11▓····▓1▓───··▓11▓···▓0▓───·
        CPU 0                       AA▓CC▓EE▓AA▓D▓E▓AA▓BB▓EE▓BB▓E▓AA▓CC▓DD▓AA▓BB▓E▓CC▓DD▓CC▓BB▓CC▓BB▓DD▓BB▓CC▓E▓AA▓B
        CPU 1                       ─▓BB▓DD▓BB▓CC▓BB▓CC▓DD▓A▓D▓CC▓BB▓▓BB▓EE▓CC▓D▓AA▓BB▓EE▓AA▓D▓E▓AA▓CC▓EE▓AA▓D▓BB▓CC
                                    cell 2ms   0-9a-z ran on that CPU   ▓ ran half of it or more   · waited
                                    ─ blocked, idle   ! missed a deadline   A-Z entity that ran (a-z: most of it)
    "#]]
    .assert_eq(&gantt.render(&timeline));
    let gantt = Gantt { glyphs: Glyphs::Ascii, rows_most: 3, width: 50, ..gantt };
    expect![[r#"
                                    0              50ms            100ms          150ms
                                    |--------------|---------------|--------------|---
        A web                       0-_..+!-.!0+..+-..!0+_..+!.-!+_..+!-.!1+_..!1-!+0-
        B database                  -1+.-1+.!1--0-.+!-+1-1+.!-0+.-1+!.-0+.+0!.+0-.-!-+
        C a name that is much t...  _-0-..-1-.+1-_..-1-.+0-.-1+..++.-0+.-0--1+..++..+1
                                    ... and 2 more
        CPU 0                       A+C**aA***AaB**bB*aAcC**aaBb*cc**CcBbCbB**bBcc*aAb
        CPU 1                       -Bb**BbCbBcC**a**CbBaBb**Cc*AaBb*aA***AaCc*aA**BcC
                                    cell 3.2ms   0-9a-z ran on that CPU
                                    + ran half of it or more   - ran less   . waited
                                    _ blocked, idle   ! missed a deadline
                                    A-Z entity that ran (a-z: most of it)   * another ran
    "#]]
    .assert_eq(&gantt.render(&timeline));
}

/// An entity is blocked, waits, is held, runs and is detached. A cell is 10 ns.
#[test]
fn every_state_looks_different() {
    let (e, cpu, at) = (EntityId::new(0, 0), CpuId::new(0), Instant::at_ns);
    let mut trace = Trace::new(Header { policy: "x".into(), cpus: 1, seed: 0 });
    trace.record(
        at(0),
        &Event::Action(Action::SetAlarm {
            alarm: sched::Alarm { owner: sched::AlarmOwner::Policy, slot: 0 },
            on: cpu,
            at: at(9),
        }),
    );
    trace.record(at(10), &Event::Attach { entity: e, name: "漢字\u{202e}\u{7}".into(), params: Box::default() });
    trace.record(at(30), &Event::Input(Input::Wake { entity: e, why: Wake::Timer }));
    trace.record(at(50), &Event::Action(Action::Held { entity: e, reasons: Held::Parked as u8 }));
    trace.record(at(70), &Event::Action(Action::Held { entity: e, reasons: 0 }));
    trace.record(at(70), &Event::Action(Action::Run { cpu, entity: e, until: Instant::NEVER }));
    trace.record(at(94), &Event::Input(Input::Block { cpu }));
    trace.record(at(94), &Event::Action(Action::Stop { cpu, entity: e }));
    trace.record(at(105), &Event::Input(Input::Wake { entity: e, why: Wake::Timer }));
    trace.record(at(105), &Event::Action(Action::Run { cpu, entity: e, until: Instant::NEVER }));
    trace.record(at(110), &Event::Detach { entity: e });
    trace.record(at(110), &Event::Action(Action::Stop { cpu, entity: e }));
    trace.record(at(130), &Event::End);
    let timeline = Timeline::of(&trace).unwrap();
    let gantt = Gantt { width: 13, legend: false, ..Gantt::whole(&timeline) };
    expect![[r#"
                0         100ns
                ┬─────────┬──
        漢字��   ──··××██░▓
    "#]]
    .assert_eq(&gantt.render(&timeline));
    let gantt = Gantt { glyphs: Glyphs::Ascii, legend: true, ..gantt };
    expect![[r#"
              0         100ns
              |---------|--
        ????   __..::##-+
              cell 10ns   # ran   + ran half of it or more   - ran less
              . waited   : held   _ blocked
    "#]]
    .assert_eq(&gantt.render(&timeline));
}

#[test]
fn a_stretch_far_out_counts_from_its_edge() {
    let timeline = figure_2();
    let gantt =
        Gantt { from: Instant::at_ns(999_990_000), to: Instant::at_ns(1_000_040_000), ..Gantt::whole(&timeline) };
    expect![[r#"
             from 999.99ms
             +0      +5us    +10us   +15us   +20us   +25us   +30us   +35us   +40us   +45us
             ┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────┬───────
        VM1  ────────────────████████████████████████████████████████████████████████████████
        VM2  ────────────────────────────────────────────────────────────────────────────────
        VM3  ────────────────────────────────────────────────────────────────────────────────
             cell 625ns   █ ran   ─ blocked
    "#]]
    .assert_eq(&gantt.render(&timeline));
}

#[test]
fn no_time_and_no_entities_have_pictures_too() {
    let nothing = Timeline::of(&Trace::new(Header { policy: "x".into(), cpus: 1, seed: 0 })).unwrap();
    expect![[r#"
        (nothing from 0s to 0s)
    "#]]
    .assert_eq(&Gantt::whole(&nothing).render(&nothing));
    let gantt = Gantt { to: Instant::at_ns(3), cpus: true, ..Gantt::whole(&nothing) };
    expect![[r#"
               0
               ┬──
        CPU 0  ───
               cell 1ns   ─ blocked, idle
    "#]]
    .assert_eq(&gantt.render(&nothing));
}

/// Compares the cells of a row with an independent count, nanosecond by nanosecond.
#[test]
fn cells_are_exact() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let timeline = Timeline::of(&walk(seed, 40).trace).unwrap();
        let end = timeline.to.as_ns();
        let from = random.below(end);
        let (from, to) = (Instant::at_ns(from), Instant::at_ns(from + 1 + random.below(end)));
        let width = 1 + random.index(40);
        let gantt = Gantt { from, to, width, legend: false, rows_most: 100, cpus: false, glyphs: Glyphs::Ascii };
        let picture = gantt.render(&timeline);
        let rows = timeline.rows.iter().filter(|row| row.is_in(from, to));
        let lines: Vec<&str> = picture.lines().filter(|line| line.starts_with("vm")).collect();
        assert_eq!(lines.len(), rows.clone().count(), "seed {seed}");
        let margin = lines.iter().map(|line| line.find(' ').unwrap_or(line.len())).max().unwrap_or(0) + 2;
        for (row, line) in rows.zip(lines) {
            let length = to.since(from).as_ns();
            let cells = (width as u64).min(length);
            for cell in 0..cells {
                let bounds = (from.as_ns() + length * cell / cells, from.as_ns() + length * (cell + 1) / cells);
                let shown = line.as_bytes().get(margin + usize::try_from(cell).unwrap()).map_or(' ', |&b| b.into());
                assert_eq!(shown, by_hand(&timeline, row, bounds), "seed {seed}: {} cell {cell}", row.name);
            }
        }
    }
}

fn by_hand(timeline: &Timeline, row: &trace::timeline::Row, (from, to): (u64, u64)) -> char {
    let mut missed = row.jobs.iter().filter(|job| job.ended > job.deadline).map(|job| job.deadline.as_ns());
    if missed.any(|deadline| (from..to).contains(&deadline)) {
        return '!';
    }
    let mut counts = std::collections::BTreeMap::new();
    for ns in from..to {
        let at = Instant::at_ns(ns);
        if let Some(span) = row.spans.iter().find(|span| span.from <= at && at < span.to) {
            *counts.entry(span.state).or_insert(0) += 1;
        }
    }
    let most = |runs: bool| {
        let some = counts.iter().filter(|(state, _)| matches!(state, State::Running(_)) == runs);
        some.max_by_key(|&(&state, &count)| (count, std::cmp::Reverse(state))).map(|(&state, _)| state)
    };
    let ran: u64 = counts.iter().filter(|(state, _)| matches!(state, State::Running(_))).map(|(_, &n)| n).sum();
    match (most(true), most(false)) {
        (Some(State::Running(cpu)), _) if ran == to - from && timeline.cpus.len() > 1 => {
            cpu.to_string().chars().next().unwrap()
        }
        (Some(_), _) if ran == to - from => '#',
        (Some(_), _) if 2 * ran >= to - from => '+',
        (Some(_), _) => '-',
        (None, Some(State::Waiting)) => '.',
        (None, Some(State::Held(_))) => ':',
        (None, Some(_)) => '_',
        (None, None) => ' ',
    }
}

#[test]
fn any_trace_and_any_window_can_be_drawn() {
    let mut drawn = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let Ok(timeline) = Timeline::of(&damaged(&mut random, walk(seed, 60).trace)) else { continue };
        let gantt = Gantt {
            from: Instant::at_ns(random.number(u64::MAX)),
            to: Instant::at_ns(random.number(u64::MAX)),
            width: random.index(200),
            glyphs: random.pick(&[Glyphs::Ascii, Glyphs::Unicode]),
            rows_most: random.index(4),
            cpus: random.chance(2),
            legend: random.chance(2),
        };
        for gantt in [Gantt::whole(&timeline), gantt] {
            let text = gantt.render(&timeline);
            assert!(text.ends_with('\n') && text.lines().all(|line| line.trim_end() == line));
            assert!(gantt.glyphs == Glyphs::Unicode || text.is_ascii());
            drawn += 1;
        }
    }
    assert!(drawn > 100, "{drawn}");
}
