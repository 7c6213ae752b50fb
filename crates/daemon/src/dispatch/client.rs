//! A client: a process with a promise, with all its threads and descendants.

use super::enclosure::Enclosure;
use super::journal::Ledger;
use super::kept::KeptRecord;
use super::member::{Level, Member, Raise, RaiseBy};
use super::ordered::Ordered;
use super::recent::Recent;
use super::refusal::Refusal;
use super::scan::Found;
use crate::Explanation;
use crate::affinity::give_back;
use crate::kernel::{Kernel, priority};
use crate::table::{Original, Row, Table};
use sched::{CpuId, CpuSet, GroupId, Instant, Limit, Nanos, Reservation};
use std::ops::Range;
use sys::attributes::Attributes;
use sys::thread::Identity;
use sys::usage::Usage;

/// A client and its state.
pub(super) struct Client<K: Kernel> {
    pub(super) name: String,
    /// How the threads of the client are raised.
    pub(super) by: RaiseBy,
    /// Number of the client's process tree. The clients of a promise on several CPUs share one tree.
    pub(super) tree: usize,
    /// Group of the client's entity in the machine, if the clients of the promise are a gang.
    pub(super) gang: Option<GroupId>,
    pub(super) cpu: CpuId,
    /// CPUs that the promise permits.
    pub(super) affinity: CpuSet,
    /// CPUs that threads of the client were confined to so far, each thread to one CPU at a time. A child that was
    /// forked before a move may have inherited an earlier confinement.
    pub(super) confined: CpuSet,
    /// Whether a thread may run on other CPUs than the CPU of the client, because another process has moved the thread.
    pub(super) has_moved_threads: bool,
    /// Reservation of the client on this CPU.
    pub(super) reservation: Reservation,
    /// The threads: first the active threads, then the [parked](super::parking) threads.
    pub(super) members: Vec<Member<K>>,
    /// Threads that have ended, until [`Dispatcher::take_former`](super::Dispatcher::take_former).
    pub(super) ended: Vec<Member<K>>,
    /// Number of active threads.
    pub(super) active: usize,
    /// Number of threads that run vCPUs.
    pub(super) vcpus: usize,
    /// CPU time of parked threads in the present slice before they became active, which is not charged yet.
    pub(super) owed: Nanos,
    /// Whether the client is reported to the machine as blocked.
    pub(super) is_blocked: bool,
    /// Whether the kernel dispatches the client.
    pub(super) is_in_kernel: bool,
    /// What was ordered from the scheduler in the kernel.
    pub(super) ordered: Option<Ordered>,
    pub(super) level: Level,
    /// The groups through which the client freezes; none without a hard limit.
    pub(super) enclosure: Enclosure<K>,
    /// Whether Tactus has frozen the processes of the client.
    pub(super) is_frozen: bool,
    /// Whether a wake-up of the client is awaited.
    pub(super) awaited: bool,
    /// Whether this host reports wake-ups of the client. If not, the agent polls for wake-ups.
    pub(super) reports_wakeups: bool,
    /// Whether this host reports forks of the client's threads. If not, the keeper scans for forks once per period.
    pub(super) reports_forks: bool,
    /// Number of consecutive slices that the client has used up without blocking.
    pub(super) slices_used_up: u32,
    /// Number of sleeps of the client since it last used up a slice.
    pub(super) sleeps: u32,
    /// Number of further slices with a gap for which the client counts as asleep without a check.
    pub(super) unchecked: u32,
    /// Number of times that the thread with the timer had blocked at the last check.
    pub(super) blocked: u64,
    /// Whether every sleep of the client must be reported to the machine.
    pub(super) records_sleeps: bool,
    /// Whether the client has slept in this period without a report to the machine.
    pub(super) has_unreported_sleep: bool,
    /// Thread with a [timer](super::cpu_timer) for the end of the slice, and the instant when this slice began.
    pub(super) timed: Option<(Identity, Instant)>,
    /// Whether this host has timers of CPU time for the client.
    pub(super) has_cpu_timer: bool,
    /// Whether threads that serve the client's vCPUs run above the vCPUs.
    pub(super) helpers_run_first: bool,
    /// Whether the client was dispatched since its agent last set levels.
    pub(super) is_dispatched: bool,
    /// Pids of descendants of the client's threads that the host has reported and that are not adopted yet.
    pub(super) reported: Vec<u32>,
    /// Original attributes and affinity of the thread that was added to the client first.
    pub(super) root: Option<Original>,
    pub(super) ledger: Option<Ledger>,
    /// Whether the promise is kept.
    pub(super) kept: KeptRecord,
    /// Reason why a thread of the client could not inherit a priority.
    pub(super) exception: Option<String>,
    /// Reason why the client can no longer be served.
    pub(super) trouble: Option<Explanation>,
}

