//! Tests of experiments: their files, their runs, and the figures and pages with their results.

mod all;
mod figures;
mod files;
mod judged;
mod marks;
mod panels;
mod played;
mod tiny;
