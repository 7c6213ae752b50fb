//! [`Neighbours`]: other activity on the host. Threads and processes start and end, and processes other than Tactus
//! change the values that Tactus changes.

use sched::{CpuId, CpuSet, Instant, Nanos};
use sim::{Periodic, Workload};
use simhost::{Dice, Kind, Others, Refuses, World};
use std::cell::RefCell;
use std::rc::Rc;
use sys::attributes::{Attributes, Policy};
use sys::thread::Owner;

/// Maximum number of threads. The number of tids, `NUMBERS`, is small, so that tids are soon reused.
const THREADS_MOST: usize = 70;
pub(super) const NUMBERS: u32 = 120;
/// Name of a freezer group of another process.
pub(super) const GROUP: &str = "container";
/// Maximum CPU time of a fork.
const FORK_MOST: Nanos = Nanos::ms(5);
const USER: Owner = Owner { real: 1000, effective: 1000 };

/// Values that other processes have requested so far for the threads of a client.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) root: u32,
    pub(super) attributes: Vec<Attributes>,
    pub(super) affinities: Vec<CpuSet>,
    /// Whether the client is always runnable.
    pub(super) is_hog: bool,
}

/// All clients, indexed by mark.
pub(super) type Ledger = Rc<RefCell<Vec<Tree>>>;

pub(super) struct Neighbours {
    pub(super) dice: Dice,
    pub(super) at: Instant,
    pub(super) gap: Nanos,
    pub(super) births: bool,
    pub(super) orphans: bool,
    pub(super) others: bool,
    pub(super) cpusets: bool,
    /// A freezer group of another process.
    pub(super) group: u64,
    pub(super) ledger: Ledger,
    /// Processes that exist only to use up tids.
    pub(super) passing: Vec<u32>,
}

/// Returns a random workload of a thread.
fn workload(dice: &mut Dice) -> Workload {
    if dice.one_in(3) {
        return Workload::Hog;
    }
    // Threads that sleep for long are parked.
    let period = if dice.one_in(3) { (Nanos::ms(60), Nanos::ms(300)) } else { (Nanos::ms(2), Nanos::ms(40)) };
    let period = dice.between(period.0, period.1);
    let work = dice.between(Nanos::us(20), period.scale(1, 2));
    let phase = dice.between(Nanos::ZERO, period);
    Workload::Periodic(Periodic { phase, ..Periodic::new(period, work) })
}

/// Returns the attributes of a random fair class.
fn fair(dice: &mut Dice) -> Attributes {
    let nice = i32::try_from(dice.below(40)).expect("it is small") - 20;
    Attributes::of(match dice.below(6) {
        0 => Policy::Batch { nice },
        1 => Policy::Idle,
        2 | 3 => Policy::Other { nice: 0 },
        _ => Policy::Other { nice },
    })
}

fn some(dice: &mut Dice, cpus: &CpuSet) -> CpuSet {
    let chosen: CpuSet = cpus.iter().filter(|_| dice.one_in(2)).collect();
    if chosen.is_empty() { *cpus } else { chosen }
}

/// Starts the process of a future client, with some threads, marked with `tag`.
pub(super) fn begin_client(world: &mut World, dice: &mut Dice, tag: usize, refusals: bool) -> Option<Tree> {
    let is_hog = dice.one_in(2);
    let first = if is_hog { Workload::Hog } else { workload(dice) };
    let root = world.start(&format!("client-{tag}"), USER, first)?;
    world.mark(root, tag);
    if dice.one_in(3) {
        let group = world.create_group_of_others(GROUP);
        world.move_to_group(root, group);
    }
    let affinity = if dice.one_in(2) { world.cpus() } else { some(dice, &world.cpus()) };
    let attributes = fair(dice);
    world.reschedule(root, attributes);
    world.move_to(root, &affinity);
    for _ in 0..dice.below(3) {
        world.clone_thread(root, workload(dice))?;
    }
    if refusals && dice.one_in(3) {
        let kind = dice.below(3);
        world.protect(root, Refuses { real_time: kind == 0, affinity: kind == 1, all: kind == 2 });
    }
    let is_hog = is_hog && first == Workload::Hog;
    Some(Tree { root, attributes: vec![attributes], affinities: vec![affinity], is_hog })
}

impl Others for Neighbours {
    fn next(&self) -> Instant {
        self.at
    }

