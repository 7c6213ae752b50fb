//! [`Failure`]: why the agent ends.

/// Why the agent ends.
#[derive(Debug)]
pub(crate) enum Failure {
    Sys(sys::Error),
    Io(&'static str, std::io::Error),
    /// A reason and a remedy.
    Refused(String, &'static str),
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Failure {
        Failure::Sys(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Sys(error) => {
                write!(f, "{}", error.reason())?;
                error.remedy().map_or(Ok(()), |remedy| write!(f, "\n  help: {remedy}"))
            }
            Failure::Io(what, error) => write!(f, "cannot {what}: {error}"),
            Failure::Refused(reason, remedy) => write!(f, "{reason}\n  help: {remedy}"),
        }
    }
}
