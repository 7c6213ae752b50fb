use super::at_once;
use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::metrics::Operations;
use crate::network::Plan;
use crate::settings::percent;
use input::form;
use input::form::bandwidth;
use input::problem::Problem;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, ObjectId};
use sim::{Application, Object, Step, TaskSpec};
use toml::de::DeValue;

/// An operation of a file server's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    /// Opens, closes, creates or deletes a file, or reads its metadata.
    Name,
    /// Reads this number of bytes from a file.
    Read(u64),
    /// Writes this number of bytes into a file of the thread.
    Write(u64),
    /// Writes this number of bytes into a shared file. Threads write to the file one after the other.
    Log(u64),
    /// Waits until the data that the thread has written is on the disk.
    Sync,
}

use Operation::{Log, Name, Read, Sync, Write};

/// The repeated operations of the threads: one of filebench's personalities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// A mail server, which writes and synchronises files.
    Varmail,
    /// A file server, which creates, appends to, reads and deletes files.
    Fileserver,
    /// A web server, which reads ten files for each line that it appends to the log.
    Webserver,
    /// A web proxy, which replaces one file for every five files that it reads.
    Webproxy,
}

/// Mean size of a file, in all mixes except `fileserver`: filebench's meanfilesize. Unit: bytes.
const FILE: u64 = 16 << 10;
/// Mean size of a file in `fileserver`. Unit: bytes.
const LARGE: u64 = 128 << 10;
/// Mean size of an append. An append has any size up to filebench's meanappendsize, so the mean is half of it. Unit:
/// bytes.
const APPEND: u64 = (16 << 10) / 2;

impl Mix {
    /// All mixes, each with the name of its file in filebench's folder `workloads`.
    pub const NAMES: [(&str, Mix); 4] = [
        ("varmail", Mix::Varmail),
        ("fileserver", Mix::Fileserver),
        ("webserver", Mix::Webserver),
        ("webproxy", Mix::Webproxy),
    ];

    /// Returns the number of threads in the mix's file. Source: nthreads in filebench's workloads/*.f.
    #[must_use]
    pub fn threads(self) -> u32 {
        match self {
            Mix::Varmail => 16,
            Mix::Fileserver => 50,
            Mix::Webserver | Mix::Webproxy => 100,
        }
    }

    /// Returns the operations (flowops) of a thread, in order. Source: filebench's workloads/*.f.
    fn operations(self) -> Vec<Operation> {
        let read = [Name, Read(FILE), Name];
        match self {
            Mix::Varmail => {
                let mut all = vec![Name, Name, Write(APPEND), Sync, Name];
                all.extend([Name, Read(FILE), Write(APPEND), Sync, Name]);
                all.extend(read);
                all
            }
            Mix::Fileserver => {
                let mut all = vec![Name, Write(LARGE), Name, Name, Write(APPEND), Name];
                all.extend([Name, Read(LARGE), Name, Name, Name]);
                all
            }
            Mix::Webserver => [read.repeat(10), vec![Log(APPEND)]].concat(),
            Mix::Webproxy => [vec![Name, Name, Write(APPEND), Name], read.repeat(5)].concat(),
        }
    }
}

/// Threads of a file server, modelled on filebench: each thread repeats the operations of the mix. Files have their
/// mean sizes. Reads hit or miss the page cache in a fixed pattern; each thread starts at its own position in the
/// pattern. Writes go to the page cache. From there, data goes to the disk in the background, or while a thread waits
/// for the disk (fsync). The CPU time of an operation and the cache are free parameters: filebench does not state them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filebench {
    /// Operations of the threads.
    pub mix: Mix,
    /// Number of threads. Minimum: 1.
    pub threads: u32,
    /// Number of times that each thread executes the operations. `None`: without end.
    pub loops: Option<u64>,
    /// CPU time of each operation, excluding copying.
    pub work: Length,
    /// Copy bandwidth. Unit: bytes per second. Minimum: 1.
    pub copy: u64,
    /// Share of reads that hit the page cache. Unit: percent. Range: 0 to 100.
    pub hits: u64,
    /// Maximum amount of data that waits for write-back. Unit: bytes. Minimum: [`DIRTY_LEAST`](Filebench::DIRTY_LEAST).
    pub dirty: u64,
}

