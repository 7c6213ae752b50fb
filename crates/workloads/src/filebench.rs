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

/// One operation of a file server's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    /// Opens, closes, creates, deletes a file, or asks what is known of it.
    Name,
    /// Reads a file of so many bytes.
    Read(u64),
    /// Writes so many bytes into a file of its own.
    Write(u64),
    /// The same into one that all write to, one after the other.
    Log(u64),
    /// Waits until what it has written is on the disk.
    Sync,
}

use Operation::{Log, Name, Read, Sync, Write};

/// What threads do again and again: one of filebench's personalities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// A mail server: files are written and synchronised.
    Varmail,
    /// A file server: files are created, appended to, read and deleted.
    Fileserver,
    /// A web server: ten files are read for each line of the log.
    Webserver,
    /// A web proxy: one file is replaced for five that are read.
    Webproxy,
}

/// The sizes of these files: meanfilesize and meanappendsize. An append is of any size up to that, half of it in the mean.
const FILE: u64 = 16 << 10;
const LARGE: u64 = 128 << 10;
const APPEND: u64 = (16 << 10) / 2;

impl Mix {
    /// Its name, as that of its file in filebench's folder `workloads`.
    pub const NAMES: [(&str, Mix); 4] = [
        ("varmail", Mix::Varmail),
        ("fileserver", Mix::Fileserver),
        ("webserver", Mix::Webserver),
        ("webproxy", Mix::Webproxy),
    ];

    /// How many threads its file has. Source: nthreads in filebench's workloads/*.f.
    #[must_use]
    pub fn threads(self) -> u32 {
        match self {
            Mix::Varmail => 16,
            Mix::Fileserver => 50,
            Mix::Webserver | Mix::Webproxy => 100,
        }
    }

    /// The flowops of its thread, in order. Source: the same files.
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

/// A file server's threads, after filebench: each does the operations of its mix again and again. Files are taken at their mean sizes.
/// What is read is in the page cache or not, by a fixed pattern that no two threads are at the same place of; what is written goes there,
/// and to the disk in the background or where a thread waits for that (fsync). The CPU time of an operation and the cache are free:
/// filebench does not state them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filebench {
    /// What they do.
    pub mix: Mix,
    /// How many threads. Range: 1 ….
    pub threads: u32,
    /// How often each does all of it; `None`: without end.
    pub loops: Option<u64>,
    /// CPU time of each operation, what it copies apart.
    pub work: Length,
    /// How much is copied in a second. Unit: bytes. Range: 1 ….
    pub copy: u64,
    /// Of what is read, the share that is in the page cache. Unit: percent. Range: 0 … 100.
    pub hits: u64,
    /// How much may wait to be written back. Unit: bytes. Range: [`DIRTY_LEAST`](Filebench::DIRTY_LEAST) ….
    pub dirty: u64,
}

/// What threads share, and what is a thread's own.
#[derive(Clone, Copy)]
struct Disk {
    asks: ObjectId,
    answers: ObjectId,
    writes: ObjectId,
    log: ObjectId,
}

impl Filebench {
    /// The most that is written at once, which has to have room. Unit: bytes.
    pub const DIRTY_LEAST: u64 = LARGE;

    /// As filebench has it.
    #[must_use]
    pub fn new(mix: Mix) -> Filebench {
        let work = Length::Fixed(Nanos::us(10));
        Filebench { mix, threads: mix.threads(), loops: None, work, copy: 4_000_000_000, hits: 90, dirty: 64 << 20 }
    }

    /// Loops after which the pattern of misses begins anew: so few that it comes out even.
    fn pattern(&self) -> u64 {
        let missed = self.reads() * (100 - self.hits);
        (1..=100).find(|loops| (loops * missed).is_multiple_of(100)).expect("a hundred do")
    }

    fn reads(&self) -> u64 {
        self.mix.operations().iter().filter(|it| matches!(it, Read(_))).count() as u64
    }

    /// How many steps all its tasks have, at most.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let each = self.mix.operations().len() as u64 * 7;
        // A pattern that is repeated, and what is over.
        each * 2 * self.pattern() * u64::from(self.threads) + 16
    }

    /// What its metric counts.
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

    /// The threads, and the kernel's that writes back.
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

    /// All operations once: turn number `turn` of a round of thread number `number`.
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

    /// Whether threads wait themselves until the disk has what they write.
    fn synchronises(&self) -> bool {
        self.mix.operations().contains(&Sync)
    }

    /// What takes note that something is on the disk; `None`: threads do so themselves.
    fn writes_back(&self, written: ObjectId) -> Option<Vec<Step>> {
        if self.synchronises() {
            return None;
        }
        // Every write is a multiple of that.
        let parts = self.operations().written / APPEND;
        let times = self.loops.map(|loops| loops.saturating_mul(parts).saturating_mul(u64::from(self.threads)));
        Some(vec![Step::Repeat { times, body: vec![Step::Receive { pipe: written, bytes: APPEND }] }])
    }
}

/// A thread waits for its disk.
fn asked(disk: Disk, bytes: u64) -> [Step; 2] {
    [Step::Send { pipe: disk.asks, bytes }, Step::Receive { pipe: disk.answers, bytes }]
}

/// The most bytes that wait to be written back.
const DIRTY_MAX: u64 = 1 << 40;

/// The most threads of a filebench: their steps are all laid out.
const THREADS_MAX: u32 = 1_024;

/// The entry in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "filebench",
    title: "threads of a file server, as the personalities of filebench",
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
