//! The results of a run, from its trace alone: a [`Meter`], the list of its [`jobs`], and [`statistics`] over many
//! runs.

pub mod jobs;
mod meter;
pub mod statistics;

pub use meter::{
    CpuMeasures, Domain, DomainMeasures, HostMeasures, Jobs, Measures, Member, Meter, Promise, Siblings, XenMon,
};
