//! Loans: threads inherit their priority from the daemon, so that Tactus never changes their scheduling attributes.
//!
//! A loan takes long to begin, because it needs a thread of its own. Its beginning therefore happens outside the
//! dispatcher: the caller takes the threads [without a loan](Dispatcher::without_loan), [begins](begin_loans) their
//! loans, and [hands](Dispatcher::give_loans) these to the dispatcher.

use super::dispatcher::Dispatcher;
use super::member::Raise;
use super::refusal::{Refusal, unreserved};
use super::role::Role;
use crate::Explanation;
use crate::kernel::{Kernel, priority};
use crate::table::Original;
use sched::{CpuSet, Nanos};
use sys::attributes::{Attributes, Policy};
use sys::thread::{Identity, State};

/// Time for which a loan is tried again that cannot begin yet. The execution of a program takes some milliseconds.
const PATIENCE: Nanos = Nanos::s(1);

/// A loan for a thread, or the reason why the thread has none.
#[derive(Debug)]
pub struct Offer<L> {
    thread: Identity,
    /// Role of the thread. A thread that was just started may have got its name after it was found.
    role: Option<Role>,
    /// Whether the thread was asleep before its loan began.
    sleeps: bool,
    loan: sys::Result<L>,
}

/// Begins loans to these threads.
pub fn begin_loans<K: Kernel>(kernel: &K, threads: &[Identity]) -> Vec<Offer<K::Loan>> {
    let begin = |&identity: &Identity| {
        let thread = kernel.open_as(identity);
        let status = thread.as_ref().ok().and_then(|thread| kernel.status(thread).ok());
        let sleeps = status.as_ref().is_some_and(|status| status.state == State::Sleeping);
        let role = status.map(|status| Role::of(&status.name));
        Offer { thread: identity, role, sleeps, loan: thread.and_then(|thread| kernel.begin_loan(&thread)) }
    };
    threads.iter().map(begin).collect()
}

/// Returns whether a thread with these attributes gains from a lent priority.
fn gains(attributes: Attributes) -> bool {
    match attributes.policy {
        Policy::Fifo { priority } | Policy::RoundRobin { priority } => priority < priority::AMONG_OTHERS,
        _ => true,
    }
}

impl<K: Kernel> Dispatcher<K> {
    /// Returns the threads that wait for a loan: new threads, and threads whose loan has ended.
    #[must_use]
    pub fn without_loan(&self) -> Vec<Identity> {
        let served = self.clients.iter().filter(|(_, client)| client.trouble.is_none());
        let members = served.flat_map(|(_, client)| client.members.iter());
        let waits = members.filter(|it| !it.has_ended && !it.is_released && it.lacks_loan(&self.kernel));
        waits.map(|member| member.identity).collect()
    }

    /// Ends all loans. The threads wait for new loans only if they are adopted again.
    pub fn end_loans(&mut self) {
        self.clients.iter_mut().for_each(|(_, client)| client.end_loans());
    }

    /// Gives these threads their loans, and sets their levels. A thread that cannot inherit a priority is raised by its
    /// attributes instead. Returns the CPUs whose agents must be woken, and the reasons for the threads without a loan.
    pub fn give_loans(&mut self, offers: Vec<Offer<K::Loan>>) -> (CpuSet, Vec<Explanation>) {
        let reasons = offers.into_iter().filter_map(|offer| self.give_loan(offer)).collect();
        (self.take_calls(), reasons)
    }

    fn give_loan(&mut self, offer: Offer<K::Loan>) -> Option<Explanation> {
        let Offer { thread: identity, role, sleeps, loan } = offer;
        let now = self.now();
        let mut clients = self.clients.iter_mut();
        let found = clients.find_map(|(_, client)| {
            let at = client.members.iter().position(|member| member.identity == identity)?;
            Some((client, at))
        });
        drop(clients);
        let (client, at) = found?;
        let at = client.unpark(at, &self.kernel, &self.table);
        let member = &mut client.members[at];
        // Another caller may have handed over a loan in the meantime.
        if member.is_released || member.has_ended || !member.lacks_loan(&self.kernel) {
            return None;
        }
        // The name of a vCPU's thread need not say so.
        if role == Some(Role::Vcpu) && member.role != Role::Vcpu {
            client.vcpus += 1;
            member.role = Role::Vcpu;
        }
        let mut reason = None;
        let is_busy = matches!(loan, Err(sys::Error::Busy { .. }));
        member.busy_since = is_busy.then(|| *member.busy_since.get_or_insert(now));
        let may_begin_later = member.busy_since.is_some_and(|since| now < since.saturating_add(PATIENCE));
        let attributes = self.kernel.attributes(&member.thread).map_err(Refusal::from);
        let attributes = attributes.and_then(|attributes| unreserved(identity.tid, attributes));
        member.raise = match (loan, attributes) {
            (Ok(loan), Ok(attributes)) if gains(attributes) => Raise::Inherit(loan),
            _ if may_begin_later => Raise::Pending,
            // The next read of the CPU time detects the end of the thread, too.
            (Err(sys::Error::Gone(_)), _) | (_, Err(Refusal::Gone(_))) => Raise::Ended,
            (_, Err(refused)) => {
                client.trouble = Some(refused.reason());
                self.call.insert(client.cpu);
                return None;
            }
            (loan, Ok(attributes)) => {
                let why = loan.err().map_or_else(
                    || format!("{attributes} is too high to inherit a priority"),
                    |refused| refused.reason(),
                );
                let what = format!("Tactus sets the attributes of threads of {}: {why}", client.name);
                client.exception.get_or_insert(why);
                reason = Some(Explanation::new(what, "see `tactus doctor` about priority inheritance"));
                let original = Original { attributes: Some(attributes), ..member.original };
                match member.record(&self.table, original, CpuSet::one(client.cpu)) {
                    Ok(earlier) => self.table.forget(earlier),
                    Err(full) => {
                        client.trouble = Some(Refusal::Full(full).reason());
                        self.call.insert(client.cpu);
                        return None;
                    }
                }
                Raise::Set
            }
        };
        client.set_level_of(at, &self.kernel, &self.table);
        if client.awaited {
            client.set_awaited_of(at, &self.kernel);
        }
        // A thread that sleeps is parked at once, so that many such threads never prolong a turn.
        if sleeps && !self.suspended && !client.is_in_kernel {
            client.park(at, &self.kernel);
        }
        self.call.insert(client.cpu);
        reason
    }
}
