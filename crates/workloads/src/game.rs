use super::Audio;
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::Video;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::network::Plan;
use crate::settings::fits;
use input::form;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};

/// A game. At a fixed rate, the game reads the player's input, updates the game world and draws a picture. The game
/// skips a picture if it is late for the start of this picture. Anchor of the default: `vsched-2005`, figure 11. With a
/// sixth of the CPU, a game with sound has the grade good; with a ninth, it has a worse grade.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Game {
    /// Picture rate. Unit: thousandths of a picture per second. Range: 1 to
    /// [`Video::FPS_MILLI_MAX`](super::Video::FPS_MILLI_MAX).
    pub fps_milli: u64,
    /// CPU time for a picture.
    pub work: Length,
    /// Sound of the game, if any.
    pub sound: Option<Audio>,
}

impl Default for Game {
    /// Returns a game with 30 pictures per second, and sound with little work. Drawing the pictures takes a seventh of
    /// a CPU.
    fn default() -> Game {
        let sound = Audio { work: Length::Fixed(Nanos::us(200)), ..Audio::default() };
        Game { fps_milli: 30_000, work: Length::Fixed(Nanos::us(4_800)), sound: Some(sound) }
    }
}

impl Game {
    /// Returns the time from one picture to the next.
    #[must_use]
    pub fn period(&self) -> Nanos {
        Nanos::ns((1_000_000_000_000 + self.fps_milli / 2) / self.fps_milli)
    }

    /// Returns the task that draws the pictures and, if the game has sound, the task that plays the sound.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let period = self.period();
        let body = vec![
            Step::Timer { timer: 0, period, mode: TimerMode::Skipping },
            Step::JobBegins { deadline: Some(period) },
            Step::Run(self.work),
            Step::JobEnds,
        ];
        let steps = vec![Step::Repeat { times: None, body }];
        let delay = Length::Fixed(Nanos::ZERO);
        let mut tasks = vec![TaskSpec { name: "picture".to_string(), params, delay, steps }];
        tasks.extend(self.sound.map(|sound| sound.task("sound", params)));
        Application { tasks, ..Application::default() }
    }
}

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "game",
    title: "a game loop",
    keys: &["fps", "work", "sound"],
    example: "{ game = { fps = 30 } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Game::default();
    let fps = settings.read("fps", |value| form::thousandths("fps", value, 1..=Video::FPS_MILLI_MAX));
    let sound = settings.read("sound", |value| form::switch("sound", value)).unwrap_or(true);
    let game = Game {
        fps_milli: fps.unwrap_or(default.fps_milli),
        work: settings.above_zero("work", default.work),
        sound: default.sound.filter(|_| sound),
    };
    fits(settings, game.work, game.period(), "the time between two pictures");
    settings.done(game)
}

impl ApplicationWorkload for Game {
    fn tasks(&self) -> u64 {
        1 + u64::from(self.sound.is_some())
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Beats { period: self.period(), sound: self.sound.map(|sound| sound.sound()) })
    }
}
