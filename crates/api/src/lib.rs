//! The interface of `tactus serve`: the types of its requests, replies and events, and a [`Client`].
//!
//! The service has a list of virtual machines. Each VM has a *desired state*, which clients set and the service keeps on
//! disk, and a *state*, which the service observes. The types are the source of the OpenAPI description at
//! `/openapi.json`. All times are integers with their unit in the name; all bodies are JSON.

mod client;
mod cpu;
mod demand;
mod desired;
mod event;
mod histogram;
mod history;
mod host;
mod observation;
mod problem;
mod timeline;
mod usage;
mod vm;
mod whole_number;

pub use client::{Client, Error, PORT};
pub use cpu::{Cpu, Cpus, PromisedPart};
pub use demand::{DEMAND_MS, Demand, ThreadDemand, VmDemand};
pub use desired::{CAP_MOST, Desired, Limit, Mechanism, Promise, WEIGHT_MOST};
pub use event::{Event, Happened};
pub use histogram::{BOUNDS_NS, Histogram};
pub use history::{History, Series, TimeGrid, VmHistory};
pub use host::{Caller, Host, HostPolicy};
pub use observation::{Instead, LENGTH_MS, Observation, ObservedThread, Waits};
pub use problem::{Alternatives, Problem};
pub use timeline::{CpuTimeline, RunThread, TIMELINE_MS, Timeline};
pub use usage::{CpuTime, ThreadUsage, ThreadUsages, Usage, Usages};
pub use vm::{Kind, LiveVms, Measured, Phase, Process, Source, State, Vm, Vms};

/// Media type of [`Problem`] (RFC 9457).
pub const PROBLEM: &str = "application/problem+json";

/// Header of a request with the reason of a change, for the audit log. Characters other than letters, digits and `-._~` are
/// percent-encoded, as in a URL.
pub const WHY: &str = "tactus-reason";
/// Header with a key of the client for a change (draft-ietf-httpapi-idempotency-key-header). A repeated request with the
/// same key changes nothing.
pub const KEY: &str = "idempotency-key";
