//! Named workloads. Each workload converts a few documented parameters to an [`Application`](sim::Application) or to a
//! single entity. An application may have a metric.
//!
//! [`ALL`] lists the workloads. Each workload is one file with its parameters, its tasks, its metric and its
//! [`WorkloadDescriptor`].

mod application;
mod audio;
mod bsp;
mod build;
mod cd_reader;
mod cyclictest;
mod dd;
mod descriptor;
mod filebench;
mod fork_join;
mod game;
mod hackbench;
mod iperf;
pub mod length;
mod load_playback;
pub mod metrics;
mod micro_batch;
mod naming;
pub mod network;
mod parsec;
mod periodic;
mod postmark;
mod search;
mod settings;
mod startup;
mod stream;
#[cfg(test)]
mod tests;
mod video;
mod voip;
mod web;
mod web_server;

pub use application::{ApplicationWorkload, Selected};
pub use audio::Audio;
pub use bsp::Bsp;
pub use build::Build;
pub use cd_reader::CdReader;
pub use cyclictest::Cyclictest;
pub use dd::Dd;
pub use descriptor::{ReadSettings, WorkloadDescriptor};
pub use filebench::{Filebench, Mix};
pub use fork_join::{ForkJoin, Waits};
pub use game::Game;
pub use hackbench::{Channel, Hackbench};
pub use iperf::{Direction, Iperf};
pub use length::{is_nothing, least, mean};
pub use load_playback::LoadPlayback;
pub use micro_batch::MicroBatch;
pub use naming::{called, within};
pub use parsec::{PROGRAMS, Parsec, Program};
pub use periodic::{Periodic, Phase};
pub use postmark::Postmark;
pub use search::Search;
pub use settings::{ROUNDS_MAX, Settings, TASKS_MAX};
pub use startup::Startup;
pub use stream::Stream;
pub use video::{Frames, Video};
pub use voip::Voip;
pub use web::Web;
pub use web_server::{Arrivals, WebServer};

pub(crate) use length::{at_once, fixed, parts};

/// Every workload, in the order of the manual. To add a workload, add a file with a `WORKLOAD`, declare its module
/// above, and add a line here.
pub const ALL: &[&WorkloadDescriptor] = &[
    &periodic::WORKLOAD,
    &cyclictest::WORKLOAD,
    &hackbench::WORKLOAD,
    &startup::WORKLOAD,
    &fork_join::WORKLOAD,
    &video::WORKLOAD,
    &audio::WORKLOAD,
    &game::WORKLOAD,
    &web::WORKLOAD,
    &bsp::WORKLOAD,
    &parsec::WORKLOAD,
    &micro_batch::WORKLOAD,
    &build::WORKLOAD,
    &stream::WORKLOAD,
    &load_playback::WORKLOAD,
    &web_server::WORKLOAD,
    &iperf::WORKLOAD,
    &dd::WORKLOAD,
    &postmark::WORKLOAD,
    &filebench::WORKLOAD,
    &cd_reader::WORKLOAD,
    &voip::WORKLOAD,
    &search::WORKLOAD,
];

/// Returns the workload with this `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static WorkloadDescriptor> {
    ALL.iter().copied().find(|workload| workload.name == name)
}
