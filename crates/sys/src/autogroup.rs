//! Autogroups. If autogroups are enabled, a nice value weighs a thread only against threads of its session. The session
//! has a nice value of its own.

use crate::thread::Thread;
use crate::{Error, Result, file};

/// The autogroup of a process's session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Autogroup {
    /// Number of the autogroup.
    pub number: u64,
    /// Nice value of the autogroup against other autogroups. Range: −20 … 19.
    pub nice: i32,
}

/// Returns whether autogroups are enabled.
#[must_use]
pub fn is_on() -> bool {
    file::value::<u32>("/proc/sys/kernel/sched_autogroup_enabled", "0 or 1").is_ok_and(|on| on != 0)
}

/// Returns the autogroup of process `pid`; `None` if the kernel has no autogroup for this process.
///
/// # Errors
/// The process has ended.
pub fn of(pid: u32) -> Result<Option<Autogroup>> {
    let path = format!("/proc/{pid}/autogroup");
    match file::read(&path) {
        Ok(text) => Ok(parse(&text)),
        Err(_) => Thread::open(pid).map(|_| None),
    }
}

fn parse(text: &str) -> Option<Autogroup> {
    let (number, nice) = text.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
    Some(Autogroup { number: number.parse().ok()?, nice: nice.parse().ok()? })
}

/// Sets the nice value of the session of process `pid`, and reads back the value in force.
///
/// # Errors
/// The process has ended or has no autogroup; the change is not permitted; or the last change by an unprivileged user
/// was less than 100 ms ago.
pub fn set_nice(pid: u32, nice: i32) -> Result<()> {
    let what = || format!("give the autogroup of process {pid} the nice value {nice}");
    let remedy = "use a value from -20 to 19 for a process of this user; run with CAP_SYS_NICE to lower it";
    let Some(before) = of(pid)? else {
        let why = "this kernel makes no autogroups";
        return Err(Error::Absent {
            what: format!("the autogroup of process {pid}"),
            why: why.into(),
            remedy: "use the root session, or enable autogroups (kernel.sched_autogroup_enabled)",
        });
    };
    if before.nice == nice {
        return Ok(());
    }
    match file::write(format!("/proc/{pid}/autogroup"), &nice.to_string()) {
        Err(Error::NotPermitted { source, .. } | Error::Call { source, .. }) => {
            return Err(Error::of(source, pid, what(), remedy));
        }
        other => other?,
    }
    match of(pid)? {
        Some(kept) if kept.nice != nice => {
            Err(Error::NotKept { what: what(), kept: format!("nice {}", kept.nice), remedy })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autogroup_is_read() {
        assert_eq!(parse("/autogroup-30 nice -5\n"), Some(Autogroup { number: 30, nice: -5 }));
        assert_eq!(parse("nothing"), None);
        assert!(matches!(of(u32::MAX >> 2), Err(Error::Gone(_))));
    }

    #[test]
    fn a_session_of_our_own_is_given_a_nice_value() {
        use std::process::{Command, Stdio};
        let started = Command::new("setsid").args(["sleep", "20"]).stdout(Stdio::null()).spawn();
        let Ok(mut child) = started else {
            eprintln!("SKIPPED: there is no setsid here to begin a session with");
            return;
        };
        let (ours, pid) = (of(std::process::id()).unwrap(), child.id());
        let own = |_| {
            crate::clock::sleep(sched::Nanos::ms(5));
            of(pid).unwrap() != ours
        };
        match (ours, (0..200).any(own)) {
            (Some(_), true) => {
                set_nice(pid, 5).unwrap();
                assert_eq!(of(pid).unwrap().map(|group| group.nice), Some(5));
                assert!(set_nice(pid, 20).is_err());
                assert_eq!(of(std::process::id()).unwrap(), ours, "no other session was changed");
            }
            _ => eprintln!("SKIPPED: this kernel makes no autogroups"),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
