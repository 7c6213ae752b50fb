//! Pictures of worlds made of characters: snapshots for readers, and counts of omitted machines.

use crate::support::Random;
use crate::support::world::{HOST, SHOP, Story, machine, two_levels, walk};
use expect_test::expect;
use sched::{Instant, Nanos};
use trace::gantt::Glyphs;
use trace::{Event, Gantt, MachineId, WorldTimeline};

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::ms(n)
}

#[test]
fn a_task_whose_vcpu_is_preempted_in_the_middle_of_a_job() {
    let world = WorldTimeline::of(&two_levels()).unwrap();
    let gantt = Gantt { width: 60, ..Gantt::whole_world(&world) };
    expect![[r#"
                    0         10ms      20ms      30ms      40ms      50ms
                    ┬─────────┬─────────┬─────────┬─────────┬─────────┬─────────
        host: turns on 1 CPU
         A shop/0   ██████████··········██████████··········██████████···███████
         B books/0  ··········██████████··········██████████··········███───────
         CPU 0      AAAAAAAAAABBBBBBBBBBAAAAAAAAAABBBBBBBBBBAAAAAAAAAABBBAAAAAAA
          shop: eevdf on 1 vCPU
           A hog    ████··████≈≈≈≈≈≈≈≈≈≈··███████············█████████≈≈≈███████
           B shell  ────██──────────────██───────█≈≈≈≈≈!≈≈≈≈█───────────────────
           vCPU 0   AAAABBAAAA≈≈≈≈≈≈≈≈≈≈BBAAAAAAAB≈≈≈≈≈≈≈≈≈≈BAAAAAAAAA≈≈≈AAAAAAA
          books: round-robin on 1 vCPU
           A scan   ··········██████████≈≈≈≈≈≈≈≈≈≈██████████≈≈≈≈≈≈≈≈≈≈███───────
           vCPU 0   ──────────AAAAAAAAAA≈≈≈≈≈≈≈≈≈≈AAAAAAAAAA≈≈≈≈≈≈≈≈≈≈AAA───────
                    cell 1ms   █ ran   · waited   ≈ stolen (vCPU frozen)
                    ─ blocked, idle   ! missed a deadline
                    A-Z entity that ran (a-z: most of it)
    "#]]
    .assert_eq(&gantt.render_world(&world));
    let gantt = Gantt { glyphs: Glyphs::Ascii, cpus: false, from: ms(28), to: ms(43), ..gantt };
    expect![[r#"
                  28ms    30ms    32ms    34ms    36ms    38ms    40ms    42ms
                  |-------|-------|-------|-------|-------|-------|-------|---
        host: turns on 1 CPU
         shop/0   ########........................................############
         books/0  ........########################################............
          shop: eevdf on 1 vCPU
           hog    ####................................................########
           shell  ____####~~~~~~~~~~~~~~~~~~~~!~~~~~~~~~~~~~~~~~~~####________
          books: round-robin on 1 vCPU
           scan   ~~~~~~~~########################################~~~~~~~~~~~~
                  cell 250us   # ran   . waited   ~ stolen (vCPU frozen)
                  _ blocked   ! missed a deadline
    "#]]
    .assert_eq(&gantt.render_world(&world));
}

/// Returns a host with 8 CPUs and 30 guests that have 4 vCPUs and 9 tasks each. All guests and vCPUs have the same long
/// name.
fn crowd() -> WorldTimeline {
    let name = "a virtual machine whose name is much too long \u{202e}";
    let mut machines = vec![machine("the host", "a policy whose name is much too long", 8, None)];
    machines.extend((0..30).map(|_| machine(name, "eevdf", 4, Some(HOST))));
    let mut story = Story::new(machines);
    for guest in 0..30 {
        let id = MachineId(guest + 1);
        for cpu in 0..4 {
            let index = guest * 4 + cpu;
            story.attach(HOST, index, name).vcpu(HOST, index, id, cpu as usize).wake(HOST, index);
            if index < 8 {
                story.run_on(HOST, index as usize, index);
            }
        }
        for task in 0..9 {
            story.attach(id, task, &format!("task {task}")).wake(id, task);
            if guest < 2 && task < 4 {
                story.run_on(id, task as usize, task);
            }
        }
    }
    story.at_ms(10).say(HOST, Event::End);
    WorldTimeline::of(&story.trace).unwrap()
}

#[test]
fn a_crowd_shares_the_rows_and_the_rest_is_counted() {
    let world = crowd();
    let gantt = Gantt { width: 20, rows_most: 14, ..Gantt::whole_world(&world) };
    expect![[r#"
                                     0         5ms
                                     ┬─────────┬─────────
        the host: a policy whose name is… on 8 CPUs
         A a virtual machine wh… e0  00000000000000000000
         B a virtual machine wh… e1  11111111111111111111
         C a virtual machine wh… e2  22222222222222222222
         D a virtual machine wh… e3  33333333333333333333
                                     … and 116 more
         CPU 0                       AAAAAAAAAAAAAAAAAAAA
         CPU 1                       BBBBBBBBBBBBBBBBBBBB
         CPU 2                       CCCCCCCCCCCCCCCCCCCC
         CPU 3                       DDDDDDDDDDDDDDDDDDDD
                                     … and 4 more CPUs
          a virtual machine wh… m1: eevdf on 4 vCPUs
           A task 0                  00000000000000000000
           B task 1                  11111111111111111111
           C task 2                  22222222222222222222
           D task 3                  33333333333333333333
                                     … and 5 more
           vCPU 0                    AAAAAAAAAAAAAAAAAAAA
           vCPU 1                    BBBBBBBBBBBBBBBBBBBB
           vCPU 2                    CCCCCCCCCCCCCCCCCCCC
           vCPU 3                    DDDDDDDDDDDDDDDDDDDD
          a virtual machine wh… m2: eevdf on 4 vCPUs
           A task 0                  00000000000000000000
           B task 1                  11111111111111111111
           C task 2                  22222222222222222222
                                     … and 6 more
           vCPU 0                    AAAAAAAAAAAAAAAAAAAA
           vCPU 1                    BBBBBBBBBBBBBBBBBBBB
           vCPU 2                    CCCCCCCCCCCCCCCCCCCC
                                     … and 1 more CPU
          a virtual machine wh… m3: eevdf on 4 vCPUs
           A task 0                  ····················
           B task 1                  ····················
           C task 2                  ····················
                                     … and 6 more
           vCPU 0                    ────────────────────
           vCPU 1                    ────────────────────
           vCPU 2                    ────────────────────
                                     … and 1 more CPU
                                     … and 27 more machines
                                     cell 500us   0-9a-z ran on that CPU   · waited
                                     ─ blocked, idle   A-Z entity that ran (a-z: most of it)
    "#]]
    .assert_eq(&gantt.render_world(&world));
    let gantt = Gantt { rows_most: 0, legend: false, cpus: false, ..gantt };
    expect![[r#"
          0         5ms
          ┬─────────┬─────────
        the host: a policy whose name is… on 8 CPUs
          … and 120 more
          … and 30 more machines
    "#]]
    .assert_eq(&gantt.render_world(&world));
}

#[test]
fn any_world_and_any_window_can_be_drawn() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let world = WorldTimeline::of(&walk(seed, 80)).unwrap();
        let gantt = Gantt {
            from: Instant::at_ns(random.number(40_000)),
            to: Instant::at_ns(random.number(u64::MAX)),
            width: random.index(200),
            glyphs: random.pick(&[Glyphs::Ascii, Glyphs::Unicode]),
            rows_most: random.index(9),
            cpus: random.chance(2),
            legend: random.chance(2),
        };
        for gantt in [Gantt::whole_world(&world), gantt] {
            let text = gantt.render_world(&world);
            assert!(text.ends_with('\n') && text.lines().all(|line| line.trim_end() == line));
            assert!(gantt.glyphs == Glyphs::Unicode || text.is_ascii());
            let rows = text.lines().filter(|line| line.trim_start().contains("task")).count();
            assert!(rows <= gantt.rows_most, "seed {seed}: {rows} rows\n{text}");
        }
    }
}

/// A world of one machine has the same picture as the machine alone, except for the title and the indentation.
#[test]
fn a_world_of_one_machine_is_drawn_like_that_machine() {
    let mut story = Story::new(vec![machine("alone", "x", 1, None)]);
    story.attach(HOST, 0, "hog").wake(HOST, 0).run(HOST, 0).at_ms(5).say(HOST, Event::End);
    let world = WorldTimeline::of(&story.trace).unwrap();
    let gantt = Gantt { width: 10, ..Gantt::whole_world(&world) };
    let alone = gantt.render(&world.machines[0]);
    let within = gantt.render_world(&world);
    let rows = |text: &str| text.lines().map(|line| line.trim().to_string()).collect::<Vec<_>>();
    let (alone, mut within) = (rows(&alone), rows(&within));
    assert_eq!(within.remove(2), "alone: x on 1 CPU");
    assert_eq!(within, alone);
    assert_eq!(SHOP.index(), world.machines.len());
}
