//! [`Judge`]: checks that promises are kept while no process fails, and that all threads are restored after a fault.

use crate::changes::Served;
use crate::finding::Finding;
use crate::gangs::Starts;
use crate::guardians::Doubt;
use crate::neighbours::Ledger;
use crate::options::Options;
use crate::session::Session;
use sched::{EntityId, Instant, Limit, Machine, Nanos, Reservation, State};
use simhost::{Difference, Setting, World};
use std::collections::BTreeMap;
use std::iter::successors;
use sys::attributes::{Attributes, Policy};

/// Minimum number of periods over which lateness excuses a wrong delivery, because overruns and missing time carry over
/// to later periods.
const MEMORY: usize = 4;
/// Minimum time over which lateness excuses a wrong delivery. A backlog is delivered in the tenth of a CPU that is not
/// promised.
const BACKLOG: Nanos = Nanos::ms(300);
/// Maximum cost of a switch between clients.
const GRAIN: Nanos = Nanos::us(60);

/// A sample at the start of a period.
#[derive(Clone, Copy, Debug)]
struct Sample {
    deadline: Instant,
    at: Instant,
    total: Nanos,
    raised: Nanos,
    /// Sum of the lateness of all timers. `ours` is the CPU time of Tactus.
    late: Nanos,
    ours: Nanos,
    births: u64,
    /// Whether a thread of the client is inside a fork. A stop takes effect only after the fork.
    is_forking: bool,
    /// Excess CPU time that the client has received and that is not subtracted from a slice yet.
    debt: Nanos,
    /// CPU time that is missing because of lateness, and may be delivered later.
    credit: Nanos,
}

pub(super) struct Judge {
    ledger: Ledger,
    /// Samples of each client since its last change.
    samples: BTreeMap<(EntityId, u64), Vec<Sample>>,
    /// Number of evaluated periods.
    pub(super) periods: u64,
    /// Starts of the members of gangs.
    pub(super) starts: Starts,
    delivers: bool,
    /// Whether timers are late by milliseconds from time to time.
    is_rarely_late: bool,
}

impl Judge {
    pub(super) fn new(options: &Options, ledger: Ledger) -> Judge {
        // Check the delivery only if each client must receive its slice. A client may receive less if the kernel
        // refuses changes to its process, or if another process changes the client.
        Judge {
            ledger,
            samples: BTreeMap::new(),
            periods: 0,
            starts: Starts::default(),
            is_rarely_late: options.lateness.rare_in > 0,
            delivers: !options.others && !options.refusals && !options.cpusets,
        }
    }

    /// Checks, after a turn, the last period of every client that has started a new period.
    pub(super) fn look(&mut self, session: &Session) -> Result<(), Finding> {
        let delivers = self.delivers && session.guardians.replacements == 0;
        for served in session.daemon.served.iter().filter(|served| served.request.gang) {
            if let Some(what) = self.starts.look(session, served, delivers) {
                return Err(Finding::new(&session.host, format!("gang of client {}: {what}", served.tag)));
            }
        }
        if !delivers {
            return Ok(());
        }
        let machine = session.daemon.dispatcher.machine();
        for served in session.daemon.served.iter().filter(|served| machine.is_attached(served.entity())) {
            let Some(deadline) = common_deadline(machine, served) else { continue };
            let samples = self.samples.entry((served.entity(), served.changes)).or_default();
            if samples.last().is_some_and(|last| last.deadline == deadline) {
                continue;
            }
            samples.push(sample(session, served, deadline, samples.last()));
            // The excess of a single member of a gang is unknown. It is small unless a timer is late by milliseconds.
            let is_hog = self.ledger.borrow()[served.tag].is_hog && !(served.request.gang && self.is_rarely_late);
            if let Some(what) = wrong(samples, served, is_hog, &mut self.periods) {
                let (tag, entity, reservation) = (served.tag, served.entity(), served.request.reservation);
                let (slice, period) = (reservation.slice, reservation.period);
                return Err(Finding::new(
                    &session.host,
                    format!("client {tag} ({entity}), {slice} every {period}: {what}"),
                ));
            }
            let now = session.host.world().now();
            let is_old = |it: &Sample| it.at.saturating_add(BACKLOG.saturating_mul(2)) < now;
            if samples.len() > 2 * MEMORY && is_old(&samples[samples.len() / 2]) {
                samples.drain(..samples.len() / 2);
            }
        }
        Ok(())
    }

    /// Checks that every thread has the values that it would have without Tactus.
    pub(super) fn is_restored(&self, session: &Session, options: &Options) -> Result<(), Finding> {
        let world = session.host.world();
        // A child whose parent ended before Tactus observed the child cannot be found.
        let wrong = |found: &Difference| {
            !found.is_orphan
                && !is_in_doubt(&world, found, &session.guardians.doubt)
                && !self.is_excused(&world, found, options)
        };
        let found: Vec<Difference> = world.differences().into_iter().filter(wrong).collect();
        let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let groups = world.groups_of_tactus();
        if !groups.is_empty() {
            found.push(format!("there are freezer groups: {}", groups.join(", ")));
        }
        drop(world);
        if found.is_empty() {
            return Ok(());
        }
        Err(Finding::new(&session.host, format!("not what they were:\n  {}", found.join("\n  "))))
    }

