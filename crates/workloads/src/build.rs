use super::fixed;
use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use sched::{Nanos, Params};
use sim::program::Length;
use sim::{Application, Object, Step, TaskSpec};
use std::sync::Arc;

/// A build: `make` keeps the given number of compilers running (`-j`). Each compiler reads its file, computes and ends.
/// After the last compiler, `make` links the files. The parameters are free: no source states them. The defaults
/// approximate the C files of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Build {
    /// Number of files. Minimum: 1.
    pub files: u64,
    /// Number of concurrent compilers. Minimum: 1.
    pub jobs: u32,
    /// CPU time to compile a file.
    pub compile: Length,
    /// Time to read a file. The read uses no CPU time.
    pub reads: Length,
    /// CPU time to link all files.
    pub link: Length,
}

impl Default for Build {
    fn default() -> Build {
        Build {
            files: 100,
            jobs: 2,
            compile: Length::Uniform { least: Nanos::ms(50), most: Nanos::ms(350) },
            reads: Length::Uniform { least: Nanos::ZERO, most: Nanos::ms(20) },
            link: Length::Fixed(Nanos::ms(500)),
        }
    }
}

impl Build {
    /// Returns the duration if each compiler has its own CPU and all costs are zero. `None`: the duration is random.
    #[must_use]
    pub fn alone(&self) -> Option<Nanos> {
        let file = fixed(self.compile)?.saturating_add(fixed(self.reads)?);
        let turns = self.files.div_ceil(u64::from(self.jobs));
        Some(file.saturating_mul(turns).saturating_add(fixed(self.link)?))
    }

    /// Returns `make`, which forks the compilers.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let slots = application.share("slots", Object::Semaphore { most: self.jobs });
        let delay = Length::Fixed(Nanos::ZERO);
        let steps = vec![Step::Sleep(self.reads), Step::Run(self.compile), Step::Post(slots)];
        let compiler = Arc::new(TaskSpec { name: "cc".to_string(), params, delay, steps });
        let steps = vec![
            Step::Repeat { times: Some(u64::from(self.jobs)), body: vec![Step::Post(slots)] },
            Step::Repeat { times: Some(self.files), body: vec![Step::Take(slots), Step::Fork(compiler)] },
            Step::Join,
            Step::Run(self.link),
        ];
        application.tasks.push(TaskSpec { name: "make".to_string(), params, delay, steps });
        application
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "build",
    title: "many short compilers, like the build of a kernel",
    keys: &["files", "jobs", "compile", "reads", "link"],
    example: "{ build = { jobs = 4 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Build::default();
    let build = Build {
        files: settings.count("files", ROUNDS_MAX, default.files),
        jobs: settings.tasks("jobs", default.jobs),
        compile: settings.above_zero("compile", default.compile),
        reads: settings.length("reads", default.reads),
        link: settings.length("link", default.link),
    };
    settings.done(build)
}

impl ApplicationWorkload for Build {
    fn tasks(&self) -> u64 {
        1 + u64::from(self.jobs)
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Completion { alone: self.alone() })
    }
}
