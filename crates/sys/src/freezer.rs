//! Freezing the tasks of a control group: none of them runs until the group is thawed.

use crate::cgroup::{Group, Version};
use crate::{Error, Result, clock};
use sched::{Instant, Nanos};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The state of a freezer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The tasks of the group may run.
    Thawed,
    /// Some tasks of the group have yet to stop.
    Freezing,
    /// No task of the group runs.
    Frozen,
}

/// Starts to freeze `group`. Freezing completes later.
///
/// # Errors
/// `group` is the root group, or the caller lacks permission.
pub fn freeze(group: &Group) -> Result<()> {
    group.write(control_file(group), word(group, true))
}

/// Thaws `group`.
///
/// # Errors
/// `group` is the root group, or the caller lacks permission.
pub fn thaw(group: &Group) -> Result<()> {
    group.write(control_file(group), word(group, false))
}

/// Returns the state of `group`'s freezer.
///
/// # Errors
/// `group` is the root group, or the kernel has no freezer.
pub fn state(group: &Group) -> Result<State> {
    let malformed = |name: &str| Error::Malformed { path: group.path().join(name), wanted: "the state of a freezer" };
    match group.version() {
        Version::One => match group.read("freezer.state")?.trim() {
            "THAWED" => Ok(State::Thawed),
            "FREEZING" => Ok(State::Freezing),
            "FROZEN" => Ok(State::Frozen),
            _ => Err(malformed("freezer.state")),
        },
        Version::Two => match (group.read("cgroup.freeze")?.trim(), group.keyed("cgroup.events", "frozen")?) {
            (_, 1) => Ok(State::Frozen),
            ("1", _) => Ok(State::Freezing),
            ("0", _) => Ok(State::Thawed),
            _ => Err(malformed("cgroup.freeze")),
        },
    }
}

/// A control group whose control file is open, so that one write freezes or thaws it. No call allocates memory unless
/// the call fails.
#[derive(Debug)]
pub struct Freezer {
    group: Group,
    control: File,
}

impl Freezer {
    /// Opens the freezer of `group`.
    ///
    /// # Errors
    /// `group` is the root group, or the caller lacks permission.
    pub fn open(group: Group) -> Result<Freezer> {
        let control = group.open_control(control_file(&group))?;
        Ok(Freezer { group, control })
    }

    /// Returns the group.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Starts to freeze the group. Freezing completes later.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn freeze(&self) -> Result<()> {
        self.set(word(&self.group, true))
    }

    /// Thaws the group.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn thaw(&self) -> Result<()> {
        self.set(word(&self.group, false))
    }

    /// Returns whether the group is frozen or freezing, by itself or, in version 1, with a group above.
    ///
    /// # Errors
    /// The group has been removed.
    pub fn is_freezing(&self) -> Result<bool> {
        let mut first = [0];
        let read = self.control.read_at(&mut first, 0);
        read.map_err(|error| self.problem("read", error))?;
        Ok(matches!(first[0], b'F' | b'1'))
    }

    fn set(&self, text: &str) -> Result<()> {
        self.control
            .write_all_at(text.as_bytes(), 0)
            .map_err(|error| self.problem(&format!("write `{text}` to"), error))
    }

    fn problem(&self, verb: &str, error: std::io::Error) -> Error {
        let path = self.group.path().join(control_file(&self.group));
        Error::from(error, format!("{verb} {}", path.display()), "let Tactus alone remove the groups that it makes")
    }
}

/// Returns the name of the control file of `group`'s freezer.
fn control_file(group: &Group) -> &'static str {
    if group.version() == Version::One { "freezer.state" } else { "cgroup.freeze" }
}

/// Returns the content of the control file that freezes or thaws `group`.
fn word(group: &Group, is_frozen: bool) -> &'static str {
    match (group.version(), is_frozen) {
        (Version::One, true) => "FROZEN",
        (Version::One, false) => "THAWED",
        (Version::Two, true) => "1",
        (Version::Two, false) => "0",
    }
}

