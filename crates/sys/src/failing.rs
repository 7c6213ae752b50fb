//! [`Call::fail`]: system calls that fail on request, for fault injection. A seccomp filter answers in place of the kernel.

use crate::{Error, Result};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io;

/// A system call that can fail on request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Name of the call, or of one operation of `futex`.
    pub name: &'static str,
    number: libc::c_long,
    /// Value of the second argument, of the calls that fail. `None`: all calls fail.
    operation: Option<libc::c_int>,
}

const fn call(name: &'static str, number: libc::c_long) -> Call {
    Call { name, number, operation: None }
}

const fn futex(name: &'static str, operation: libc::c_int) -> Call {
    Call { name, number: libc::SYS_futex, operation: Some(operation) }
}

impl Call {
    /// The calls of the daemon whose failure it must survive. Of `futex`, only the operations of loans of a priority are
    /// included: the locks of the standard library cannot report an error. `rustix` cannot report an error of `prlimit64`.
    pub const ALL: [Call; 41] = [
        call("clock_nanosleep", libc::SYS_clock_nanosleep),
        call("clone3", libc::SYS_clone3),
        call("epoll_create1", libc::SYS_epoll_create1),
        call("epoll_ctl", libc::SYS_epoll_ctl),
        call("epoll_pwait2", libc::SYS_epoll_pwait2),
        call("eventfd2", libc::SYS_eventfd2),
        call("execve", libc::SYS_execve),
        call("fallocate", libc::SYS_fallocate),
        call("fcntl", libc::SYS_fcntl),
        call("flock", libc::SYS_flock),
        futex("futex_cmp_requeue_pi", libc::FUTEX_CMP_REQUEUE_PI),
        futex("futex_wait_requeue_pi", libc::FUTEX_WAIT_REQUEUE_PI),
        call("getdents64", libc::SYS_getdents64),
        call("getpriority", libc::SYS_getpriority),
        call("ioctl", libc::SYS_ioctl),
        call("kill", libc::SYS_kill),
        call("mkdirat", libc::SYS_mkdirat),
        call("mlockall", libc::SYS_mlockall),
        call("mmap", libc::SYS_mmap),
        call("openat", libc::SYS_openat),
        call("perf_event_open", libc::SYS_perf_event_open),
        call("pidfd_open", libc::SYS_pidfd_open),
        call("pidfd_send_signal", libc::SYS_pidfd_send_signal),
        call("ppoll", libc::SYS_ppoll),
        call("prctl", libc::SYS_prctl),
        call("pread64", libc::SYS_pread64),
        call("pwrite64", libc::SYS_pwrite64),
        call("read", libc::SYS_read),
        call("readlinkat", libc::SYS_readlinkat),
        call("recvfrom", libc::SYS_recvfrom),
        call("sched_getaffinity", libc::SYS_sched_getaffinity),
        call("sched_getattr", libc::SYS_sched_getattr),
        call("sched_setaffinity", libc::SYS_sched_setaffinity),
        call("sched_setattr", libc::SYS_sched_setattr),
        call("sendto", libc::SYS_sendto),
        call("statx", libc::SYS_statx),
        call("tgkill", libc::SYS_tgkill),
        call("timerfd_create", libc::SYS_timerfd_create),
        call("timerfd_settime", libc::SYS_timerfd_settime),
        call("unlinkat", libc::SYS_unlinkat),
        call("write", libc::SYS_write),
    ];

    /// Returns the call with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Call> {
        Call::ALL.into_iter().find(|call| call.name == name)
    }

    /// Lets this call fail with `error` in all threads of this process and in their children, until their end. Programs
    /// that they execute can gain no privileges (`no_new_privs`).
    ///
    /// # Errors
    /// The kernel has no seccomp filters, or a thread of this process has another filter.
    pub fn fail(self, error: Errno) -> Result<()> {
        let done = self.filter(error).and_then(|filter| seccompiler::apply_filter_all_threads(&filter));
        done.map_err(|why| Error::from(io::Error::other(why), format!("let {} fail", self.name), ""))
    }

    /// Returns whether the failed call has made the standard library panic, according to the output of the program. A new thread
    /// panics if it has no memory for its signal stack, and the program then ends. Source: `make_handler`,
    /// std/src/sys/pal/unix/stack_overflow.rs.
    #[must_use]
    pub fn panics_in_std(self, output: &str) -> bool {
        self.name == "mmap" && output.contains("failed to allocate an alternative stack")
    }

    fn filter(self, error: Errno) -> seccompiler::Result<BpfProgram> {
        // Without rules, the action applies to every call.
        let rules = match self.operation {
            None => Vec::new(),
            Some(operation) => {
                let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
                let mask = SeccompCmpOp::MaskedEq(u64::from(!flags.cast_unsigned()));
                let operation = u64::from(operation.cast_unsigned());
                let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, mask, operation)?;
                vec![SeccompRule::new(vec![condition])?]
            }
        };
        let rules = BTreeMap::from([(self.number, rules)]);
        let failure = SeccompAction::Errno(error.number.cast_unsigned());
        let machine = std::env::consts::ARCH.try_into()?;
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, failure, machine)?.try_into()?)
    }
}

/// An error of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno {
    /// Name of the error.
    pub name: &'static str,
    /// Number of the error.
    pub number: i32,
}

impl Errno {
    /// The errors with which calls can fail on request.
    pub const ALL: [Errno; 6] = [
        Errno { name: "EPERM", number: libc::EPERM },
        Errno { name: "EBUSY", number: libc::EBUSY },
        Errno { name: "EINVAL", number: libc::EINVAL },
        Errno { name: "ESRCH", number: libc::ESRCH },
        Errno { name: "ENOMEM", number: libc::ENOMEM },
        Errno { name: "ENOSPC", number: libc::ENOSPC },
    ];

    /// Returns the error with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Errno> {
        Errno::ALL.into_iter().find(|error| error.name == name)
    }
}
