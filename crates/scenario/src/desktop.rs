//! The applications that people look at, listen to and click, as typed.

use super::settings::Settings;
use super::table::Table;
use super::{form, number};
use input::problem::{Findings, Wrong};
use sched::Nanos;
use sim::program::Length;
use workloads::{Audio, Frames, Game, Video, Web};

/// The keys of `video`.
pub(crate) const VIDEO_KEYS: &[&str] = &["fps", "length", "decode", "threads", "waits", "frames", "late", "sound"];
/// The keys of `audio`.
pub(crate) const AUDIO_KEYS: &[&str] = &["period", "work", "buffers", "length"];
/// The keys of `game`.
pub(crate) const GAME_KEYS: &[&str] = &["fps", "work", "sound"];
/// The keys of `web`.
pub(crate) const WEB_KEYS: &[&str] = &["think", "work"];

/// The most frames of a film.
const FRAMES_MAX: u64 = 1 << 32;
/// The most periods of a sound buffer.
const BUFFERS_MAX: u32 = 10_000;

pub(super) fn video(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Video> {
    let mut settings = Settings::new(table, findings);
    let default = Video::new(settings.required("decode", "video"));
    let fps = settings.read("fps", |value| number::thousandths("fps", value, 1..=Video::FPS_MILLI_MAX));
    let late = settings.read("late", |value| form::time("late", value));
    let drops = settings.read("frames", form::drops_frames).unwrap_or(false);
    let frames = match drops {
        true => Frames::DropLate { late: late.unwrap_or(Frames::LATE) },
        false => Frames::All { catches_up: late.unwrap_or(Nanos::ZERO) },
    };
    let sound = settings.read("sound", |value| form::switch("sound", value)).unwrap_or(false);
    let video = Video {
        fps_milli: fps.unwrap_or(default.fps_milli),
        length: settings.time("length", default.length),
        threads: settings.tasks("threads", default.threads),
        waits: settings.read("waits", form::waits).unwrap_or(default.waits),
        frames,
        sound: sound.then(Audio::default),
        ..default
    };
    if settings.right && video.film().frames > FRAMES_MAX {
        let right = format!("use at most {FRAMES_MAX} frames");
        settings.wrong(Wrong::new("the film has too many frames", "too long", right), "length");
    }
    settings.right.then_some(video)
}

pub(super) fn audio(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Audio> {
    let mut settings = Settings::new(table, findings);
    let default = Audio::default();
    let audio = Audio {
        period: settings.time("period", default.period),
        work: settings.above_zero("work", default.work),
        buffers: settings.few("buffers", 1, BUFFERS_MAX, default.buffers),
        length: settings.read("length", |value| form::time_above_zero("length", value)),
    };
    fits(&mut settings, audio.work, audio.period, "the period");
    if let Some(length) = audio.length.filter(|&length| settings.right && length < audio.period) {
        let wrong = Wrong::new(
            format!("the sound ({length}) is shorter than a period of it ({})", audio.period),
            "shorter than a period",
            "use a length of at least one period",
        );
        settings.wrong(wrong, "length");
    }
    settings.right.then_some(audio)
}

pub(super) fn game(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Game> {
    let mut settings = Settings::new(table, findings);
    let default = Game::default();
    let fps = settings.read("fps", |value| number::thousandths("fps", value, 1..=Video::FPS_MILLI_MAX));
    let sound = settings.read("sound", |value| form::switch("sound", value)).unwrap_or(true);
    let game = Game {
        fps_milli: fps.unwrap_or(default.fps_milli),
        work: settings.above_zero("work", default.work),
        sound: default.sound.filter(|_| sound),
    };
    fits(&mut settings, game.work, game.period(), "the time between two pictures");
    settings.right.then_some(game)
}

pub(super) fn web(table: &Table<'_, '_>, findings: &mut Findings) -> Option<Web> {
    let mut settings = Settings::new(table, findings);
    let default = Web::default();
    let web =
        Web { think: settings.above_zero("think", default.think), work: settings.above_zero("work", default.work) };
    settings.right.then_some(web)
}

/// Refuses work that never fits into the time there is for it.
fn fits(settings: &mut Settings<'_, '_, '_, '_>, work: Length, period: Nanos, what: &str) {
    let least = workloads::least(work);
    if settings.right && least > period {
        let message = format!("the work ({least}) is longer than {what} ({period})");
        settings.wrong(Wrong::new(message, "too long", format!("use at most {period}")), "work");
    }
}
