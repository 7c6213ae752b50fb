//! Priority inheritance: a [`Donor`] lends its priority to a thread of any process, and changes none of the attributes
//! of that thread.
//!
//! A donor is a thread of this process that waits for a PI futex. The word of the futex names the recipient as the
//! owner, so the kernel schedules the recipient at the priority of the donor if this priority is higher than the
//! recipient's own (futex(2), section "Priority-inheritance futexes"). The recipient does not cooperate. A change of
//! the donor's priority takes effect at once. Children of the recipient do not inherit the lent priority.
//!
//! If this process is killed or stopped, the kernel wakes the donor, and the donor ends the loan as soon as it runs. On
//! a CPU on which a recipient runs, the donor waits, because the recipient has the same priority. Another process must
//! therefore lower the donors of a process that ends: a donor in SCHED_OTHER lends nothing. Do not confine donors.
//!
//! [`Donor::lend_to`] enqueues the sleeping donor as a waiter (FUTEX_CMP_REQUEUE_PI). A donor that called
//! FUTEX_LOCK_PI itself would need CPU time to begin its wait, and would spin while the recipient runs on another CPU
//! (`rtmutex_spin_on_owner`, kernel/locking/rtmutex.c). A donor that waits in this way never spins.
//!
//! Neither futex is private to this process: Linux 6.18 answers EPERM if the owner of a private PI futex is a thread of
//! another process.

use crate::attributes::{self, Attributes, Policy};
use crate::event::Bell;
use crate::thread::State;
use crate::{Error, Result, clock, thread};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use sched::Nanos;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::thread::Builder;

/// The flags of futexes that are not private to a process.
const SHARED: Flags = Flags::empty();
/// The signal that ends the wait of a donor. By default, a process ignores this signal.
const END_WAIT: libc::c_int = libc::SIGURG;
/// Stack size of a donor. The C library requires 16 KiB plus the thread-local storage.
const STACK: usize = 64 * 1024;
/// Interval between checks whether a donor has begun its wait, and their maximum number.
const AGAIN: Nanos = Nanos::us(20);
const ATTEMPTS: u32 = 5_000;

const REMEDY: &str = "use a kernel with PI futexes; without them, raise the thread itself";

/// State that a donor shares with its thread.
#[derive(Debug)]
struct Loan {
    /// The PI futex. Its word is zero, or the tid of its owner. The kernel adds FUTEX_WAITERS.
    owner: AtomicU32,
    /// The futex at which a donor without a recipient waits. A change of its word ends a wait that has just begun.
    parked: AtomicU32,
    /// Whether the donor has a recipient.
    is_lent: AtomicBool,
    /// Whether the donor must end.
    is_over: AtomicBool,
    /// Whether the loan has ended: the recipient has ended or has executed a program, or this process was stopped.
    has_ended: AtomicBool,
    /// Number of the error with which the kernel refused the wait of the donor; 0: none.
    refused: AtomicI32,
    /// Rings when the loan ends.
    ended: Arc<Bell>,
}

impl Loan {
    /// Waits until the loan ends or the donor must end. If the loan has ended, waits until the donor must end.
    fn wait(&self) {
        loop {
            let seen = self.parked.load(Ordering::SeqCst);
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            match futex::wait_requeue_pi(&self.parked, SHARED, seen, None, &self.owner) {
                _ if self.is_over.load(Ordering::SeqCst) => return,
                Err(Errno::AGAIN | Errno::INTR) if !self.is_lent.load(Ordering::SeqCst) => {}
                Err(errno) if !self.is_lent.load(Ordering::SeqCst) => {
                    self.refused.store(errno.raw_os_error(), Ordering::SeqCst);
                    break;
                }
                // The kernel has made this thread the owner, or a stop of the process has ended the wait.
                Ok(()) | Err(_) => break,
            }
        }
        self.has_ended.store(true, Ordering::SeqCst);
        self.ended.ring();
        // The donor must not end before its handle is dropped: otherwise, the handle could change a later thread with
        // the same tid.
        while !self.is_over.load(Ordering::SeqCst) {
            let seen = self.parked.load(Ordering::SeqCst);
            if !self.is_over.load(Ordering::SeqCst) {
                let _ = futex::wait(&self.parked, SHARED, seen, None);
            }
        }
    }
}

/// A thread of this process that lends its priority to one other thread. Dropping this value ends the loan.
#[derive(Debug)]
pub struct Donor {
    loan: Arc<Loan>,
    tid: u32,
}

