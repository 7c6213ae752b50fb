//! Papers as experiments, from their files to what people read.

mod all;
mod figures;
mod files;
mod played;
mod tiny;
