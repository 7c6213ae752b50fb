use super::at_once;
use crate::network::{At, Device, Peer, Plan};
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Object, Step, TaskSpec};

/// A program that reads a disc from a drive that turns whether or not it is kept up with (ripping a CD: `vsched-2005`, figure 10). In each turn
/// the drive reads a track's worth into its buffer; where there is no room for it, it waits for room, and then for the next turn. The
/// program fetches a track, and computes. The source states how long all of it takes, and not the drive; the default's drive turns about
/// as fast as one that reads ten times as fast as music is played (1.76 MB/s, and 50 turns in a second), and its disc is 37 s long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CdReader {
    /// How many turns the disc has. Range: 1 ….
    pub turns: u64,
    /// How long a turn takes. Range: above zero.
    pub turn: Nanos,
    /// How many turns the drive's buffer holds. Range: 1 ….
    pub buffer: u64,
    /// CPU time for what is read in a turn.
    pub work: Length,
}

/// What is read in a turn, which nothing depends on. Unit: bytes.
const TRACK: u64 = 35_280;

impl Default for CdReader {
    fn default() -> CdReader {
        // 5 % of a CPU.
        CdReader { turns: 1_850, turn: Nanos::ms(20), buffer: 10, work: Length::Fixed(Nanos::ms(1)) }
    }
}

impl CdReader {
    /// How long it takes who keeps up with the drive, the work for the last turn apart.
    #[must_use]
    pub fn alone(&self) -> Nanos {
        self.turn.saturating_mul(self.turns)
    }

    /// The program, and the drive outside.
    #[must_use]
    pub fn plan(&self, params: Params) -> Plan {
        let (mut reader, mut drive) = (Application::default(), Application::default());
        let inbox = reader.share("buffer", Object::Inbox { room: 1 << 40 });
        let port = drive.share("head", Object::Port { window: TRACK.saturating_mul(self.buffer) });
        let body = vec![
            Step::Receive { pipe: inbox, bytes: TRACK },
            Step::JobBegins { deadline: None },
            Step::Run(self.work),
            Step::JobEnds,
        ];
        let steps = vec![Step::Repeat { times: Some(self.turns), body }];
        reader.tasks.push(TaskSpec { name: "reader".to_string(), params, delay: at_once(), steps });
        let turn = Step::Timer { timer: 0, period: self.turn, mode: TimerMode::Skipping };
        let body = vec![turn, Step::Send { pipe: port, bytes: TRACK }];
        let steps = vec![Step::Repeat { times: Some(self.turns), body }];
        let name = "drive".to_string();
        drive.tasks.push(TaskSpec { name, params: Params::default(), delay: at_once(), steps });
        let mut plan = Plan::alone(reader);
        plan.peers.push(Peer { at: At::Outside, application: drive });
        plan.link("drive", (1, port), (0, inbox)).over = Device::Drive;
        plan
    }
}
