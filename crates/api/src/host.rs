//! [`Host`]: the host of the service, and [`Caller`]: the client itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The host of the service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Version of the service.
    pub version: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Part of each CPU that may be promised. Unit: percent. Absent: the service has no core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promisable_percent: Option<u32>,
    /// Policy that decides which promises fit, and when they are kept. Absent: the service has no core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<HostPolicy>,
    /// Mechanisms of the core.
    pub mechanisms: Vec<String>,
    /// Pid of the core; of a simulated host, pid of the process that simulates it. Absent: the service has no core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// Reason why the service has no core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the host is simulated: its VMs are those of a scenario, and a simulation takes the place of the core.
    /// Absent: the host is real.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// Warnings of the service and of its core.
    pub warnings: Vec<String>,
}

/// The policy of a host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HostPolicy {
    /// Name of the policy.
    pub name: String,
    /// Values of all its knobs, by name, as in a scenario.
    pub knobs: BTreeMap<String, String>,
}

/// The client that makes the request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Caller {
    /// Name of the client in the audit log: `uid:NUMBER`, or `cert:NAME`.
    pub name: String,
    /// What the client may do: `own` (read everything, and change VMs of its user), `view` (read), `operate` (change VMs),
    /// or `admin` (change every process).
    pub role: String,
}