/// CPU time and changes since the last read.
pub(super) struct Since {
    pub(super) ran: Nanos,
    /// Time for which runnable threads have waited for a CPU.
    pub(super) waited: Nanos,
    /// Whether a thread has been dispatched.
    pub(super) dispatched: bool,
    /// Number of times that a thread was switched in.
    pub(super) dispatches: u64,
    /// Whether a thread has ended. The CPU time that an ended thread used after its last read is unknown.
    pub(super) ended: bool,
}

impl<K: Kernel> Client<K> {
    pub(super) fn new(name: String, tree: usize, cpu: CpuId, affinity: CpuSet, reservation: Reservation) -> Client<K> {
        Client {
            name,
            by: RaiseBy::Inheritance,
            tree,
            gang: None,
            cpu,
            affinity,
            confined: CpuSet::one(cpu),
            has_moved_threads: false,
            reservation,
            members: Vec::new(),
            ended: Vec::new(),
            active: 0,
            vcpus: 0,
            owed: Nanos::ZERO,
            is_blocked: true,
            is_in_kernel: false,
            ordered: None,
            level: Level::Original,
            enclosure: Enclosure::none(),
            is_frozen: false,
            awaited: false,
            reports_wakeups: true,
            reports_forks: true,
            slices_used_up: 0,
            sleeps: 0,
            unchecked: 0,
            blocked: 0,
            records_sleeps: false,
            has_unreported_sleep: false,
            timed: None,
            has_cpu_timer: true,
            helpers_run_first: false,
            is_dispatched: false,
            reported: Vec::new(),
            root: None,
            ledger: None,
            kept: KeptRecord::new(reservation.period),
            exception: None,
            trouble: None,
        }
    }

    pub(super) fn is_hard(&self) -> bool {
        self.reservation.limit == Limit::Hard
    }

    /// Adds a thread. The earlier CPU time of the thread is not charged. The next read reports a dispatch if the thread
    /// has ever run.
    pub(super) fn add(
        &mut self,
        new: Found<K::Thread>,
        original: Original,
        row: Row,
        raise: Raise<K::Loan>,
        had: Option<Usage>,
    ) {
        let Found { thread, identity, leader, role, .. } = new;
        self.root.get_or_insert(original);
        let (ran, waited) = had.map_or((Nanos::ZERO, Nanos::ZERO), |had| (had.ran, had.waited));
        self.push(Member {
            thread,
            identity,
            leader,
            original,
            row,
            raise,
            busy_since: None,
            role,
            recent: Recent::default(),
            ran,
            waited,
            dispatches: 0,
            has_ended: false,
            is_awaited: false,
            has_awaited_births: false,
            is_released: false,
        });
    }

    /// Returns the CPU time that the active threads have used since the last read. Removes ended threads from the
    /// client and the table.
    pub(super) fn read(&mut self, kernel: &K, table: &Table) -> Since {
        let mut since = Since { ran: Nanos::ZERO, waited: Nanos::ZERO, dispatched: false, dispatches: 0, ended: false };
        for member in &mut self.members[..self.active] {
            match kernel.usage(&member.thread) {
                // The CPU time of a released thread is not part of the promise.
                Ok(_) if member.is_released => {}
                Ok(usage) => {
                    let ran = usage.ran.saturating_sub(member.ran);
                    since.ran += ran;
                    since.waited += usage.waited.saturating_sub(member.waited);
                    member.recent.add(ran);
                    (member.ran, member.waited) = (usage.ran, usage.waited);
                    if member.can_be_raised(kernel) {
                        since.dispatched |= usage.dispatches != member.dispatches;
                        since.dispatches += usage.dispatches.saturating_sub(member.dispatches);
                        member.dispatches = usage.dispatches;
                        continue;
                    }
                    if matches!(member.raise, Raise::Ended) && usage.dispatches != member.dispatches {
                        // Another thread of the process has executed a program, and has taken over this thread's tid.
                        member.raise = Raise::Pending;
                    }
                    if std::mem::take(&mut member.is_awaited) {
                        // The loan has ended. The thread now runs at its original level, and is no reason to dispatch
                        // the client until the next loan. If each switch to the thread woke the agent, the thread would
                        // hardly proceed.
                        let _ = kernel.await_entry(&mut member.thread, self.cpu, false);
                    }
                }
                Err(sys::Error::Gone(_)) => {
                    since.ended |= !member.has_ended;
                    member.has_ended = true;
                }
                // The thread exists and stays in the table. Without its CPU time, no promise can be kept.
                Err(refused) => {
                    self.trouble.get_or_insert_with(|| refused.into());
                }
            }
        }
        if since.ended {
            self.forget_ended(kernel, table);
        }
        since
    }

