use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::metrics::Metric;
use crate::metrics::Sound;
use crate::network::Plan;
use crate::settings::fits;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};

/// Sound: a player fills a buffer. Then the player adds one period of sound whenever one period has been played. Source
/// of the default period: a frame of MP3 has 1152 samples at 44.1 kHz (ISO/IEC 11172-3). By default, the buffer holds
/// two frames, like the usual two fragments of a sound card.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Audio {
    /// Duration of a period. The player decodes a whole period at a time. Range: above zero.
    pub period: Nanos,
    /// CPU time to decode a period.
    pub work: Length,
    /// Capacity of the buffer, in periods. Minimum: 1.
    pub buffers: u32,
    /// Duration of the sound, excluding the periods that fill the buffer at the start. `None`: without end.
    pub length: Option<Nanos>,
}

impl Default for Audio {
    fn default() -> Audio {
        Audio { period: Nanos::us(26_122), work: Length::Fixed(Nanos::ms(1)), buffers: 2, length: None }
    }
}

impl Audio {
    /// Returns the parameters of the metric.
    #[must_use]
    pub fn sound(&self) -> Sound {
        Sound { period: self.period, periods: self.buffers }
    }

    /// Returns the player: the task `name`, which fills the buffer.
    pub(super) fn task(&self, name: &str, params: Params) -> TaskSpec {
        let fill = [Step::JobBegins { deadline: Some(self.period) }, Step::Run(self.work), Step::JobEnds];
        let mut beat = vec![Step::Timer { timer: 0, period: self.period, mode: TimerMode::Absolute }];
        beat.extend(fill.clone());
        let times = self.length.map(|length| length.as_ns() / self.period.as_ns());
        let steps = vec![
            Step::Repeat { times: Some(u64::from(self.buffers)), body: fill.to_vec() },
            Step::Repeat { times, body: beat },
        ];
        TaskSpec { name: name.to_string(), params, delay: Length::Fixed(Nanos::ZERO), steps }
    }

    /// Returns an application with the player as its only task.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        Application { tasks: vec![self.task("sound", params)], ..Application::default() }
    }
}

/// Maximum capacity of the buffer, in periods.
const BUFFERS_MAX: u32 = 10_000;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "audio",
    title: "playback of sound",
    keys: &["period", "work", "buffers", "length"],
    example: "{ audio = { work = \"1ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Audio::default();
    let audio = Audio {
        period: settings.time("period", default.period),
        work: settings.above_zero("work", default.work),
        buffers: settings.few("buffers", 1, BUFFERS_MAX, default.buffers),
        length: settings.read("length", |value| form::time_above_zero("length", value)),
    };
    fits(settings, audio.work, audio.period, "the period");
    if let Some(length) = audio.length.filter(|&length| settings.right && length < audio.period) {
        let wrong = Wrong::new(
            format!("the sound ({length}) is shorter than a period of it ({})", audio.period),
            "shorter than a period",
            "use a length of at least one period",
        );
        settings.wrong(wrong, "length");
    }
    settings.done(audio)
}

impl ApplicationWorkload for Audio {
    fn tasks(&self) -> u64 {
        1
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Sound(self.sound()))
    }
}
