//! Task groups: paths of control groups, below the group of the application.

use super::object::{Object, text};
use input::problem::{Findings, Problem, Wrong, quoted};
use input::source::{Placed, Span, is_printable};
use sim::TaskGroup;
use std::collections::BTreeMap;

/// Maximum number of paths in a file. Source: `max_nbr_tgs`, rt-app_taskgroups.c, 1.0.
const PATHS_MAX: usize = 32;
/// Maximum depth of nested groups.
const DEPTH_MAX: usize = 8;
/// Maximum length of a group's name, in bytes.
const NAME_MAX: usize = 100;

/// Returns the path that `object` names. `None`: the object names no path, and the thread stays in its group.
pub(super) fn path<'f>(object: &Object<'f, '_>, findings: &mut Findings) -> Option<Placed<&'f str>> {
    let right = "the path of a control group, such as \"/tg1/tg11\", or \"/\" for the application's own";
    let form = |key: &'static str, value| {
        let typed = text(key, value, right)?;
        if typed.is_empty() || is_path(typed) {
            return Ok(typed);
        }
        let message = format!("{} is not the path of a group", quoted(typed));
        Err(Wrong::new(message, "not a path", format!("use {right}, at most {DEPTH_MAX} deep")))
    };
    object.read("taskgroup", form, findings).filter(|path| !path.value.is_empty())
}

fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        !matches!(name, "" | "." | "..")
            && name.len() <= NAME_MAX
            && name.trim() == name
            && name.chars().all(is_printable)
    };
    text == "/"
        || text
            .strip_prefix('/')
            .is_some_and(|names| names.split('/').count() <= DEPTH_MAX && names.split('/').all(is_name))
}

/// The groups of a file.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Indices of the groups in `groups`, by path without the leading slash.
    places: BTreeMap<String, usize>,
    /// Index of the group at each path that the file names. `None`: the path is "/".
    paths: BTreeMap<String, Option<u32>>,
    pub(super) groups: Vec<TaskGroup>,
}

impl Groups {
    /// Returns the index of the group at `path`. Creates the group and its parents if they are new. `None` for "/".
    ///
    /// # Errors
    /// The file names too many groups.
    pub(super) fn place(&mut self, path: &str, at: Span) -> Result<Option<u32>, Problem> {
        if let Some(&known) = self.paths.get(path) {
            return Ok(known);
        }
        if self.paths.len() == PATHS_MAX {
            let problem =
                Problem::new("the file names too many task groups").at(at, format!("number {}", PATHS_MAX + 1));
            return Err(problem.help(format!("use at most {PATHS_MAX} different paths")));
        }
        let mut parent = None;
        let mut name = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(part);
            let groups = &mut self.groups;
            parent = Some(*self.places.entry(name.clone()).or_insert_with(|| {
                groups.push(TaskGroup { name: name.clone(), parent });
                groups.len() - 1
            }));
        }
        let place = parent.map(|place| u32::try_from(place).expect("groups are few"));
        self.paths.insert(path.to_string(), place);
        Ok(place)
    }
}