/// Waits until `group` is in state `wanted`, for `limit` at most. Returns the instant of the observation.
///
/// # Errors
/// The errors of [`state`], or the limit is exceeded.
pub fn wait(group: &Group, wanted: State, limit: Nanos) -> Result<Instant> {
    let end = clock::now().saturating_add(limit);
    loop {
        let found = state(group)?;
        let now = clock::now();
        if found == wanted {
            return Ok(now);
        }
        if now >= end {
            let what = format!("have the control group {} {wanted:?} within {limit}", group.path().display());
            let remedy = "end tracing of its tasks, and wait until none waits for a disk";
            return Err(Error::NotKept { what, kept: format!("{found:?}"), remedy });
        }
        clock::sleep(Nanos::us(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Hierarchy;
    use crate::child::{Child, Work};
    use crate::usage::Meter;

    /// Moves a spinning child into a new group of `hierarchy`. Freezes and thaws the child three times, and checks that
    /// it runs only while thawed. Removing the group moves the child back.
    fn freezes_and_thaws(hierarchy: Result<Hierarchy>, name: &str) {
        let hierarchy = match hierarchy {
            Ok(hierarchy) => hierarchy,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::us(100) }).unwrap();
        let before = hierarchy.path_of(child.pid()).unwrap();
        let home = hierarchy.group_of(child.pid()).unwrap();
        let group = match home.create(&format!("{name}-{}", std::process::id())) {
            Ok(group) => group,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        group.add_process(child.pid()).unwrap();
        assert_eq!(group.processes().unwrap(), [child.pid()]);
        assert_ne!(hierarchy.path_of(child.pid()).unwrap(), before);
        let meter = Meter::open(child.pid()).unwrap();
        for _ in 0..3 {
            freeze(&group).unwrap();
            wait(&group, State::Frozen, Nanos::s(5)).unwrap();
            let frozen = meter.read().unwrap().ran;
            clock::sleep(Nanos::ms(10));
            assert_eq!(meter.read().unwrap().ran, frozen);
            thaw(&group).unwrap();
            wait(&group, State::Thawed, Nanos::s(5)).unwrap();
            let end = clock::now() + Nanos::s(5);
            while meter.read().unwrap().ran < frozen + Nanos::ms(1) {
                assert!(clock::now() < end, "it runs again");
                clock::sleep(Nanos::ms(1));
            }
        }
        let path = group.path().to_path_buf();
        group.remove().unwrap();
        assert_eq!(hierarchy.path_of(child.pid()).unwrap(), before, "it is back where it was");
        assert!(!path.exists());
    }

    #[test]
    fn a_group_of_version_1_is_frozen_and_thawed() {
        freezes_and_thaws(Hierarchy::one_or_mount("freezer"), "tactus-test-one");
    }

    #[test]
    fn a_group_of_version_2_is_frozen_and_thawed() {
        freezes_and_thaws(Hierarchy::two(), "tactus-test-two");
    }

    #[test]
    fn a_single_thread_is_frozen_and_given_back() {
        for hierarchy in [Hierarchy::one_or_mount("freezer"), Hierarchy::two()] {
            let Ok(hierarchy) = hierarchy.inspect_err(|error| eprintln!("SKIPPED: {error}")) else { continue };
            let child = Child::start(Work::Spin { busy: Nanos::ms(1), idle: Nanos::us(100) }).unwrap();
            let tid = child.pid();
            let before = hierarchy.path_of(tid).unwrap();
            let made = hierarchy.group_of(tid).and_then(|home| home.create(&format!("tactus-test-{tid}")));
            let Ok(domain) = made.inspect_err(|error| eprintln!("SKIPPED: {error}")) else { continue };
            domain.add_process(tid).unwrap();
            let group = domain.create("thread").unwrap();
            group.make_threaded().unwrap();
            group.add_thread(tid).unwrap();
            assert_eq!(group.threads().unwrap(), [tid]);
            freeze(&group).unwrap();
            wait(&group, State::Frozen, Nanos::s(5)).unwrap();
            assert_eq!(state(&domain).unwrap(), State::Thawed);
            group.remove().unwrap();
            assert_eq!(domain.threads().unwrap(), [tid]);
            domain.remove().unwrap();
            assert_eq!(hierarchy.path_of(tid).unwrap(), before);
        }
    }
}
