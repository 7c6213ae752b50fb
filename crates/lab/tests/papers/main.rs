//! Tests of papers as experiments, from files to pages for readers.

mod all;
mod figures;
mod files;
mod played;
mod tiny;
