//! [`Raising`]: the mechanism of a promise on the command line.

/// How clients receive their CPU time.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Raising {
    /// By inheritance where it works, otherwise by their attributes
    #[default]
    Auto,
    /// By priority inheritance; refuse a host where it does not work
    Inherit,
    /// By SCHED_FIFO, set for each thread and restored afterwards
    Fifo,
    /// By SCHED_DEADLINE: the kernel serves a process with one thread, or the vCPUs of a VM
    Deadline,
}

impl From<scenario::Mechanism> for Raising {
    fn from(mechanism: scenario::Mechanism) -> Raising {
        match mechanism {
            scenario::Mechanism::Auto => Raising::Auto,
            scenario::Mechanism::Inherit => Raising::Inherit,
            scenario::Mechanism::Fifo => Raising::Fifo,
            scenario::Mechanism::Deadline => Raising::Deadline,
        }
    }
}

impl From<Raising> for api::Mechanism {
    fn from(raising: Raising) -> api::Mechanism {
        match raising {
            Raising::Auto => api::Mechanism::Auto,
            Raising::Inherit => api::Mechanism::Inherit,
            Raising::Fifo => api::Mechanism::Fifo,
            Raising::Deadline => api::Mechanism::Deadline,
        }
    }
}
