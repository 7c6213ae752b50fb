use super::at_once;
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::metrics::Operations;
use crate::network::Plan;
use crate::settings::percent;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, ObjectId};
use sim::{Application, Object, Step, TaskSpec};

/// Number of transactions of one job. A job combines the computation of its transactions, and writes their data to the
/// disk as one request.
const JOB: u64 = 10;
/// Period of the pattern of cache misses, in jobs. Because the settings are tenths and percentages, each period has a
/// whole number of misses.
const ROUND: u64 = 100;

/// The small files of a mail server, modelled on Postmark 1.5 (Katcher, NetApp TR3022). The program creates files,
/// executes transactions, and deletes the remaining files. A transaction reads a file or appends to a file, and creates
/// or deletes a file. By default, the two alternatives of each choice are equally probable. Reads hit or miss the page
/// cache. Writes go to the page cache, and from there to the disk in the background. A write waits while the maximum
/// amount of data waits for write-back. Each file has the mean size. The settings of the disk determine how long its
/// requests take. The CPU time of an operation, the cache and the share of written-back data are free parameters:
/// Postmark does not state them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Postmark {
    /// Initial number of files. Minimum: 1.
    pub files: u64,
    /// Minimum and maximum size of a file. Unit: bytes. Range: 1 to [`SIZE_MAX`](Postmark::SIZE_MAX), in order.
    pub sizes: (u64, u64),
    /// Number of transactions. Minimum: 1.
    pub transactions: u64,
    /// Number of transactions out of ten that read rather than append (`bias read`). Range: 0 to 10.
    pub reads: u64,
    /// CPU time of each operation. A transaction has two operations.
    pub work: Nanos,
    /// Share of reads that hit the page cache. Unit: percent. Range: 0 to 100.
    pub hits: u64,
    /// Share of written data that goes to the disk; other files are deleted before write-back. Unit: percent. Range: 0
    /// to 100.
    pub written_back: u64,
    /// Maximum amount of data that waits for write-back. Unit: bytes.
    pub dirty: u64,
}

impl Default for Postmark {
    fn default() -> Postmark {
        // Source: postmark-1_5.c, file_size_low, file_size_high, simultaneous, transactions and bias_read.
        Postmark {
            files: 500,
            sizes: (500, 10_000),
            transactions: 500,
            reads: 5,
            work: Nanos::us(20),
            hits: 90,
            written_back: 100,
            dirty: 64 << 20,
        }
    }
}

/// The objects through which the program accesses the disk.
#[derive(Clone, Copy)]
struct Disk {
    asks: ObjectId,
    answers: ObjectId,
    writes: ObjectId,
}

impl Postmark {
    /// Maximum size of a file. Unit: bytes.
    pub const SIZE_MAX: u64 = 1 << 24;

    /// Returns the mean size of a new file. Unit: bytes.
    fn new_file(&self) -> u64 {
        self.sizes.0.midpoint(self.sizes.1)
    }

    /// Returns the mean size of an append, and the mean size of a read. Unit: bytes.
    ///
    /// An append has any size up to the difference between the maximum size and the size of the file. The mean append
    /// is half of this difference. Half of all transactions delete a file. On average, a new file can grow by half of
    /// the difference between the maximum and the minimum size. Averaged over the life of a file, `10 / (10 + appends)`
    /// of this room is left.
    #[must_use]
    pub fn append_and_read(&self) -> (u64, u64) {
        let (low, high) = self.sizes;
        let appends = 10 - self.reads;
        let room = (high - low) * 5 / (10 + appends);
        ((room / 2).max(1), high - room)
    }

    /// Returns the total amount of data that this number of transactions writes to the disk. Unit: bytes.
    fn write(&self, transactions: u64) -> u64 {
        let (append, _) = self.append_and_read();
        let ten = self.new_file() * 5 + append * (10 - self.reads);
        ten * transactions / 10 * self.written_back / 100
    }

