use super::at_once;
use crate::ApplicationWorkload;
use crate::ROUNDS_MAX;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::{At, Device, Peer, Plan};
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Object, Step, TaskSpec};

/// A program that rips a CD (`vsched-2005`, figure 10). The disc turns at a constant speed. In each turn, the drive
/// reads the data of one track into its buffer. The drive stops if its buffer is full. To continue, the drive seeks
/// back and waits for the next turn. The program requests the data of one track, waits for the data and computes. In a
/// VM, the driver of the disk handles each request and each answer. The source states the total duration, but does not
/// describe the drive. The default drive reads at about ten times the speed of an audio CD (1.76 MB/s at 50 turns per
/// second). The default disc lasts 37 s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CdReader {
    /// Number of turns of the disc. Minimum: 1.
    pub turns: u64,
    /// Duration of a turn. Range: above zero.
    pub turn: Nanos,
    /// Capacity of the drive's buffer, in turns. Minimum: 1.
    pub buffer: u64,
    /// Duration of a seek back after a stop.
    pub seek: Length,
    /// CPU time to process the data of a turn.
    pub work: Length,
}

/// Amount of data per turn. The amount affects no result. Unit: bytes.
const TRACK: u64 = 35_280;
/// Size of a request: a command packet of ATAPI (SFF-8020i). Unit: bytes.
const COMMAND: u64 = 12;

impl Default for CdReader {
    fn default() -> CdReader {
        // The work is 5 % of a CPU. The seek time is assumed; a drive of 1993 was required to seek in at most 400 ms
        // (MPC Level 2).
        let (seek, work) = (Length::Fixed(Nanos::ms(100)), Length::Fixed(Nanos::ms(1)));
        CdReader { turns: 1_850, turn: Nanos::ms(20), buffer: 10, seek, work }
    }
}

impl CdReader {
    /// Returns the duration for a program that keeps up with the drive, excluding the work for the last turn.
    #[must_use]
    pub fn alone(&self) -> Nanos {
        self.turn.saturating_mul(self.turns)
    }

    /// Returns the program, and two tasks outside for the drive: the head, and the task that answers requests from the
    /// buffer.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let (mut reader, mut drive) = (Application::default(), Application::default());
        let asks = reader.share("requests", Object::Port { window: u64::MAX });
        let answers = reader.share("tracks", Object::Inbox { room: 1 << 40 });
        let body = vec![
            Step::Send { pipe: asks, bytes: COMMAND },
            Step::Receive { pipe: answers, bytes: TRACK },
            Step::JobBegins { deadline: None },
            Step::Run(self.work),
            Step::JobEnds,
        ];
        reader.tasks.push(self.task("reader", params, body));
        let asked = drive.share("requests", Object::Inbox { room: 1 << 40 });
        let answered = drive.share("tracks", Object::Port { window: u64::MAX });
        let buffer = drive.share("buffer", Object::Pipe { capacity: TRACK.saturating_mul(self.buffer) });
        let head = vec![
            Step::Timer { timer: 0, period: self.turn, mode: TimerMode::Skipping },
            Step::Send { pipe: buffer, bytes: TRACK },
            Step::Resume { timer: 0, pause: self.seek },
        ];
        drive.tasks.push(self.task("drive", Params::default(), head));
        let answers_each = vec![
            Step::Receive { pipe: asked, bytes: COMMAND },
            Step::Receive { pipe: buffer, bytes: TRACK },
            Step::Send { pipe: answered, bytes: TRACK },
        ];
        drive.tasks.push(self.task("buffer", Params::default(), answers_each));
        let mut plan = Plan::alone(reader);
        plan.peers.push(Peer { at: At::Outside, application: drive });
        plan.link("request", (0, asks), (1, asked)).over = Device::Drive;
        plan.link("track", (1, answered), (0, answers)).over = Device::Drive;
        plan
    }

    /// Returns a task that repeats `body` for every turn.
    fn task(&self, name: &str, params: Params, body: Vec<Step>) -> TaskSpec {
        let steps = vec![Step::Repeat { times: Some(self.turns), body }];
        TaskSpec { name: name.to_string(), params, delay: at_once(), steps }
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "cd_reader",
    title: "a CD drive and a program that reads from it",
    keys: &["turns", "turn", "buffer", "seek", "work"],
    example: "{ cd_reader = { buffer = 10 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = CdReader::default();
    let reader = CdReader {
        turns: settings.count("turns", ROUNDS_MAX, default.turns),
        turn: settings.time("turn", default.turn),
        buffer: settings.count("buffer", 1 << 20, default.buffer),
        seek: settings.length("seek", default.seek),
        work: settings.above_zero("work", default.work),
    };
    settings.done(reader)
}

impl ApplicationWorkload for CdReader {
    fn tasks(&self) -> u64 {
        3
    }

    fn plan(&self, params: Params) -> Plan {
        CdReader::plan(self, params)
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Completion { alone: Some(self.alone()) })
    }
}
