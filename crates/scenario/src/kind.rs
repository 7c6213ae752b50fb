//! [`Kind`]: a VM or a task.

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Vm,
    Task,
}

impl Kind {
    /// Its name in the file.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Kind::Vm => "the vm",
            Kind::Task => "the task",
        }
    }
}
