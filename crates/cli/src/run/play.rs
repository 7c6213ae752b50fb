//! A live run from beginning to end, beside the daemon that keeps its promises.

use super::plan::{Part, Plan, Source};
use super::refused;
use crate::{Failure, output};
use daemon::dispatch::Left;
use daemon::live::Front;
use sched::{EntityId, Instant, Nanos};
use sys::clock;
use sys::process::Process;
use trace::Event;

/// How often what has happened is read, and who has ended is looked at.
const LOOK: Nanos = Nanos::ms(50);

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Played {
    /// What happened, from the run's beginning on.
    pub(crate) events: Vec<(Instant, Event)>,
    /// How many events nobody read in time.
    pub(crate) lost: u64,
    pub(crate) length: Nanos,
    pub(crate) interrupted: bool,
    pub(crate) left: Vec<Left>,
}

/// Somebody who is there.
struct Running {
    part: usize,
    process: Process,
    entities: Vec<EntityId>,
}

struct Player<'a, 'k> {
    front: Front<'a, 'k>,
    plan: &'a Plan,
    running: Vec<Running>,
    /// By the machine's time.
    begun: Instant,
    events: Vec<(Instant, Event)>,
    fresh: Vec<(Instant, Event)>,
    lost: u64,
    left: Vec<Left>,
}

/// Plays `plan`.
pub(crate) fn play(front: Front<'_, '_>, plan: &Plan) -> Result<Played, Failure> {
    let start = clock::now();
    let begun = Instant::ZERO + start.since(front.epoch());
    let mut player = Player {
        front,
        plan,
        running: Vec::new(),
        begun,
        events: Vec::new(),
        fresh: Vec::new(),
        lost: 0,
        left: Vec::new(),
    };
    for (index, part) in plan.parts.iter().enumerate() {
        player.begin(index, part)?;
    }
    let end = plan.length.map_or(Instant::NEVER, |length| start.saturating_add(length));
    while clock::now() < end && !player.running.is_empty() && !front.is_over() && !output::is_interrupted() {
        clock::sleep_until(clock::now().saturating_add(LOOK).min(end));
        player.look();
    }
    let length = clock::now().since(start);
    for running in std::mem::take(&mut player.running) {
        running.entities.iter().for_each(|&e| front.dismiss(e));
    }
    player.look();
    let Player { events, lost, left, .. } = player;
    Ok(Played { events, lost, length, interrupted: output::is_interrupted(), left })
}

impl Player<'_, '_> {
    fn begin(&mut self, index: usize, part: &Part) -> Result<(), Failure> {
        let pid = match &part.source {
            Source::Pid(pid) => *pid,
            Source::Command(_) => todo!(),
        };
        let gone = |error: sys::Error| refused(&error.into());
        let process = Process::open(pid).map_err(gone)?;
        let entities = match &part.wish {
            Some(wish) => self.front.admit(wish, pid).map_err(|refusal| refused(&refusal.reason()))?,
            None => Vec::new(),
        };
        self.running.push(Running { part: index, process, entities });
        Ok(())
    }

    /// Reads what has happened.
    fn look(&mut self) {
        self.lost += self.front.read_journal(&mut self.fresh);
        for (at, event) in self.fresh.drain(..) {
            self.events.push((Instant::ZERO + at.saturating_since(self.begun), event));
        }
        self.left.extend(self.front.take_left());
        self.running.retain(|running| !running.process.has_ended());
    }
}