    /// Removes ended threads.
    #[cold]
    fn forget_ended(&mut self, kernel: &K, table: &Table) {
        let mut at = 0;
        while at < self.active {
            let Member { has_ended, row, .. } = self.members[at];
            if has_ended {
                table.forget(row);
                let mut ended = self.take(at);
                // Only these reports name the remaining children of an ended thread.
                self.reported.extend(kernel.last_births(&mut ended.thread));
                self.ended.push(ended);
            } else {
                at += 1;
            }
        }
    }

    /// Sets the level of the client's active threads. The next read detects threads that have ended.
    pub(super) fn set_level(&mut self, level: Level, kernel: &K, table: &Table) {
        if self.level == Level::Original {
            self.order();
        }
        self.level = level;
        self.set_levels(0..self.active, kernel, table);
    }

    /// Makes the attributes that other processes have set for these threads their originals. Concerns threads that Tactus
    /// raises by their attributes, because these are the only threads whose originals Tactus sets.
    pub(super) fn follow_attributes(&mut self, range: Range<usize>, kernel: &K, table: &Table) {
        for at in range {
            let member = &self.members[at];
            if !member.is_served() || !matches!(member.raise, Raise::Set) {
                continue;
            }
            // The next read detects a thread that has ended.
            let Some(now) = member.originals_now(kernel) else { continue };
            if member.original.attributes != Some(now) {
                self.set_original(at, Original { attributes: Some(now), ..member.original }, table);
            }
        }
    }

    /// Replaces the originals of thread `at`, because another process has changed the thread.
    pub(super) fn set_original(&mut self, at: usize, original: Original, table: &Table) {
        let (member, confined) = (&mut self.members[at], CpuSet::one(self.cpu));
        if self.root == Some(member.original) {
            self.root = Some(original);
        }
        match member.record(table, original, confined) {
            Ok(earlier) => table.forget(earlier),
            Err(full) => self.trouble = Some(Refusal::Full(full).reason()),
        }
    }

    /// Sets the level of the last added thread to the level of the client.
    pub(super) fn set_level_of_last(&mut self, kernel: &K, table: &Table) {
        self.set_level_of(self.active.saturating_sub(1), kernel, table);
    }

    /// Sets the level of the active thread `at` to the level of the client.
    pub(super) fn set_level_of(&mut self, at: usize, kernel: &K, table: &Table) {
        self.set_levels(at..self.active.min(at + 1), kernel, table);
    }

    /// Ends the loans to the client's threads.
    pub(super) fn end_loans(&mut self) {
        for member in self.members.iter_mut().filter(|member| matches!(member.raise, Raise::Inherit(_))) {
            member.raise = Raise::Ended;
        }
    }

    fn set_levels(&mut self, range: Range<usize>, kernel: &K, table: &Table) {
        self.follow_attributes(range.clone(), kernel, table);
        for at in range {
            let member = &self.members[at];
            if member.is_released {
                continue;
            }
            match member.set_level(self.level_of(member, self.level), kernel) {
                Ok(()) | Err(sys::Error::Gone(_)) => {}
                Err(refused) if self.level == Level::Original => self.trouble = Some(refused.into()),
                Err(refused) => {
                    self.trouble = Some(refused.into());
                    self.level = Level::Original;
                    return self.set_levels(0..self.active, kernel, table);
                }
            }
        }
    }

    /// Freezes or thaws the client's processes.
    pub(super) fn set_frozen(&mut self, is_frozen: bool, kernel: &K, table: &Table) {
        self.is_frozen = is_frozen;
        if let Err(refused) = self.enclosure.set_frozen(is_frozen, kernel, table) {
            self.trouble = Some(refused.into());
        }
    }

    /// Releases the threads that Tactus raises by their attributes and that have other attributes now. Does nothing
    /// unless the client is raised. If the call releases the last thread, returns the reason why the client can no
    /// longer be served.
    pub(super) fn release_changed_threads(&mut self, kernel: &K) -> Option<Explanation> {
        let Level::Raised(_) = self.level else { return None };
        let raised = priority::ALL_RAISED.map(Attributes::raised);
        let mut reason = None;
        for at in 0..self.members.len() {
            // Changes of the attributes of a thread with a loan stay in force, and do not affect the loan.
            let member = &self.members[at];
            if !member.is_served() || !matches!(member.raise, Raise::Set) {
                continue;
            }
            let found = kernel.attributes(&member.thread).ok().filter(|found| !raised.contains(found));
            let Some(found) = found else { continue };
            let (confined, original, tid) = (CpuSet::one(self.cpu), member.original, member.identity.tid);
            self.release(at, kernel);
            // The call fails if the thread has ended, or if its original CPUs are offline.
            let _ = give_back(kernel, &self.members[at].thread, &original, &confined);
            let why = format!("another process has made thread {tid} {found}, so no promise can be kept to it");
            reason = Some(Explanation::new(why, "let Tactus alone schedule it"));
        }
        reason.filter(|_| !self.has_threads())
    }

