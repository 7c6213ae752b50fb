//! The deterministic simulator: integer nanoseconds, a fixed order of events, equal output for equal seeds.

mod absence;
pub mod auditor;
mod calendar;
mod costs;
mod cpus;
mod driver;
pub mod guest;
mod membership;
pub mod network;
mod outbox;
pub mod program;
mod stuck;
mod timers;
mod workload;
pub mod world;

pub use auditor::Auditor;
pub use calendar::Calendar;
pub use costs::{Costs, Handling};
pub use driver::Driver;
pub use guest::Guest;
pub use network::{Acks, Endpoint, Flow, FlowCounts, FlowId, Hop, Line, LineId};
pub use program::{Application, Jobs, LateJobs, Object, Releases, Step, TaskGroup, TaskSpec};
pub use stuck::{Stuck, Waiter};
pub use workload::{JobEnd, Periodic, Workload};
pub use world::World;
