//! Starting programs: a check for executable files, inherited descriptors beyond the standard streams, files in memory,
//! and the end of a process with its parent.

use crate::{Error, Result};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, MemfdFlags, access, memfd_create};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::Signal;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The remedy for a descriptor that was not inherited.
const INHERITED: &str = "pass the number of a descriptor that this process has inherited, from 3 up";

/// Returns whether this process may execute the file at `path`.
#[must_use]
pub fn may_run(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Passes `descriptor` to the process of `command`, under the returned number. No other child inherits the descriptor
/// unless it was inheritable before. Dropping `command` closes the descriptor in this process.
pub fn inherit(command: &mut Command, descriptor: OwnedFd) -> i32 {
    let number = descriptor.as_raw_fd();
    let keep = move || fcntl_setfd(&descriptor, FdFlags::empty()).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call, which neither allocates nor locks.
    unsafe {
        command.pre_exec(keep);
    }
    number
}

/// Makes `command` start for user `user` and group `group`, without other groups, in a session of its own, and with the
/// standard streams as its only descriptors. The user can therefore neither write into the terminal of this process nor
/// use its files. The call needs the privilege to change the user.
pub fn run_as(command: &mut Command, user: u32, group: u32) {
    command.uid(user).gid(group);
    let detach = || {
        rustix::process::setsid()?;
        // SAFETY: the call takes numbers only. Descriptors stay open until the program is executed.
        match unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls, which neither allocate nor lock.
    unsafe {
        command.pre_exec(detach);
    }
}

/// Makes the kernel kill the process of `command` when the thread that starts it ends.
pub fn end_with_thread(command: &mut Command) {
    let tie = || rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call, which neither allocates nor locks.
    unsafe {
        command.pre_exec(tie);
    }
}

/// Returns the descriptor that this process inherited under `number`. Children of this process do not inherit the
/// descriptor.
///
/// # Errors
/// The descriptor was not inherited.
pub fn inherited(number: i32) -> Result<OwnedFd> {
    let cannot = |error: rustix::io::Errno| Error::Absent {
        what: format!("the inherited descriptor {number}"),
        why: io::Error::from(error).to_string(),
        remedy: INHERITED,
    };
    if number < 3 {
        return Err(cannot(rustix::io::Errno::BADF));
    }
    // SAFETY: both calls refuse a number that names no open file. The calls close no file of another owner in this
    // process: one call duplicates the descriptor, and the other call only sets close-on-exec.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let own = fcntl_dupfd_cloexec(borrowed, 3).map_err(cannot)?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(cannot)?;
    Ok(own)
}

/// Returns a file without a name, in memory. `name` is shown in /proc only.
///
/// # Errors
/// There are too many open files, or there is too little memory.
pub fn memory_file(name: &str) -> Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC);
    file.map(File::from)
        .map_err(|errno| Error::from(errno, format!("create the file {name} in memory"), "close other files"))
}

/// Makes the kernel kill this process when the thread that forked it ends.
///
/// # Errors
/// The kernel refuses.
pub fn end_with_parent() -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Error::from(errno, "end with the parent process", "use a kernel with PR_SET_PDEATHSIG"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write, pipe};

    #[test]
    fn a_program_is_a_file_that_may_be_run() {
        assert!(may_run(Path::new("/bin/sh")));
        for other in ["/bin", "/proc/version", "/no/such/file"] {
            assert!(!may_run(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn what_is_inherited_is_there_under_its_number_and_for_that_process_alone() {
        let (reader, mut writer) = pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        let number = inherit(&mut command, reader.into());
        let is_open = format!("test -e /proc/self/fd/{number}");
        writer.write_all(b"beat\n").unwrap();
        let reading = format!("read word </proc/self/fd/{number} && test \"$word\" = beat");
        assert!(command.args(["-c", &reading]).status().unwrap().success());
        assert!(!Command::new("/bin/sh").args(["-c", &is_open]).status().unwrap().success());
    }

    #[test]
    fn an_inherited_descriptor_is_taken_once_it_is_there() {
        let (reader, mut writer) = pipe().unwrap();
        let mut taken = std::fs::File::from(inherited(reader.as_raw_fd()).unwrap());
        writer.write_all(b"x").unwrap();
        let mut byte = [0];
        taken.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        for none in [-1, 0, 2, 1_000_000_000] {
            let said = inherited(none).unwrap_err().to_string();
            assert!(
                said.ends_with("; pass the number of a descriptor that this process has inherited, from 3 up"),
                "{said}"
            );
        }
    }
}