    /// Ends the service of thread `at`: stops awaiting its wake-ups, and lowers the thread. The caller restores its
    /// affinity.
    pub(super) fn release(&mut self, at: usize, kernel: &K) {
        let (raised, cpu) = (priority::ALL_RAISED.map(Attributes::raised), self.cpu);
        let member = &mut self.members[at];
        member.is_released = true;
        let _ = kernel.await_entry(&mut member.thread, cpu, false);
        // The end of a loan lowers the thread.
        if let (Raise::Set, Some(original)) =
            (std::mem::replace(&mut member.raise, Raise::Set), member.original.attributes)
            && kernel.attributes(&member.thread).is_ok_and(|found| raised.contains(&found))
        {
            let _ = kernel.schedule(&member.thread, original);
        }
    }

    /// Returns whether the client has a thread that is served.
    pub(super) fn has_threads(&self) -> bool {
        self.members.iter().any(Member::is_served)
    }

    /// Records whether an active thread of the client may run on other CPUs than the client's CPU.
    pub(super) fn note_moved_threads(&mut self, kernel: &K) {
        let confined = CpuSet::one(self.cpu);
        let is_moved = |member: &Member<K>| kernel.affinity(&member.thread).is_ok_and(|found| found != confined);
        self.has_moved_threads |= self.active().iter().any(|member| member.is_served() && is_moved(member));
    }

    /// Starts or stops the detection of wake-ups of the active threads. Those of parked threads are always detected.
    pub(super) fn set_awaited(&mut self, awaited: bool, kernel: &K) {
        self.awaited = awaited;
        self.set_awaited_in(0..self.active, kernel);
    }

    /// Starts or stops the detection of wake-ups of the last added thread.
    pub(super) fn set_awaited_of_last(&mut self, kernel: &K) {
        self.set_awaited_of(self.active.saturating_sub(1), kernel);
    }

    /// Starts or stops the detection of wake-ups of the active thread `at`.
    pub(super) fn set_awaited_of(&mut self, at: usize, kernel: &K) {
        self.set_awaited_in(at..self.active.min(at + 1), kernel);
    }

    /// Starts or stops the detection of wake-ups, except of threads that cannot be raised. Their wake-ups are not
    /// reported to the machine.
    fn set_awaited_in(&mut self, range: Range<usize>, kernel: &K) {
        for member in self.members[range].iter_mut().filter(|member| !member.is_released) {
            if self.awaited && !member.can_be_raised(kernel) {
                continue;
            }
            member.is_awaited = self.awaited;
            if let Err(refused) = kernel.await_entry(&mut member.thread, self.cpu, self.awaited) {
                self.reports_wakeups &= matches!(refused, sys::Error::Gone(_));
            }
        }
    }
}

impl<K: Kernel> Client<K> {
    /// Removes reported children that are adopted.
    pub(super) fn forget_adopted(&mut self) {
        self.reported.sort_unstable();
        self.reported.dedup();
        let members = &self.members;
        self.reported.retain(|&pid| !members.iter().any(|member| member.leader.tid == pid));
    }

    /// Collects the forks of the client's threads that are reported so far. Makes no system call.
    pub(super) fn collect_births(&mut self, kernel: &K) {
        for member in self.members.iter_mut().filter(|member| !member.is_released) {
            self.reported.extend(kernel.last_births(&mut member.thread));
        }
    }

    /// Starts waking the keeper for forks of the client's threads, and collects the forks reported so far.
    pub(super) fn await_births(&mut self, kernel: &K) {
        self.await_births_of(kernel, |_| true);
    }

    /// Starts waking the keeper for forks of up to `most` further threads. Returns the number of these threads.
    pub(super) fn await_further_births(&mut self, kernel: &K, most: usize) -> usize {
        let mut count = 0;
        self.await_births_of(kernel, |member| {
            let is_next = !member.has_awaited_births && count < most;
            count += usize::from(is_next);
            is_next
        });
        count
    }

    fn await_births_of(&mut self, kernel: &K, mut wanted: impl FnMut(&Member<K>) -> bool) {
        for member in self.members.iter_mut().filter(|member| !member.is_released && wanted(member)) {
            member.has_awaited_births = true;
            match kernel.await_births(&mut member.thread, self.cpu) {
                Ok(reported) => self.reported.extend(reported),
                Err(refused) => self.reports_forks &= matches!(refused, sys::Error::Gone(_)),
            }
        }
    }
}