impl Donor {
    /// Starts a donor without a recipient. The donor rings `ended` when the loan ends, which happens when the recipient
    /// ends or executes a program, and when this process is stopped and continued. A recipient that still exists then
    /// needs a new donor.
    ///
    /// The donor starts with the scheduling attributes and the CPUs of the calling thread, and needs CPU time there.
    ///
    /// # Errors
    /// There are too many threads.
    pub fn start(ended: Arc<Bell>) -> Result<Donor> {
        allow_interruption();
        let loan = Arc::new(Loan {
            owner: AtomicU32::new(0),
            parked: AtomicU32::new(0),
            is_lent: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            refused: AtomicI32::new(0),
            ended,
        });
        let (sender, receiver) = mpsc::sync_channel(1);
        let of_donor = Arc::clone(&loan);
        let body = move || {
            block_other_signals();
            // The starting thread waits for this message.
            let _ = sender.send(thread::current());
            of_donor.wait();
        };
        let started = Builder::new().name("tactus-donor".to_string()).stack_size(STACK).spawn(body);
        started.map_err(|source| {
            let what = "start a thread that lends its priority".to_string();
            Error::NotPermitted { what, source, remedy: "raise the limit of threads (ulimit -u, pids.max)" }
        })?;
        let tid = receiver.recv().expect("a donor sends its tid before anything else");
        let donor = Donor { loan, tid };
        // Lower the donor only once it waits: at nice 19, it could begin its wait late.
        for _ in 0..ATTEMPTS {
            if thread::status(tid)?.state == State::Sleeping {
                break;
            }
            clock::sleep(AGAIN);
        }
        donor.set(None)?;
        Ok(donor)
    }

    /// Returns the tid of the donor.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Makes thread `tid` the recipient. The donor lends no priority until [`set`](Donor::set). The loan may already
    /// [have ended](Donor::has_ended) when the call returns.
    ///
    /// A tid may be reused before this call: check the identity of the thread after this call, before a priority is
    /// lent.
    ///
    /// # Errors
    /// The thread has ended, is ending or executes a program just now (`Gone` or busy), is a kernel thread, or the
    /// kernel lacks PI futexes.
    ///
    /// # Panics
    /// The donor already has a recipient.
    pub fn lend_to(&self, tid: u32) -> Result<()> {
        let loan = &self.loan;
        assert!(!loan.is_lent.swap(true, Ordering::SeqCst), "a donor has one recipient");
        loan.owner.store(tid, Ordering::SeqCst);
        let what = || format!("lend a priority to thread {tid}");
        for _ in 0..ATTEMPTS {
            match futex::cmp_requeue_pi(&loan.parked, SHARED, 1, &loan.owner, 0) {
                Ok(_) if loan.owner.load(Ordering::SeqCst) & futex::WAITERS != 0 => return Ok(()),
                _ if loan.refused.load(Ordering::SeqCst) != 0 => {
                    let errno = Errno::from_raw_os_error(loan.refused.load(Ordering::SeqCst));
                    return Err(Error::from(errno, what(), REMEDY));
                }
                // The recipient has executed a program immediately after the loan began.
                _ if self.has_ended() => return Ok(()),
                // The donor has not begun its wait.
                Ok(_) => clock::sleep(AGAIN),
                Err(Errno::AGAIN) => return Err(Error::Busy { what: what() }),
                Err(errno) => return Err(Error::of(errno, tid, what(), REMEDY)),
            }
        }
        Err(Error::Busy { what: what() })
    }

    /// Lends the recipient real-time priority `priority`. `None`: lends nothing.
    ///
    /// # Errors
    /// This process lacks the privilege for this priority.
    pub fn set(&self, priority: Option<u32>) -> Result<()> {
        // At nice 19, the donor lends a priority that no thread gains from.
        let policy = priority.map_or(Policy::Other { nice: 19 }, |priority| Policy::Fifo { priority });
        attributes::apply(self.tid, Attributes::of(policy))
    }

    /// Returns whether the loan has ended: the recipient has ended or has executed a program, or this process was
    /// stopped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.loan.has_ended.load(Ordering::SeqCst)
    }
}

impl Drop for Donor {
    fn drop(&mut self) {
        // End the loan before the donor ends, because the donor may wait for CPU time. At nice 0, the donor ends soon on a
        // busy CPU, too; a process without CAP_SYS_NICE cannot lower the nice value. The donor cannot end before
        // `is_over`, so the tid is still its own.
        if attributes::apply(self.tid, Attributes::of(Policy::Other { nice: 0 })).is_err() {
            let _ = self.set(None);
        }
        let loan = &self.loan;
        loan.is_over.store(true, Ordering::SeqCst);
        loan.owner.store(0, Ordering::SeqCst);
        // A wait that the kernel restarts after the signal ends, because the word has changed.
        loan.parked.fetch_add(1, Ordering::SeqCst);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: the call takes numbers only. The thread group and the tid select a thread of this process or no
        // thread at all.
        unsafe { libc::syscall(libc::SYS_tgkill, pid, self.tid, END_WAIT) };
    }
}