/// The objects through which a thread accesses the disk and the log.
#[derive(Clone, Copy)]
struct Disk {
    asks: ObjectId,
    answers: ObjectId,
    writes: ObjectId,
    log: ObjectId,
}

impl Filebench {
    /// Maximum size of one write. A write must fit into `dirty`. Unit: bytes.
    pub const DIRTY_LEAST: u64 = LARGE;

    /// Returns the workload with filebench's number of threads and the default values of the free parameters.
    #[must_use]
    pub fn new(mix: Mix) -> Filebench {
        let work = Length::Fixed(Nanos::us(10));
        Filebench { mix, threads: mix.threads(), loops: None, work, copy: 4_000_000_000, hits: 90, dirty: 64 << 20 }
    }

    /// Returns the period of the pattern of hits and misses, in loops: the minimum number of loops that have a whole
    /// number of misses together.
    fn pattern(&self) -> u64 {
        let missed = self.reads() * (100 - self.hits);
        (1..=100).find(|loops| (loops * missed).is_multiple_of(100)).expect("a hundred do")
    }

    fn reads(&self) -> u64 {
        self.mix.operations().iter().filter(|it| matches!(it, Read(_))).count() as u64
    }

    /// Returns an upper bound on the number of steps of all tasks.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let each = self.mix.operations().len() as u64 * 7;
        // The repeated pattern, and the remaining loops.
        each * 2 * self.pattern() * u64::from(self.threads) + 16
    }

    /// Returns the parameters of the metric.
    #[must_use]
    pub fn operations(&self) -> Operations {
        let all = self.mix.operations();
        let sum = |bytes: fn(&Operation) -> u64| all.iter().map(bytes).sum();
        let count = all.len() as u64;
        Operations {
            is_transactions: false,
            jobs: count,
            operations: count,
            most: None,
            read: sum(|it| if let Read(bytes) = it { *bytes } else { 0 }),
            written: sum(|it| if let Write(bytes) | Log(bytes) = it { *bytes } else { 0 }),
        }
    }

    /// Returns the threads. For a mix without `Sync`, adds the kernel's write-back thread.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let mut plan = Plan::default();
        let mut application = Application::default();
        let log = application.share("log", Object::Mutex);
        let writes = application.share("write-back", Object::Port { window: self.dirty });
        let written = application.share("written back", Object::Inbox { room: 1 << 40 });
        let kernel = self.writes_back(written);
        if kernel.is_some() {
            plan.disk("write-back", writes, written);
        }
        for number in 0..self.threads {
            let asks = application.share(format!("requests {number}"), Object::Port { window: u64::MAX });
            let answers = application.share(format!("done {number}"), Object::Inbox { room: 1 << 40 });
            plan.disk(format!("thread {number}"), asks, answers);
            let steps = self.thread(u64::from(number), Disk { asks, answers, writes, log });
            application.tasks.push(TaskSpec { name: format!("thread-{number}"), params, delay: at_once(), steps });
        }
        if let Some(steps) = kernel {
            let name = "write-back".to_string();
            application.tasks.push(TaskSpec { name, params: Params::default(), delay: at_once(), steps });
        }
        plan.application = application;
        plan
    }

    fn thread(&self, number: u64, disk: Disk) -> Vec<Step> {
        let pattern = self.pattern();
        let turns = |turns: u64| (0..turns).flat_map(|turn| self.turn(number, turn, disk)).collect::<Vec<Step>>();
        let (rounds, rest) = match self.loops {
            None => (None, 0),
            Some(loops) => (Some(loops / pattern), loops % pattern),
        };
        let mut steps = vec![Step::Repeat { times: rounds, body: turns(pattern) }];
        steps.extend(turns(rest));
        steps
    }

    /// Returns the steps of repetition number `turn` of the operations, for thread number `number`.
    fn turn(&self, number: u64, turn: u64, disk: Disk) -> Vec<Step> {
        let (mut steps, mut unsaved) = (Vec::new(), 0);
        let (all, missed) = (self.reads() * self.pattern(), 100 - self.hits);
        let mut at = (turn * self.reads() + number) % all;
        for operation in self.mix.operations() {
            steps.extend([Step::JobBegins { deadline: None }, Step::Run(self.work)]);
            match operation {
                Name => {}
                Read(bytes) => {
                    if (at + 1) * missed / 100 > at * missed / 100 {
                        steps.extend(asked(disk, bytes));
                    }
                    at = (at + 1) % all;
                    steps.push(self.copied(bytes));
                }
                Write(bytes) => {
                    steps.push(self.copied(bytes));
                    match self.synchronises() {
                        true => unsaved += bytes,
                        false => steps.push(Step::Send { pipe: disk.writes, bytes }),
                    }
                }
                Log(bytes) => {
                    steps.extend([Step::Lock(disk.log), self.copied(bytes), Step::Unlock(disk.log)]);
                    steps.push(Step::Send { pipe: disk.writes, bytes });
                }
                Sync => steps.extend(asked(disk, std::mem::take(&mut unsaved))),
            }
            steps.push(Step::JobEnds);
        }
        steps
    }

    fn copied(&self, bytes: u64) -> Step {
        Step::Run(Nanos::ns(1_000_000_000).scale(bytes, self.copy).into())
    }

    /// Returns whether the threads wait until their written data is on the disk.
    fn synchronises(&self) -> bool {
        self.mix.operations().contains(&Sync)
    }

    /// Returns the steps of the task that receives completions from the disk. `None`: the threads receive them.
    fn writes_back(&self, written: ObjectId) -> Option<Vec<Step>> {
        if self.synchronises() {
            return None;
        }
        // The size of every write is a multiple of `APPEND`.
        let parts = self.operations().written / APPEND;
        let times = self.loops.map(|loops| loops.saturating_mul(parts).saturating_mul(u64::from(self.threads)));
        Some(vec![Step::Repeat { times, body: vec![Step::Receive { pipe: written, bytes: APPEND }] }])
    }
}

