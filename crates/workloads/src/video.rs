use super::{Audio, Waits, parts};
use crate::ApplicationWorkload;
use crate::Selected;
use crate::Settings;
use crate::WorkloadDescriptor;
use crate::fork_join::waits;
use crate::metrics::Film;
use crate::metrics::Metric;
use crate::network::Plan;
use input::form;
use input::problem::Wrong;
use sched::{Nanos, Params};
use sim::program::{Length, TimerMode};
use sim::{Application, Step, TaskSpec};
use toml::de::DeValue;

/// The treatment of late frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frames {
    /// The player shows all frames, and delays that it does not make up for extend the film (`poris`, section 6.2:
    /// MPlayer 1.1 drops no frames).
    All {
        /// Maximum delay that the player makes up for by showing frames as soon as they are decoded. After a longer
        /// delay, the player continues as if no delay had occurred. In mplayer.c of MPlayer 1.1, the maximum is 200 ms
        /// without sound.
        catches_up: Nanos,
    },
    /// The player neither decodes nor shows a frame that is more than `late` behind (`bmq`, section 4.4:
    /// `-hardframedrop`).
    DropLate {
        /// Maximum delay of a frame that is not dropped.
        late: Nanos,
    },
}

impl Frames {
    /// Default maximum delay of a frame that is not dropped. Source: mplayer.c of MPlayer 1.1, which accepts 100 ms
    /// between picture and sound.
    pub const LATE: Nanos = Nanos::ms(100);
}

/// A film: the player decodes each frame as soon as the previous frame is shown, and shows the frame when it is due.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Video {
    /// Frame rate. Unit: thousandths of a frame per second. Range: 1 to [`FPS_MILLI_MAX`](Video::FPS_MILLI_MAX).
    pub fps_milli: u64,
    /// Duration of the film. Range: above zero.
    pub length: Nanos,
    /// CPU time to decode a frame, of all threads together.
    pub decode: Length,
    /// Number of threads that decode a frame in equal parts. Minimum: 1.
    pub threads: u32,
    /// Whether the threads sleep or spin while they wait for each other, before and after each frame.
    pub waits: Waits,
    /// Treatment of late frames.
    pub frames: Frames,
    /// Sound of the film, if any.
    pub sound: Option<Audio>,
}

impl Video {
    /// Maximum frame rate, in thousandths of a frame per second.
    pub const FPS_MILLI_MAX: u64 = 1_000_000;

    /// Returns the film of `bmq` (24 frames per second, 90 s), on one thread, without sound. All frames are shown.
    #[must_use]
    pub fn new(decode: Length) -> Video {
        Video {
            fps_milli: 24_000,
            length: Nanos::s(90),
            decode,
            threads: 1,
            waits: Waits::Sleeping,
            frames: Frames::All { catches_up: Nanos::ZERO },
            sound: None,
        }
    }

    /// Returns the time from one frame to the next.
    #[must_use]
    pub fn period(&self) -> Nanos {
        Nanos::ns((1_000_000_000_000 + self.fps_milli / 2) / self.fps_milli)
    }

    /// Returns the parameters of the metric.
    #[must_use]
    pub fn film(&self) -> Film {
        let period = self.period();
        let frames = (self.length.as_ns().saturating_add(period.as_ns() / 2) / period.as_ns()).max(1);
        Film { period, frames, sound: self.sound.map(|sound| sound.sound()) }
    }

    /// Returns the player, its helper threads for decoding, and the audio task, if any.
    #[must_use]
    pub fn application(&self, params: Params) -> Application {
        let mut application = Application::default();
        let Film { period, frames, .. } = self.film();
        let meeting = (self.threads > 1).then(|| application.share("frame", self.waits.barrier(self.threads)));
        let decoded = |part: Length| {
            let meets = meeting.map(Step::Barrier);
            [meets.clone(), Some(Step::Run(part)), meets].into_iter().flatten()
        };
        let mut names = std::iter::once("picture".to_string()).chain((1..).map(|nth| format!("decoder-{nth}")));
        for (nth, part) in parts(self.decode, self.threads).enumerate() {
            let mut body = Vec::new();
            if nth > 0 {
                body.extend(decoded(part));
            } else {
                let (mode, drop) = match self.frames {
                    Frames::All { catches_up: Nanos::ZERO } => (TimerMode::Relative, None),
                    Frames::All { catches_up } => (TimerMode::CatchingUp { most: catches_up }, None),
                    Frames::DropLate { late } => (TimerMode::Absolute, Some(Step::DropLate { timer: 0, period, late })),
                };
                body.extend(drop);
                body.push(Step::JobBegins { deadline: Some(period) });
                body.extend(decoded(part));
                body.extend([Step::Timer { timer: 0, period, mode }, Step::JobEnds]);
            }
            let mut steps = vec![Step::Repeat { times: (nth == 0).then_some(frames), body }];
            // After the last frame, the other threads have no work left.
            steps.extend((nth == 0).then_some(Step::Quit));
            let (name, delay) = (names.next().unwrap_or_default(), Length::Fixed(Nanos::ZERO));
            application.tasks.push(TaskSpec { name, params, delay, steps });
        }
        application.tasks.extend(self.sound.map(|sound| sound.task("sound", params)));
        application
    }
}

/// Maximum number of frames of a film.
const FRAMES_MAX: u64 = 1 << 32;

/// Entry of the workload in [`ALL`](crate::ALL).
pub(crate) const WORKLOAD: WorkloadDescriptor = WorkloadDescriptor {
    name: "video",
    title: "playback of a film",
    keys: &["fps", "length", "decode", "threads", "waits", "spin", "frames", "late", "sound"],
    example: "{ video = { decode = \"10ms\" } }",
    read,
};

fn read(settings: &mut Settings<'_, '_, '_, '_>) -> Option<Selected> {
    let default = Video::new(settings.required("decode"));
    let fps = settings.read("fps", |value| form::thousandths("fps", value, 1..=Video::FPS_MILLI_MAX));
    let late = settings.read("late", |value| form::time("late", value));
    let drops = settings.read("frames", drops_frames).unwrap_or(false);
    let frames = match drops {
        true => Frames::DropLate { late: late.unwrap_or(Frames::LATE) },
        false => Frames::All { catches_up: late.unwrap_or(Nanos::ZERO) },
    };
    let sound = settings.read("sound", |value| form::switch("sound", value)).unwrap_or(false);
    let video = Video {
        fps_milli: fps.unwrap_or(default.fps_milli),
        length: settings.time("length", default.length),
        threads: settings.tasks("threads", default.threads),
        waits: waits(settings, default.waits),
        frames,
        sound: sound.then(Audio::default),
        ..default
    };
    if settings.right && video.film().frames > FRAMES_MAX {
        let right = format!("use at most {FRAMES_MAX} frames");
        settings.wrong(Wrong::new("the film has too many frames", "too long", right), "length");
    }
    settings.done(video)
}

/// Reads whether a player drops late frames.
fn drops_frames(value: &DeValue<'_>) -> Result<bool, Wrong> {
    form::word("frames", value, &[("all", false), ("drop-late", true)], "\"all\" or \"drop-late\"")
}

impl ApplicationWorkload for Video {
    fn tasks(&self) -> u64 {
        u64::from(self.threads) + u64::from(self.sound.is_some())
    }

    fn plan(&self, params: Params) -> Plan {
        Plan::alone(self.application(params))
    }

    fn metric(&self) -> Option<Metric> {
        Some(Metric::Film(self.film()))
    }
}