/// Installs a handler for [`END_WAIT`], because an ignored signal does not end a wait.
fn allow_interruption() {
    extern "C" fn nothing(_: libc::c_int) {}
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler makes no call and reads nothing. An all-zero `sigaction` is valid, and both pointers are
        // valid for the call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(END_WAIT, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Blocks all signals but [`END_WAIT`] in the calling thread, so that other threads receive the signals of the process.
fn block_other_signals() {
    // SAFETY: `sigfillset` initializes the set, and the pointers are valid for the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigdelset(&raw mut set, END_WAIT);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Work};

    fn donor(bell: &Arc<Bell>) -> Option<Donor> {
        let donor = Donor::start(Arc::clone(bell)).unwrap();
        match donor.set(Some(1)) {
            Ok(()) => {}
            Err(refused @ Error::NotPermitted { .. }) => {
                eprintln!("SKIPPED: {refused}");
                return None;
            }
            Err(other) => panic!("{other}"),
        }
        donor.set(None).unwrap();
        Some(donor)
    }

    fn child() -> Child {
        Child::start(Work::Spin { busy: Nanos::us(100), idle: Nanos::us(900) }).unwrap()
    }

    fn priority(child: &Child) -> i32 {
        thread::status(child.pid()).unwrap().priority
    }

    fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
        let end = clock::now() + Nanos::s(5);
        while !holds() {
            if clock::now() >= end {
                return false;
            }
            clock::sleep(Nanos::us(200));
        }
        true
    }

    fn threads() -> usize {
        thread::threads(std::process::id()).unwrap().len()
    }

    #[test]
    fn a_thread_of_another_process_inherits_and_keeps_its_own_attributes() {
        let bell = Arc::new(Bell::new().unwrap());
        let Some(donor) = donor(&bell) else { return };
        let child = child();
        attributes::set(child.pid(), Attributes::of(Policy::Other { nice: 5 })).unwrap();
        let own = priority(&child);
        donor.lend_to(child.pid()).unwrap();
        assert_eq!(priority(&child), own, "nothing is lent yet");
        for _ in 0..3 {
            donor.set(Some(7)).unwrap();
            assert_eq!(priority(&child), -8);
            assert_eq!(attributes::get(child.pid()).unwrap(), Attributes::of(Policy::Other { nice: 5 }));
            donor.set(None).unwrap();
            assert_eq!(priority(&child), own);
        }
        donor.set(Some(7)).unwrap();
        attributes::set(child.pid(), Attributes::of(Policy::Batch { nice: 9 })).unwrap();
        assert_eq!(priority(&child), -8, "the loan outlasts a change by others");
        drop(donor);
        assert!(wait_until(|| priority(&child) == 29), "the change of the others is in force");
        assert_eq!(attributes::get(child.pid()).unwrap(), Attributes::of(Policy::Batch { nice: 9 }));
        assert_eq!(bell.rings(), 0);
    }

    #[test]
    fn the_end_of_a_recipient_is_reported_and_its_donor_ends() {
        let bell = Arc::new(Bell::new().unwrap());
        let Some(donor) = donor(&bell) else { return };
        let child = child();
        donor.lend_to(child.pid()).unwrap();
        donor.set(Some(1)).unwrap();
        assert!(!donor.has_ended());
        let pid = child.pid();
        drop(child);
        assert!(wait_until(|| donor.has_ended() && bell.rings() == 1));
        let next = Donor::start(Arc::clone(&bell)).unwrap();
        assert!(matches!(next.lend_to(pid), Err(Error::Gone(gone)) if gone == pid));
        // Thread 2 is kthreadd if the tests run in the initial PID namespace.
        if thread::status(2).is_ok_and(|second| second.name == "kthreadd") {
            assert!(matches!(Donor::start(bell).unwrap().lend_to(2), Err(Error::NotPermitted { .. })));
        }
    }

    #[test]
    fn donors_leave_nothing_behind() {
        // Other tests of this process start and end threads, too.
        let mine = || {
            let name = |tid: &u32| thread::status(*tid).is_ok_and(|status| status.name == "tactus-donor");
            thread::threads(std::process::id()).unwrap().iter().filter(|tid| name(tid)).count()
        };
        let bell = Arc::new(Bell::new().unwrap());
        if donor(&bell).is_none() {
            return;
        }
        let child = child();
        for _ in 0..50 {
            let parked = Donor::start(Arc::clone(&bell)).unwrap();
            let lending = Donor::start(Arc::clone(&bell)).unwrap();
            lending.lend_to(child.pid()).unwrap();
            lending.set(Some(1)).unwrap();
            drop((parked, lending));
        }
        assert!(wait_until(|| mine() < 20), "{} of {} threads", mine(), threads());
        assert!(wait_until(|| priority(&child) == 20));
    }

    #[test]
    fn several_donors_lend_the_highest_of_their_priorities() {
        let bell = Arc::new(Bell::new().unwrap());
        let Some(low) = donor(&bell) else { return };
        let (high, child) = (Donor::start(bell).unwrap(), child());
        for (donor, priority) in [(&low, 3), (&high, 5)] {
            donor.lend_to(child.pid()).unwrap();
            donor.set(Some(priority)).unwrap();
        }
        assert_eq!(priority(&child), -6);
        high.set(None).unwrap();
        assert_eq!(priority(&child), -4);
    }
}