    /// Returns the maximum size of one write. Unit: bytes.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.write(JOB).max(self.create(JOB))
    }

    fn create(&self, files: u64) -> u64 {
        files * self.new_file() * self.written_back / 100
    }

    /// Returns the parameters of the metric.
    #[must_use]
    pub fn operations(&self) -> Operations {
        let (append, read) = self.append_and_read();
        Operations {
            is_transactions: true,
            jobs: ROUND,
            operations: ROUND * JOB,
            most: Some(self.transactions),
            read: read * self.reads * ROUND,
            written: (self.new_file() * 5 + append * (10 - self.reads)) * ROUND,
        }
    }

    /// Returns the program, and the kernel's write-back thread.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut application = Application::default();
        let asks = application.share("reads", Object::Port { window: u64::MAX });
        let answers = application.share("read", Object::Inbox { room: 1 << 40 });
        let writes = application.share("write-back", Object::Port { window: self.dirty });
        let written = application.share("written back", Object::Inbox { room: 1 << 40 });
        let steps = self.steps(Disk { asks, answers, writes });
        let kernel = written_back(&steps, writes, written);
        let task = |name: &str, params, steps| TaskSpec { name: name.to_string(), params, delay: at_once(), steps };
        application.tasks.push(task("postmark", params, steps));
        application.tasks.push(task("write-back", Params::default(), kernel));
        let mut plan = Plan::alone(application);
        plan.disk("read", asks, answers);
        plan.disk("write-back", writes, written);
        plan
    }

    fn steps(&self, disk: Disk) -> Vec<Step> {
        let (all, rest) = (self.transactions / JOB, self.transactions % JOB);
        let (rounds, jobs) = (all / ROUND, all % ROUND);
        let pattern = |jobs: u64| (0..jobs).flat_map(|job| self.job(JOB, job, disk)).collect();
        let mut steps = self.alone(self.files, true, disk);
        steps.push(Step::Repeat { times: Some(rounds), body: pattern(ROUND) });
        steps.extend::<Vec<Step>>(pattern(jobs));
        if rest > 0 {
            steps.extend(self.job(rest, jobs, disk));
        }
        // The transactions create as many files as they delete.
        steps.extend(self.alone(self.files, false, disk));
        steps
    }

    /// Returns the steps that create this number of files at the start, or delete them at the end.
    fn alone(&self, files: u64, creates: bool, disk: Disk) -> Vec<Step> {
        let some = |files: u64| {
            let mut steps = vec![Step::Run(self.work.saturating_mul(files).into())];
            if creates {
                steps.extend(send(disk.writes, self.create(files)));
            }
            steps
        };
        let mut steps = vec![Step::Repeat { times: Some(files / JOB), body: some(JOB) }];
        if !files.is_multiple_of(JOB) {
            steps.extend(some(files % JOB));
        }
        steps
    }

    /// Returns the steps of job number `job` of a round, with this number of transactions.
    fn job(&self, transactions: u64, job: u64, disk: Disk) -> Vec<Step> {
        // Number of misses in a thousand transactions. The misses of this job are the total after the job minus the
        // total before the job.
        let each = self.reads * (100 - self.hits);
        let misses = (job * JOB + transactions) * each / 1_000 - job * JOB * each / 1_000;
        let (_, read) = self.append_and_read();
        let work = self.work.saturating_mul(2 * transactions);
        let part = Nanos::ns(work.as_ns() / (misses + 1));
        let first = work.saturating_sub(part.saturating_mul(misses));
        let mut steps = vec![Step::JobBegins { deadline: None }, Step::Run(first.into())];
        let miss = [
            Step::Send { pipe: disk.asks, bytes: read },
            Step::Receive { pipe: disk.answers, bytes: read },
            Step::Run(Length::Fixed(part)),
        ];
        (0..misses).for_each(|_| steps.extend_from_slice(&miss));
        steps.extend(send(disk.writes, self.write(transactions)));
        steps.push(Step::JobEnds);
        steps
    }
}

fn send(pipe: ObjectId, bytes: u64) -> Option<Step> {
    (bytes > 0).then_some(Step::Send { pipe, bytes })
}

/// Returns the steps of the task that receives, from `written`, the completion of each write that `steps` send to
/// `writes`.
fn written_back(steps: &[Step], writes: ObjectId, written: ObjectId) -> Vec<Step> {
    let its = |step: &Step| match *step {
        Step::Send { pipe, bytes } if pipe == writes => Some(Step::Receive { pipe: written, bytes }),
        Step::Repeat { times, ref body } => Some(Step::Repeat { times, body: written_back(body, writes, written) }),
        _ => None,
    };
    steps.iter().filter_map(its).filter(|step| !matches!(step, Step::Repeat { body, .. } if body.is_empty())).collect()
}

/// Maximum number of transactions, and of files.
const COUNT_MAX: u64 = 1 << 40;

/// Maximum amount of data that waits for write-back. Unit: bytes.
const DIRTY_MAX: u64 = 1 << 40;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "postmark",
    title: "small files of a mail server, like Postmark",
    keys: &["files", "smallest", "largest", "transactions", "reads", "work", "hits", "written_back", "dirty"],
    example: "{ postmark = { transactions = 5000 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Postmark::default();
    let (low, high) = default.sizes;
    let sizes =
        (settings.count("smallest", Postmark::SIZE_MAX, low), settings.count("largest", Postmark::SIZE_MAX, high));
    let reads = settings.read("reads", |value| form::count("reads", value, 0..=10));
    let work = settings.read("work", |value| form::time_above_zero("work", value));
    let written_back = percent(settings, "written_back", default.written_back);
    let postmark = Postmark {
        files: settings.count("files", COUNT_MAX, default.files),
        sizes,
        transactions: settings.count("transactions", COUNT_MAX, default.transactions),
        reads: reads.unwrap_or(default.reads),
        work: work.unwrap_or(default.work),
        hits: percent(settings, "hits", default.hits),
        written_back,
        dirty: settings.count("dirty", DIRTY_MAX, default.dirty),
    };
    if sizes.0 > sizes.1 {
        let right = format!("use {} or more, the smallest", sizes.0);
        let key = if settings.table.get("largest").is_some() { "largest" } else { "smallest" };
        settings.wrong(Wrong::new("the largest file is smaller than the smallest", "out of order", right), key);
        return None;
    }
    if postmark.dirty < postmark.request() {
        let right = format!("use {} or more: the data that ten transactions write", postmark.request());
        settings.wrong(
            Wrong::new("the room is too small for the writes of ten transactions", "too little", right),
            "dirty",
        );
    }
    settings.done(postmark)
}

impl ApplicationWorkload for Postmark {
    fn tasks(&self) -> u64 {
        2
    }

    fn steps(&self) -> u64 {
        // A round has a hundred jobs of ten transactions. Every transaction may miss the cache.
        16_384
    }

    fn plan(&self, params: Params) -> Plan {
        Postmark::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Operations(self.operations()))
    }
}