/// Returns the steps in which a thread sends a request to the disk and waits for the answer.
fn asked(disk: Disk, bytes: u64) -> [Step; 2] {
    [Step::Send { pipe: disk.asks, bytes }, Step::Receive { pipe: disk.answers, bytes }]
}

/// Maximum amount of data that waits for write-back. Unit: bytes.
const DIRTY_MAX: u64 = 1 << 40;

/// Maximum number of threads. The limit bounds the memory for the steps of all threads.
const THREADS_MAX: u32 = 1_024;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "filebench",
    title: "threads of a file server, like the personalities of filebench",
    keys: &["mix", "threads", "loops", "work", "copy", "hits", "dirty"],
    example: "{ filebench = { mix = \"varmail\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let Some(mix) = settings.read("mix", mix) else {
        if settings.table.get("mix").is_none() {
            let problem = Problem::new("the workload `filebench` has no mix").at(settings.table.at, "which?");
            settings.findings.add(problem.help(format!("use {}", WORKLOAD.example)));
        }
        return None;
    };
    let default = Filebench::new(mix);
    let dirty = |value: &DeValue<'_>| form::count("dirty", value, Filebench::DIRTY_LEAST..=DIRTY_MAX);
    let filebench = Filebench {
        threads: settings.few("threads", 1, THREADS_MAX, default.threads),
        loops: settings.read("loops", |value| form::count("loops", value, 1..=ROUNDS_MAX)),
        work: settings.above_zero("work", default.work),
        copy: settings.read("copy", |value| bandwidth("copy", value)).unwrap_or(default.copy),
        hits: percent(settings, "hits", default.hits),
        dirty: settings.read("dirty", dirty).unwrap_or(default.dirty),
        ..default
    };
    settings.done(filebench)
}

fn mix(value: &DeValue<'_>) -> Result<Mix, Wrong> {
    form::word("mix", value, &Mix::NAMES, "\"varmail\", \"fileserver\", \"webserver\" or \"webproxy\"")
}

impl ApplicationWorkload for Filebench {
    fn tasks(&self) -> u64 {
        u64::from(self.threads) + 1
    }

    fn steps(&self) -> u64 {
        Filebench::steps(self)
    }

    fn plan(&self, params: Params) -> Plan {
        Filebench::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Operations(self.operations()))
    }
}