    /// Returns whether each value that differs is excused: other processes have requested it for a thread of the same
    /// client, or no observer can tell or restore the right value.
    fn is_excused(&self, world: &World, found: &Difference, options: &Options) -> bool {
        let Some(tag) = world.mark_of(found.tid) else { return false };
        let (tree, Difference { is, untouched, .. }) = (&self.ledger.borrow()[tag], found);
        let has_attributes = is.attributes == untouched.attributes
            || is_ambiguous_newborn(world, found)
            || (options.others && is_requested(&tree.attributes, is.attributes));
        let is_mask_requested = is.affinity == untouched.affinity || tree.affinities.contains(&is.affinity);
        let has_affinity = (is.affinity == untouched.affinity && !found.is_pinned)
            || world.is_ambiguous(found.tid)
            || (options.others && is_mask_requested);
        let is_stop_fine = found.is_stopped == found.is_stopped_by_others;
        has_attributes && has_affinity && is_stop_fine && !found.is_lent && !found.is_in_other_group
    }
}

/// Returns the end of the current period of the client. A blocked member of a gang may be in an earlier period. `None`
/// while a member that runs or waits has not begun this period, because the timer of its agent is late.
fn common_deadline(machine: &Machine, served: &Served) -> Option<Instant> {
    let members = || served.entities.iter().copied().filter(|&e| machine.is_attached(e));
    let deadline = |e: EntityId| machine.promise(e).map(|promise| promise.deadline);
    let latest = members().filter_map(deadline).max()?;
    let is_behind = |e: EntityId| machine.state(e) != State::Blocked && deadline(e).is_some_and(|at| at < latest);
    (!members().any(is_behind)).then_some(latest)
}

/// Returns a sample at the start of the period that ends at `deadline`.
fn sample(session: &Session, served: &Served, deadline: Instant, last: Option<&Sample>) -> Sample {
    let world = session.host.world();
    let (total, raised) = world.had_by(served.tag);
    let (late, ours) = (world.late(), world.had_by_us());
    let is_forking = world.is_any_forking(served.tag);
    let (mut debt, mut credit) = (Nanos::ZERO, Nanos::ZERO);
    if let Some(last) = last {
        let (slice, had) = (served.request.reservation.slice, raised - last.raised);
        let excuse = (late - last.late) + ours.saturating_sub(last.ours) + GRAIN;
        debt = (last.debt + had).saturating_sub(slice);
        let missing = slice.saturating_sub(had).min(excuse);
        credit = (last.credit.saturating_sub(had.saturating_sub(slice)) + missing).min(slice);
    }
    Sample { deadline, at: world.now(), total, raised, late, ours, births: world.births(), is_forking, debt, credit }
}

/// Returns what is wrong with the last period; `None` if the period is correct, has an unusual length, or follows too
/// few samples.
fn wrong(samples: &[Sample], served: &Served, is_hog: bool, periods: &mut u64) -> Option<String> {
    let [.., last, now] = samples else { return None };
    let Reservation { slice, period, limit, .. } = served.request.reservation;
    // The thread that is always runnable belongs to one member.
    let least = served.request.share().slice;
    if now.deadline.saturating_since(last.deadline) != period || samples.len() <= MEMORY {
        return None;
    }
    let before = samples.iter().rev().skip(MEMORY).find(|it| it.at.saturating_add(BACKLOG) <= now.at);
    let first = before.unwrap_or(&samples[0]);
    let excuse = (now.late - first.late) + now.ours.saturating_sub(first.ours) + GRAIN;
    // The members of a gang that are on time run in the next period until the late member begins it.
    let most = slice + last.credit + excuse.saturating_mul(served.request.cpus as u64);
    let (total, raised) = (now.total - last.total, now.raised - last.raised);
    *periods += 1;
    // A fork that began before the first sample may have ended since, with a child that is not adopted yet.
    let has_forked = now.births != first.births || samples.iter().any(|it| it.at >= first.at && it.is_forking);
    let what = if raised > most {
        format!("{raised} at real-time priority")
    } else if limit == Limit::Hard && !has_forked && total > most {
        format!("{total} in all, though its limit is hard")
    } else if is_hog && total + excuse + last.debt < least {
        format!("{total} in all, though it always wants to run")
    } else {
        return None;
    };
    Some(format!("{what}, in {}; excused by {excuse}", now.at.since(last.at)))
}

/// Returns whether other processes have requested the class of `is`, and its nice value. Separate requests may have set
/// them.
fn is_requested(requested: &[Attributes], is: Attributes) -> bool {
    let nice = is.nice().unwrap_or(0);
    let has_class = requested.iter().any(|it| it.with_nice(nice) == is);
    has_class && (is.nice().is_none() || requested.iter().any(|it| it.nice() == Some(nice)))
}

/// Returns whether the values of the thread are in doubt: the thread appeared after the end of the restoration, and its
/// process is, or descends from, a process that the restoration reported as possibly inside a fork.
fn is_in_doubt(world: &World, found: &Difference, doubt: &Doubt) -> bool {
    let mut line = successors(Some(found.pid), |&pid| world.parent_of(pid));
    world.is_seen_after(found.tid, doubt.seen) && line.any(|pid| doubt.processes.contains(&pid))
}

/// Returns whether the thread has the attributes of a newborn, and its original attributes are ambiguous. The kernel does
/// not report which thread of the parent process forked a child, so Tactus assumes that the first thread did. The first
/// thread may have other attributes than the thread that forked the child.
fn is_ambiguous_newborn(world: &World, found: &Difference) -> bool {
    let began = world.parent_of(found.pid);
    let first = began.and_then(|parent| world.untouched(parent));
    let leader = world.untouched(found.pid);
    // A child of a real-time thread looks like a hog that has set SCHED_OTHER itself.
    let would_be_real_time =
        matches!(found.untouched.attributes.policy, Policy::Fifo { .. } | Policy::RoundRobin { .. });
    let differs = |first: Setting| first.attributes != found.untouched.attributes;
    let is_newborn = found.is.attributes == Attributes::of(Policy::Other { nice: 0 });
    is_newborn && (would_be_real_time || [first, leader].into_iter().flatten().any(differs))
}
