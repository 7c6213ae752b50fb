//! The results of a run, from its trace alone: a [`Meter`], the list of its [`jobs`], and [`statistics`] over many
//! runs. [`Supply`] judges a promise by the kernel's record of a thread, independently of a trace.

pub mod jobs;
mod meter;
pub mod statistics;
mod supply;

pub use meter::{
    CpuMeasures, Doing, Domain, DomainMeasures, EndedPeriods, HostMeasures, Jobs, Measures, Member, Meter, PeriodSink,
    PeriodWatch, Promise, Siblings, XenMon,
};
pub use supply::{JudgedPeriods, Supply};
