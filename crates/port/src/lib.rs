//! Ports: policies in C for sched_ext that run under the [`Machine`](sched::Machine), so that the simulator, the auditor and
//! the fuzzer drive the code that the kernel runs.
//!
//! Each port has a program of its own, such as `tactus-port-edf` (crate `scx`), compiled as ordinary C against a shim of the
//! kernel (`crates/scx/bpf/shim`). The maps of a port are global, so each policy is a process. [`PortPolicy`] tells the process what
//! happens, in lines of text, and carries out what it answers.

mod bmq;
mod policy;
mod process;
mod source;

pub use bmq::BmqSettings;
pub use policy::PortPolicy;
pub use process::{Process, StartError};
pub use source::PortSource;

use sched::{Conserving, KnobError, Knobs, LoadBounds, Nanos};
use zerocopy::IntoBytes;

/// A policy with a port.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
pub struct Port {
    /// Name of the port, and of the registered policy whose rules it has.
    pub name: &'static str,
    /// Name of the program: policies with common rules have one.
    pub program: &'static str,
    /// The knobs of the policy whose rules the port has: words of choices, and numbers. The others have their defaults.
    pub knobs: &'static [(&'static str, &'static str)],
    /// The settings of the port for knobs of the policy; `None`: it has none.
    pub settings: Option<fn(&Knobs) -> Vec<u8>>,
    /// The promises that the port keeps; `None`: it ignores reservations.
    pub promises: Option<Promises>,
    /// Which waiting entities an idle CPU finds. Law 11.
    pub conserving: fn(&LoadBounds<'_>) -> Conserving,
}

/// The promises that a port keeps. The policy admits them and assigns each to a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// Maximum length of a period.
    pub period_max: Nanos,
    /// Whether the periods of the members of a gang begin together.
    pub has_gangs: bool,
}

/// `edf` in the kernel. Its products of two times have 64 bits.
pub const EDF: Port = Port {
    name: "edf",
    program: "edf",
    knobs: &[("placement", "partitioned"), ("rest", "renew")],
    settings: None,
    promises: Some(Promises { period_max: orders::PERIOD_MAX, has_gangs: false }),
    conserving: edf_conserving,
};

/// `gang-edf` in the kernel: the program of [`EDF`], with gangs.
pub const GANG_EDF: Port = Port {
    name: "gang-edf",
    knobs: &[("rest", "renew")],
    promises: Some(Promises { period_max: orders::PERIOD_MAX, has_gangs: true }),
    ..EDF
};

/// `bmq` in the kernel. Its ticks are those of the kernel, which the shim does not have.
pub const BMQ: Port = Port {
    name: "bmq",
    program: "bmq",
    knobs: &[("tick", "0"), ("deadline-is-fifo", "0")],
    settings: Some(|knobs| BmqSettings::new(knobs).as_bytes().to_vec()),
    promises: None,
    conserving: bmq_conserving,
};

/// Every port, in alphabetical order of name.
pub const PORTS: &[&Port] = &[&BMQ, &EDF, &GANG_EDF];

/// A CPU that becomes idle pulls threads from half of a queue, and skips those that must not run on it.
fn bmq_conserving(load: &LoadBounds<'_>) -> Conserving {
    match load.has_affinity && load.host.cpus > 1 {
        true => Conserving::Never,
        false => Conserving::Global { slack: Nanos::ZERO },
    }
}

/// A thread whose slice is used up competes on all CPUs, and waits for its own CPU in the next period. Without such threads,
/// an idle CPU finds every thread.
fn edf_conserving(load: &LoadBounds<'_>) -> Conserving {
    match load.has_reservations && load.host.cpus > 1 {
        true => Conserving::Never,
        false => Conserving::Global { slack: Nanos::ZERO },
    }
}

/// Returns the port of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Port> {
    PORTS.iter().copied().find(|port| port.name == name)
}

impl Port {
    /// Returns the knobs of the registered policy whose rules the port has.
    ///
    /// # Errors
    /// The policy has no such knob or value.
    ///
    /// # Panics
    /// No policy is registered under the name of the port.
    pub fn policy_knobs(&self) -> Result<Knobs, KnobError> {
        let mut knobs = policies::find(self.name).expect("a port has the name of a policy").defaults();
        for (name, word) in self.knobs {
            match word.parse() {
                Ok(number) => knobs.set(name, number)?,
                Err(_) => knobs.set_word(name, word)?,
            }
        }
        Ok(knobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_has_the_knobs_of_a_registered_policy() {
        for port in PORTS {
            port.policy_knobs().unwrap_or_else(|error| panic!("{}: {error}", port.name));
        }
        assert!(find("edf").is_some() && find("gang-edf").is_some() && find("edff").is_none());
    }

    #[test]
    fn a_program_that_is_not_there_or_has_no_such_port_is_refused() {
        let start = |program: &str, name| Process::start(program.as_ref(), name).err();
        assert!(matches!(start("/nonexistent/tactus-port", "edf"), Some(StartError::NotFound)));
        // A program that ends at once has no port.
        assert!(matches!(start("/bin/false", "edf"), Some(StartError::NoPort(_))));
    }
}
