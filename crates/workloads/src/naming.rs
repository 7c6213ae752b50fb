//! The names of an application's tasks and groups.

use sim::{Application, Step, TaskGroup, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns `application` with its tasks and groups renamed after `name`. If the application starts with a single task,
/// this task has the name `name`. All other tasks and groups have the prefix `name/`, as in `name/thread-1`.
#[must_use]
pub fn called(name: &str, application: &Application) -> Application {
    let mut renamed = Renamed { name, known: BTreeMap::new() };
    let is_alone = application.tasks.len() == 1;
    let tasks = application.tasks.iter().map(|task| {
        let task_renamed = renamed.task(task);
        if is_alone { TaskSpec { name: name.to_string(), ..task_renamed } } else { task_renamed }
    });
    Application { tasks: tasks.collect(), groups: groups(name, application), ..shared(application) }
}

/// Returns `application` as a part of the application `name`: the names of all its tasks and groups have the prefix
/// `name/`.
#[must_use]
pub fn within(name: &str, application: &Application) -> Application {
    let mut renamed = Renamed { name, known: BTreeMap::new() };
    let tasks = application.tasks.iter().map(|task| renamed.task(task)).collect();
    Application { tasks, groups: groups(name, application), ..shared(application) }
}

/// Returns `application` without its tasks and groups.
fn shared(application: &Application) -> Application {
    let objects = application.objects.clone();
    Application { objects, may_stall: application.may_stall, ..Application::default() }
}

/// Returns the groups of `application`, with the prefix `name/` in their names.
fn groups(name: &str, application: &Application) -> Vec<TaskGroup> {
    let groups = application.groups.iter();
    groups.map(|group| TaskGroup { name: format!("{name}/{}", group.name), ..group.clone() }).collect()
}

/// Tasks with their new names. If several steps fork the same task, they fork the same renamed task.
struct Renamed<'n> {
    name: &'n str,
    known: BTreeMap<*const TaskSpec, Arc<TaskSpec>>,
}

impl Renamed<'_> {
    fn task(&mut self, task: &TaskSpec) -> TaskSpec {
        let steps = self.steps(&task.steps);
        TaskSpec { name: format!("{}/{}", self.name, task.name), params: task.params, delay: task.delay, steps }
    }

    fn steps(&mut self, steps: &[Step]) -> Vec<Step> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &Step) -> Step {
        match step {
            Step::Repeat { times, body } => Step::Repeat { times: *times, body: self.steps(body) },
            Step::Fork(child) => {
                if let Some(known) = self.known.get(&Arc::as_ptr(child)) {
                    return Step::Fork(Arc::clone(known));
                }
                let renamed = Arc::new(self.task(child));
                self.known.insert(Arc::as_ptr(child), Arc::clone(&renamed));
                Step::Fork(renamed)
            }
            other => other.clone(),
        }
    }
}
