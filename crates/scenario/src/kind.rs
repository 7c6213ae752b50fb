//! [`Kind`]: a VM or a task.

/// The type of a member of a machine: a VM or a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Vm,
    Task,
}

impl Kind {
    /// Returns the type with an article, for error messages.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Kind::Vm => "the vm",
            Kind::Task => "the task",
        }
    }
}
