//! Papers as experiments, from their files to pages for readers.

mod all;
mod figures;
mod files;
mod played;
mod tiny;
