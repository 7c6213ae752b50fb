//! Traces in each format: the timeline, text, Chrome, ftrace and pictures.

mod chrome;
mod chrome_world;
mod ftrace;
mod gantt;
mod gantt_world;
mod support;
mod svg;
mod svg_world;
mod text;
mod timeline;
mod world;