    fn act(&mut self, world: &mut World) {
        self.at = world.now() + self.dice.between(Nanos::us(1), self.gap);
        let kind = self.dice.below(100);
        match kind {
            70..100 if self.cpusets && self.dice.one_in(8) => self.change_cpuset(world),
            0..70 if self.births => self.live(world, kind),
            70..100 if self.others => self.meddle(world, kind),
            _ => {}
        }
    }
}

impl Neighbours {
    /// Starts or ends a thread or process.
    fn live(&mut self, world: &mut World, kind: u64) {
        let cpu = CpuId::new(usize::try_from(self.dice.below(world.cpus().len() as u64)).expect("it is small"));
        // Only a running thread can fork or exit.
        let client = world.running(cpu).filter(|&tid| world.mark_of(tid).is_some() && !world.is_forking(tid));
        let has_room = world.living().len() < THREADS_MOST;
        match (kind, client) {
            (0..35, Some(tid)) if has_room => {
                let work = workload(&mut self.dice);
                let born = if kind < 15 { Kind::Process } else { Kind::Thread };
                let takes = if self.dice.one_in(2) { Nanos::us(10) } else { FORK_MOST };
                world.begin_birth(tid, born, work, self.dice.between(Nanos::ZERO, takes));
            }
            (35..55, Some(tid)) => self.end(world, tid),
            (55..63, _) if has_room => self.passing.extend(world.start("passing", USER, workload(&mut self.dice))),
            (63..70, _) => {
                if let Some(pid) = self.passing.pop() {
                    world.kill(pid);
                }
            }
            _ => {}
        }
    }

    fn end(&self, world: &mut World, tid: u32) {
        let Some((pid, _)) = world.process_of(tid) else { return };
        let is_root = self.ledger.borrow().iter().any(|tree| tree.root == tid);
        let leaves_orphans = !world.children_of(pid).is_empty();
        if is_root {
            // The client is not always runnable at its level: it loses its loan until the keeper has run.
            world.execute(tid);
            self.ledger.borrow_mut().iter_mut().filter(|tree| tree.root == tid).for_each(|tree| tree.is_hog = false);
        } else if self.orphans || !leaves_orphans {
            world.exit(tid);
        }
    }

    /// Changes the cpuset of a client: all its processes are in one control group.
    fn change_cpuset(&mut self, world: &mut World) {
        let count = self.ledger.borrow().len() as u64;
        let tag = usize::try_from(self.dice.below(count)).expect("it is small");
        let cpus = if self.dice.one_in(2) { world.cpus() } else { some(&mut self.dice, &world.cpus()) };
        let marked: Vec<u32> = world.living().iter().copied().filter(|&tid| world.mark_of(tid) == Some(tag)).collect();
        for tid in marked {
            if let Some((pid, _)) = world.process_of(tid).filter(|(pid, _)| *pid == tid) {
                world.set_cpuset(pid, &cpus);
            }
        }
    }

    /// Changes a value of a client on behalf of another process.
    fn meddle(&mut self, world: &mut World, kind: u64) {
        let marked: Vec<u32> = world.living().iter().copied().filter(|&tid| world.mark_of(tid).is_some()).collect();
        let Some(tid) = self.dice.choose(&marked) else { return };
        let (Some(tag), Some((pid, true))) = (world.mark_of(tid), world.process_of(tid)) else { return };
        match kind {
            70..72 => {
                let nice = i32::try_from(self.dice.below(40)).expect("it is small") - 20;
                let attributes = world.renice(tid, nice);
                self.ledger.borrow_mut()[tag].attributes.extend(attributes);
            }
            72..79 => {
                let attributes = match self.dice.below(8) {
                    0 => Attributes::of(Policy::Fifo { priority: 1 + u32::try_from(self.dice.below(40)).unwrap_or(0) }),
                    _ => fair(&mut self.dice),
                };
                self.ledger.borrow_mut()[tag].attributes.push(attributes);
                world.reschedule(tid, attributes);
            }
            79..88 => {
                let cpus = some(&mut self.dice, &world.cpus());
                self.ledger.borrow_mut()[tag].affinities.push(cpus);
                world.move_to(tid, &cpus);
            }
            88..91 => world.stop(pid),
            91..94 => world.cont(pid),
            94..96 => world.move_to_group(pid, if self.dice.one_in(2) { self.group } else { 0 }),
            96..98 => world.freeze_by_others(self.group, kind == 96),
            _ => {
                if !self.ledger.borrow().iter().any(|tree| tree.root == pid) && world.children_of(pid).is_empty() {
                    world.kill(pid);
                }
            }
        }
    }
}
