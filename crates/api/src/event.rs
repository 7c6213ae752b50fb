//! [`Event`]: a change on the host, for clients that follow them.

use crate::{Desired, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A change on the host. The events of a service have increasing numbers without gaps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Number of the event: the `id` of the server-sent event.
    pub number: u64,
    /// Time of the event. Unit: ms since 1970-01-01 00:00 UTC.
    pub at_ms: u64,
    /// Id of the VM. Absent: the event concerns the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// The change.
    #[serde(flatten)]
    pub happened: Happened,
}

/// The change of an event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Happened {
    /// A VM was started, or seen for the first time.
    Appeared {
        /// Name of the VM.
        name: String,
        /// Pid of its process.
        pid: u32,
    },
    /// A VM has ended.
    Ended,
    /// The desired state of a VM has changed.
    Changed {
        /// The client: `uid:NUMBER`, or `cert:NAME`. If no client has set the state: its [source](crate::Source), or `nothing`.
        by: String,
        /// The new desired state.
        desired: Desired,
        /// The desired state before.
        before: Desired,
        /// Number of changes of the desired state, after this one: the `ETag` of the VM.
        generation: u64,
    },
    /// The observed state of a VM has changed.
    State(State),
    /// The connection to the core was made, or lost.
    Core {
        /// Whether the service has a core.
        is_connected: bool,
        /// The reason why it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Earlier events were requested that the service no longer has. The client must read the list of VMs.
    Gap,
}

impl Happened {
    /// Returns the name of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Happened::Appeared { .. } => "appeared",
            Happened::Ended => "ended",
            Happened::Changed { .. } => "changed",
            Happened::State(_) => "state",
            Happened::Core { .. } => "core",
            Happened::Gap => "gap",
        }
    }
}
