//! [`PolicySource`]: the source of a machine's policy. A registered [`Descriptor`] is a source; a [`MadePolicy`] is
//! built at run time by a function with state of its own.

use crate::alarm::AlarmSlots;
use crate::descriptor::{Conserving, Descriptor, Guarantees, Knobs, LoadBounds};
use crate::params::{Refused, Topology};
use crate::policy::Policy;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// The constructor of a policy, its name and its bounds. By default, the policy guarantees nothing.
pub trait PolicySource: Send + Sync {
    /// Returns the name of the policy in traces and reports.
    fn name(&self) -> &str;

    /// Returns the alarm slots that the policy uses.
    fn alarms(&self) -> AlarmSlots;

    /// Builds the policy for a machine with this topology.
    ///
    /// # Errors
    /// The policy does not work with these knobs on this topology.
    fn build(&self, host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused>;

    /// Returns which waiting entities an idle CPU finds, and the longest time until the CPU finds them. Law 11.
    fn conserving(&self, _load: &LoadBounds<'_>) -> Conserving {
        Conserving::Never
    }

    /// Returns the longest wait of an entity. `None`: no bound. Law 12.
    fn starvation(&self, _load: &LoadBounds<'_>) -> Option<Nanos> {
        None
    }

    /// Returns the parameters that the policy guarantees, with the bound of each guarantee.
    fn guarantees(&self) -> Guarantees {
        Guarantees::NOTHING
    }
}

impl fmt::Debug for dyn PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicySource").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl PolicySource for Descriptor {
    fn name(&self) -> &str {
        self.name
    }

    fn alarms(&self) -> AlarmSlots {
        self.alarms
    }

    fn build(&self, host: &Topology, knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
        (self.build)(host, knobs)
    }

    fn conserving(&self, load: &LoadBounds<'_>) -> Conserving {
        (self.conserving)(load)
    }

    fn starvation(&self, load: &LoadBounds<'_>) -> Option<Nanos> {
        (self.starvation)(load)
    }

    fn guarantees(&self) -> Guarantees {
        self.guarantees
    }
}

/// A policy that is built at run time: `build` may own data, such as a loaded program. The policy guarantees nothing.
#[derive(Clone)]
pub struct MadePolicy<F> {
    /// Name of the policy in traces and reports.
    pub name: String,
    /// Alarm slots that the policy uses.
    pub alarms: AlarmSlots,
    /// Constructor of the policy. The constructor receives no knobs and owns all its data.
    pub build: F,
}

impl<F> fmt::Debug for MadePolicy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadePolicy").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F> PolicySource for MadePolicy<F>
where
    F: Fn(&Topology) -> Result<Box<dyn Policy>, Refused> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn alarms(&self) -> AlarmSlots {
        self.alarms
    }

    fn build(&self, host: &Topology, _knobs: &Knobs) -> Result<Box<dyn Policy>, Refused> {
        (self.build)(host)
    }
}
