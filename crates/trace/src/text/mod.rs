//! The text format: one header line, then one line per event. People can read the text, and common tools can search and
//! compare it.
//!
//! ```text
//! tactus-trace 1 policy="edf" cpus=2 seed=7
//!            0 attach e0 name="web" weight=256 class=normal cpus=all group=g0 reservation=none
//!      1000000 wake e0 why=timer
//!      1000000 run cpu=0 e0 until=21000000
//! ```
//!
//! A line consists of a time in nanoseconds (right-aligned in 12 columns), a verb, and all fields of the verb, always
//! in the same order. Blank lines are skipped, and so are lines whose first character other than white space is `#`.
//! Every line ends with a line feed. A last line without a line feed is an error, because the file may be truncated.
//!
//! | verb | fields |
//! |---|---|
//! | `group-create` | *group* `name=` `parent=`*group* and the group's parameters |
//! | `group-adjust` | *group* and the group's parameters |
//! | `group-remove` | *group* |
//! | `attach` | *entity* `name=` and the entity's parameters |
//! | `adjust` | *entity* and the entity's parameters |
//! | `refused-group-create` | `name=` `parent=`*group* and the group's parameters |
//! | `refused-group-adjust` | *group* and the group's parameters |
//! | `refused-attach` | `name=` and the entity's parameters |
//! | `refused-adjust` | *entity* and the entity's parameters |
//! | `detach`, `interrupt`, `pause`, `complete` | *entity* |
//! | `wake` | *entity* `why=new parent=`*entity*\|`none`, `why=by waker=`*entity* `sync=yes`\|`no`, `why=interrupt`, `why=timer` or `why=resumed` |
//! | `spin-report`, `spin-wait` | *entity* `waited=` |
//! | `ran`, `irq` | `cpu=` `time=` |
//! | `background` | *entity* `time=` |
//! | `period` | *entity* `due=` `delivered=` `throughout=yes`\|`no` |
//! | `kept` | *entity* `kept=yes`\|`no` `missed=` `of=` |
//! | `woke` | *entity* `late=` |
//! | `skipped` | *entity* `beats=` |
//! | `sent` | *entity* `flow=` `bytes=` |
//! | `served` | *entity* |
//! | `boosted` | *entity* `boosted=yes`\|`no` |
//! | `arrived` | `flow=` `bytes=` `took=` |
//! | `lost` | `flow=` `bytes=` |
//! | `block`, `yield`, `expire`, `kicked`, `kick` | `cpu=` |
//! | `yield-to` | `cpu=` `to=`*entity* |
//! | `vcpu` | *entity* `guest=`*machine* `cpu=` |
//! | `freeze` | `cpu=` `preempted=yes`\|`no` |
//! | `thaw` | `cpu=` `stolen=` |
//! | `release` | *entity* `deadline=` |
//! | `stop` | `cpu=` *entity* |
//! | `run` | `cpu=` *entity* `until=` |
//! | `extend` | `cpu=` `until=` |
//! | `held` | *entity* `reasons=` |
//! | `alarm`, `clear-alarm` | `of=` `slot=` |
//! | `set-alarm` | `of=` `slot=` `cpu=` `at=` |
//! | `settled`, `end` | |
//!
//! A world of several machines has one header for the world and one for each machine. The header of a host precedes the
//! headers of its guests. Each event names its machine after its time:
//!
//! ```text
//! tactus-world 1 machines=2
//! machine m0 name="host" policy="edf" cpus=1 seed=7 host=none
//! machine m1 name="vm" policy="eevdf" cpus=1 seed=7 host=m0
//!            0 m0 vcpu e0 guest=m1 cpu=0
//!      1000000 m1 run cpu=0 e0 until=2000000
//!      1500000 m1 freeze cpu=0 preempted=no
//! ```
//!
//! The values:
//!
//! - *entity*, *group*: `e3`, `g0`; `e3.2` for the third object with this index. An index is below
//!   [`sched::id::ENTITIES_MAX`].
//! - *machine*: `m3`, below [`MACHINES_MAX`](crate::MACHINES_MAX).
//! - times (`until`, `deadline`, `at`, and the first column): nanoseconds, or `never`.
//! - durations (`time`, `waited`, `due`, `delivered`, `late`, `took`, `stolen`, and *span*): nanoseconds.
//! - `name`, `policy`: in double quotes; `\"`, `\\`, `\n`, `\r`, `\t` and `\u{…}` (other control characters, line
//!   separators and marks of text direction) are escapes.
//! - the entity's parameters: `weight=` (Xen's scale, 256 is normal, with quarters: `83.75`) `class=normal`\|`batch`\|`idle`\|
//!   `iso`\|`stop`\|`fifo:1`…`99`\|`rr:1`…`99` `cpus=` (`all`, `none` or a list: `0-3,8`) `group=`*group* `latency=`*span*\|`none`
//!   `warp=`*by*`/`*limit*`/`*rest*\|`none` and `reservation=none` or
//!   `reservation=`*slice*`/`*period* `deadline=`*span*\|`none` `start=`*time*\|`none` `limit=soft`\|`hard`.
//! - the group's parameters: `weight=` `quota=`*quota*`/`*period*\|`none` `cap=`*percent*\|`none` `gang=yes`\|`no`.
//! - `reasons`: `none`, or some of `throttled`, `parked`, `depleted`, `co-stopped` (and a decimal number for bits without
//!   a name), joined by `+`.
//! - `of`: `policy`, `cpu3`, `e3` or `g3`.

mod cursor;
mod lines;
mod reader;
mod writer;

pub use lines::TextError;
pub use reader::{Reader, WorldReader, read, read_world};
pub(crate) use writer::Reasons;
pub use writer::{TextWriter, WorldTextWriter};

/// Version of the format. Readers reject every other version.
pub const VERSION: u32 = 1;

/// Maximum length of a line, in bytes. The longest list of CPUs (`0-1,3-4,6-7` and so on up to CPU 1023) takes 2.7 KB.
/// The rest of a line is available for names. The limit bounds the memory that a reader needs for a file without line
/// feeds.
pub const LINE_MOST: usize = 1 << 16;

/// First word of a trace.
const MAGIC: &str = "tactus-trace";
/// First word of the trace of a world.
const WORLD_MAGIC: &str = "tactus-world";
