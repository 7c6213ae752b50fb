//! The guardian: a separate process that restores all threads when the daemon dies, and kills the daemon when it hangs.
//!
//! The guardian shares the table of originals with the daemon, and runs at a higher priority than every thread that the
//! daemon raises. The daemon raises threads only while a guardian is alive. Without a guardian, the daemon restores all
//! threads and starts a new guardian before it continues. Both are in control groups of their own. A second guardian stands by, and takes over when the first ends.

mod apart;
mod handle;
mod name;
mod process;
mod succession;
mod urging;
mod watch;

pub use apart::remove_groups;
pub(crate) use apart::{Apart, places, sweep};
pub(crate) use handle::urgently;
pub use handle::{Handle, this_program};
pub use name::COMMAND;
pub(crate) use name::{AGENT_PREFIX, KEEPER, NAME};
pub use process::{GuardianEnd, run};
pub use succession::{Care, Standby, Succession};
pub use watch::{AWAITED, CHECK, DaemonState, INTERVAL, PATIENCE, Pulse, Verdict, Watch};
